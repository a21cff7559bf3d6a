//! A window partition that memory does not hold: written to the disk, sealed, and read back once.
//!
//! While it is written its rows are counted, and of each call is kept what takes all rows: the
//! result of a frame that is the whole window partition, and of a frame without an upper bound the
//! partial result of each batch. When it is read, rows are held from the first that a frame may
//! still begin at to the last that one has reached; an aggregate whose frames have no lower bound
//! has the partial result of the rows that are gone. So a frame between two bounds must fit in
//! memory, and so must a group of peers where the order's keys are a bound.
//!
//! Some calls fit none of this: they may look at any row from any other ([`Fact::of`]).

use std::{collections::VecDeque, ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, Float64Array, Int32Array},
    compute::concat_batches,
    record_batch::RecordBatch,
};
use coffer_protocol::plan::window::Rank;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::{SendableRecordBatchStream, SpillFile, memory_pool::MemoryReservation};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::SpillManager;
use futures::TryStreamExt;

use super::{
    Keys,
    calls::{Call, Calls, with_columns},
    chunk::Chunk,
    exec::{Work, bytes},
    frame::Frame,
    int, picks,
    running::{Place, Running},
};
use crate::aggregate::{Partial, taken};

/// What a call keeps of rows that are on the disk.
enum Fact {
    Nothing,
    /// The result over all rows.
    Whole(Option<Partial>),
    /// Partial results of all rows that are gone.
    Growing(Option<Partial>),
    /// Partial results of each batch; when it is read, of it and all after it.
    Shrinking(Vec<Partial>),
    /// The row that counts as the nth, when it has come, and its value.
    Nth {
        left: usize,
        found: Option<(usize, ArrayRef)>,
    },
}

impl Fact {
    /// None if the call may look at any row from any other.
    fn of(call: &Call, frames: &[Frame]) -> Option<Self> {
        let bounds = |frame: usize| {
            frames
                .get(frame)
                .map(|frame| (frame.has_lower(), frame.has_upper()))
        };
        Some(match call {
            Call::Ranking(_) => Self::Nothing,
            Call::Shift {
                offset,
                ignore_nulls,
                ..
            } => match *ignore_nulls && *offset != 0 {
                true => return None,
                false => Self::Nothing,
            },
            Call::NthValue { nth, frame, .. } => match bounds(*frame)? {
                (true, true) => Self::Nothing,
                (false, _) => Self::Nth {
                    left: *nth,
                    found: None,
                },
                (true, false) => return None,
            },
            Call::Aggregate { function, frame } => match bounds(*frame)? {
                (true, true) => Self::Nothing,
                _ if !function.has_partials() => return None,
                (false, false) => Self::Whole(None),
                (false, true) => Self::Growing(None),
                (true, false) => Self::Shrinking(vec![]),
            },
        })
    }

    /// Takes rows as they are written; `at` is the place of the first.
    fn add(&mut self, call: &Call, batch: &RecordBatch, at: usize) -> Result<()> {
        match (self, call) {
            (Self::Whole(known), Call::Aggregate { function, .. }) => {
                let rows = function.partial(batch)?;
                *known = Some(match known.take() {
                    Some(known) => function.joined(&known, &rows)?,
                    None => rows,
                });
            }
            (Self::Shrinking(batches), Call::Aggregate { function, .. }) => {
                batches.push(function.partial(batch)?);
            }
            (
                Self::Nth {
                    left,
                    found: found @ None,
                },
                Call::NthValue {
                    input,
                    ignore_nulls,
                    ..
                },
            ) => {
                let values = input.evaluate(batch)?.into_array(batch.num_rows())?;
                let nulls = values.logical_nulls().filter(|_| *ignore_nulls);
                let counts = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
                for row in (0..batch.num_rows()).filter(counts) {
                    *left -= 1;
                    if *left == 0 {
                        *found = Some((at + row, taken(&values, [Some(row)].into_iter())?));
                        break;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// All rows are written.
    fn complete(&mut self, call: &Call) -> Result<()> {
        if let (Self::Shrinking(batches), Call::Aggregate { function, .. }) = (self, call) {
            let mut after: Option<Partial> = None;
            for batch in batches.iter_mut().rev() {
                if let Some(after) = &after {
                    *batch = function.joined(batch, after)?;
                }
                after = Some(batch.clone());
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        match self {
            Self::Shrinking(batches) => batches.iter().map(Partial::size).sum(),
            Self::Whole(Some(partial)) | Self::Growing(Some(partial)) => partial.size(),
            _ => 0,
        }
    }
}

/// Writes a batch, or without one finishes the file. (DataFusion's writer has no public name.)
type Write = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

/// A window partition that is being written.
pub(super) struct Writing {
    calls: Calls,
    facts: Vec<Fact>,
    spill: SpillManager,
    write: Write,
    /// Rows and bytes of each batch.
    written: VecDeque<(usize, usize)>,
    rows: usize,
}

impl Writing {
    /// None if one of the calls may look at any row from any other.
    pub(super) fn new(calls: &Calls, spill: &SpillManager) -> Result<Option<Self>> {
        let facts = calls.each().map(|call| Fact::of(call, calls.frames()));
        let Some(facts) = facts.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut file = spill.create_in_progress_file("a window partition")?;
        Ok(Some(Self {
            calls: calls.clone(),
            facts,
            write: Box::new(move |batch| match batch {
                Some(batch) => file.append_batch(batch).map(|_| None),
                None => file.finish(),
            }),
            spill: spill.clone(),
            written: VecDeque::new(),
            rows: 0,
        }))
    }

    pub(super) fn has_rows(&self) -> bool {
        self.rows > 0
    }

    /// More of its rows.
    pub(super) fn append(
        &mut self,
        batch: &RecordBatch,
        most: usize,
        memory: &MemoryReservation,
    ) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(most) {
            let part = batch.slice(start, most.min(batch.num_rows() - start));
            (self.write)(Some(&part))?;
            for (fact, call) in self.facts.iter_mut().zip(self.calls.each()) {
                fact.add(call, &part, self.rows)?;
            }
            self.written.push_back((part.num_rows(), bytes(&part)));
            self.rows += part.num_rows();
        }
        memory.try_resize(self.facts.iter().map(Fact::size).sum())
    }

    /// All of its rows are written.
    pub(super) fn finish(mut self, keys: &Keys) -> Result<Reading> {
        for (fact, call) in self.facts.iter_mut().zip(self.calls.each()) {
            fact.complete(call)?;
        }
        let file = (self.write)(None)?;
        let file = file.ok_or_else(|| internal_datafusion_err!("a spilled window without rows"))?;
        let order = Keys {
            partition: Arc::new([]),
            order: Arc::clone(&keys.order),
        };
        let mut frames = self.calls.frames().to_vec();
        let has_cume_dist = self
            .calls
            .each()
            .any(|call| matches!(call, Call::Ranking(ranking) if ranking.rank() == Rank::CumeDist));
        if has_cume_dist {
            frames.push(Frame::up_to_peers());
        }
        Ok(Reading {
            stream: self.spill.read_spill_as_stream_unbuffered(file, None)?,
            running: Running::new(&order, self.spill.schema())?,
            unread: self.written,
            batches_read: 0,
            total: self.rows,
            held: VecDeque::new(),
            from: 0,
            next: 0,
            read: 0,
            stuck: false,
            reached: vec![0..0; frames.len()],
            frames,
            has_cume_dist,
            facts: self.facts,
            calls: self.calls,
        })
    }
}

/// A window partition that is being read. Places of rows are counted over all of it.
pub(super) struct Reading {
    calls: Calls,
    facts: Vec<Fact>,
    /// Those of the calls, and the one of CUME_DIST.
    frames: Vec<Frame>,
    has_cume_dist: bool,
    /// How far each frame has come: the frame of the last row that went out.
    reached: Vec<Range<usize>>,
    running: Running,
    stream: SendableRecordBatchStream,
    /// Rows and bytes of the batches that are still on the disk.
    unread: VecDeque<(usize, usize)>,
    batches_read: usize,
    total: usize,
    held: VecDeque<RecordBatch>,
    /// The first row that is held, the next that goes out, the first that is not read.
    from: usize,
    next: usize,
    read: usize,
    /// Whether the rows that are held were not enough for the next row's frames.
    stuck: bool,
}

impl Reading {
    /// The next rows, with a column for each call; none after the last.
    pub(super) async fn next(
        &mut self,
        work: &Work,
        memory: &MemoryReservation,
    ) -> Result<Option<RecordBatch>> {
        while self.next < self.total {
            self.fill(work, memory).await?;
            let _timer = work.timer();
            if let Some(made) = self.made(work)? {
                self.forget(work, memory)?;
                return Ok(Some(made));
            }
            self.stuck = true;
        }
        Ok(None)
    }

    /// Reads on: what the next row needs, and then about as many rows as are held for the sake of
    /// earlier ones, since all are looked at again each time; fewer if memory is short.
    async fn fill(&mut self, work: &Work, memory: &MemoryReservation) -> Result<()> {
        let ready = self.read - self.next;
        let wanted = match self.stuck {
            true => 2 * ready,
            false => work.batch_size().max(self.next - self.from),
        };
        let mut needed = self.stuck || ready == 0;
        while let Some((rows, bytes)) = self.unread.front().copied() {
            if !needed && self.read - self.next >= wanted {
                break;
            }
            match memory.try_grow(work.cost(rows, bytes)) {
                Err(full) if needed => return Err(full),
                Err(_) => break,
                Ok(()) => {}
            }
            let batch = self.stream.try_next().await?;
            let batch = batch
                .filter(|batch| batch.num_rows() == rows)
                .ok_or_else(|| {
                    internal_datafusion_err!("a spill file has other rows than were written")
                })?;
            self.unread.pop_front();
            self.batches_read += 1;
            self.read += rows;
            self.held.push_back(batch);
            needed = false;
        }
        self.stuck = false;
        Ok(())
    }

    /// The rows whose frames are held whole; none if the next one's is not.
    fn made(&mut self, work: &Work) -> Result<Option<RecordBatch>> {
        let Some(schema) = self.held.front().map(RecordBatch::schema) else {
            return Ok(None);
        };
        let whole = concat_batches(&schema, &self.held)?;
        let chunk = Chunk::new(whole, &[0], work.order())?;
        let ended = self.read == self.total;
        let first = self.next - self.from;
        let mut end = chunk.rows();
        for call in self.calls.each() {
            if let Call::Shift { offset, .. } = call
                && !ended
            {
                let ahead = usize::try_from(*offset).unwrap_or(0);
                end = end.min(chunk.rows().saturating_sub(ahead));
            }
        }
        let mut ranges = Vec::with_capacity(self.frames.len());
        for (frame, reached) in self.frames.iter().zip(&self.reached) {
            let held = |at: usize| at.saturating_sub(self.from);
            let reached = held(reached.start)..held(reached.end);
            let rows = first..end.max(first);
            let found = frame.of_part(&chunk, work.order(), rows, reached, ended)?;
            end = end.min(first + found.len());
            ranges.push(found);
        }
        if end <= first {
            return Ok(None);
        }
        let rows = first..end;
        for (ranges, reached) in ranges.iter_mut().zip(&mut self.reached) {
            ranges.truncate(rows.len());
            if let Some(last) = ranges.last() {
                *reached = self.from + last.start..self.from + last.end;
            }
        }
        let out = chunk.batch.slice(first, rows.len());
        let mut places = Vec::with_capacity(rows.len());
        self.running.each(&out, |place| {
            places.push(place);
            Ok(())
        })?;
        let part = Part {
            chunk: &chunk,
            rows,
            places: &places,
            ranges: &ranges,
        };
        let mut columns = Vec::with_capacity(self.facts.len());
        for (call, fact) in self.calls.each().zip(&self.facts) {
            columns.push(self.column(&part, call, fact)?);
        }
        self.next += out.num_rows();
        with_columns(work.schema(), &out, columns).map(Some)
    }

    fn column(&self, part: &Part, call: &Call, fact: &Fact) -> Result<ArrayRef> {
        let chunk = part.chunk;
        let evaluated =
            |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&chunk.batch)?.into_array(chunk.rows());
        let rows = part.rows.len();
        let ranges = |frame: usize| {
            part.ranges
                .get(frame)
                .map(Vec::as_slice)
                .unwrap_or_default()
        };
        match call {
            Call::Ranking(ranking) => self.ranks(part, ranking.rank(), ranking.buckets()),
            Call::Shift {
                input,
                offset,
                otherwise,
                ignore_nulls,
            } => {
                let otherwise = otherwise.as_ref().map(evaluated).transpose()?;
                let input = evaluated(input)?;
                let all = picks::shift(chunk, &input, *offset, otherwise.as_ref(), *ignore_nulls)?;
                Ok(all.slice(part.rows.start, rows))
            }
            Call::NthValue {
                input,
                nth,
                ignore_nulls,
                frame,
            } => match fact {
                Fact::Nth { found, .. } => {
                    let whole = self.frames.get(*frame).is_some_and(Frame::is_whole);
                    let end = |row: &Range<usize>| match whole {
                        true => self.total,
                        false => self.from + row.end,
                    };
                    match found {
                        Some((at, value)) => taken(
                            value,
                            ranges(*frame)
                                .iter()
                                .map(|row| (end(row) > *at).then_some(0)),
                        ),
                        None => taken(&evaluated(input)?, (0..rows).map(|_| None)),
                    }
                }
                _ => picks::nth_value(&evaluated(input)?, ranges(*frame), *nth, *ignore_nulls),
            },
            Call::Aggregate { function, frame } => {
                let ranges = ranges(*frame);
                match fact {
                    Fact::Whole(Some(known)) => {
                        taken(&function.result(known)?, (0..rows).map(|_| Some(0)))
                    }
                    Fact::Growing(before) => {
                        function.beside(&chunk.batch, ranges, before.as_ref(), None)
                    }
                    Fact::Shrinking(after) => {
                        let after = after.get(self.batches_read);
                        function.beside(&chunk.batch, ranges, None, after)
                    }
                    _ => function.each(&chunk.batch, ranges),
                }
            }
        }
    }

    fn ranks(&self, part: &Part, rank: Rank, buckets: usize) -> Result<ArrayRef> {
        let total = self.total;
        let ints = |of: &dyn Fn(usize, &Place) -> usize| -> Result<ArrayRef> {
            let ranks = part.places.iter().enumerate();
            let ranks = ranks.map(|(row, place)| int(of(self.next + row, place)));
            Ok(Arc::new(Int32Array::from(
                ranks.collect::<Result<Vec<_>>>()?,
            )))
        };
        match rank {
            Rank::RowNumber => ints(&|row, _| row + 1),
            Rank::Rank => ints(&|_, place| place.before() + 1),
            Rank::DenseRank => ints(&|_, place| place.groups()),
            Rank::Ntile => {
                let (size, padded) = (total / buckets, total % buckets);
                // The first buckets have a row more.
                let longer = padded * (size + 1);
                ints(&|row, _| match row.checked_sub(longer) {
                    Some(rest) if size > 0 => padded + rest / size + 1,
                    _ => row / (size + 1) + 1,
                })
            }
            Rank::PercentRank => {
                let ranks = part.places.iter().map(|place| match total {
                    1 => 0.0,
                    total => place.before() as f64 / (total - 1) as f64,
                });
                Ok(Arc::new(Float64Array::from_iter_values(ranks)))
            }
            Rank::CumeDist => {
                let peers = part.ranges.last().filter(|_| self.has_cume_dist);
                let ends = peers.into_iter().flatten().map(|row| self.from + row.end);
                let ranks = ends.map(|end| end as f64 / total as f64);
                Ok(Arc::new(Float64Array::from_iter_values(ranks)))
            }
        }
    }

    /// Lets go of the batches that no frame reaches back to.
    fn forget(&mut self, work: &Work, memory: &MemoryReservation) -> Result<()> {
        let mut keep = self.next;
        for (frame, reached) in self.frames.iter().zip(&self.reached) {
            match (frame.has_lower(), frame.has_upper()) {
                (true, _) => keep = keep.min(reached.start),
                (false, true) => keep = keep.min(reached.end),
                (false, false) => {}
            }
        }
        for call in self.calls.each() {
            if let Call::Shift { offset, .. } = call {
                let back = usize::try_from(offset.min(&0).unsigned_abs()).unwrap_or(usize::MAX);
                keep = keep.min(self.next.saturating_sub(back));
            }
        }
        while let Some(batch) = self.held.front()
            && self.from + batch.num_rows() <= keep
        {
            for (call, fact) in self.calls.each().zip(&mut self.facts) {
                if let (Fact::Growing(before), Call::Aggregate { function, .. }) = (fact, call) {
                    let rows = function.partial(batch)?;
                    *before = Some(match before.take() {
                        Some(before) => function.joined(&before, &rows)?,
                        None => rows,
                    });
                }
            }
            self.from += batch.num_rows();
            self.held.pop_front();
        }
        let held = self.held.iter();
        let held: usize = held
            .map(|batch| work.cost(batch.num_rows(), bytes(batch)))
            .sum();
        memory.try_resize(held + self.facts.iter().map(Fact::size).sum::<usize>())
    }
}

/// Rows that go out, among those that are held.
struct Part<'a> {
    chunk: &'a Chunk,
    rows: Range<usize>,
    places: &'a [Place],
    /// Of each frame the rows that are held of it.
    ranges: &'a [Vec<Range<usize>>],
}
