//! Why a master does not wrap or unwrap.

use crate::{KeyringError, master::KeyContext};

/// One variant per cause. `master` is the policy's name for it.
#[derive(Debug, thiserror::Error)]
pub enum MasterError {
    /// The keyring refused.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The policy does not name the master that wrapped.
    #[error(
        "the key of {context} is wrapped by the master {master:?}, which is neither in [masters] \
            of the policy nor in the keyring"
    )]
    NotConfigured {
        /// Whose key.
        context: KeyContext,
        /// The master's name.
        master: String,
    },
    /// No server answered in time, or none took the connection.
    #[error("{of} cannot be reached: {reason}")]
    Unreachable {
        /// The master, described.
        of: String,
        /// What each of them did.
        reason: String,
    },
    /// It answered that this caller may not.
    #[error("{of} denies it: {reason}")]
    Denied {
        /// The master, described.
        of: String,
        /// In its own words, cut short.
        reason: String,
    },
    /// It has no such key.
    #[error("{of} has no key {key:?}")]
    NoSuchKey {
        /// The master, described.
        of: String,
        /// The key.
        key: String,
    },
    /// It has the key, but not the version that wrapped.
    #[error("{of} no longer has version {version:?} of its key")]
    VersionGone {
        /// The master, described.
        of: String,
        /// The version.
        version: String,
    },
    /// It has the key, and it is switched off or waits to be deleted.
    #[error("the key of {of} is switched off: {reason}")]
    Disabled {
        /// The master, described.
        of: String,
        /// In its own words, cut short.
        reason: String,
    },
    /// It exists already.
    #[error("{of} has its key already")]
    Exists {
        /// The master, described.
        of: String,
    },
    /// It answered, and the answer is not what such a server says.
    #[error("{of} answered what no such server answers: {reason}")]
    Garbage {
        /// The master, described.
        of: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Its key is shorter than 256 bits.
    #[error("the key of {of} has {bits} bits, and 256 are needed")]
    Weak {
        /// The master, described.
        of: String,
        /// How many it has.
        bits: usize,
    },
    /// What is needed to ask it is not there: credentials, a certificate file, a PIN, a module.
    #[error("{of} cannot be asked: {reason}")]
    Settings {
        /// The master, described.
        of: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// This master cannot do that.
    #[error("{of} cannot be {what} from here")]
    Unsupported {
        /// "made", "rotated".
        what: &'static str,
        /// The master, described.
        of: String,
    },
    /// The bytes are no wrapped key.
    #[error("the wrapped key of {0} is malformed")]
    Malformed(KeyContext),
    /// A wrapped key that was altered, or is another table's or link's.
    #[error("the wrapped key of {0} was altered, or is another's")]
    Altered(KeyContext),
    /// Random source or crypto library failed.
    #[error(transparent)]
    Sealing(#[from] coffer_sealing::Error),
}

coffer_sealing::error_table! {
    MasterError: &'static str;
    Self::Keyring(error) => error.code(), error.hint();
    Self::NotConfigured { .. } => "master_unknown",
        "put the master's line back into [masters] of the policy";
    Self::Unreachable { .. } => "kms_unreachable",
        "is the server up, and its address in [masters] of the policy right? nothing was changed: \
            run it again when it answers";
    Self::Denied { .. } => "kms_denied",
        "let the server's access rules give this user the key, or name another user or other \
            credentials in [masters]";
    Self::NoSuchKey { .. } => "kms_no_key",
        "make it with coffer keys create, or name another in [masters]; if it was deleted, \
            restore it from the server's backup";
    Self::VersionGone { .. } => "kms_version_gone",
        "restore that version from the server's backup: without it what it wrapped does not open";
    Self::Disabled { .. } => "kms_key_disabled",
        "enable it at the server, or cancel its deletion while that can be done";
    Self::Exists { .. } => "kms_key_exists",
        "use it as it is; coffer keys rotate gives it a new version";
    Self::Garbage { .. } => "kms_garbage",
        "does the address in [masters] lead to that kind of server, and not to a proxy or a login \
            page?";
    Self::Weak { .. } => "kms_weak_key",
        "make a key of 256 bits, with coffer keys create or at the server";
    Self::Settings { .. } => "kms_settings",
        "docs/reference/masters.md says what each kind of master needs";
    Self::Unsupported { .. } => "kms_unsupported", "do it with the server's own tools";
    Self::Malformed(_) => "wrapped_key_malformed", "restore the register from a backup";
    Self::Altered(_) => "wrapped_key_altered", "restore the register from a backup";
    Self::Sealing(error) => error.code(), error.hint();
}

impl MasterError {
    /// Whether the same call may succeed a little later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}
