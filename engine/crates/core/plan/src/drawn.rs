//! Drawn: a sample of each partition's rows, by their places in it.
//!
//! Without replacement the draw is Spark's, number by number: the same rows in the same order give
//! the same sample. With replacement it has Spark's distribution, not its numbers.

use std::{fmt, sync::Arc};

use arrow::{array::UInt32Array, compute::take_record_batch};
use coffer_protocol::plan::Drawn;
use datafusion_common::{Result, internal_datafusion_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use crate::{Unsupported, operator::operator_basics, random::XorShift, schema::counted};

/// Which rows are taken, and how often.
#[derive(Debug, Clone, Copy)]
struct Draw {
    lower: f64,
    upper: f64,
    replacement: bool,
    seed: i64,
}

#[derive(Debug)]
pub(crate) struct DrawnExec {
    child: Arc<dyn ExecutionPlan>,
    draw: Draw,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DrawnExec {
    pub(crate) fn new(
        node: u32,
        drawn: &Drawn,
        child: Arc<dyn ExecutionPlan>,
    ) -> Result<Self, Unsupported> {
        let most = if drawn.replacement { 1024.0 } else { 1.0 };
        if !(drawn.lower >= 0.0 && drawn.lower <= drawn.upper && drawn.upper <= most) {
            return Err(Unsupported::Malformed {
                node,
                what: "a sample of no such share",
            });
        }
        let draw = Draw {
            lower: drawn.lower,
            upper: drawn.upper,
            replacement: drawn.replacement,
            seed: drawn.seed,
        };
        Ok(Self::of(child, draw))
    }

    fn of(child: Arc<dyn ExecutionPlan>, draw: Draw) -> Self {
        let properties = Arc::clone(child.properties());
        Self {
            child,
            draw,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for DrawnExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "DrawnExec: {} to {}", self.draw.lower, self.draw.upper)
    }
}

impl ExecutionPlan for DrawnExec {
    operator_basics!(
        one child,
        |plan, child| Self::of(child, plan.draw),
        else "a sample has one child"
    );

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.child.execute(partition, context)?;
        let schema = input.schema();
        let place = i64::try_from(partition)
            .map_err(|_| internal_datafusion_err!("a partition beyond 2^63"))?;
        let mut random = XorShift::new(self.draw.seed.wrapping_add(place));
        let draw = self.draw;
        let drawn = input.map(move |batch| {
            let batch = batch?;
            let mut rows = Vec::new();
            for row in 0..batch.num_rows() {
                let row = u32::try_from(row)
                    .map_err(|_| internal_datafusion_err!("a batch of 2^32 rows"))?;
                rows.extend(std::iter::repeat_n(row, draw.times(&mut random)));
            }
            Ok(take_record_batch(&batch, &UInt32Array::from(rows))?)
        });
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&schema), drawn);
        Ok(counted(schema, Box::pin(stream), metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl Draw {
    /// How often the next row is taken.
    fn times(&self, random: &mut XorShift) -> usize {
        if !self.replacement {
            let drawn = random.double();
            return usize::from(drawn >= self.lower && drawn < self.upper);
        }
        // Knuth, The Art of Computer Programming, volume 2, 3.4.1: a Poisson variate. In parts of a
        // mean that a double's exponent holds.
        let (mut left, mut times) = (self.upper - self.lower, 0);
        while left > 0.0 {
            let mean = left.min(16.0);
            left -= mean;
            let (bound, mut product) = ((-mean).exp(), random.double());
            while product > bound {
                times += 1;
                product *= random.double();
            }
        }
        times
    }
}
