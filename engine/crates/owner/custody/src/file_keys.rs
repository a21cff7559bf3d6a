//! Keys of Parquet files that other programs write, wrapped by our masters: what stands behind the
//! KMS clients for PyArrow and parquet-java.
//!
//! Such a program hands over a key of 16, 24 or 32 bytes (a data key, or with double wrapping a key
//! that wraps data keys) and a master's name, and keeps the text that comes back in the file's key
//! metadata. A master wraps only 32-byte secrets, and may be a server far away. So one secret is
//! drawn and wrapped for each master, and seals all keys that one run wraps; opening them asks the
//! master once for each such secret.
//!
//! ```text
//! base64( magic "CFPK" ‖ id 16 ‖ wrapped secret (length u32 LE, bytes) ‖ blob )
//! ```
//! The blob is sealed under the secret for the label "parquet key", the id and the master's name: a
//! key that is said to be another master's does not open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use coffer_sealing::{
    DerivationKey, Secret,
    fields::{Malformed, Reader, Writer},
    fill_random, open_blob, seal_blob,
};
use zeroize::Zeroizing;

use crate::{KeyContext, MasterError, Vault, WrappedKey};

const MAGIC: &[u8; 4] = b"CFPK";
const LABEL: &str = "parquet key";
/// Characters of a wrapped key at most: an AWS KMS's wrapped data key is shorter than 6,144 bytes.
const MAX_TEXT: usize = 16 << 10;

/// The secret that seals the keys of one program's run: 128 random bits, not secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParquetKeyId([u8; 16]);

impl ParquetKeyId {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Display for ParquetKeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for ParquetKeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ParquetKeyId({self})")
    }
}

/// Why a Parquet file's key is not wrapped or unwrapped. `master` is the name that the file gives.
#[derive(Debug, thiserror::Error)]
pub enum FileKeyError {
    /// The master refused.
    #[error(transparent)]
    Master(#[from] MasterError),
    /// The text is not what this module makes.
    #[error(
        "a key of a Parquet file says that the master {master:?} wrapped it, but not in the way \
            of Coffer's masters"
    )]
    NotOurs {
        /// As the file names it.
        master: String,
    },
    /// It was altered, or wrapped by another master.
    #[error("a key of a Parquet file was altered, or another master than {master:?} wrapped it")]
    Altered {
        /// As the file names it.
        master: String,
    },
    /// No AES key.
    #[error("a key to be wrapped has {0} bytes; AES keys have 16, 24 or 32")]
    Length(usize),
    /// Random source or crypto library failed.
    #[error(transparent)]
    Sealing(#[from] coffer_sealing::Error),
}

impl FileKeyError {
    /// A stable word for the cause.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Master(error) => error.code(),
            Self::NotOurs { .. } => "file_key_not_ours",
            Self::Altered { .. } => "file_key_altered",
            Self::Length(_) => "file_key_length",
            Self::Sealing(error) => error.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Master(error) => return error.hint(),
            Self::NotOurs { .. } => {
                "only files whose writer used Coffer's KMS client (docs/guides/interoperation.md) \
                    have keys that open here"
            }
            Self::Altered { .. } => {
                "was the file written with this config directory's masters, and under that name?"
            }
            Self::Length(_) => return None,
            Self::Sealing(error) => return error.hint(),
        };
        Some(text.to_owned())
    }
}

/// Wraps and unwraps such keys for the life of one program. What it keeps meanwhile is of use only
/// as long as the keyring has the master, enabled, in that version: each use looks there again. (A
/// master outside of the keyring is asked once.)
pub struct FileKeys {
    vault: Arc<Vault>,
    /// By the master's name: what wraps.
    wrapping: Mutex<HashMap<String, Envelope>>,
    /// By the master's name and the envelope's bytes: what was opened.
    opened: Mutex<HashMap<EnvelopeName, Envelope>>,
}

type EnvelopeName = (String, Vec<u8>);
type Found = Option<(EnvelopeName, Envelope)>;

#[derive(Clone)]
struct Envelope {
    id: ParquetKeyId,
    wrapped: WrappedKey,
    root: DerivationKey,
}

impl Envelope {
    fn new(id: ParquetKeyId, wrapped: WrappedKey, secret: &Secret<32>) -> Self {
        Self {
            id,
            wrapped,
            root: DerivationKey::new(LABEL, secret),
        }
    }

    fn context(&self) -> KeyContext {
        KeyContext::Parquet(self.id)
    }
}

impl FileKeys {
    /// By the masters of this vault.
    pub fn new(vault: Arc<Vault>) -> Self {
        Self {
            vault,
            wrapping: Mutex::default(),
            opened: Mutex::default(),
        }
    }

    /// A key of 16, 24 or 32 bytes, wrapped by a master of the keyring or the policy. `enter` is
    /// told what the master wrapped before anything goes out that needs it: files keep such keys
    /// where nobody at the client sees them. Where it fails, nothing goes out.
    pub fn wrap<E: From<FileKeyError>>(
        &self,
        master: &str,
        key: &[u8],
        enter: impl FnOnce(&KeyContext, &WrappedKey) -> Result<(), E>,
    ) -> Result<String, E> {
        if !matches!(key.len(), 16 | 24 | 32) {
            return Err(FileKeyError::Length(key.len()).into());
        }
        let envelope = self.envelope(master, enter)?;
        let blob = seal_blob(
            &envelope.root,
            LABEL,
            &[envelope.id.as_bytes(), master.as_bytes()],
            key,
        )
        .map_err(FileKeyError::Sealing)?;
        let mut writer = Writer::with_capacity(64 + envelope.wrapped.bytes.len() + blob.len());
        writer
            .raw(MAGIC)
            .raw(envelope.id.as_bytes())
            .string(&envelope.wrapped.bytes)
            .raw(&blob);
        Ok(BASE64.encode(writer.finish().as_slice()))
    }

    /// The key that [`FileKeys::wrap`] wrapped, in this run or another.
    pub fn unwrap(&self, master: &str, wrapped: &str) -> Result<Zeroizing<Vec<u8>>, FileKeyError> {
        let not_ours = || FileKeyError::NotOurs {
            master: master.to_owned(),
        };
        if wrapped.len() > MAX_TEXT {
            return Err(not_ours());
        }
        let bytes = BASE64.decode(wrapped).map_err(|_| not_ours())?;
        let (id, envelope, blob) = parse(&bytes).map_err(|_| not_ours())?;
        let (root, found) = self.root(master, id, envelope)?;
        let altered = |_| FileKeyError::Altered {
            master: master.to_owned(),
        };
        let key =
            open_blob(&root, LABEL, &[id.as_bytes(), master.as_bytes()], blob).map_err(altered)?;
        // Only now is the name authentic: a host could give one envelope as many names as it likes,
        // and all would be kept.
        if let Some((name, envelope)) = found {
            lock(&self.opened).insert(name, envelope);
        }
        Ok(Zeroizing::new(key))
    }

    fn envelope<E: From<FileKeyError>>(
        &self,
        master: &str,
        enter: impl FnOnce(&KeyContext, &WrappedKey) -> Result<(), E>,
    ) -> Result<Envelope, E> {
        let mut wrapping = lock(&self.wrapping);
        if let Some(envelope) = wrapping.get(master) {
            if self.still_wraps(envelope) {
                return Ok(envelope.clone());
            }
            wrapping.remove(master);
        }
        let envelope = self.draw(master)?;
        enter(&envelope.context(), &envelope.wrapped)?;
        wrapping.insert(master.to_owned(), envelope.clone());
        Ok(envelope)
    }

    fn draw(&self, master: &str) -> Result<Envelope, FileKeyError> {
        let mut id = [0; 16];
        fill_random(&mut id)?;
        let id = ParquetKeyId(id);
        let secret = Secret::generate()?;
        Ok(Envelope::new(
            id,
            self.vault.wrap_parquet(master, id, &secret)?,
            &secret,
        ))
    }

    /// Whether its master, of the keyring, is enabled, and the version that wrapped it the newest.
    /// Why not is said when another is drawn.
    fn still_wraps(&self, envelope: &Envelope) -> bool {
        let newest = || -> Result<bool, MasterError> {
            self.vault
                .check_by_keyring(&envelope.context(), &envelope.wrapped)?;
            let Some((master, version)) = self.vault.keyring_version(&envelope.wrapped)? else {
                return Ok(true);
            };
            let info = self.vault.keyring().master_info(&master)?;
            Ok(info.newest().is_some_and(|newest| newest.number == version))
        };
        newest().unwrap_or(false)
    }

    /// What opens the keys of an envelope, and, if it was not held, what is to be held.
    fn root(
        &self,
        master: &str,
        id: ParquetKeyId,
        wrapped: &[u8],
    ) -> Result<(DerivationKey, Found), FileKeyError> {
        let name: EnvelopeName = (master.to_owned(), [id.as_bytes(), wrapped].concat());
        let mut opened = lock(&self.opened);
        if let Some(envelope) = opened.get(&name) {
            let open = self
                .vault
                .check_by_keyring(&envelope.context(), &envelope.wrapped);
            let root = envelope.root.clone();
            return match open {
                Ok(()) => Ok((root, None)),
                Err(error) => {
                    opened.remove(&name);
                    Err(error.into())
                }
            };
        }
        drop(opened);
        let wrapped = WrappedKey {
            master: master.to_owned(),
            bytes: wrapped.to_vec(),
        };
        let secret = self.vault.unwrap_parquet(id, &wrapped)?;
        let envelope = Envelope::new(id, wrapped, &secret);
        Ok((envelope.root.clone(), Some((name, envelope))))
    }
}

fn parse(bytes: &[u8]) -> Result<(ParquetKeyId, &[u8], &[u8]), Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.array::<4>()? != *MAGIC {
        return Err(Malformed);
    }
    Ok((
        ParquetKeyId(reader.array()?),
        reader.string()?,
        reader.rest(),
    ))
}

/// Only whole entries are ever put in, so what a panic left behind is sound.
fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyring, Passphrase};

    fn vault(folder: &tempfile::TempDir, name: &str) -> Arc<Vault> {
        let passphrase = Passphrase::new("correct horse").unwrap();
        Arc::new(Vault::from(
            Keyring::create(&folder.path().join(name), &passphrase).unwrap(),
        ))
    }

    impl FileKeys {
        fn wrapped(&self, master: &str, key: &[u8]) -> Result<String, FileKeyError> {
            self.wrap(master, key, |_, _| Ok(()))
        }
    }

    #[test]
    fn keys_go_round_by_their_master_only() {
        let folder = tempfile::tempdir().unwrap();
        let (vault, other) = (vault(&folder, "a"), vault(&folder, "b"));
        vault.keyring().add_master("second").unwrap();
        let (first, second) = ("main", "second");
        let keys = FileKeys::new(vault.clone());
        for length in [16, 24, 32] {
            let wrapped = keys.wrapped(first, &vec![7; length]).unwrap();
            assert_eq!(
                *FileKeys::new(vault.clone())
                    .unwrap(first, &wrapped)
                    .unwrap(),
                vec![7; length]
            );
            // The name is part of what is sealed, though the keyring finds the master by the
            // envelope.
            assert!(matches!(
                keys.unwrap(second, &wrapped),
                Err(FileKeyError::Altered { .. })
            ));
            assert!(
                FileKeys::new(other.clone())
                    .unwrap(first, &wrapped)
                    .is_err()
            );
        }
        assert_ne!(
            keys.wrapped(first, &[7; 16]).unwrap(),
            keys.wrapped(first, &[7; 16]).unwrap()
        );
        assert!(matches!(
            keys.wrapped(first, &[7; 15]),
            Err(FileKeyError::Length(15))
        ));
        assert!(matches!(
            keys.wrapped("none", &[7; 16]),
            Err(FileKeyError::Master(_))
        ));
    }

    #[test]
    fn every_altered_byte_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(&folder, "a");
        let wrapped = BASE64
            .decode(
                FileKeys::new(vault.clone())
                    .wrapped("main", &[7; 16])
                    .unwrap(),
            )
            .unwrap();
        for at in 0..wrapped.len() {
            let mut altered = wrapped.clone();
            altered[at] ^= 1;
            let opened = FileKeys::new(vault.clone()).unwrap("main", &BASE64.encode(&altered));
            assert!(opened.is_err(), "byte {at}");
        }
        for cut in [0, 4, 20, 24, wrapped.len() - 1] {
            let opened =
                FileKeys::new(vault.clone()).unwrap("main", &BASE64.encode(&wrapped[..cut]));
            assert!(opened.is_err(), "cut to {cut}");
        }
    }

    #[test]
    fn keys_outlive_a_rotation_of_their_master() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(&folder, "a");
        let wrapped = FileKeys::new(vault.clone())
            .wrapped("main", &[7; 16])
            .unwrap();
        vault.keyring().rotate("main").unwrap();
        assert_eq!(
            *FileKeys::new(vault.clone())
                .unwrap("main", &wrapped)
                .unwrap(),
            vec![7; 16]
        );
    }

    #[test]
    fn an_envelope_under_made_up_names_is_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(&folder, "a");
        let wrapped = FileKeys::new(vault.clone())
            .wrapped("main", &[7; 16])
            .unwrap();
        let keys = FileKeys::new(vault);
        for number in 0..10 {
            let opened = keys.unwrap(&format!("name{number}"), &wrapped);
            assert!(matches!(opened, Err(FileKeyError::Altered { .. })));
        }
        assert!(lock(&keys.opened).is_empty());
        keys.unwrap("main", &wrapped).unwrap();
        assert_eq!(lock(&keys.opened).len(), 1);
    }

    #[test]
    fn nothing_goes_out_that_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(&folder, "a");
        let keys = FileKeys::new(vault.clone());
        let refuse = |_: &KeyContext, _: &WrappedKey| Err(FileKeyError::Length(0));
        for _ in 0..2 {
            assert!(matches!(
                keys.wrap("main", &[7; 16], refuse),
                Err(FileKeyError::Length(0))
            ));
        }
        let mut entered = Vec::new();
        for rotated in [false, true, false] {
            if rotated {
                vault.keyring().rotate("main").unwrap();
            }
            let enter = |_: &KeyContext, wrapped: &WrappedKey| -> Result<(), FileKeyError> {
                entered.push(vault.keyring_version(wrapped)?.unwrap().1);
                Ok(())
            };
            keys.wrap("main", &[7; 16], enter).unwrap();
        }
        assert_eq!(entered, [1, 2]);
    }

    /// What `coffer keys` does in another process, this one sees at the next key: by the file, as
    /// here.
    #[test]
    fn a_running_program_heeds_what_becomes_of_its_masters() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(&folder, "a");
        let passphrase = Passphrase::new("correct horse").unwrap();
        let owner = Keyring::open(vault.keyring().path(), &passphrase).unwrap();
        let keys = FileKeys::new(vault.clone());
        let first = keys.wrapped("main", &[7; 16]).unwrap();
        assert_eq!(*keys.unwrap("main", &first).unwrap(), [7; 16]);

        let refused = |wrapped: &str| {
            assert!(matches!(
                keys.wrapped("main", &[7; 16]),
                Err(FileKeyError::Master(_))
            ));
            assert!(matches!(
                keys.unwrap("main", wrapped),
                Err(FileKeyError::Master(_))
            ));
        };
        owner.set_enabled("main", false).unwrap();
        refused(&first);
        owner.set_enabled("main", true).unwrap();
        assert_eq!(*keys.unwrap("main", &first).unwrap(), [7; 16]);

        // What is wrapped after a rotation needs the newest version alone.
        keys.wrapped("main", &[7; 16]).unwrap();
        owner.rotate("main").unwrap();
        let second = keys.wrapped("main", &[8; 16]).unwrap();
        assert_eq!(*keys.unwrap("main", &second).unwrap(), [8; 16]);
        assert_eq!(*keys.unwrap("main", &first).unwrap(), [7; 16]);
        owner.destroy("main", Some(1)).unwrap();
        assert!(matches!(
            keys.unwrap("main", &first),
            Err(FileKeyError::Master(_))
        ));
        assert_eq!(*keys.unwrap("main", &second).unwrap(), [8; 16]);
        owner.destroy("main", None).unwrap();
        refused(&second);
    }
}
