//! Key metadata in the form of the PME key tools (parquet-java, Arrow C++), so that other readers
//! open our files and we theirs: material stored in the file, single wrapping, the data key wrapped
//! by the column's KEK as `base64(nonce 12 ‖ AES-GCM(KEK, data key, AAD = KEK id))`.

use std::sync::Arc;

use coffer_sealing::{KekId, KekSet};
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
    #[serde(
        rename = "kmsInstanceID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    kms_instance_id: Option<String>,
    #[serde(
        rename = "kmsInstanceURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    kms_instance_url: Option<String>,
    /// The id of the KEK. (The key tools call it a master.)
    #[serde(rename = "masterKeyID")]
    pub kek_id: String,
    #[serde(rename = "wrappedDEK")]
    wrapped_dek: String,
    double_wrapping: bool,
    #[serde(
        rename = "keyEncryptionKeyID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    key_encryption_key_id: Option<String>,
    #[serde(
        rename = "wrappedKEK",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    wrapped_kek: Option<String>,
}

impl KeyMaterial {
    /// Parses a file's key metadata. External storage is refused; double wrapping where the
    /// data key is opened.
    pub fn parse(metadata: &[u8]) -> Result<Self, Error> {
        if metadata.len() > MAX_METADATA {
            return Err(Error::KeyMetadata("it is too long"));
        }
        let material: Self = serde_json::from_slice(metadata)
            .map_err(|_| Error::KeyMetadata("it is not its JSON"))?;
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

    /// How the data key is wrapped.
    pub fn wrapping(&self) -> Result<KeyWrapping<'_>, Error> {
        if !self.double_wrapping {
            return Ok(KeyWrapping::Single(&self.wrapped_dek));
        }
        let (Some(id), Some(inner)) = (&self.key_encryption_key_id, &self.wrapped_kek) else {
            return Err(Error::KeyMetadata(
                "the key is wrapped twice, but the inner key is not there",
            ));
        };
        Ok(KeyWrapping::Double {
            id,
            inner,
            data: &self.wrapped_dek,
        })
    }
}

/// How a data key is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyWrapping<'a> {
    /// By the KEK.
    Single(&'a str),
    /// By a key that the KEK wraps, as other writers do by default.
    Double {
        /// Of the key between, in base64.
        id: &'a str,
        /// The key between, wrapped by the KEK.
        inner: &'a str,
        /// The data key, wrapped by the key between.
        data: &'a str,
    },
}

/// Draws a data key and gives it with the key metadata for the file.
pub(crate) fn new_data_key(
    id: &KekId,
    keks: &KekSet,
    footer: bool,
) -> Result<(Zeroizing<Vec<u8>>, Vec<u8>), Error> {
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
    let metadata =
        serde_json::to_vec(&material).map_err(|_| Error::KeyMetadata("it cannot be written"))?;
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
        let KeyWrapping::Single(wrapped) = material.wrapping()? else {
            return Err(Error::KeyMetadata("the key is wrapped twice"));
        };
        Ok(self.find(&material.kek_id)?.unwrap(wrapped)?)
    }
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
