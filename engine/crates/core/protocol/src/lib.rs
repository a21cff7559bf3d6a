//! What the JVM, the engines and the owner's side say to each other.
//!
//! [`plan`] (the fragment IR) and [`wire`] (the messages) are generated from the texts in `proto/`,
//! which give the meaning of every field; decoding bounds recursion (prost's limit of 100), and
//! what a message *means* is checked where it is used. [`framing`] takes messages off a socket.
//! [`evidence`] and [`release`] are what attestation and the release of keys look like on both
//! sides: who makes and opens them is in `coffer-release`, who checks and sends them in
//! `coffer-custody`.

pub mod evidence;
pub mod framing;
pub mod release;
pub mod storage;
pub mod tree;

pub use evidence::{
    Challenge, EnginePublicKey, Evidence, EvidenceError, EvidenceKind, EvidenceKinds,
};
pub use release::{OwnerPublicKey, ReleaseError, ReleasePayload, SealedRelease};

/// The fragment IR (`proto/coffer/plan.proto`).
#[allow(missing_docs, clippy::all, clippy::pedantic)] // generated
pub mod plan {
    include!(concat!(env!("OUT_DIR"), "/coffer.plan.rs"));
}

/// The task protocol and the client protocol (`proto/coffer/wire/`).
#[allow(missing_docs, clippy::all, clippy::pedantic)] // generated
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/coffer.wire.rs"));
}

/// The storage port (`proto/coffer/storage.proto`).
#[allow(missing_docs, clippy::all, clippy::pedantic)] // generated
pub mod port {
    include!(concat!(env!("OUT_DIR"), "/coffer.storage.rs"));
}

/// The shortest padded message.
const SHORTEST: usize = 128;

/// A message encoded as long as a power of two (128 bytes at least) by a field that no message has,
/// so that its length, once it is sealed, says little of counts, of literals and of error texts. It
/// decodes as it did.
pub fn padded(message: &impl prost::Message) -> Vec<u8> {
    padded_bytes(message.encode_to_vec())
}

/// The same for a message that came encoded.
pub fn padded_bytes(mut message: Vec<u8>) -> Vec<u8> {
    // Field 2047, length-delimited; the length as a varint of five bytes, which says any number.
    const TAG: [u8; 2] = [0xfa, 0x7f];
    const HEAD: usize = TAG.len() + 5;
    let length = (message.len() + HEAD).next_power_of_two().max(SHORTEST);
    let padding = length - message.len() - HEAD;
    message.extend_from_slice(&TAG);
    let mut rest = padding;
    for byte in 0..5 {
        let low = u8::try_from(rest & 0x7f).unwrap_or(0);
        rest >>= 7;
        message.push(if byte < 4 { low | 0x80 } else { low });
    }
    message.resize(length, 0);
    message
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::{padded, padded_bytes, wire::ErrorDetail};

    #[test]
    fn a_padded_message_has_a_length_of_few_and_decodes_as_before() {
        for length in [0, 1, 100, 117, 118, 5000] {
            let message = ErrorDetail {
                code: "DIVIDE_BY_ZERO".to_owned(),
                message: "x".repeat(length),
                ..ErrorDetail::default()
            };
            let bytes = padded(&message);
            assert_eq!(bytes, padded_bytes(message.encode_to_vec()));
            assert!(bytes.len().is_power_of_two() && bytes.len() >= 128);
            assert_eq!(ErrorDetail::decode(bytes.as_slice()).unwrap(), message);
        }
    }
}
