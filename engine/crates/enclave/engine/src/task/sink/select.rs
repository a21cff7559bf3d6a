//! Which sink a fragment's rows go to.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use coffer_expr::CompileContext;
use coffer_plan::{
    Plan, boundary_schema,
    partitioner::{PartitionContext, Partitioner},
    sample::Sampler,
};
use coffer_protocol::{
    plan::{Fragment, partitioning, sink},
    wire::StreamCount,
};
use coffer_sealing::{Attempt, StreamTarget};
use datafusion_execution::memory_pool::MemoryConsumer;

use crate::{
    enclave::Enclave,
    exchange::WrittenBy,
    session::Session,
    task::{
        Check, TaskError,
        descriptor::Assignment,
        link::Link,
        out::Out,
        sink::{
            DirectSink, Keeper, ShuffleSink, SinkError, StaySink, Staying, WriteSink, Written,
            padding::Padding,
        },
    },
};

/// The sink of a task, with what cuts its rows.
pub(crate) enum TaskSink {
    Direct(DirectSink),
    Shuffle(ShuffleSink, Partitioner),
    Stay(Box<StaySink>),
    Sample(DirectSink, Box<Sampler>),
    Write(Box<WriteSink>),
}

/// What a sink has to say for the commit record.
pub(crate) struct Finished {
    pub(crate) streams: Vec<StreamCount>,
    /// Whether the streams stand for rows that stay here.
    pub(crate) kept: bool,
    pub(crate) written: Option<Written>,
    /// Bytes that went to a scratch file.
    pub(crate) spilled: u64,
}

impl TaskSink {
    pub(crate) fn new(
        enclave: &Enclave,
        session: &Session,
        task: &Assignment,
        plan: &Plan,
        link: &Arc<Link>,
        expressions: &CompileContext,
        attempt: &mut Attempt,
    ) -> Result<Self, TaskError> {
        // In a query that runs here whole, the tasks of the last stage share the link.
        let out_target = task.run.map_or(0, |_| task.task_identity.partition.0);
        let out = Out::new(Arc::clone(link));
        let schema = output(&task.fragment)?;
        let padding = Padding::of(&task.fragment)?;
        let kind = task
            .fragment
            .sink
            .as_ref()
            .and_then(|sink| sink.kind.as_ref())
            .ok_or(Check::Malformed("fragment"))?;
        // Where lengths are padded nothing is gained by streams that have none.
        let keeps = task.in_memory && padding == Padding::None;
        let keeping = |attempt: &Attempt| {
            let by = WrittenBy {
                stage: task.task_identity.stage.0,
                partition: task.task_identity.partition.0,
                attempt: attempt.id(),
            };
            let room = match task.run {
                Some(_) => enclave.room_in_query(),
                None => enclave.room(),
            };
            Keeper::new(enclave, session, by, Arc::clone(&schema), room)
        };
        let keeper = |attempt: &Attempt| keeps.then(|| keeping(attempt));
        let stay = |attempt: &Attempt, partitioner: Option<Partitioner>| {
            let pool = &enclave.runtime().memory_pool;
            let reservation = MemoryConsumer::new("kept exchange").register(pool);
            let keeper = keeping(attempt);
            let folder = enclave.spill();
            let sink = StaySink::new(keeper, partitioner, reservation, task.packing, folder);
            Ok(Self::Stay(Box::new(sink)))
        };
        let exchange = || {
            MemoryConsumer::new("exchange")
                .with_can_spill(true)
                .register(&enclave.runtime().memory_pool)
        };
        let direct = |out, target, attempt: &mut Attempt, keeper: Option<Keeper>| {
            Ok(Self::Direct(DirectSink::new(
                out,
                attempt.sealer(target)?,
                Arc::clone(&schema),
                padding,
                task.packing,
                keeper.map(|keeper| Staying::new(keeper, exchange())),
                out_target,
            )))
        };
        match kind {
            sink::Kind::Result(_) => direct(out, StreamTarget::Result, attempt, None),
            sink::Kind::Sample(sample) => {
                let partition = task.task_identity.partition.0;
                let sampler = Sampler::new(sample, &plan.schema(), partition, expressions)?;
                let sealer = attempt.sealer(StreamTarget::Sample)?;
                let direct = DirectSink::new(
                    out,
                    sealer,
                    sampler.schema(),
                    padding,
                    task.packing,
                    None,
                    0,
                );
                Ok(Self::Sample(direct, Box::new(sampler)))
            }
            sink::Kind::Broadcast(_) if task.run.is_some() => stay(attempt, None),
            sink::Kind::Broadcast(_) => {
                let keeper = keeper(attempt);
                direct(out, StreamTarget::Broadcast, attempt, keeper)
            }
            sink::Kind::Write(_) => {
                let reservation = MemoryConsumer::new("write")
                    .with_can_spill(true)
                    .register(&enclave.runtime().memory_pool);
                let sink = WriteSink::new(task, session, enclave.memory(), reservation, link)?;
                Ok(Self::Write(Box::new(sink)))
            }
            sink::Kind::Shuffle(partitioning) => {
                let bounds = match &partitioning.kind {
                    Some(partitioning::Kind::Range(range)) => task.bounds.get(&range.bounds_id),
                    _ => None,
                };
                let context = PartitionContext {
                    key: session.partitioning_key.expose(),
                    partition: task.task_identity.partition.0,
                    bounds,
                    expressions,
                };
                let partitioner = Partitioner::new(partitioning, &plan.schema(), &context)?;
                if task.run.is_some() {
                    return stay(attempt, Some(partitioner));
                }
                let keeper = keeper(attempt);
                if partitioner.targets() == 1 {
                    return direct(out, StreamTarget::Shuffle(0), attempt, keeper);
                }
                let sealers = (0..partitioner.targets())
                    .map(|target| attempt.sealer(StreamTarget::Shuffle(target)))
                    .collect::<Result<_, _>>()?;
                let sink = ShuffleSink::new(
                    out,
                    sealers,
                    padding,
                    task.packing,
                    exchange(),
                    enclave.spill(),
                    keeper,
                );
                Ok(Self::Shuffle(sink, partitioner))
            }
        }
    }

    pub(crate) async fn push(&mut self, batch: RecordBatch) -> Result<(), TaskError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        match self {
            Self::Direct(sink) => Ok(sink.push(batch).await?),
            Self::Shuffle(sink, partitioner) => {
                let targets = partitioner.targets_of(&batch)?.to_vec();
                Ok(sink.push(batch, targets)?)
            }
            Self::Stay(sink) => sink.push(&batch),
            Self::Sample(_, sampler) => Ok(sampler.push(&batch)?),
            Self::Write(sink) => Ok(sink.push(&batch).await?),
        }
    }

    pub(crate) async fn finish(self) -> Result<Finished, SinkError> {
        match self {
            Self::Direct(sink) => sink.finish().await,
            Self::Shuffle(sink, _) => sink.finish().await,
            Self::Stay(sink) => sink.finish(),
            Self::Sample(mut sink, sampler) => {
                let sample = sampler.finish()?;
                if sample.num_rows() > 0 {
                    sink.push(sample).await?;
                }
                sink.finish().await
            }
            Self::Write(sink) => Ok(Finished {
                streams: Vec::new(),
                kept: false,
                written: Some(sink.finish().await?),
                spilled: 0,
            }),
        }
    }
}

/// The schema of a fragment's frames.
fn output(fragment: &Fragment) -> Result<SchemaRef, TaskError> {
    let output = fragment
        .output
        .as_ref()
        .ok_or(Check::Malformed("fragment"))?;
    Ok(boundary_schema(output)?)
}
