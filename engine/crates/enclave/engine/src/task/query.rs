//! All stages of a query in this engine, in one request: what a cluster of one machine does.
//!
//! The fragments, their operators and their checks are those of single tasks. What differs is how
//! rows get from one stage to the next: they stay here, under the attempts of the very tasks that
//! this run has started ([`crate::exchange`]). So there are no streams that somebody could hold
//! back, repeat or exchange, and no list of attempts but the run's own. A stage is begun when all
//! tasks of all stages that it reads are done; which those are, and how many tasks each has, the
//! sealed descriptors say.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::Instant,
};

use coffer_plan::KeyBounds;
use coffer_protocol::wire::{Done, Failed, QueryDone, RunQuery, StageDone, Start};
use coffer_sealing::{AttemptId, Partition, RunId, StageId};
use parking_lot::{Condvar, Mutex};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    channel::raised,
    enclave::Enclave,
    exchange::WrittenBy,
    session::Session,
    task::{
        check::Check,
        copies::made_by,
        descriptor::{Descriptor, Own, TaskIdentity},
        error::TaskError,
        link::{Link, LinkError, PATIENCE, in_time},
        narrow::{Narrowed, Shape, narrowed},
        run::{Outcome, admit, contained, hold, lease_over, open, outcome_of, run_assigned},
    },
};

/// Tasks at the same time, whatever the executor says.
const PARALLEL_MOST: usize = 256;

/// Runs a query to its end. Never panics on the query's account.
pub(crate) async fn run_query(
    enclave: &Arc<Enclave>,
    query: &RunQuery,
    link: &Arc<Link>,
) -> Outcome<QueryDone> {
    let mut closed = link.closed();
    let begun = tokio::select! {
        biased;
        () = raised(&mut closed) => Err(Outcome::Broken("cancelled")),
        begun = begin(enclave, query, link) => begun,
    };
    let outcome = match begun {
        Ok(run) => run_through(enclave, run, parallel(query)).await,
        Err(outcome) => outcome,
    };
    match outcome {
        Outcome::Broken(_) => outcome,
        _ => match in_time(PATIENCE, link.settle()).await {
            Ok(()) => outcome,
            Err(_) => Outcome::Broken("protocol"),
        },
    }
}

async fn begin(
    enclave: &Enclave,
    query: &RunQuery,
    link: &Arc<Link>,
) -> Result<Arc<Run>, Outcome<QueryDone>> {
    let asked = (query.protocol, query.session.as_ref());
    let session = match admit(enclave, asked, query.release.as_ref(), link).await {
        Ok(session) => session,
        Err(error) => return Err(outcome_of(&error, None)),
    };
    match prepared(enclave, query, link, &session).await {
        Ok(run) => Ok(Arc::new(run)),
        Err(failure) => Err(failure.outcome(&session)),
    }
}

/// Its tasks have threads of their own, which are waited for whatever happens: when this returns,
/// nothing of the query holds the session's keys.
async fn run_through(enclave: &Arc<Enclave>, run: Arc<Run>, threads: usize) -> Outcome<QueryDone> {
    let mut crew = JoinSet::new();
    for _ in 0..threads {
        let (run, enclave) = (Arc::clone(&run), Arc::clone(enclave));
        crew.spawn_blocking(move || run.work(&enclave));
    }
    let mut closed = run.link.closed();
    let over = tokio::select! {
        biased;
        () = raised(&mut closed) => Some(LinkError::Closed),
        why = lease_over(enclave, &run.link, &run.session) => Some(why),
        () = all_of(&mut crew) => None,
    };
    if let Some(why) = over {
        run.fail(TaskError::from(why).into());
        all_of(&mut crew).await;
    }
    for stage in &run.stages {
        run.session.exchanges.forget(stage.id.0);
    }
    let ended = std::mem::take(&mut *run.state.lock());
    match ended {
        State {
            failure: Some(failure),
            ..
        } => failure.outcome(&run.session),
        ended => match ended.done() {
            Some(mut done) => {
                say_what_crossed(&mut done, &run.link);
                Outcome::Done(done)
            }
            None => outcome_of(&TaskError::Panicked, None),
        },
    }
}

fn parallel(query: &RunQuery) -> usize {
    usize::try_from(query.parallel).map_or(1, |threads| threads.clamp(1, PARALLEL_MOST))
}

async fn all_of(crew: &mut JoinSet<()>) {
    while crew.join_next().await.is_some() {}
}

/// The link is all tasks', so what crossed it is said with one of them.
fn say_what_crossed(done: &mut QueryDone, link: &Link) {
    let last = done.stages.last_mut();
    let task = last.and_then(|stage| stage.tasks.first_mut());
    if let Some(counters) = task.and_then(|task| task.counters.as_mut()) {
        let crossed = &link.crossed;
        let count =
            |of: &std::sync::atomic::AtomicU64| of.load(std::sync::atomic::Ordering::Relaxed);
        counters.crossings = count(&crossed.messages) + 1;
        counters.bytes_in = count(&crossed.bytes_in);
        counters.bytes_out = count(&crossed.bytes_out);
        counters.bytes_sealed = counters.bytes_out;
    }
}

/// What ended a query, and in which task.
struct Failure {
    at: Option<TaskIdentity>,
    error: TaskError,
}

impl Failure {
    fn outcome(self, session: &Session) -> Outcome<QueryDone> {
        let at = self.at.map(|task| (task.stage.0, task.partition.0));
        let (stage, partition) = at.unwrap_or_default();
        if self.error.is_memory() {
            // As of any failure inside, its text is nobody's here.
            tracing::info!(
                stage,
                partition,
                "a query needs more memory than there is at once"
            );
            // Stage by stage it may well have room.
            return Outcome::Failed(Failed {
                code: "memory".to_owned(),
                stage,
                partition,
                ..Failed::default()
            });
        }
        match outcome_of(&self.error, self.at.map(|task| (task, session))) {
            Outcome::Failed(failed) => Outcome::Failed(Failed {
                stage,
                partition,
                ..failed
            }),
            other => other,
        }
    }
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Self {
        Self { at: None, error }
    }
}

impl From<Check> for Failure {
    fn from(check: Check) -> Self {
        TaskError::from(check).into()
    }
}

/// A query that is being run.
struct Run {
    id: RunId,
    session: Arc<Session>,
    link: Arc<Link>,
    stages: Vec<Stage>,
    state: Mutex<State>,
    changed: Condvar,
    /// Those that narrow scans, by stage and column; none where they are of no use.
    keys: Mutex<HashMap<(usize, usize), Arc<Found>>>,
    /// Raised when nothing of it is of use any more.
    over: watch::Sender<bool>,
}

/// Keys, once somebody has looked for them.
type Found = OnceLock<Option<Arc<KeyBounds>>>;

struct Stage {
    id: StageId,
    /// What each task is given, but for its descriptor.
    start: Start,
    tasks: usize,
    /// By stage that it reads, the position in the query of the stage that makes its rows.
    reads: BTreeMap<u32, usize>,
    /// What is to be done before it begins: those, and what narrows its scans.
    waits: BTreeSet<usize>,
    narrowed: Vec<Narrowed>,
}

#[derive(Default)]
struct State {
    stages: Vec<Progress>,
    failure: Option<Failure>,
}

#[derive(Default)]
struct Progress {
    /// Not begun, the first at the end.
    waiting: Vec<Descriptor>,
    done: Vec<Option<(Done, AttemptId)>>,
    left: usize,
}

/// What a thread does next.
struct Turn {
    stage: usize,
    descriptor: Descriptor,
    own: Own,
}

/// Opens all descriptors, and has the keys for all of them.
async fn prepared(
    enclave: &Enclave,
    query: &RunQuery,
    link: &Arc<Link>,
    session: &Arc<Session>,
) -> Result<Run, Failure> {
    let mut stages: Vec<Stage> = Vec::new();
    let mut waitings = Vec::new();
    let mut shapes: Vec<Shape> = Vec::new();
    let mut hides = false;
    let mut positions: HashMap<u32, usize> = HashMap::new();
    let mut keks = BTreeSet::new();
    for (given, position) in query.stages.iter().zip(0..) {
        let id = StageId(given.stage);
        let mut start = Start {
            sealed_fragment: given.sealed_fragment.clone(),
            sealed_objects: given.sealed_objects.clone(),
            ..Start::default()
        };
        let mut reads = BTreeMap::new();
        let mut waiting = Vec::with_capacity(given.sealed_descriptors.len());
        let mut shape: Option<Shape> = None;
        for (sealed, partition) in given.sealed_descriptors.iter().zip(0u32..) {
            let at = TaskIdentity {
                session: session.id,
                stage: id,
                partition: Partition(partition),
            };
            start.sealed_descriptor = sealed.clone();
            let failed = |error| Failure {
                at: Some(at),
                error,
            };
            let wrong = |check: Check| failed(check.into());
            let descriptor = open(enclave, session, at, &start).map_err(failed)?;
            // All of its tasks, each once: readers take what there is for the whole.
            if usize::try_from(descriptor.partitions()) != Ok(given.sealed_descriptors.len()) {
                return Err(failed(Check::DescriptorIdentity.into()));
            }
            for (producer, tasks) in descriptor.producers() {
                // What comes later is not written yet, and what is not here never will be.
                let missing = || failed(Check::AttemptsMissing(producer).into());
                let read = *positions.get(&producer).ok_or_else(missing)?;
                if stages.get(read).map(|stage| stage.tasks) != usize::try_from(tasks).ok() {
                    return Err(failed(Check::AttemptsCount(producer).into()));
                }
                reads.insert(producer, read);
            }
            keks.extend(descriptor.keks());
            hides |= descriptor.host_chosen();
            let shape = match &mut shape {
                Some(shape) => shape,
                None => {
                    let (fragment, _) = descriptor.fragment(session, &start).map_err(wrong)?;
                    hides |= fragment.hiding.is_some();
                    shape.insert(Shape::new(fragment))
                }
            };
            let stage = |(input, producer)| Some((input, *positions.get(&producer)?));
            shape.inputs.extend(descriptor.inputs().filter_map(stage));
            for (scan, rows) in descriptor.rows() {
                *shape.rows.entry(scan).or_default() += rows;
            }
            waiting.push(descriptor);
        }
        if positions.insert(given.stage, position).is_some() {
            return Err(Failure {
                at: Some(TaskIdentity {
                    session: session.id,
                    stage: id,
                    partition: Partition(0),
                }),
                error: Check::DescriptorIdentity.into(),
            });
        }
        stages.push(Stage {
            id,
            start,
            tasks: waiting.len(),
            reads,
            waits: BTreeSet::new(),
            narrowed: Vec::new(),
        });
        shapes.extend(shape);
        waitings.push(waiting);
    }
    if stages.is_empty() {
        return Err(Check::DescriptorIdentity.into());
    }
    // What a scan reads would tell which rows of the host's own choice go with others.
    let narrowed = match hides || shapes.len() != stages.len() {
        true => vec![Vec::new(); stages.len()],
        false => narrowed(&shapes),
    };
    let progress = scheduled(&mut stages, waitings, narrowed);
    hold(
        enclave,
        session,
        &keks.into_iter().collect::<Vec<_>>(),
        link,
    )
    .await?;
    Ok(Run {
        id: RunId::draw().map_err(TaskError::from)?,
        session: Arc::clone(session),
        link: Arc::clone(link),
        stages,
        state: Mutex::new(State {
            stages: progress,
            failure: None,
        }),
        changed: Condvar::new(),
        keys: Mutex::default(),
        over: watch::Sender::new(false),
    })
}

/// What each stage waits for, and what is to be done of it: of a copy nothing.
fn scheduled(
    stages: &mut [Stage],
    waitings: Vec<Vec<Descriptor>>,
    mut narrowed: Vec<Vec<Narrowed>>,
) -> Vec<Progress> {
    let made_by = made_by(&waitings, &mut narrowed);
    let maker = |position: usize| made_by.get(position).copied().unwrap_or(position);
    for (stage, narrowed) in stages.iter_mut().zip(narrowed) {
        for read in stage.reads.values_mut() {
            *read = maker(*read);
        }
        stage.narrowed = narrowed;
        for one in &mut stage.narrowed {
            one.by.0 = maker(one.by.0);
        }
        let keys = stage.narrowed.iter().map(|one| one.by.0);
        stage.waits = stage.reads.values().copied().chain(keys).collect();
    }
    let mut progress = Vec::with_capacity(waitings.len());
    for (mut waiting, position) in waitings.into_iter().zip(0..) {
        if maker(position) != position {
            waiting.clear();
        }
        waiting.reverse();
        progress.push(Progress {
            done: waiting.iter().map(|_| None).collect(),
            left: waiting.len(),
            waiting,
        });
    }
    progress
}

impl Run {
    /// One thread: takes tasks until none is left.
    fn work(&self, enclave: &Enclave) {
        let runtime = match tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "a thread of a query has no runtime");
                self.fail(TaskError::Panicked.into());
                return;
            }
        };
        let mut over = self.over.subscribe();
        while let Some(turn) = self.next() {
            let (stage, at) = (turn.stage, turn.descriptor.task_identity);
            let ran = runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = raised(&mut over) => Err(LinkError::Closed.into()),
                    ran = contained(self.task(enclave, turn)) => ran,
                }
            });
            match ran {
                Ok(done) => self.ended(stage, at, done),
                Err(error) => self.fail(Failure {
                    at: Some(at),
                    error,
                }),
            }
        }
        // As after a task: what storage does not answer is not waited for.
        runtime.shutdown_background();
    }

    async fn task(&self, enclave: &Enclave, turn: Turn) -> Result<(Done, AttemptId), TaskError> {
        let began = Instant::now();
        let stage = self.stages.get(turn.stage).ok_or(TaskError::Panicked)?;
        let query = Some((self.id, &turn.own));
        let mut task = turn.descriptor.assign(&self.session, &stage.start, query)?;
        for narrowed in &stage.narrowed {
            if let Some(keys) = self.keys(enclave, narrowed.by) {
                let scan = task.narrowed.entry(narrowed.scan).or_default();
                scan.push((narrowed.column, keys));
            }
        }
        let (mut done, attempt) = run_assigned(enclave, &self.link, &self.session, task).await?;
        if let Some(counters) = &mut done.counters {
            counters.engine_nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
        Ok((done, attempt))
    }

    /// The keys in a column of a stage that is done, found once.
    fn keys(&self, enclave: &Enclave, by: (usize, usize)) -> Option<Arc<KeyBounds>> {
        let found = Arc::clone(self.keys.lock().entry(by).or_default());
        found.get_or_init(|| self.find_keys(enclave, by)).clone()
    }

    fn find_keys(
        &self,
        enclave: &Enclave,
        (position, column): (usize, usize),
    ) -> Option<Arc<KeyBounds>> {
        let stage = self.stages.get(position)?.id.0;
        let attempts = self.state.lock().attempts(position)?;
        let written = attempts.into_iter().zip(0..).map(|(attempt, partition)| {
            self.session.exchanges.of(WrittenBy {
                stage,
                partition,
                attempt,
            })
        });
        let written: Vec<_> = written.collect::<Option<_>>()?;
        if written.iter().map(|kept| kept.count()).sum::<usize>() > KeyBounds::MOST {
            return None;
        }
        let rows = written.iter().flat_map(|kept| kept.all());
        let memory = &enclave.runtime().memory_pool;
        // Whoever goes without them reads more, and no more than that.
        let keys = KeyBounds::of(rows, column, memory).ok().flatten();
        keys.map(Arc::new)
    }

    /// The next task of the first stage that can go on; waits for one. None when all are begun, or
    /// the query is over.
    fn next(&self) -> Option<Turn> {
        let mut state = self.state.lock();
        loop {
            if state.failure.is_some() || state.stages.iter().all(|stage| stage.waiting.is_empty())
            {
                return None;
            }
            let ready = self
                .stages
                .iter()
                .enumerate()
                .find_map(|(position, stage)| {
                    let waits = !state.stages.get(position)?.waiting.is_empty();
                    let done =
                        |read: &usize| state.stages.get(*read).is_some_and(|read| read.left == 0);
                    (waits && stage.waits.iter().all(done)).then_some(position)
                });
            if let Some(position) = ready {
                let own = self.own(position, &state);
                let descriptor = state.stages.get_mut(position)?.waiting.pop()?;
                return Some(Turn {
                    stage: position,
                    descriptor,
                    own,
                });
            }
            self.changed.wait(&mut state);
        }
    }

    /// The attempts of all stages that one reads, which are done.
    fn own(&self, position: usize, state: &State) -> Own {
        let reads = self.stages.get(position).map(|stage| &stage.reads);
        let of = |(read, maker): (&u32, &usize)| {
            let attempts = state.attempts(*maker)?;
            Some((*read, (self.stages.get(*maker)?.id, Arc::new(attempts))))
        };
        reads.into_iter().flatten().filter_map(of).collect()
    }

    fn ended(&self, position: usize, at: TaskIdentity, ran: (Done, AttemptId)) {
        let mut state = self.state.lock();
        if let Some(stage) = state.stages.get_mut(position) {
            let place = usize::try_from(at.partition.0).ok();
            if let Some(place) = place.and_then(|place| stage.done.get_mut(place)) {
                *place = Some(ran);
                stage.left -= 1;
            }
        }
        let done = |position: usize| state.stages.get(position).is_some_and(|one| one.left == 0);
        if done(position) {
            let reads = self.stages.get(position).map(|stage| stage.reads.values());
            for read in reads.into_iter().flatten() {
                // What nobody will read any more.
                let reads = |stage: &Stage| stage.reads.values().any(|one| one == read);
                let readers = self.stages.iter().enumerate();
                let mut readers = readers.filter(|(_, stage)| reads(stage));
                if readers.all(|(reader, _)| done(reader))
                    && let Some(stage) = self.stages.get(*read)
                {
                    self.session.exchanges.forget(stage.id.0);
                }
            }
        }
        self.changed.notify_all();
    }

    /// The first failure counts; what else fails then fails by it.
    fn fail(&self, failure: Failure) {
        self.state.lock().failure.get_or_insert(failure);
        self.over.send_replace(true);
        self.changed.notify_all();
    }
}

impl State {
    /// Of all tasks of a stage, if all are done.
    fn attempts(&self, position: usize) -> Option<Vec<AttemptId>> {
        let done = &self.stages.get(position)?.done;
        let attempts = done.iter().map(|done| done.as_ref().map(|(_, id)| *id));
        attempts.collect()
    }

    /// Of all tasks, if all are done.
    fn done(self) -> Option<QueryDone> {
        let stage = |progress: Progress| {
            let tasks = progress
                .done
                .into_iter()
                .map(|done| done.map(|(done, _)| done));
            Some(StageDone {
                tasks: tasks.collect::<Option<_>>()?,
            })
        };
        Some(QueryDone {
            stages: self.stages.into_iter().map(stage).collect::<Option<_>>()?,
        })
    }
}
