//! Arithmetic over integers and floats. Decimals branch off to [`crate::decimal`].
//!
//! LEGACY wraps and gives NULL for a zero divisor, ANSI raises, TRY gives NULL.

use std::{fmt::Display, sync::Arc};

use arrow::{
    array::ArrayRef,
    datatypes::{
        ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type,
    },
};
use coffer_protocol::plan::EvalMode;

use crate::{
    SparkError, Unsupported, decimal,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    vector::{binary, try_binary, try_unary, unary},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("add", Fallible::Ansi, add),
    entry("subtract", Fallible::Ansi, subtract),
    entry("multiply", Fallible::Ansi, multiply),
    entry("divide", Fallible::Ansi, divide),
    entry("integral_divide", Fallible::Always, integral_divide),
    entry("remainder", Fallible::Always, remainder),
    entry("pmod", Fallible::Always, pmod),
    entry("unary_minus", Fallible::Always, unary_minus),
    entry("abs", Fallible::Always, abs),
    entry("bitwise_and", Fallible::Never, bitwise_and),
    entry("bitwise_or", Fallible::Never, bitwise_or),
    entry("bitwise_xor", Fallible::Never, bitwise_xor),
    entry("bitwise_not", Fallible::Never, bitwise_not),
    entry("shift_left", Fallible::Never, shift_left),
    entry("shift_right", Fallible::Never, shift_right),
    entry(
        "shift_right_unsigned",
        Fallible::Never,
        shift_right_unsigned,
    ),
];

type Built = Result<Kernel, Unsupported>;

/// The three operations that overflow.
macro_rules! overflowing {
    ($name:ident, $symbol:literal, $try:literal, $wrapping:ident, $checked:ident, $float:expr,
        $decimal:path) => {
        fn $name(call: &CallInfo<'_>) -> Built {
            if let [DataType::Decimal128(..), DataType::Decimal128(..)] = call.types {
                return $decimal(call);
            }
            require_same(call)?;
            macro_rules! integer {
                ($t:ty, $failure:expr) => {
                    match call.mode {
                        EvalMode::Legacy => total::<$t>(|a, b| a.$wrapping(b)),
                        mode => partial::<$t>(|a, b| a.$checked(b), mode, $failure),
                    }
                };
            }
            Ok(match call.ret {
                DataType::Int8 => integer!(Int8Type, |a, b| narrow_overflow(a, $symbol, b, $try)),
                DataType::Int16 => integer!(Int16Type, |a, b| narrow_overflow(a, $symbol, b, $try)),
                DataType::Int32 => integer!(Int32Type, |_, _| overflow("integer overflow", $try)),
                DataType::Int64 => integer!(Int64Type, |_, _| overflow("long overflow", $try)),
                DataType::Float32 => total::<Float32Type>($float),
                DataType::Float64 => total::<Float64Type>($float),
                _ => return Err(call.bad_types()),
            })
        }
    };
}

overflowing!(
    add,
    "+",
    "try_add",
    wrapping_add,
    checked_add,
    |a, b| a + b,
    decimal::add
);
overflowing!(
    subtract,
    "-",
    "try_subtract",
    wrapping_sub,
    checked_sub,
    |a, b| a - b,
    decimal::subtract
);
overflowing!(
    multiply,
    "*",
    "try_multiply",
    wrapping_mul,
    checked_mul,
    |a, b| a * b,
    decimal::multiply
);

fn divide(call: &CallInfo<'_>) -> Built {
    match call.types {
        [DataType::Decimal128(..), DataType::Decimal128(..)] => decimal::divide(call),
        [DataType::Float64, DataType::Float64] if *call.ret == DataType::Float64 => {
            Ok(partial::<Float64Type>(
                |a, b| (b != 0.0).then(|| a / b),
                call.mode,
                |_, _| SparkError::divide_by_zero(),
            ))
        }
        _ => Err(call.bad_types()),
    }
}

fn integral_divide(call: &CallInfo<'_>) -> Built {
    match call.types {
        [DataType::Decimal128(..), DataType::Decimal128(..)] => decimal::integral_divide(call),
        [DataType::Int64, DataType::Int64] if *call.ret == DataType::Int64 => Ok(match call.mode {
            EvalMode::Legacy => partial::<Int64Type>(
                |a, b| (b != 0).then(|| a.wrapping_div(b)),
                call.mode,
                |_, _| SparkError::divide_by_zero(),
            ),
            mode => partial::<Int64Type>(i64::checked_div, mode, |_, b| match b {
                0 => SparkError::divide_by_zero(),
                _ => overflow("Overflow in integral divide", "try_divide"),
            }),
        }),
        _ => Err(call.bad_types()),
    }
}

/// Remainder and positive remainder: a zero divisor has no result.
macro_rules! modulo {
    ($name:ident, $integer:ident, $int:ident, $float:ident, $decimal:path) => {
        fn $name(call: &CallInfo<'_>) -> Built {
            if let [DataType::Decimal128(..), DataType::Decimal128(..)] = call.types {
                return $decimal(call);
            }
            require_same(call)?;
            let by_zero = SparkError::remainder_by_zero;
            Ok(match call.ret {
                DataType::Int8 => partial::<Int8Type>(
                    |a, b| (b != 0).then(|| $integer(a.into(), b.into()) as i8),
                    call.mode,
                    move |_, _| by_zero(),
                ),
                DataType::Int16 => partial::<Int16Type>(
                    |a, b| (b != 0).then(|| $integer(a.into(), b.into()) as i16),
                    call.mode,
                    move |_, _| by_zero(),
                ),
                DataType::Int32 => partial::<Int32Type>(
                    |a, b| (b != 0).then(|| $int(a, b)),
                    call.mode,
                    move |_, _| by_zero(),
                ),
                DataType::Int64 => partial::<Int64Type>(
                    |a, b| (b != 0).then(|| $integer(a, b)),
                    call.mode,
                    move |_, _| by_zero(),
                ),
                DataType::Float32 => partial::<Float32Type>(
                    |a, b| (b != 0.0).then(|| $float!(a, b)),
                    call.mode,
                    move |_, _| by_zero(),
                ),
                DataType::Float64 => partial::<Float64Type>(
                    |a, b| (b != 0.0).then(|| $float!(a, b)),
                    call.mode,
                    move |_, _| by_zero(),
                ),
                _ => return Err(call.bad_types()),
            })
        }
    };
}

macro_rules! float_remainder {
    ($a:expr, $b:expr) => {
        $a % $b
    };
}

macro_rules! float_pmod {
    ($a:expr, $b:expr) => {{
        let r = $a % $b;
        if r < 0.0 { (r + $b) % $b } else { r }
    }};
}

modulo!(
    remainder,
    integer_remainder,
    int_remainder,
    float_remainder,
    decimal::remainder
);
modulo!(pmod, integer_pmod, int_pmod, float_pmod, decimal::pmod);

fn integer_remainder(a: i64, b: i64) -> i64 {
    a.wrapping_rem(b)
}

fn int_remainder(a: i32, b: i32) -> i32 {
    a.wrapping_rem(b)
}

/// As [`integer_pmod`] in 32 bits, where the sum wraps, as in Spark.
fn int_pmod(a: i32, n: i32) -> i32 {
    let r = a.wrapping_rem(n);
    if r < 0 {
        r.wrapping_add(n).wrapping_rem(n)
    } else {
        r
    }
}

fn integer_pmod(a: i64, n: i64) -> i64 {
    let r = a.wrapping_rem(n);
    if r < 0 {
        r.wrapping_add(n).wrapping_rem(n)
    } else {
        r
    }
}

fn unary_minus(call: &CallInfo<'_>) -> Built {
    macro_rules! integer {
        ($t:ty, $what:literal) => {
            negation::<$t>(call, |v| v.wrapping_neg(), |v| v.checked_neg(), $what)
        };
    }
    require_same(call)?;
    Ok(match call.ret {
        DataType::Int8 => negation::<Int8Type>(
            call,
            i8::wrapping_neg,
            i8::checked_neg,
            "- %v caused overflow.",
        ),
        DataType::Int16 => negation::<Int16Type>(
            call,
            i16::wrapping_neg,
            i16::checked_neg,
            "- %v caused overflow.",
        ),
        DataType::Int32 => integer!(Int32Type, "integer overflow"),
        DataType::Int64 => integer!(Int64Type, "long overflow"),
        DataType::Float32 => {
            Arc::new(|args, rows| unary::<Float32Type, Float32Type>(args, rows, |v| -v))
        }
        DataType::Float64 => {
            Arc::new(|args, rows| unary::<Float64Type, Float64Type>(args, rows, |v| -v))
        }
        DataType::Decimal128(..) => return decimal::negate(call),
        _ => return Err(call.bad_types()),
    })
}

fn abs(call: &CallInfo<'_>) -> Built {
    require_same(call)?;
    Ok(match call.ret {
        DataType::Int8 => negation::<Int8Type>(
            call,
            i8::wrapping_abs,
            i8::checked_abs,
            "- %v caused overflow.",
        ),
        DataType::Int16 => negation::<Int16Type>(
            call,
            i16::wrapping_abs,
            i16::checked_abs,
            "- %v caused overflow.",
        ),
        DataType::Int32 => negation::<Int32Type>(
            call,
            i32::wrapping_abs,
            i32::checked_abs,
            "integer overflow",
        ),
        DataType::Int64 => {
            negation::<Int64Type>(call, i64::wrapping_abs, i64::checked_abs, "long overflow")
        }
        DataType::Float32 => {
            Arc::new(|args, rows| unary::<Float32Type, Float32Type>(args, rows, f32::abs))
        }
        DataType::Float64 => {
            Arc::new(|args, rows| unary::<Float64Type, Float64Type>(args, rows, f64::abs))
        }
        DataType::Decimal128(..) => return decimal::abs(call),
        _ => return Err(call.bad_types()),
    })
}

fn negation<T: ArrowPrimitiveType<Native: Display>>(
    call: &CallInfo<'_>,
    wrapping: fn(T::Native) -> T::Native,
    checked: fn(T::Native) -> Option<T::Native>,
    message: &'static str,
) -> Kernel {
    match call.mode {
        EvalMode::Legacy => Arc::new(move |args, rows| unary::<T, T>(args, rows, wrapping)),
        mode => Arc::new(move |args, rows| {
            let failure = |v: T::Native| {
                SparkError::new("ARITHMETIC_OVERFLOW", message.replace("%v", &v.to_string()))
            };
            try_unary::<T, T>(
                args,
                rows,
                checked,
                if mode == EvalMode::Ansi {
                    Some(&failure)
                } else {
                    None
                },
            )
        }),
    }
}

macro_rules! bitwise {
    ($name:ident, $op:expr) => {
        fn $name(call: &CallInfo<'_>) -> Built {
            require_same(call)?;
            Ok(match call.ret {
                DataType::Int8 => total::<Int8Type>($op),
                DataType::Int16 => total::<Int16Type>($op),
                DataType::Int32 => total::<Int32Type>($op),
                DataType::Int64 => total::<Int64Type>($op),
                _ => return Err(call.bad_types()),
            })
        }
    };
}

bitwise!(bitwise_and, |a, b| a & b);
bitwise!(bitwise_or, |a, b| a | b);
bitwise!(bitwise_xor, |a, b| a ^ b);

fn bitwise_not(call: &CallInfo<'_>) -> Built {
    require_same(call)?;
    Ok(match call.ret {
        DataType::Int8 => Arc::new(|args, rows| unary::<Int8Type, Int8Type>(args, rows, |v| !v)),
        DataType::Int16 => Arc::new(|args, rows| unary::<Int16Type, Int16Type>(args, rows, |v| !v)),
        DataType::Int32 => Arc::new(|args, rows| unary::<Int32Type, Int32Type>(args, rows, |v| !v)),
        DataType::Int64 => Arc::new(|args, rows| unary::<Int64Type, Int64Type>(args, rows, |v| !v)),
        _ => return Err(call.bad_types()),
    })
}

/// Java's shifts: the distance counts modulo the width.
macro_rules! shift {
    ($name:ident, $int:expr, $long:expr) => {
        fn $name(call: &CallInfo<'_>) -> Built {
            match call.types {
                [DataType::Int32, DataType::Int32] if *call.ret == DataType::Int32 => {
                    Ok(total::<Int32Type>($int))
                }
                [DataType::Int64, DataType::Int32] if *call.ret == DataType::Int64 => {
                    Ok(Arc::new(|args, rows| {
                        Ok(Arc::new(binary::<Int64Type, Int32Type, Int64Type>(
                            args, rows, $long,
                        )?) as ArrayRef)
                    }))
                }
                _ => Err(call.bad_types()),
            }
        }
    };
}

shift!(
    shift_left,
    |a, n| a.wrapping_shl(n.cast_unsigned()),
    |a, n| a.wrapping_shl(n.cast_unsigned())
);
shift!(
    shift_right,
    |a, n| a.wrapping_shr(n.cast_unsigned()),
    |a, n| a.wrapping_shr(n.cast_unsigned())
);
shift!(
    shift_right_unsigned,
    |a, n| a
        .cast_unsigned()
        .wrapping_shr(n.cast_unsigned())
        .cast_signed(),
    |a, n| a
        .cast_unsigned()
        .wrapping_shr(n.cast_unsigned())
        .cast_signed()
);

fn require_same(call: &CallInfo<'_>) -> Result<(), Unsupported> {
    let arity = if matches!(call.name, "unary_minus" | "abs" | "bitwise_not") {
        1
    } else {
        2
    };
    if call.types.len() == arity && call.types.iter().all(|t| t == call.ret) {
        Ok(())
    } else {
        Err(call.bad_types())
    }
}

fn total<T: ArrowPrimitiveType>(
    f: impl Fn(T::Native, T::Native) -> T::Native + Copy + Send + Sync + 'static,
) -> Kernel {
    Arc::new(move |args, rows| Ok(Arc::new(binary::<T, T, T>(args, rows, f)?) as ArrayRef))
}

fn partial<T: ArrowPrimitiveType>(
    f: impl Fn(T::Native, T::Native) -> Option<T::Native> + Send + Sync + 'static,
    mode: EvalMode,
    failure: impl Fn(T::Native, T::Native) -> SparkError + Send + Sync + 'static,
) -> Kernel {
    Arc::new(move |args, rows| {
        let failure: Option<&dyn Fn(T::Native, T::Native) -> SparkError> = if mode == EvalMode::Ansi
        {
            Some(&failure)
        } else {
            None
        };
        Ok(Arc::new(try_binary::<T, T, T>(args, rows, &f, failure)?) as ArrayRef)
    })
}

pub(crate) fn overflow(what: &str, instead: &str) -> SparkError {
    SparkError::new(
        "ARITHMETIC_OVERFLOW",
        format!(
            "{what}. Use '{instead}' to tolerate overflow and return NULL instead. If necessary \
                set \
             \"spark.sql.ansi.enabled\" to \"false\" to bypass this error."
        ),
    )
}

fn narrow_overflow(a: impl Display, symbol: &str, b: impl Display, instead: &str) -> SparkError {
    SparkError::new(
        "BINARY_ARITHMETIC_OVERFLOW",
        format!(
            "{a} {symbol} {b} caused overflow. Use `{instead}` to ignore overflow problem and \
                return NULL."
        ),
    )
}
