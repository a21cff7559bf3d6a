//! Data keys of files that other programs wrote: by KEKs of theirs, or by the owner's masters. No
//! enclave opens such keys.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use coffer_custody::FileKeys;
use coffer_format::{
    Error as FormatError, KeyMaterial,
    pme::{KekSource, KeyWrapping},
};
use coffer_sealing::kek::unwrap_foreign;
use zeroize::Zeroizing;

use crate::Error;

/// A data key by the owner's masters, for files of programs that had their keys wrapped by Coffer's
/// KMS client.
pub fn by_masters(keys: &FileKeys, material: &KeyMaterial) -> Result<Zeroizing<Vec<u8>>, Error> {
    open_by(material, |wrapped| {
        Ok(keys.unwrap(&material.kek_id, wrapped)?)
    })
}

/// The data key, given what opens a key that the master [`KeyMaterial::kek_id`] wrapped: single
/// wrapping, or double wrapping (the default of other writers).
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
    Ok(unwrap_foreign(&inner, &id, data).ok_or_else(wrong)?)
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
        let kek = self
            .0
            .get(name)
            .ok_or_else(|| FormatError::KekMissing(name.clone()))?;
        open_by(material, |wrapped| {
            unwrap_foreign(kek, name.as_bytes(), wrapped)
                .ok_or_else(|| FormatError::DataKey(name.clone()))
        })
    }
}
