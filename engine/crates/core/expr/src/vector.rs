//! Typed loops over one or two arguments, each an array or one value for all rows. A literal
//! argument is never expanded.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray},
    buffer::{BooleanBuffer, NullBuffer},
    datatypes::DataType,
};
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;

use crate::SparkError;

/// One argument as values of a primitive type.
pub(crate) enum Operand<T: ArrowPrimitiveType> {
    Array(PrimitiveArray<T>),
    One(Option<T::Native>),
}

impl<T: ArrowPrimitiveType> Operand<T> {
    pub(crate) fn new(value: &ColumnarValue) -> Result<Self> {
        match value {
            ColumnarValue::Array(array) => match array.as_primitive_opt::<T>() {
                Some(array) => Ok(Self::Array(array.clone())),
                None => internal_err!("expected {}, got {}", T::DATA_TYPE, array.data_type()),
            },
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array()?;
                match array.as_primitive_opt::<T>() {
                    Some(array) => Ok(Self::One(array.iter().next().flatten())),
                    None => internal_err!("expected {}, got {}", T::DATA_TYPE, array.data_type()),
                }
            }
        }
    }

    /// Which rows are NULL. `None`: no row is.
    fn nulls(&self, rows: usize) -> Option<NullBuffer> {
        match self {
            Self::Array(array) => array.nulls().cloned(),
            Self::One(Some(_)) => None,
            Self::One(None) => Some(NullBuffer::new_null(rows)),
        }
    }
}

/// An argument as an array of the batch's length.
pub(crate) fn array(value: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    value.to_array(rows)
}

pub(crate) fn argument(args: &[ColumnarValue], index: usize) -> Result<&ColumnarValue> {
    match args.get(index) {
        Some(arg) => Ok(arg),
        None => internal_err!("argument {index} is missing"),
    }
}

/// `f` is total: it may also run on what lies under NULLs.
pub(crate) fn unary<A, R>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native) -> R::Native,
) -> Result<ArrayRef>
where
    A: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
{
    Ok(Arc::new(match Operand::<A>::new(argument(args, 0)?)? {
        Operand::Array(array) => array.unary::<_, R>(f),
        Operand::One(value) => repeat(value.map(f), rows),
    }))
}

/// `f` gives `None` where there is no result.
pub(crate) fn try_unary<A, R>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native) -> Option<R::Native>,
    failure: Option<&dyn Fn(A::Native) -> SparkError>,
) -> Result<ArrayRef>
where
    A: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
{
    let array = match Operand::<A>::new(argument(args, 0)?)? {
        Operand::Array(array) => array,
        Operand::One(value) => repeat::<A>(value, rows),
    };
    let nulls = array.nulls();
    let mut values = Vec::with_capacity(rows);
    let mut missing = Vec::new();
    for (row, value) in array.values().iter().enumerate() {
        match f(*value) {
            Some(result) => values.push(result),
            None => {
                values.push(R::Native::default());
                if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                    match failure {
                        Some(failure) => return Err(failure(*value).into()),
                        None => missing.push(row),
                    }
                }
            }
        }
    }
    let nulls = without(nulls.cloned(), &missing, values.len());
    Ok(Arc::new(PrimitiveArray::<R>::new(values.into(), nulls)))
}

/// `f` is total: it may also run on what lies under NULLs.
pub(crate) fn binary<A, B, R>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native, B::Native) -> R::Native,
) -> Result<PrimitiveArray<R>>
where
    A: ArrowPrimitiveType,
    B: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
{
    let (left, right) = operands::<A, B>(args)?;
    let nulls = NullBuffer::union(left.nulls(rows).as_ref(), right.nulls(rows).as_ref());
    let values: Vec<R::Native> = match (&left, &right) {
        (Operand::Array(a), Operand::Array(b)) => a
            .values()
            .iter()
            .zip(b.values())
            .map(|(a, b)| f(*a, *b))
            .collect(),
        (Operand::Array(a), Operand::One(Some(b))) => {
            a.values().iter().map(|a| f(*a, *b)).collect()
        }
        (Operand::One(Some(a)), Operand::Array(b)) => {
            b.values().iter().map(|b| f(*a, *b)).collect()
        }
        (Operand::One(Some(a)), Operand::One(Some(b))) => vec![f(*a, *b); rows],
        (Operand::One(None), _) | (_, Operand::One(None)) => {
            return Ok(PrimitiveArray::new_null(rows));
        }
    };
    Ok(PrimitiveArray::new(values.into(), nulls))
}

/// `f` gives `None` where there is no result; rows under NULLs are passed over.
pub(crate) fn try_binary<A, B, R>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native, B::Native) -> Option<R::Native>,
    failure: Option<&dyn Fn(A::Native, B::Native) -> SparkError>,
) -> Result<PrimitiveArray<R>>
where
    A: ArrowPrimitiveType,
    B: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
{
    let (left, right) = operands::<A, B>(args)?;
    let nulls = NullBuffer::union(left.nulls(rows).as_ref(), right.nulls(rows).as_ref());
    let mut out = Checked::<A::Native, B::Native, R> {
        values: Vec::with_capacity(rows),
        missing: Vec::new(),
        nulls: nulls.as_ref(),
        failure,
    };
    match (&left, &right) {
        (Operand::Array(a), Operand::Array(b)) => {
            for (a, b) in a.values().iter().zip(b.values()) {
                out.push(*a, *b, f(*a, *b))?;
            }
        }
        (Operand::Array(a), Operand::One(Some(b))) => {
            for a in a.values() {
                out.push(*a, *b, f(*a, *b))?;
            }
        }
        (Operand::One(Some(a)), Operand::Array(b)) => {
            for b in b.values() {
                out.push(*a, *b, f(*a, *b))?;
            }
        }
        (Operand::One(Some(a)), Operand::One(Some(b))) => {
            for _ in 0..rows {
                out.push(*a, *b, f(*a, *b))?;
            }
        }
        (Operand::One(None), _) | (_, Operand::One(None)) => {
            return Ok(PrimitiveArray::new_null(rows));
        }
    }
    let Checked {
        values, missing, ..
    } = out;
    let nulls = without(nulls, &missing, values.len());
    Ok(PrimitiveArray::new(values.into(), nulls))
}

/// Truth of two values, `f` total.
pub(crate) fn compare<T: ArrowPrimitiveType>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(T::Native, T::Native) -> bool,
) -> Result<BooleanArray> {
    let (left, right) = operands::<T, T>(args)?;
    let nulls = NullBuffer::union(left.nulls(rows).as_ref(), right.nulls(rows).as_ref());
    let values = match (&left, &right) {
        (Operand::Array(a), Operand::Array(b)) => a
            .values()
            .iter()
            .zip(b.values())
            .map(|(a, b)| f(*a, *b))
            .collect::<BooleanBuffer>(),
        (Operand::Array(a), Operand::One(Some(b))) => {
            a.values().iter().map(|a| f(*a, *b)).collect()
        }
        (Operand::One(Some(a)), Operand::Array(b)) => {
            b.values().iter().map(|b| f(*a, *b)).collect()
        }
        (Operand::One(Some(a)), Operand::One(Some(b))) => {
            std::iter::repeat_n(f(*a, *b), rows).collect()
        }
        (Operand::One(None), _) | (_, Operand::One(None)) => {
            return Ok(BooleanArray::new_null(rows));
        }
    };
    Ok(BooleanArray::new(values, nulls))
}

/// The same value in every row.
pub(crate) fn repeat<T: ArrowPrimitiveType>(
    value: Option<T::Native>,
    rows: usize,
) -> PrimitiveArray<T> {
    match value {
        Some(value) => PrimitiveArray::from_value(value, rows),
        None => PrimitiveArray::new_null(rows),
    }
}

/// The array with the decimal or timestamp type that its primitive type leaves open.
pub(crate) fn typed<T: ArrowPrimitiveType>(
    array: PrimitiveArray<T>,
    data_type: &DataType,
) -> ArrayRef {
    Arc::new(array.with_data_type(data_type.clone()))
}

/// NULL in every row.
pub(crate) fn all_null(data_type: &DataType, rows: usize) -> ArrayRef {
    arrow::array::new_null_array(data_type, rows)
}

fn operands<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    args: &[ColumnarValue],
) -> Result<(Operand<A>, Operand<B>)> {
    Ok((
        Operand::new(argument(args, 0)?)?,
        Operand::new(argument(args, 1)?)?,
    ))
}

struct Checked<'a, A, B, R: ArrowPrimitiveType> {
    values: Vec<R::Native>,
    missing: Vec<usize>,
    nulls: Option<&'a NullBuffer>,
    failure: Option<&'a dyn Fn(A, B) -> SparkError>,
}

impl<A, B, R: ArrowPrimitiveType> Checked<'_, A, B, R> {
    #[inline]
    fn push(&mut self, a: A, b: B, result: Option<R::Native>) -> Result<()> {
        match result {
            Some(result) => self.values.push(result),
            None => {
                let row = self.values.len();
                self.values.push(R::Native::default());
                if self.nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                    match self.failure {
                        Some(failure) => return Err(failure(a, b).into()),
                        None => self.missing.push(row),
                    }
                }
            }
        }
        Ok(())
    }
}

/// The null mask with these rows made NULL too.
fn without(nulls: Option<NullBuffer>, missing: &[usize], rows: usize) -> Option<NullBuffer> {
    if missing.is_empty() {
        return nulls;
    }
    let mut valid = match nulls {
        Some(nulls) => nulls.iter().collect::<Vec<_>>(),
        None => vec![true; rows],
    };
    for row in missing {
        if let Some(slot) = valid.get_mut(*row) {
            *slot = false;
        }
    }
    Some(NullBuffer::from(valid))
}
