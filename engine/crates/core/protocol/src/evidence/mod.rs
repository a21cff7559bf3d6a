//! Evidence: what an engine says of itself, and who checks it.
//!
//! The engine's part is to put [`report_data`] into what its TEE signs; the owner's part is
//! `attest`, the only maker of an `AttestedEngine`. Evidence binds protocol, kind, engine key,
//! owner key, challenge and application, so evidence made for another owner or application, another
//! engine's key or an earlier challenge does not pass.
//!
//! Time and policy are judged at the client site only. An engine's word on its version or id
//! decides nothing.

mod challenge;
mod error;
pub mod simulated;

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

use coffer_sealing::fields::Writer;

use crate::OwnerPublicKey;

pub use challenge::Challenge;
pub use error::EvidenceError;

/// The version of attestation, release and task protocol.
pub const PROTOCOL: u32 = 1;
/// This build's version: driver and engines must have the same. An unsealed build's is another than
/// any release's.
pub const VERSION: &str = if coffer_sealing::UNSEALED {
    concat!(env!("CARGO_PKG_VERSION"), "+unsealed")
} else {
    env!("CARGO_PKG_VERSION")
};

/// What made the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvidenceKind {
    /// Nothing: the engine merely says so. For trials.
    Simulated,
    /// Intel SGX.
    Sgx,
    /// Intel TDX.
    Tdx,
    /// AMD SEV-SNP.
    SevSnp,
    /// A TPM: measured boot, not secret memory.
    Tpm,
}

impl EvidenceKind {
    /// All of them.
    pub const ALL: [EvidenceKind; 5] = [
        EvidenceKind::Simulated,
        EvidenceKind::Sgx,
        EvidenceKind::Tdx,
        EvidenceKind::SevSnp,
        EvidenceKind::Tpm,
    ];

    /// As written in the policy and in messages.
    pub fn name(self) -> &'static str {
        match self {
            // No policy of one build is a policy of the other.
            EvidenceKind::Simulated if coffer_sealing::UNSEALED => "unsealed",
            EvidenceKind::Simulated => "simulated",
            EvidenceKind::Sgx => "sgx",
            EvidenceKind::Tdx => "tdx",
            EvidenceKind::SevSnp => "sev-snp",
            EvidenceKind::Tpm => "tpm",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .filter(|kind| !coffer_sealing::UNSEALED || *kind == EvidenceKind::Simulated)
            .find(|kind| kind.name() == name)
    }
}

impl fmt::Display for EvidenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An engine's X25519 public key. Made at start, lives as long as the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnginePublicKey(pub [u8; 32]);

impl EnginePublicKey {
    /// The engine's id in logs and messages: hex of the first 16 bytes of the key's SHA-256.
    pub fn engine_id(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&SHA256, &self.0);
        hex::encode(digest.as_ref().first_chunk::<16>().unwrap_or(&[0; 16]))
    }
}

impl fmt::Debug for EnginePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnginePublicKey({})", hex::encode(self.0))
    }
}

/// Evidence as it came: every field is the peer's word until the owner's side has checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The protocol it speaks.
    pub protocol: u32,
    /// The name of its kind.
    pub kind: String,
    /// The engine's public key.
    pub engine_key: EnginePublicKey,
    /// What the TEE says.
    pub report: Vec<u8>,
    /// The engine's version.
    pub engine_version: String,
}

impl Evidence {
    /// SHA-256 over all fields, which a release binds.
    pub fn hash(&self) -> [u8; 32] {
        hash_parts(&[
            b"coffer evidence",
            &self.protocol.to_le_bytes(),
            self.kind.as_bytes(),
            &self.engine_key.0,
            &self.report,
            self.engine_version.as_bytes(),
        ])
    }
}

/// What the TEE must sign: H(label, protocol, kind, engine key, owner key, challenge, application),
/// each length-prefixed.
pub fn report_data(
    kind: EvidenceKind,
    engine: &EnginePublicKey,
    owner: &OwnerPublicKey,
    challenge: &Challenge,
    application: &str,
) -> [u8; 32] {
    hash_parts(&[
        b"coffer attestation",
        &PROTOCOL.to_le_bytes(),
        kind.name().as_bytes(),
        &engine.0,
        owner.as_bytes(),
        challenge.as_bytes(),
        application.as_bytes(),
    ])
}

/// SHA-256 of the parts, each behind its length.
fn hash_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut writer = Writer::with_capacity(256);
    for part in parts {
        writer.string(part);
    }
    let mut context = Context::new(&SHA256);
    context.update(&writer.finish());
    let mut hash = [0; 32];
    for (to, from) in hash.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    hash
}
