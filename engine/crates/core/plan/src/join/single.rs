//! Scalar subqueries that may find several rows for one: a left outer join in which left rows are
//! numbered, and an error once a number comes for the second time.
//!
//! The numbers that have come are kept as bits, so nothing depends on the order in which a join
//! gives its rows.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type},
};
use coffer_expr::SparkError;
use datafusion_common::{Result, internal_datafusion_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext,
    memory_pool::{MemoryConsumer, MemoryReservation},
};
use datafusion_physical_expr::EquivalenceProperties;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    joins::utils::JoinFilter,
    metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
    stream::RecordBatchStreamAdapter,
};
use futures::StreamExt;

use super::{Output, Sides, Spec, of_strategy};
use crate::{
    Unsupported,
    expressions::Expressions,
    operator::{operator_basics, streamed},
};

pub(super) fn plan(
    spec: &Spec,
    sides: Sides,
    filter: Option<JoinFilter>,
    output: &Output,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let malformed = Unsupported::Malformed {
        node: spec.node,
        what: "a join for single rows whose sides do not both come out",
    };
    let Some((left, right)) = output.both else {
        return Err(malformed);
    };
    let numbered: Arc<dyn ExecutionPlan> = Arc::new(NumberedExec::new(sides.left));
    // The numbers stand behind the left columns, and come out last.
    let columns = output.columns.iter();
    let columns = columns.map(|column| column + usize::from(*column >= left));
    let with_numbers = Output {
        both: Some((left + 1, right)),
        columns: columns.chain([left]).collect(),
        whole: false,
    };
    let sides = Sides {
        left: Arc::clone(&numbered),
        right: sides.right,
    };
    let joined = of_strategy(spec, sides, filter, &with_numbers, expressions)?;
    let top = joined.first().map(Arc::clone).ok_or(malformed)?;
    let mut made: Vec<Arc<dyn ExecutionPlan>> = vec![Arc::new(SingleExec::new(top))];
    made.extend(joined);
    made.push(numbered);
    Ok(made)
}

fn properties(of: &Arc<dyn ExecutionPlan>, schema: &SchemaRef) -> Arc<PlanProperties> {
    streamed(
        EquivalenceProperties::new(Arc::clone(schema)),
        of.properties().output_partitioning().clone(),
    )
}

/// The child's rows, with their numbers within the partition behind the columns.
#[derive(Debug)]
struct NumberedExec {
    child: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl NumberedExec {
    fn new(child: Arc<dyn ExecutionPlan>) -> Self {
        let mut fields = child.schema().fields().to_vec();
        fields.push(Arc::new(Field::new("number", DataType::UInt64, false)));
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        Self {
            properties: properties(&child, &schema),
            child,
            schema,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for NumberedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "NumberedExec")
    }
}

impl ExecutionPlan for NumberedExec {
    operator_basics!(one child, |_plan, child| Self::new(child), else "numbers are of one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = Arc::clone(&self.schema);
        let mut next = 0u64;
        let rows = self.child.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let end = next + batch.num_rows() as u64;
            let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(next..end));
            next = end;
            let mut columns = batch.columns().to_vec();
            columns.push(numbers);
            metrics.record_output(batch.num_rows());
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            rows,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The child's rows without their last column, whose numbers must differ.
#[derive(Debug)]
struct SingleExec {
    child: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SingleExec {
    fn new(child: Arc<dyn ExecutionPlan>) -> Self {
        let mut fields = child.schema().fields().to_vec();
        fields.pop();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        Self {
            properties: properties(&child, &schema),
            child,
            schema,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for SingleExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "SingleExec")
    }
}

impl ExecutionPlan for SingleExec {
    operator_basics!(
        one child,
        |_plan, child| Self::new(child),
        else "single rows are of one join"
    );

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = Arc::clone(&self.schema);
        let mut seen = Seen {
            bits: vec![],
            memory: MemoryConsumer::new(format!("SingleJoin[{partition}]"))
                .register(context.memory_pool()),
        };
        let rows = self.child.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let rows = batch.num_rows();
            let mut columns = batch.columns().to_vec();
            let numbers = columns.pop();
            let numbers = numbers
                .as_ref()
                .and_then(|numbers| numbers.as_primitive_opt::<UInt64Type>())
                .ok_or_else(|| internal_datafusion_err!("rows of a join without their numbers"))?;
            for number in numbers.values() {
                if !seen.first(*number)? {
                    return Err(too_many_rows().into());
                }
            }
            metrics.record_output(rows);
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let schema = Arc::clone(&schema);
            Ok(RecordBatch::try_new_with_options(
                schema, columns, &options,
            )?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            rows,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

fn too_many_rows() -> SparkError {
    SparkError {
        class: "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        message: "More than one row returned by a subquery used as an expression.".to_owned(),
    }
}

/// The numbers that have come, as bits.
struct Seen {
    bits: Vec<u64>,
    memory: MemoryReservation,
}

impl Seen {
    /// Whether a number comes for the first time.
    fn first(&mut self, number: u64) -> Result<bool> {
        let word = usize::try_from(number / 64)
            .map_err(|_| internal_datafusion_err!("more left rows than an address space holds"))?;
        if word >= self.bits.len() {
            let words = (word + 1).next_power_of_two();
            self.memory.try_resize(words * size_of::<u64>())?;
            self.bits.resize(words, 0);
        }
        let Some(bits) = self.bits.get_mut(word) else {
            return Ok(false);
        };
        let bit = 1u64 << (number % 64);
        let first = *bits & bit == 0;
        *bits |= bit;
        Ok(first)
    }
}
