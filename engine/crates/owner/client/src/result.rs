//! The rows of a result, as one Arrow IPC stream.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::writer::{IpcWriteOptions, StreamWriter},
};
use coffer_expr::SparkError;
use datafusion_common::DataFusionError;
use datafusion_execution::SendableRecordBatchStream;
use futures::StreamExt;

use crate::{ClientError, origins::Origins, reads::Reads, spark_arrow::Given, tally::Tally};

/// The rows of a result, opened as they are read.
pub(crate) struct ResultRows {
    pub(crate) schema: SchemaRef,
    /// Where Spark's Arrow types are others.
    pub(crate) given: Option<Given>,
    pub(crate) rows: SendableRecordBatchStream,
    /// Of tables, on the way.
    pub(crate) reads: Arc<Reads>,
    /// Bytes that the operators may hold, if there is a bound.
    pub(crate) memory: Option<u64>,
    /// What they were made from.
    pub(crate) origins: Origins,
    /// Of a receipt that has them.
    pub(crate) tally: Option<Tally>,
}

/// Writes rows as one Arrow IPC stream, in chunks.
pub(crate) struct Ipc {
    writer: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    given: Option<Given>,
    tally: Option<Tally>,
    pub(crate) rows: u64,
}

impl ResultRows {
    /// Begins the stream; the schema is in it.
    pub(crate) fn ipc(&mut self) -> Result<Ipc, ClientError> {
        let given = self.given.take();
        let schema = match &given {
            Some(given) => given.schema(&self.schema),
            None => Arc::clone(&self.schema),
        };
        let writer =
            StreamWriter::try_new_with_options(Vec::new(), &schema, IpcWriteOptions::default())
                .map_err(arrow)?;
        Ok(Ipc {
            writer,
            schema,
            given,
            tally: self.tally.take(),
            rows: 0,
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, ClientError> {
        let next = self.rows.next().await.transpose();
        let next = next.map_err(|error| self.failed(error))?;
        if next.is_none() {
            self.reads.rest().await?;
        }
        Ok(next)
    }

    fn failed(&self, error: DataFusionError) -> ClientError {
        if let Some(passed) = self.reads.passed() {
            return passed;
        }
        if let Some(spark) = SparkError::find(&error) {
            return ClientError::Spark {
                class: spark.class.to_owned(),
                message: spark.message.clone(),
            };
        }
        match (error.find_root(), self.memory) {
            (DataFusionError::ResourcesExhausted(_), Some(memory)) => {
                ClientError::ClientMemory(memory)
            }
            _ => ClientError::Finish(error),
        }
    }
}

impl Ipc {
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ClientError> {
        self.rows += batch.num_rows() as u64;
        // Names and nullability are the declared ones, whatever the operators called them.
        let options =
            arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = match &self.given {
            Some(given) => given.columns(batch.columns()).map_err(arrow)?,
            None => batch.columns().to_vec(),
        };
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(arrow)?;
        if let Some(tally) = &mut self.tally {
            tally.add(&batch)?;
        }
        self.writer.write(&batch).map_err(arrow)
    }

    pub(crate) fn finish(&mut self) -> Result<(), ClientError> {
        self.writer.finish().map_err(arrow)?;
        if let Some(tally) = self.tally.take() {
            tally.end();
        }
        Ok(())
    }

    /// The bytes written so far.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        self.writer.get_mut()
    }
}

fn arrow(error: ArrowError) -> ClientError {
    ClientError::Finish(DataFusionError::from(error))
}
