//! What a keyring holds, in memory and as the bytes that are sealed.
//!
//! ```text
//! owner's private key 32 ‖ register's key 32 ‖ masters u32 LE ‖ for each, by name:
//! name (length u32 LE, bytes) ‖ created u64 LE ‖ key 32
//! ```

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use coffer_sealing::{DerivationKey, Error as SealingError, Secret};
use zeroize::Zeroizing;

use super::{KeyringError, MasterInfo};
use crate::{
    OwnerKey,
    codec::{Malformed, Reader, Writer},
    table_key::check_value,
};

const MAX_NAME: usize = 64;

pub(super) struct Contents {
    pub(super) owner: OwnerKey,
    pub(super) register: Secret<32>,
    pub(super) masters: BTreeMap<String, Master>,
}

pub(super) struct Master {
    created: u64,
    secret: Secret<32>,
}

impl Master {
    pub(super) fn generate() -> Result<Self, SealingError> {
        // A clock before 1970 is shown as 1970: the time is for people only.
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |passed| passed.as_secs());
        Ok(Self {
            created,
            secret: Secret::generate()?,
        })
    }

    #[cfg(test)]
    pub(super) fn from_secret(secret: Secret<32>) -> Self {
        Self { created: 0, secret }
    }

    pub(super) fn root(&self) -> DerivationKey {
        DerivationKey::new("master", &self.secret)
    }

    pub(super) fn info(&self, name: &str) -> Result<MasterInfo, KeyringError> {
        let check = check_value(&self.root(), b"fingerprint")?;
        let fingerprint = hex::encode(check.first_chunk::<8>().ok_or(SealingError::Crypto)?);
        Ok(MasterInfo {
            name: name.to_string(),
            fingerprint,
            created: self.created,
        })
    }
}

impl Contents {
    pub(super) fn generate(first_master: &str) -> Result<Self, SealingError> {
        Ok(Self {
            owner: OwnerKey::generate()?,
            register: Secret::generate()?,
            masters: BTreeMap::from([(first_master.to_string(), Master::generate()?)]),
        })
    }

    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::with_capacity(68 + self.masters.len() * (4 + MAX_NAME + 8 + 32));
        writer
            .raw(self.owner.pair().secret.expose())
            .raw(self.register.expose());
        writer.u32(u32::try_from(self.masters.len()).unwrap_or(u32::MAX));
        for (name, master) in &self.masters {
            writer
                .string(name.as_bytes())
                .u64(master.created)
                .raw(master.secret.expose());
        }
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let owner = OwnerKey::from_secret(secret(&mut reader)?).map_err(|_| Malformed)?;
        let register = secret(&mut reader)?;
        let mut masters = BTreeMap::new();
        for _ in 0..reader.u32()? {
            let name = reader.text()?.to_string();
            let master = Master {
                created: reader.u64()?,
                secret: secret(&mut reader)?,
            };
            if masters.insert(name, master).is_some() {
                return Err(Malformed);
            }
        }
        reader.end()?;
        Ok(Self {
            owner,
            register,
            masters,
        })
    }
}

fn secret(reader: &mut Reader<'_>) -> Result<Secret<32>, Malformed> {
    Secret::from_slice(reader.raw(32)?).map_err(|_| Malformed)
}

/// Names go into files and messages: keep them plain.
pub(crate) fn check_name(name: &str) -> Result<(), KeyringError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        return Err(KeyringError::BadName(name.chars().take(80).collect()));
    }
    Ok(())
}
