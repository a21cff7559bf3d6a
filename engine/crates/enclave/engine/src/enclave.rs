//! One engine's state: its identity, its sessions, its memory, and whether it still takes tasks.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use coffer_plan::spill::{SealedSpill, SpillFolder};
use coffer_protocol::wire::{Attest, EngineEvidence, Release};
use coffer_release::{Issuer, Simulated};
use datafusion_common::DataFusionError;
use datafusion_execution::{
    config::SessionConfig,
    disk_manager::DiskManagerBuilder,
    memory_pool::FairSpillPool,
    runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
};
use thiserror::Error;
use tokio::sync::watch;

use crate::{
    attest::{AttestError, Identity},
    exchange::{Room, Rooms},
    session::{Grant, SessionError, Sessions},
};

/// Rows of a batch inside the engine.
const BATCH_ROWS: usize = 8192;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes of the memory pool that all tasks share.
    pub memory: usize,
    /// The folder in which the engine makes its own for spill files.
    pub spill_folder: PathBuf,
    /// Local paths of tables are the executor's, which is asked for them.
    pub executors_files: bool,
}

/// Why an engine does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The spill folder cannot be made.
    #[error("the spill folder {folder} cannot be used: {source}")]
    SpillFolder {
        /// As it was given.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// DataFusion's runtime was not built.
    #[error("the runtime cannot be made: {0}")]
    Runtime(#[from] DataFusionError),
    /// No key pair.
    #[error("the engine's key cannot be made: {0}")]
    Identity(#[from] AttestError),
}

/// Why released keys were not taken.
#[derive(Debug, Error)]
pub enum ReleaseError {
    /// The release does not open for this engine.
    #[error(transparent)]
    Attest(#[from] AttestError),
    /// The session refuses it.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// An engine that can be given keys. Serves one owner for its life.
pub struct Enclave {
    identity: Identity,
    sessions: Sessions,
    runtime: Arc<RuntimeEnv>,
    spill: Arc<SpillFolder>,
    memory: usize,
    executors_files: bool,
    kept: Arc<Rooms>,
    kept_in_query: Arc<Rooms>,
    draining: AtomicBool,
    running: watch::Sender<usize>,
}

impl Enclave {
    /// Makes an engine with a fresh key pair that nothing vouches for.
    pub fn start(settings: &Settings) -> Result<Arc<Self>, StartError> {
        Self::start_as(settings, vec![Box::new(Simulated)])
    }

    /// Makes an engine with a fresh key pair, for which all of these issuers vouch.
    pub fn start_as(
        settings: &Settings,
        issuers: Vec<Box<dyn Issuer>>,
    ) -> Result<Arc<Self>, StartError> {
        let spill = SpillFolder::create(&settings.spill_folder).map_err(|source| {
            StartError::SpillFolder {
                folder: settings.spill_folder.clone(),
                source,
            }
        })?;
        let disk = DiskManagerBuilder::default()
            .with_temp_file_factory(Arc::new(SealedSpill::new(Arc::clone(&spill))));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(settings.memory)))
            .with_disk_manager_builder(disk)
            .build_arc()?;
        Ok(Arc::new(Self {
            identity: Identity::generate(issuers)?,
            sessions: Sessions::default(),
            runtime,
            spill,
            memory: settings.memory,
            executors_files: settings.executors_files,
            kept: Arc::default(),
            kept_in_query: Arc::default(),
            draining: AtomicBool::new(false),
            running: watch::Sender::new(0),
        }))
    }

    /// The engine's id: a digest of its public key.
    pub fn id(&self) -> String {
        self.identity.engine_id()
    }

    /// Its sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Bytes of the memory pool that are in use. For tests and logs.
    pub fn memory_in_use(&self) -> usize {
        self.runtime.memory_pool.reserved()
    }

    pub(crate) fn runtime(&self) -> Arc<RuntimeEnv> {
        Arc::clone(&self.runtime)
    }

    /// Bytes of the memory pool.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether local paths of tables are the executor's.
    pub(crate) fn executors_files(&self) -> bool {
        self.executors_files
    }

    /// For a task whose rows may stay here.
    pub(crate) fn room(&self) -> Room {
        Room::of(&self.kept, self.memory)
    }

    /// For a task of a query that runs here whole.
    pub(crate) fn room_in_query(&self) -> Room {
        Room::in_query(&self.kept_in_query, self.memory)
    }

    /// The settings of a task's plan.
    pub(crate) fn config(&self) -> SessionConfig {
        let mut config = coffer_plan::config(BATCH_ROWS);
        // What a sort keeps back for merging its spill files. DataFusion's 10 MB would be more than
        // a small pool has.
        let execution = &mut config.options_mut().execution;
        execution.sort_spill_reservation_bytes =
            execution.sort_spill_reservation_bytes.min(self.memory / 64);
        config
    }

    /// Whether so much of the pool is in use that memory which is only kept in store should be
    /// given back.
    pub(crate) fn is_crowded(&self) -> bool {
        self.memory_in_use() > self.memory / 4
    }

    /// The folder of spill files.
    pub fn spill(&self) -> Arc<SpillFolder> {
        Arc::clone(&self.spill)
    }

    pub(crate) fn attest(&self, attest: &Attest) -> Result<EngineEvidence, AttestError> {
        self.identity.attest(attest)
    }

    /// Takes a release. One that was taken before changes nothing: tasks of one stage carry the
    /// same.
    pub(crate) fn accept_release(&self, release: &Release) -> Result<(), ReleaseError> {
        let Some(payload) = self.identity.open_release(release)? else {
            return Ok(());
        };
        let (payload, attested) = payload;
        // The client site counts from when it had verified the evidence, this engine from when it
        // gave it, which is earlier.
        let issued = attested.checked_add(Duration::from_millis(payload.engine_age_millis));
        let grant = Grant {
            issued: issued.ok_or(SessionError::Stale)?,
            session_age: Duration::from_millis(payload.session_age_millis),
            lease: Duration::from_secs(u64::from(payload.lease_seconds)),
        };
        let (id, key) = (payload.session, payload.session_key);
        self.sessions
            .accept_granted(id, key, &payload.keks, grant, Instant::now())?;
        Ok(())
    }

    /// A new task, unless the engine is draining. The task runs as long as the guard lives.
    pub(crate) fn admit_task(self: &Arc<Self>) -> Option<Running> {
        // Counted first: a drain that begins in between waits for this task or refuses it, never
        // neither.
        self.running.send_modify(|running| *running += 1);
        let guard = Running(Arc::clone(self));
        (!self.draining.load(Ordering::SeqCst)).then_some(guard)
    }

    /// Refuses new tasks from now on, and waits for those that run.
    pub async fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        let mut running = self.running.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    /// How many tasks run.
    pub fn running(&self) -> usize {
        *self.running.borrow()
    }
}

/// A task's place among those that run.
pub(crate) struct Running(Arc<Enclave>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0
            .running
            .send_modify(|running| *running = running.saturating_sub(1));
    }
}
