//! What can go wrong, and whose fault it is. No message holds a value.

use arrow_schema::DataType;

/// On which side of a domain a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Smaller than the smallest value of the domain.
    Below,
    /// Greater than the greatest.
    Above,
}

/// An error of a scheme.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SchemeError {
    /// The policy asks for something the scheme has not.
    #[error("{scheme} cannot hold a column of type {data_type}: {reason}")]
    Unsupported {
        /// The scheme's name.
        scheme: &'static str,
        /// The logical type.
        data_type: DataType,
        /// Why, and what would help.
        reason: &'static str,
    },
    /// A domain that is none.
    #[error("the domain {min}..={max} is not usable: {reason}")]
    BadDomain {
        /// Its smallest value.
        min: i128,
        /// Its greatest value.
        max: i128,
        /// Why.
        reason: &'static str,
    },
    /// The caller's array is not of the column's type.
    #[error("an array of type {found} came where {wanted} was to come")]
    WrongType {
        /// The type that the scheme was made for.
        wanted: DataType,
        /// The array's.
        found: DataType,
    },
    /// The caller's array has another length than the rows it belongs to.
    #[error("arrays of {left} and {right} rows came where they must be equally long")]
    WrongLength {
        /// Rows of one.
        left: usize,
        /// Rows of the other.
        right: usize,
    },
    /// A value outside the column's domain. It is never clamped.
    #[error("row {row}: the value lies {} the column's domain",
        match side { Side::Below => "below", Side::Above => "above" })]
    OutsideDomain {
        /// Row of the array.
        row: usize,
        /// Which side.
        side: Side,
    },
    /// A stored value that the key did not make: damaged, moved or foreign.
    #[error("row {row}: the stored value is not authentic")]
    Unauthentic {
        /// Row of the array.
        row: usize,
    },
    /// Stored without what it would take to get the value back.
    #[error(
        "{scheme} stores a prefix only, so the column must be opened from another of its \
            protections"
    )]
    NotReversible {
        /// The scheme's name.
        scheme: &'static str,
    },
    /// The scheme needs to know where rows lie, and was not told.
    #[error("{scheme} needs the file and the row number of each value")]
    PositionNeeded {
        /// The scheme's name.
        scheme: &'static str,
    },
    /// A sum that could wrap around: refused rather than wrong.
    #[error(
        "a sum of {rows} rows could overflow: this column's domain allows {most}; name a narrower \
            domain in the policy"
    )]
    SumTooLong {
        /// Rows in the file or the sum.
        rows: u64,
        /// How many may be added.
        most: u64,
    },
    /// Bytes of a state, an id or a stored value that do not parse.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// NULL where the scheme needs a value.
    #[error("row {row}: NULL, where the scheme needs a value")]
    Null {
        /// Row of the array.
        row: usize,
    },
    /// A key of the wrong length or form.
    #[error("the key is not one of {scheme}")]
    BadKey {
        /// The scheme's name.
        scheme: &'static str,
    },
    /// The cryptographic library refused.
    #[error("a cryptographic operation failed")]
    Crypto,
    /// Key derivation or randomness failed.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// An invariant of this crate does not hold.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

impl SchemeError {
    /// The error of a part of an array that begins at row `start`, as the whole array's.
    pub(crate) fn below(self, start: usize) -> Self {
        match self {
            Self::OutsideDomain { row, side } => Self::OutsideDomain {
                row: row.saturating_add(start),
                side,
            },
            other => other,
        }
    }
}

/// The key schedule's error, as text: its own type cannot be cloned.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct SealingError(String);

impl From<coffer_sealing::Error> for SchemeError {
    fn from(error: coffer_sealing::Error) -> Self {
        Self::Sealing(SealingError(error.to_string()))
    }
}
