//! The keyring file.
//!
//! ```text
//! 0  magic "CFKR"   4  version u8 (1)   5  Argon2id: memory KiB u32 LE, passes u32 LE, lanes u32 LE   17  salt, 32 bytes
//! 49 key-check value, 16 bytes          65 sealed contents, a blob of coffer-sealing
//! ```
//! Everything before the key-check value goes into the keys, so none of it can change unseen.

use std::{fs::File, io::Read, path::Path};

use coffer_sealing::{DerivationKey, Error as SealingError, fill_random, open_blob, seal_blob};
use zeroize::Zeroizing;

use super::{KeyringError, Params, argon, contents::Contents};
use crate::{
    Passphrase,
    codec::{Malformed, Reader, Writer},
    table_key::check_value,
};

const MAGIC: &[u8; 4] = b"CFKR";
const VERSION: u8 = 1;
const MAX_FILE: u64 = 4 << 20;

/// The clear part, as read or drawn. From a file it is not yet proved to be what was written.
pub(super) struct Header {
    params: Params,
    salt: [u8; 32],
    /// None before the first unlocking.
    check: Option<[u8; 16]>,
}

/// A header and the keys that its passphrase gave.
pub(super) struct Unlocked {
    header: Header,
    check: [u8; 16],
    root: DerivationKey,
}

impl Header {
    pub(super) fn draw(params: Params) -> Result<Self, KeyringError> {
        let mut salt = [0; 32];
        fill_random(&mut salt)?;
        Ok(Self {
            params,
            salt,
            check: None,
        })
    }

    /// The header, and the sealed contents behind it.
    pub(super) fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), KeyringError> {
        let not_ours = |_| KeyringError::NotAKeyring(path.to_path_buf());
        let mut reader = Reader::new(bytes);
        let [version] = Self::parse_magic(&mut reader).map_err(not_ours)?;
        if version != VERSION {
            return Err(KeyringError::UnknownVersion {
                path: path.to_path_buf(),
                version,
            });
        }
        let header = Self::parse_fields(&mut reader).map_err(not_ours)?;
        header.params.check()?;
        Ok((header, reader.rest()))
    }

    fn parse_magic(reader: &mut Reader<'_>) -> Result<[u8; 1], Malformed> {
        if reader.raw(MAGIC.len())? != MAGIC {
            return Err(Malformed);
        }
        reader.array()
    }

    fn parse_fields(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let params = Params {
            memory: reader.u32()?,
            passes: reader.u32()?,
            lanes: reader.u32()?,
        };
        Ok(Self {
            params,
            salt: reader.array()?,
            check: Some(reader.array()?),
        })
    }

    /// The slow step. A key-check value that was read must match.
    pub(super) fn unlock(self, passphrase: &Passphrase) -> Result<Unlocked, KeyringError> {
        let root = argon::derive(passphrase, &self.salt, self.params)?;
        let check = check_value(&root, &self.encode())?;
        match self.check {
            Some(read) if aws_lc_rs::constant_time::verify_slices_are_equal(&read, &check).is_err() => {
                Err(KeyringError::WrongPassphrase)
            }
            _ => Ok(Unlocked {
                header: self,
                check,
                root,
            }),
        }
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::with_capacity(49);
        writer.raw(MAGIC).raw(&[VERSION]);
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
        self.header.params
    }

    /// Whether a header read later still belongs to these keys.
    pub(super) fn is_of(&self, read: &Header) -> bool {
        read.salt == self.header.salt && read.params == self.header.params && read.check == Some(self.check)
    }

    /// The whole file.
    pub(super) fn encode(&self, contents: &Contents) -> Result<Vec<u8>, SealingError> {
        let header = self.header.encode();
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&self.check);
        bytes.extend(seal_blob(&self.root, "contents", &[&header], &contents.encode())?);
        Ok(bytes)
    }

    pub(super) fn open(&self, path: &Path, body: &[u8]) -> Result<Contents, KeyringError> {
        let damaged = || KeyringError::Damaged(path.to_path_buf());
        let plain = open_blob(&self.root, "contents", &[&self.header.encode()], body).map_err(|_| damaged())?;
        Contents::decode(&Zeroizing::new(plain)).map_err(|_| damaged())
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, KeyringError> {
    let failed = |source| KeyringError::io(path, source);
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(failed)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= MAX_FILE => Ok(bytes),
        _ => Err(KeyringError::NotAKeyring(path.to_path_buf())),
    }
}
