//! An attestation key's public area, TPMT_PUBLIC (part 2, 12.2.4), and signatures under it,
//! TPMT_SIGNATURE (11.3.4). RSA of 2048 bits and more with RSASSA, and P-256 with ECDSA, both over
//! SHA-256.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::reader::Reader;

const RSA: u16 = 0x0001;
const NULL: u16 = 0x0010;
const SHA256: u16 = 0x000b;
const RSASSA: u16 = 0x0014;
const ECDSA: u16 = 0x0018;
const ECC: u16 = 0x0023;
const P256: u16 = 0x0003;

/// Attributes of objects (part 2, 8.3).
const FIXED_TPM: u32 = 1 << 1;
const FIXED_PARENT: u32 = 1 << 4;
const SENSITIVE_DATA_ORIGIN: u32 = 1 << 5;
const RESTRICTED: u32 = 1 << 16;
const DECRYPT: u32 = 1 << 17;
const SIGN: u32 = 1 << 18;

/// A public key, and what may be done with its private half.
pub(super) struct Key<'a> {
    attributes: u32,
    public: Public<'a>,
}

enum Public<'a> {
    Rsa {
        modulus: &'a [u8],
        exponent: [u8; 4],
    },
    P256 {
        x: &'a [u8],
        y: &'a [u8],
    },
}

impl<'a> Key<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (kind, name) = (reader.u16()?, reader.u16()?);
        let attributes = reader.u32()?;
        let _policy = reader.sized()?;
        // A restricted signing key has no symmetric algorithm, and its scheme is fixed.
        if name != SHA256 || reader.u16()? != NULL {
            return None;
        }
        let (scheme, hash) = (reader.u16()?, reader.u16()?);
        let public = match (kind, scheme, hash) {
            (RSA, RSASSA, SHA256) => {
                let _bits = reader.u16()?;
                let exponent = match reader.u32()? {
                    0 => 65537,
                    other => other,
                };
                Public::Rsa {
                    exponent: exponent.to_be_bytes(),
                    modulus: reader.sized()?,
                }
            }
            (ECC, ECDSA, SHA256) => {
                if reader.u16()? != P256 || reader.u16()? != NULL {
                    return None;
                }
                Public::P256 {
                    x: reader.sized()?,
                    y: reader.sized()?,
                }
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(Self { attributes, public })
    }

    /// Made in its TPM, never to leave it, and signing nothing but what the TPM itself made.
    pub(super) fn is_restricted(&self) -> bool {
        let wanted = FIXED_TPM | FIXED_PARENT | SENSITIVE_DATA_ORIGIN | RESTRICTED | SIGN;
        self.attributes & (wanted | DECRYPT) == wanted
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verify(message, signature).is_some()
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Option<()> {
        let mut reader = Reader(signature);
        let (scheme, hash) = (reader.u16()?, reader.u16()?);
        if hash != SHA256 {
            return None;
        }
        match (&self.public, scheme) {
            (Public::Rsa { modulus, exponent }, RSASSA) => {
                let signature = reader.sized().filter(|_| reader.0.is_empty())?;
                let exponent = exponent
                    .iter()
                    .skip_while(|byte| **byte == 0)
                    .copied()
                    .collect::<Vec<u8>>();
                let key = RsaPublicKeyComponents {
                    n: *modulus,
                    e: &exponent,
                };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                    .ok()
            }
            (Public::P256 { x, y }, ECDSA) => {
                let (r, s) = (reader.sized()?, reader.sized()?);
                let point = [&[4], padded(x)?.as_slice(), padded(y)?.as_slice()].concat();
                let fixed = [padded(r)?, padded(s)?].concat();
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, &fixed)
                    .ok()
                    .filter(|()| reader.0.is_empty())
            }
            _ => None,
        }
    }
}

/// A number of P-256 in 32 bytes: some TPMs leave leading zeros out.
fn padded(number: &[u8]) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let start = bytes.len().checked_sub(number.len())?;
    bytes.get_mut(start..)?.copy_from_slice(number);
    Some(bytes)
}
