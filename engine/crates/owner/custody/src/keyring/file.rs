//! Files under a passphrase: the keyring, and what is exported of one.
//!
//! ```text
//! 0  magic "CFKR" or "CFKX"   4  version u8
//! 5  Argon2id: memory KiB u32 LE, passes u32 LE, lanes u32 LE   17 salt, 32 bytes
//! 49 key-check value, 16 bytes                                  65 sealed contents, a blob of
//!                                                                  coffer-sealing
//! ```
//! Everything before the key-check value goes into the keys, so none of it can change unseen. The
//! version says how the contents are laid out; a keyring of an older one is read, and written anew
//! in the newest.

use std::{fs::File, io::Read, path::Path};

use coffer_sealing::{
    DerivationKey,
    fields::{Malformed, Reader, Writer},
    fill_random, open_blob, seal_blob,
};
use zeroize::Zeroizing;

use crate::{
    Passphrase,
    keyring::{KeyringError, Params, argon},
    table_key::check_value,
};

const MAX_FILE: u64 = 4 << 20;

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Keyring,
    Export,
}

impl Kind {
    fn magic(self) -> &'static [u8; 4] {
        match self {
            Self::Keyring => b"CFKR",
            Self::Export => b"CFKX",
        }
    }

    /// The version that is written; those before it are read too.
    pub(super) fn newest(self) -> u8 {
        match self {
            Self::Keyring => 2,
            Self::Export => 1,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Keyring => "contents",
            Self::Export => "export",
        }
    }

    fn not_one(self, path: &Path) -> KeyringError {
        match self {
            Self::Keyring => KeyringError::NotAKeyring(path.to_path_buf()),
            Self::Export => KeyringError::NotAnExport(path.to_path_buf()),
        }
    }
}

/// The clear part, as read or drawn. From a file it is not yet proved to be what was written.
pub(super) struct Header {
    kind: Kind,
    version: u8,
    params: Params,
    salt: [u8; 32],
    /// None before the first unlocking.
    check: Option<[u8; 16]>,
}

/// A header and the keys that its passphrase gave.
pub(super) struct Unlocked {
    kind: Kind,
    params: Params,
    salt: [u8; 32],
    root: DerivationKey,
}

impl Header {
    pub(super) fn draw(kind: Kind, params: Params) -> Result<Self, KeyringError> {
        let mut salt = [0; 32];
        fill_random(&mut salt)?;
        Ok(Self {
            kind,
            version: kind.newest(),
            params,
            salt,
            check: None,
        })
    }

    /// The header, and the sealed contents behind it.
    pub(super) fn parse<'a>(
        kind: Kind,
        path: &Path,
        bytes: &'a [u8],
    ) -> Result<(Self, &'a [u8]), KeyringError> {
        let not_ours = |_| kind.not_one(path);
        let mut reader = Reader::new(bytes);
        let version = Self::parse_magic(kind, &mut reader).map_err(not_ours)?;
        if !(1..=kind.newest()).contains(&version) {
            return Err(KeyringError::UnknownVersion {
                path: path.to_path_buf(),
                version,
            });
        }
        let header = Self::parse_fields(kind, version, &mut reader).map_err(not_ours)?;
        header.params.check()?;
        Ok((header, reader.rest()))
    }

    fn parse_magic(kind: Kind, reader: &mut Reader<'_>) -> Result<u8, Malformed> {
        if reader.raw(kind.magic().len())? != kind.magic() {
            return Err(Malformed);
        }
        let [version] = reader.array()?;
        Ok(version)
    }

    fn parse_fields(kind: Kind, version: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let params = Params {
            memory: reader.u32()?,
            passes: reader.u32()?,
            lanes: reader.u32()?,
        };
        Ok(Self {
            kind,
            version,
            params,
            salt: reader.array()?,
            check: Some(reader.array()?),
        })
    }

    pub(super) fn version(&self) -> u8 {
        self.version
    }

    /// The slow step. A key-check value that was read must match.
    pub(super) fn unlock(&self, passphrase: &Passphrase) -> Result<Unlocked, KeyringError> {
        let unlocked = Unlocked {
            kind: self.kind,
            params: self.params,
            salt: self.salt,
            root: argon::derive(passphrase, &self.salt, self.params)?,
        };
        if self.check.is_some() && !unlocked.is_of(self)? {
            return Err(KeyringError::WrongPassphrase);
        }
        Ok(unlocked)
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::with_capacity(49);
        writer.raw(self.kind.magic()).raw(&[self.version]);
        writer
            .u32(self.params.memory)
            .u32(self.params.passes)
            .u32(self.params.lanes)
            .raw(&self.salt);
        writer.finish()
    }
}

impl Unlocked {
    pub(super) fn params(&self) -> Params {
        self.params
    }

    /// Whether a header belongs to these keys.
    pub(super) fn is_of(&self, read: &Header) -> Result<bool, KeyringError> {
        let check = check_value(&self.root, &read.encode())?;
        let same = |read: &[u8; 16]| {
            aws_lc_rs::constant_time::verify_slices_are_equal(read, &check).is_ok()
        };
        Ok(read.salt == self.salt
            && read.params == self.params
            && read.check.as_ref().is_some_and(same))
    }

    /// The whole file, in the newest version.
    pub(super) fn seal(&self, contents: &[u8]) -> Result<Vec<u8>, KeyringError> {
        let header = Header {
            kind: self.kind,
            version: self.kind.newest(),
            params: self.params,
            salt: self.salt,
            check: None,
        }
        .encode();
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&check_value(&self.root, &header)?);
        bytes.extend(seal_blob(
            &self.root,
            self.kind.label(),
            &[&header],
            contents,
        )?);
        Ok(bytes)
    }

    /// The contents behind a header that [`Unlocked::is_of`] said yes to.
    pub(super) fn open(
        &self,
        path: &Path,
        header: &Header,
        body: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
        let damaged = |_| KeyringError::Damaged(path.to_path_buf());
        let plain =
            open_blob(&self.root, self.kind.label(), &[&header.encode()], body).map_err(damaged)?;
        Ok(Zeroizing::new(plain))
    }
}

pub(super) fn read(kind: Kind, path: &Path) -> Result<Vec<u8>, KeyringError> {
    let failed = |source| KeyringError::io(path, source);
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(failed)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= MAX_FILE => Ok(bytes),
        _ => Err(kind.not_one(path)),
    }
}
