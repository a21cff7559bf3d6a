//! An aggregate call of the IR as a DataFusion aggregate function.

use std::collections::HashSet;

use arrow::datatypes::DataType;
use coffer_expr::{BloomShape, types::list_of};
use coffer_protocol::plan::{AggCall, EvalMode};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};

use super::{
    ashe::Sums,
    average::{AverageDecimal, AverageDouble},
    bitmap::{Bitmap, Bitmaps},
    bits::{BitState, Bits},
    bloom::Blooms,
    by::By,
    collect::{Collected, Of, Percentiles},
    count::Count,
    count_min::{Sketch, Sketches},
    extreme,
    first_last::FirstLast,
    histogram::Histogram,
    hll::{Distinct, Precision},
    intervals::Intervals,
    joined::Joined,
    moments::{Moments, Spread},
    most_frequent::Mode,
    pair::{PairState, Pairs},
    pivot::PivotFirst,
    shape::{Shape, Shapes},
    state::GroupState,
    sum::{SumDouble, SumLong, SumTracked, Tracked},
    summary::{self, Approximate},
    sums::Statistic,
};

/// What an aggregate's result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// The rows of a group, in whatever order they come and however partial results were made of
    /// them.
    Rows,
    /// Their order as well.
    Order,
}

/// What is computed: Spark's function over these types.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) eval: EvalMode,
    /// Types of the buffer, in order. Spark's own, but BINARY for what would depend on the order of
    /// the rows in Spark's types.
    pub(super) buffer: Vec<DataType>,
    /// Type of the result.
    pub(super) result: DataType,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Count,
    SumLong,
    SumDouble,
    SumTracked {
        wide: bool,
    },
    AverageDouble,
    AverageDecimal {
        sum: (u8, i8),
        wide: bool,
    },
    Intervals {
        months: bool,
        average: bool,
    },
    Extreme {
        largest: bool,
    },
    FirstLast {
        last: bool,
        ignore_nulls: bool,
    },
    Moments(Spread),
    Shape(Shape),
    Pairs(Pairs),
    Bits(Bits),
    Bitmap(Bitmap),
    Bloom(BloomShape),
    Distinct {
        precision: Precision,
        of: DataType,
    },
    Sketch {
        sketch: Sketch,
        of: DataType,
    },
    By {
        largest: bool,
        order: DataType,
    },
    AsheSum,
    Pivot {
        key: DataType,
        value: DataType,
        named: Vec<ScalarValue>,
    },
    Collect {
        of: Of,
        element: DataType,
    },
}

impl Function {
    /// The function of that name over arguments of these types; the reason if there is none.
    pub(super) fn resolve(call: &AggCall, inputs: &[DataType]) -> Result<Self, String> {
        let (name, ignore_nulls) = (call.name.as_str(), call.ignore_nulls);
        let eval =
            EvalMode::try_from(call.eval).map_err(|_| "unknown evaluation mode".to_owned())?;
        use DataType::{
            Binary, Boolean, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Utf8,
        };
        let one = || match inputs {
            [input] => Ok(input),
            _ => Err(format!("takes one argument, not {}", inputs.len())),
        };
        let integral = |t: &DataType| matches!(t, Int8 | Int16 | Int32 | Int64);
        let known = |t: &DataType| {
            t.is_primitive()
                || t.is_nested()
                || matches!(t, Boolean | Utf8 | Binary | DataType::Null)
        };
        let ordered = |t: &DataType| extreme::state(t, true).is_some();
        let orders_otherwise =
            |t: &DataType| t.is_null() || t.is_nested() && coffer_expr::is_orderable(t);
        let bounded = |precision: u8, scale: i8, more: u8, more_scale: i8| {
            (
                precision.saturating_add(more).min(38),
                scale.saturating_add(more_scale).min(38),
            )
        };
        // With ten digits more than its values have, a sum of fewer than 10^10 rows fits whatever
        // their order; with fewer more, one on the way may not, and is kept and sent as a wider
        // number.
        let sum_of_decimals = |precision: u8, scale: i8| {
            let (sum, scale) = bounded(precision, scale, 10, 0);
            match sum.saturating_sub(precision) {
                10.. => (Decimal128(sum, scale), false),
                _ => (Binary, true),
            }
        };
        let of = |kind, buffer: Vec<DataType>, result: DataType| {
            Ok(Self {
                name: name.to_owned(),
                kind,
                eval,
                buffer,
                result,
            })
        };
        match name {
            "count" => of(Kind::Count, vec![Int64], Int64),
            "sum" => match one()? {
                t if integral(t) && eval == EvalMode::Try => of(
                    Kind::SumTracked { wide: true },
                    vec![Binary, Boolean],
                    Int64,
                ),
                t if integral(t) => of(Kind::SumLong, vec![Int64], Int64),
                Float32 | Float64 => of(Kind::SumDouble, vec![Binary], Float64),
                Decimal128(p, s) => {
                    let (buffer, wide) = sum_of_decimals(*p, *s);
                    let (p, s) = bounded(*p, *s, 10, 0);
                    of(
                        Kind::SumTracked { wide },
                        vec![buffer, Boolean],
                        Decimal128(p, s),
                    )
                }
                other => Err(format!("no sum of {other}")),
            },
            // Of months, and of microseconds: Arrow tells them by nothing else.
            "interval_sum" | "interval_avg" if eval != EvalMode::Try => {
                let input = one()?.clone();
                let average = name == "interval_avg";
                let months = match input {
                    Int32 => true,
                    Int64 => false,
                    other => return Err(format!("not of {other}")),
                };
                let mut buffer = vec![Binary];
                buffer.extend(average.then_some(Int64));
                of(Kind::Intervals { months, average }, buffer, input)
            }
            "avg" | "average" => match one()? {
                t if integral(t) || matches!(t, Float32 | Float64) => {
                    of(Kind::AverageDouble, vec![Binary, Int64], Float64)
                }
                Decimal128(p, s) => {
                    let (sum, result) = (bounded(*p, *s, 10, 0), bounded(*p, *s, 4, 4));
                    let (buffer, wide) = sum_of_decimals(*p, *s);
                    of(
                        Kind::AverageDecimal { sum, wide },
                        vec![buffer, Int64],
                        Decimal128(result.0, result.1),
                    )
                }
                other => Err(format!("no average of {other}")),
            },
            "min" | "max" | "bool_and" | "bool_or" => {
                let input = one()?.clone();
                let largest = matches!(name, "max" | "bool_or");
                let known = extreme::state(&input, largest).is_some();
                let boolean = !name.starts_with("bool") || input == Boolean;
                if !(known && boolean) {
                    return Err(format!("no order of {input}"));
                }
                of(Kind::Extreme { largest }, vec![input.clone()], input)
            }
            "ashe_sum" => match inputs {
                [Int64, Binary, Int64] => of(Kind::AsheSum, vec![Binary], Binary),
                _ => Err("takes a value, its file and its row".to_owned()),
            },
            "first" | "last" => {
                let input = one()?.clone();
                if !known(&input) {
                    return Err(format!("not of {input}"));
                }
                of(
                    Kind::FirstLast {
                        last: name == "last",
                        ignore_nulls,
                    },
                    vec![input.clone(), Boolean],
                    input,
                )
            }
            "max_by" | "min_by" => match inputs {
                [value, order] if known(value) && (ordered(order) || orders_otherwise(order)) => {
                    of(
                        Kind::By {
                            largest: name == "max_by",
                            order: order.clone(),
                        },
                        vec![value.clone(), order.clone()],
                        value.clone(),
                    )
                }
                _ => Err(format!("not of {inputs:?}")),
            },
            "approx_count_distinct" => {
                let of_type = one()?.clone();
                let parameters = parameters(call)?;
                let precision = match parameters.as_slice() {
                    [ScalarValue::Int32(Some(bits))] => Precision::new((*bits).into()),
                    _ => None,
                };
                let precision = precision.filter(|_| coffer_expr::is_hashed(&of_type));
                let precision = precision.ok_or_else(|| format!("no registers of {of_type}"))?;
                of(
                    Kind::Distinct {
                        precision,
                        of: of_type,
                    },
                    vec![Int64; precision.words()],
                    Int64,
                )
            }
            "count_min_sketch" => {
                let of_type = one()?.clone();
                let known = integral(&of_type) || matches!(of_type, Utf8 | Binary);
                let parameters = parameters(call)?;
                let sketch = match parameters.as_slice() {
                    [
                        ScalarValue::Int32(Some(depth)),
                        ScalarValue::Int32(Some(width)),
                        ScalarValue::Int32(Some(seed)),
                    ] if known => Sketch::new((*depth).into(), (*width).into(), (*seed).into()),
                    _ => None,
                };
                let sketch = sketch.ok_or_else(|| format!("no such sketch of {of_type}"))?;
                of(
                    Kind::Sketch {
                        sketch,
                        of: of_type,
                    },
                    vec![Binary],
                    Binary,
                )
            }
            "bloom_filter_agg" => {
                let parameters = parameters(call)?;
                let shape = match (one()?, parameters.as_slice()) {
                    (
                        Int64,
                        [
                            ScalarValue::Int64(Some(items)),
                            ScalarValue::Int64(Some(bits)),
                        ],
                    ) => BloomShape::new(*items, *bits),
                    _ => None,
                };
                let shape = shape.ok_or("no such Bloom filter")?;
                of(Kind::Bloom(shape), vec![Binary], Binary)
            }
            "bitmap_construct_agg" | "bitmap_or_agg" | "bitmap_and_agg" => {
                match (Bitmap::named(name), one()?) {
                    (Some((bitmap, takes)), input) if takes == *input => {
                        of(Kind::Bitmap(bitmap), vec![Binary], Binary)
                    }
                    (_, other) => Err(format!("no bitmap of {other}")),
                }
            }
            "collect_list" | "collect_set" | "mode" | "percentile" | "percentile_disc"
            | "percentile_approx" | "histogram_numeric" | "listagg" => {
                let element = one()?.clone();
                let (of_all, result) = collected(call, &element)?;
                of(
                    Kind::Collect {
                        of: of_all,
                        element: element.clone(),
                    },
                    vec![list_of(element)],
                    result,
                )
            }
            "pivot_first" => match inputs {
                [key, value] => {
                    let named = pivot(call, key)?;
                    of(
                        Kind::Pivot {
                            key: key.clone(),
                            value: value.clone(),
                            named: named.clone(),
                        },
                        vec![value.clone(); named.len()],
                        list_of(value.clone()),
                    )
                }
                _ => Err(format!("not of {inputs:?}")),
            },
            _ => {
                let double = |kind, buffer| match inputs {
                    [Float64] => of(kind, buffer, Float64),
                    _ => Err("takes a double".to_owned()),
                };
                if let Some(spread) = Spread::named(name) {
                    return double(Kind::Moments(spread), spread.buffer());
                }
                if let Some(shape) = Shape::named(name) {
                    return double(Kind::Shape(shape), shape.buffer());
                }
                if let Some(pairs) = Pairs::named(name) {
                    return match inputs {
                        [Float64, Float64] => of(Kind::Pairs(pairs), pairs.buffer(), Float64),
                        _ => Err("takes two doubles".to_owned()),
                    };
                }
                match (Bits::named(name), one()?) {
                    (Some(bits), t) if integral(t) => {
                        of(Kind::Bits(bits), vec![t.clone()], t.clone())
                    }
                    (Some(_), other) => Err(format!("no bits of {other}")),
                    (None, _) => Err("is not known to this engine".to_owned()),
                }
            }
        }
    }

    /// What the result depends on. Every function is here: what is not known to be of its rows
    /// alone must be said to be of their order.
    pub(super) fn depends_on(&self) -> DependsOn {
        match &self.kind {
            Kind::Count | Kind::Extreme { .. } => DependsOn::Rows,
            // Wraps, or ends the query: there are no two results.
            Kind::SumLong => DependsOn::Rows,
            // Exact until the one rounding of the result.
            Kind::SumDouble | Kind::AverageDouble | Kind::Moments(_) | Kind::Shape(_) => {
                DependsOn::Rows
            }
            // Whether it fits is asked of the result only.
            Kind::SumTracked { .. } | Kind::AverageDecimal { .. } | Kind::Intervals { .. } => {
                DependsOn::Rows
            }
            // A sum modulo 2^64, and a set of rows.
            Kind::AsheSum => DependsOn::Rows,
            Kind::Pairs(_) | Kind::Bits(_) => DependsOn::Rows,
            // Maxima, unions and counts.
            Kind::Distinct { .. } | Kind::Bitmap(_) | Kind::Sketch { .. } | Kind::Bloom(_) => {
                DependsOn::Rows
            }
            Kind::Collect { of, .. } => match of {
                // Those with equal keys stay as they came.
                Of::List | Of::Set | Of::Joined(_) => DependsOn::Order,
                Of::Mode(_) | Of::Percentiles(_) | Of::Approximate(_) | Of::Histogram(_) => {
                    DependsOn::Rows
                }
            },
            // Of rows with the same to go by it is the last.
            Kind::FirstLast { .. } | Kind::By { .. } | Kind::Pivot { .. } => DependsOn::Order,
        }
    }

    pub(super) fn state(&self) -> Result<Box<dyn GroupState>> {
        let decimal = |data_type: Option<&DataType>| match data_type {
            Some(DataType::Decimal128(precision, scale)) => Some((*precision, *scale)),
            _ => None,
        };
        Ok(match &self.kind {
            Kind::Count => Box::new(Count::default()),
            Kind::SumLong => Box::new(SumLong::new(self.eval)),
            Kind::SumDouble => Box::new(SumDouble::default()),
            Kind::SumTracked { wide } => {
                let kind = match decimal(Some(&self.result)) {
                    Some((precision, scale)) => Tracked::Decimal(precision, scale),
                    None => Tracked::Long,
                };
                Box::new(SumTracked::new(kind, *wide, self.eval))
            }
            Kind::AverageDouble => Box::new(AverageDouble::default()),
            Kind::AverageDecimal { sum, wide } => {
                let result = decimal(Some(&self.result)).ok_or_else(|| {
                    internal_datafusion_err!("an average of decimals is no decimal")
                })?;
                Box::new(AverageDecimal::new(*sum, *wide, result, self.eval))
            }
            Kind::Intervals { months, average } => Box::new(Intervals::new(*months, *average)),
            Kind::Extreme { largest } => extreme::state(&self.result, *largest)
                .ok_or_else(|| internal_datafusion_err!("no order of {}", self.result))?,
            Kind::FirstLast { last, ignore_nulls } => {
                Box::new(FirstLast::new(*last, *ignore_nulls, self.result.clone())?)
            }
            Kind::Moments(spread) => Box::new(Moments::new(*spread)),
            Kind::Shape(shape) => Box::new(Shapes::new(*shape)),
            Kind::Pairs(pairs) => Box::new(PairState::new(*pairs, self.eval)),
            Kind::Bits(bits) => Box::new(BitState::new(*bits, self.result.clone())),
            Kind::Bitmap(bitmap) => Box::new(Bitmaps::new(*bitmap)),
            Kind::Bloom(shape) => Box::new(Blooms::new(*shape)),
            Kind::Distinct { precision, of } => Box::new(Distinct::new(*precision, of.clone())),
            Kind::Sketch { sketch, of } => Box::new(Sketches::new(*sketch, of.clone())),
            Kind::By { largest, order } => {
                Box::new(By::new(*largest, self.result.clone(), order.clone())?)
            }
            Kind::AsheSum => Box::new(Sums::default()),
            Kind::Pivot { key, value, named } => {
                Box::new(PivotFirst::new(key.clone(), value.clone(), named)?)
            }
            Kind::Collect { of, element } => Box::new(Collected::new(of.clone(), element.clone())),
        })
    }
}

/// The named values of a pivot.
fn pivot(call: &AggCall, key: &DataType) -> Result<Vec<ScalarValue>, String> {
    let named = call.pivot.iter().map(coffer_expr::scalar);
    let named = named.collect::<Result<Vec<_>, _>>();
    let named = named.map_err(|_| "a named value is none of its type".to_owned())?;
    let distinct: HashSet<&ScalarValue> = named.iter().collect();
    let fits = named.iter().all(|value| value.data_type() == *key);
    match fits && distinct.len() == named.len() && !named.is_empty() && !key.is_floating() {
        true => Ok(named),
        false => Err(format!("no such named values of {key}")),
    }
}

/// What else the fragment says of a call.
fn parameters(call: &AggCall) -> Result<Vec<ScalarValue>, String> {
    let parameters = call.parameters.iter().map(coffer_expr::scalar);
    let parameters = parameters.collect::<Result<_, _>>();
    parameters.map_err(|_| "a parameter is none of its type".to_owned())
}

/// The delimiter, and for each order of the values whether it descends and NULLs come first. The
/// values are structs of a text and its keys, or texts that are ordered by themselves.
fn joined(call: &AggCall, element: &DataType) -> Result<(Of, DataType), String> {
    let refused = || format!("no such list of {element}");
    let parameters = parameters(call)?;
    let (delimiter, flags) = parameters.split_first().ok_or_else(refused)?;
    let delimiter = match delimiter {
        ScalarValue::Utf8(Some(text)) => text.as_bytes().to_vec(),
        ScalarValue::Binary(Some(bytes)) => bytes.clone(),
        _ => return Err(refused()),
    };
    let (pairs, rest) = flags.as_chunks::<2>();
    let orders = pairs
        .iter()
        .map(|pair| match pair {
            [
                ScalarValue::Boolean(Some(descends)),
                ScalarValue::Boolean(Some(first)),
            ] => Ok((*descends, *first)),
            _ => Err(refused()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let (result, fits) = match element {
        DataType::Struct(parts) => {
            let mut types = parts.iter().map(|part| part.data_type());
            let text = types.next().ok_or_else(refused)?;
            let ordered = types.all(|key| {
                // Zeros of two signs are equal, which their bits are not.
                !key.is_floating() && !key.is_nested() && extreme::state(key, true).is_some()
            });
            let keys = parts.len() - 1;
            (text.clone(), ordered && keys > 0 && orders.len() == keys)
        }
        text => (text.clone(), orders.len() <= 1),
    };
    let texts = matches!(result, DataType::Utf8 | DataType::Binary);
    if !texts || !fits || !rest.is_empty() {
        return Err(refused());
    }
    let joined = Joined {
        delimiter,
        result: result.clone(),
        orders,
    };
    Ok((Of::Joined(joined), result))
}

/// The shares and the accuracy.
fn approximate(call: &AggCall, element: &DataType) -> Result<(Of, DataType), String> {
    let refused = || format!("no such percentile of {element}");
    let numbers = summary::is_number(element);
    let parameters = parameters(call)?;
    let accuracy = match parameters.as_slice() {
        [ScalarValue::Int32(Some(accuracy))] if *accuracy > 0 && numbers => *accuracy,
        _ => return Err(refused()),
    };
    let asked = call.percentiles.as_ref().ok_or_else(refused)?;
    let known = asked.shares.iter().all(|share| (0.0..=1.0).contains(share));
    if !known || asked.reverse || !(asked.array || asked.shares.len() == 1) {
        return Err(refused());
    }
    let result = match asked.array {
        true => list_of(element.clone()),
        false => element.clone(),
    };
    let of = Approximate {
        shares: asked.shares.iter().map(|share| share.to_bits()).collect(),
        accuracy,
        array: asked.array,
    };
    Ok((Of::Approximate(of), result))
}

/// What becomes of all values of a group, and its type.
fn collected(call: &AggCall, element: &DataType) -> Result<(Of, DataType), String> {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64};
    Ok(match call.name.as_str() {
        "listagg" => joined(call, element)?,
        "percentile_approx" => approximate(call, element)?,
        "histogram_numeric" => {
            let histogram = Histogram::new(&parameters(call)?, element)
                .ok_or_else(|| format!("no such histogram of {element}"))?;
            let bins = list_of(histogram.bin());
            (Of::Histogram(histogram), bins)
        }
        "collect_list" => (Of::List, list_of(element.clone())),
        "collect_set" => (Of::Set, list_of(element.clone())),
        "mode" => (
            Of::Mode(match (parameters(call)?.as_slice(), call.largest) {
                ([ScalarValue::Boolean(Some(true))], _) => Mode::Any,
                (_, true) => Mode::Largest,
                (_, false) => Mode::Least,
            }),
            element.clone(),
        ),
        name => {
            let (element, frequency) = match (element, parameters(call)?.as_slice()) {
                (DataType::Struct(parts), [ScalarValue::Utf8(Some(text))])
                    if name == "percentile" =>
                {
                    match parts.as_ref() {
                        [value, count] if *count.data_type() == Int64 => {
                            (value.data_type(), Some(text.clone()))
                        }
                        _ => return Err(format!("no such percentile of {element}")),
                    }
                }
                (element, _) => (element, None),
            };
            let numbers = matches!(
                element,
                Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal128(..)
            );
            let asked = call.percentiles.as_ref().filter(|asked| {
                (asked.array || asked.shares.len() == 1)
                    && asked.shares.iter().all(|share| (0.0..=1.0).contains(share))
            });
            let Some(asked) = asked.filter(|_| numbers) else {
                return Err(format!("no such percentile of {element}"));
            };
            let percentiles = Percentiles {
                shares: asked.shares.iter().map(|share| share.to_bits()).collect(),
                reverse: asked.reverse,
                discrete: name == "percentile_disc",
                array: asked.array,
                frequency,
            };
            let result = match asked.array {
                true => list_of(Float64),
                false => Float64,
            };
            (Of::Percentiles(percentiles), result)
        }
    })
}
