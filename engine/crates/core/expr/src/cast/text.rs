//! Casts to and from strings, and the text that `show()` prints.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryArray, BooleanArray, NullBufferBuilder, PrimitiveArray,
        StringArray, StringBuilder,
    },
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use coffer_protocol::plan::FloatText;
use datafusion_common::{Result, ScalarValue};

use super::{CastInfo, invalid_input, nested};
use crate::{
    SparkError, Unsupported,
    decimal::{out_of_range, plain},
    encodings::base64_text,
    format,
    function::{CallInfo, Kernel},
    parse::{self, Float, Timestamp},
    vector::{argument, array, typed},
    zone::Zone,
};

/// What a kernel writes for the rows.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Decimals without exponent.
    plain_decimals: bool,
    /// `show()`'s: NULL as a word.
    pub(super) pretty: bool,
    binary: Binary,
    /// Whose digits floats have.
    floats: FloatText,
}

/// How binary is written: `spark.sql.binaryOutputStyle`'s values.
#[derive(Clone, Copy)]
enum Binary {
    /// Its bytes are the text's; a cast's.
    Utf8,
    /// `[97, -2]`
    Basic,
    /// Without padding.
    Base64,
    /// `61FE`
    Hex,
    /// `[61 FE]`; what `show()` writes where nothing is set.
    HexDiscrete,
}

impl Binary {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "UTF-8" => Self::Utf8,
            "BASIC" => Self::Basic,
            "BASE64" => Self::Base64,
            "HEX" => Self::Hex,
            "HEX_DISCRETE" => Self::HexDiscrete,
            _ => return None,
        })
    }

    fn write(self, bytes: &[u8], out: &mut String) -> Result<(), SparkError> {
        match self {
            // Spark keeps the bytes as they are; an Arrow string cannot.
            Self::Utf8 => out.push_str(std::str::from_utf8(bytes).map_err(|_| {
                SparkError::new(
                    "MALFORMED_UTF8",
                    "A binary value that is not valid UTF-8 was cast to a string.",
                )
            })?),
            Self::Basic => format::signed_bytes(bytes, out),
            Self::Base64 => {
                let start = out.len();
                base64_text(bytes, out);
                out.truncate(start + out[start..].trim_end_matches('=').len());
            }
            Self::Hex => format::hex_digits(bytes, format::UPPER, out),
            Self::HexDiscrete => format::hex_bytes(bytes, out),
        }
        Ok(())
    }
}

pub(crate) fn to_text(info: &CastInfo<'_>) -> Result<Kernel, Unsupported> {
    let style = Style {
        plain_decimals: info.strict(),
        pretty: false,
        binary: Binary::Utf8,
        floats: info.float_text,
    };
    text_kernel(info.from, info.zone, style).ok_or_else(|| info.unsupported())?
}

pub(crate) fn to_pretty_string(call: &CallInfo<'_>) -> Result<Kernel, Unsupported> {
    let binary = match call.types {
        [_] => Binary::HexDiscrete,
        _ => match call.literal(1)? {
            ScalarValue::Utf8(Some(name)) => Binary::of(name)
                .ok_or_else(|| call.unsupported(format!("no style of binary: {name}")))?,
            _ => return Err(call.bad_types()),
        },
    };
    let ([from] | [from, _], DataType::Utf8) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    text_kernel(
        from,
        call.zone,
        Style {
            plain_decimals: true,
            pretty: true,
            binary,
            floats: call.float_text,
        },
    )
    .ok_or_else(|| call.bad_types())?
}

pub(super) fn text_kernel(
    from: &DataType,
    zone: &str,
    style: Style,
) -> Option<Result<Kernel, Unsupported>> {
    Some(Ok(match from {
        DataType::Null => Arc::new(move |_, rows| {
            Ok(Arc::new(StringArray::from(vec![
                style.pretty.then_some("NULL");
                rows
            ])) as ArrayRef)
        }),
        DataType::Boolean => Arc::new(move |args, rows| {
            let values = array(argument(args, 0)?, rows)?;
            write(values.as_boolean().iter(), style, |v, out| {
                out.push_str(if v { "true" } else { "false" });
                Ok(())
            })
        }),
        DataType::Int8 => display::<Int8Type>(style),
        DataType::Int16 => display::<Int16Type>(style),
        DataType::Int32 => display::<Int32Type>(style),
        DataType::Int64 => display::<Int64Type>(style),
        DataType::Float32 => {
            primitive::<Float32Type>(style, move |v, out| format::float(v, style.floats, out))
        }
        DataType::Float64 => {
            primitive::<Float64Type>(style, move |v, out| format::double(v, style.floats, out))
        }
        DataType::Decimal128(_, scale) => {
            let scale = *scale;
            primitive::<Decimal128Type>(style, move |v, out| match style.plain_decimals {
                true => out.push_str(&plain(v, scale)),
                false => format::big_decimal(v, scale, out),
            })
        }
        DataType::Date32 => primitive::<Date32Type>(style, |v, out| format::date(v.into(), out)),
        DataType::Timestamp(_, None) => {
            primitive::<TimestampMicrosecondType>(style, format::local_timestamp)
        }
        DataType::Timestamp(_, Some(_)) => {
            let zone = match Zone::of(zone) {
                Ok(zone) => zone,
                Err(e) => return Some(Err(e)),
            };
            primitive::<TimestampMicrosecondType>(style, move |v, out| {
                format::local_timestamp(zone.to_local(v), out)
            })
        }
        DataType::Time64(_) => primitive::<Time64MicrosecondType>(style, format::time_of_day),
        DataType::Utf8 if style.pretty => Arc::new(move |args, rows| {
            let values = array(argument(args, 0)?, rows)?;
            write(values.as_string::<i32>().iter(), style, |v, out| {
                out.push_str(v);
                Ok(())
            })
        }),
        DataType::Binary => Arc::new(move |args, rows| {
            let values = array(argument(args, 0)?, rows)?;
            write(values.as_binary::<i32>().iter(), style, |v, out| {
                style.binary.write(v, out)
            })
        }),
        DataType::List(_) | DataType::Struct(_) | DataType::Map(..) => {
            return nested::to_text(from, zone, style);
        }
        _ => return None,
    }))
}

pub(super) fn write<T>(
    values: impl Iterator<Item = Option<T>>,
    style: Style,
    f: impl Fn(T, &mut String) -> Result<(), SparkError>,
) -> Result<ArrayRef> {
    let mut out = StringBuilder::with_capacity(values.size_hint().0, values.size_hint().0 * 8);
    let mut text = String::new();
    for value in values {
        match value {
            Some(value) => {
                text.clear();
                f(value, &mut text)?;
                out.append_value(&text);
            }
            None if style.pretty => out.append_value("NULL"),
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn primitive<T: ArrowPrimitiveType>(
    style: Style,
    f: impl Fn(T::Native, &mut String) + Send + Sync + 'static,
) -> Kernel {
    Arc::new(move |args, rows| {
        let values = array(argument(args, 0)?, rows)?;
        write(values.as_primitive::<T>().iter(), style, |v, out| {
            f(v, out);
            Ok(())
        })
    })
}

fn display<T: ArrowPrimitiveType<Native: std::fmt::Display>>(style: Style) -> Kernel {
    primitive::<T>(style, |v, out| {
        use std::fmt::Write;
        let _ = write!(out, "{v}");
    })
}

/// A text that has no value of the type, or none that can be told.
enum Refused {
    /// NULL, or the type's usual error.
    Invalid,
    /// NULL, or this error in ANSI mode.
    Other(SparkError),
    /// An error in every mode: the engine cannot tell what Spark would give.
    Always(SparkError),
}

pub(crate) fn from_text(info: &CastInfo<'_>) -> Result<Kernel, Unsupported> {
    let strict = info.strict();
    Ok(match info.to {
        DataType::Boolean => {
            let raises = info.raises();
            Arc::new(move |args, rows| {
                let texts = array(argument(args, 0)?, rows)?;
                let parsed = texts.as_string::<i32>().iter().map(|text| match text {
                    Some(text) => settle(
                        text,
                        parse::boolean(text).ok_or(Refused::Invalid),
                        raises,
                        &DataType::Boolean,
                    ),
                    None => Ok(None),
                });
                Ok(Arc::new(parsed.collect::<Result<BooleanArray, SparkError>>()?) as ArrayRef)
            })
        }
        DataType::Int8 => read::<Int8Type>(info, move |t| integer(t, strict)),
        DataType::Int16 => read::<Int16Type>(info, move |t| integer(t, strict)),
        DataType::Int32 => read::<Int32Type>(info, move |t| integer(t, strict)),
        DataType::Int64 => read::<Int64Type>(info, move |t| integer(t, strict)),
        DataType::Float32 => read::<Float32Type>(info, |t| {
            float(parse::float(
                t,
                [f32::INFINITY, f32::NEG_INFINITY, f32::NAN],
            ))
        }),
        DataType::Float64 => read::<Float64Type>(info, |t| {
            float(parse::float(
                t,
                [f64::INFINITY, f64::NEG_INFINITY, f64::NAN],
            ))
        }),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            read::<Decimal128Type>(info, move |text| {
                match parse::decimal(text, precision, scale) {
                    parse::Decimal::Value(value) => Ok(value),
                    parse::Decimal::Invalid => Err(Refused::Invalid),
                    parse::Decimal::TooLarge => Err(Refused::Other(SparkError::new(
                        "NUMERIC_OUT_OF_SUPPORTED_RANGE",
                        format!(
                            "The value {text} cannot be interpreted as a numeric since it has \
                                more than 38 digits."
                        ),
                    ))),
                    parse::Decimal::ForeignDigits => Err(Refused::Always(SparkError::new(
                        "UNSUPPORTED_DIGITS",
                        "A text with digits other than 0 to 9 was cast to a decimal; the engine \
                            does not read those.",
                    ))),
                    parse::Decimal::Misfit => {
                        Err(Refused::Other(out_of_range(text.trim(), precision, scale)))
                    }
                }
            })
        }
        DataType::Date32 => read::<Date32Type>(info, |t| parse::date(t).ok_or(Refused::Invalid)),
        DataType::Timestamp(_, None) => {
            read::<TimestampMicrosecondType>(info, |text| match parse::timestamp(text) {
                Some(Timestamp::Local(local, _)) => Ok(local),
                Some(Timestamp::TimeOnly { .. }) | None => Err(Refused::Invalid),
            })
        }
        DataType::Timestamp(_, Some(_)) => {
            let zone = info.zone()?;
            read::<TimestampMicrosecondType>(info, move |text| match parse::timestamp(text) {
                Some(Timestamp::Local(local, own)) => own
                    .unwrap_or(zone)
                    .to_instant(local)
                    .ok_or(Refused::Invalid),
                Some(Timestamp::TimeOnly { .. }) => Err(Refused::Always(SparkError::new(
                    "UNSUPPORTED_TIME_OF_DAY",
                    "A time of day without a date was cast to a timestamp; the engine knows no \
                        current date.",
                ))),
                None => Err(Refused::Invalid),
            })
        }
        DataType::Time64(_) => read::<Time64MicrosecondType>(info, |text| {
            parse::time_of_day(text).ok_or(Refused::Invalid)
        }),
        DataType::Binary => Arc::new(|args, rows| {
            let texts = array(argument(args, 0)?, rows)?;
            let bytes: BinaryArray = texts
                .as_string::<i32>()
                .iter()
                .map(|t| t.map(str::as_bytes))
                .collect();
            Ok(Arc::new(bytes) as ArrayRef)
        }),
        _ => return Err(info.unsupported()),
    })
}

fn integer<T: TryFrom<i64>>(text: &str, strict: bool) -> Result<T, Refused> {
    parse::long(text, !strict)
        .and_then(|v| T::try_from(v).ok())
        .ok_or(Refused::Invalid)
}

fn float<T>(parsed: Float<T>) -> Result<T, Refused> {
    match parsed {
        Float::Value(value) => Ok(value),
        Float::Invalid => Err(Refused::Invalid),
        Float::Hexadecimal => Err(Refused::Always(SparkError::new(
            "UNSUPPORTED_HEXADECIMAL_FLOAT",
            "A hexadecimal floating point text was cast to a number; the engine does not read \
                those.",
        ))),
    }
}

fn settle<T>(
    text: &str,
    parsed: Result<T, Refused>,
    raises: bool,
    to: &DataType,
) -> Result<Option<T>, SparkError> {
    match parsed {
        Ok(value) => Ok(Some(value)),
        Err(Refused::Always(error)) => Err(error),
        Err(Refused::Other(error)) if raises => Err(error),
        Err(Refused::Invalid) if raises => Err(invalid_input(text, to)),
        Err(_) => Ok(None),
    }
}

fn read<T: ArrowPrimitiveType>(
    info: &CastInfo<'_>,
    f: impl Fn(&str) -> Result<T::Native, Refused> + Send + Sync + 'static,
) -> Kernel {
    let (to, raises) = (info.to.clone(), info.raises());
    Arc::new(move |args, rows| {
        let texts = array(argument(args, 0)?, rows)?;
        let texts = texts.as_string::<i32>();
        let mut values = Vec::with_capacity(texts.len());
        let mut valid = NullBufferBuilder::new(texts.len());
        for text in texts {
            let value = match text {
                Some(text) => settle(text, f(text), raises, &to)?,
                None => None,
            };
            valid.append(value.is_some());
            values.push(value.unwrap_or_default());
        }
        let array = PrimitiveArray::<T>::new(values.into(), valid.finish());
        Ok(typed(array, &to))
    })
}
