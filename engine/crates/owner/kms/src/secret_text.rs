//! A secret in JSON: base64 in an answer of a key server, plain in one of `coffer-aws`.

use std::fmt;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroizing;

const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
/// As Hadoop writes it: for URLs, unpadded.
pub(crate) const URL_SAFE: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG.with_encode_padding(false));
/// As AWS writes it.
pub(crate) const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);

/// Text that is zeroed when dropped, and has no `Debug`.
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Of a secret.
    pub fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// The secret.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Its bytes, if it is base64.
    pub(crate) fn decode(&self, base64: &GeneralPurpose) -> Option<Zeroizing<Vec<u8>>> {
        // Room for all of it at once: growing would leave a copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.0.len()));
        base64.decode_vec(self.0.as_bytes(), &mut bytes).ok()?;
        Some(bytes)
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = SecretText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretText, E> {
                Ok(SecretText(Zeroizing::new(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}
