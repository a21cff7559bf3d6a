//! Keys that leave of a scan only those rows that have one of them.

mod members;

use std::{
    cmp::Ordering,
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::{SortOptions, sort_to_indices},
    datatypes::DataType,
};
use datafusion_common::{Result, ScalarValue};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion_physical_expr::expressions::{Column, Literal, lit};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use members::{AmongKeys, Keys, MOST_KEYS, Members, is_number, within};

/// The least and the greatest key; none where there is none.
type Range = Option<(ScalarValue, ScalarValue)>;

/// What is known of the keys of a join's one side, once it is.
#[derive(Debug, Default)]
pub struct KeyBounds(OnceLock<(Range, Option<Arc<Members>>)>);

impl KeyBounds {
    /// Of more rows than this there are bounds alone.
    pub const MOST: usize = MOST_KEYS;

    /// Of a column of rows that are all here; none where they are too many, or of a type, to be
    /// of use.
    pub fn of(
        rows: impl IntoIterator<Item = Result<RecordBatch>>,
        column: usize,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Option<Self>> {
        let mut seen = Seen::of(memory);
        for batch in rows {
            let batch = batch?;
            let Some(values) = batch.columns().get(column) else {
                return Ok(None);
            };
            if !has_bounds(values.data_type()) {
                return Ok(None);
            }
            seen.note(values)?;
        }
        let known = Self::default();
        known.settle(seen);
        Ok(Some(known))
    }

    /// What was seen is all; the first word counts.
    pub(crate) fn settle(&self, seen: Seen) {
        let members = seen.keys.members().map(Arc::new);
        let _ = self.0.set((seen.range, members));
    }

    /// That a column of such a type may be one of them, and about which share of its rows is, if it
    /// is known.
    pub(crate) fn condition(
        &self,
        column: &Column,
        kind: &DataType,
    ) -> Option<(Arc<dyn PhysicalExpr>, f64)> {
        let (range, members) = self.0.get()?;
        let Some((least, greatest)) = range else {
            return Some((lit(false), 0.0));
        };
        if least.data_type() != *kind {
            return None;
        }
        let literal = |value: &ScalarValue| -> Arc<dyn PhysicalExpr> {
            Arc::new(Literal::new(value.clone()))
        };
        let (least, greatest) = (literal(least), literal(greatest));
        let value: Arc<dyn PhysicalExpr> = Arc::new(column.clone());
        Some(match members {
            None => (within(&value, &least, &greatest), 1.0),
            Some(members) => {
                let among = AmongKeys {
                    value,
                    bounds: (least, greatest),
                    members: Arc::clone(members),
                };
                (Arc::new(among), members.share())
            }
        })
    }
}

/// Types whose order is that of Parquet's statistics, and in which equal values are the same one.
pub(crate) fn has_bounds(kind: &DataType) -> bool {
    is_number(kind) || matches!(kind, DataType::Decimal128(..) | DataType::Utf8)
}

/// What was seen of a key so far.
pub(crate) struct Seen {
    range: Range,
    keys: Keys,
}

impl Seen {
    pub(crate) fn of(memory: &Arc<dyn MemoryPool>) -> Self {
        Self {
            range: None,
            keys: Keys::new(MemoryConsumer::new("keys of a join").register(memory)),
        }
    }

    pub(crate) fn note(&mut self, values: &ArrayRef) -> Result<()> {
        self.keys.push(values)?;
        if let (Some(least), Some(greatest)) = (end(values, false)?, end(values, true)?) {
            self.range = Some(match self.range.take() {
                None => (least, greatest),
                Some((before, after)) => (
                    if less(&least, &before) { least } else { before },
                    if less(&after, &greatest) {
                        greatest
                    } else {
                        after
                    },
                ),
            });
        }
        Ok(())
    }
}

/// The value that comes first; none of NULLs alone, which match nothing.
fn end(values: &ArrayRef, descending: bool) -> Result<Option<ScalarValue>> {
    let order = SortOptions {
        descending,
        nulls_first: false,
    };
    let first = sort_to_indices(values, Some(order), Some(1))?;
    let at = first
        .values()
        .first()
        .and_then(|at| usize::try_from(*at).ok());
    match at.filter(|at| values.is_valid(*at)) {
        Some(at) => ScalarValue::try_from_array(values, at).map(Some),
        None => Ok(None),
    }
}

fn less(a: &ScalarValue, b: &ScalarValue) -> bool {
    a.partial_cmp(b) == Some(Ordering::Less)
}
