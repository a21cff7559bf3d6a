//! The contents of a keyring file as a running program holds them: what another process changed is
//! seen at the next use.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    Stamp,
    keyring::{
        KeyringError,
        contents::Contents,
        file::{self, Header, Kind, Unlocked},
    },
};

pub(super) struct Held(RwLock<(Stamp, Arc<Contents>)>);

impl Held {
    pub(super) fn new(stamp: Stamp, contents: Contents) -> Self {
        Self(RwLock::new((stamp, Arc::new(contents))))
    }

    /// What the file holds now. After its passphrase was changed by another process, what it held
    /// before: a change of the passphrase is no revocation, and a running application goes on.
    pub(super) fn current(
        &self,
        path: &Path,
        unlocked: &Unlocked,
    ) -> Result<Arc<Contents>, KeyringError> {
        let stamp = stamp(path)?;
        {
            let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if held.0 == stamp {
                return Ok(Arc::clone(&held.1));
            }
        }
        match reread(path, unlocked) {
            Ok(contents) => {
                let contents = Arc::new(contents);
                *self.0.write().unwrap_or_else(PoisonError::into_inner) =
                    (stamp, Arc::clone(&contents));
                Ok(contents)
            }
            Err(KeyringError::ChangedMeanwhile(_)) => {
                let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
                Ok(Arc::clone(&held.1))
            }
            Err(error) => Err(error),
        }
    }

    /// After writing it, while it is still locked.
    pub(super) fn replace(&self, path: &Path, contents: Contents) -> Result<(), KeyringError> {
        let now = (stamp(path)?, Arc::new(contents));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }
}

/// Of the file as it is now.
pub(super) fn stamp(path: &Path) -> Result<Stamp, KeyringError> {
    Stamp::of(path).map_err(|source| KeyringError::io(path, source))
}

/// The file's contents now, which another process may have changed; its passphrase must be the same
/// still.
pub(super) fn reread(path: &Path, unlocked: &Unlocked) -> Result<Contents, KeyringError> {
    let bytes = file::read(Kind::Keyring, path)?;
    let (header, body) = Header::parse(Kind::Keyring, path, &bytes)?;
    if !unlocked.is_of(&header)? {
        return Err(KeyringError::ChangedMeanwhile(path.to_path_buf()));
    }
    open(path, unlocked, &header, body)
}

/// What lies behind a header, in whatever version.
pub(super) fn open(
    path: &Path,
    unlocked: &Unlocked,
    header: &Header,
    body: &[u8],
) -> Result<Contents, KeyringError> {
    let plain = unlocked.open(path, header, body)?;
    let decoded = match header.version() {
        1 => Contents::decode_first(&plain),
        _ => Contents::decode(&plain),
    };
    decoded.map_err(|_| KeyringError::Damaged(path.to_path_buf()))
}
