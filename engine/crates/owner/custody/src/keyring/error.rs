//! Why a keyring does not open, change, wrap or unwrap.

use std::path::{Path, PathBuf};

use coffer_sealing::TableId;

use crate::keyring::{CEILING, FLOOR, Params};

/// One variant per cause.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// There is a file already.
    #[error("there is a keyring already: {path}", path = _0.display())]
    Exists(PathBuf),
    /// There is no file.
    #[error("there is no keyring at {path}", path = _0.display())]
    NotFound(PathBuf),
    /// The file cannot be read or written.
    #[error("cannot use the keyring {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a keyring file.
    #[error("{path} is not a keyring", path = _0.display())]
    NotAKeyring(PathBuf),
    /// A keyring of a version that this build does not know.
    #[error("{path} has the unknown format version {version}", path = path.display())]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u8,
    },
    /// Argon2 parameters under the floor.
    #[error("the keyring's Argon2 parameters are too weak ({memory} KiB, {passes} passes, {lanes} lanes)", memory = _0.memory, passes = _0.passes, lanes = _0.lanes)]
    ParamsTooWeak(Params),
    /// Argon2 parameters over the ceiling.
    #[error("the keyring's Argon2 parameters are too dear ({memory} KiB, {passes} passes, {lanes} lanes)", memory = _0.memory, passes = _0.passes, lanes = _0.lanes)]
    ParamsTooDear(Params),
    /// Argon2 failed: not enough memory.
    #[error("the passphrase could not be turned into a key")]
    Argon,
    /// The key-check value does not match.
    #[error("wrong passphrase")]
    WrongPassphrase,
    /// The passphrase is right, the contents are not what was written.
    #[error("the keyring {path} is damaged or was altered", path = _0.display())]
    Damaged(PathBuf),
    /// Another process changed the passphrase since the file was opened.
    #[error("the passphrase of {path} was changed meanwhile", path = _0.display())]
    ChangedMeanwhile(PathBuf),
    /// A master's name with other than letters, digits, `-`, `_` and `.`, or too long.
    #[error("{0:?} is no name for a master key")]
    BadName(String),
    /// A master of that name exists.
    #[error("there is a master key {0:?} already")]
    MasterExists(String),
    /// There is no master of that name.
    #[error("there is no master key {name:?}")]
    NoMaster {
        /// The name.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// A master that was disabled.
    #[error("the master key {0:?} is disabled")]
    Disabled(String),
    /// A master whose keys were destroyed.
    #[error("the master key {0:?} was destroyed")]
    Destroyed(String),
    /// A version that a master does not have.
    #[error("the master key {master:?} has no version {version}")]
    NoVersion {
        /// The master's name.
        master: String,
        /// The version.
        version: u32,
        /// Those that it has.
        known: Vec<u32>,
    },
    /// The version that wraps cannot go alone.
    #[error("version {version} of the master key {master:?} is its newest")]
    NewestVersion {
        /// The master's name.
        master: String,
        /// The version.
        version: u32,
    },
    /// A file that holds no exported keys.
    #[error("{path} holds no exported keys", path = _0.display())]
    NotAnExport(PathBuf),
    /// An imported version that is another key here.
    #[error("version {version} of the master key {master:?} is another key in this keyring")]
    OtherVersion {
        /// The master's name.
        master: String,
        /// The version.
        version: u32,
    },
    /// A snapshot's key is not the one, or the bytes are no snapshot.
    #[error("the recovered key does not open the keyring's snapshot")]
    RecoveryKey,
    /// A snapshot that was changed.
    #[error("the keyring's snapshot was altered")]
    SnapshotAltered,
    /// A whole keyring was wanted, and some masters are there.
    #[error("{path} holds masters only, not a whole keyring", path = _0.display())]
    NotWhole(PathBuf),
    /// The bytes are no wrapped table key.
    #[error("a wrapped table key is malformed")]
    MalformedWrappedKey,
    /// The master of that name is not the one that wrapped.
    #[error("the key of table {table} was wrapped by another master key named {master:?}")]
    OtherMaster {
        /// The table.
        table: TableId,
        /// The master's name.
        master: String,
    },
    /// The right master, but altered bytes.
    #[error("the wrapped key of table {0} was altered")]
    AlteredWrappedKey(TableId),
    /// Random source or crypto library failed.
    #[error(transparent)]
    Sealing(#[from] coffer_sealing::Error),
}

impl KeyringError {
    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::NotFound => KeyringError::NotFound(path.to_path_buf()),
            _ => KeyringError::Io {
                path: path.to_path_buf(),
                source,
            },
        }
    }

    /// A stable word for the cause.
    pub fn code(&self) -> &'static str {
        match self {
            KeyringError::Exists(_) => "keyring_exists",
            KeyringError::NotFound(_) => "keyring_not_found",
            KeyringError::Io { .. } => "keyring_io",
            KeyringError::NotAKeyring(_) => "not_a_keyring",
            KeyringError::UnknownVersion { .. } => "keyring_version",
            KeyringError::ParamsTooWeak(_) => "argon_too_weak",
            KeyringError::ParamsTooDear(_) => "argon_too_dear",
            KeyringError::Argon => "argon_failed",
            KeyringError::WrongPassphrase => "wrong_passphrase",
            KeyringError::Damaged(_) => "keyring_damaged",
            KeyringError::ChangedMeanwhile(_) => "keyring_changed",
            KeyringError::BadName(_) => "bad_master_name",
            KeyringError::MasterExists(_) => "master_exists",
            KeyringError::NoMaster { .. } => "no_master",
            KeyringError::Disabled(_) => "master_disabled",
            KeyringError::Destroyed(_) => "master_destroyed",
            KeyringError::NoVersion { .. } => "no_master_version",
            KeyringError::NewestVersion { .. } => "newest_master_version",
            KeyringError::NotAnExport(_) => "not_an_export",
            KeyringError::OtherVersion { .. } => "other_master_version",
            KeyringError::RecoveryKey => "recovery_key",
            KeyringError::SnapshotAltered => "snapshot_altered",
            KeyringError::NotWhole(_) => "not_a_whole_keyring",
            KeyringError::MalformedWrappedKey => "wrapped_key_malformed",
            KeyringError::OtherMaster { .. } => "other_master",
            KeyringError::AlteredWrappedKey(_) => "wrapped_key_altered",
            KeyringError::Sealing(error) => error.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            KeyringError::Exists(_) => "use it, or choose another home with --home or COFFER_HOME",
            KeyringError::NotFound(_) => "make one with coffer init, or name its folder with --home or COFFER_HOME",
            KeyringError::Io { .. } => "check the file's permissions and the free space",
            KeyringError::NotAKeyring(_) => "name the folder that coffer init made, with --home or COFFER_HOME",
            KeyringError::UnknownVersion { .. } => "use a newer version of Coffer",
            KeyringError::ParamsTooWeak(_) => {
                return Some(format!(
                    "at least {} KiB, {} passes and {} lanes are needed; if no one made the file so, someone altered it",
                    FLOOR.memory, FLOOR.passes, FLOOR.lanes
                ));
            }
            KeyringError::ParamsTooDear(_) => {
                return Some(format!(
                    "at most {} KiB, {} passes and {} lanes are accepted; if no one made the file so, someone altered it",
                    CEILING.memory, CEILING.passes, CEILING.lanes
                ));
            }
            KeyringError::Argon => "it needs 64 MiB of memory, or what the keyring was made with",
            KeyringError::WrongPassphrase => "check the passphrase, and that this is the keyring it belongs to",
            KeyringError::Damaged(_) => "restore the file from a backup",
            KeyringError::ChangedMeanwhile(_) => "open it again with the new passphrase",
            KeyringError::BadName(_) => "use letters, digits, '-', '_' and '.', at most 64 of them",
            KeyringError::MasterExists(_) => "choose another name",
            KeyringError::NoMaster { known, .. } => {
                return Some(format!(
                    "the keyring has {}; the policy names a table's master",
                    known.join(", ")
                ));
            }
            KeyringError::Disabled(name) => {
                return Some(format!("coffer keys enable {name} lets it wrap and unwrap again"));
            }
            KeyringError::Destroyed(_) => {
                "what it wrapped stays closed, unless an export or the shares of the keyring hold it"
            }
            KeyringError::NoVersion { known, .. } => {
                let known: Vec<String> = known.iter().map(u32::to_string).collect();
                return Some(format!(
                    "the keyring has version {}; was the key wrapped by a keyring that was changed since it was copied?",
                    known.join(", ")
                ));
            }
            KeyringError::NewestVersion { .. } => "rotate the master first, or destroy all of it",
            KeyringError::NotAnExport(_) => "name a file that coffer keys export made",
            KeyringError::OtherVersion { .. } => {
                "the two have only their name in common: import it under another with --as"
            }
            KeyringError::RecoveryKey | KeyringError::SnapshotAltered => {
                "at least one share was altered: leave out another one each time, until they fit"
            }
            KeyringError::NotWhole(_) => "import it into a keyring; a whole one is exported without naming a master",
            KeyringError::MalformedWrappedKey | KeyringError::AlteredWrappedKey(_) => {
                "restore the register from a backup"
            }
            KeyringError::OtherMaster { .. } => "use the keyring that the table was encrypted with",
            KeyringError::Sealing(error) => return error.hint(),
        };
        Some(text.to_string())
    }
}
