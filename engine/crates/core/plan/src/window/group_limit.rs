//! The first rows of each window partition, before a window ranks them: row by row, nothing is
//! held.

use std::{fmt, sync::Arc};

use arrow::{
    array::BooleanArray, compute::filter_record_batch, record_batch::RecordBatch, row::OwnedRow,
};
use coffer_protocol::plan::window;
use datafusion_common::{Result, internal_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use super::{KeyRows, Keys};
use crate::operator::operator_basics;

/// By what rows are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    RowNumber,
    Rank,
    DenseRank,
}

impl Rank {
    pub(super) fn read(rank: i32) -> Option<Self> {
        Some(match window::Rank::try_from(rank).ok()? {
            window::Rank::RowNumber => Self::RowNumber,
            window::Rank::Rank => Self::Rank,
            window::Rank::DenseRank => Self::DenseRank,
            window::Rank::PercentRank | window::Rank::CumeDist | window::Rank::Ntile => {
                return None;
            }
        })
    }
}

/// Of the child's rows, which come sorted by the keys, those whose rank is at most `limit`.
#[derive(Debug)]
pub(super) struct GroupLimitExec {
    child: Arc<dyn ExecutionPlan>,
    keys: Keys,
    rank: Rank,
    limit: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupLimitExec {
    pub(super) fn new(child: Arc<dyn ExecutionPlan>, keys: Keys, rank: Rank, limit: usize) -> Self {
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

impl DisplayAs for GroupLimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "GroupLimitExec: {:?} <= {}", self.rank, self.limit)
    }
}

impl ExecutionPlan for GroupLimitExec {
    operator_basics!(any);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.child]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(child), true) => Ok(Arc::new(Self::new(
                child,
                self.keys.clone(),
                self.rank,
                self.limit,
            ))),
            _ => internal_err!("a limit of groups has one child"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.child.schema();
        let key_rows = |keys: &Arc<[_]>| match keys.is_empty() {
            true => Ok(None),
            false => KeyRows::new(keys, &schema).map(Some),
        };
        let mut ranked = Ranked {
            partition: key_rows(&self.keys.partition)?,
            order: key_rows(&self.keys.order)?,
            rank: self.rank,
            limit: self.limit,
            last: None,
            rows: 0,
            groups: 0,
            before: 0,
        };
        let input = self.child.execute(partition, context)?;
        let rows = input.map(move |batch| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let batch = ranked.first(&batch)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Where the run is in a window partition.
struct Ranked {
    partition: Option<KeyRows>,
    order: Option<KeyRows>,
    rank: Rank,
    limit: usize,
    /// The keys of the last row.
    last: Option<(Option<OwnedRow>, Option<OwnedRow>)>,
    /// Rows of the window partition so far.
    rows: usize,
    /// Groups of peers so far.
    groups: usize,
    /// Rows before this group of peers.
    before: usize,
}

impl Ranked {
    fn first(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let keys = |keys: &Option<KeyRows>| keys.as_ref().map(|keys| keys.of(batch)).transpose();
        let (partition, order) = (keys(&self.partition)?, keys(&self.order)?);
        let last = self.last.take();
        let mut before = last.as_ref().map(|(partition, order)| {
            (
                partition.as_ref().map(OwnedRow::row),
                order.as_ref().map(OwnedRow::row),
            )
        });
        let mut kept = Vec::with_capacity(rows);
        for row in 0..rows {
            let key = (
                partition.as_ref().map(|keys| keys.row(row)),
                order.as_ref().map(|keys| keys.row(row)),
            );
            match before {
                Some((partition, order)) if partition == key.0 => {
                    if order != key.1 {
                        (self.groups, self.before) = (self.groups + 1, self.rows);
                    }
                    self.rows += 1;
                }
                _ => (self.rows, self.groups, self.before) = (1, 1, 0),
            }
            let rank = match self.rank {
                Rank::RowNumber => self.rows,
                Rank::Rank => self.before + 1,
                Rank::DenseRank => self.groups,
            };
            kept.push(rank <= self.limit);
            before = Some(key);
        }
        self.last = match before {
            _ if rows == 0 => last,
            before => before.map(|(partition, order)| {
                (
                    partition.map(|row| row.owned()),
                    order.map(|row| row.owned()),
                )
            }),
        };
        Ok(filter_record_batch(batch, &BooleanArray::from(kept))?)
    }
}
