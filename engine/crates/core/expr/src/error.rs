//! The two ways an expression says no: [`Unsupported`] before any row is read, [`SparkError`] on a
//! row.

use std::fmt;

use datafusion_common::DataFusionError;

/// An expression that this engine cannot evaluate exactly as Spark does. The fragment is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not supported: {why}")]
pub struct Unsupported {
    /// The expression or type, by Spark's name.
    pub what: String,
    /// The reason, for the user.
    pub why: String,
}

impl Unsupported {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
        }
    }
}

/// A row on which Spark raises an error. The message may hold values: it leaves an enclave sealed
/// only.
///
/// Travels as `DataFusionError::External`; find it again by downcasting (see [`SparkError::find`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparkError {
    /// Spark's error condition, for example `DIVIDE_BY_ZERO`. Holds no value.
    pub class: &'static str,
    /// What Spark says after the class, values included.
    pub message: String,
}

impl SparkError {
    pub(crate) fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }

    /// The Spark error inside a DataFusion error, however deeply wrapped.
    #[must_use]
    pub fn find(error: &DataFusionError) -> Option<&Self> {
        match error.find_root() {
            DataFusionError::External(e) => e.downcast_ref(),
            _ => None,
        }
    }

    /// A division by zero under ANSI rules.
    #[must_use]
    pub fn divide_by_zero() -> Self {
        Self::new(
            "DIVIDE_BY_ZERO",
            "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL \
                instead. If necessary set \
             \"spark.sql.ansi.enabled\" to \"false\" to bypass this error.",
        )
    }

    /// What Java's exact arithmetic of 64 bits raises, in every mode.
    pub(crate) fn long_overflow() -> Self {
        Self::new("ARITHMETIC_OVERFLOW", "long overflow")
    }

    /// What a sum of intervals that does not fit its type raises, in every mode.
    #[must_use]
    pub fn interval_overflow() -> Self {
        crate::intervals::with_suggestion("try_add")
    }

    pub(crate) fn array_index(index: i32, len: usize) -> Self {
        Self::new(
            "INVALID_ARRAY_INDEX",
            format!(
                "The index {index} is out of bounds. The array has {len} elements. Use the SQL \
                 function `get()` to tolerate accessing element at invalid index and return NULL \
                 instead."
            ),
        )
    }

    pub(crate) fn element_at_index(index: i32, len: usize) -> Self {
        Self::new(
            "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
            format!(
                "The index {index} is out of bounds. The array has {len} elements. Use \
                 `try_element_at` to tolerate accessing element at invalid index and return NULL \
                 instead."
            ),
        )
    }

    pub(crate) fn index_of_zero() -> Self {
        Self::new(
            "INVALID_INDEX_OF_ZERO",
            "The index 0 is invalid. An index shall be either < 0 or > 0 (the first element has \
             index 1).",
        )
    }

    pub(crate) fn remainder_by_zero() -> Self {
        Self::new(
            "REMAINDER_BY_ZERO",
            "Remainder by zero. Use `try_mod` to tolerate divisor being 0 and return NULL \
                instead. If necessary set \
             \"spark.sql.ansi.enabled\" to \"false\" to bypass this error.",
        )
    }
}

impl fmt::Display for SparkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.class, self.message)
    }
}

impl std::error::Error for SparkError {}

impl From<SparkError> for DataFusionError {
    fn from(error: SparkError) -> Self {
        Self::External(Box::new(error))
    }
}
