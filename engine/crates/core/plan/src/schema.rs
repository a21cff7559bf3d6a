//! Schemas at a fragment's edge, and the session settings that all plans of this crate run under.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema as ArrowSchema, SchemaRef},
};
use coffer_expr::types;
use coffer_protocol::plan::Schema;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, config::SessionConfig};
use datafusion_physical_plan::{
    coop::make_cooperative,
    metrics::BaselineMetrics,
    stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter},
};
use futures::{StreamExt, stream};

use crate::Unsupported;

/// The Arrow schema of rows that cross a fragment's edge: the declared names and types, every
/// column nullable.
///
/// Nullability is Spark's promise to its own code generator and buys nothing here; taking it as
/// given would turn a wrong promise into a failed query.
pub fn boundary_schema(schema: &Schema) -> Result<SchemaRef, Unsupported> {
    schema_of(schema, 0)
}

pub(crate) fn schema_of(schema: &Schema, node: u32) -> Result<SchemaRef, Unsupported> {
    let declared = types::schema_to_arrow(schema)
        .map_err(|source| Unsupported::Expression { node, source })?;
    Ok(nullable(&declared))
}

/// The same schema with every column nullable.
pub(crate) fn nullable(schema: &ArrowSchema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), field.data_type().clone(), true))
        .collect();
    Arc::new(ArrowSchema::new(fields))
}

/// The session configuration for plans of this crate, with batches of `batch_size` rows.
pub fn config(batch_size: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_batch_size(batch_size)
        .with_target_partitions(1);
    let options = config.options_mut();
    // These share state over all partitions of a plan, of which an engine may run any subset, in
    // any order.
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    config
}

/// A stream without rows.
pub(crate) fn empty(schema: &SchemaRef) -> SendableRecordBatchStream {
    Box::pin(EmptyRecordBatchStream::new(Arc::clone(schema)))
}

/// The same rows under `schema`, whose types they must have already; counted, and with pauses in
/// which a task can be cancelled.
pub(crate) fn counted(
    schema: SchemaRef,
    stream: SendableRecordBatchStream,
    metrics: BaselineMetrics,
) -> SendableRecordBatchStream {
    let target = Arc::clone(&schema);
    let stream = stream.map(move |batch| {
        let batch = batch?;
        let _timer = metrics.elapsed_compute().timer();
        let batch = with_schema(&target, batch)?;
        metrics.record_output(batch.num_rows());
        Ok(batch)
    });
    make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
}

/// The same columns under other names. An error if types differ.
pub(crate) fn with_schema(schema: &SchemaRef, batch: RecordBatch) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        batch.columns().to_vec(),
        &options,
    )?)
}

/// The same stream, with the time that polling it takes and its rows counted: for leaves, whose
/// time is all their own.
pub(crate) fn timed(
    mut inner: SendableRecordBatchStream,
    metrics: BaselineMetrics,
) -> SendableRecordBatchStream {
    let schema = inner.schema();
    let stream = stream::poll_fn(move |context| {
        let polled = {
            let _timer = metrics.elapsed_compute().timer();
            inner.poll_next_unpin(context)
        };
        metrics.record_poll(polled)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// Columns are bound by position, so types must agree position by position.
pub(crate) fn same_types(
    node: u32,
    found: &SchemaRef,
    declared: &SchemaRef,
) -> Result<(), Unsupported> {
    if found.fields().len() != declared.fields().len() {
        return Err(Unsupported::Type {
            node,
            column: found.fields().len().min(declared.fields().len()),
            found: format!("the last of {}", found.fields().len()),
            declared: format!("{} columns", declared.fields().len()),
        });
    }
    for (column, (found, declared)) in found.fields().iter().zip(declared.fields()).enumerate() {
        if found.data_type() != declared.data_type() {
            return Err(Unsupported::Type {
                node,
                column,
                found: found.data_type().to_string(),
                declared: declared.data_type().to_string(),
            });
        }
    }
    Ok(())
}
