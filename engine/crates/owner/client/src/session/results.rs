//! What of a session has come here: which partitions were taken, what they were made from, and rows
//! that wait for the part of the plan that runs at the client.

use std::collections::{HashMap, HashSet};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use bytes::Bytes;

use crate::{ClientError, origins::Origins, session::Stages};

/// Rows that are here: stream by stream, as they came.
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) streams: Vec<Vec<RecordBatch>>,
    /// What they were made from.
    pub(crate) origins: Origins,
}

/// By stage and execution: of results, samples and writes.
#[derive(Default)]
pub(crate) struct Results {
    taken: HashMap<(u32, u64), HashSet<u32>>,
    origins: HashMap<(u32, u64), Origins>,
    /// Of queries that one engine runs whole: the run that the partitions are of.
    runs: HashMap<(u32, u64), Bytes>,
    /// Rows that wait here, by number from 1.
    kept: HashMap<u32, Rows>,
    last_kept: u32,
}

impl Results {
    /// What the partitions taken so far were made from.
    pub(crate) fn origins(&self, stage: u32, execution: u64) -> Origins {
        self.origins
            .get(&(stage, execution))
            .cloned()
            .unwrap_or_default()
    }

    /// What the rows of all results that came here were made from. The driver computes values from
    /// such rows; which ones it took is not asked, so a value has the origins of all that it may
    /// have been computed from.
    pub(super) fn origins_here(&self, stages: &Stages) -> Result<Origins, ClientError> {
        let mut all = Origins::default();
        for ((stage, execution), origins) in &self.origins {
            if stages.is_result(*stage, *execution) {
                all.merge(*stage, origins)?;
            }
        }
        Ok(all)
    }

    /// Marks partitions as taken; each is once. `origins` are those of all taken so far, these
    /// included.
    pub(crate) fn take(
        &mut self,
        stage: u32,
        execution: u64,
        partitions: &[u32],
        origins: Origins,
    ) -> Result<(), ClientError> {
        let taken = self.taken.entry((stage, execution)).or_default();
        let mut now = HashSet::new();
        for partition in partitions {
            if taken.contains(partition) || !now.insert(*partition) {
                return Err(ClientError::ResultPartition {
                    stage,
                    partition: *partition,
                });
            }
        }
        taken.extend(now);
        self.origins.insert((stage, execution), origins);
        Ok(())
    }

    /// Whether a partition is of the run that the ones before it are of.
    pub(crate) fn is_of_run(&mut self, stage: u32, execution: u64, run: &Bytes) -> bool {
        let held = self.runs.entry((stage, execution));
        *held.or_insert_with(|| run.clone()) == *run
    }

    /// How many partitions were taken.
    pub(crate) fn taken(&self, stage: u32, execution: u64) -> usize {
        self.taken.get(&(stage, execution)).map_or(0, HashSet::len)
    }

    /// Keeps rows; they are found under the number.
    pub(crate) fn keep(&mut self, rows: Rows) -> u32 {
        self.last_kept += 1;
        self.kept.insert(self.last_kept, rows);
        self.last_kept
    }

    /// Rows that were kept; they are read once.
    pub(crate) fn kept(&mut self, number: u32) -> Result<Rows, ClientError> {
        let kept = self.kept.remove(&number);
        kept.ok_or(ClientError::KeptUnknown(number))
    }
}
