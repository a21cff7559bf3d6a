//! Custody of keys at the owner's side: keyring, masters, policy, the checking of evidence, and the
//! release of keys.
//!
//! * [`ConfigDir`]: the folder with keyring, policy and register;
//! * [`Keyring`]: one passphrase-protected file with the master keys, the owner's X25519 key and
//!   the register's key;
//! * [`Vault`]: the keyring joined with the policy's masters elsewhere; wraps and unwraps the keys
//!   of tables and links;
//! * [`TableKey`] and what is derived from it: column KEKs, footer KEK, manifest key;
//! * [`Policy`]: what the owner allows, a TOML file in which an unknown word is an error, and that
//!   the owner signed; [`Draft`] is one that not verified for;
//! * [`AttestedEngine`]: the proof that an engine's evidence was checked; [`verifiers`] asks the
//!   process that checks it;
//! * [`ReleaseSender`]: HPKE from the owner to an attested engine;
//! * [`recovery`]: shares of a keyring.
//!
//! Not here: the register's contents and the manifest (coffer-catalog), the sockets, prompting for
//! a passphrase. Nothing in this crate prints or logs, and no enclave links it.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

mod attest;
mod config_dir;
mod durable;
mod file_keys;
pub mod keyring;
pub mod location;
pub mod master;
mod owner_key;
mod passphrase;
pub mod policy;
pub mod recovery;
mod release;
mod scheme_key;
mod sender;
mod stamp;
mod table_key;
pub mod verifiers;

pub use attest::{
    AttestedEngine, Challenges, Check, Checks, NoTee, Verifier, attest, attest_again, attest_host,
};
pub use config_dir::{ConfigDir, ConfigDirError, OldName};
pub use file_keys::{FileKeyError, FileKeys, ParquetKeyId};
pub use keyring::{
    AuditKey, ExportedKeys, Keyring, KeyringError, MasterInfo, MasterStatus, ReceiptKey,
    RegisterKey, SignError, WrappedLinkKey, WrappedTableKey,
};
pub use location::LocationError;
pub use master::{
    KeyContext, MasterError, MasterKeys, MasterState, MasterUri, Masters, Vault, WrappedKey,
};
pub use owner_key::OwnerKey;
pub use passphrase::{Passphrase, PassphraseError};
pub use policy::{
    Attestation, ColumnPolicy, Domain, Draft, LinkPolicy, LogPolicy, Policy, PolicyDigest,
    PolicyError, PolicyHead, PolicyHeads, PolicyKey, PolicyLock, Review, Rights, TablePolicy, Zone,
};
pub use release::{File, RELEASE_TYPE, Release, ReleaseError, Source};
pub use scheme_key::LinkKey;
pub use sender::ReleaseSender;
pub use stamp::Stamp;
pub use table_key::{ManifestKey, TableKey};

#[cfg(test)]
mod vectors;
