//! Data keys of files that other programs wrote: by KEKs of theirs, or by the owner's masters. No enclave opens such keys.

use std::collections::HashMap;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::{Engine, engine::general_purpose::STANDARD};
use coffer_custody::FileKeys;
use coffer_format::{
    Error as FormatError, KeyMaterial,
    pme::{KekSource, KeyWrapping},
};
use zeroize::Zeroizing;

use crate::Error;

/// A data key by the owner's masters, for files of programs that had their keys wrapped by Coffer's KMS client.
pub fn by_masters(keys: &FileKeys, material: &KeyMaterial) -> Result<Zeroizing<Vec<u8>>, Error> {
    open_by(material, |wrapped| Ok(keys.unwrap(&material.kek_id, wrapped)?))
}

/// The data key, given what opens a key that the master [`KeyMaterial::kek_id`] wrapped: single wrapping, or double wrapping (the
/// default of other writers).
fn open_by<E: From<FormatError>>(
    material: &KeyMaterial,
    master: impl Fn(&str) -> Result<Zeroizing<Vec<u8>>, E>,
) -> Result<Zeroizing<Vec<u8>>, E> {
    let (id, inner, data) = match material.wrapping()? {
        KeyWrapping::Single(wrapped) => return master(wrapped),
        KeyWrapping::Double { id, inner, data } => (id, inner, data),
    };
    let wrong = || FormatError::DataKey(material.kek_id.clone());
    let inner = master(inner)?;
    let id = STANDARD.decode(id).map_err(|_| wrong())?;
    Ok(open(&inner, &id, data).ok_or_else(wrong)?)
}

/// KEKs of foreign files, by whatever ids their writer gave them.
#[derive(Default)]
pub struct NamedKeks(HashMap<String, Zeroizing<Vec<u8>>>);

impl NamedKeks {
    /// Adds a KEK of 16 or 32 bytes.
    pub fn insert(&mut self, id: String, kek: Zeroizing<Vec<u8>>) -> Result<(), FormatError> {
        if kek.len() != 16 && kek.len() != 32 {
            return Err(FormatError::KeyMetadata("a KEK has 16 or 32 bytes"));
        }
        self.0.insert(id, kek);
        Ok(())
    }
}

impl KekSource for NamedKeks {
    fn data_key(&self, material: &KeyMaterial) -> Result<Zeroizing<Vec<u8>>, FormatError> {
        let name = &material.kek_id;
        let kek = self.0.get(name).ok_or_else(|| FormatError::KekMissing(name.clone()))?;
        open_by(material, |wrapped| {
            open(kek, name.as_bytes(), wrapped).ok_or_else(|| FormatError::DataKey(name.clone()))
        })
    }
}

fn open(key: &[u8], aad: &[u8], wrapped: &str) -> Option<Zeroizing<Vec<u8>>> {
    let wrapped = STANDARD.decode(wrapped).ok()?;
    let (nonce, body) = wrapped.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut body = Zeroizing::new(body.to_vec());
    let plain = cipher(key)?.open_in_place(nonce, Aad::from(aad), &mut body).ok()?;
    Some(Zeroizing::new(plain.to_vec()))
}

fn cipher(key: &[u8]) -> Option<LessSafeKey> {
    let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}
