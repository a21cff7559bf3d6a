//! The digest of a result: of its rows, in whatever order, with their values and types.
//!
//! Rows form a multiset, hashed by LtHash (Bellare and Micciancio, "A New Paradigm for
//! Collision-Free Hashing", 1997; parameters of Lewi et al., "Securing Update Propagation with
//! Homomorphic Hashing", 2019: 1024 lanes of 16 bits, some 200 bits of security). Each row is
//! SHAKE128 of its encoding, 2048 bytes, added lane by lane; the digest is SHA-256 of the sum. So
//! it is the same however the rows came, and parts of a result add up.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{
        DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float64Type, Int64Type,
        IntervalUnit, IntervalYearMonthType, Time64NanosecondType, TimeUnit,
        TimestampMicrosecondType,
    },
    error::ArrowError,
};
use aws_lc_rs::digest;
use sha3::{
    Shake128,
    digest::{ExtendableOutput, Update, XofReader},
};

const LANES: usize = 1024;
const DOMAIN: &[u8] = b"coffer result 1\0";

/// What encodes a value begins with its kind; NULL is nothing else.
mod kind {
    pub(super) const NULL: u8 = 0;
    pub(super) const BOOLEAN: u8 = 1;
    pub(super) const INTEGER: u8 = 2;
    pub(super) const FLOAT: u8 = 3;
    pub(super) const DECIMAL: u8 = 4;
    pub(super) const STRING: u8 = 5;
    pub(super) const BINARY: u8 = 6;
    pub(super) const DATE: u8 = 7;
    pub(super) const TIMESTAMP: u8 = 8;
    pub(super) const TIMESTAMP_NTZ: u8 = 9;
    pub(super) const MONTHS: u8 = 10;
    pub(super) const DURATION: u8 = 11;
    pub(super) const TIME: u8 = 12;
    pub(super) const LIST: u8 = 13;
    pub(super) const STRUCT: u8 = 14;
    pub(super) const MAP: u8 = 15;
}

/// Why rows have no digest.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// Their type is none of Spark's that Coffer has.
    #[error("values of Arrow's type {0} have no digest")]
    Type(DataType),
    /// A value was not converted.
    #[error("a value has no digest: {0}")]
    Value(#[from] ArrowError),
}

/// A digest that grows with rows.
#[derive(Clone, PartialEq, Eq)]
pub struct ResultDigest {
    lanes: Box<[u16; LANES]>,
    rows: u64,
}

impl Default for ResultDigest {
    fn default() -> Self {
        Self {
            lanes: Box::new([0; LANES]),
            rows: 0,
        }
    }
}

impl ResultDigest {
    /// Adds rows. Integers of all widths, both floats, and texts of all of Arrow's layouts count
    /// alike, so that a file that went through another program has the same digest.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), ResultError> {
        let columns = batch
            .columns()
            .iter()
            .map(Values::of)
            .collect::<Result<Vec<_>, _>>()?;
        let (mut encoded, mut hash) = (Vec::new(), [0; 2 * LANES]);
        for row in 0..batch.num_rows() {
            encoded.clear();
            for column in &columns {
                column.encode(row, &mut encoded);
            }
            let mut shake = Shake128::default();
            shake.update(&encoded);
            shake.finalize_xof().read(&mut hash);
            for (lane, of) in self.lanes.iter_mut().zip(hash.as_chunks::<2>().0) {
                *lane = lane.wrapping_add(u16::from_le_bytes(*of));
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// Adds the rows of another.
    pub fn merge(&mut self, other: &Self) {
        for (lane, of) in self.lanes.iter_mut().zip(other.lanes.iter()) {
            *lane = lane.wrapping_add(*of);
        }
        self.rows += other.rows;
    }

    /// How many rows were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// SHA-256 of the number of rows (u64 LE) and the lanes (u16 LE), in hexadecimal.
    pub fn to_hex(&self) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(DOMAIN);
        context.update(&self.rows.to_le_bytes());
        for lane in self.lanes.iter() {
            context.update(&lane.to_le_bytes());
        }
        hex::encode(context.finish())
    }
}

/// A column in the few layouts that are encoded.
enum Values {
    /// Of these bytes each, of this kind.
    Plain(u8, ArrayRef),
    /// With what comes behind the kind.
    Decimal(u8, ArrayRef),
    List(ArrayRef, Box<Self>),
    Struct(ArrayRef, Vec<Self>),
    Map(ArrayRef, Box<Self>, Box<Self>),
}

impl Values {
    fn of(column: &ArrayRef) -> Result<Self, ResultError> {
        let like = |kind, data_type: DataType| -> Result<Self, ResultError> {
            let column = match *column.data_type() == data_type {
                true => ArrayRef::clone(column),
                false => cast(column, &data_type)?,
            };
            Ok(Self::Plain(kind, column))
        };
        match column.data_type() {
            DataType::Null => Ok(Self::Plain(kind::NULL, ArrayRef::clone(column))),
            DataType::Boolean => like(kind::BOOLEAN, DataType::Boolean),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                like(kind::INTEGER, DataType::Int64)
            }
            DataType::Float32 | DataType::Float64 => like(kind::FLOAT, DataType::Float64),
            DataType::Decimal128(_, scale) => Ok(Self::Decimal(
                scale.to_le_bytes()[0],
                ArrayRef::clone(column),
            )),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                like(kind::STRING, DataType::Utf8)
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                like(kind::BINARY, DataType::Binary)
            }
            DataType::Date32 => like(kind::DATE, DataType::Date32),
            DataType::Timestamp(_, zone) => like(
                match zone {
                    Some(_) => kind::TIMESTAMP,
                    None => kind::TIMESTAMP_NTZ,
                },
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            ),
            DataType::Interval(IntervalUnit::YearMonth) => {
                like(kind::MONTHS, DataType::Interval(IntervalUnit::YearMonth))
            }
            DataType::Duration(_) => {
                like(kind::DURATION, DataType::Duration(TimeUnit::Microsecond))
            }
            DataType::Time64(_) => like(kind::TIME, DataType::Time64(TimeUnit::Nanosecond)),
            DataType::List(_) => {
                let values = Self::of(column.as_list::<i32>().values())?;
                Ok(Self::List(ArrayRef::clone(column), Box::new(values)))
            }
            DataType::Struct(_) => {
                let fields = column.as_struct().columns().iter().map(Self::of);
                Ok(Self::Struct(
                    ArrayRef::clone(column),
                    fields.collect::<Result<_, _>>()?,
                ))
            }
            DataType::Map(..) => {
                let map = column.as_map();
                let (keys, values) = (Self::of(map.keys())?, Self::of(map.values())?);
                Ok(Self::Map(
                    ArrayRef::clone(column),
                    Box::new(keys),
                    Box::new(values),
                ))
            }
            other => Err(ResultError::Type(other.clone())),
        }
    }

    fn array(&self) -> &ArrayRef {
        match self {
            Self::Plain(_, array)
            | Self::Decimal(_, array)
            | Self::List(array, _)
            | Self::Struct(array, _)
            | Self::Map(array, ..) => array,
        }
    }

    fn encode(&self, row: usize, out: &mut Vec<u8>) {
        if self.array().is_null(row) {
            out.push(kind::NULL);
            return;
        }
        match self {
            Self::Plain(kind, array) => {
                out.push(*kind);
                plain(*kind, array, row, out);
            }
            Self::Decimal(scale, array) => {
                out.extend([kind::DECIMAL, *scale]);
                let value = array.as_primitive::<Decimal128Type>().value(row);
                out.extend(value.to_le_bytes());
            }
            Self::List(array, values) => {
                let (from, to) = span(array.as_list::<i32>().value_offsets(), row);
                out.push(kind::LIST);
                count(to - from, out);
                for at in from..to {
                    values.encode(at, out);
                }
            }
            Self::Struct(_, fields) => {
                out.push(kind::STRUCT);
                count(fields.len(), out);
                for field in fields {
                    field.encode(row, out);
                }
            }
            Self::Map(array, keys, values) => {
                let (from, to) = span(array.as_map().value_offsets(), row);
                let mut entries: Vec<(Vec<u8>, Vec<u8>)> = (from..to)
                    .map(|at| {
                        let (mut key, mut value) = (Vec::new(), Vec::new());
                        keys.encode(at, &mut key);
                        values.encode(at, &mut value);
                        (key, value)
                    })
                    .collect();
                // A map has no order, and of a key no second entry.
                entries.sort_unstable();
                out.push(kind::MAP);
                count(entries.len(), out);
                for (key, value) in entries {
                    out.extend(key);
                    out.extend(value);
                }
            }
        }
    }
}

/// Where a row's elements begin and end.
fn span(offsets: &[i32], row: usize) -> (usize, usize) {
    let at = |row| {
        let offset = offsets.get(row).copied().unwrap_or_default();
        usize::try_from(offset).unwrap_or_default()
    };
    (at(row), at(row + 1))
}

fn count(of: usize, out: &mut Vec<u8>) {
    out.extend(u64::try_from(of).unwrap_or(u64::MAX).to_le_bytes());
}

fn plain(kind: u8, array: &ArrayRef, row: usize, out: &mut Vec<u8>) {
    let long = |value: i64, out: &mut Vec<u8>| out.extend(value.to_le_bytes());
    match kind {
        kind::BOOLEAN => out.push(u8::from(array.as_boolean().value(row))),
        kind::INTEGER => long(array.as_primitive::<Int64Type>().value(row), out),
        kind::FLOAT => {
            let value = array.as_primitive::<Float64Type>().value(row);
            // NaN is one value, whatever its bits.
            let value = if value.is_nan() { f64::NAN } else { value };
            out.extend(value.to_bits().to_le_bytes());
        }
        kind::STRING => bytes(array.as_string::<i32>().value(row).as_bytes(), out),
        kind::BINARY => bytes(array.as_binary::<i32>().value(row), out),
        kind::DATE => long(array.as_primitive::<Date32Type>().value(row).into(), out),
        kind::TIMESTAMP | kind::TIMESTAMP_NTZ => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            long(values.value(row), out);
        }
        kind::MONTHS => {
            let values = array.as_primitive::<IntervalYearMonthType>();
            long(values.value(row).into(), out);
        }
        kind::DURATION => {
            let values = array.as_primitive::<DurationMicrosecondType>();
            long(values.value(row), out);
        }
        kind::TIME => long(array.as_primitive::<Time64NanosecondType>().value(row), out),
        _ => {}
    }
}

fn bytes(of: &[u8], out: &mut Vec<u8>) {
    count(of.len(), out);
    out.extend(of);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{
            Decimal128Array, Float32Array, Float64Array, Int8Array, Int32Array, Int32Builder,
            Int64Array, ListArray, MapBuilder, NullArray, StringArray, StringBuilder,
            StringViewArray, StructArray, TimestampMicrosecondArray,
        },
        datatypes::{Field, Int32Type, Schema},
    };

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let fields: Vec<Field> = (0..)
            .zip(&columns)
            .map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), true))
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    fn digest(columns: Vec<ArrayRef>) -> String {
        let mut digest = ResultDigest::default();
        digest.add(&batch(columns)).unwrap();
        digest.to_hex()
    }

    fn ints(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    #[test]
    fn the_order_of_rows_and_the_parts_do_not_matter() {
        let rows = batch(vec![
            ints(&[Some(1), None, Some(3), Some(1)]),
            Arc::new(StringArray::from(vec![
                Some("a"),
                Some("b"),
                None,
                Some("a"),
            ])),
        ]);
        let mut whole = ResultDigest::default();
        whole.add(&rows).unwrap();
        let mut parts = ResultDigest::default();
        let mut last = ResultDigest::default();
        last.add(&rows.slice(0, 1)).unwrap();
        for at in [3, 2, 1] {
            parts.add(&rows.slice(at, 1)).unwrap();
        }
        parts.merge(&last);
        assert_eq!(whole.to_hex(), parts.to_hex());
        assert_eq!(whole.rows(), 4);
        // A row twice is not a row once.
        parts.add(&rows.slice(0, 1)).unwrap();
        assert_ne!(whole.to_hex(), parts.to_hex());
    }

    #[test]
    fn a_value_counts_and_not_how_it_lies() {
        let same = [
            digest(vec![Arc::new(Int8Array::from(vec![1, 2]))]),
            digest(vec![Arc::new(Int64Array::from(vec![2, 1]))]),
        ];
        assert_eq!(same[0], same[1]);
        assert_eq!(
            digest(vec![Arc::new(StringArray::from(vec!["a"]))]),
            digest(vec![Arc::new(StringViewArray::from(vec!["a"]))])
        );
        assert_eq!(
            digest(vec![Arc::new(Float32Array::from(vec![1.5, -f32::NAN]))]),
            digest(vec![Arc::new(Float64Array::from(vec![1.5, f64::NAN]))])
        );
        // A slice of nested values.
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(9)]),
            Some(vec![Some(1), None]),
            None,
        ]);
        let alone =
            ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
        assert_eq!(
            digest(vec![Arc::new(lists.slice(1, 2))]),
            digest(vec![Arc::new(alone)])
        );
    }

    #[test]
    fn maps_have_no_order() {
        let map = |pairs: &[(&str, i32)]| -> ArrayRef {
            let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
            for (key, value) in pairs {
                map.keys().append_value(key);
                map.values().append_value(*value);
            }
            map.append(true).unwrap();
            Arc::new(map.finish())
        };
        let one = digest(vec![map(&[("a", 1), ("b", 2)])]);
        assert_eq!(one, digest(vec![map(&[("b", 2), ("a", 1)])]));
        assert_ne!(one, digest(vec![map(&[("a", 2), ("b", 1)])]));
    }

    /// Pairs of rows that some shorter encoding would take for one another.
    #[test]
    fn what_differs_has_another_digest() {
        let text = |a: &str, b: &str| {
            digest(vec![
                Arc::new(StringArray::from(vec![a])),
                Arc::new(StringArray::from(vec![b])),
            ])
        };
        let decimal = |value, scale| {
            let values = Decimal128Array::from(vec![value]);
            digest(vec![Arc::new(
                values.with_precision_and_scale(10, scale).unwrap(),
            )])
        };
        let instant = TimestampMicrosecondArray::from(vec![1]);
        let none: Vec<Option<i32>> = Vec::new();
        let list = |of: Vec<Option<i32>>| {
            digest(vec![Arc::new(ListArray::from_iter_primitive::<
                Int32Type,
                _,
                _,
            >([Some(of)]))])
        };
        let fields = StructArray::from(vec![
            (
                Arc::new(Field::new("a", DataType::Int32, true)),
                ints(&[Some(1)]),
            ),
            (
                Arc::new(Field::new("b", DataType::Int32, true)),
                ints(&[None]),
            ),
        ]);
        let all = [
            text("ab", "c"),
            text("a", "bc"),
            text("", ""),
            decimal(10, 1),
            decimal(1, 0),
            digest(vec![Arc::new(instant.clone())]),
            digest(vec![Arc::new(instant.with_timezone("UTC"))]),
            digest(vec![ints(&none)]),
            digest(vec![ints(&[None])]),
            digest(vec![ints(&[None]), ints(&[None])]),
            digest(vec![ints(&[Some(0)])]),
            digest(vec![Arc::new(Float64Array::from(vec![0.0]))]),
            digest(vec![Arc::new(Float64Array::from(vec![-0.0]))]),
            list(vec![]),
            list(vec![None]),
            list(vec![Some(1), None]),
            digest(vec![Arc::new(fields)]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one), "{at}");
        }
        // A column of no type has NULLs as any other.
        assert_eq!(
            digest(vec![Arc::new(NullArray::new(1))]),
            digest(vec![ints(&[None])])
        );
    }

    /// The same, made by the program in docs/reference/receipts.md.
    #[test]
    fn the_digest_is_the_documented_one() {
        let rows = vec![
            ints(&[Some(1), None]),
            Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef,
        ];
        assert_eq!(digest(rows), KNOWN);
    }

    const KNOWN: &str = "42678da1574ff5e72f87bdbb46180564bfa398cafc604fd529698ea2056a7fe9";
}
