//! The operator: window partitions are gathered, and worked on as soon as they make a batch.
//!
//! But for ranks of the rows so far, a window partition is in memory whole, and counted in the pool
//! with what its columns take while they are made; one that does not fit there goes by way of the
//! disk ([`super::spilled`]).

use std::{collections::VecDeque, fmt, mem, sync::Arc};

use arrow::{
    compute::concat_batches,
    datatypes::{Field, Schema, SchemaRef},
    record_batch::RecordBatch,
    row::OwnedRow,
};
use datafusion_common::{Result, tree_node::TreeNodeRecursion};
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext,
    memory_pool::{MemoryConsumer, MemoryReservation},
};
use datafusion_physical_expr::EquivalenceProperties;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SpillManager,
    coop::make_cooperative,
    metrics::{
        BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, ScopedTimerGuard, SpillMetrics,
    },
    stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    KeyRows, Keys,
    calls::{Calls, with_columns},
    chunk::Chunk,
    running::Running,
    spilled::{Reading, Writing},
};
use crate::operator::{operator_basics, streamed};

/// The child's rows, which come sorted by the keys, with a column for each call.
#[derive(Debug)]
pub(super) struct WindowExec {
    child: Arc<dyn ExecutionPlan>,
    keys: Keys,
    calls: Calls,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl WindowExec {
    pub(super) fn new(child: Arc<dyn ExecutionPlan>, keys: Keys, calls: Calls) -> Self {
        let input = child.schema();
        let fields: Vec<Field> = input
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .chain(calls.fields().cloned())
            .collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        // The child's columns are where they were.
        let orderings = child.properties().equivalence_properties().oeq_class();
        let properties = streamed(
            EquivalenceProperties::new_with_orderings(
                Arc::clone(&schema),
                orderings.iter().cloned(),
            ),
            child.properties().output_partitioning().clone(),
        );
        Self {
            child,
            keys,
            calls,
            schema,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for WindowExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WindowExec: calls={}", self.calls.len())
    }
}

impl ExecutionPlan for WindowExec {
    operator_basics!(one child, |plan, child| Self::new(
                child,
                plan.keys.clone(),
                plan.calls.clone(),
            ), else "a window has one child");

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.child.schema();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        if let Some(ranks) = self.calls.running() {
            let mut running = Running::new(&self.keys, &input)?;
            let schema = Arc::clone(&self.schema);
            let rows = self.child.execute(partition, context)?.map(move |batch| {
                let batch = batch?;
                let _timer = metrics.elapsed_compute().timer();
                let columns = running.columns(&batch, &ranks)?;
                let made = with_columns(&schema, &batch, columns)?;
                metrics.record_output(made.num_rows());
                Ok(made)
            });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(
                Arc::clone(&self.schema),
                rows,
            )));
        }
        let run = Run {
            work: Work {
                calls: self.calls.clone(),
                schema: Arc::clone(&self.schema),
                order: KeyRows::some(&self.keys.order, &input)?,
                batch_size: context.session_config().batch_size().max(1),
                metrics,
            },
            gathered: Gathered {
                partitions: KeyRows::some(&self.keys.partition, &input)?,
                last: None,
                batches: vec![],
                rows: 0,
                starts: vec![],
            },
            memory: MemoryConsumer::new(format!("Window[{partition}]"))
                .register(context.memory_pool()),
            spill: SpillManager::new(
                context.runtime_env(),
                SpillMetrics::new(&self.metrics, partition),
                Arc::clone(&input),
            ),
            keys: self.keys.clone(),
            ready: VecDeque::new(),
            pending: None,
            phase: Phase::Gathering,
            ended: false,
            input: self.child.execute(partition, context)?,
        };
        let rows = stream::try_unfold(run, |mut run| async {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        // One batch of input makes many: without a pause among them a task could not be cancelled.
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            rows,
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One task's run.
struct Run {
    input: SendableRecordBatchStream,
    work: Work,
    gathered: Gathered,
    memory: MemoryReservation,
    spill: SpillManager,
    keys: Keys,
    /// What goes out next.
    ready: VecDeque<RecordBatch>,
    /// What comes before more input.
    pending: Option<RecordBatch>,
    phase: Phase,
    ended: bool,
}

/// What is done with the window partition at hand.
enum Phase {
    Gathering,
    /// It does not fit in memory.
    Writing(Box<Writing>),
    Reading(Box<Reading>),
}

impl Run {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.work.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if self.ended && matches!(self.phase, Phase::Gathering) {
                self.memory.free();
                return Ok(None);
            }
            self.step().await?;
        }
    }

    async fn step(&mut self) -> Result<()> {
        match mem::replace(&mut self.phase, Phase::Gathering) {
            Phase::Gathering => match self.take().await? {
                Some(batch) => {
                    let metrics = self.work.metrics.clone();
                    let _timer = metrics.elapsed_compute().timer();
                    self.gather(batch)
                }
                None => {
                    self.ended = true;
                    let (batches, starts) = self.gathered.take();
                    let _timer = self.work.timer();
                    self.work.done(&batches, &starts, &mut self.ready)
                }
            },
            Phase::Writing(mut writing) => {
                let batch = self.take().await?;
                let metrics = self.work.metrics.clone();
                let _timer = metrics.elapsed_compute().timer();
                let rest = match batch {
                    Some(batch) => {
                        let own = self.gathered.own(&batch, writing.has_rows())?;
                        let most = self.work.batch_size;
                        writing.append(&batch.slice(0, own), most, &self.memory)?;
                        if own == batch.num_rows() {
                            self.phase = Phase::Writing(writing);
                            return Ok(());
                        }
                        Some(batch.slice(own, batch.num_rows() - own))
                    }
                    None => None,
                };
                self.ended = rest.is_none();
                self.pending = rest;
                self.phase = Phase::Reading(Box::new(writing.finish(&self.keys)?));
                Ok(())
            }
            Phase::Reading(mut reading) => {
                match reading.next(&self.work, &self.memory).await? {
                    Some(batch) => {
                        self.work.cut(&batch, &mut self.ready);
                        self.phase = Phase::Reading(reading);
                    }
                    None => {
                        self.memory.free();
                    }
                }
                Ok(())
            }
        }
    }

    /// The next rows to come, which are some.
    async fn take(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(pending) = self.pending.take() {
            return Ok(Some(pending));
        }
        while let Some(batch) = self.input.try_next().await? {
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn gather(&mut self, batch: RecordBatch) -> Result<()> {
        let cost = self.work.cost_of(&batch);
        let mut grown = self.memory.try_grow(cost);
        if grown.is_err() && self.gathered.complete() > 0 {
            self.finish_complete()?;
            grown = self.memory.try_grow(cost);
        }
        if let Err(full) = grown {
            let Some(mut writing) = Writing::new(&self.work.calls, &self.spill)? else {
                return Err(full);
            };
            self.memory.free();
            for batch in self.gathered.take().0 {
                writing.append(&batch, self.work.batch_size, &self.memory)?;
            }
            self.pending = Some(batch);
            self.phase = Phase::Writing(Box::new(writing));
            return Ok(());
        }
        self.gathered.add(batch)?;
        match self.gathered.complete() >= self.work.batch_size {
            true => self.finish_complete(),
            false => Ok(()),
        }
    }

    fn finish_complete(&mut self) -> Result<()> {
        let (batches, starts) = self.gathered.take_complete();
        self.work.done(&batches, &starts, &mut self.ready)?;
        let left = self.gathered.batches.iter();
        self.memory
            .try_resize(left.map(|batch| self.work.cost_of(batch)).sum())
    }
}

/// Bytes of a batch's own rows: a slice counts for what it is.
pub(super) fn bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns
        .map(|column| {
            let data = column.to_data();
            data.get_slice_memory_size()
                .unwrap_or_else(|_| column.get_array_memory_size())
        })
        .sum()
}

/// Rows that wait for the end of their window partition.
struct Gathered {
    /// None: all rows are one window partition.
    partitions: Option<KeyRows>,
    /// The keys of the last row.
    last: Option<OwnedRow>,
    batches: Vec<RecordBatch>,
    rows: usize,
    /// Which of the rows begin a window partition.
    starts: Vec<usize>,
}

impl Gathered {
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        match &self.partitions {
            None if self.rows == 0 => self.starts.push(0),
            None => {}
            Some(partitions) => {
                let keys = partitions.of(&batch)?;
                let known = self.last.as_ref().map(OwnedRow::row);
                let mut before = known;
                for row in 0..rows {
                    let key = keys.row(row);
                    if before != Some(key) {
                        self.starts.push(self.rows + row);
                    }
                    before = Some(key);
                }
                self.last = rows.checked_sub(1).map(|last| keys.row(last).owned());
            }
        }
        self.rows += rows;
        self.batches.push(batch);
        Ok(())
    }

    /// How many rows are of window partitions that have ended.
    fn complete(&self) -> usize {
        self.starts.last().copied().unwrap_or_default()
    }

    /// Those rows, and where window partitions begin among them.
    fn take_complete(&mut self) -> (Vec<RecordBatch>, Vec<usize>) {
        let complete = self.complete();
        let mut starts = mem::take(&mut self.starts);
        starts.pop();
        self.starts.push(0);
        self.rows -= complete;
        let mut taken = vec![];
        let mut left = complete;
        for batch in mem::take(&mut self.batches) {
            let rows = batch.num_rows().min(left);
            left -= rows;
            if rows > 0 {
                taken.push(batch.slice(0, rows));
            }
            if rows < batch.num_rows() {
                self.batches
                    .push(batch.slice(rows, batch.num_rows() - rows));
            }
        }
        (taken, starts)
    }

    /// How many of a batch's first rows are of the window partition whose rows came last; of the
    /// one that begins with it, if that has not `begun`.
    fn own(&mut self, batch: &RecordBatch, begun: bool) -> Result<usize> {
        let Some(partitions) = &self.partitions else {
            return Ok(batch.num_rows());
        };
        let keys = partitions.of(batch)?;
        let known = match (&self.last, begun) {
            (Some(last), true) => last.clone(),
            _ => keys.row(0).owned(),
        };
        let own = (0..batch.num_rows()).take_while(|row| keys.row(*row) == known.row());
        let own = own.count();
        self.last = Some(known);
        Ok(own)
    }

    fn take(&mut self) -> (Vec<RecordBatch>, Vec<usize>) {
        self.rows = 0;
        (mem::take(&mut self.batches), mem::take(&mut self.starts))
    }
}

/// What is done to whole window partitions.
pub(super) struct Work {
    calls: Calls,
    schema: SchemaRef,
    order: Option<KeyRows>,
    batch_size: usize,
    metrics: BaselineMetrics,
}

impl Work {
    pub(super) fn batch_size(&self) -> usize {
        self.batch_size
    }

    pub(super) fn order(&self) -> Option<&KeyRows> {
        self.order.as_ref()
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn timer(&self) -> ScopedTimerGuard<'_> {
        self.metrics.elapsed_compute().timer()
    }

    /// Bytes that rows take: put together they are there twice; then the batches go, and come keys
    /// and results.
    pub(super) fn cost(&self, rows: usize, bytes: usize) -> usize {
        2 * bytes + rows * self.calls.scratch()
    }

    fn cost_of(&self, batch: &RecordBatch) -> usize {
        self.cost(batch.num_rows(), bytes(batch))
    }

    fn done(
        &self,
        batches: &[RecordBatch],
        starts: &[usize],
        ready: &mut VecDeque<RecordBatch>,
    ) -> Result<()> {
        let Some(first) = batches.first() else {
            return Ok(());
        };
        let whole = match batches {
            [one] => one.clone(),
            _ => concat_batches(first.schema_ref(), batches)?,
        };
        let chunk = Chunk::new(whole, starts, self.order.as_ref())?;
        let columns = self.calls.columns(&chunk, self.order.as_ref())?;
        self.cut(&with_columns(&self.schema, &chunk.batch, columns)?, ready);
        Ok(())
    }

    fn cut(&self, made: &RecordBatch, ready: &mut VecDeque<RecordBatch>) {
        let rows = made.num_rows();
        for start in (0..rows).step_by(self.batch_size) {
            ready.push_back(made.slice(start, self.batch_size.min(rows - start)));
        }
    }
}
