//! Functions computed row by row over arguments of any type. For what costs more than a typed
//! lookup for each value: texts, digests, patterns.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryBuilder, BooleanBuilder,
        PrimitiveBuilder, StringBuilder,
    },
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

/// The arguments of one row.
pub(crate) struct Row<'a> {
    args: &'a [(ArrayRef, bool)],
    row: usize,
}

impl<'a> Row<'a> {
    pub(crate) fn of(args: &'a [(ArrayRef, bool)], row: usize) -> Self {
        Self { args, row }
    }

    /// The argument's values and the place of this row's among them.
    pub(crate) fn at(&self, index: usize) -> Option<(&'a ArrayRef, usize)> {
        let (values, one) = self.args.get(index)?;
        let row = if *one { 0 } else { self.row };
        values.is_valid(row).then_some((values, row))
    }

    pub(crate) fn len(&self) -> usize {
        self.args.len()
    }

    fn any_null(&self) -> bool {
        (0..self.args.len()).any(|index| self.at(index).is_none())
    }

    pub(crate) fn text(&self, index: usize) -> Option<&'a str> {
        let (values, row) = self.at(index)?;
        Some(values.as_string_opt::<i32>()?.value(row))
    }

    /// A binary's bytes or a string's.
    pub(crate) fn bytes(&self, index: usize) -> Option<&'a [u8]> {
        let (values, row) = self.at(index)?;
        match values.data_type() {
            DataType::Utf8 => Some(values.as_string_opt::<i32>()?.value(row).as_bytes()),
            _ => Some(values.as_binary_opt::<i32>()?.value(row)),
        }
    }

    /// An integer, the days of a date, the microseconds of a timestamp or of a time of day.
    pub(crate) fn long(&self, index: usize) -> Option<i64> {
        let (values, row) = self.at(index)?;
        Some(match values.data_type() {
            DataType::Int8 => values.as_primitive_opt::<Int8Type>()?.value(row).into(),
            DataType::Int16 => values.as_primitive_opt::<Int16Type>()?.value(row).into(),
            DataType::Int32 => values.as_primitive_opt::<Int32Type>()?.value(row).into(),
            DataType::Date32 => values.as_primitive_opt::<Date32Type>()?.value(row).into(),
            DataType::Int64 => values.as_primitive_opt::<Int64Type>()?.value(row),
            DataType::Timestamp(..) => values
                .as_primitive_opt::<TimestampMicrosecondType>()?
                .value(row),
            DataType::Time64(_) => values
                .as_primitive_opt::<Time64MicrosecondType>()?
                .value(row),
            _ => return None,
        })
    }

    pub(crate) fn double(&self, index: usize) -> Option<f64> {
        let (values, row) = self.at(index)?;
        match values.data_type() {
            DataType::Float32 => Some(values.as_primitive_opt::<Float32Type>()?.value(row).into()),
            _ => Some(values.as_primitive_opt::<Float64Type>()?.value(row)),
        }
    }

    /// A decimal's digits, at its type's scale.
    pub(crate) fn decimal(&self, index: usize) -> Option<i128> {
        let (values, row) = self.at(index)?;
        Some(values.as_primitive_opt::<Decimal128Type>()?.value(row))
    }

    pub(crate) fn truth(&self, index: usize) -> Option<bool> {
        let (values, row) = self.at(index)?;
        Some(values.as_boolean_opt()?.value(row))
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
    for row in 0..rows {
        let row = Row { args: &arrays, row };
        match nulls == Nulls::GiveNull && row.any_null() {
            true => f(None)?,
            false => f(Some(&row))?,
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
        let mut out = PrimitiveBuilder::<T>::with_capacity(rows).with_data_type(ret.clone());
        each(args, rows, nulls, |row| {
            out.append_option(row.map(&f).transpose()?.flatten());
            Ok(())
        })?;
        Ok(Arc::new(out.finish()) as ArrayRef)
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
