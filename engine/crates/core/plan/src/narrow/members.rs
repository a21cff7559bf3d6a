//! Which keys there are, in few bits.
//!
//! Where its keys are numbers that lie close together, a bit for each number between the least and
//! the greatest; where they lie far apart, a Bloom filter of two hash functions (Bloom, CACM 13(7),
//! 1970), which keeps about one in seventy rows that it need not. No row is left out whose key is
//! among them.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch},
    buffer::BooleanBuffer,
    compute::cast,
    datatypes::{DataType, Int64Type, Schema},
};
use datafusion_common::{Result, internal_err};
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::expressions::BinaryExpr;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// Keys of which bits are kept; of more there are bounds alone.
pub(super) const MOST_KEYS: usize = 1 << 23;
/// Numbers between the bounds for each key, up to which there is a bit for each number.
const CLOSE: u64 = 64;
/// So few numbers have a bit each, whatever the keys.
const FEW: u64 = 1 << 16;
/// Bits for each key that lie far apart, and of all of them at least, which fit into the nearest
/// cache.
const BITS: usize = 16;
const LEAST: usize = 1 << 16;

/// The keys of a side as they come, for as long as they are numbers and not too many.
#[derive(Debug)]
pub(super) struct Keys {
    values: Option<Vec<i64>>,
    memory: MemoryReservation,
}

impl Keys {
    pub(super) fn new(memory: MemoryReservation) -> Self {
        Self {
            values: Some(Vec::new()),
            memory,
        }
    }

    pub(super) fn push(&mut self, keys: &ArrayRef) -> Result<()> {
        let Some(values) = &mut self.values else {
            return Ok(());
        };
        let fits = values.len().saturating_add(keys.len()) <= MOST_KEYS
            && is_number(keys.data_type())
            && self.memory.try_grow(size_of::<i64>() * keys.len()).is_ok();
        if !fits {
            self.values = None;
            self.memory.free();
            return Ok(());
        }
        let keys = cast(keys, &DataType::Int64)?;
        values.extend(keys.as_primitive::<Int64Type>().iter().flatten());
        Ok(())
    }

    /// None of no key, of keys that are not numbers, and where memory is short.
    pub(super) fn members(self) -> Option<Members> {
        let values = self.values?;
        let (least, greatest) = (*values.iter().min()?, *values.iter().max()?);
        let last = greatest.abs_diff(least);
        let direct = last < FEW.max(CLOSE.saturating_mul(u64::try_from(values.len()).ok()?));
        let places = match direct {
            true => usize::try_from(last).ok()?.checked_add(1)?,
            false => (values.len() * BITS).max(LEAST).next_power_of_two(),
        };
        let mut members = Members {
            least,
            last,
            direct,
            bits: vec![0; places.div_ceil(64)],
            places,
            share: 0.0,
            memory: self.memory,
        };
        members.memory.try_resize(members.bits.len() * 8).ok()?;
        for value in &values {
            members.set(*value);
        }
        members.share = members.kept();
        if members.direct && members.share > HALF {
            members.bits = Vec::new();
            members.memory.free();
        }
        Some(members)
    }
}

/// With more of the numbers between the bounds than this share, the bounds say enough.
const HALF: f64 = 0.5;

/// What is cast to a number that stands for it alone.
pub(super) fn is_number(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(..)
            | DataType::Time64(..)
    )
}

/// The keys, as a condition on numbers.
#[derive(Debug)]
pub(crate) struct Members {
    least: i64,
    /// The greatest, from the least.
    last: u64,
    /// Whether each number has its own bit.
    direct: bool,
    /// Empty where the bounds say enough.
    bits: Vec<u64>,
    places: usize,
    share: f64,
    memory: MemoryReservation,
}

impl Members {
    /// How many of the numbers between the bounds are kept, 0 to 1: of keys that lie far apart, of
    /// all numbers that are asked for.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    fn kept(&self) -> f64 {
        let set: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        let places = u32::try_from(self.places).unwrap_or(u32::MAX);
        let share = f64::from(set) / f64::from(places.max(1));
        match self.direct {
            true => share,
            false => share * share,
        }
    }

    /// The bits of a number that lies so far above the least: one, or two.
    fn places_of(&self, above: u64) -> (u64, u64) {
        if self.direct {
            return (above, above);
        }
        // Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4), and an odd factor beside it.
        let shift = 64 - self.places.trailing_zeros().min(63);
        let first = above.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift;
        let second = (above ^ (above >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> shift;
        (first, second)
    }

    fn set(&mut self, value: i64) {
        let (first, second) = self.places_of(value.abs_diff(self.least));
        for place in [first, second] {
            let word = usize::try_from(place / 64).unwrap_or(usize::MAX);
            if let Some(word) = self.bits.get_mut(word) {
                *word |= 1 << (place % 64);
            }
        }
    }

    fn has(&self, place: u64) -> bool {
        let word = usize::try_from(place / 64).unwrap_or(usize::MAX);
        let word = self.bits.get(word).copied().unwrap_or_default();
        word >> (place % 64) & 1 == 1
    }

    fn keeps(&self, values: &[i64]) -> BooleanBuffer {
        // Below the least they wrap around, to beyond the greatest.
        let above = |value: i64| value.wrapping_sub(self.least).cast_unsigned();
        let at = |row: usize| above(values.get(row).copied().unwrap_or_default());
        if self.bits.is_empty() {
            return BooleanBuffer::collect_bool(values.len(), |row| at(row) <= self.last);
        }
        BooleanBuffer::collect_bool(values.len(), |row| {
            let above = at(row);
            above <= self.last && {
                let (first, second) = self.places_of(above);
                self.has(first) && self.has(second)
            }
        })
    }
}

/// That a value lies between two others, or is one of them.
pub(super) fn within(
    value: &Arc<dyn PhysicalExpr>,
    least: &Arc<dyn PhysicalExpr>,
    greatest: &Arc<dyn PhysicalExpr>,
) -> Arc<dyn PhysicalExpr> {
    let compared = |operator, end: &Arc<dyn PhysicalExpr>| -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(
            Arc::clone(value),
            operator,
            Arc::clone(end),
        ))
    };
    Arc::new(BinaryExpr::new(
        compared(Operator::GtEq, least),
        Operator::And,
        compared(Operator::LtEq, greatest),
    ))
}

/// That a number is among the keys, or may be.
#[derive(Debug)]
pub(super) struct AmongKeys {
    pub(super) value: Arc<dyn PhysicalExpr>,
    /// The bounds, as what prunes understands them.
    pub(super) bounds: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
    pub(super) members: Arc<Members>,
}

impl PhysicalExpr for AmongKeys {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.value.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.value.evaluate(batch)?.into_array(batch.num_rows())?;
        let values = cast(&values, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        let keeps = self.members.keeps(values.values());
        let keeps = BooleanArray::new(keeps, values.nulls().cloned());
        Ok(ColumnarValue::Array(Arc::new(keeps)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.value]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match <[_; 1]>::try_from(children) {
            Ok([value]) => Ok(Arc::new(Self {
                value,
                bounds: self.bounds.clone(),
                members: Arc::clone(&self.members),
            })),
            Err(_) => internal_err!("one value is among keys"),
        }
    }

    /// Row groups and pages are pruned by the bounds; rows are looked up once.
    fn snapshot(&self) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let (least, greatest) = &self.bounds;
        Ok(Some(within(&self.value, least, greatest)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for AmongKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is among the keys", self.value)
    }
}

impl PartialEq for AmongKeys {
    fn eq(&self, other: &Self) -> bool {
        self.value.eq(&other.value) && Arc::ptr_eq(&self.members, &other.members)
    }
}

impl Eq for AmongKeys {}

impl Hash for AmongKeys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
        Arc::as_ptr(&self.members).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Int64Array, StringArray};
    use datafusion_execution::memory_pool::{
        GreedyMemoryPool, MemoryConsumer, MemoryPool, UnboundedMemoryPool,
    };
    use proptest::prelude::*;

    use super::*;

    fn keys(pool: Arc<dyn MemoryPool>, of: &[ArrayRef]) -> Option<Members> {
        let mut keys = Keys::new(MemoryConsumer::new("keys").register(&pool));
        for of in of {
            keys.push(of).unwrap();
        }
        keys.members()
    }

    fn members(values: Vec<i64>) -> Option<Members> {
        let pool = Arc::new(UnboundedMemoryPool::default());
        keys(pool, &[Arc::new(Int64Array::from(values))])
    }

    proptest! {
        #[test]
        fn each_key_is_kept(values in prop::collection::vec(any::<i64>(), 1..200)) {
            let members = members(values.clone()).unwrap();
            prop_assert_eq!(members.keeps(&values).count_set_bits(), values.len());
        }

        #[test]
        fn close_keys_are_told_apart(
            least in any::<i64>(),
            above in prop::collection::vec(0_i64..1000, 1..200),
            asked in prop::collection::vec(-10_i64..1100, 1..200),
        ) {
            let least = least.min(i64::MAX - 2000);
            let keys: Vec<i64> = above.iter().map(|above| least + above).collect();
            let members = members(keys.clone()).unwrap();
            for asked in asked {
                let asked = least.wrapping_add(asked);
                let kept = members.keeps(&[asked]).value(0);
                let (first, last) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
                match members.bits.is_empty() {
                    true => prop_assert_eq!(kept, (first..=last).contains(&&asked)),
                    false => prop_assert_eq!(kept, keys.contains(&asked)),
                }
            }
        }
    }

    #[test]
    fn far_keys_leave_few_others() {
        let members = members((0..1000).map(|at| at * 1_000_003).collect()).unwrap();
        assert!(!members.direct);
        let others: Vec<i64> = (0..10_000).map(|at| at * 99_991 + 7).collect();
        let kept = members.keeps(&others).count_set_bits();
        assert!(kept < 400, "{kept} of 10,000");
        assert!(members.share() < 0.04, "{}", members.share());
    }

    #[test]
    fn ends_of_the_numbers_are_no_others() {
        let members = members(vec![i64::MIN, i64::MAX]).unwrap();
        let kept = members.keeps(&[i64::MIN, -1, 0, 1, i64::MAX]);
        assert!(kept.value(0) && kept.value(4));
    }

    #[test]
    fn what_is_no_number_or_too_much_has_none() {
        let pool = || -> Arc<dyn MemoryPool> { Arc::new(UnboundedMemoryPool::default()) };
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(keys(pool(), &[text]).is_none());
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(3), None]));
        assert!(keys(pool(), std::slice::from_ref(&days)).is_some());
        assert!(keys(Arc::new(GreedyMemoryPool::new(8)), &[days]).is_none());
        let many: ArrayRef = Arc::new(Int64Array::from(vec![1; MOST_KEYS]));
        assert!(keys(pool(), &[Arc::clone(&many), many]).is_none());
    }
}
