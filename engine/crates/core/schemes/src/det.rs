//! `det`: AES-SIV (RFC 5297) under a key of 2 × 256 bits, the link group and the type as associated
//! data.
//!
//! Equal values of a link group have equal ciphertexts, and nothing else shows but lengths. Every
//! value is authenticated: it cannot be altered, nor moved to another link group or type. It can be
//! moved to another row.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;

use crate::codec::{self, Cells};
use crate::scheme::check_type;
use crate::siv::{SIV_LEN, Siv};
use crate::{ColumnSpec, RowPositions, Scheme, SchemeError, SchemeKey};

const NAME: &str = "det";

/// Deterministic encryption of a column.
pub struct Det {
    data_type: DataType,
    width: Option<usize>,
    siv: Siv,
}

impl Det {
    /// With the key of the column's link group.
    pub fn new(key: &SchemeKey, column: &ColumnSpec) -> Result<Self, SchemeError> {
        let width = codec::width(NAME, &column.data_type)?;
        let root = key.root(NAME)?;
        let (mac, ctr) = (root.derive("mac", &[])?, root.derive("ctr", &[])?);
        let kind = encoding(&column.data_type);
        let associated: [&[u8]; 2] = [column.link_group.as_bytes(), kind.as_bytes()];
        Ok(Self {
            data_type: column.data_type.clone(),
            width,
            siv: Siv::new(mac.expose(), ctr.expose(), &associated)?,
        })
    }

    /// Whether values of two types can be compared when their columns are linked: decimals of one
    /// scale and width, or one and the same type. A policy that links other columns must be
    /// refused, since nothing would ever match.
    pub fn comparable(left: &DataType, right: &DataType) -> bool {
        encoding(left) == encoding(right)
    }
}

/// The name of a type's canonical bytes.
fn encoding(data_type: &DataType) -> String {
    match data_type {
        DataType::Decimal128(digits, scale) if *digits <= 18 => format!("decimal64({scale})"),
        DataType::Decimal128(_, scale) => format!("decimal128({scale})"),
        DataType::Timestamp(_, Some(_)) => "timestamp".to_owned(),
        DataType::Timestamp(_, None) => "timestamp_ntz".to_owned(),
        other => other.to_string(),
    }
}

impl Scheme for Det {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stored_type(&self) -> DataType {
        DataType::Binary
    }

    fn encrypt(
        &self,
        column: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        let cells = codec::encode(NAME, column, &self.data_type)?;
        let nulls = column.nulls();
        let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let mut out = Vec::new();
        let mut lengths = Vec::with_capacity(column.len());
        match cells {
            Cells::Fixed { width, bytes } if width < SIV_LEN && column.null_count() == 0 => {
                let sealed = SIV_LEN.saturating_add(width);
                out.reserve_exact(column.len().saturating_mul(sealed));
                for part in bytes.chunks(width.saturating_mul(BATCH)) {
                    self.siv.seal_short(width, part, &mut out)?;
                }
                return codec::binary(std::iter::repeat_n(sealed, column.len()), out, None);
            }
            Cells::Fixed { width, bytes } => {
                for (row, value) in bytes.chunks_exact(width).enumerate() {
                    let start = out.len();
                    if valid(row) {
                        self.siv.seal(value, &mut out)?;
                    }
                    lengths.push(out.len().saturating_sub(start));
                }
            }
            Cells::Variable { offsets, data } => {
                for (row, value) in codec::values(offsets, data).enumerate() {
                    let start = out.len();
                    if valid(row) {
                        self.siv.seal(value, &mut out)?;
                    }
                    lengths.push(out.len().saturating_sub(start));
                }
            }
        }
        codec::binary(lengths, out, nulls.cloned())
    }

    fn decrypt(
        &self,
        stored: &dyn Array,
        _positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        check_type(stored, &DataType::Binary)?;
        let array = stored.as_binary::<i32>();
        let Some(width) = self.width else {
            let mut out = Vec::with_capacity(array.value_data().len());
            let mut lengths = Vec::with_capacity(array.len());
            for (row, sealed) in array.iter().enumerate() {
                let start = out.len();
                if let Some(sealed) = sealed
                    && !self.siv.open(sealed, &mut out)?
                {
                    return Err(SchemeError::Unauthentic { row });
                }
                lengths.push(out.len().saturating_sub(start));
            }
            return codec::decode_variable(
                NAME,
                &self.data_type,
                lengths,
                out,
                array.nulls().cloned(),
            );
        };
        let mut out = Vec::with_capacity(array.len().saturating_mul(width));
        let sealed_len = SIV_LEN.saturating_add(width);
        if width < SIV_LEN && array.null_count() == 0 {
            // All values of one length lie one behind the other; one of another length is not
            // authentic.
            let values = || codec::values(array.value_offsets(), array.value_data());
            if let Some(row) = values().position(|value| value.len() != sealed_len) {
                return Err(SchemeError::Unauthentic { row });
            }
            let mut done = 0_usize;
            let data = codec::span(array.value_offsets(), array.value_data());
            for part in data.chunks(sealed_len.saturating_mul(BATCH)) {
                let (plaintexts, bad) = self.siv.open_short(width, part)?;
                if let Some(bad) = bad {
                    return Err(SchemeError::Unauthentic {
                        row: done.saturating_add(bad),
                    });
                }
                out.extend_from_slice(&plaintexts);
                done = done.saturating_add(BATCH);
            }
        } else {
            for (row, sealed) in array.iter().enumerate() {
                match sealed {
                    None => out.resize(out.len().saturating_add(width), 0),
                    Some(sealed) => {
                        if sealed.len() != sealed_len || !self.siv.open(sealed, &mut out)? {
                            return Err(SchemeError::Unauthentic { row });
                        }
                    }
                }
            }
        }
        codec::decode_fixed(NAME, &self.data_type, &out, array.nulls().cloned())
    }
}

/// Short values whose AES blocks are made together: what fits the nearest cache.
const BATCH: usize = 512;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, Float64Array, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    fn det(data_type: DataType, group: &str) -> Det {
        let key = SchemeKey::from_bytes(&[7; 32]);
        Det::new(&key, &ColumnSpec::new(data_type).in_link_group(group)).unwrap()
    }

    #[test]
    fn every_type_comes_back() {
        for column in testing::columns() {
            let scheme = det(column.data_type().clone(), "");
            testing::round_trip(&scheme, &column, RowPositions::Anywhere);
        }
    }

    #[test]
    fn an_altered_value_is_named() {
        let scheme = det(DataType::Int64, "");
        let column = Int64Array::from_iter_values(0..2_000);
        let stored = scheme.encrypt(&column, RowPositions::Anywhere).unwrap();
        for row in [0, 511, 512, 1_999] {
            let altered = testing::flip(&stored, row, 150);
            let error = scheme
                .decrypt(&altered, RowPositions::Anywhere)
                .unwrap_err();
            assert!(
                matches!(error, SchemeError::Unauthentic { row: found } if found == row),
                "{error}"
            );
        }
    }

    #[test]
    fn groups_types_and_keys_are_apart() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![5]));
        let stored = det(DataType::Int64, "a")
            .encrypt(&column, RowPositions::Anywhere)
            .unwrap();
        assert!(
            det(DataType::Int64, "b")
                .decrypt(&stored, RowPositions::Anywhere)
                .is_err()
        );
        let zoned = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
        assert!(
            det(zoned, "a")
                .decrypt(&stored, RowPositions::Anywhere)
                .is_err()
        );
        let other = Det::new(
            &SchemeKey::from_bytes(&[8; 32]),
            &ColumnSpec::new(DataType::Int64).in_link_group("a"),
        );
        assert!(
            other
                .unwrap()
                .decrypt(&stored, RowPositions::Anywhere)
                .is_err()
        );
    }

    #[test]
    fn equal_values_have_one_form() {
        let scheme = det(DataType::Float64, "");
        let odd_nan = f64::from_bits(0xfff8_0000_0000_0001);
        let stored = scheme
            .encrypt(
                &Float64Array::from(vec![0.0, -0.0, f64::NAN, odd_nan]),
                RowPositions::Anywhere,
            )
            .unwrap();
        let stored = stored.as_binary::<i32>();
        assert_eq!(stored.value(0), stored.value(1));
        assert_eq!(stored.value(2), stored.value(3));
    }

    #[test]
    fn decimals_of_one_scale_are_comparable() {
        let of = |digits, scale| DataType::Decimal128(digits, scale);
        assert!(Det::comparable(&of(12, 2), &of(15, 2)));
        assert!(!Det::comparable(&of(12, 2), &of(12, 3)));
        assert!(!Det::comparable(&of(12, 2), &of(20, 2)));
        assert!(!Det::comparable(&DataType::Int32, &DataType::Int64));
        let value = |digits| {
            let column = Decimal128Array::from(vec![1_234])
                .with_precision_and_scale(digits, 2)
                .unwrap();
            let stored = det(of(digits, 2), "g")
                .encrypt(&column, RowPositions::Anywhere)
                .unwrap();
            stored.as_binary::<i32>().value(0).to_vec()
        };
        assert_eq!(value(12), value(15));
    }

    proptest! {
        #[test]
        fn equality_is_kept_and_nothing_else(
            values in prop::collection::vec(prop::option::of(".{0,20}"), 0..40),
        ) {
            let column: ArrayRef = Arc::new(StringArray::from(values.clone()));
            let scheme = det(DataType::Utf8, "g");
            let stored = testing::round_trip(&scheme, &column, RowPositions::Anywhere);
            let stored = stored.as_binary::<i32>();
            for (i, left) in values.iter().enumerate() {
                for (j, right) in values.iter().enumerate() {
                    if let (Some(left), Some(right)) = (left, right) {
                        prop_assert_eq!(left == right, stored.value(i) == stored.value(j));
                    }
                }
            }
        }
    }
}
