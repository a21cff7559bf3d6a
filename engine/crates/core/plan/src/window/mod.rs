//! Window functions: a column for each call, computed over the rows of a window partition.
//!
//! Rows come sorted, a window partition's one after the other. If all calls are ranks of the rows
//! so far, rows go out as they come ([`running`]). Else whole window partitions are put together to
//! chunks of at least a batch, or by way of the disk where memory does not hold one ([`spilled`]),
//! and each call makes a column of a chunk:
//! * what is asked of the order alone, [`ranking`];
//! * a value of another row, [`picks`];
//! * an aggregate of the rows of each row's [`frame`], by the very functions that aggregates use
//!   ([`crate::aggregate::OverFrames`]), so that they are exact here as there.
//!
//! DataFusion has such operators too. They know neither Spark's bounds of RANGE frames (computed as
//! Spark's expressions, which may fail or wrap) nor its functions over frames.

mod calls;
mod chunk;
mod exec;
mod frame;
mod group_limit;
mod leaders;
mod picks;
mod ranking;
mod running;
mod spilled;

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    compute::SortOptions,
    datatypes::{DataType, SchemaRef},
    record_batch::RecordBatch,
    row::{RowConverter, Rows, SortField},
};
use coffer_protocol::plan::{Expr, SortKey, Window, WindowGroupLimit, window};
use datafusion_common::Result;
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion_physical_plan::{ExecutionPlan, sorts::sort::SortExec};

use crate::{Unsupported, expressions::Expressions, order};
use calls::Calls;
use exec::WindowExec;
use group_limit::{Come, GroupLimitExec};
use leaders::Leaders;
use running::SoFar;

/// The operators of a Window node, the top one first.
pub(crate) fn plan(
    node: u32,
    window: &Window,
    input: Arc<dyn ExecutionPlan>,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let sorted = Sorted::new(node, &window.partition, &window.order, input, expressions)?;
    let calls = Calls::read(node, window, &sorted, expressions)?;
    let top = WindowExec::new(Arc::clone(&sorted.input), sorted.keys(), calls);
    Ok(sorted.below(Arc::new(top)))
}

/// The operators of a WindowGroupLimit node, the top one first.
pub(crate) fn group_limit(
    node: u32,
    limit: &WindowGroupLimit,
    input: Arc<dyn ExecutionPlan>,
    expressions: &Expressions,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let (rank, most) = limit_of(node, limit)?;
    let sorted = Sorted::new(node, &limit.partition, &limit.order, input, expressions)?;
    let input = Arc::clone(&sorted.input);
    let top = GroupLimitExec::new(input, Come::Sorted, sorted.keys(), rank, most);
    Ok(sorted.below(Arc::new(top)))
}

/// The operator that goes below the sort of a WindowGroupLimit node, over the sort's `input`: none
/// where it could leave no row out.
pub(crate) fn leaders(
    node: u32,
    limit: &WindowGroupLimit,
    input: Arc<dyn ExecutionPlan>,
    expressions: &Expressions,
) -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
    let (rank, most) = limit_of(node, limit)?;
    let keys = Keys::read(
        node,
        &limit.partition,
        &limit.order,
        &input.schema(),
        expressions,
    )?;
    if !Leaders::can(&keys, most) {
        return Ok(input);
    }
    let limit = GroupLimitExec::new(input, Come::Unsorted, keys, rank, most);
    Ok(Arc::new(limit))
}

fn limit_of(node: u32, limit: &WindowGroupLimit) -> Result<(SoFar, usize), Unsupported> {
    let malformed = |what| Unsupported::Malformed { node, what };
    let most = usize::try_from(limit.limit)
        .ok()
        .filter(|most| *most > 0)
        .ok_or(malformed("a limit of no rows of a group"))?;
    let rank = window::Rank::try_from(limit.rank)
        .ok()
        .and_then(SoFar::of_rows_so_far)
        .ok_or(malformed("a limit by what is no rank of rows"))?;
    Ok((rank, most))
}

/// The rows in the order that a window wants, and the keys of that order.
struct Sorted {
    input: Arc<dyn ExecutionPlan>,
    /// The sort, if one was needed.
    sort: Option<Arc<dyn ExecutionPlan>>,
    keys: Keys,
}

impl Sorted {
    fn new(
        node: u32,
        partition: &[Expr],
        order: &[SortKey],
        input: Arc<dyn ExecutionPlan>,
        expressions: &Expressions,
    ) -> Result<Self, Unsupported> {
        let operators = |source| Unsupported::Operators { node, source };
        let keys = Keys::read(node, partition, order, &input.schema(), expressions)?;
        let all = || keys.partition.iter().chain(keys.order.iter()).cloned();
        let sorted = input
            .properties()
            .equivalence_properties()
            .ordering_satisfy(all())
            .map_err(operators)?;
        let sort: Option<Arc<dyn ExecutionPlan>> = match LexOrdering::new(all()) {
            Some(ordering) if !sorted => Some(Arc::new(
                SortExec::new(ordering, Arc::clone(&input)).with_preserve_partitioning(true),
            )),
            _ => None,
        };
        Ok(Self {
            input: sort.clone().unwrap_or(input),
            sort,
            keys,
        })
    }

    fn keys(&self) -> Keys {
        self.keys.clone()
    }

    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn below(self, top: Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
        [Some(top), self.sort].into_iter().flatten().collect()
    }
}

/// What rows are sorted by.
#[derive(Debug, Clone)]
struct Keys {
    partition: Arc<[PhysicalSortExpr]>,
    order: Arc<[PhysicalSortExpr]>,
}

impl Keys {
    fn read(
        node: u32,
        partition: &[Expr],
        order: &[SortKey],
        schema: &SchemaRef,
        expressions: &Expressions,
    ) -> Result<Self, Unsupported> {
        // As Spark sorts: ascending, NULLs first.
        let options = SortOptions::default();
        let partition = partition.iter().map(|key| {
            let expr = expressions.order_key(node, key, schema)?;
            Ok(PhysicalSortExpr { expr, options })
        });
        Ok(Self {
            partition: partition.collect::<Result<_, Unsupported>>()?,
            order: match order.is_empty() {
                true => Arc::default(),
                false => order::ordering(node, order, schema, expressions)?
                    .into_iter()
                    .collect(),
            },
        })
    }
}

/// Keys as bytes that compare as Spark's values do.
struct KeyRows {
    keys: Arc<[PhysicalSortExpr]>,
    types: Vec<DataType>,
    converter: RowConverter,
}

impl KeyRows {
    fn new(keys: &Arc<[PhysicalSortExpr]>, schema: &SchemaRef) -> Result<Self> {
        let types = keys
            .iter()
            .map(|key| key.expr.data_type(schema))
            .collect::<Result<Vec<_>>>()?;
        let fields = keys
            .iter()
            .zip(&types)
            .map(|(key, data_type)| SortField::new_with_options(data_type.clone(), key.options))
            .collect();
        Ok(Self {
            keys: Arc::clone(keys),
            types,
            converter: RowConverter::new(fields)?,
        })
    }

    /// The type of the first key.
    fn first_type(&self) -> Option<&DataType> {
        self.types.first()
    }

    /// None if there are no keys.
    fn some(keys: &Arc<[PhysicalSortExpr]>, schema: &SchemaRef) -> Result<Option<Self>> {
        match keys.is_empty() {
            true => Ok(None),
            false => Self::new(keys, schema).map(Some),
        }
    }

    fn of(&self, batch: &RecordBatch) -> Result<Rows> {
        let columns = self
            .keys
            .iter()
            .map(|key| key.expr.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<ArrayRef>>>()?;
        self.rows(&columns)
    }

    fn rows(&self, columns: &[ArrayRef]) -> Result<Rows> {
        Ok(self.converter.convert_columns(columns)?)
    }
}

/// A count of rows as Spark's INT.
fn int(count: usize) -> Result<i32> {
    i32::try_from(count).map_err(|_| {
        datafusion_common::DataFusionError::External(Box::new(coffer_expr::SparkError {
            class: "ARITHMETIC_OVERFLOW",
            message: "integer overflow.".to_owned(),
        }))
    })
}
