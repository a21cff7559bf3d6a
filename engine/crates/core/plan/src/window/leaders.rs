//! Rows that are not among the first of their group, left out before they are sorted.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
    fmt,
    sync::Arc,
};

use arrow::{
    array::BooleanArray,
    compute::filter_record_batch,
    record_batch::RecordBatch,
    row::{OwnedRow, Row},
};
use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext,
    memory_pool::{MemoryConsumer, MemoryReservation},
};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use super::{KeyRows, Keys, running::SoFar};
use crate::operator::operator_basics;

/// After so many rows it is asked whether leaving some out was worth the looking.
const TRIAL: usize = 1 << 16;

/// So many keys are kept of a group at most: no rows are left out for a higher limit.
const MOST_KEPT: usize = 1 << 10;

/// Of the child's rows, in any order, those that the rows before them leave a rank of at most
/// `limit`: all that have such a rank at last, and some more. [`super::GroupLimitExec`] takes those
/// out when the rows are sorted, of which there are fewer now.
#[derive(Debug)]
pub(crate) struct LeadersExec {
    child: Arc<dyn ExecutionPlan>,
    keys: Keys,
    rank: SoFar,
    limit: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LeadersExec {
    /// Whether rows can be told apart before they are sorted, by few keys of each group.
    pub(super) fn can(keys: &Keys, limit: usize) -> bool {
        !keys.order.is_empty() && limit <= MOST_KEPT
    }

    pub(super) fn new(
        child: Arc<dyn ExecutionPlan>,
        keys: Keys,
        rank: SoFar,
        limit: usize,
    ) -> Self {
        let properties = Arc::clone(child.properties());
        Self {
            child,
            keys,
            rank,
            limit,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for LeadersExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "LeadersExec: {:?} <= {}", self.rank, self.limit)
    }
}

impl ExecutionPlan for LeadersExec {
    operator_basics!(one child, |plan, child| Self::new(
                child,
                plan.keys.clone(),
                plan.rank,
                plan.limit,
            ), else "leaders of groups have one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.child.schema();
        let held = MemoryConsumer::new(format!("LeadersExec[{partition}]"))
            .register(context.memory_pool());
        let mut leaders = Some(Leaders {
            partition: KeyRows::some(&self.keys.partition, &schema)?,
            order: KeyRows::new(&self.keys.order, &schema)?,
            rank: self.rank,
            limit: self.limit,
            groups: HashMap::default(),
            held,
            seen: 0,
            kept: 0,
        });
        let rows = self.child.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let Some(known) = leaders.as_mut() else {
                return Ok(batch);
            };
            let timer = metrics.elapsed_compute().timer();
            let kept = known.keep(&batch)?;
            if !known.goes_on() {
                leaders = None;
            }
            let batch = filter_record_batch(&batch, &BooleanArray::from(kept))?;
            timer.done();
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The least keys of each group so far.
struct Leaders {
    partition: Option<KeyRows>,
    order: KeyRows,
    rank: SoFar,
    limit: usize,
    groups: HashMap<Box<[u8]>, BinaryHeap<OwnedRow>>,
    held: MemoryReservation,
    seen: usize,
    kept: usize,
}

impl Leaders {
    /// Whether rows stay, by their place in the batch.
    fn keep(&mut self, batch: &RecordBatch) -> Result<Vec<bool>> {
        let partition = self.partition.as_ref().map(|keys| keys.of(batch));
        let (partition, order) = (partition.transpose()?, self.order.of(batch)?);
        let mut kept = Vec::with_capacity(batch.num_rows());
        for (index, key) in order.iter().enumerate() {
            let group = partition.as_ref().map(|rows| rows.row(index));
            kept.push(self.leads(group.as_ref().map_or(&[], AsRef::as_ref), key));
        }
        self.seen = self.seen.saturating_add(kept.len());
        self.kept = self
            .kept
            .saturating_add(kept.iter().filter(|kept| **kept).count());
        Ok(kept)
    }

    /// Whether a row is among the first of its group so far. Peers of the last of them are, too.
    fn leads(&mut self, group: &[u8], key: Row<'_>) -> bool {
        let Some(least) = self.groups.get_mut(group) else {
            // A group for which there is no room has all of its rows.
            let bytes = group
                .len()
                .saturating_add(key.as_ref().len())
                .saturating_add(128);
            if self.held.try_grow(bytes).is_ok() {
                let least = BinaryHeap::from([key.owned()]);
                self.groups.insert(group.into(), least);
            }
            return true;
        };
        let full = least.len() >= self.limit;
        match least.peek().map(|last| key.cmp(&last.row())) {
            Some(Ordering::Greater) if full => return false,
            Some(Ordering::Equal) if full => return true,
            _ => {}
        }
        // Ranks without gaps count peers once.
        if self.rank == SoFar::DenseRank && least.iter().any(|known| known.row() == key) {
            return true;
        }
        if full {
            least.pop();
        } else if self
            .held
            .try_grow(key.as_ref().len().saturating_add(48))
            .is_err()
        {
            // The keys that are known are then too few for any row to be left out.
            return true;
        }
        least.push(key.owned());
        true
    }

    /// Whether rows were left out that repay the looking.
    fn goes_on(&self) -> bool {
        self.seen < TRIAL || self.kept < self.seen - self.seen / 4
    }
}
