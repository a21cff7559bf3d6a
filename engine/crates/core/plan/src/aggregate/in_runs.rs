//! Partial aggregation of rows whose groups lie together, as the lines of an order do: without a
//! table of all groups.
//!
//! DataFusion's partial aggregation of ordered rows hands on each group as soon as another one
//! begins. For that the rows need not be ordered by their keys: what it hands on is partial, and a
//! group that comes again is merged with itself later. So it will do wherever rows of one group
//! mostly follow each other, which the first rows tell.

use std::{collections::HashSet, fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::partition,
    datatypes::DataType,
};
use datafusion_common::{
    Result,
    hash_utils::{RandomState, create_hashes},
    internal_datafusion_err,
    tree_node::TreeNodeRecursion,
};
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext, memory_pool::UnboundedMemoryPool,
    runtime_env::RuntimeEnv,
};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalSortExpr};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
    aggregates::AggregateExec, metrics::MetricsSet, stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use crate::{
    coalesce::coalesced,
    operator::{operator_basics, streamed},
};

/// Rows that are looked at.
const ROWS: usize = 1 << 16;

/// Their bytes, at most; looked at are less rows then.
const BYTES: usize = 8 << 20;

/// Of less rows nothing can be told.
const LEAST_ROWS: usize = 1 << 14;

/// Of less groups than that a table lies in the nearest cache.
const LEAST_RUNS: usize = 1 << 10;

/// Partial aggregation, as the first rows want it.
#[derive(Debug)]
pub(super) struct PartialExec {
    child: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    by_table: Arc<Handed>,
    in_runs: Arc<Handed>,
    properties: Arc<PlanProperties>,
}

impl PartialExec {
    /// What `aggregate` does, or one of two ways of it; `buffers`: the types of what its calls keep
    /// of a group.
    pub(super) fn of<'a>(
        aggregate: Arc<AggregateExec>,
        mut buffers: impl Iterator<Item = &'a DataType>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // A group's buffers must be small: memory is not asked for them (`unbounded`).
        let is_small = |kind: &DataType| kind.is_primitive() || *kind == DataType::Boolean;
        let keys = aggregate.group_expr().expr().iter();
        let keys: Vec<_> = keys.map(|(key, _)| Arc::clone(key)).collect();
        if keys.is_empty() || !buffers.all(is_small) {
            return Ok(aggregate);
        }
        let child = Arc::clone(aggregate.input());
        let in_runs = Handed::to(&aggregate, &keys)?;
        if *in_runs.aggregate.input_order_mode() != InputOrderMode::Sorted {
            return Ok(aggregate);
        }
        Ok(Arc::new(Self {
            by_table: Arc::new(Handed::to(&aggregate, &[])?),
            in_runs: Arc::new(in_runs),
            properties: Arc::clone(aggregate.properties()),
            child,
            keys,
        }))
    }
}

impl DisplayAs for PartialExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PartialExec: keys={}", self.keys.len())
    }
}

impl ExecutionPlan for PartialExec {
    operator_basics!(leaf);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut rows = self.child.execute(partition, Arc::clone(&context))?;
        let (by_table, in_runs) = (Arc::clone(&self.by_table), Arc::clone(&self.in_runs));
        let keys = self.keys.clone();
        let rows = async move {
            let mut first = Vec::new();
            let (mut count, mut bytes) = (0, 0);
            while count < ROWS && bytes < BYTES {
                let Some(batch) = rows.try_next().await? else {
                    break;
                };
                count += batch.num_rows();
                bytes += batch.get_array_memory_size();
                first.push(batch);
            }
            let ways = match lie_in_runs(&keys, &first)? {
                true => in_runs,
                false => by_table,
            };
            let schema = rows.schema();
            let rows = stream::iter(first.into_iter().map(Ok)).chain(rows);
            let rows = RecordBatchStreamAdapter::new(schema, rows);
            ways.aggregate(Box::pin(rows), partition, context)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream::once(rows).try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut both = MetricsSet::new();
        for way in [&self.by_table, &self.in_runs] {
            for metric in way.aggregate.metrics().unwrap_or_default().iter() {
                both.push(Arc::clone(metric));
            }
        }
        Some(both)
    }
}

/// Whether rows of a group mostly follow each other: one run of it, of two rows at least.
fn lie_in_runs(keys: &[Arc<dyn PhysicalExpr>], batches: &[RecordBatch]) -> Result<bool> {
    let (mut rows, mut runs) = (0, 0);
    let mut groups = HashSet::<u64>::new();
    let random = RandomState::with_seed(0);
    for batch in batches {
        let values = keys
            .iter()
            .map(|key| key.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<ArrayRef>>>()?;
        if values.iter().any(|values| values.data_type().is_nested()) {
            return Ok(false);
        }
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(&values, &random, &mut hashes)?;
        let ranges = partition(&values)?.ranges();
        rows += batch.num_rows();
        runs += ranges.len();
        groups.extend(ranges.iter().filter_map(|range| hashes.get(range.start)));
    }
    Ok(rows >= LEAST_ROWS
        && runs >= LEAST_RUNS
        && runs <= rows / 2
        && groups.len() >= runs - runs / 10)
}

/// An aggregation over rows that are handed to it.
#[derive(Debug)]
struct Handed {
    aggregate: AggregateExec,
    rows: Arc<Rows>,
    /// Held while rows are handed over.
    handing: Mutex<()>,
}

impl Handed {
    /// As `aggregate`, over rows that are said to be ordered by `order`.
    fn to(aggregate: &AggregateExec, order: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        let input = aggregate.input();
        let mut equivalence = EquivalenceProperties::new(input.schema());
        let order = order
            .iter()
            .map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
        equivalence.add_ordering(order);
        let rows = Arc::new(Rows {
            next: Mutex::default(),
            properties: streamed(equivalence, input.properties().partitioning.clone()),
        });
        Ok(Self {
            aggregate: AggregateExec::try_new(
                *aggregate.mode(),
                aggregate.group_expr().clone(),
                aggregate.aggr_expr().to_vec(),
                aggregate.filter_expr().to_vec(),
                Arc::clone(&rows) as Arc<dyn ExecutionPlan>,
                aggregate.input_schema(),
            )?,
            rows,
            handing: Mutex::default(),
        })
    }

    fn aggregate(
        &self,
        rows: SendableRecordBatchStream,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let in_runs = *self.aggregate.input_order_mode() == InputOrderMode::Sorted;
        let context = match in_runs {
            true => unbounded(&context),
            false => context,
        };
        let found = {
            let _handing = self.handing.lock();
            *self.rows.next.lock() = Some(rows);
            self.aggregate.execute(partition, context)?
        };
        if !in_runs {
            return Ok(found);
        }
        let schema = found.schema();
        let found = coalesced(Arc::clone(&schema), found);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, found)))
    }
}

/// The same without a limit of memory. In runs there are never more groups than rows of a batch and
/// one, with small buffers, but where there is no memory the operator would fail instead of handing
/// them on.
fn unbounded(context: &TaskContext) -> Arc<TaskContext> {
    let runtime = RuntimeEnv {
        memory_pool: Arc::new(UnboundedMemoryPool::default()),
        ..context.runtime_env().as_ref().clone()
    };
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        Arc::new(runtime),
    ))
}

/// Leaf that gives the rows that lie ready.
struct Rows {
    next: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Rows")
    }
}

impl DisplayAs for Rows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Rows")
    }
}

impl ExecutionPlan for Rows {
    operator_basics!(leaf);

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.next.lock().take();
        rows.ok_or_else(|| internal_datafusion_err!("no rows were handed over"))
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::Int64Array,
        datatypes::{Field, Schema},
    };
    use datafusion_physical_expr::expressions::col;

    use super::*;

    fn told(rows: i64, key: impl Fn(i64) -> i64) -> bool {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let keys = Arc::new(Int64Array::from_iter_values((0..rows).map(key)));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![keys]).unwrap();
        let halves = [0, rows as usize / 2].map(|at| batch.slice(at, rows as usize / 2));
        lie_in_runs(&[col("k", &schema).unwrap()], &halves).unwrap()
    }

    #[test]
    fn runs_are_told_from_what_only_looks_so() {
        assert!(told(40_000, |row| row / 4 * 7919 % 10_007));
        assert!(!told(40_000, |row| row), "each row its own group");
        assert!(!told(40_000, |row| row / 4 % 5_000), "each group twice");
        assert!(
            !told(40_000, |row| row / 100),
            "a table of four hundred is small"
        );
        assert!(!told(8_000, |row| row / 4), "too few rows to tell");
    }
}
