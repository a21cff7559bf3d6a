//! Bounds for range partitioning: each task samples its keys, and who holds all samples picks the
//! bounds.
//!
//! The sampling is Spark's (RangePartitioner, SamplingUtils) in shape: a reservoir of fixed size in
//! each partition, each sampled key weighing as many rows as it stands for. It draws from a seed of
//! the fragment and the partition's number, so that a repeated task samples the same rows.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, Field, Float64Type, Schema, SchemaRef},
    row::{OwnedRow, RowConverter, SortField},
};
use coffer_expr::CompileContext;
use coffer_protocol::plan::{SortKey, sink, values::Row};
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};
use datafusion_physical_expr::PhysicalSortExpr;

use crate::{Unsupported, expressions::Expressions, partitioner::range::keys_of, values::literal};

/// A reservoir of one task's keys.
pub struct Sampler {
    keys: Vec<PhysicalSortExpr>,
    converter: RowConverter,
    schema: SchemaRef,
    size: usize,
    random: fastrand::Rng,
    seen: u64,
    rows: Vec<OwnedRow>,
}

impl Sampler {
    /// A sampler of rows of `schema`, the output of the fragment's plan.
    pub fn new(
        sample: &sink::Sample,
        schema: &SchemaRef,
        partition: u32,
        expressions: &CompileContext,
    ) -> Result<Self, Unsupported> {
        let operators = |source| Unsupported::Operators { node: 0, source };
        let keys = keys_of(&sample.keys, schema, &Expressions(expressions))?;
        let size = usize::try_from(sample.size).unwrap_or(usize::MAX);
        if size == 0 {
            return Err(Unsupported::Malformed {
                node: 0,
                what: "a sample of nothing",
            });
        }
        let types = keys
            .iter()
            .map(|key| key.expr.data_type(schema))
            .collect::<Result<Vec<_>>>()
            .map_err(operators)?;
        let mut fields: Vec<Field> = types
            .iter()
            .enumerate()
            .map(|(i, t)| Field::new(format!("key{i}"), t.clone(), true))
            .collect();
        fields.push(Field::new("weight", DataType::Float64, true));
        let converter = RowConverter::new(types.into_iter().map(SortField::new).collect())
            .map_err(|error| operators(error.into()))?;
        Ok(Self {
            keys,
            converter,
            schema: Arc::new(Schema::new(fields)),
            size,
            random: fastrand::Rng::with_seed(
                sample.seed ^ u64::from(partition).wrapping_mul(0xd605_bbb5_8c8a_bbbd),
            ),
            seen: 0,
            rows: vec![],
        })
    }

    /// Schema of the sample: the keys, then the weight.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Takes more rows.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        // Which rows of the batch enter, and where, is drawn before any key is computed (Vitter's
        // algorithm R).
        let mut entering: Vec<u32> = Vec::new();
        let mut positions: Vec<usize> = Vec::new();
        for row in 0..u32::try_from(batch.num_rows())
            .map_err(|_| internal_datafusion_err!("a batch of 2^32 rows"))?
        {
            let position = if self.seen < self.size as u64 {
                self.seen
            } else {
                self.random.u64(..=self.seen)
            };
            self.seen += 1;
            if let Some(position) = usize::try_from(position)
                .ok()
                .filter(|position| *position < self.size)
            {
                entering.push(row);
                positions.push(position);
            }
        }
        if entering.is_empty() {
            return Ok(());
        }
        let entering = UInt32Array::from(entering);
        let columns = self
            .keys
            .iter()
            .map(|key| {
                let column = key.expr.evaluate(batch)?.into_array(batch.num_rows())?;
                Ok(take(&column, &entering, None)?)
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let rows = self.converter.convert_columns(&columns)?;
        for (row, position) in rows.iter().zip(positions) {
            match self.rows.get_mut(position) {
                Some(held) => *held = row.owned(),
                None => self.rows.push(row.owned()),
            }
        }
        Ok(())
    }

    /// The sample as a batch; empty if there were no rows.
    pub fn finish(self) -> Result<RecordBatch> {
        if self.rows.is_empty() {
            return Ok(RecordBatch::new_empty(self.schema));
        }
        let mut columns = self
            .converter
            .convert_rows(self.rows.iter().map(OwnedRow::row))?;
        let weight = self.seen as f64 / self.rows.len() as f64;
        columns.push(Arc::new(Float64Array::from(vec![weight; self.rows.len()])));
        Ok(RecordBatch::try_new(self.schema, columns)?)
    }
}

/// Bounds for `partitions` ranges of about equal weight, ascending in the order of `keys`, as
/// Spark's `RangePartitioner.determineBounds` picks them. `keys` are bound to the samples' columns,
/// the last of which is the weight.
pub fn pick_bounds(
    samples: &[RecordBatch],
    keys: &[SortKey],
    partitions: usize,
    expressions: &CompileContext,
) -> Result<Vec<Row>, Unsupported> {
    let Some(schema) = samples.first().map(RecordBatch::schema) else {
        return Ok(vec![]);
    };
    let operators = |source| Unsupported::Operators { node: 0, source };
    let keys = keys_of(keys, &schema, &Expressions(expressions))?;
    pick(samples, &schema, &keys, partitions).map_err(operators)
}

fn pick(
    samples: &[RecordBatch],
    schema: &SchemaRef,
    keys: &[PhysicalSortExpr],
    partitions: usize,
) -> Result<Vec<Row>> {
    let all = arrow::compute::concat_batches(schema, samples)?;
    let weights = all
        .columns()
        .last()
        .and_then(|column| column.as_primitive_opt::<Float64Type>())
        .filter(|weights| weights.null_count() == 0)
        .ok_or_else(|| internal_datafusion_err!("a sample without weights"))?;
    let columns = keys
        .iter()
        .map(|key| key.expr.evaluate(&all)?.into_array(all.num_rows()))
        .collect::<Result<Vec<ArrayRef>>>()?;
    let fields = keys
        .iter()
        .zip(&columns)
        .map(|(key, column)| SortField::new_with_options(column.data_type().clone(), key.options))
        .collect();
    let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
    let mut order: Vec<usize> = (0..rows.num_rows()).collect();
    order.sort_by(|a, b| rows.row(*a).cmp(&rows.row(*b)));

    let wanted = partitions.min(order.len());
    let step = weights.values().iter().sum::<f64>() / wanted as f64;
    let (mut passed, mut target) = (0.0, step);
    let mut picked: Vec<usize> = Vec::new();
    for row in order {
        if picked.len() + 1 >= wanted {
            break;
        }
        passed += weights.value(row);
        let above = picked
            .last()
            .is_none_or(|previous| rows.row(row) > rows.row(*previous));
        if passed >= target && above {
            picked.push(row);
            target += step;
        }
    }
    picked
        .into_iter()
        .map(|row| {
            let values = columns
                .iter()
                .map(|column| literal(&ScalarValue::try_from_array(column, row)?))
                .collect::<Result<Vec<_>>>()?;
            Ok(Row { values })
        })
        .collect()
}
