//! Functions computed row by row over arguments of any type. For what costs more than a typed
//! lookup for each value: texts, digests, patterns.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryBuilder, BooleanArray,
        BooleanBuilder, NullBufferBuilder, PrimitiveArray, StringArray, StringBuilder,
    },
    buffer::NullBuffer,
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    },
};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;

use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Kernel},
};

/// What a row's function gives: a value, NULL, or Spark's error.
pub(crate) type Given<T> = std::result::Result<Option<T>, SparkError>;

/// An argument's values, whose type is looked up once for all rows.
pub(crate) struct Argument<'a> {
    array: &'a ArrayRef,
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
    /// The same value for each row.
    one: bool,
}

enum Values<'a> {
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    /// Dates too, as days.
    Int32(&'a [i32]),
    /// Timestamps and times of day too, as microseconds.
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal(&'a [i128]),
    Truth(&'a BooleanArray),
    Text(&'a StringArray),
    Binary(&'a BinaryArray),
    Other,
}

impl<'a> Argument<'a> {
    pub(crate) fn of(array: &'a ArrayRef, one: bool) -> Self {
        Self {
            array,
            nulls: array.nulls(),
            values: Values::of(array),
            one,
        }
    }
}

impl<'a> Values<'a> {
    fn of(array: &'a ArrayRef) -> Self {
        fn slice<T: ArrowPrimitiveType>(array: &ArrayRef) -> &[T::Native] {
            array.as_primitive::<T>().values()
        }
        match array.data_type() {
            DataType::Int8 => Self::Int8(slice::<Int8Type>(array)),
            DataType::Int16 => Self::Int16(slice::<Int16Type>(array)),
            DataType::Int32 => Self::Int32(slice::<Int32Type>(array)),
            DataType::Date32 => Self::Int32(slice::<Date32Type>(array)),
            DataType::Int64 => Self::Int64(slice::<Int64Type>(array)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::Int64(slice::<TimestampMicrosecondType>(array))
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                Self::Int64(slice::<Time64MicrosecondType>(array))
            }
            DataType::Float32 => Self::Float32(slice::<Float32Type>(array)),
            DataType::Float64 => Self::Float64(slice::<Float64Type>(array)),
            DataType::Decimal128(..) => Self::Decimal(slice::<Decimal128Type>(array)),
            DataType::Boolean => Self::Truth(array.as_boolean()),
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::Binary => Self::Binary(array.as_binary()),
            _ => Self::Other,
        }
    }
}

/// The arguments of one row.
pub(crate) struct Row<'a> {
    args: &'a [Argument<'a>],
    row: usize,
}

impl<'a> Row<'a> {
    pub(crate) fn of(args: &'a [Argument<'a>], row: usize) -> Self {
        Self { args, row }
    }

    /// The argument, and the place of this row's value among its own; none of NULL.
    fn argument(&self, index: usize) -> Option<(&'a Argument<'a>, usize)> {
        let arg = self.args.get(index)?;
        let row = if arg.one { 0 } else { self.row };
        let valid = arg.nulls.is_none_or(|nulls| nulls.is_valid(row));
        valid.then_some((arg, row))
    }

    /// The argument's values and the place of this row's among them.
    pub(crate) fn at(&self, index: usize) -> Option<(&'a ArrayRef, usize)> {
        let (arg, row) = self.argument(index)?;
        Some((arg.array, row))
    }

    pub(crate) fn len(&self) -> usize {
        self.args.len()
    }

    pub(crate) fn text(&self, index: usize) -> Option<&'a str> {
        let (arg, row) = self.argument(index)?;
        match &arg.values {
            Values::Text(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// A binary's bytes or a string's.
    pub(crate) fn bytes(&self, index: usize) -> Option<&'a [u8]> {
        let (arg, row) = self.argument(index)?;
        match &arg.values {
            Values::Text(values) => Some(values.value(row).as_bytes()),
            Values::Binary(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// An integer, the days of a date, the microseconds of a timestamp or of a time of day.
    pub(crate) fn long(&self, index: usize) -> Option<i64> {
        let (arg, row) = self.argument(index)?;
        match arg.values {
            Values::Int8(values) => values.get(row).map(|v| i64::from(*v)),
            Values::Int16(values) => values.get(row).map(|v| i64::from(*v)),
            Values::Int32(values) => values.get(row).map(|v| i64::from(*v)),
            Values::Int64(values) => values.get(row).copied(),
            _ => None,
        }
    }

    pub(crate) fn double(&self, index: usize) -> Option<f64> {
        let (arg, row) = self.argument(index)?;
        match arg.values {
            Values::Float32(values) => values.get(row).map(|v| f64::from(*v)),
            Values::Float64(values) => values.get(row).copied(),
            _ => None,
        }
    }

    /// A decimal's digits, at its type's scale.
    pub(crate) fn decimal(&self, index: usize) -> Option<i128> {
        let (arg, row) = self.argument(index)?;
        match arg.values {
            Values::Decimal(values) => values.get(row).copied(),
            _ => None,
        }
    }

    pub(crate) fn truth(&self, index: usize) -> Option<bool> {
        let (arg, row) = self.argument(index)?;
        match &arg.values {
            Values::Truth(values) => Some(values.value(row)),
            _ => None,
        }
    }
}

/// Whether NULL arguments give NULL without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    GiveNull,
    AreGiven,
}

pub(crate) fn each(
    args: &[ColumnarValue],
    rows: usize,
    nulls: Nulls,
    mut f: impl FnMut(Option<&Row<'_>>) -> Result<()>,
) -> Result<()> {
    let arrays = args
        .iter()
        .map(|arg| {
            Ok(match arg {
                ColumnarValue::Array(array) => (Arc::clone(array), false),
                ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut args: Vec<_> = arrays
        .iter()
        .map(|(array, one)| Argument::of(array, *one))
        .collect();
    let mut valid = None;
    if nulls == Nulls::GiveNull {
        if args.iter().any(|arg| arg.one && arg.array.is_null(0)) {
            return (0..rows).try_for_each(|_| f(None));
        }
        let of_rows = args.iter().filter(|arg| !arg.one);
        valid = NullBuffer::union_many(of_rows.map(|arg| arg.nulls));
        // No row that is called has a NULL.
        args.iter_mut().for_each(|arg| arg.nulls = None);
    }
    for row in 0..rows {
        match valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            true => f(None)?,
            false => f(Some(&Row { args: &args, row }))?,
        }
    }
    Ok(())
}

/// To a string: `f` appends the row's text.
pub(crate) fn text(
    nulls: Nulls,
    f: impl Fn(&Row<'_>, &mut String) -> Given<()> + Send + Sync + 'static,
) -> Kernel {
    Arc::new(move |args, rows| {
        let mut out = StringBuilder::with_capacity(rows, rows * 16);
        let mut text = String::new();
        each(args, rows, nulls, |row| {
            text.clear();
            match row.map(|row| f(row, &mut text)).transpose()?.flatten() {
                Some(()) => out.append_value(&text),
                None => out.append_null(),
            }
            Ok(())
        })?;
        Ok(Arc::new(out.finish()) as ArrayRef)
    })
}

/// To binary: `f` appends the row's bytes.
pub(crate) fn bytes(
    nulls: Nulls,
    f: impl Fn(&Row<'_>, &mut Vec<u8>) -> Given<()> + Send + Sync + 'static,
) -> Kernel {
    Arc::new(move |args, rows| {
        let mut out = BinaryBuilder::with_capacity(rows, rows * 16);
        let mut bytes = Vec::new();
        each(args, rows, nulls, |row| {
            bytes.clear();
            match row.map(|row| f(row, &mut bytes)).transpose()?.flatten() {
                Some(()) => out.append_value(&bytes),
                None => out.append_null(),
            }
            Ok(())
        })?;
        Ok(Arc::new(out.finish()) as ArrayRef)
    })
}

/// To a primitive type, `ret`, whose native type is `T`'s.
pub(crate) fn number<T: ArrowPrimitiveType>(
    ret: &DataType,
    nulls: Nulls,
    f: impl Fn(&Row<'_>) -> Given<T::Native> + Send + Sync + 'static,
) -> Kernel {
    let ret = ret.clone();
    Arc::new(move |args, rows| {
        let mut out = Vec::with_capacity(rows);
        let mut valid = NullBufferBuilder::new(rows);
        each(args, rows, nulls, |row| {
            let value = row.map(&f).transpose()?.flatten();
            valid.append(value.is_some());
            out.push(value.unwrap_or_default());
            Ok(())
        })?;
        let array = PrimitiveArray::<T>::new(out.into(), valid.finish());
        Ok(Arc::new(array.with_data_type(ret.clone())) as ArrayRef)
    })
}

/// To a boolean.
pub(crate) fn truth(
    nulls: Nulls,
    f: impl Fn(&Row<'_>) -> Given<bool> + Send + Sync + 'static,
) -> Kernel {
    Arc::new(move |args, rows| {
        let mut out = BooleanBuilder::with_capacity(rows);
        each(args, rows, nulls, |row| {
            out.append_option(row.map(&f).transpose()?.flatten());
            Ok(())
        })?;
        Ok(Arc::new(out.finish()) as ArrayRef)
    })
}

/// Refuses a call of other types than these.
pub(crate) fn takes(
    call: &CallInfo<'_>,
    types: &[DataType],
    ret: &DataType,
) -> std::result::Result<(), Unsupported> {
    match call.types == types && call.ret == ret {
        true => Ok(()),
        false => Err(call.bad_types()),
    }
}

pub(crate) fn timestamp_ntz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}
