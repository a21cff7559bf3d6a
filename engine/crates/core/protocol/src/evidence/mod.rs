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
mod kinds;
pub mod simulated;

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

use coffer_sealing::fields::Writer;

use crate::{
    OwnerPublicKey,
    wire::{EngineEvidence, engine_evidence::Further},
};

pub use challenge::Challenge;
pub use error::EvidenceError;
pub use kinds::{EvidenceKind, EvidenceKinds};

/// The version of attestation, release and task protocol.
pub const PROTOCOL: u32 = 1;
/// This build's version: driver and engines must have the same. An unsealed build's is another than
/// any release's.
pub const VERSION: &str = if coffer_sealing::UNSEALED {
    concat!(env!("CARGO_PKG_VERSION"), "+unsealed")
} else {
    env!("CARGO_PKG_VERSION")
};

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

/// What one TEE says, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The name of its kind.
    pub kind: String,
    /// The TEE's bytes.
    pub bytes: Vec<u8>,
}

/// Evidence as it came: every field is the peer's word until the owner's side has checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The protocol it speaks.
    pub protocol: u32,
    /// The engine's public key.
    pub engine_key: EnginePublicKey,
    /// What TEEs say: of each kind one, and one at least.
    pub reports: Vec<Report>,
    /// The engine's version.
    pub engine_version: String,
}

impl Evidence {
    /// As the message has it. `None`: its key has not 32 bytes.
    pub fn from_wire(wire: EngineEvidence) -> Option<Self> {
        let engine_key = EnginePublicKey(wire.engine_key.as_ref().try_into().ok()?);
        let first = Report {
            kind: wire.kind,
            bytes: wire.report.to_vec(),
        };
        let further = wire.further.into_iter().map(|further| Report {
            kind: further.kind,
            bytes: further.report.to_vec(),
        });
        Some(Self {
            protocol: wire.protocol,
            engine_key,
            reports: std::iter::once(first).chain(further).collect(),
            engine_version: wire.engine_version,
        })
    }

    /// As a message.
    pub fn to_wire(&self) -> EngineEvidence {
        let mut reports = self.reports.iter().cloned();
        let first = reports.next();
        EngineEvidence {
            protocol: self.protocol,
            kind: first
                .as_ref()
                .map(|report| report.kind.clone())
                .unwrap_or_default(),
            engine_key: self.engine_key.0.to_vec().into(),
            report: first.map(|report| report.bytes.into()).unwrap_or_default(),
            engine_version: self.engine_version.clone(),
            engine_id: self.engine_key.engine_id(),
            further: reports
                .map(|report| Further {
                    kind: report.kind,
                    report: report.bytes.into(),
                })
                .collect(),
        }
    }

    /// The kinds that it names, "tdx+tpm".
    pub fn kinds(&self) -> String {
        let kinds: Vec<&str> = self
            .reports
            .iter()
            .map(|report| report.kind.as_str())
            .collect();
        kinds.join("+")
    }

    /// SHA-256 over all fields, which a release binds.
    pub fn hash(&self) -> [u8; 32] {
        let protocol = self.protocol.to_le_bytes();
        let mut parts: Vec<&[u8]> = vec![b"coffer evidence", &protocol];
        for (at, report) in self.reports.iter().enumerate() {
            parts.push(report.kind.as_bytes());
            if at == 0 {
                parts.push(&self.engine_key.0);
            }
            parts.push(&report.bytes);
            if at == 0 {
                parts.push(self.engine_version.as_bytes());
            }
        }
        hash_parts(&parts)
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
