//! What a task reads of other stages, made ready before its plan begins.

use std::sync::Arc;

use coffer_plan::boundary_schema;
use coffer_sealing::{Kek, KekId};
use datafusion_execution::memory_pool::MemoryConsumer;

use crate::{
    broadcast::{BroadcastKey, Loaded},
    enclave::Enclave,
    exchange::{KeptRows, WrittenBy},
    session::Session,
    task::{
        check::Check,
        descriptor::{Assignment, Leaves, Reads},
        error::TaskError,
        input::{Demux, InputCounts, InputSpec, all_rows},
        io::{TaskInput, TaskInputs, rows_of},
        link::Link,
    },
};

/// The inputs of a task. Broadcasts are here whole before the plan begins: an error of one task's
/// link must not end up in a build that others share.
pub(super) async fn inputs(
    enclave: &Enclave,
    session: &Session,
    task: &mut Assignment,
    link: &Arc<Link>,
    counted: &Arc<InputCounts>,
) -> Result<TaskInputs, TaskError> {
    let mut leaves = Leaves::default();
    if let Some(root) = &task.fragment.root {
        leaves.gather(root)?;
    }
    let mut inputs = TaskInputs::default();
    for (id, input) in leaves.inputs {
        let schema = input.schema.as_ref().ok_or(Check::Input(id))?;
        let schema = boundary_schema(schema)?;
        let Some(reads) = task.inputs.remove(&id) else {
            inputs.own.insert(id, TaskInput::Nothing(schema));
            continue;
        };
        let key = reads.broadcast.then(|| BroadcastKey {
            producer: reads.producer,
            attempts: Arc::clone(&reads.attempts),
        });
        if reads.here {
            let streams = here(session, id, &reads)?;
            match key {
                None => {
                    inputs.own.insert(id, TaskInput::Here(schema, streams));
                }
                Some(key) => {
                    let held = MemoryConsumer::new(format!("broadcast {}", key.producer));
                    let rows = rows_of(&schema, streams.into_iter().flatten());
                    let load = Loaded::read(rows, held.register(&enclave.runtime().memory_pool));
                    let loaded = session.broadcasts.get(key, load).await?;
                    inputs.broadcasts.insert(id, loaded);
                }
            }
            continue;
        }
        // Cached rows are the streams of the session that wrote them, under its key.
        let (of, stream_key, producer) = match reads.cached {
            None => (session.id, session.key.clone(), reads.producer),
            Some((of, stage)) => {
                let keks = session.keks();
                let key = keks.get(&KekId::cache(of)).ok().and_then(Kek::cache_key);
                (of, key.ok_or(Check::Input(id))?, stage)
            }
        };
        let spec = InputSpec {
            id,
            session: of,
            key: stream_key,
            producer,
            rectangles: reads.rectangles,
            attempts: reads.attempts,
            broadcast: reads.broadcast,
            exchanges: match of == session.id {
                true => Arc::clone(&session.exchanges),
                false => Arc::default(),
            },
            schema,
        };
        let demux = Demux::new(
            spec,
            Arc::clone(link),
            Arc::clone(&enclave.runtime().memory_pool),
            enclave.spill(),
            Arc::clone(counted),
        )?;
        let Some(key) = key else {
            inputs.own.insert(id, TaskInput::Streams(Box::new(demux)));
            continue;
        };
        let held = MemoryConsumer::new(format!("broadcast {}", key.producer));
        let load = Loaded::read(
            all_rows(demux),
            held.register(&enclave.runtime().memory_pool),
        );
        let loaded = session.broadcasts.get(key, load).await?;
        inputs.broadcasts.insert(id, loaded);
    }
    Ok(inputs)
}

/// What tasks of the same query have put here, in map order, then by target.
fn here(session: &Session, input: u32, reads: &Reads) -> Result<Vec<KeptRows>, Check> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for rectangle in &reads.rectangles {
        for map in rectangle.maps.clone() {
            pairs.extend(rectangle.reduces.clone().map(|target| (map, target)));
        }
    }
    pairs.sort_unstable();
    let rows = |(map, target): (u32, u32)| {
        let attempt = usize::try_from(map)
            .ok()
            .and_then(|map| reads.attempts.get(map))
            .ok_or(Check::AttemptsCount(reads.producer.0))?;
        let by = WrittenBy {
            stage: reads.producer.0,
            partition: map,
            attempt: *attempt,
        };
        session
            .exchanges
            .rows(by, target)
            .ok_or(Check::RowsGone { input, map, target })
    };
    pairs.into_iter().map(rows).collect()
}
