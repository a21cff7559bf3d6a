//! PERCENTILE_APPROX: Spark's QuantileSummaries (Greenwald and Khanna), made of all of a group's
//! values in their order: what Spark gives of one partition that is sorted, and of any partitions
//! as long as they are too few for the summary to leave out any. So it depends on nothing but the
//! values, and its error is within the same bound.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, ListArray},
    buffer::{NullBuffer, OffsetBuffer},
    compute::cast,
    datatypes::{DataType, Decimal128Type, Float64Type},
};
use coffer_expr::types::element_field;
use datafusion_common::{Result, internal_datafusion_err};

/// The values that are put into a summary at once.
const HEAD: usize = 50_000;
/// The samples from which a summary is compressed.
const COMPRESS_FROM: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Approximate {
    /// The shares' bits, each of 0.0 to 1.0.
    pub(super) shares: Vec<u64>,
    pub(super) accuracy: i32,
    /// As an array.
    pub(super) array: bool,
}

#[derive(Clone, Copy)]
struct Sample {
    value: f64,
    /// How far its least rank is above that of the one before.
    gap: i64,
    /// By how much its rank may be greater.
    delta: i64,
}

#[derive(Default)]
struct Summary {
    samples: Vec<Sample>,
    count: i64,
    error: f64,
}

impl Approximate {
    pub(super) fn of(&self, values: &ArrayRef, lengths: &[usize]) -> Result<ArrayRef> {
        let numbers = numbers(values)?;
        let mut rest: &[f64] = numbers.values();
        let (mut found, mut valid) = (Vec::new(), Vec::with_capacity(lengths.len()));
        for length in lengths {
            let (group, more) = rest.split_at(*length);
            rest = more;
            valid.push(*length > 0 && !self.shares.is_empty());
            match length {
                0 if self.array => {}
                0 => found.push(None),
                _ => found.extend(self.of_group(group).into_iter().map(Some)),
            }
        }
        let found = typed(found.into_iter().collect(), values.data_type())?;
        if !self.array {
            return Ok(found);
        }
        let lengths = valid
            .iter()
            .map(|valid| if *valid { self.shares.len() } else { 0 });
        let offsets = OffsetBuffer::from_lengths(lengths);
        let field = element_field(values.data_type().clone());
        let nulls = NullBuffer::from(valid);
        Ok(Arc::new(ListArray::try_new(
            field,
            offsets,
            found,
            Some(nulls),
        )?))
    }

    fn of_group(&self, values: &[f64]) -> Vec<f64> {
        let mut sorted = values.to_vec();
        // `Double.compare`: −0.0 is below 0.0 and every NaN above all.
        for value in &mut sorted {
            if value.is_nan() {
                *value = f64::NAN;
            }
        }
        sorted.sort_by(f64::total_cmp);
        let mut summary = Summary {
            error: 1.0 / f64::from(self.accuracy),
            ..Summary::default()
        };
        let mut compressed = false;
        for head in sorted.chunks(HEAD) {
            summary.insert(head);
            compressed = head.len() == HEAD && summary.samples.len() >= COMPRESS_FROM;
            if compressed {
                summary.compress();
            }
        }
        if !compressed {
            summary.compress();
        }
        let shares: Vec<f64> = self
            .shares
            .iter()
            .map(|bits| f64::from_bits(*bits))
            .collect();
        summary.query(&shares)
    }
}

/// Whether values are kept as doubles. Decimals are, as long as a double tells them apart.
pub(super) fn is_number(element: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp};
    match element {
        Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Date32 | Timestamp(..) => true,
        Decimal128(precision, scale) => *precision <= 15 && *scale >= 0,
        _ => false,
    }
}

/// `cast` of a DATE or TIMESTAMP wants an integer in between.
pub(super) fn numbers(values: &ArrayRef) -> Result<Float64Array> {
    let values = match values.data_type() {
        DataType::Date32 => cast(&cast(values, &DataType::Int32)?, &DataType::Float64)?,
        DataType::Timestamp(..) => cast(&cast(values, &DataType::Int64)?, &DataType::Float64)?,
        DataType::Decimal128(..) => return Ok(doubles(values)?.into()),
        _ => cast(values, &DataType::Float64)?,
    };
    Ok(values.as_primitive::<Float64Type>().clone())
}

/// A column as doubles.
pub(super) fn doubles(values: &ArrayRef) -> Result<Vec<f64>> {
    if let Some(decimals) = values.as_primitive_opt::<Decimal128Type>() {
        let scale = decimals.scale();
        // As text the nearest double is found, as Java's BigDecimal does.
        let nearest = |value: &i128| format!("{value}e-{scale}").parse::<f64>();
        let nearest = decimals
            .values()
            .iter()
            .map(nearest)
            .collect::<Result<_, _>>();
        return nearest.map_err(|_| internal_datafusion_err!("a decimal is no double"));
    }
    let doubles = cast(values, &DataType::Float64)?;
    Ok(doubles.as_primitive::<Float64Type>().values().to_vec())
}

/// Back from doubles, as Java casts them.
pub(super) fn typed(found: Float64Array, to: &DataType) -> Result<ArrayRef> {
    use arrow::datatypes::{Float32Type, Int8Type, Int16Type, Int32Type, Int64Type};
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the values were of that type"
    )]
    let typed: ArrayRef = match to {
        DataType::Int8 => Arc::new(found.unary::<_, Int8Type>(|v| v as i8)),
        DataType::Int16 => Arc::new(found.unary::<_, Int16Type>(|v| v as i16)),
        DataType::Int32 | DataType::Date32 => Arc::new(found.unary::<_, Int32Type>(|v| v as i32)),
        DataType::Int64 | DataType::Timestamp(..) => {
            Arc::new(found.unary::<_, Int64Type>(|v| v as i64))
        }
        DataType::Float32 => Arc::new(found.unary::<_, Float32Type>(|v| v as f32)),
        DataType::Decimal128(precision, scale) => {
            // At most 15 digits: this is off by less than a half.
            let unit = 10f64.powi(i32::from(*scale));
            let unscaled = found.unary::<_, Decimal128Type>(|v| (v * unit).round() as i128);
            return Ok(Arc::new(
                unscaled.with_precision_and_scale(*precision, *scale)?,
            ));
        }
        _ => Arc::new(found),
    };
    Ok(cast(&typed, to)?)
}

impl Summary {
    #[expect(clippy::cast_precision_loss, reason = "Spark computes in doubles")]
    #[expect(clippy::cast_possible_truncation, reason = "as Java does")]
    fn insert(&mut self, sorted: &[f64]) {
        let mut samples = Vec::with_capacity(self.samples.len() + sorted.len());
        let mut before = self.samples.iter().peekable();
        for (index, value) in sorted.iter().enumerate() {
            while let Some(sample) = before.next_if(|sample| sample.value <= *value) {
                samples.push(*sample);
            }
            self.count += 1;
            let end = before.peek().is_none() && index + 1 == sorted.len();
            let delta = match samples.is_empty() || end {
                true => 0,
                false => (2.0 * self.error * self.count as f64).floor() as i64,
            };
            samples.push(Sample {
                value: *value,
                gap: 1,
                delta,
            });
        }
        samples.extend(before);
        self.samples = samples;
    }

    #[expect(clippy::cast_precision_loss, reason = "Spark computes in doubles")]
    fn compress(&mut self) {
        let threshold = 2.0 * self.error * self.count as f64;
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return;
        };
        let (mut head, mut kept) = (*last, Vec::new());
        for sample in self.samples.iter().skip(1).rev().skip(1) {
            if ((sample.gap + head.gap + head.delta) as f64) < threshold {
                head.gap += sample.gap;
            } else {
                kept.push(head);
                head = *sample;
            }
        }
        kept.push(head);
        if first.value <= head.value && self.samples.len() > 1 {
            kept.push(*first);
        }
        kept.reverse();
        self.samples = kept;
    }

    #[expect(clippy::cast_precision_loss, reason = "Spark computes in doubles")]
    #[expect(clippy::cast_possible_truncation, reason = "as Java does")]
    fn query(&self, shares: &[f64]) -> Vec<f64> {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return vec![];
        };
        let widest = self
            .samples
            .iter()
            .map(|sample| sample.delta + sample.gap)
            .max();
        let target = (widest.unwrap_or_default() / 2) as f64;
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by(|a, b| shares[*a].total_cmp(&shares[*b]));
        let (mut index, mut least) = (0, first.gap);
        let mut found = vec![0.0; shares.len()];
        for place in order {
            let share = shares[place];
            found[place] = if share <= self.error {
                first.value
            } else if share >= 1.0 - self.error {
                last.value
            } else {
                let rank = (share * self.count as f64).ceil() as i64 as f64;
                loop {
                    let sample = self.samples[index];
                    if index + 1 >= self.samples.len() {
                        // Spark goes on from here with the rank 0.
                        least = 0;
                        break sample.value;
                    }
                    let most = (least + sample.delta) as f64;
                    if most - target <= rank && rank <= least as f64 + target {
                        break sample.value;
                    }
                    index += 1;
                    least += self.samples[index].gap;
                }
            };
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    /// What Spark's PercentileDigest gave over such values: `accuracy count share: value`.
    #[test]
    fn percentiles_are_sparks() {
        for line in include_str!("../../tests/golden/percentile_approx.txt").lines() {
            let (asked, expected) = line.split_once(": ").unwrap();
            let words: Vec<&str> = asked.split(' ').collect();
            let of = Approximate {
                shares: vec![words[2].parse::<f64>().unwrap().to_bits()],
                accuracy: words[0].parse().unwrap(),
                array: false,
            };
            let count: i64 = words[1].parse().unwrap();
            // In another order than theirs.
            let values: Int64Array = (0..count).rev().map(|i| Some(i * i % 100_003)).collect();
            let lengths = [values.len()];
            let found = of.of(&(Arc::new(values) as ArrayRef), &lengths).unwrap();
            let found = found.as_primitive::<arrow::datatypes::Int64Type>().value(0);
            assert_eq!(found.to_string(), expected, "{asked}");
        }
    }
}
