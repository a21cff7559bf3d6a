//! Casts among boolean, integers, floats, decimals and binary.

use std::{fmt::Display, sync::Arc};

use arrow::{
    array::{ArrayRef, ArrowNativeTypeOp, AsArray, BinaryArray, BooleanArray, PrimitiveArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type,
        Int16Type, Int32Type, Int64Type,
    },
};
use coffer_protocol::plan::FloatText;

use super::{CastInfo, overflow};
use crate::{
    Unsupported,
    decimal::{self, fits, out_of_range, plain, power, to_precision},
    format,
    function::Kernel,
    parse,
    vector::{argument, array, try_unary, typed, unary},
};

type Built = Result<Kernel, Unsupported>;

pub(crate) fn cast(info: &CastInfo<'_>) -> Built {
    match info.from {
        DataType::Boolean => from_boolean(info),
        DataType::Int8 => from_integer::<Int8Type>(info),
        DataType::Int16 => from_integer::<Int16Type>(info),
        DataType::Int32 => from_integer::<Int32Type>(info),
        DataType::Int64 => from_integer::<Int64Type>(info),
        DataType::Float32 => from_float::<Float32Type>(info),
        DataType::Float64 => from_float::<Float64Type>(info),
        DataType::Decimal128(_, scale) => from_decimal(info, *scale),
        _ => Err(info.unsupported()),
    }
}

fn from_boolean(info: &CastInfo<'_>) -> Built {
    fn numbers<T: ArrowPrimitiveType>(
        one: Option<T::Native>,
        zero: T::Native,
        to: DataType,
    ) -> Kernel {
        Arc::new(move |args, rows| {
            let truths = array(argument(args, 0)?, rows)?;
            let values = truths
                .as_boolean()
                .iter()
                .map(|v| v.and_then(|v| if v { one } else { Some(zero) }));
            Ok(typed(values.collect::<PrimitiveArray<T>>(), &to))
        })
    }
    let to = info.to.clone();
    Ok(match info.to {
        DataType::Int8 => numbers::<Int8Type>(Some(1), 0, to),
        DataType::Int16 => numbers::<Int16Type>(Some(1), 0, to),
        DataType::Int32 => numbers::<Int32Type>(Some(1), 0, to),
        DataType::Int64 => numbers::<Int64Type>(Some(1), 0, to),
        DataType::Float32 => numbers::<Float32Type>(Some(1.0), 0.0, to),
        DataType::Float64 => numbers::<Float64Type>(Some(1.0), 0.0, to),
        DataType::Decimal128(precision, scale) => {
            let one = power(scale.unsigned_abs().into());
            let (precision, scale, raises) = (*precision, *scale, info.raises());
            match fits(one, precision) {
                true => numbers::<Decimal128Type>(Some(one), 0, to),
                // decimal(n, n) holds no 1.
                false => Arc::new(move |args, rows| {
                    let truths = array(argument(args, 0)?, rows)?;
                    if raises && truths.as_boolean().has_true() {
                        return Err(out_of_range("1", precision, scale).into());
                    }
                    let zeros = truths
                        .as_boolean()
                        .iter()
                        .map(|v| v.filter(|v| !v).map(|_| 0));
                    Ok(typed(
                        zeros.collect::<PrimitiveArray<Decimal128Type>>(),
                        &to,
                    ))
                }),
            }
        }
        _ => return Err(info.unsupported()),
    })
}

fn from_integer<T>(info: &CastInfo<'_>) -> Built
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64> + Display,
{
    macro_rules! narrow {
        ($to:ty, $native:ty) => {
            if info.strict() {
                checked::<T, $to>(
                    info,
                    |v| <$native>::try_from(Into::<i64>::into(v)).ok(),
                    |v| v.to_string(),
                )
            } else {
                Arc::new(|args, rows| {
                    unary::<T, $to>(args, rows, |v| Into::<i64>::into(v) as $native)
                })
            }
        };
    }
    Ok(match info.to {
        DataType::Boolean => truth::<T>(|v| Into::<i64>::into(v) != 0),
        DataType::Int8 => narrow!(Int8Type, i8),
        DataType::Int16 => narrow!(Int16Type, i16),
        DataType::Int32 => narrow!(Int32Type, i32),
        DataType::Int64 => narrow!(Int64Type, i64),
        DataType::Float32 => Arc::new(|args, rows| {
            unary::<T, Float32Type>(args, rows, |v| Into::<i64>::into(v) as f32)
        }),
        DataType::Float64 => Arc::new(|args, rows| {
            unary::<T, Float64Type>(args, rows, |v| Into::<i64>::into(v) as f64)
        }),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            into_decimal::<T>(
                info,
                move |v| to_precision(Into::<i64>::into(v).into(), 0, precision, scale),
                |v| v.to_string(),
            )
        }
        DataType::Binary if !info.strict() => {
            let width = size_of::<T::Native>();
            Arc::new(move |args, rows| {
                let values = array(argument(args, 0)?, rows)?;
                let bytes = values.as_primitive::<T>().iter().map(|v| {
                    v.map(|v| {
                        let wide = Into::<i64>::into(v).to_be_bytes();
                        wide.get(8 - width..).unwrap_or_default().to_vec()
                    })
                });
                Ok(Arc::new(bytes.collect::<BinaryArray>()) as ArrayRef)
            })
        }
        _ => return Err(info.unsupported()),
    })
}

fn from_float<T>(info: &CastInfo<'_>) -> Built
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64> + ArrowNativeTypeOp,
{
    // The bounds as doubles; 2^63 passes for a long and saturates, as in Spark.
    let style = info.float_text;
    macro_rules! integer {
        ($to:ty, $native:ty) => {
            if info.strict() {
                checked::<T, $to>(
                    info,
                    |v| {
                        let v: f64 = v.into();
                        (v.floor() <= <$native>::MAX as f64 && v.ceil() >= <$native>::MIN as f64)
                            .then_some(v as i64 as $native)
                    },
                    move |v| double_text(v.into(), style),
                )
            } else {
                Arc::new(|args, rows| {
                    unary::<T, $to>(args, rows, |v| Into::<f64>::into(v) as i32 as $native)
                })
            }
        };
    }
    Ok(match info.to {
        DataType::Boolean => truth::<T>(|v| Into::<f64>::into(v) != 0.0),
        DataType::Int8 => integer!(Int8Type, i8),
        DataType::Int16 => integer!(Int16Type, i16),
        DataType::Int32 => integer!(Int32Type, i32),
        DataType::Int64 if info.strict() => integer!(Int64Type, i64),
        DataType::Int64 => Arc::new(|args, rows| {
            unary::<T, Int64Type>(args, rows, |v| Into::<f64>::into(v) as i64)
        }),
        DataType::Float32 => Arc::new(|args, rows| {
            unary::<T, Float32Type>(args, rows, |v| Into::<f64>::into(v) as f32)
        }),
        DataType::Float64 => {
            Arc::new(|args, rows| unary::<T, Float64Type>(args, rows, Into::<f64>::into))
        }
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            let (to, raises) = (info.to.clone(), info.raises());
            Arc::new(move |args, rows| {
                let values = array(argument(args, 0)?, rows)?;
                let mut out = Vec::with_capacity(rows);
                for value in values.as_primitive::<T>() {
                    // NaN and the infinities are NULL in every mode.
                    let finite = value.map(Into::<f64>::into).filter(|v| v.is_finite());
                    let decimal = finite.map(|v| decimal_of(v, style, precision, scale));
                    out.push(match decimal {
                        Some(None) if raises => {
                            let text = double_text(finite.unwrap_or_default(), style);
                            return Err(out_of_range(&text, precision, scale).into());
                        }
                        decimal => decimal.flatten(),
                    });
                }
                Ok(typed(
                    out.into_iter().collect::<PrimitiveArray<Decimal128Type>>(),
                    &to,
                ))
            })
        }
        _ => return Err(info.unsupported()),
    })
}

/// The decimal of a double's text, as Scala's `BigDecimal(double)` takes it.
fn decimal_of(value: f64, style: FloatText, precision: u8, scale: i8) -> Option<i128> {
    match parse::decimal(&format::scientific(value, style), precision, scale) {
        parse::Decimal::Value(value) => Some(value),
        _ => None,
    }
}

fn double_text(value: f64, style: FloatText) -> String {
    let mut text = String::new();
    format::double(value, style, &mut text);
    text
}

fn from_decimal(info: &CastInfo<'_>, scale: i8) -> Built {
    let unit = power(scale.unsigned_abs().into());
    let long_backed = matches!(info.from, DataType::Decimal128(..=18, _));
    macro_rules! integer {
        ($to:ty, $native:ty) => {
            if info.strict() {
                checked::<Decimal128Type, $to>(
                    info,
                    move |v| {
                        if long_backed {
                            return <$native>::try_from(v / unit).ok();
                        }
                        // Spark tests and converts a wide decimal as a double.
                        let double = double_of(v, scale);
                        (double.floor() <= <$native>::MAX as f64
                            && double.ceil() >= <$native>::MIN as f64)
                            .then_some(double as $native)
                    },
                    move |v| format!("{}BD", plain(v, scale)),
                )
            } else {
                Arc::new(move |args, rows| {
                    unary::<Decimal128Type, $to>(args, rows, |v| (v / unit) as i64 as $native)
                })
            }
        };
    }
    Ok(match info.to {
        DataType::Boolean => truth::<Decimal128Type>(|v| v != 0),
        DataType::Int8 => integer!(Int8Type, i8),
        DataType::Int16 => integer!(Int16Type, i16),
        DataType::Int32 => integer!(Int32Type, i32),
        DataType::Int64 if info.strict() => checked::<Decimal128Type, Int64Type>(
            info,
            move |v| i64::try_from(v / unit).ok(),
            move |v| format!("{}BD", plain(v, scale)),
        ),
        DataType::Int64 => Arc::new(move |args, rows| {
            unary::<Decimal128Type, Int64Type>(args, rows, |v| (v / unit) as i64)
        }),
        DataType::Float32 => Arc::new(move |args, rows| {
            unary::<Decimal128Type, Float32Type>(args, rows, |v| float_of(v, scale))
        }),
        DataType::Float64 => Arc::new(move |args, rows| {
            unary::<Decimal128Type, Float64Type>(args, rows, |v| double_of(v, scale))
        }),
        DataType::Decimal128(precision, to_scale) => {
            decimal::change(scale, *precision, *to_scale, info.raises())
        }
        _ => return Err(info.unsupported()),
    })
}

/// The powers of ten that a double holds exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// How many of them a float holds exactly.
const TENS_OF_FLOATS: usize = 11;

/// The nearest double. One exact division where both sides are exact, else through the text.
#[inline]
pub(crate) fn double_of(unscaled: i128, scale: i8) -> f64 {
    let scale_at = usize::try_from(scale).unwrap_or(usize::MAX);
    match (i64::try_from(unscaled), TENS.get(scale_at)) {
        (Ok(value), Some(ten)) if value.unsigned_abs() < 1 << 53 => value as f64 / ten,
        _ => format!("{unscaled}e-{scale}").parse().unwrap_or(f64::NAN),
    }
}

/// As [`double_of`], the nearest float.
#[inline]
fn float_of(unscaled: i128, scale: i8) -> f32 {
    let scale_at = usize::try_from(scale).unwrap_or(usize::MAX);
    let ten = TENS
        .get(..TENS_OF_FLOATS)
        .and_then(|tens| tens.get(scale_at));
    match (i32::try_from(unscaled), ten) {
        (Ok(value), Some(ten)) if value.unsigned_abs() < 1 << 24 => value as f32 / *ten as f32,
        _ => format!("{unscaled}e-{scale}").parse().unwrap_or(f32::NAN),
    }
}

fn truth<T: ArrowPrimitiveType>(f: fn(T::Native) -> bool) -> Kernel {
    Arc::new(move |args, rows| {
        let values = array(argument(args, 0)?, rows)?;
        Ok(Arc::new(BooleanArray::from_unary(values.as_primitive::<T>(), f)) as ArrayRef)
    })
}

fn checked<A: ArrowPrimitiveType, R: ArrowPrimitiveType>(
    info: &CastInfo<'_>,
    f: impl Fn(A::Native) -> Option<R::Native> + Send + Sync + 'static,
    show: impl Fn(A::Native) -> String + Send + Sync + 'static,
) -> Kernel {
    let (from, to, raises) = (info.from.clone(), info.to.clone(), info.raises());
    Arc::new(move |args, rows| {
        let failure = |v: A::Native| overflow(&show(v), &from, &to);
        try_unary::<A, R>(args, rows, &f, if raises { Some(&failure) } else { None })
    })
}

fn into_decimal<A: ArrowPrimitiveType>(
    info: &CastInfo<'_>,
    f: impl Fn(A::Native) -> Option<i128> + Send + Sync + 'static,
    show: impl Fn(A::Native) -> String + Send + Sync + 'static,
) -> Kernel {
    let (to, raises) = (info.to.clone(), info.raises());
    let (precision, scale) = match info.to {
        DataType::Decimal128(precision, scale) => (*precision, *scale),
        _ => (0, 0),
    };
    Arc::new(move |args, rows| {
        let failure = |v: A::Native| out_of_range(&show(v), precision, scale);
        let out = try_unary::<A, Decimal128Type>(
            args,
            rows,
            &f,
            if raises { Some(&failure) } else { None },
        )?;
        Ok(typed(out.as_primitive::<Decimal128Type>().clone(), &to))
    })
}
