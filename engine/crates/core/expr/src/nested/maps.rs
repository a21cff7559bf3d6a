//! Maps: made of keys and values, and taken apart. As Spark's `ArrayBasedMapBuilder` has it: no key
//! is NULL, and one that comes twice is an error or takes the last value, as the session says; keys
//! keep the order in which they came first.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, StructArray},
    datatypes::{DataType, Float32Type, Float64Type},
};
use coffer_protocol::plan::FloatText;
use datafusion_common::{Result, ScalarValue, internal_err};

use super::{
    arrays::flag,
    build::{Ends, Gather},
    element, gives, key_value,
    lists::{Items, Lists, Maps},
    order::{Ordered, is_orderable},
    places::Places,
    structs::field_of,
};
use crate::{
    SparkError, Unsupported, format,
    function::{CallInfo, Kernel},
    types::{element_field, list_of, map_of, struct_of},
    vector::{argument, array},
};

type Built = Result<Kernel, Unsupported>;

/// Puts entries into maps, row by row.
pub(super) struct MapBuilder {
    /// The keys as they came, and then as maps have them: of floats, one NaN and one zero.
    keys: Gather,
    values: Gather,
    ends: Ends,
    sources: Vec<ArrayRef>,
    last_wins: bool,
}

impl MapBuilder {
    pub(super) fn new(
        keys: Vec<ArrayRef>,
        values: Vec<ArrayRef>,
        (key, value): (&DataType, &DataType),
        rows: usize,
        last_wins: bool,
    ) -> Self {
        let normalized = keys.iter().map(one_zero);
        Self {
            keys: Gather::new(key, keys.iter().cloned().chain(normalized)),
            values: Gather::new(value, values),
            ends: Ends::with_capacity(rows),
            sources: keys,
            last_wins,
        }
    }

    pub(super) fn null_row(&mut self) -> Result<()> {
        self.ends.null(self.keys.len())
    }

    /// A row's entries: which source and index a key has, and which its value; `comparable` are the
    /// sources' keys. `as_they_came`: keys are normalized only if one came twice.
    pub(super) fn row(
        &mut self,
        entries: impl Iterator<Item = [(usize, usize); 2]>,
        comparable: &[Ordered],
        as_they_came: bool,
    ) -> Result<()> {
        let mut met = Places::default();
        let mut kept: Vec<[(usize, usize); 2]> = Vec::new();
        let mut all = 0;
        for [key, value] in entries {
            all += 1;
            let (Some(source), Some(ordered)) = (self.sources.get(key.0), comparable.get(key.0))
            else {
                return internal_err!("a map's key lies in no argument");
            };
            if source.is_null(key.1) || source.data_type().is_null() {
                return Err(SparkError::new("NULL_MAP_KEY", "Cannot use null as map key.").into());
            }
            match met.meet(ordered.get(key.1)) {
                (_, true) => kept.push([key, value]),
                (_, false) if !self.last_wins => {
                    return Err(duplicate(source, key.1)?.into());
                }
                (at, false) => {
                    if let Some(entry) = kept.get_mut(at) {
                        entry[1] = value;
                    }
                }
            }
        }
        let shift = match as_they_came && all == kept.len() {
            true => 0,
            false => self.sources.len(),
        };
        for [key, value] in kept {
            self.keys.pick(key.0 + shift, key.1);
            self.values.pick(value.0, value.1);
        }
        self.ends.row(self.keys.len())
    }

    pub(super) fn finish(self) -> Result<ArrayRef> {
        self.ends.map(self.keys.finish()?, self.values.finish()?)
    }
}

/// Of float keys: one NaN and one zero.
pub(super) fn one_zero(keys: &ArrayRef) -> ArrayRef {
    match keys.data_type() {
        DataType::Float32 => {
            let keys = keys.as_primitive::<Float32Type>();
            Arc::new(keys.unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }))
        }
        DataType::Float64 => {
            let keys = keys.as_primitive::<Float64Type>();
            Arc::new(keys.unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }))
        }
        _ => Arc::clone(keys),
    }
}

fn duplicate(keys: &ArrayRef, index: usize) -> Result<SparkError> {
    // As Spark keeps it: dates and timestamps are numbers there.
    let text = match ScalarValue::try_from_array(keys, index)? {
        ScalarValue::Utf8(Some(text)) => text,
        ScalarValue::Date32(Some(days)) => days.to_string(),
        ScalarValue::TimestampMicrosecond(Some(micros), _) => micros.to_string(),
        ScalarValue::Decimal128(Some(value), _, scale) => {
            let mut text = String::new();
            format::big_decimal(value, scale, &mut text);
            text
        }
        ScalarValue::Float32(Some(value)) => {
            let mut text = String::new();
            format::float(value, FloatText::Shortest, &mut text);
            text
        }
        ScalarValue::Float64(Some(value)) => {
            let mut text = String::new();
            format::double(value, FloatText::Shortest, &mut text);
            text
        }
        other => other.to_string(),
    };
    Ok(SparkError::new(
        "DUPLICATED_MAP_KEY",
        format!(
            "Duplicate map key {text} was found, please check the input data.\nIf you want to \
             remove the duplicated keys, you can set \"spark.sql.mapKeyDedupPolicy\" to \
             \"LAST_WIN\" so that the key inserted at last takes precedence."
        ),
    ))
}

/// The types of the result's keys and values, and whether the last value wins, which is the first
/// argument.
fn made(call: &CallInfo<'_>) -> Result<(DataType, DataType, bool), Unsupported> {
    let (key, value) = key_value(call.ret).ok_or_else(|| call.bad_types())?;
    let last_wins = flag(call, 0)?;
    match *call.ret == map_of(key.clone(), value.clone()) && is_orderable(key) {
        true => Ok((key.clone(), value.clone(), last_wins)),
        false => Err(call.bad_types()),
    }
}

fn ordered(keys: &[ArrayRef]) -> Result<Vec<Ordered>> {
    // Of one type: rows of several converters compare too.
    let mut all = Vec::with_capacity(keys.len());
    for keys in keys {
        let [one] = Ordered::of([keys])?;
        all.push(one);
    }
    Ok(all)
}

/// (…, key, value, key, value, …).
pub(super) fn create(call: &CallInfo<'_>) -> Built {
    let (key, value, last_wins) = made(call)?;
    let entries = call.types.get(1..).unwrap_or_default();
    let (pairs, odd) = entries.as_chunks::<2>();
    if !odd.is_empty() || pairs.iter().any(|[k, v]| *k != key || *v != value) {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let items = args
            .iter()
            .skip(1)
            .map(Items::new)
            .collect::<Result<Vec<_>>>()?;
        let (pairs, _) = items.as_chunks::<2>();
        let keys: Vec<_> = pairs
            .iter()
            .map(|[key, _]| Arc::clone(&key.array))
            .collect();
        let values = pairs
            .iter()
            .map(|[_, value]| Arc::clone(&value.array))
            .collect();
        let comparable = ordered(&keys)?;
        let mut out = MapBuilder::new(keys, values, (&key, &value), rows, last_wins);
        for row in 0..rows {
            let entries = pairs
                .iter()
                .enumerate()
                .map(|(source, [key, value])| [(source, key.at(row)), (source, value.at(row))]);
            out.row(entries, &comparable, false)?;
        }
        out.finish()
    }))
}

/// (…, keys, values).
pub(super) fn from_arrays(call: &CallInfo<'_>) -> Built {
    let (key, value, last_wins) = made(call)?;
    match call.types {
        [_, keys, values] if element(keys) == Some(&key) && element(values) == Some(&value) => {}
        _ => return Err(call.bad_types()),
    }
    Ok(Arc::new(move |args, rows| {
        let (keys, values) = (
            Lists::new(argument(args, 1)?)?,
            Lists::new(argument(args, 2)?)?,
        );
        let sources = vec![Arc::clone(keys.values())];
        let comparable = ordered(&sources)?;
        let targets = vec![Arc::clone(values.values())];
        let mut out = MapBuilder::new(sources, targets, (&key, &value), rows, last_wins);
        for row in 0..rows {
            let (Some(ours), Some(theirs)) = (keys.range(row), values.range(row)) else {
                out.null_row()?;
                continue;
            };
            if ours.len() != theirs.len() {
                return Err(SparkError::new(
                    "_LEGACY_ERROR_TEMP_2128",
                    "The key array and value array of MapData must have the same length.",
                )
                .into());
            }
            out.row(
                ours.zip(theirs).map(|(k, v)| [(0, k), (0, v)]),
                &comparable,
                true,
            )?;
        }
        out.finish()
    }))
}

/// (…, array of structs of two fields); NULL if one of the structs is.
pub(super) fn from_entries(call: &CallInfo<'_>) -> Built {
    let (key, value, last_wins) = made(call)?;
    let [_, list] = call.types else {
        return Err(call.bad_types());
    };
    let Some(DataType::Struct(fields)) = element(list) else {
        return Err(call.bad_types());
    };
    if !fields
        .iter()
        .map(|field| field.data_type())
        .eq([&key, &value])
    {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let lists = Lists::new(argument(args, 1)?)?;
        let pairs = lists.values().as_struct();
        let sources = vec![field_of(pairs, 0)?];
        let comparable = ordered(&sources)?;
        let targets = vec![field_of(pairs, 1)?];
        let mut out = MapBuilder::new(sources, targets, (&key, &value), rows, last_wins);
        for row in 0..rows {
            match lists.range(row) {
                Some(range) if range.clone().all(|i| pairs.is_valid(i)) => {
                    out.row(range.map(|i| [(0, i), (0, i)]), &comparable, false)?;
                }
                _ => out.null_row()?,
            }
        }
        out.finish()
    }))
}

/// (…, map, map, …).
pub(super) fn concat(call: &CallInfo<'_>) -> Built {
    let (key, value, last_wins) = made(call)?;
    let maps = call.types.get(1..).unwrap_or_default();
    if maps.is_empty() || maps.iter().any(|map| map != call.ret) {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let maps = args
            .iter()
            .skip(1)
            .map(Maps::new)
            .collect::<Result<Vec<_>>>()?;
        let sources: Vec<_> = maps
            .iter()
            .map(|map| Arc::clone(map.keys.values()))
            .collect();
        let comparable = ordered(&sources)?;
        let targets = maps
            .iter()
            .map(|map| Arc::clone(map.values.values()))
            .collect();
        let mut out = MapBuilder::new(sources, targets, (&key, &value), rows, last_wins);
        for row in 0..rows {
            let ranges: Option<Vec<_>> = maps.iter().map(|map| map.range(row)).collect();
            match ranges {
                Some(ranges) => {
                    let entries = ranges.into_iter().enumerate();
                    let entries = entries
                        .flat_map(|(source, range)| range.map(move |i| [(source, i), (source, i)]));
                    out.row(entries, &comparable, false)?;
                }
                None => out.null_row()?,
            }
        }
        out.finish()
    }))
}

pub(super) fn keys(call: &CallInfo<'_>) -> Built {
    side(call, 0)
}

pub(super) fn values(call: &CallInfo<'_>) -> Built {
    side(call, 1)
}

fn side(call: &CallInfo<'_>, position: usize) -> Built {
    let [map] = call.types else {
        return Err(call.bad_types());
    };
    let (key, value) = key_value(map).ok_or_else(|| call.bad_types())?;
    gives(
        call,
        Some(list_of(
            [key, value]
                .into_iter()
                .nth(position)
                .unwrap_or(key)
                .clone(),
        )),
    )?;
    Ok(Arc::new(move |args, rows| {
        let map = array(argument(args, 0)?, rows)?;
        let map = map.as_map();
        let values = if position == 0 {
            map.keys()
        } else {
            map.values()
        };
        Ok(Arc::new(ListArray::try_new(
            element_field(values.data_type().clone()),
            map.offsets().clone(),
            Arc::clone(values),
            map.nulls().cloned(),
        )?) as ArrayRef)
    }))
}

/// The array of the entries, as structs.
pub(super) fn entries(call: &CallInfo<'_>) -> Built {
    let [map] = call.types else {
        return Err(call.bad_types());
    };
    let (key, value) = key_value(map).ok_or_else(|| call.bad_types())?;
    let pair = struct_of([("key", key.clone()), ("value", value.clone())]);
    gives(call, Some(list_of(pair.clone())))?;
    Ok(Arc::new(move |args, rows| {
        let map = array(argument(args, 0)?, rows)?;
        let map = map.as_map();
        let DataType::Struct(fields) = &pair else {
            return internal_err!("an entry is no struct");
        };
        let sides = vec![Arc::clone(map.keys()), Arc::clone(map.values())];
        let pairs = StructArray::try_new(fields.clone(), sides, None)?;
        Ok(Arc::new(ListArray::try_new(
            element_field(pair.clone()),
            map.offsets().clone(),
            Arc::new(pairs),
            map.nulls().cloned(),
        )?) as ArrayRef)
    }))
}

/// The map with its entries in the order of their keys.
pub(super) fn sort(call: &CallInfo<'_>) -> Built {
    let [map] = call.types else {
        return Err(call.bad_types());
    };
    let (key, value) = key_value(map).ok_or_else(|| call.bad_types())?;
    let (key, value) = (key.clone(), value.clone());
    if !is_orderable(&key) {
        return Err(call.bad_types());
    }
    gives(call, Some(map_of(key.clone(), value.clone())))?;
    Ok(Arc::new(move |args, rows| {
        let maps = Maps::new(argument(args, 0)?)?;
        let [ordered] = Ordered::of([maps.keys.values()])?;
        let mut keys = Gather::new(&key, [Arc::clone(maps.keys.values())]);
        let mut values = Gather::new(&value, [Arc::clone(maps.values.values())]);
        let mut ends = Ends::with_capacity(rows);
        for row in 0..rows {
            let Some(range) = maps.range(row) else {
                ends.null(keys.len())?;
                continue;
            };
            let mut sorted: Vec<usize> = range.collect();
            sorted.sort_by(|a, b| ordered.get(*a).cmp(&ordered.get(*b)));
            for i in sorted {
                keys.pick(0, i);
                values.pick(0, i);
            }
            ends.row(keys.len())?;
        }
        ends.map(keys.finish()?, values.finish()?)
    }))
}
