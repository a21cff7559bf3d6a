//! One input of a task: takes the executor's bytes apart into streams, checks each against the
//! descriptor and the list of attempts that count, and opens them.
//!
//! Accepted are exactly the streams that descriptor and list name: each once, each whole, of the
//! attempt that counts. They may arrive in any order and are read in map order, so that a repeated
//! task sees the same rows in the same order. Streams that came early wait as they came, sealed;
//! they count in the memory pool, and go to the scratch file when it is full.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use bytes::{Bytes, BytesMut};
use coffer_plan::{
    coalesced,
    codec::{decode_batch, kept_rows},
    partitioner::MAX_TARGETS,
    spill::{Extent, Scratch, SpillFolder},
};
use coffer_sealing::{
    AttemptId, ExecutionId, Partition, SessionId, SessionKey, StageId, StreamIdentity,
    StreamOpener, StreamReader, StreamTarget, stream::PREAMBLE_LEN,
};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::{
    SendableRecordBatchStream,
    memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::Mutex;

use crate::{
    exchange::{Exchanges, KeptRows, WrittenBy},
    task::{check::Check, link::Link},
};

/// The producers × targets that a task reads of one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rectangle {
    pub(crate) maps: std::ops::Range<u32>,
    pub(crate) reduces: std::ops::Range<u32>,
}

/// What an input is made of.
pub(crate) struct InputSpec {
    pub(crate) id: u32,
    pub(crate) session: SessionId,
    pub(crate) key: SessionKey,
    pub(crate) producer: StageId,
    pub(crate) rectangles: Vec<Rectangle>,
    /// By map partition: the attempt that counts.
    pub(crate) attempts: Arc<Vec<AttemptId>>,
    /// Whether the streams are a broadcast's, of target 0.
    pub(crate) broadcast: bool,
    /// Where rows are that did not leave the engine.
    pub(crate) exchanges: Arc<Exchanges>,
    pub(crate) schema: SchemaRef,
}

/// The shared state of an input's streams.
pub(crate) struct Demux {
    spec: InputSpec,
    link: Arc<Link>,
    /// In map order, then by target.
    streams: Vec<Slot>,
    positions: HashMap<(u32, u32), usize>,
    /// Takes apart what is arriving.
    reader: StreamReader,
    arriving: Option<usize>,
    ended: bool,
    /// Streams that were read to their end.
    read: usize,
    waiting: Waiting,
    counted: Arc<InputCounts>,
}

/// What the inputs of a task count, in bytes.
#[derive(Default)]
pub(crate) struct InputCounts {
    pub(crate) opened: AtomicU64,
    /// Sealed frames that waited on disk.
    pub(crate) parked: AtomicU64,
}

struct Slot {
    identity: StreamIdentity,
    frames: VecDeque<Parked>,
    seen: bool,
    complete: bool,
}

enum Parked {
    Memory(BytesMut),
    Disk(Extent),
}

struct Waiting {
    pool: Arc<dyn MemoryPool>,
    /// Only of an input of which something waits: the pool gives a share to each that may spill.
    reservation: Option<MemoryReservation>,
    folder: Arc<SpillFolder>,
    scratch: Option<Scratch>,
    counted: Arc<InputCounts>,
}

impl Demux {
    pub(crate) fn new(
        spec: InputSpec,
        link: Arc<Link>,
        pool: Arc<dyn MemoryPool>,
        folder: Arc<SpillFolder>,
        counted: Arc<InputCounts>,
    ) -> Result<Self, Check> {
        let claimed = spec.rectangles.iter().map(|rectangle| {
            let (maps, reduces) = (rectangle.maps.len() as u64, rectangle.reduces.len() as u64);
            maps.saturating_mul(reduces)
        });
        // Counted before anything is allocated for them.
        if claimed.fold(0_u64, u64::saturating_add) > u64::from(MAX_TARGETS) {
            return Err(Check::Input(spec.id));
        }
        let mut pairs = Vec::new();
        for rectangle in &spec.rectangles {
            for map in rectangle.maps.clone() {
                pairs.extend(rectangle.reduces.clone().map(|target| (map, target)));
            }
        }
        pairs.sort_unstable();
        let mut streams = Vec::with_capacity(pairs.len());
        let mut positions = HashMap::with_capacity(pairs.len());
        for (map, target) in pairs {
            let attempt = usize::try_from(map)
                .ok()
                .and_then(|map| spec.attempts.get(map))
                .ok_or(Check::AttemptsCount(spec.producer.0))?;
            if positions.insert((map, target), streams.len()).is_some() {
                return Err(Check::Input(spec.id));
            }
            streams.push(Slot {
                identity: StreamIdentity {
                    session: spec.session,
                    execution: ExecutionId(0),
                    stage: spec.producer,
                    partition: Partition(map),
                    attempt: *attempt,
                    target: match spec.broadcast {
                        true => StreamTarget::Broadcast,
                        false => StreamTarget::Shuffle(target),
                    },
                },
                frames: VecDeque::new(),
                seen: false,
                complete: false,
            });
        }
        Ok(Self {
            spec,
            link,
            streams,
            positions,
            reader: StreamReader::new(),
            arriving: None,
            ended: false,
            read: 0,
            waiting: Waiting {
                pool,
                reservation: None,
                folder,
                scratch: None,
                counted: Arc::clone(&counted),
            },
            counted,
        })
    }

    /// How many streams the input has.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// The next frame of the stream at this place, still sealed; `None` after its last.
    async fn next_frame(&mut self, position: usize) -> Result<Option<BytesMut>> {
        loop {
            let slot = self.slot(position)?;
            if let Some(parked) = slot.frames.pop_front() {
                return Ok(Some(self.waiting.take(parked)?));
            }
            if slot.complete {
                return Ok(None);
            }
            self.receive().await?;
        }
    }

    /// Notes that a stream was read whole; after the last one, sees to it that nothing follows.
    async fn finished(&mut self) -> Result<()> {
        self.read += 1;
        if self.read == self.streams.len() {
            self.expect_end().await?;
        }
        Ok(())
    }

    async fn expect_end(&mut self) -> Result<()> {
        while !self.ended {
            self.receive().await?;
        }
        Ok(())
    }

    async fn receive(&mut self) -> Result<()> {
        match self.link.input(self.spec.id).await.map_err(external)? {
            Some(bytes) => self.feed(&bytes),
            None => self.end(),
        }
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        let input = self.spec.id;
        if let Some(position) = self.arriving {
            let (map, target) = self.position(position);
            return Err(external(Check::StreamCut { input, map, target }));
        }
        if !self.reader.is_empty() {
            let source = coffer_sealing::Error::Truncated {
                need: PREAMBLE_LEN,
                got: self.reader.len(),
            };
            return Err(external(Check::StreamFormat { input, source }));
        }
        match self.streams.iter().position(|slot| !slot.complete) {
            None => Ok(()),
            Some(position) => {
                let (map, target) = self.position(position);
                Err(external(Check::StreamMissing { input, map, target }))
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.push(bytes);
        loop {
            let more = match self.arriving {
                None => self.begin_stream().map_err(external)?,
                Some(position) => self.take_frame(position)?,
            };
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes what a stream begins with; false when not enough bytes are there.
    fn begin_stream(&mut self) -> Result<bool, Check> {
        let input = self.spec.id;
        let preamble =
            (self.reader.preamble()).map_err(|source| Check::StreamFormat { input, source })?;
        let Some(preamble) = preamble else {
            return Ok(false);
        };
        let (map, target) = (preamble.partition.0, preamble.target);
        let foreign = Check::StreamForeign { input, map, target };
        let Some(position) = self.positions.get(&(map, target)).copied() else {
            return Err(foreign);
        };
        let Some(slot) = self.streams.get_mut(position) else {
            return Err(foreign);
        };
        if slot.seen {
            return Err(Check::StreamRepeated { input, map, target });
        }
        if preamble.check(&slot.identity).is_err() {
            return Err(Check::StreamAttempt { input, map, target });
        }
        slot.seen = true;
        self.arriving = Some(position);
        Ok(true)
    }

    /// Moves one whole frame from the buffer to its stream; false when not enough bytes are there.
    fn take_frame(&mut self, position: usize) -> Result<bool> {
        let (map, target) = self.position(position);
        let input = self.spec.id;
        let refused = |source| {
            external(Check::Frame {
                input,
                map,
                target,
                source,
            })
        };
        let Some(frame) = self.reader.frame().map_err(refused)? else {
            return Ok(false);
        };
        // Only believed as to where the next stream begins: a stream is not done before its last
        // frame was opened.
        let last = frame.claims_last();
        let parked = self.waiting.park(frame.into_bytes())?;
        let slot = self.slot(position)?;
        slot.frames.push_back(parked);
        if last {
            slot.complete = true;
            self.arriving = None;
        }
        Ok(true)
    }

    /// The rows that an opened frame of this stream stands for.
    fn kept(&self, position: usize, rows: u32) -> Result<VecDeque<RecordBatch>> {
        let (map, target) = self.position(position);
        let identity = self.streams.get(position).map(|slot| slot.identity);
        let kept = identity.and_then(|identity| {
            let by = WrittenBy {
                stage: identity.stage.0,
                partition: map,
                attempt: identity.attempt,
            };
            match self.spec.exchanges.rows(by, target)? {
                KeptRows::Held(rows) => Some(rows),
                // Of a query that runs here whole, which has no streams.
                KeptRows::Spilled(_) => None,
            }
        });
        let found = |kept: &Vec<RecordBatch>| kept.iter().map(RecordBatch::num_rows).sum();
        match kept {
            Some(kept) if usize::try_from(rows) == Ok(found(&kept)) => Ok(kept.into()),
            _ => Err(external(Check::RowsGone {
                input: self.spec.id,
                map,
                target,
            })),
        }
    }

    fn slot(&mut self, position: usize) -> Result<&mut Slot> {
        self.streams
            .get_mut(position)
            .ok_or_else(|| external(Check::Input(self.spec.id)))
    }

    fn position(&self, position: usize) -> (u32, u32) {
        self.streams.get(position).map_or((0, 0), |slot| {
            (slot.identity.partition.0, slot.identity.target.number())
        })
    }
}

impl Waiting {
    fn park(&mut self, frame: BytesMut) -> Result<Parked> {
        let pool = &self.pool;
        let reservation = self.reservation.get_or_insert_with(|| {
            MemoryConsumer::new("input")
                .with_can_spill(true)
                .register(pool)
        });
        if reservation.try_grow(frame.len()).is_ok() {
            return Ok(Parked::Memory(frame));
        }
        if self.scratch.is_none() {
            self.scratch = Some(Scratch::create(&self.folder)?);
        }
        match &mut self.scratch {
            Some(scratch) => {
                let bytes = frame.len() as u64;
                self.counted.parked.fetch_add(bytes, Ordering::Relaxed);
                Ok(Parked::Disk(scratch.append(&frame)?))
            }
            None => Ok(Parked::Memory(frame)),
        }
    }

    fn take(&mut self, parked: Parked) -> Result<BytesMut> {
        match (parked, &mut self.scratch) {
            (Parked::Memory(frame), _) => {
                if let Some(reservation) = &self.reservation {
                    reservation.shrink(frame.len());
                }
                Ok(frame)
            }
            (Parked::Disk(extent), Some(scratch)) => {
                let mut bytes = Vec::with_capacity(extent.len());
                scratch.read(extent, &mut bytes)?;
                Ok(BytesMut::from(Bytes::from(bytes)))
            }
            (Parked::Disk(_), None) => Err(DataFusionError::Internal(
                "a parked frame has lost its file".to_owned(),
            )),
        }
    }
}

/// The batches of one stream of the input, each a frame.
fn one_stream(
    demux: Arc<Mutex<Demux>>,
    position: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let state: (
        Arc<Mutex<Demux>>,
        Option<StreamOpener>,
        VecDeque<RecordBatch>,
    ) = (demux, None, VecDeque::new());
    stream::try_unfold(state, move |(demux, opener, mut kept)| async move {
        if let Some(batch) = kept.pop_front() {
            return Ok(Some((batch, (demux, opener, kept))));
        }
        let mut held = demux.lock().await;
        let (map, target) = held.position(position);
        let input = held.spec.id;
        let refused = |source| {
            external(Check::Frame {
                input,
                map,
                target,
                source,
            })
        };
        let mut opener = match opener {
            Some(opener) => opener,
            None => {
                let identity = held.slot(position)?.identity;
                StreamOpener::new(&held.spec.key, identity).map_err(refused)?
            }
        };
        loop {
            if held.link.is_closed() {
                return Err(external(crate::task::link::LinkError::Closed));
            }
            let Some(frame) = held.next_frame(position).await? else {
                opener.finish().map_err(refused)?;
                held.finished().await?;
                return Ok(None);
            };
            let bytes = frame.len() as u64;
            held.counted.opened.fetch_add(bytes, Ordering::Relaxed);
            let (frame, plain) = opener.open(frame).map_err(refused)?.into_parts();
            if let Some(rows) = frame.get(plain.clone()).and_then(kept_rows) {
                kept = held.kept(position, rows)?;
                let Some(batch) = kept.pop_front() else {
                    continue;
                };
                drop(held);
                return Ok(Some((batch, (demux, Some(opener), kept))));
            }
            let batch =
                decode_batch(&held.spec.schema, frame.freeze().slice(plain)).map_err(|source| {
                    external(Check::Payload {
                        input,
                        map,
                        target,
                        source,
                    })
                })?;
            // A frame without a batch ends its stream, or hides how long it is.
            let Some(batch) = batch else {
                continue;
            };
            drop(held);
            return Ok(Some((batch, (demux, Some(opener), kept))));
        }
    })
}

/// All rows of an input, its streams one after the other, small batches put together.
pub(crate) fn all_rows(demux: Demux) -> SendableRecordBatchStream {
    let schema = Arc::clone(&demux.spec.schema);
    let count = demux.len();
    let demux = Arc::new(Mutex::new(demux));
    let rows = stream::iter(0..count)
        .map(move |position| Ok::<_, DataFusionError>(one_stream(Arc::clone(&demux), position)));
    // An input without streams has nothing to wait for: its end is not asked for.
    let rows = rows.try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(
        Arc::clone(&schema),
        coalesced(schema, rows),
    ))
}

/// The streams of an input, each for itself, in map order.
pub(crate) fn each_stream(demux: Demux) -> Vec<SendableRecordBatchStream> {
    let schema = Arc::clone(&demux.spec.schema);
    let count = demux.len();
    let demux = Arc::new(Mutex::new(demux));
    (0..count)
        .map(|position| {
            let rows = coalesced(
                Arc::clone(&schema),
                one_stream(Arc::clone(&demux), position),
            );
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows))
                as SendableRecordBatchStream
        })
        .collect()
}

fn external<E: std::error::Error + Send + Sync + 'static>(error: E) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
