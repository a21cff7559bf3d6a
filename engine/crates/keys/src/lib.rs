//! Keys at the trusted site, and how they reach an engine: keyring, policy, evidence, release.
//!
//! * [`Home`]: the folder with keyring, policy and register;
//! * [`Keyring`]: one passphrase-protected file with the master keys, the owner's X25519 key and the register's key;
//! * [`Vault`]: the keyring joined with the policy's masters elsewhere; wraps and unwraps the keys of tables and links;
//! * [`TableKey`] and what is derived from it: column KEKs, footer KEK, manifest key;
//! * [`Policy`]: what the owner allows, a TOML file in which an unknown word is an error, and that the owner signed; [`Draft`] is one that
//!   nobody vouches for;
//! * [`evidence`]: what an engine says of itself, and who checks it; [`AttestedEngine`] is the proof of that;
//! * [`release`]: HPKE from the owner to an attested engine. The only code of this crate that enclaves use, besides
//!   making evidence and [`KekSet`].
//!
//! Not here: the register's contents and the manifest (coffer-table), the sockets, prompting for a passphrase. Nothing
//! in this crate prints or logs.
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

mod codec;
mod durable;
pub mod evidence;
mod file_keys;
mod home;
mod kek;
pub mod keyring;
pub mod location;
pub mod master;
mod owner;
mod passphrase;
pub mod policy;
mod protection;
pub mod release;
mod scheme_key;
mod stamp;
mod table_key;

pub use evidence::{
    AttestedEngine, Challenge, Challenges, Check, Checks, EnginePublicKey, Evidence, EvidenceError, EvidenceKind,
    Issuer, NoTee, Simulated, Verifier, attest, attest_again, attest_host,
};
pub use file_keys::{FileKeyError, FileKeys, ParquetKeyId};
pub use home::{Home, HomeError};
pub use kek::{Kek, KekError, KekId, KekSet};
pub use keyring::{
    AuditKey, ExportedKeys, Keyring, KeyringError, MasterInfo, MasterStatus, RegisterKey, WrappedLinkKey,
    WrappedTableKey,
};
pub use location::LocationError;
pub use master::{KeyContext, MasterError, MasterKeys, MasterState, MasterUri, Masters, Vault, WrappedKey};
pub use owner::{OwnerKey, OwnerPublicKey};
pub use passphrase::{Passphrase, PassphraseError};
pub use policy::{
    Attestation, ColumnPolicy, Domain, Draft, LinkPolicy, Policy, PolicyDigest, PolicyError, PolicyHead, PolicyHeads,
    PolicyKey, PolicyLock, Review, Rights, TablePolicy, Zone,
};
pub use protection::Protection;
pub use release::{EngineKey, ReleaseError, ReleasePayload, ReleaseReceiver, ReleaseSender, SealedRelease};
pub use scheme_key::{LinkId, LinkKey};
pub use stamp::Stamp;
pub use table_key::{ColumnId, ManifestKey, TableId, TableKey};

#[cfg(test)]
mod vectors;
