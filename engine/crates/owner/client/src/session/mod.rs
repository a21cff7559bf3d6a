//! A query's session at the client site: its key, what was sealed under it, and what may come back.
//! Each part of that has an owner of its own.

mod exchanges;
mod keys;
mod objects;
mod results;
mod stages;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coffer_audit::Query;
use coffer_catalog::ChunkPins;
use coffer_custody::Policy;
use coffer_protocol::{EvidenceKinds, ReleasePayload, wire::CommitRecord};
use coffer_sealing::{SessionId, SessionKey};

pub(crate) use self::{
    exchanges::{Accepted, Cached, Exchanges},
    keys::Keys,
    objects::{Object, Objects},
    results::{Results, Rows},
    stages::{Output, Stage, Stages},
};
use crate::{ClientError, draft::Draft, origins::Origins, repeatable::Repeatable, uses::Uses};

/// How long an engine keeps a session without the client site's word, if nobody sets it.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);

pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) key: SessionKey,
    /// Whether other sessions read what it writes.
    pub(crate) caches: bool,
    /// For the audit log.
    pub(crate) query: Query,
    pub(crate) uses: Uses,
    /// What was read of tables here, of which rows may come to stages as values and rows of the
    /// driver's.
    pub(crate) uses_here: Uses,
    pub(crate) keys: Keys,
    pub(crate) stages: Stages,
    pub(crate) exchanges: Exchanges,
    pub(crate) objects: Objects,
    pub(crate) results: Results,
    /// What of unverified inputs the query has read, as it was then.
    pub(crate) chunks: ChunkPins,
    /// Whether something was opened that the host may have chosen. From then on the driver may put
    /// it into any stage: as the value of a subquery, as a bound, as a literal.
    pub(crate) opened_host_chosen: bool,
    /// Of a session that asked for one.
    pub(crate) receipt: Option<Box<Draft>>,
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
            query,
            uses: Uses::default(),
            uses_here: Uses::default(),
            keys: Keys::default(),
            stages: Stages::default(),
            exchanges: Exchanges::default(),
            objects: Objects::default(),
            results: Results::default(),
            chunks: ChunkPins::default(),
            opened_host_chosen: false,
            receipt: None,
            begun: Instant::now(),
            lease,
        }
    }

    /// The kinds of evidence that an engine must all have shown to get its keys, by table.
    pub(crate) fn wanted(&self, policy: &Policy) -> Vec<(String, EvidenceKinds)> {
        let mut wanted = self.uses.wanted(policy);
        wanted.extend(self.uses_here.wanted(policy));
        wanted
    }

    /// How old it is: what engines count its lease by.
    pub(crate) fn age_millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// All keys of the session, for an engine that was admitted so long ago.
    pub(crate) fn payload(&self, admitted: Duration) -> ReleasePayload {
        ReleasePayload {
            session: self.id,
            session_key: self.key.clone(),
            keks: self.keys.all().clone(),
            lease_seconds: u32::try_from(self.lease.as_secs()).unwrap_or(u32::MAX),
            engine_age_millis: u64::try_from(admitted.as_millis()).unwrap_or(u64::MAX),
            session_age_millis: self.age_millis(),
        }
    }

    /// What the rows of all results that came here were made from.
    pub(crate) fn origins_here(&self) -> Result<Origins, ClientError> {
        self.results.origins_here(&self.stages)
    }

    /// Adds to `origins` what one task of `stage` says it has read, and the values (`objects`) that
    /// it was given. Two versions of one output are an error.
    pub(crate) fn trace(
        &self,
        origins: &mut Origins,
        stage: u32,
        objects: &[u32],
        record: &CommitRecord,
    ) -> Result<(), ClientError> {
        for read in &record.reads {
            let (producer, epoch) = (read.stage, read.epoch);
            let (held, _) = self
                .stages
                .exchange(producer)
                .ok_or(ClientError::StageUnknown(producer))?;
            let before = self
                .exchanges
                .origins(producer, epoch)
                .ok_or(ClientError::AttemptsMissing { stage, producer })?;
            if held.repeatable == Repeatable::Not {
                origins.add(stage, producer, epoch)?;
            }
            origins.merge(stage, before)?;
        }
        for object in objects {
            origins.merge(stage, &self.objects.get(stage, *object)?.origins)?;
        }
        Ok(())
    }
}

/// Sessions are locked one by one: stages of different queries do not wait for each other.
pub(crate) type Shared = Arc<parking_lot::Mutex<Session>>;
