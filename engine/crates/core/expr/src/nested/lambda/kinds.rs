//! The functions that take a lambda.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, UInt32Array},
    compute::take,
    datatypes::DataType,
    record_batch::RecordBatch,
};
use datafusion_common::{Result, internal_err};

use super::{HigherOrder, Lambda, fold};
use crate::{
    Unsupported,
    nested::{
        build::{Ends, Gather, ListBuilder},
        element, key_value,
        lists::{Lists, Maps},
        maps::{MapBuilder, one_zero},
        order::{Ordered, is_orderable},
        places::Places,
    },
    types::{list_of, map_of},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Transform,
    Filter,
    Exists,
    ForAll,
    Aggregate,
    ZipWith,
    TransformKeys,
    TransformValues,
    MapFilter,
    MapZipWith,
}

const NAMES: [(&str, Kind); 10] = [
    ("array_transform", Kind::Transform),
    ("array_filter", Kind::Filter),
    ("array_exists", Kind::Exists),
    ("array_for_all", Kind::ForAll),
    ("array_aggregate", Kind::Aggregate),
    ("zip_with", Kind::ZipWith),
    ("transform_keys", Kind::TransformKeys),
    ("transform_values", Kind::TransformValues),
    ("map_filter", Kind::MapFilter),
    ("map_zip_with", Kind::MapZipWith),
];

impl Kind {
    pub(super) fn of(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, kind)| *kind)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }
}

/// The types of a call.
pub(super) struct Shape<'a> {
    pub(super) name: &'a str,
    pub(super) values: &'a [DataType],
    pub(super) parameters: Vec<Vec<&'a DataType>>,
    pub(super) bodies: Vec<&'a DataType>,
    pub(super) ret: &'a DataType,
}

impl Shape<'_> {
    /// Refuses what Catalyst does not produce.
    pub(super) fn check(&self, kind: Kind) -> Result<(), Unsupported> {
        match self.agrees(kind) {
            Some(true) => Ok(()),
            _ => Err(Unsupported::new(
                self.name,
                "its arguments have other types",
            )),
        }
    }

    fn agrees(&self, kind: Kind) -> Option<bool> {
        let parameters: Vec<&[&DataType]> = self.parameters.iter().map(Vec::as_slice).collect();
        let bool = DataType::Boolean;
        Some(
            match (
                kind,
                self.values,
                parameters.as_slice(),
                self.bodies.as_slice(),
            ) {
                (Kind::Transform, [list], [parameters], [body]) => {
                    of_elements(parameters, element(list)?) && *self.ret == list_of((*body).clone())
                }
                (Kind::Filter, [list], [parameters], [body]) => {
                    of_elements(parameters, element(list)?) && **body == bool && self.ret == list
                }
                (Kind::Exists, [list, flag], [[of]], [body]) => {
                    *of == element(list)? && *flag == bool && **body == bool && *self.ret == bool
                }
                (Kind::ForAll, [list], [[of]], [body]) => {
                    *of == element(list)? && **body == bool && *self.ret == bool
                }
                (Kind::Aggregate, [list, zero], [[state, of], [merged]], [merge, finish]) => {
                    *of == element(list)?
                        && *state == zero
                        && *merge == zero
                        && *merged == zero
                        && self.ret == *finish
                }
                (Kind::ZipWith, [left, right], [[a, b]], [body]) => {
                    *a == element(left)?
                        && *b == element(right)?
                        && *self.ret == list_of((*body).clone())
                }
                (Kind::TransformKeys, [flag, map], [[k, v]], [body]) => {
                    let (key, value) = key_value(map)?;
                    *flag == bool
                        && (*k, *v) == (key, value)
                        && is_orderable(body)
                        && *self.ret == map_of((*body).clone(), value.clone())
                }
                (Kind::TransformValues, [map], [[k, v]], [body]) => {
                    let (key, value) = key_value(map)?;
                    (*k, *v) == (key, value) && *self.ret == map_of(key.clone(), (*body).clone())
                }
                (Kind::MapFilter, [map], [[k, v]], [body]) => {
                    (*k, *v) == key_value(map)? && **body == bool && self.ret == map
                }
                (Kind::MapZipWith, [left, right], [[k, a, b]], [body]) => {
                    let ((key, ours), (other, theirs)) = (key_value(left)?, key_value(right)?);
                    key == other
                        && (*k, *a, *b) == (key, ours, theirs)
                        && is_orderable(key)
                        && *self.ret == map_of(key.clone(), (*body).clone())
                }
                _ => false,
            },
        )
    }
}

/// The element, or it and its index.
fn of_elements(parameters: &[&DataType], of: &DataType) -> bool {
    match parameters {
        [element] => *element == of,
        [element, index] => *element == of && **index == DataType::Int32,
        _ => false,
    }
}

pub(super) fn evaluate(call: &HigherOrder, batch: &RecordBatch) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let lambda = |index: usize| match call.lambdas.get(index) {
        Some(lambda) => Ok(lambda),
        None => internal_err!("lambda {index} is missing"),
    };
    let value = |index: usize| match call.values.get(index) {
        Some(value) => value.evaluate(batch),
        None => internal_err!("argument {index} is missing"),
    };
    match call.kind {
        Kind::Transform => transform(&Lists::new(&value(0)?)?, lambda(0)?, batch),
        Kind::Filter => filter(&Lists::new(&value(0)?)?, lambda(0)?, batch),
        Kind::Exists => {
            let of_null = if call.flag(1) { None } else { Some(false) };
            let found = any(&Lists::new(&value(0)?)?, lambda(0)?, batch, true, of_null)?;
            Ok(Arc::new(found))
        }
        Kind::ForAll => {
            let found = any(&Lists::new(&value(0)?)?, lambda(0)?, batch, false, None)?;
            Ok(Arc::new(found))
        }
        Kind::Aggregate => {
            let list = Lists::new(&value(0)?)?;
            let Some(zero) = call.values.get(1) else {
                return internal_err!("argument 1 is missing");
            };
            let zero = match call.fallible_values {
                // Spark looks at the array first.
                true => {
                    let given = (0..rows).map(|row| Some(list.range(row).is_some()));
                    zero.evaluate_selection(batch, &given.collect::<BooleanArray>())?
                }
                false => zero.evaluate(batch)?,
            };
            fold::aggregate(
                &list,
                &zero.into_array(rows)?,
                [lambda(0)?, lambda(1)?],
                batch,
            )
        }
        Kind::ZipWith => {
            let (left, right) = (Lists::new(&value(0)?)?, Lists::new(&value(1)?)?);
            zip_with([&left, &right], lambda(0)?, batch)
        }
        Kind::TransformKeys => {
            transform_keys(&Maps::new(&value(1)?)?, lambda(0)?, batch, call.flag(0))
        }
        Kind::TransformValues => transform_values(&Maps::new(&value(0)?)?, lambda(0)?, batch),
        Kind::MapFilter => map_filter(&Maps::new(&value(0)?)?, lambda(0)?, batch),
        Kind::MapZipWith => map_zip_with(
            [&Maps::new(&value(0)?)?, &Maps::new(&value(1)?)?],
            lambda(0)?,
            batch,
        ),
    }
}

/// The elements of all rows that are not NULL, one after another.
struct Flat {
    rows: UInt32Array,
    /// Where they lie in the arguments' values.
    at: UInt32Array,
    /// Where they lie in their rows.
    index: Int32Array,
    ends: Ends,
}

impl Flat {
    fn of(lists: &Lists, rows: usize) -> Result<Self> {
        let (mut of, mut at, mut index) = (Vec::new(), Vec::new(), Vec::new());
        let mut ends = Ends::with_capacity(rows);
        for row in 0..rows {
            let Some(range) = lists.range(row) else {
                ends.null(at.len())?;
                continue;
            };
            for (i, element) in range.enumerate() {
                of.push(small(row)?);
                at.push(small(element)?);
                index.push(i32::try_from(i).unwrap_or(i32::MAX));
            }
            ends.row(at.len())?;
        }
        Ok(Self {
            rows: of.into(),
            at: at.into(),
            index: index.into(),
            ends,
        })
    }

    fn take(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(take(values, &self.at, None)?)
    }
}

pub(super) fn small(index: usize) -> Result<u32> {
    match u32::try_from(index) {
        Ok(index) => Ok(index),
        Err(_) => internal_err!("a batch has more than 2^32 elements"),
    }
}

fn transform(lists: &Lists, lambda: &Lambda, batch: &RecordBatch) -> Result<ArrayRef> {
    let flat = Flat::of(lists, batch.num_rows())?;
    let index = Arc::new(flat.index.clone()) as ArrayRef;
    let values = lambda.evaluate(batch, &flat.rows, vec![flat.take(lists.values())?, index])?;
    flat.ends.list(values)
}

/// Which elements the lambda is true of.
fn chosen(values: &ArrayRef) -> Vec<bool> {
    values
        .as_boolean()
        .iter()
        .map(|value| value == Some(true))
        .collect()
}

fn filter(lists: &Lists, lambda: &Lambda, batch: &RecordBatch) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let flat = Flat::of(lists, rows)?;
    let index = Arc::new(flat.index.clone()) as ArrayRef;
    let kept = lambda.evaluate(batch, &flat.rows, vec![flat.take(lists.values())?, index])?;
    let mut kept = chosen(&kept).into_iter();
    let of = lists.values().data_type();
    let mut out = ListBuilder::new(of, [Arc::clone(lists.values())], rows);
    for row in 0..rows {
        match lists.range(row) {
            Some(range) => {
                for (i, kept) in range.zip(&mut kept) {
                    if kept {
                        out.elements.pick(0, i);
                    }
                }
                out.row()?;
            }
            None => out.null_row()?,
        }
    }
    out.finish()
}

/// Whether the lambda is `wanted` of an element; `of_null` if of none, but NULL of one.
fn any(
    lists: &Lists,
    lambda: &Lambda,
    batch: &RecordBatch,
    wanted: bool,
    of_null: Option<bool>,
) -> Result<BooleanArray> {
    let rows = batch.num_rows();
    let mut found = vec![false; rows];
    let mut null = vec![false; rows];
    let mut see = |row: usize, value: Option<bool>| match value {
        Some(value) if value == wanted => found.get_mut(row).is_some_and(|found| {
            *found = true;
            true
        }),
        Some(_) => false,
        None => {
            null.get_mut(row).into_iter().for_each(|null| *null = true);
            false
        }
    };
    if lambda.fallible {
        fold::by_position(lists, rows, |rows, at| {
            let elements = take(lists.values(), at, None)?;
            let values = lambda.evaluate(batch, rows, vec![elements])?;
            let values = values.as_boolean().iter().zip(rows.values());
            Ok(values
                .map(|(value, row)| !see(*row as usize, value))
                .collect())
        })?;
    } else {
        let flat = Flat::of(lists, rows)?;
        let values = lambda.evaluate(batch, &flat.rows, vec![flat.take(lists.values())?])?;
        for (value, row) in values.as_boolean().iter().zip(flat.rows.values()) {
            see(*row as usize, value);
        }
    }
    Ok((0..rows)
        .map(|row| {
            lists.range(row)?;
            match (found.get(row), null.get(row)) {
                (Some(true), _) => Some(wanted),
                (_, Some(true)) => of_null,
                _ => Some(!wanted),
            }
        })
        .collect())
}

fn zip_with(lists: [&Lists; 2], lambda: &Lambda, batch: &RecordBatch) -> Result<ArrayRef> {
    let [left, right] = lists;
    let rows = batch.num_rows();
    let mut of: Vec<u32> = Vec::new();
    let mut sides =
        lists.map(|list| Gather::new(list.values().data_type(), [Arc::clone(list.values())]));
    let mut ends = Ends::with_capacity(rows);
    for row in 0..rows {
        let (Some(ours), Some(theirs)) = (left.range(row), right.range(row)) else {
            ends.null(of.len())?;
            continue;
        };
        let len = ours.len().max(theirs.len());
        of.extend(std::iter::repeat_n(small(row)?, len));
        for (side, range) in sides.iter_mut().zip([ours, theirs]) {
            let missing = len - range.len();
            range.for_each(|i| side.pick(0, i));
            (0..missing).for_each(|_| side.null());
        }
        ends.row(of.len())?;
    }
    let sides = sides
        .map(Gather::finish)
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    ends.list(lambda.evaluate(batch, &of.into(), sides)?)
}

fn transform_keys(
    maps: &Maps,
    lambda: &Lambda,
    batch: &RecordBatch,
    last_wins: bool,
) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let flat = Flat::of(&maps.keys, rows)?;
    let (keys, values) = (
        flat.take(maps.keys.values())?,
        flat.take(maps.values.values())?,
    );
    let keys = lambda.evaluate(batch, &flat.rows, vec![keys, Arc::clone(&values)])?;
    let comparable = Ordered::of([&keys])?;
    let types = (keys.data_type().clone(), values.data_type().clone());
    let mut out = MapBuilder::new(
        vec![keys],
        vec![values],
        (&types.0, &types.1),
        rows,
        last_wins,
    );
    let mut start = 0;
    for row in 0..rows {
        let Some(range) = maps.range(row) else {
            out.null_row()?;
            continue;
        };
        let end = start + range.len();
        out.row((start..end).map(|i| [(0, i), (0, i)]), &comparable, true)?;
        start = end;
    }
    out.finish()
}

fn transform_values(maps: &Maps, lambda: &Lambda, batch: &RecordBatch) -> Result<ArrayRef> {
    let flat = Flat::of(&maps.keys, batch.num_rows())?;
    let (keys, values) = (
        flat.take(maps.keys.values())?,
        flat.take(maps.values.values())?,
    );
    let values = lambda.evaluate(batch, &flat.rows, vec![Arc::clone(&keys), values])?;
    flat.ends.map(keys, values)
}

fn map_filter(maps: &Maps, lambda: &Lambda, batch: &RecordBatch) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let flat = Flat::of(&maps.keys, rows)?;
    let (keys, values) = (maps.keys.values(), maps.values.values());
    let kept = lambda.evaluate(
        batch,
        &flat.rows,
        vec![flat.take(keys)?, flat.take(values)?],
    )?;
    let mut kept = chosen(&kept).into_iter();
    let mut sides = [keys, values].map(|side| Gather::new(side.data_type(), [Arc::clone(side)]));
    let (mut ends, mut end) = (Ends::with_capacity(rows), 0);
    for row in 0..rows {
        let Some(range) = maps.range(row) else {
            ends.null(end)?;
            continue;
        };
        for (i, kept) in range.zip(&mut kept) {
            if kept {
                sides.iter_mut().for_each(|side| side.pick(0, i));
                end += 1;
            }
        }
        ends.row(end)?;
    }
    let [keys, values] = sides;
    ends.map(keys.finish()?, values.finish()?)
}

/// A key by the map and the place where it was met first, and its places in both maps.
type Met = ((usize, usize), [Option<usize>; 2]);

/// Over the keys of both, those of the left first; NULL for the value of a map without the key.
fn map_zip_with(maps: [&Maps; 2], lambda: &Lambda, batch: &RecordBatch) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let [left, right] = maps;
    let sources = maps.map(|map| one_zero(map.keys.values()));
    let ordered = Ordered::of([left.keys.values(), right.keys.values()])?;
    let mut of: Vec<u32> = Vec::new();
    let mut keys = Gather::new(left.keys.values().data_type(), sources);
    let mut sides = maps.map(|map| {
        let values = map.values.values();
        Gather::new(values.data_type(), [Arc::clone(values)])
    });
    let mut ends = Ends::with_capacity(rows);
    for row in 0..rows {
        let (Some(ours), Some(theirs)) = (left.range(row), right.range(row)) else {
            ends.null(of.len())?;
            continue;
        };
        let mut met = Places::default();
        let mut found: Vec<Met> = Vec::new();
        for (source, (range, ordered)) in [ours, theirs].into_iter().zip(&ordered).enumerate() {
            for i in range {
                let (at, new) = met.meet(ordered.get(i));
                if new {
                    found.push(((source, i), [None, None]));
                }
                let slot = found
                    .get_mut(at)
                    .and_then(|(_, sides)| sides.get_mut(source));
                slot.into_iter().for_each(|slot| *slot = slot.or(Some(i)));
            }
        }
        for ((source, i), indices) in found {
            of.push(small(row)?);
            keys.pick(source, i);
            for (side, index) in sides.iter_mut().zip(indices) {
                match index {
                    Some(index) => side.pick(0, index),
                    None => side.null(),
                }
            }
        }
        ends.row(of.len())?;
    }
    let keys = keys.finish()?;
    let [ours, theirs] = sides;
    let parameters = vec![Arc::clone(&keys), ours.finish()?, theirs.finish()?];
    let values = lambda.evaluate(batch, &of.into(), parameters)?;
    ends.map(keys, values)
}
