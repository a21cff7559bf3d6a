//! Shares of a keyring: any `k` of `n` give all of it back, fewer give nothing.
//!
//! The keyring as it is at that moment is sealed under a random key ([`Keyring::snapshot`]); the
//! key is split by Shamir's scheme over GF(2^8) (Shamir, "How to share a secret", 1979), and each
//! share carries its part of the key and the whole sealed snapshot. So shares need nothing beside
//! them, neither the keyring file nor its passphrase. What they do not hold: masters and versions
//! that were made later, and the register, whose wrapped keys are backed up as a file.
//!
//! Guarantee: fewer shares than the threshold are independent of the key. An altered share is found
//! out, by its checksum or, if that was mended too, because the joined key does not open the
//! snapshot; which of them it was then shows only when there are more shares than needed.

mod error;
mod share;
mod text;

use aws_lc_rs::digest::{SHA256, digest};
use coffer_sealing::{Secret, fill_random};
use rand_core::{Infallible, TryCryptoRng, TryRng};
use vsss_rs::Gf256;
use zeroize::Zeroizing;

use crate::{ExportedKeys, Keyring, KeyringError};

pub use error::RecoveryError;
pub use share::{Scheme, SetId, Share};

/// How many choices of shares are tried where there are more than needed and some do not fit.
const TRIES: usize = 1000;

/// Splits a keyring.
pub fn split(keyring: &Keyring, scheme: Scheme) -> Result<Vec<Share>, RecoveryError> {
    let key = Secret::generate()?;
    let snapshot = keyring.snapshot(&key)?;
    let mut random = SystemRandom { failed: false };
    let (threshold, count) = (usize::from(scheme.threshold()), usize::from(scheme.count()));
    let parts = Gf256::split_array(threshold, count, key.expose(), &mut random)
        .map_err(|_| RecoveryError::Sharing)?;
    let parts = Zeroizing::new(parts);
    if random.failed {
        return Err(coffer_sealing::Error::Randomness.into());
    }
    let set = SetId::of(&snapshot);
    parts
        .iter()
        .map(|part| {
            let (number, part) = part.split_first().ok_or(RecoveryError::Sharing)?;
            let part = Secret::from_slice(part)?;
            Ok(Share::new(set, scheme, *number, part, snapshot.clone()))
        })
        .collect()
}

/// Joins shares of one set.
pub fn join(shares: &[Share]) -> Result<ExportedKeys, RecoveryError> {
    let first = shares.first().ok_or(RecoveryError::None)?;
    let scheme = first.scheme();
    for (at, share) in shares.iter().enumerate() {
        if share.set() != first.set() || share.scheme() != scheme {
            return Err(RecoveryError::Mixed {
                first: first.name(),
                other: share.name(),
            });
        }
        if shares
            .iter()
            .take(at)
            .any(|other| other.number() == share.number())
        {
            return Err(RecoveryError::Twice(share.number()));
        }
    }
    let need = usize::from(scheme.threshold());
    if shares.len() < need {
        return Err(RecoveryError::TooFew {
            have: shares.len(),
            need,
            of: scheme.count(),
        });
    }
    let mut last = RecoveryError::Unfit { have: shares.len() };
    for choice in choices(shares.len(), need).take(TRIES) {
        let chosen: Vec<&Share> = choice.iter().filter_map(|at| shares.get(*at)).collect();
        match open(&chosen) {
            Ok(keys) => return Ok(keys),
            Err(RecoveryError::Keyring(KeyringError::RecoveryKey)) => (),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open(shares: &[&Share]) -> Result<ExportedKeys, RecoveryError> {
    let part = |share: &&Share| [&[share.number()], share.part().expose().as_slice()].concat();
    let parts: Zeroizing<Vec<Vec<u8>>> = Zeroizing::new(shares.iter().map(part).collect());
    let key = Gf256::combine_array(parts.as_slice()).map_err(|_| RecoveryError::Sharing)?;
    let key = Secret::from_slice(&Zeroizing::new(key))?;
    let snapshot = shares
        .first()
        .map(|share| share.snapshot())
        .unwrap_or_default();
    Ok(ExportedKeys::from_snapshot(&key, snapshot)?)
}

/// All ways to take `need` of `have` places, in order.
fn choices(have: usize, need: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut next: Option<Vec<usize>> = (need <= have).then(|| (0..need).collect());
    std::iter::from_fn(move || {
        let now = next.take()?;
        // The rightmost place that can still move moves, and those behind it follow right after it.
        let movable = (0..need).rev().find(|at| {
            let most = have.saturating_sub(need).saturating_add(*at);
            now.get(*at).is_some_and(|position| *position < most)
        });
        next = movable.map(|at| {
            let moved = now.get(at).copied().unwrap_or_default().saturating_add(1);
            let kept = now.iter().copied().take(at);
            kept.chain((moved..).take(need.saturating_sub(at)))
                .collect()
        });
        Some(now)
    })
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let found = digest(&SHA256, &parts.concat());
    found.as_ref().first_chunk().copied().unwrap_or_default()
}

/// The system's random source, in the shape that the crate wants. A failure is kept, and what was
/// made then is thrown away.
struct SystemRandom {
    failed: bool,
}

impl TryRng for SystemRandom {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        if fill_random(bytes).is_err() {
            self.failed = true;
            // Not zeros: a caller that draws until it has another value must come to an end.
            bytes.fill(1);
        }
        Ok(())
    }
}

impl TryCryptoRng for SystemRandom {}

#[cfg(test)]
mod tests;
