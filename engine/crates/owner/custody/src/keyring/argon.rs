//! Argon2id (RFC 9106): how dear a guess at the passphrase is.

use argon2::{Algorithm, Argon2, Version};
use coffer_sealing::{DerivationKey, Secret};
use zeroize::Zeroizing;

use crate::{Passphrase, keyring::KeyringError};

/// The price of one guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// Memory in KiB.
    pub memory: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

/// The least that is accepted, and what new keyrings get: RFC 9106's second recommended option.
pub const FLOOR: Params = Params {
    memory: 64 << 10,
    passes: 3,
    lanes: 4,
};
/// The most that is accepted: a made-up file must not make us allocate or compute at its will.
pub const CEILING: Params = Params {
    memory: 2 << 20,
    passes: 32,
    lanes: 64,
};

impl Params {
    /// Errors outside of [`FLOOR`] and [`CEILING`]. Called before anything is allocated.
    pub(super) fn check(&self) -> Result<(), KeyringError> {
        if self.memory < FLOOR.memory || self.passes < FLOOR.passes || self.lanes < FLOOR.lanes {
            return Err(KeyringError::ParamsTooWeak(*self));
        }
        if self.memory > CEILING.memory
            || self.passes > CEILING.passes
            || self.lanes > CEILING.lanes
        {
            return Err(KeyringError::ParamsTooDear(*self));
        }
        Ok(())
    }
}

/// The root of a keyring file's keys.
pub(super) fn derive(
    passphrase: &Passphrase,
    salt: &[u8],
    params: Params,
) -> Result<DerivationKey, KeyringError> {
    params.check()?;
    let refused = |_| KeyringError::Argon;
    let argon = argon2::Params::new(params.memory, params.passes, params.lanes, Some(32))
        .map_err(refused)?;
    let mut bytes = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, argon)
        .hash_password_into(passphrase.expose(), salt, bytes.as_mut_slice())
        .map_err(refused)?;
    Ok(DerivationKey::new("keyring", &Secret::from_bytes(*bytes)))
}
