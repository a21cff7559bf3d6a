//! Broadcasts of a session: each is read once, by the first task that needs it, and shared by all
//! that come after.
//!
//! What pins a broadcast is the list of its producers' attempts (docs/decisions/0008): the same
//! list is the same rows. Who comes while another task is reading waits, and asks its own executor
//! for nothing. If the reading task fails or is cancelled, the next one that waits reads with its
//! own link; a failure is never kept.

use std::{collections::HashMap, sync::Arc};

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use coffer_sealing::{AttemptId, StageId};
use datafusion_common::{Result, utils::memory::RecordBatchMemoryCounter};
use datafusion_execution::{SendableRecordBatchStream, memory_pool::MemoryReservation};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;

/// A broadcast up to this size becomes one batch, which a join then builds from without another
/// copy.
const ONE_BATCH: usize = 256 << 20;

/// Which broadcast: of which stage, and which runs of its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BroadcastKey {
    pub(crate) producer: StageId,
    pub(crate) attempts: Arc<Vec<AttemptId>>,
}

/// The rows of a broadcast, in memory that is counted in the pool for as long as they are here.
pub(crate) struct Loaded {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    _reservation: MemoryReservation,
}

type Entry = tokio::sync::Mutex<Option<Arc<Loaded>>>;

/// The broadcasts of one session. They go with it.
#[derive(Default)]
pub(crate) struct Broadcasts(Mutex<HashMap<BroadcastKey, Arc<Entry>>>);

impl Loaded {
    /// Reads all of it. `rows` has checked each stream whole by the time it ends.
    pub(crate) async fn read(
        mut rows: SendableRecordBatchStream,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let schema = rows.schema();
        let mut batches = Vec::new();
        // Columns of a frame share its buffer.
        let mut counter = RecordBatchMemoryCounter::new();
        while let Some(batch) = rows.try_next().await? {
            if batch.num_rows() > 0 {
                reservation.try_grow(counter.count_batch(&batch))?;
                batches.push(batch);
            }
        }
        let size = reservation.size();
        if batches.len() > 1 && size <= ONE_BATCH {
            reservation.try_grow(size)?;
            batches = vec![concat_batches(&schema, &batches)?];
            let mut counter = RecordBatchMemoryCounter::new();
            let now = batches.iter().map(|batch| counter.count_batch(batch)).sum();
            reservation.try_resize(now)?;
        }
        Ok(Self {
            schema,
            batches,
            _reservation: reservation,
        })
    }

    /// The rows, as often as they are asked for.
    pub(crate) fn stream(self: &Arc<Self>) -> SendableRecordBatchStream {
        let rows = stream::iter(self.batches.clone().into_iter().map(Ok));
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            rows,
        ))
    }
}

impl Broadcasts {
    /// The broadcast, read by `load` if it is not here.
    pub(crate) async fn get(
        &self,
        key: BroadcastKey,
        load: impl Future<Output = Result<Loaded>>,
    ) -> Result<Arc<Loaded>> {
        let entry = {
            let mut entries = self.0.lock();
            // Rows of runs that no longer count serve nobody: their lists are refused.
            entries.retain(|held, _| held.producer != key.producer || *held == key);
            Arc::clone(entries.entry(key).or_default())
        };
        // Held while reading. A task that ends here, for whatever reason, lets go of it with
        // nothing entered.
        let mut held = entry.lock().await;
        if let Some(loaded) = &*held {
            return Ok(Arc::clone(loaded));
        }
        let loaded = Arc::new(load.await?);
        *held = Some(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Drops what no task holds or waits for. Who needs it later reads it again.
    pub(crate) fn drop_idle(&self) {
        self.0.lock().retain(|_, entry| {
            let held = entry.try_lock().map_or(true, |held| {
                held.as_ref()
                    .is_some_and(|loaded| Arc::strong_count(loaded) > 1)
            });
            held || Arc::strong_count(entry) > 1
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use arrow::{
        array::Int64Array,
        datatypes::{DataType, Field, Schema},
    };
    use datafusion_common::DataFusionError;
    use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    fn rows(values: Vec<Vec<i64>>) -> SendableRecordBatchStream {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let of = Arc::clone(&schema);
        let batches: Vec<_> = values
            .into_iter()
            .map(|values| {
                Ok(RecordBatch::try_new(
                    Arc::clone(&of),
                    vec![Arc::new(Int64Array::from(values))],
                )?)
            })
            .collect();
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
    }

    fn key(attempt: u8) -> BroadcastKey {
        BroadcastKey {
            producer: StageId(1),
            attempts: Arc::new(vec![AttemptId([attempt; 16])]),
        }
    }

    fn pool(bytes: usize) -> Arc<dyn MemoryPool> {
        Arc::new(GreedyMemoryPool::new(bytes))
    }

    fn reservation(pool: &Arc<dyn MemoryPool>) -> MemoryReservation {
        MemoryConsumer::new("test").register(pool)
    }

    async fn slow(reads: &AtomicUsize, pool: &Arc<dyn MemoryPool>) -> Result<Loaded> {
        reads.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        Loaded::read(rows(vec![vec![1], vec![2, 3]]), reservation(pool)).await
    }

    #[tokio::test]
    async fn tasks_that_come_at_once_read_once() {
        let (broadcasts, reads, pool) = (Broadcasts::default(), AtomicUsize::new(0), pool(1 << 20));
        let (a, b) = tokio::join!(
            broadcasts.get(key(1), slow(&reads, &pool)),
            broadcasts.get(key(1), slow(&reads, &pool))
        );
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(reads.load(Ordering::SeqCst), 1);
        assert_eq!(a.batches.len(), 1, "small batches are put together");
        for _ in 0..2 {
            let all: Vec<RecordBatch> = a.stream().try_collect().await.unwrap();
            assert_eq!(all.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
        }
        assert_eq!(
            pool.reserved(),
            RecordBatchMemoryCounter::new().count_batch(&a.batches[0])
        );
    }

    #[tokio::test]
    async fn a_reader_that_fails_or_is_cancelled_makes_way_for_the_next() {
        let (broadcasts, reads, pool) = (Broadcasts::default(), AtomicUsize::new(0), pool(1 << 20));
        let failing = async { Err(DataFusionError::Internal("no".to_owned())) };
        let (failed, read) = tokio::join!(
            broadcasts.get(key(1), failing),
            broadcasts.get(key(1), slow(&reads, &pool))
        );
        assert!(failed.is_err());
        assert_eq!(read.unwrap().batches[0].num_rows(), 3);

        let never = broadcasts.get(key(2), std::future::pending());
        let cancelled = tokio::time::timeout(Duration::from_millis(5), never).await;
        assert!(cancelled.is_err());
        broadcasts.get(key(2), slow(&reads, &pool)).await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn what_no_task_holds_can_be_dropped_and_read_again() {
        let (broadcasts, reads, pool) = (Broadcasts::default(), AtomicUsize::new(0), pool(1 << 20));
        let held = broadcasts.get(key(1), slow(&reads, &pool)).await.unwrap();
        broadcasts.drop_idle();
        assert!(pool.reserved() > 0);
        drop(held);
        broadcasts.drop_idle();
        assert_eq!(pool.reserved(), 0);
        broadcasts.get(key(1), slow(&reads, &pool)).await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn memory_is_counted_and_given_back() {
        let (broadcasts, reads, small) = (Broadcasts::default(), AtomicUsize::new(0), pool(8));
        let full = broadcasts.get(key(1), slow(&reads, &small)).await;
        assert!(matches!(
            full.err(),
            Some(DataFusionError::ResourcesExhausted(_))
        ));
        assert_eq!(small.reserved(), 0);

        let pool = pool(1 << 20);
        broadcasts.get(key(1), slow(&reads, &pool)).await.unwrap();
        let one = pool.reserved();
        broadcasts.get(key(2), slow(&reads, &pool)).await.unwrap();
        assert_eq!(pool.reserved(), one, "what other runs made was dropped");
        drop(broadcasts);
        assert_eq!(pool.reserved(), 0);
    }
}
