//! A query's session at the client site: its key, what was sealed under it, and what may come back.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use coffer_audit::Query;
use coffer_catalog::ChunkPins;
use coffer_protocol::{ReleasePayload, plan::Schema};
use coffer_sealing::{AttemptId, KekSet, SessionId, SessionKey};

use crate::{ClientError, at_client::Rows, audit::Uses, origins::Origins, repeatable::Repeatable};

/// How long an engine keeps a session without the client site's word, if nobody sets it.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);

/// What a stage writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// One stream for each of so many reduce partitions.
    Shuffle(u32),
    /// One stream for all tasks that read it.
    Broadcast,
    Result,
    Sample,
    /// Files of a table: the number of the write.
    Write(u32),
}

impl Output {
    /// Whether other stages read it, in this execution or a later one.
    pub(crate) fn is_exchange(self) -> bool {
        matches!(self, Self::Shuffle(_) | Self::Broadcast)
    }
}

/// A stage as it was sealed.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// Digest of the whole request: a stage is sealed again only if it is the same.
    pub(crate) digest: [u8; 32],
    pub(crate) output: Output,
    pub(crate) schema: Schema,
    pub(crate) partitions: u32,
    pub(crate) repeatable: Repeatable,
    /// Bounds and values that its tasks are given.
    pub(crate) objects: Vec<u32>,
    /// Whether bytes reach it that the host may have chosen: from an unverified input, over
    /// whatever stages.
    pub(crate) host_chosen: bool,
}

/// The outputs of a shuffle or broadcast that count.
pub(crate) struct Accepted {
    pub(crate) epoch: u32,
    pub(crate) attempts: Vec<AttemptId>,
    pub(crate) sealed: Vec<u8>,
}

/// Rows that another session has written to be cached: the stage as that session calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) session: SessionId,
    pub(crate) stage: u32,
}

/// A bounds or value object.
pub(crate) struct Object {
    /// Of the rows that a value was computed from.
    pub(crate) origins: Origins,
    pub(crate) digest: [u8; 32],
    pub(crate) sealed: Vec<u8>,
}

pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) key: SessionKey,
    /// Whether other sessions read what it writes.
    pub(crate) caches: bool,
    /// Stages that stand for cached rows: whose they are.
    pub(crate) cached: HashMap<u32, Cached>,
    keks: KekSet,
    /// For the audit log.
    pub(crate) query: Query,
    pub(crate) uses: Uses,
    /// Whether the log lacks some of them.
    pub(crate) unrecorded: bool,
    /// Grows with the KEKs: an engine that has an older one needs another release.
    generation: u32,
    /// By stage and, but for exchanges (0), execution.
    stages: HashMap<(u32, u64), Stage>,
    pub(crate) accepted: HashMap<u32, Accepted>,
    /// What the outputs of an exchange were made from, by stage and epoch.
    pub(crate) origins: HashMap<(u32, u32), Origins>,
    pub(crate) objects: HashMap<u32, Object>,
    /// What was taken of results, samples and writes was made from, by stage and execution.
    taken_origins: HashMap<(u32, u64), Origins>,
    /// Partitions of results, samples and writes that were taken, by stage and execution.
    taken: HashMap<(u32, u64), HashSet<u32>>,
    /// Rows that wait here for the part of the plan that runs at the client, by number from 1.
    pub(crate) kept: HashMap<u32, Rows>,
    last_kept: u32,
    /// What of unverified inputs the query has read, as it was then.
    pub(crate) chunks: ChunkPins,
    /// Whether something was opened that the host may have chosen. From then on the driver may put
    /// it into any stage: as the value of a subquery, as a bound, as a literal.
    pub(crate) opened_host_chosen: bool,
    begun: Instant,
    lease: Duration,
}

impl Session {
    /// Under a key of its own.
    pub(crate) fn new(
        id: SessionId,
        key: SessionKey,
        caches: bool,
        query: Query,
        lease: Duration,
    ) -> Self {
        Self {
            id,
            key,
            caches,
            cached: HashMap::new(),
            keks: KekSet::new(),
            query,
            uses: Uses::default(),
            unrecorded: false,
            generation: 1,
            stages: HashMap::new(),
            accepted: HashMap::new(),
            origins: HashMap::new(),
            objects: HashMap::new(),
            taken_origins: HashMap::new(),
            taken: HashMap::new(),
            kept: HashMap::new(),
            last_kept: 0,
            chunks: ChunkPins::default(),
            opened_host_chosen: false,
            begun: Instant::now(),
            lease,
        }
    }

    /// How old it is: what engines count its lease by.
    pub(crate) fn age_millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds KEKs that the query needs from now on.
    pub(crate) fn need(&mut self, keks: &KekSet) {
        if keks.iter().any(|kek| !self.keks.contains(&kek.id())) {
            self.keks.extend(keks);
            self.generation += 1;
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// All keys of the session, for an engine that was admitted so long ago.
    pub(crate) fn payload(&self, admitted: Duration) -> ReleasePayload {
        ReleasePayload {
            session: self.id,
            session_key: self.key.clone(),
            keks: self.keks.clone(),
            lease_seconds: u32::try_from(self.lease.as_secs()).unwrap_or(u32::MAX),
            engine_age_millis: u64::try_from(admitted.as_millis()).unwrap_or(u64::MAX),
            session_age_millis: self.age_millis(),
        }
    }

    /// Enters a stage. The same again is fine; another one in its place is not, or descriptors of
    /// both could be mixed.
    pub(crate) fn enter(
        &mut self,
        stage: u32,
        execution: u64,
        entry: Stage,
    ) -> Result<(), ClientError> {
        let exchange = entry.output.is_exchange();
        let other_kind = self
            .stages
            .iter()
            .any(|((id, _), held)| *id == stage && held.output.is_exchange() != exchange);
        let position = (stage, if exchange { 0 } else { execution });
        match self.stages.get(&position) {
            _ if other_kind => Err(ClientError::StageTaken(stage)),
            Some(held) if held.digest == entry.digest => Ok(()),
            Some(_) => Err(ClientError::StageTaken(stage)),
            None => {
                self.stages.insert(position, entry);
                Ok(())
            }
        }
    }

    /// A stage that others read, and how many streams each of its tasks writes.
    pub(crate) fn exchange(&self, stage: u32) -> Option<(&Stage, u32)> {
        let held = self.stages.get(&(stage, 0))?;
        match held.output {
            Output::Shuffle(reduces) => Some((held, reduces)),
            Output::Broadcast => Some((held, 1)),
            Output::Result | Output::Sample | Output::Write(_) => None,
        }
    }

    /// A stage whose streams, or whose word on what it wrote, come here.
    pub(crate) fn collected(
        &self,
        stage: u32,
        execution: u64,
        output: Output,
    ) -> Result<Stage, ClientError> {
        self.stages
            .get(&(stage, execution))
            .filter(|held| held.output == output)
            .cloned()
            .ok_or(ClientError::StageUnknown(stage))
    }

    /// What the partitions taken so far were made from.
    pub(crate) fn origins_taken(&self, stage: u32, execution: u64) -> Origins {
        self.taken_origins
            .get(&(stage, execution))
            .cloned()
            .unwrap_or_default()
    }

    /// What the rows of all results that came here were made from. The driver computes values from
    /// such rows; which ones it took is not asked, so a value has the origins of all that it may
    /// have been computed from.
    pub(crate) fn origins_here(&self) -> Result<Origins, ClientError> {
        let mut all = Origins::default();
        for ((stage, execution), origins) in &self.taken_origins {
            let held = self.stages.get(&(*stage, *execution));
            if held.is_some_and(|held| held.output == Output::Result) {
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
        self.taken_origins.insert((stage, execution), origins);
        Ok(())
    }

    /// Keeps rows; they are found under the number.
    pub(crate) fn keep(&mut self, rows: Rows) -> u32 {
        self.last_kept += 1;
        self.kept.insert(self.last_kept, rows);
        self.last_kept
    }

    /// Sets an object. The same again is fine; each is set once.
    pub(crate) fn set(&mut self, id: u32, object: Object) -> Result<(), ClientError> {
        match self.objects.get(&id) {
            Some(held) if held.digest == object.digest => Ok(()),
            Some(_) => Err(ClientError::ObjectTaken(id)),
            None => {
                self.objects.insert(id, object);
                Ok(())
            }
        }
    }
}

/// Sessions are locked one by one: stages of different queries do not wait for each other.
pub(crate) type Shared = Arc<parking_lot::Mutex<Session>>;
