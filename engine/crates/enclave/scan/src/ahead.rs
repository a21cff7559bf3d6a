//! Reading ahead: what a scan reads next of files that lie far away is asked for while it decodes
//! what it has.
//!
//! Which columns that is, the row groups before say: what was read whole of the last one will be
//! read whole of the next. So where a condition left nothing of a row group, and the columns behind
//! it unread, the next one's are not asked for either. What was asked for and is not read after all
//! costs its bytes. All that waits here is counted in the task's memory, and there is at most
//! [`MOST`] of it.
//!
//! Ranges are looked at before they are asked for and bytes when they are taken, as all others:
//! this only asks earlier. Where reading must not depend on data nothing is read ahead.

use std::{
    collections::HashSet,
    io,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use coffer_format::footer;
use coffer_protocol::storage::Storage;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::{
    ParquetAccessPlan, ParquetFileMetrics, RowGroupAccessPlanFilter,
};
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_pruning::{PruningPredicate, PruningPredicateBuilder};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use parquet::{file::metadata::ParquetMetaData, schema::types::ColumnPath};

use crate::{
    ReadLimit, ScanFiles,
    files::OpenedFiles,
    reader::{SealedFile, span},
};

/// Bytes that wait for one scan.
const MOST: u64 = 32 << 20;
/// Row groups that are read ahead, where they are small.
const GROUPS: usize = 4;

/// What one scan reads ahead.
pub(crate) struct Ahead {
    store: Arc<dyn Storage>,
    limit: Option<Arc<ReadLimit>>,
    /// In the order in which they are read.
    groups: Vec<Group>,
    memory: MemoryReservation,
    state: Mutex<State>,
}

/// A row group, with the chunks of the scan's columns.
struct Group {
    path: Arc<str>,
    size: u64,
    chunks: Vec<(ColumnPath, Range<u64>)>,
}

#[derive(Default)]
struct State {
    /// The row group that is read.
    current: usize,
    /// Of which these columns were read whole,
    read: HashSet<ColumnPath>,
    /// and these of the one before.
    before: HashSet<ColumnPath>,
    asked: Vec<Asked>,
}

/// Column chunks of one row group.
struct Asked {
    group: usize,
    ranges: Vec<Range<u64>>,
    reading: Reading,
    /// For as long as they wait.
    _memory: MemoryReservation,
}

enum Reading {
    Underway(BoxFuture<'static, io::Result<Vec<Bytes>>>),
    Here(Vec<Bytes>),
}

impl Ahead {
    /// For the files of a scan that reads these columns, and no row groups that the condition says
    /// have nothing. None where nothing is read ahead.
    pub(crate) fn of(
        task: &ScanFiles,
        opened: &OpenedFiles,
        schema: &SchemaRef,
        condition: Option<&Arc<dyn PhysicalExpr>>,
        memory: MemoryReservation,
    ) -> Option<Arc<Self>> {
        let is_far = |slice: &str| task.store.is_far(slice);
        if task.whole.is_some() || !task.slices.iter().all(|slice| is_far(&slice.path)) {
            return None;
        }
        let condition = condition.and_then(|condition| {
            PruningPredicateBuilder::new()
                .with_file_schema(Arc::clone(schema))
                .build(Arc::clone(condition))
        });
        let files = opened.files.iter();
        let groups: Vec<Group> = files
            .flat_map(|file| groups(file, schema, condition.as_deref()))
            .collect();
        (groups.len() > 1).then(|| {
            Arc::new(Self {
                store: Arc::clone(&task.store),
                limit: task.limit.clone(),
                groups,
                memory,
                state: Mutex::default(),
            })
        })
    }

    /// Which of these ranges were asked for.
    pub(crate) fn asked<'a>(
        &self,
        file: &SealedFile,
        ranges: &'a [Range<u64>],
    ) -> HashSet<&'a Range<u64>> {
        let state = self.state.lock();
        let asked = state.asked.iter().filter(|asked| self.is_of(asked, file));
        let asked: HashSet<&Range<u64>> = asked.flat_map(|asked| &asked.ranges).collect();
        ranges
            .iter()
            .filter(|range| asked.contains(range))
            .collect()
    }

    fn is_of(&self, asked: &Asked, file: &SealedFile) -> bool {
        let group = self.groups.get(asked.group);
        group.is_some_and(|group| group.path == file.path)
    }

    /// What of these ranges was asked for, by its position among them.
    pub(crate) async fn take(
        &self,
        file: &SealedFile,
        ranges: &[Range<u64>],
    ) -> Vec<Option<Bytes>> {
        let mut taken = vec![None; ranges.len()];
        for mut asked in self.asked_of(file, ranges) {
            let bytes = match asked.reading {
                Reading::Here(bytes) => bytes,
                // Whoever reads it once more hears why.
                Reading::Underway(reading) => match reading.await {
                    Ok(bytes) => bytes,
                    Err(_) => continue,
                },
            };
            let mut rest = (Vec::new(), Vec::new());
            for (range, bytes) in asked.ranges.into_iter().zip(bytes) {
                match ranges.iter().position(|wanted| *wanted == range) {
                    Some(at) => {
                        if let Some(taken) = taken.get_mut(at) {
                            *taken = Some(bytes);
                        }
                    }
                    None => {
                        rest.0.push(range);
                        rest.1.push(bytes);
                    }
                }
            }
            if !rest.0.is_empty() {
                asked.ranges = rest.0;
                asked.reading = Reading::Here(rest.1);
                self.state.lock().asked.push(asked);
            }
        }
        taken
    }

    /// Those questions of a file that some of these ranges were asked for with.
    fn asked_of(&self, file: &SealedFile, ranges: &[Range<u64>]) -> Vec<Asked> {
        let wanted = |asked: &mut Asked| {
            self.is_of(asked, file) && asked.ranges.iter().any(|range| ranges.contains(range))
        };
        self.state.lock().asked.extract_if(.., wanted).collect()
    }

    /// These ranges are being read, so what follows is asked for.
    pub(crate) fn follow(&self, file: &SealedFile, ranges: &[Range<u64>]) {
        let mut state = self.state.lock();
        let Some((at, columns)) = self.find(state.current, file, ranges) else {
            return;
        };
        if at != state.current {
            state.before = std::mem::take(&mut state.read);
            state.current = at;
            // What was passed by is not read any more.
            state.asked.retain(|asked| asked.group >= at);
        }
        state.read.extend(columns);
        let next = self.groups.iter().enumerate().skip(at.saturating_add(1));
        for (number, group) in next.take(GROUPS) {
            if !self.ask(&mut state, number, group) {
                return;
            }
        }
    }

    /// The row group that ranges are of, at this one or behind it, and the columns whose chunks are
    /// among them.
    fn find(
        &self,
        from: usize,
        file: &SealedFile,
        ranges: &[Range<u64>],
    ) -> Option<(usize, Vec<ColumnPath>)> {
        let behind = self.groups.iter().enumerate().skip(from);
        for (at, group) in behind.filter(|(_, group)| group.path == file.path) {
            let inside = |range: &Range<u64>| {
                let mut chunks = group.chunks.iter();
                chunks.any(|(_, chunk)| chunk.start <= range.start && range.end <= chunk.end)
            };
            if ranges.iter().any(inside) {
                let whole = group.chunks.iter();
                let whole = whole.filter(|(_, chunk)| ranges.contains(chunk));
                return Some((at, whole.map(|(column, _)| column.clone()).collect()));
            }
        }
        None
    }

    /// Asks for what will be read of a row group and was not asked for; false where there is no
    /// more room.
    fn ask(&self, state: &mut State, number: usize, group: &Group) -> bool {
        let asked = state.asked.iter().filter(|asked| asked.group == number);
        let asked: Vec<&Range<u64>> = asked.flat_map(|asked| &asked.ranges).collect();
        let waiting = state.asked.iter().flat_map(|asked| &asked.ranges);
        let mut room = MOST.saturating_sub(waiting.map(span).sum());
        let mut all = true;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (column, range) in &group.chunks {
            let follows = state.read.contains(column) || state.before.contains(column);
            if !follows || asked.contains(&range) || range.is_empty() || range.end > group.size {
                continue;
            }
            match room.checked_sub(span(range)) {
                Some(left) => room = left,
                None => {
                    all = false;
                    continue;
                }
            }
            ranges.push(range.clone());
        }
        if ranges.is_empty() {
            return all;
        }
        let bytes = ranges.iter().map(span).sum();
        let limited = self
            .limit
            .as_ref()
            .is_some_and(|limit| limit.left() < bytes);
        let memory = self.memory.new_empty();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if limited || memory.try_grow(bytes).is_err() {
            return false;
        }
        let reading = self.reading(group, &ranges);
        state.asked.push(Asked {
            group: number,
            ranges,
            reading,
            _memory: memory,
        });
        all
    }

    /// Begins to read.
    fn reading(&self, group: &Group, ranges: &[Range<u64>]) -> Reading {
        let (store, path) = (Arc::clone(&self.store), Arc::clone(&group.path));
        let (size, ranges) = (group.size, ranges.to_vec());
        let mut reading: BoxFuture<'static, io::Result<Vec<Bytes>>> =
            Box::pin(async move { store.ranges_of(&path, size, &ranges).await });
        // So that the question goes out: whoever takes the answer waits for it.
        let mut nobody = Context::from_waker(Waker::noop());
        match Pin::new(&mut reading).poll(&mut nobody) {
            Poll::Ready(Ok(bytes)) => Reading::Here(bytes),
            Poll::Ready(Err(error)) => Reading::Underway(Box::pin(async { Err(error) })),
            Poll::Pending => Reading::Underway(reading),
        }
    }
}

/// The row groups of a file that are read, in order.
fn groups(
    file: &PartitionedFile,
    schema: &SchemaRef,
    condition: Option<&PruningPredicate>,
) -> Vec<Group> {
    let (Some(sealed), Some(plan)) = (
        file.extension::<SealedFile>(),
        file.extension::<ParquetAccessPlan>(),
    ) else {
        return Vec::new();
    };
    let plan = pruned(plan, &sealed.metadata, schema, condition);
    let read = plan.row_group_indexes().into_iter();
    let read = read.filter_map(|at| sealed.metadata.row_groups().get(at));
    read.map(|group| {
        let columns = group.columns().iter();
        let columns = columns.filter(|column| {
            let name = footer::root(column.column_path());
            schema.column_with_name(name).is_some()
        });
        Group {
            path: Arc::clone(&sealed.path),
            size: sealed.size,
            chunks: columns
                .map(|column| {
                    let (start, length) = column.byte_range();
                    let range = start..start.saturating_add(length);
                    (column.column_path().clone(), range)
                })
                .collect(),
        }
    })
    .collect()
}

/// As the Parquet source will prune.
fn pruned(
    plan: &ParquetAccessPlan,
    metadata: &ParquetMetaData,
    schema: &SchemaRef,
    condition: Option<&PruningPredicate>,
) -> ParquetAccessPlan {
    let Some(condition) = condition else {
        return plan.clone();
    };
    let mut filter = RowGroupAccessPlanFilter::new(plan.clone());
    filter.prune_by_statistics(
        schema,
        metadata.file_metadata().schema_descr(),
        metadata.row_groups(),
        condition,
        &ParquetFileMetrics::new(0, "", &ExecutionPlanMetricsSet::new()),
    );
    filter.build()
}
