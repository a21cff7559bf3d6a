//! HISTOGRAM_NUMERIC: the heights of so many bins (Ben-Haim and Tom-Tov, Journal of Machine
//! Learning Research 11, 2010), as Spark has them. Spark's follow the order in which the values
//! come, and the partitions that they come in, as a merge may leave two bins at one place; here all
//! of a group's values are put in in their order: what Spark gives of one partition that is sorted.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, ListArray, StructArray},
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::{DataType, Field, Fields},
};
use coffer_expr::types::element_field;
use datafusion_common::{Result, ScalarValue};

use super::summary;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Histogram {
    bins: usize,
    /// The type of the values, which the bins' places have too.
    element: DataType,
}

impl Histogram {
    /// None if there is no such histogram.
    pub(super) fn new(parameters: &[ScalarValue], element: &DataType) -> Option<Self> {
        let bins = match parameters {
            [ScalarValue::Int32(Some(bins))] => usize::try_from(*bins).ok()?,
            _ => return None,
        };
        let known = summary::is_number(element) && !element.is_decimal();
        (known && bins >= 2).then(|| Self {
            bins,
            element: element.clone(),
        })
    }

    fn fields(&self) -> Fields {
        Fields::from(vec![
            Field::new("x", self.element.clone(), true),
            Field::new("y", DataType::Float64, true),
        ])
    }

    /// The type of one bin.
    pub(super) fn bin(&self) -> DataType {
        DataType::Struct(self.fields())
    }

    pub(super) fn of(&self, values: &ArrayRef, lengths: &[usize]) -> Result<ArrayRef> {
        let numbers = summary::numbers(values)?;
        let mut rest: &[f64] = numbers.values();
        let (mut x, mut y, mut counts) = (vec![], vec![], Vec::with_capacity(lengths.len()));
        for length in lengths {
            let (group, more) = rest.split_at(*length);
            rest = more;
            let bins = self.bins_of(group);
            counts.push(bins.len());
            x.extend(bins.iter().map(|bin| bin.x));
            y.extend(bins.iter().map(|bin| bin.y));
        }
        let x = summary::typed(Float64Array::from(x), &self.element)?;
        let bins = StructArray::try_new(
            self.fields(),
            vec![x, Arc::new(Float64Array::from(y))],
            None,
        )?;
        let valid: NullBuffer = counts.iter().map(|count| *count > 0).collect();
        Ok(Arc::new(ListArray::try_new(
            element_field(self.bin()),
            OffsetBuffer::from_lengths(counts),
            Arc::new(bins),
            Some(valid),
        )?))
    }

    fn bins_of(&self, values: &[f64]) -> Vec<Bin> {
        let mut sorted = values.to_vec();
        for value in &mut sorted {
            if value.is_nan() {
                *value = f64::NAN;
            }
        }
        sorted.sort_by(f64::total_cmp);
        let (mut bins, mut ties) = (Vec::with_capacity(self.bins + 1), Random::new(31_183));
        for value in sorted {
            add(&mut bins, value);
            if bins.len() > self.bins {
                join_closest(&mut bins, &mut ties);
            }
        }
        bins
    }
}

#[derive(Clone, Copy)]
struct Bin {
    x: f64,
    y: f64,
}

/// By the comparisons that Spark makes, of which NaN fails all.
fn add(bins: &mut Vec<Bin>, value: f64) {
    let (mut at, mut left, mut right) = (0, 0, bins.len());
    while left < right {
        at = usize::midpoint(left, right);
        let x = bins.get(at).map_or(f64::NAN, |bin| bin.x);
        if x > value {
            right = at;
        } else if x < value {
            at += 1;
            left = at;
        } else {
            break;
        }
    }
    match bins.get_mut(at) {
        Some(bin) if bin.x == value => bin.y += 1.0,
        _ => bins.insert(at, Bin { x: value, y: 1.0 }),
    }
}

/// Puts the two closest bins together; of several pairs one that is drawn.
fn join_closest(bins: &mut Vec<Bin>, ties: &mut Random) {
    let mut gaps = bins.windows(2).map(|pair| match pair {
        [one, next] => next.x - one.x,
        _ => f64::NAN,
    });
    let Some(mut least) = gaps.next() else {
        return;
    };
    let (mut chosen, mut equal) = (0, 1.0);
    for (at, gap) in (1..).zip(gaps) {
        if gap < least {
            (least, chosen, equal) = (gap, at, 1.0);
        } else if gap == least {
            equal += 1.0;
            if ties.double() <= 1.0 / equal {
                chosen = at;
            }
        }
    }
    let next = bins.remove(chosen + 1);
    if let Some(bin) = bins.get_mut(chosen) {
        let height = bin.y + next.y;
        bin.x = bin.x * (bin.y / height) + next.x / height * next.y;
        bin.y = height;
    }
}

/// `java.util.Random`.
struct Random(u64);

impl Random {
    const FACTOR: u64 = 0x5_deec_e66d;
    const MASK: u64 = (1 << 48) - 1;

    fn new(seed: u64) -> Self {
        Self((seed ^ Self::FACTOR) & Self::MASK)
    }

    fn next(&mut self, bits: u32) -> u64 {
        self.0 = self.0.wrapping_mul(Self::FACTOR).wrapping_add(11) & Self::MASK;
        self.0 >> (48 - bits)
    }

    fn double(&mut self) -> f64 {
        let bits = (self.next(26) << 27) + self.next(27);
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let bits = bits as f64;
        bits / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Spark's NumericHistogram gave: `bins values: place/height …`, places as bits.
    #[test]
    fn bins_are_sparks() {
        for line in include_str!("../../tests/golden/histogram_numeric.txt").lines() {
            let (asked, expected) = line.split_once(": ").unwrap();
            let (bins, count) = asked.split_once(' ').unwrap();
            let parameters = [ScalarValue::Int32(bins.parse().ok())];
            let of = Histogram::new(&parameters, &DataType::Float64).unwrap();
            let count: u64 = count.parse().unwrap();
            let values: Vec<f64> = (0..count)
                .rev()
                .map(|i| (i * i % 1009) as f64 / 4.0)
                .collect();
            let found: Vec<String> = of
                .bins_of(&values)
                .iter()
                .map(|bin| format!("{:x}/{:?}", bin.x.to_bits(), bin.y))
                .collect();
            assert_eq!(found.join(" "), expected, "{asked}");
        }
    }
}
