//! Functions of all values of a group: COLLECT_LIST, COLLECT_SET, MODE, LISTAGG and percentiles.
//! Buffer: `[values]`, an array without NULLs.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, StructArray, UInt32Array,
        new_empty_array,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{SortOptions, interleave, sort, sort_to_indices, take},
    datatypes::{DataType, Float32Type, Float64Type, Int64Type},
    row::{RowConverter, SortField},
};
use coffer_expr::{SparkError, types::element_field};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::{
    histogram::Histogram,
    joined::Joined,
    most_frequent::Mode,
    state::{GroupState, column, each, live},
    summary::{Approximate, doubles},
};

/// What becomes of a group's values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Of {
    List,
    /// Each value once. As in Spark no NaN equals another, and −0.0 equals 0.0.
    Set,
    Mode(Mode),
    Percentiles(Percentiles),
    Approximate(Approximate),
    Histogram(Histogram),
    Joined(Joined),
}

/// The values below which these shares of all values lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Percentiles {
    /// The shares' bits, each of 0.0 to 1.0.
    pub(super) shares: Vec<u64>,
    /// Counted from the greatest value.
    pub(super) reverse: bool,
    /// Always one of the values; else what lies between two.
    pub(super) discrete: bool,
    /// As an array.
    pub(super) array: bool,
    /// Each value comes with how often it counts, which has this text.
    pub(super) frequency: Option<String>,
}

/// Where a value lies.
#[derive(Clone, Copy)]
struct Place {
    group: u32,
    part: u32,
    row: u32,
}

/// Values from which sets are thinned out again.
const THIN_FROM: usize = 1 << 16;

pub(super) struct Collected {
    of: Of,
    element: DataType,
    groups: usize,
    parts: Vec<ArrayRef>,
    places: Vec<Place>,
    bytes: usize,
    thin_at: usize,
}

impl Collected {
    pub(super) fn new(of: Of, element: DataType) -> Self {
        Self {
            of,
            element,
            groups: 0,
            parts: vec![],
            places: vec![],
            bytes: 0,
            thin_at: THIN_FROM,
        }
    }

    /// Takes rows of `values`, each for a group.
    fn hold(&mut self, values: &ArrayRef, rows: Vec<u32>, groups: &[u32]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        // A copy: else a few rows would keep their whole batch in memory.
        let part = take(values, &UInt32Array::from(rows), None)?;
        let index = index(self.parts.len())?;
        self.bytes += part.get_array_memory_size();
        self.parts.push(part);
        for (row, group) in (0..).zip(groups) {
            self.places.push(Place {
                group: *group,
                part: index,
                row,
            });
        }
        if self.of == Of::Set && self.places.len() >= self.thin_at {
            self.thin()?;
        }
        Ok(())
    }

    /// Forgets what is in its set already.
    fn thin(&mut self) -> Result<()> {
        let groups = self.groups;
        let (values, lengths) = self.take(groups)?;
        let mut places = Vec::with_capacity(values.len());
        for (group, length) in lengths.into_iter().enumerate() {
            places.extend(std::iter::repeat_n(index(group)?, length));
        }
        self.groups = groups;
        self.bytes = values.get_array_memory_size();
        self.places = (0..)
            .zip(places)
            .map(|(row, group)| Place {
                group,
                part: 0,
                row,
            })
            .collect();
        self.parts = vec![values];
        self.thin_at = THIN_FROM.max(self.places.len().saturating_mul(2));
        Ok(())
    }

    /// The values of the first so many groups, group by group, and how many each has. They are
    /// forgotten.
    fn take(&mut self, groups: usize) -> Result<(ArrayRef, Vec<usize>)> {
        let mut lengths = vec![0_usize; groups];
        let bound = index(groups)?;
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for place in std::mem::take(&mut self.places) {
            match place.group.checked_sub(bound) {
                None => taken.push(place),
                Some(group) => left.push(Place { group, ..place }),
            }
        }
        taken.sort_by_key(|place| place.group);
        for place in &taken {
            if let Some(length) = lengths.get_mut(at(place.group)) {
                *length += 1;
            }
        }
        let values = self.gather(&taken)?;
        self.groups = self.groups.saturating_sub(groups);
        match left.is_empty() {
            true => {
                self.parts.clear();
                self.bytes = 0;
            }
            false => {
                let kept = self.gather(&left)?;
                self.bytes = kept.get_array_memory_size();
                self.parts = vec![kept];
                for (row, place) in (0..).zip(&mut left) {
                    (place.part, place.row) = (0, row);
                }
            }
        }
        self.places = left;
        match self.of {
            Of::Set => distinct(&values, &lengths),
            _ => Ok((values, lengths)),
        }
    }

    fn gather(&self, places: &[Place]) -> Result<ArrayRef> {
        if places.is_empty() {
            return Ok(new_empty_array(&self.element));
        }
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        let places = places.iter().map(|place| (at(place.part), at(place.row)));
        Ok(interleave(&parts, &places.collect::<Vec<_>>())?)
    }

    fn emitted(&mut self, emit: EmitTo) -> Result<(ArrayRef, Vec<usize>)> {
        let groups = match emit {
            EmitTo::All => self.groups,
            EmitTo::First(groups) => groups.min(self.groups),
        };
        self.take(groups)
    }

    fn list(&self, values: ArrayRef, lengths: Vec<usize>) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::from_lengths(lengths);
        let field = element_field(self.element.clone());
        Ok(Arc::new(ListArray::try_new(field, offsets, values, None)?))
    }
}

impl GroupState for Collected {
    fn resize(&mut self, groups: usize) {
        self.groups = groups;
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &self.element)?;
        let live = live(values.logical_nulls().as_ref(), filter);
        let (mut rows, mut of) = (Vec::new(), Vec::new());
        each(live.as_ref(), groups, |row, group| {
            rows.push(index(row)?);
            of.push(index(group)?);
            Ok(())
        })?;
        self.hold(&values, rows, &of)
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let lists = buffers.first().and_then(|lists| lists.as_list_opt::<i32>());
        let lists =
            lists.ok_or_else(|| internal_datafusion_err!("collected values are no array"))?;
        let live = live(lists.nulls(), filter);
        let (mut rows, mut of) = (Vec::new(), Vec::new());
        each(live.as_ref(), groups, |row, group| {
            let bounds = lists.value_offsets();
            let end = |row: usize| bounds.get(row).and_then(|end| u32::try_from(*end).ok());
            let (start, end) = (end(row).unwrap_or(0), end(row + 1).unwrap_or(0));
            let group = index(group)?;
            for place in start..end {
                rows.push(place);
                of.push(group);
            }
            Ok(())
        })?;
        self.hold(lists.values(), rows, &of)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (values, lengths) = self.emitted(emit)?;
        match &self.of {
            Of::List | Of::Set => self.list(values, lengths),
            Of::Mode(mode) => mode.of(&values, &lengths),
            Of::Percentiles(percentiles) => percentiles.of(&values, &lengths),
            Of::Approximate(percentiles) => percentiles.of(&values, &lengths),
            Of::Histogram(histogram) => histogram.of(&values, &lengths),
            Of::Joined(joined) => joined.of(&values, &lengths),
        }
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (values, lengths) = self.emitted(emit)?;
        Ok(vec![self.list(values, lengths)?])
    }

    fn size(&self) -> usize {
        self.bytes + self.places.capacity() * size_of::<Place>()
    }
}

fn index(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| internal_datafusion_err!("2^32 collected values"))
}

fn at(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The first of each group's equal values.
fn distinct(values: &ArrayRef, lengths: &[usize]) -> Result<(ArrayRef, Vec<usize>)> {
    let nan = nans(values);
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let rows = converter.convert_columns(&[positive_zeros(values)?])?;
    let (mut kept, mut left, mut row) = (Vec::new(), Vec::with_capacity(lengths.len()), 0);
    for length in lengths {
        let mut seen = HashSet::with_capacity(*length);
        let before = kept.len();
        for place in row..row + length {
            let is_nan = nan.as_ref().is_some_and(|nan| nan.value(place));
            if is_nan || seen.insert(rows.row(place)) {
                kept.push(index(place)?);
            }
        }
        row += length;
        left.push(kept.len() - before);
    }
    Ok((take(values, &UInt32Array::from(kept), None)?, left))
}

fn nans(values: &ArrayRef) -> Option<BooleanArray> {
    match values.data_type() {
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Some(BooleanArray::from_unary(values, f32::is_nan))
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Some(BooleanArray::from_unary(values, f64::is_nan))
        }
        _ => None,
    }
}

fn positive_zeros(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Arc::new(values.unary::<_, Float32Type>(|value| value + 0.0))
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Arc::new(values.unary::<_, Float64Type>(|value| value + 0.0))
        }
        _ => Arc::clone(values),
    })
}

impl Percentiles {
    fn of(&self, values: &ArrayRef, lengths: &[usize]) -> Result<ArrayRef> {
        let mut results = Vec::with_capacity(lengths.len());
        let mut start = 0;
        for length in lengths {
            let group = values.slice(start, *length);
            start += length;
            results.push(match length {
                0 => None,
                _ => self.of_group(&group)?,
            });
        }
        let shares = self.shares.len();
        let nulls: NullBuffer = results.iter().map(Option::is_some).collect();
        if !self.array {
            let one = |result: Option<Vec<f64>>| result.and_then(|result| result.first().copied());
            return Ok(Arc::new(
                results.into_iter().map(one).collect::<Float64Array>(),
            ));
        }
        let lengths = results.iter().map(|r| if r.is_some() { shares } else { 0 });
        let offsets = OffsetBuffer::from_lengths(lengths);
        let values: Float64Array = results.into_iter().flatten().flatten().map(Some).collect();
        let field = element_field(DataType::Float64);
        let list = ListArray::try_new(field, offsets, Arc::new(values), Some(nulls))?;
        Ok(Arc::new(list))
    }

    /// Of a group with values; none if none of them counts.
    fn of_group(&self, values: &ArrayRef) -> Result<Option<Vec<f64>>> {
        let options = SortOptions {
            descending: self.reverse,
            nulls_first: true,
        };
        let (sorted, ends) = match &self.frequency {
            None => {
                let sorted = doubles(&sort(&one_nan(values)?, Some(options))?)?;
                let ends = (1..=sorted.len() as u64).collect();
                (sorted, ends)
            }
            Some(text) => counted(values, options, text)?,
        };
        let Some(count) = ends.last().copied() else {
            return Ok(None);
        };
        let value = |place: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let place = place as u64;
            let at = match self.frequency {
                // At most the number of values.
                None => usize::try_from(place).unwrap_or(usize::MAX),
                Some(_) => ends.partition_point(|end| *end <= place),
            };
            sorted.get(at).copied().unwrap_or(f64::NAN)
        };
        #[expect(clippy::cast_precision_loss, reason = "Spark computes in doubles")]
        let (count, last) = (count as f64, (count - 1) as f64);
        let of = |share: f64| {
            if self.discrete {
                return value(((count * share).ceil() - 1.0).max(0.0));
            }
            let position = last * share;
            let (lower, higher) = (position.floor(), position.ceil());
            let (low, high) = (value(lower), value(higher));
            // Also of two infinities.
            match lower == higher || low == high {
                true => low,
                false => (higher - position) * low + (position - lower) * high,
            }
        };
        let shares = self.shares.iter();
        let found = shares.map(|share| of(f64::from_bits(*share)));
        Ok(Some(found.collect()))
    }
}

/// Values in their order, and of each how often it and those before it count.
fn counted(
    values: &ArrayRef,
    options: SortOptions,
    frequency: &str,
) -> Result<(Vec<f64>, Vec<u64>)> {
    let pairs = values.as_struct_opt().map(StructArray::columns);
    let Some([values, counts]) = pairs else {
        return Err(internal_datafusion_err!("values without their frequency"));
    };
    let counts = counts
        .as_primitive_opt::<Int64Type>()
        .ok_or_else(|| internal_datafusion_err!("a frequency that is no LONG"))?;
    let values = one_nan(values)?;
    let order = sort_to_indices(&values, Some(options), None)?;
    let sorted = doubles(&take(&values, &order, None)?)?;
    let (mut kept, mut ends, mut total) = (vec![], vec![], 0u64);
    for (value, row) in sorted.into_iter().zip(order.values()) {
        let count = counts.value(at(*row));
        let count = u64::try_from(count).map_err(|_| SparkError {
            class: "NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION",
            message: format!(
                "Found the negative value in {frequency}: {count}L, but expected a positive \
                 integral value."
            ),
        })?;
        if count > 0 {
            // 2^64 rows are never counted.
            total = total.saturating_add(count);
            kept.push(value);
            ends.push(total);
        }
    }
    Ok((kept, ends))
}

/// Every NaN as the one that is sorted last.
fn one_nan(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => {
            let nan = |value: f32| if value.is_nan() { f32::NAN } else { value };
            Arc::new(
                values
                    .as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(nan),
            )
        }
        DataType::Float64 => {
            let nan = |value: f64| if value.is_nan() { f64::NAN } else { value };
            Arc::new(
                values
                    .as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(nan),
            )
        }
        _ => Arc::clone(values),
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    fn collected(of: Of, values: Vec<Option<i64>>, groups: &[usize]) -> Collected {
        let mut state = Collected::new(of, DataType::Int64);
        state.resize(groups.iter().max().map_or(0, |most| most + 1));
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        state.update(&[values], groups, None).unwrap();
        state
    }

    fn lists(array: &ArrayRef) -> Vec<Vec<i64>> {
        let lists = array.as_list::<i32>();
        let values = |list: ArrayRef| {
            let list = list.as_primitive::<arrow::datatypes::Int64Type>();
            list.values().to_vec()
        };
        lists.iter().map(|list| values(list.unwrap())).collect()
    }

    #[test]
    fn lists_keep_order_and_leave_out_nulls() {
        let values = vec![Some(1), Some(2), None, Some(1), Some(3)];
        let mut state = collected(Of::List, values, &[1, 0, 1, 1, 3]);
        let first = state.evaluate(EmitTo::First(2)).unwrap();
        assert_eq!(lists(&first), [vec![2], vec![1, 1]]);
        let rest = state.evaluate(EmitTo::All).unwrap();
        assert_eq!(lists(&rest), [vec![], vec![3]]);
        assert_eq!(state.evaluate(EmitTo::All).unwrap().len(), 0);
    }

    #[test]
    fn buffers_merge_to_what_rows_give() {
        for of in [Of::List, Of::Set] {
            let values: Vec<Option<i64>> = (0..100).map(|i| Some(i % 7)).collect();
            let groups: Vec<usize> = (0..100).map(|i| i % 3).collect();
            let mut whole = collected(of.clone(), values.clone(), &groups);
            let mut merged = Collected::new(of.clone(), DataType::Int64);
            merged.resize(3);
            for half in [0..50, 50..100] {
                let part = collected(of.clone(), values[half.clone()].to_vec(), &groups[half]);
                let mut part = part;
                let buffers = part.buffers(EmitTo::All).unwrap();
                merged.merge(&buffers, &[0, 1, 2], None).unwrap();
            }
            let (whole, merged) = (
                whole.evaluate(EmitTo::All).unwrap(),
                merged.evaluate(EmitTo::All).unwrap(),
            );
            assert_eq!(lists(&whole), lists(&merged), "{of:?}");
        }
    }

    #[test]
    fn sets_are_thinned_out_on_the_way() {
        let mut state = Collected::new(Of::Set, DataType::Int64);
        state.resize(1);
        for _ in 0..40 {
            let values: ArrayRef = Arc::new((0..8192).map(|i| i % 100).collect::<Int64Array>());
            state.update(&[values], &[0; 8192], None).unwrap();
        }
        assert!(state.places.len() < 2 * THIN_FROM && state.size() < 4 << 20);
        let sets = lists(&state.evaluate(EmitTo::All).unwrap());
        assert_eq!(sets, [(0..100).collect::<Vec<_>>()]);
    }

    #[test]
    fn zeros_are_equal_and_no_nan_is() {
        let mut state = Collected::new(Of::Set, DataType::Float64);
        state.resize(1);
        let values = Float64Array::from(vec![-0.0, 0.0, f64::NAN, f64::NAN, 1.0]);
        state.update(&[Arc::new(values)], &[0; 5], None).unwrap();
        let sets = state.evaluate(EmitTo::All).unwrap();
        assert_eq!(sets.as_list::<i32>().value_length(0), 4);
    }

    fn percentile(share: f64, discrete: bool, reverse: bool, values: &[i64]) -> Option<f64> {
        let of = Of::Percentiles(Percentiles {
            shares: vec![share.to_bits()],
            reverse,
            discrete,
            array: false,
            frequency: None,
        });
        let values: Vec<Option<i64>> = values.iter().copied().map(Some).collect();
        let groups = vec![0; values.len()];
        let mut state = collected(of, values, &groups);
        state.resize(1);
        let result = state.evaluate(EmitTo::All).unwrap();
        let result = result.as_primitive::<Float64Type>();
        result.is_valid(0).then(|| result.value(0))
    }

    #[test]
    fn percentiles_as_spark_counts_them() {
        assert_eq!(percentile(0.3, false, false, &[10, 0]), Some(3.0));
        assert_eq!(percentile(0.3, false, true, &[10, 0]), Some(7.0));
        assert_eq!(percentile(0.5, true, false, &[3, 1, 2, 4]), Some(2.0));
        assert_eq!(percentile(0.0, true, false, &[3, 1]), Some(1.0));
        assert_eq!(percentile(1.0, false, false, &[3, 1]), Some(3.0));
        assert_eq!(percentile(0.5, false, false, &[]), None);
    }
}
