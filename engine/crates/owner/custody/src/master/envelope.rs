//! A secret under a key that a KMS gave out: the KMS wraps a data key, the data key seals the
//! secret.
//!
//! So every KMS serves that can hand out a data key and open it again, and whose key a wrapped key
//! is, is authenticated here, whether or not the KMS can do that itself.
//!
//! ```text
//! version (length u32 LE, bytes) ‖ wrapped data key (length u32 LE, bytes) ‖ key-check value 16 ‖
//! blob
//! ```
//! The check value is the data key's: GCM does not commit to its key. The blob is sealed for the
//! context's label and id, not for the version: a KMS can put a data key under a newer version
//! without showing it to anyone.

use coffer_sealing::{
    DerivationKey, Secret,
    fields::{Malformed, Reader, Writer},
    open_blob, seal_blob,
};
use zeroize::Zeroizing;

use crate::{
    master::{KeyContext, MasterError, MasterKeys, MasterState},
    table_key::check_value,
};

/// Bytes of a version's name at most: an ARN is shorter than 2,048.
const MAX_VERSION: usize = 2048;
/// Bytes of a wrapped data key at most: that of the AWS KMS is shorter than 6,144.
const MAX_WRAPPED: usize = 8192;

/// A data key as the KMS wrapped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedDataKey {
    /// The version of the master that wrapped it, as the KMS names it.
    pub version: String,
    /// The KMS's own bytes.
    pub bytes: Vec<u8>,
}

/// A fresh data key.
pub struct DataKey {
    /// The key.
    pub secret: Secret<32>,
    /// Its wrapped form.
    pub wrapped: WrappedDataKey,
}

/// A KMS, or an HSM, that gives out data keys. Each call asks it once, retries aside.
pub trait DataKeys: Send + Sync {
    /// As [`MasterKeys::describe`].
    fn describe(&self) -> String;

    /// A fresh data key, bound to the context where the KMS can bind it.
    fn generate(&self, context: &KeyContext) -> Result<DataKey, MasterError>;

    /// The data key of a wrapped form.
    fn open(
        &self,
        context: &KeyContext,
        wrapped: &WrappedDataKey,
    ) -> Result<Secret<32>, MasterError>;

    /// The same data key under the newest version, by a KMS that can do it without showing the key;
    /// none if this one cannot.
    fn renew(
        &self,
        context: &KeyContext,
        wrapped: &WrappedDataKey,
    ) -> Result<Option<WrappedDataKey>, MasterError> {
        let _ = (context, wrapped);
        Ok(None)
    }

    /// As [`MasterKeys::state`].
    fn state(&self) -> Result<MasterState, MasterError>;

    /// As [`MasterKeys::create`].
    fn create(&self) -> Result<MasterState, MasterError> {
        Err(MasterError::Unsupported {
            what: "made",
            of: self.describe(),
        })
    }

    /// As [`MasterKeys::rotate`].
    fn rotate(&self) -> Result<MasterState, MasterError> {
        Err(MasterError::Unsupported {
            what: "rotated",
            of: self.describe(),
        })
    }
}

/// The master that such a KMS makes.
pub struct Envelope<D>(pub D);

impl<D: DataKeys> MasterKeys for Envelope<D> {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn wrap(&self, context: &KeyContext, secret: &Secret<32>) -> Result<Vec<u8>, MasterError> {
        let DataKey {
            secret: key,
            wrapped,
        } = self.0.generate(context)?;
        Ok(Sealed::seal(context, &key, wrapped, secret)?.to_bytes())
    }

    fn unwrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Secret<32>, MasterError> {
        let sealed = Sealed::parse(context, wrapped)?;
        sealed.open(context, &self.0.open(context, &sealed.key)?)
    }

    fn rewrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Vec<u8>, MasterError> {
        let mut sealed = Sealed::parse(context, wrapped)?;
        match self.0.renew(context, &sealed.key)? {
            Some(key) => {
                sealed.key = key;
                // What replaces the only way to a table's key must be seen to open.
                sealed.open(context, &self.0.open(context, &sealed.key)?)?;
                Ok(sealed.to_bytes())
            }
            None => self.wrap(context, &self.unwrap(context, wrapped)?),
        }
    }

    fn version_of(&self, wrapped: &[u8]) -> Result<String, MasterError> {
        // The context only names it in an error, which the caller words.
        let none = KeyContext::Table(coffer_sealing::TableId([0; 16]));
        Ok(Sealed::parse(&none, wrapped)?.key.version)
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        self.0.state()
    }

    fn create(&self) -> Result<MasterState, MasterError> {
        self.0.create()
    }

    fn rotate(&self) -> Result<MasterState, MasterError> {
        self.0.rotate()
    }
}

/// The format above.
struct Sealed {
    key: WrappedDataKey,
    check: [u8; 16],
    blob: Vec<u8>,
}

impl Sealed {
    fn seal(
        context: &KeyContext,
        key: &Secret<32>,
        wrapped: WrappedDataKey,
        secret: &Secret<32>,
    ) -> Result<Self, MasterError> {
        let root = DerivationKey::new("data key", key);
        Ok(Self {
            check: check_value(&root, context.id())?,
            blob: seal_blob(&root, context.label(), &[context.id()], secret.expose())?,
            key: wrapped,
        })
    }

    fn open(&self, context: &KeyContext, key: &Secret<32>) -> Result<Secret<32>, MasterError> {
        let root = DerivationKey::new("data key", key);
        let altered = |_| MasterError::Altered(*context);
        let check = check_value(&root, context.id())?;
        aws_lc_rs::constant_time::verify_slices_are_equal(&check, &self.check)
            .map_err(|_| MasterError::Altered(*context))?;
        let plain =
            open_blob(&root, context.label(), &[context.id()], &self.blob).map_err(altered)?;
        let plain = Zeroizing::new(plain);
        Secret::from_slice(&plain).map_err(altered)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(
            64 + self.key.version.len() + self.key.bytes.len() + self.blob.len(),
        );
        writer
            .string(self.key.version.as_bytes())
            .string(&self.key.bytes)
            .raw(&self.check)
            .raw(&self.blob);
        writer.finish().to_vec()
    }

    fn parse(context: &KeyContext, bytes: &[u8]) -> Result<Self, MasterError> {
        Self::parts(bytes).map_err(|_| MasterError::Malformed(*context))
    }

    fn parts(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let version = reader.text()?.to_owned();
        let wrapped = reader.string()?.to_vec();
        if version.len() > MAX_VERSION || wrapped.len() > MAX_WRAPPED {
            return Err(Malformed);
        }
        Ok(Self {
            key: WrappedDataKey {
                version,
                bytes: wrapped,
            },
            check: reader.array()?,
            blob: reader.rest().to_vec(),
        })
    }
}

#[cfg(test)]
mod tests;
