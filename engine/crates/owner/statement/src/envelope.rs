//! Signed envelopes: DSSE v1 (github.com/secure-systems-lab/dsse), with one Ed25519 signature
//! (RFC 8032).

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_custody::ReceiptKey;
use serde::{Deserialize, Serialize};

/// A payload and who signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    payload_type: String,
    /// In Base64.
    payload: String,
    signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Signature {
    /// The public key, in hexadecimal.
    keyid: String,
    /// In Base64.
    sig: String,
}

/// Why an envelope does not open.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is none.
    #[error("it is no signed envelope (DSSE): {0}")]
    Malformed(#[from] serde_json::Error),
    /// Its payload or a signature is no Base64.
    #[error("its payload or its signature is no Base64")]
    Base64,
    /// It is of something else.
    #[error("it has {found:?} in it, not {wanted:?}")]
    Type {
        /// What was looked for.
        wanted: String,
        /// What it says.
        found: String,
    },
    /// No signature is of the key that was asked for.
    #[error("it is not signed by the key {0}")]
    NotSigned(String),
    /// A signature was not made.
    #[error("it cannot be signed: {0}")]
    Sign(coffer_custody::SignError),
}

impl Envelope {
    /// Signs a payload.
    pub fn sign(
        payload_type: &str,
        payload: &[u8],
        key: &ReceiptKey,
    ) -> Result<Self, EnvelopeError> {
        let message = authenticated(payload_type, payload);
        let (public, sig) = key.sign(&message).map_err(EnvelopeError::Sign)?;
        Ok(Self {
            payload_type: payload_type.to_owned(),
            payload: BASE64.encode(payload),
            signatures: vec![Signature {
                keyid: hex::encode(public),
                sig: BASE64.encode(sig),
            }],
        })
    }

    /// Reads one, and checks nothing yet.
    pub fn parse(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        Ok(serde_json::from_slice(bytes)?)
    }

    /// The payload, if the key signed it. `public`: 32 bytes, Ed25519.
    pub fn open(&self, payload_type: &str, public: &[u8; 32]) -> Result<Vec<u8>, EnvelopeError> {
        if self.payload_type != payload_type {
            return Err(EnvelopeError::Type {
                wanted: payload_type.to_owned(),
                found: self.payload_type.clone(),
            });
        }
        let base64 = |text: &str| BASE64.decode(text).map_err(|_| EnvelopeError::Base64);
        let payload = base64(&self.payload)?;
        let message = authenticated(payload_type, &payload);
        let key = UnparsedPublicKey::new(&ED25519, public);
        for signature in &self.signatures {
            // What the file says of the key plays no part.
            if key.verify(&message, &base64(&signature.sig)?).is_ok() {
                return Ok(payload);
            }
        }
        Err(EnvelopeError::NotSigned(hex::encode(public)))
    }

    /// As a file.
    pub fn to_json(&self) -> Result<Vec<u8>, EnvelopeError> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// DSSE's pre-authentication encoding.
fn authenticated(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    )
    .into_bytes();
    message.extend_from_slice(payload);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> ReceiptKey {
        ReceiptKey::of_secret(&[byte; 32])
    }

    #[test]
    fn the_encoding_is_the_specifications() {
        // From the protocol's own document.
        assert_eq!(
            authenticated("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn only_what_was_signed_opens() {
        let (one, other) = (key(1), key(2));
        let envelope = Envelope::sign("a", b"payload", &one).unwrap();
        let public = one.public().unwrap();
        assert_eq!(envelope.open("a", &public).unwrap(), b"payload");
        let read = Envelope::parse(&envelope.to_json().unwrap()).unwrap();
        assert_eq!(read, envelope);
        assert!(matches!(
            envelope.open("b", &public),
            Err(EnvelopeError::Type { .. })
        ));
        assert!(matches!(
            envelope.open("a", &other.public().unwrap()),
            Err(EnvelopeError::NotSigned(_))
        ));
        // Another's signature that says it is of this key; another payload; another type.
        let forged = Envelope {
            signatures: vec![Signature {
                keyid: hex::encode(public),
                sig: Envelope::sign("a", b"payload", &other).unwrap().signatures[0]
                    .sig
                    .clone(),
            }],
            ..envelope.clone()
        };
        let changed = Envelope {
            payload: BASE64.encode(b"Payload"),
            ..envelope.clone()
        };
        let retyped = Envelope {
            payload_type: "b".to_owned(),
            ..envelope.clone()
        };
        for (bad, of) in [(forged, "a"), (changed, "a"), (retyped, "b")] {
            assert!(bad.open(of, &public).is_err());
        }
        let unsigned = Envelope {
            signatures: Vec::new(),
            ..envelope
        };
        assert!(unsigned.open("a", &public).is_err());
        assert!(Envelope::parse(b"{}").is_err());
    }
}
