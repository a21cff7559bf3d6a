//! The trait that every scheme has, and what a scheme is made of: a key and the column's
//! description.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use coffer_sealing::{DerivationKey, Secret};

use crate::{Domain, RowPositions, SchemeError, SumOpening};

/// A way to store a column so that some work needs no key: which, its row in [`crate::table`] says.
pub trait Scheme: Send + Sync {
    /// Its name in a policy.
    fn name(&self) -> &'static str;

    /// The type of the stored column.
    fn stored_type(&self) -> DataType;

    /// The stored form of a column of the logical type. NULL stays NULL.
    ///
    /// `positions` matters to `std` and `ashe` only. The error names the first row that has no
    /// stored form.
    fn encrypt(
        &self,
        column: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError>;

    /// The logical column again, each value checked as far as the scheme allows it.
    fn decrypt(
        &self,
        stored: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError>;

    /// Opens a sum over the stored column, as engines encode it; none if it is of no row. A scheme
    /// whose row allows [`crate::Capability::Sum`] has this of its own.
    fn open_sum_state(&self, _state: &[u8]) -> Result<Option<SumOpening>, SchemeError> {
        Err(SchemeError::Internal("a sum of a scheme that has none"))
    }

    /// A fresh key.
    fn generate_key() -> Result<SchemeKey, SchemeError>
    where
        Self: Sized,
    {
        SchemeKey::generate()
    }
}

/// What a scheme must know of a column.
#[derive(Debug, Clone)]
pub struct ColumnSpec {
    /// The logical type: one of Spark's flat types in Arrow's form.
    pub data_type: DataType,
    /// The values that may occur; none means the whole type.
    pub domain: Option<Domain>,
    /// Columns with the same key and the same link group can be compared (`det` binds it into every
    /// value).
    pub link_group: String,
    /// Strings and binary under `ope` and `ore`: how many bytes of a value count, 1 to 15.
    pub prefix: usize,
}

impl ColumnSpec {
    /// Bytes of a string that count for its order, unless the policy says otherwise.
    pub const DEFAULT_PREFIX: usize = 8;

    /// A column of this type, whole domain, in a link group of its own.
    pub fn new(data_type: DataType) -> Self {
        Self {
            data_type,
            domain: None,
            link_group: String::new(),
            prefix: Self::DEFAULT_PREFIX,
        }
    }

    /// With a domain from the policy.
    #[must_use]
    pub fn with_domain(mut self, domain: Domain) -> Self {
        self.domain = Some(domain);
        self
    }

    /// In a link group.
    #[must_use]
    pub fn in_link_group(mut self, name: &str) -> Self {
        name.clone_into(&mut self.link_group);
        self
    }

    /// With so many bytes of prefix.
    #[must_use]
    pub fn with_prefix(mut self, bytes: usize) -> Self {
        self.prefix = bytes;
        self
    }
}

/// The secret of a scheme: 32 bytes.
///
/// Zeroed on drop, without `Debug` or `==`.
#[derive(Clone)]
pub struct SchemeKey(Secret<32>);

impl SchemeKey {
    /// A fresh key of 32 bytes.
    pub fn generate() -> Result<Self, SchemeError> {
        Ok(Self(Secret::generate()?))
    }

    /// A key that the key schedule derived.
    pub fn from_secret(secret: &Secret<32>) -> Self {
        Self(secret.clone())
    }

    /// A stored key; the caller's copy is the caller's to zeroize.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(Secret::from_bytes(*bytes))
    }

    /// The bytes, to be wrapped and stored.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// The root of what `scheme` derives from this key.
    pub(crate) fn root(&self, scheme: &'static str) -> Result<DerivationKey, SchemeError> {
        Ok(DerivationKey::new(&format!("scheme {scheme}"), &self.0))
    }
}

/// Refuses an array of another type than the column's.
pub(crate) fn check_type(array: &dyn Array, wanted: &DataType) -> Result<(), SchemeError> {
    if array.data_type() == wanted {
        Ok(())
    } else {
        Err(SchemeError::WrongType {
            wanted: wanted.clone(),
            found: array.data_type().clone(),
        })
    }
}
