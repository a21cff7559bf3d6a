//! Opening a result: every partition once, then the finish of the plan over the opened rows, as one Arrow IPC stream.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::writer::{IpcWriteOptions, StreamWriter},
};
use coffer_expr::{CompileContext, SparkError};
use coffer_plan::{BuildContext, ScanFiles, TaskIo, boundary_schema, build, with_task_io};
use coffer_proto::{
    plan::{Fragment, node::Op},
    wire::OpenResult,
};
use datafusion_common::{DataFusionError, Result as DataResult, internal_datafusion_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext, runtime_env::RuntimeEnvBuilder};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use prost::Message;

use crate::{
    ClientError, Service,
    opened::{self, Sealed},
    session::Output,
};

/// Rows of a batch in the finish.
const BATCH_ROWS: usize = 8192;

/// The rows of a result, opened as they are read.
pub(crate) struct ResultRows {
    schema: SchemaRef,
    rows: SendableRecordBatchStream,
}

impl Service {
    pub(crate) fn open_result(&self, request: &OpenResult) -> Result<ResultRows, ClientError> {
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let number = request.stage;
        let stage = session.collected(number, request.execution, Output::Result)?;
        if request.partitions != stage.partitions {
            return Err(ClientError::CommitCount {
                stage: number,
                want: stage.partitions,
                got: request.results.len(),
            });
        }
        let schema = boundary_schema(&stage.schema)?;
        // The finish is checked before anything is taken: what is taken cannot be asked for again.
        let finish = match request.finish.is_empty() {
            true => None,
            false => Some(Finish::read(&request.finish, &stage.schema)?),
        };
        let sealed = opened::take(
            &mut session,
            number,
            request.execution,
            &stage,
            &request.results,
            request.partial,
        )?;
        drop(session);
        // Everything is opened before a row is given out: a result is whole or an error.
        let opened = sealed
            .into_iter()
            .map(|sealed: Sealed| sealed.open(&schema))
            .collect::<Result<Vec<_>, _>>()?;
        match finish {
            None => {
                let batches = opened.into_iter().flatten().map(Ok);
                Ok(ResultRows {
                    rows: Box::pin(RecordBatchStreamAdapter::new(
                        Arc::clone(&schema),
                        stream::iter(batches),
                    )),
                    schema,
                })
            }
            Some(finish) => finish.run(schema, opened),
        }
    }
}

struct Finish {
    fragment: Fragment,
    input: u32,
    output: SchemaRef,
}

impl Finish {
    fn read(bytes: &[u8], result: &coffer_proto::plan::Schema) -> Result<Self, ClientError> {
        let fragment = Fragment::decode(bytes).map_err(|_| ClientError::Malformed("finish"))?;
        let mut inputs = Vec::new();
        let mut nodes: Vec<_> = fragment.root.iter().collect();
        while let Some(node) = nodes.pop() {
            match &node.op {
                Some(Op::Input(input)) => inputs.push(input),
                // The client engine opens results; it reads no tables.
                Some(Op::Scan(_)) => return Err(ClientError::Malformed("finish")),
                _ => nodes.extend(coffer_engine::task::children(node)),
            }
        }
        let [input] = inputs.as_slice() else {
            return Err(ClientError::Malformed("finish"));
        };
        let declared = input.schema.iter().flat_map(|schema| &schema.fields);
        if !declared
            .map(|field| &field.r#type)
            .eq(result.fields.iter().map(|field| &field.r#type))
        {
            return Err(ClientError::Malformed("finish"));
        }
        let output = boundary_schema(fragment.output.as_ref().ok_or(ClientError::Malformed("finish"))?)?;
        let input = input.input_id;
        Ok(Self {
            fragment,
            input,
            output,
        })
    }

    fn run(self, schema: SchemaRef, opened: Vec<Vec<RecordBatch>>) -> Result<ResultRows, ClientError> {
        let plan = build(
            &self.fragment,
            &BuildContext {
                partitions: 1,
                expressions: &CompileContext::default(),
            },
        )?;
        let side = OpenedSide {
            input: self.input,
            schema,
            partitions: Mutex::new(Some(opened)),
        };
        let context = TaskContext::new(
            None,
            "result".to_owned(),
            with_task_io(coffer_plan::config(BATCH_ROWS), Arc::new(side)),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            RuntimeEnvBuilder::new().build_arc()?,
        );
        Ok(ResultRows {
            rows: plan.execute(0, Arc::new(context))?,
            schema: self.output,
        })
    }
}

/// The opened partitions, as the finish's input.
struct OpenedSide {
    input: u32,
    schema: SchemaRef,
    partitions: Mutex<Option<Vec<Vec<RecordBatch>>>>,
}

impl OpenedSide {
    fn take(&self, id: u32) -> DataResult<Vec<Vec<RecordBatch>>> {
        self.partitions
            .lock()
            .take()
            .filter(|_| id == self.input)
            .ok_or_else(|| internal_datafusion_err!("the result is read twice"))
    }

    fn stream(
        &self,
        batches: impl IntoIterator<Item = RecordBatch, IntoIter: Send + 'static>,
    ) -> SendableRecordBatchStream {
        let rows = stream::iter(batches.into_iter().map(Ok));
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            coffer_engine::task::coalesced(Arc::clone(&self.schema), rows),
        ))
    }
}

impl TaskIo for OpenedSide {
    fn partition(&self) -> u32 {
        0
    }

    fn input(&self, input_id: u32) -> DataResult<SendableRecordBatchStream> {
        Ok(self.stream(self.take(input_id)?.into_iter().flatten()))
    }

    fn input_streams(&self, input_id: u32) -> DataResult<Vec<SendableRecordBatchStream>> {
        Ok(self
            .take(input_id)?
            .into_iter()
            .map(|batches| self.stream(batches))
            .collect())
    }

    fn scan(&self, _: u32) -> DataResult<ScanFiles> {
        Err(internal_datafusion_err!("the finish of a result reads no tables"))
    }
}

/// Writes rows as one Arrow IPC stream, in chunks.
pub(crate) struct Ipc {
    writer: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    pub(crate) rows: u64,
}

impl ResultRows {
    /// Begins the stream; the schema is in it.
    pub(crate) fn ipc(&self) -> Result<Ipc, ClientError> {
        let writer =
            StreamWriter::try_new_with_options(Vec::new(), &self.schema, IpcWriteOptions::default()).map_err(arrow)?;
        Ok(Ipc {
            writer,
            schema: Arc::clone(&self.schema),
            rows: 0,
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, ClientError> {
        self.rows
            .next()
            .await
            .transpose()
            .map_err(|error| match SparkError::find(&error) {
                Some(spark) => ClientError::Spark {
                    class: spark.class.to_owned(),
                    message: spark.message.clone(),
                },
                None => ClientError::Finish(error),
            })
    }
}

impl Ipc {
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ClientError> {
        self.rows += batch.num_rows() as u64;
        // Names and nullability are the declared ones, whatever the operators called them.
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &options)
            .map_err(arrow)?;
        self.writer.write(&batch).map_err(arrow)
    }

    pub(crate) fn finish(&mut self) -> Result<(), ClientError> {
        self.writer.finish().map_err(arrow)
    }

    /// The bytes written so far.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        self.writer.get_mut()
    }
}

fn arrow(error: ArrowError) -> ClientError {
    ClientError::Finish(DataFusionError::from(error))
}
