//! Key metadata in the form of the PME key tools (parquet-java, Arrow C++), so that other readers open our files and we
//! theirs: material stored in the file, single wrapping, the data key wrapped by the column's KEK as
//! `base64(nonce 12 ‖ AES-GCM(KEK, data key, AAD = KEK id))`.

use std::{collections::HashMap, sync::Arc};

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::{Engine, engine::general_purpose::STANDARD};
use coffer_keys::{FileKeys, KekId, KekSet};
use parquet::{encryption::decrypt::KeyRetriever, errors::ParquetError};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::Error;

const PKMT1: &str = "PKMT1";
/// No honest key metadata is longer; read before anything of it is believed.
const MAX_METADATA: usize = 16 * 1024;
const MAX_KEY_ID: usize = 1024;

/// The JSON that a Parquet file holds for one data key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyMaterial {
    key_material_type: String,
    internal_storage: bool,
    is_footer_key: bool,
    #[serde(rename = "kmsInstanceID", default, skip_serializing_if = "Option::is_none")]
    kms_instance_id: Option<String>,
    #[serde(rename = "kmsInstanceURL", default, skip_serializing_if = "Option::is_none")]
    kms_instance_url: Option<String>,
    /// The id of the KEK. (The key tools call it a master.)
    #[serde(rename = "masterKeyID")]
    pub kek_id: String,
    #[serde(rename = "wrappedDEK")]
    wrapped_dek: String,
    double_wrapping: bool,
    #[serde(rename = "keyEncryptionKeyID", default, skip_serializing_if = "Option::is_none")]
    key_encryption_key_id: Option<String>,
    #[serde(rename = "wrappedKEK", default, skip_serializing_if = "Option::is_none")]
    wrapped_kek: Option<String>,
}

impl KeyMaterial {
    /// Parses a file's key metadata. External storage is refused; double wrapping where the
    /// data key is opened.
    pub fn parse(metadata: &[u8]) -> Result<Self, Error> {
        if metadata.len() > MAX_METADATA {
            return Err(Error::KeyMetadata("it is too long"));
        }
        let material: Self = serde_json::from_slice(metadata).map_err(|_| Error::KeyMetadata("it is not its JSON"))?;
        if material.key_material_type != PKMT1 {
            return Err(Error::KeyMetadata("its type is not PKMT1"));
        }
        if !material.internal_storage {
            return Err(Error::KeyMetadata("the material lies outside the file"));
        }
        if material.kek_id.len() > MAX_KEY_ID {
            return Err(Error::KeyMetadata("its key id is too long"));
        }
        Ok(material)
    }

    /// The data key, given what opens a key that the master [`KeyMaterial::kek_id`] wrapped: single wrapping, or double wrapping (the
    /// default of other writers).
    pub(crate) fn open_by(
        &self,
        master: impl Fn(&str) -> Result<Zeroizing<Vec<u8>>, Error>,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        if !self.double_wrapping {
            return master(&self.wrapped_dek);
        }
        let (Some(id), Some(wrapped)) = (&self.key_encryption_key_id, &self.wrapped_kek) else {
            return Err(Error::KeyMetadata(
                "the key is wrapped twice, but the inner key is not there",
            ));
        };
        let wrong = || Error::DataKey(self.kek_id.clone());
        let inner = master(wrapped)?;
        let id = STANDARD.decode(id).map_err(|_| wrong())?;
        open(&inner, &id, &self.wrapped_dek).ok_or_else(wrong)
    }
}

/// Draws a data key and gives it with the key metadata for the file.
pub(crate) fn new_data_key(id: &KekId, keks: &KekSet, footer: bool) -> Result<(Zeroizing<Vec<u8>>, Vec<u8>), Error> {
    let mut dek = Zeroizing::new(vec![0; 32]);
    coffer_sealing::fill_random(&mut dek)?;
    let material = KeyMaterial {
        key_material_type: PKMT1.into(),
        internal_storage: true,
        is_footer_key: footer,
        kms_instance_id: footer.then(|| "DEFAULT".into()),
        kms_instance_url: footer.then(|| "DEFAULT".into()),
        kek_id: id.to_string(),
        wrapped_dek: keks.get(id)?.wrap(&dek)?,
        double_wrapping: false,
        key_encryption_key_id: None,
        wrapped_kek: None,
    };
    let metadata = serde_json::to_vec(&material).map_err(|_| Error::KeyMetadata("it cannot be written"))?;
    Ok((dek, metadata))
}

/// Where KEKs come from, by the id that a file's key metadata names.
pub trait KekSource: Send + Sync {
    /// The data key that the material holds.
    fn data_key(&self, material: &KeyMaterial) -> Result<Zeroizing<Vec<u8>>, Error>;
}

impl KekSource for KekSet {
    fn data_key(&self, material: &KeyMaterial) -> Result<Zeroizing<Vec<u8>>, Error> {
        // Our own files never are.
        if material.double_wrapping {
            return Err(Error::KeyMetadata("the key is wrapped twice"));
        }
        Ok(self.find(&material.kek_id)?.unwrap(&material.wrapped_dek)?)
    }
}

/// The owner's masters, for files of programs that had their keys wrapped by Coffer's KMS client.
impl KekSource for FileKeys {
    fn data_key(&self, material: &KeyMaterial) -> Result<Zeroizing<Vec<u8>>, Error> {
        material.open_by(|wrapped| Ok(self.unwrap(&material.kek_id, wrapped)?))
    }
}

/// KEKs of foreign files, by whatever ids their writer gave them.
#[derive(Default)]
pub struct NamedKeks(HashMap<String, Zeroizing<Vec<u8>>>);

impl NamedKeks {
    /// Adds a KEK of 16 or 32 bytes.
    pub fn insert(&mut self, id: String, kek: Zeroizing<Vec<u8>>) -> Result<(), Error> {
        if kek.len() != 16 && kek.len() != 32 {
            return Err(Error::KeyMetadata("a KEK has 16 or 32 bytes"));
        }
        self.0.insert(id, kek);
        Ok(())
    }
}

impl KekSource for NamedKeks {
    fn data_key(&self, material: &KeyMaterial) -> Result<Zeroizing<Vec<u8>>, Error> {
        let name = &material.kek_id;
        let kek = self.0.get(name).ok_or_else(|| Error::KekMissing(name.clone()))?;
        material.open_by(|wrapped| open(kek, name.as_bytes(), wrapped).ok_or_else(|| Error::DataKey(name.clone())))
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

/// Opens the data keys of Parquet files whose KEKs are held, for the `parquet` crate.
pub struct KekRetriever(Arc<dyn KekSource>);

impl KekRetriever {
    /// Over these KEKs.
    pub fn new(keks: Arc<dyn KekSource>) -> Self {
        Self(keks)
    }
}

impl KeyRetriever for KekRetriever {
    fn retrieve_key(&self, key_metadata: &[u8]) -> Result<Vec<u8>, ParquetError> {
        KeyMaterial::parse(key_metadata)
            .and_then(|material| self.0.data_key(&material))
            .map(|key| key.to_vec())
            .map_err(|error| ParquetError::General(error.to_string()))
    }
}
