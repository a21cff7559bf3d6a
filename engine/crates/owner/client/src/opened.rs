//! Streams that end here: results and samples, one for each task, opened whole or not at all.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use bytes::{Bytes, BytesMut};
use coffer_plan::codec::decode_batch;
use coffer_protocol::wire::{StreamCount, TaskResult};
use coffer_sealing::{
    ExecutionId, OpenedStream, Partition, SessionKey, StageId, StreamIdentity, StreamTarget,
};

use crate::{
    ClientError,
    commits::Commit,
    session::{Output, Session, Stage},
};

/// One task's stream, not opened yet: its identity is known from the task's commit record.
pub(crate) struct Sealed {
    stage: u32,
    partition: u32,
    key: SessionKey,
    identity: StreamIdentity,
    count: StreamCount,
    bytes: Bytes,
}

/// Checks that exactly the partitions that must come have come, and takes them: none comes twice.
pub(crate) fn take(
    session: &mut Session,
    number: u32,
    execution: u64,
    stage: &Stage,
    results: &[TaskResult],
    partial: bool,
) -> Result<Vec<Sealed>, ClientError> {
    let target = match stage.output {
        Output::Result => StreamTarget::Result,
        Output::Sample => StreamTarget::Sample,
        Output::Shuffle(_) | Output::Broadcast | Output::Write(_) => {
            return Err(ClientError::StageUnknown(number));
        }
    };
    let mut order: Vec<&TaskResult> = results.iter().collect();
    order.sort_by_key(|result| result.partition);
    if !partial {
        // Whatever is missing or foreign, the first place where it shows is named.
        for partition in 0..stage.partitions {
            let at = usize::try_from(partition)
                .ok()
                .and_then(|refused| order.get(refused));
            if at.map(|result| result.partition) != Some(partition) {
                return Err(ClientError::ResultPartition {
                    stage: number,
                    partition,
                });
            }
        }
    }
    if let Some(foreign) = order
        .iter()
        .find(|result| result.partition >= stage.partitions)
    {
        return Err(ClientError::ResultPartition {
            stage: number,
            partition: foreign.partition,
        });
    }
    session.opened_host_chosen |= stage.host_chosen;
    let mut sealed = Vec::with_capacity(order.len());
    let mut origins = session.results.origins(number, execution);
    for result in &order {
        let partition = result.partition;
        let commit = Commit::open(session, number, partition, 1, &result.commit)?;
        let refused = ClientError::CommitIdentity {
            stage: number,
            partition,
        };
        // A run of a query is drawn by the engine; partitions of two would be two answers.
        let run = &commit.record.run;
        if commit.record.execution != execution
            || stage.in_query == run.is_empty()
            || !session.results.is_of_run(number, execution, run)
        {
            return Err(refused);
        }
        session.trace(&mut origins, number, &stage.objects, &commit.record)?;
        sealed.push(Sealed {
            stage: number,
            partition,
            key: session.key.clone(),
            identity: StreamIdentity {
                session: session.id,
                execution: ExecutionId(execution),
                stage: StageId(number),
                partition: Partition(partition),
                attempt: commit.attempt,
                target,
            },
            count: commit.record.streams.into_iter().next().ok_or(refused)?,
            bytes: result.stream.clone(),
        });
    }
    let partitions: Vec<u32> = order.iter().map(|result| result.partition).collect();
    session
        .results
        .take(number, execution, &partitions, origins)?;
    Ok(sealed)
}

impl Sealed {
    /// All batches of the stream. Nothing of it is given out before its last frame has opened and
    /// its counts are those of the commit record.
    pub(crate) fn open(self, schema: &SchemaRef) -> Result<Vec<RecordBatch>, ClientError> {
        let (stage, partition) = (self.stage, self.partition);
        let refused = |source| ClientError::Stream {
            stage,
            partition,
            source,
        };
        let mut frames = OpenedStream::new(&self.key, self.identity, BytesMut::from(self.bytes))
            .map_err(refused)?;
        let mut batches = Vec::new();
        let mut rows = 0u64;
        while let Some(frame) = frames.next_frame().map_err(refused)? {
            let (frame, plain) = frame.into_parts();
            let batch = decode_batch(schema, frame.freeze().slice(plain)).map_err(|source| {
                ClientError::Payload {
                    stage,
                    partition,
                    source,
                }
            })?;
            let Some(batch) = batch else {
                continue;
            };
            rows += batch.num_rows() as u64;
            batches.push(batch);
        }
        if frames.frames() != self.count.frames || rows != self.count.rows {
            return Err(ClientError::StreamCount { stage, partition });
        }
        Ok(batches)
    }
}
