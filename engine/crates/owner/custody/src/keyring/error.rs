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
    #[error("the keyring's Argon2 parameters are too weak ({memory} KiB, {passes} passes, {lanes} \
        lanes)", memory = _0.memory, passes = _0.passes, lanes = _0.lanes)]
    ParamsTooWeak(Params),
    /// Argon2 parameters over the ceiling.
    #[error("the keyring's Argon2 parameters are too dear ({memory} KiB, {passes} passes, {lanes} \
        lanes)", memory = _0.memory, passes = _0.passes, lanes = _0.lanes)]
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

coffer_sealing::error_table! {
    KeyringError: &'static str;
    Self::Exists(_) => "keyring_exists",
        "use it, or choose another config directory with --config-dir or COFFER_CONFIG_DIR";
    Self::NotFound(_) => "keyring_not_found",
        "make one with coffer init, or name its folder with --config-dir or COFFER_CONFIG_DIR";
    Self::Io { .. } => "keyring_io", "check the file's permissions and the free space";
    Self::NotAKeyring(_) => "not_a_keyring",
        "name the folder that coffer init made, with --config-dir or COFFER_CONFIG_DIR";
    Self::UnknownVersion { .. } => "keyring_version", "use a newer version of Coffer";
    Self::ParamsTooWeak(_) => "argon_too_weak",
        Some(format!(
                "at least {} KiB, {} passes and {} lanes are needed; if no one made the file so, \
                    someone altered it",
                FLOOR.memory, FLOOR.passes, FLOOR.lanes
            ));
    Self::ParamsTooDear(_) => "argon_too_dear",
        Some(format!(
                "at most {} KiB, {} passes and {} lanes are accepted; if no one made the file so, \
                    someone altered it",
                CEILING.memory, CEILING.passes, CEILING.lanes
            ));
    Self::Argon => "argon_failed", "it needs 64 MiB of memory, or what the keyring was made with";
    Self::WrongPassphrase => "wrong_passphrase",
        "check the passphrase, and that this is the keyring it belongs to";
    Self::Damaged(_) => "keyring_damaged", "restore the file from a backup";
    Self::ChangedMeanwhile(_) => "keyring_changed", "open it again with the new passphrase";
    Self::BadName(_) => "bad_master_name",
        "use letters, digits, '-', '_' and '.', at most 64 of them";
    Self::MasterExists(_) => "master_exists", "choose another name";
    Self::NoMaster { known, .. } => "no_master",
        Some(format!(
                "the keyring has {}; the policy names a table's master",
                known.join(", ")
            ));
    Self::Disabled(name) => "master_disabled",
        Some(format!("coffer keys enable {name} lets it wrap and unwrap again"));
    Self::Destroyed(_) => "master_destroyed",
        "what it wrapped stays closed, unless an export or the shares of the keyring hold it";
    Self::NoVersion { known, .. } => "no_master_version",
        {
            let known: Vec<String> = known.iter().map(u32::to_string).collect();
            Some(format!(
                    "the keyring has version {}; was the key wrapped by a keyring that was \
                        changed since it was copied?",
                    known.join(", ")
                ))
        };
    Self::NewestVersion { .. } => "newest_master_version",
        "rotate the master first, or destroy all of it";
    Self::NotAnExport(_) => "not_an_export", "name a file that coffer keys export made";
    Self::OtherVersion { .. } => "other_master_version",
        "the two have only their name in common: import it under another with --as";
    Self::RecoveryKey => "recovery_key",
        "at least one share was altered: leave out another one each time, until they fit";
    Self::SnapshotAltered => "snapshot_altered",
        "at least one share was altered: leave out another one each time, until they fit";
    Self::NotWhole(_) => "not_a_whole_keyring",
        "import it into a keyring; a whole one is exported without naming a master";
    Self::MalformedWrappedKey => "wrapped_key_malformed", "restore the register from a backup";
    Self::OtherMaster { .. } => "other_master", "use the keyring that the table was encrypted with";
    Self::AlteredWrappedKey(_) => "wrapped_key_altered", "restore the register from a backup";
    Self::Sealing(error) => error.code(), error.hint();
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
}
