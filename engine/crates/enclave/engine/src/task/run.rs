//! The steps of a task.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use coffer_expr::CompileContext;
use coffer_plan::{BuildContext, NodeMetrics, Plan, TaskIo, boundary_schema, build, with_task_io};
use coffer_protocol::{
    evidence::PROTOCOL,
    padded,
    wire::{CommitRecord, Counters, Done, Failed, Release, Start, TaskMetrics},
};
use coffer_scan::read_rest;
use coffer_sealing::{
    Attempt, AttemptId, KekId, Partition, SessionId, StageId, identity, seal_message,
};
use datafusion_common::DataFusionError;
use datafusion_execution::TaskContext;
use datafusion_physical_expr::expressions::Literal;
use futures::{FutureExt, StreamExt};

use crate::{
    channel::raised,
    enclave::{Enclave, ReleaseError},
    session::{Session, SessionError},
    task::{
        check::Check,
        descriptor::{Assignment, Descriptor, Leaves, TaskIdentity},
        error::TaskError,
        input::InputCounts,
        inputs::inputs,
        io::{TaskFiles, TaskSide},
        link::{Link, LinkError, PATIENCE, in_time},
        sink::{Finished, TaskSink},
        storage,
    },
};

/// How a task, or a query, ended, as the executor is told.
pub(crate) enum Outcome<D = Done> {
    Done(D),
    Failed(Failed),
    /// The peer is gone, or does not keep to the protocol: nothing more is said to it but this
    /// code.
    Broken(&'static str),
}

/// Runs a task to its end. Never panics on the task's account.
pub(crate) async fn run(enclave: &Enclave, start: &Start, link: &Arc<Link>) -> Outcome {
    let mut closed = link.closed();
    let outcome = tokio::select! {
        biased;
        () = raised(&mut closed) => Outcome::Broken("cancelled"),
        outcome = begin(enclave, start, link) => outcome,
    };
    match outcome {
        Outcome::Broken(_) => outcome,
        // The connection must be clean for the next task before this one's end is said.
        // By now nothing of it holds the session's keys.
        _ => match in_time(PATIENCE, link.settle()).await {
            Ok(()) => outcome,
            Err(_) => Outcome::Broken("protocol"),
        },
    }
}

async fn begin(enclave: &Enclave, start: &Start, link: &Arc<Link>) -> Outcome {
    let began = Instant::now();
    let of = |session: &Session| TaskIdentity {
        session: session.id,
        stage: StageId(start.stage),
        partition: Partition(start.partition),
    };
    let asked = (start.protocol, start.session.as_ref());
    let session = match admit(enclave, asked, start.release.as_ref(), link).await {
        Ok(session) => session,
        Err(error) => return outcome_of(&error, None),
    };
    let task_identity = of(&session);
    let outcome = tokio::select! {
        biased;
        why = lease_over(enclave, link, &session) => Err(why.into()),
        outcome = contained(work(enclave, start, link, task_identity, &session)) => outcome,
    };
    match outcome {
        Ok(mut done) => {
            if let Some(counters) = &mut done.counters {
                counters.engine_nanos =
                    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            }
            Outcome::Done(done)
        }
        Err(error) => outcome_of(&error, Some((task_identity, &session))),
    }
}

pub(super) fn outcome_of<D>(
    error: &TaskError,
    inside: Option<(TaskIdentity, &Session)>,
) -> Outcome<D> {
    let code = error.code();
    if error.link().is_some() {
        return Outcome::Broken(code);
    }
    let mut sealed_error = Vec::new();
    if let (Some((task_identity, session)), "failed") = (inside, code) {
        let detail = error.detail(task_identity);
        // The code is one of a fixed list and holds no value; the text stays sealed.
        tracing::warn!(stage = %task_identity.stage, partition = %task_identity.partition,
            "a task failed");
        let identity = identity::error(
            task_identity.session,
            task_identity.stage,
            task_identity.partition,
        );
        sealed_error = seal_message(&session.key, &identity, &padded(&detail)).unwrap_or_default();
    }
    Outcome::Failed(Failed {
        code: code.to_owned(),
        sealed_error: sealed_error.into(),
        ..Failed::default()
    })
}

/// Finds the session that is asked for in a version of the protocol, and asks for its keys if they
/// are not here.
pub(super) async fn admit(
    enclave: &Enclave,
    (protocol, session): (u32, &[u8]),
    release: Option<&Release>,
    link: &Arc<Link>,
) -> Result<Arc<Session>, TaskError> {
    if protocol != PROTOCOL {
        return Err(TaskError::Version(protocol));
    }
    let id = SessionId::from_slice(session).map_err(|_| TaskError::Start("session id"))?;
    match release.map(|release| enclave.accept_release(release)) {
        // A task that waited long for its turn brings an old release: another one is asked for.
        None | Some(Ok(()) | Err(ReleaseError::Session(SessionError::Stale))) => {}
        Some(Err(_)) => return Err(TaskError::Session),
    }
    if let Some(session) = enclave.sessions().get(id, Instant::now()) {
        return Ok(session);
    }
    if enclave.sessions().has_ended(id) {
        return Err(TaskError::Session);
    }
    in_time(PATIENCE, ask_for_keys(enclave, id, link)).await?;
    let session = enclave.sessions().get(id, Instant::now());
    session.ok_or(TaskError::Session)
}

/// What comes may be anything; whether it brought keys or a longer lease, the session says.
async fn ask_for_keys(enclave: &Enclave, id: SessionId, link: &Arc<Link>) -> Result<(), LinkError> {
    let release = link.keys(id.as_bytes()).await?;
    if let Err(error) = enclave.accept_release(&release) {
        tracing::info!(%error, "a key release was refused");
    }
    Ok(())
}

/// Resolves when the task may no longer hold the session's keys: the driver has ended the session,
/// or its lease runs out and the trusted site does not renew it. Only a task that waits (for its
/// executor, for storage) is cut off here: so a host that does not answer keeps no keys in this
/// engine.
pub(super) async fn lease_over(
    enclave: &Enclave,
    link: &Arc<Link>,
    session: &Session,
) -> LinkError {
    let renewed = async {
        loop {
            let lease = session.lease();
            tokio::time::sleep_until(lease.due().into()).await;
            // Another task or a newer descriptor may have renewed it meanwhile.
            if session.lease().due() > Instant::now() {
                continue;
            }
            let asked = in_time(lease.patience(), ask_for_keys(enclave, session.id, link)).await;
            if asked.is_err() || session.lease().due() <= Instant::now() {
                return;
            }
        }
    };
    tokio::select! {
        () = renewed => {}
        () = session.ended() => {}
    }
    LinkError::Lease
}

/// A panic becomes the task's error. Nothing that the task touched is used again, but what the
/// session shares: plans, opened footers and lists of attempts, which are replaced whole, never
/// left half written.
pub(super) async fn contained<T>(
    work: impl Future<Output = Result<T, TaskError>>,
) -> Result<T, TaskError> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or(Err(TaskError::Panicked))
}

async fn work(
    enclave: &Enclave,
    start: &Start,
    link: &Arc<Link>,
    task_identity: TaskIdentity,
    session: &Arc<Session>,
) -> Result<Done, TaskError> {
    let descriptor = open(enclave, session, task_identity, start)?;
    hold(enclave, session, descriptor.keks(), link).await?;
    let task = descriptor.assign(session, start, None)?;
    let (done, _) = run_assigned(enclave, link, session, task).await?;
    Ok(done)
}

/// Opens a descriptor, and learns what it says of sessions.
pub(super) fn open(
    enclave: &Enclave,
    session: &Session,
    task_identity: TaskIdentity,
    start: &Start,
) -> Result<Descriptor, TaskError> {
    let descriptor = Descriptor::open(session, task_identity, start)?;
    session.hear(descriptor.session_age());
    enclave
        .sessions()
        .learn(task_identity.session.issuer(), descriptor.horizon()?);
    Ok(descriptor)
}

/// Asks for keys of tables that are not here.
pub(super) async fn hold(
    enclave: &Enclave,
    session: &Session,
    keks: &[KekId],
    link: &Arc<Link>,
) -> Result<(), TaskError> {
    if !session.holds(keks) {
        ask_for_keys(enclave, session.id, link).await?;
        if !session.holds(keks) {
            return Err(TaskError::KeysMissing);
        }
    }
    Ok(())
}

/// Runs a checked task, which is an attempt of it.
pub(super) async fn run_assigned(
    enclave: &Enclave,
    link: &Arc<Link>,
    session: &Arc<Session>,
    task: Assignment,
) -> Result<(Done, AttemptId), TaskError> {
    let expressions = expressions(&task)?;
    let plan = plan(enclave, session, &task, &expressions)?;
    let key = task.plan_key.clone();
    let outcome = contained(compute(enclave, link, session, task, &expressions, &plan)).await;
    if let Err(error) = &outcome {
        session.forget_plan(&key, &plan);
        if error.is_memory() {
            // So that the task finds more room when it comes again.
            drop(plan);
            enclave.sessions().relieve();
        }
    }
    outcome
}

/// Runs the task's partition of the plan.
async fn compute(
    enclave: &Enclave,
    link: &Arc<Link>,
    session: &Arc<Session>,
    mut task: Assignment,
    expressions: &CompileContext,
    plan: &Arc<Plan>,
) -> Result<(Done, AttemptId), TaskError> {
    if enclave.executors_files() {
        storage::by_executor(&mut task);
    }
    let task_identity = task.task_identity;
    let partition =
        usize::try_from(task_identity.partition.0).map_err(|_| Check::DescriptorIdentity)?;
    let before = plan.metrics(partition);

    let counted = Arc::new(InputCounts::default());
    let bytes_read = Arc::new(AtomicU64::new(0));
    let read_all = task
        .fragment
        .hiding
        .as_ref()
        .is_some_and(|hiding| hiding.read_all);
    let side = Arc::new(TaskSide {
        partition: task_identity.partition.0,
        narrowed: std::mem::take(&mut task.narrowed),
        inputs: parking_lot::Mutex::new(inputs(enclave, session, &mut task, link, &counted).await?),
        files: TaskFiles {
            slices: task.scans.clone(),
            keys: session.keks(),
            footers: Arc::clone(&session.footers),
            store: storage::files(link, !enclave.executors_files()),
            bytes_read: Arc::clone(&bytes_read),
            whole: read_all.then(|| {
                task.scans
                    .keys()
                    .map(|scan| (*scan, Arc::default()))
                    .collect()
            }),
        },
    });
    let context = TaskContext::new(
        None,
        session.id.to_string(),
        with_task_io(enclave.config(), Arc::clone(&side) as Arc<dyn TaskIo>),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        enclave.runtime(),
    );
    let mut attempt = Attempt::begin(
        &session.key,
        task_identity.session,
        task.execution,
        task_identity.stage,
        task_identity.partition,
    )?;
    let mut sink = TaskSink::new(
        enclave,
        session,
        &task,
        plan,
        link,
        expressions,
        &mut attempt,
    )?;
    let mut rows = plan.execute(partition, Arc::new(context))?;
    while let Some(batch) = rows.next().await {
        sink.push(batch?).await?;
        if link.is_closed() {
            return Err(LinkError::Closed.into());
        }
    }
    drop(rows);
    if read_all {
        read_the_rest(&task, &side).await?;
    }
    let finished = sink.finish().await?;

    let metrics = since(&before, &plan.metrics(partition));
    let done = done(
        session,
        &task,
        link,
        attempt.id().as_bytes(),
        &finished,
        &metrics,
        &counted,
        &bytes_read,
    )?;
    if let Some(written) = finished.written {
        written.keep();
    }
    Ok((done, attempt.id()))
}

/// What the plan left unread of the task's files: whether it did is the host's to see otherwise.
async fn read_the_rest(task: &Assignment, side: &TaskSide) -> Result<(), TaskError> {
    let mut leaves = Leaves::default();
    if let Some(root) = &task.fragment.root {
        leaves.gather(root)?;
    }
    for (id, scan) in leaves.scans {
        let schema = boundary_schema(scan.schema.as_ref().ok_or(Check::Scan(id))?)?;
        read_rest(&schema, &side.scan_files(id)?).await?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // one place, one use
fn done(
    session: &Session,
    task: &Assignment,
    link: &Link,
    attempt: &[u8],
    finished: &Finished,
    metrics: &[NodeMetrics],
    counted: &InputCounts,
    bytes_read: &AtomicU64,
) -> Result<Done, TaskError> {
    let task_identity = task.task_identity;
    // Of a query that runs here whole, the link is all tasks': what crossed it is said once.
    let alone = |count: u64| task.run.map_or(count, |_| 0);
    let sealed = alone(link.crossed.bytes_out.load(Ordering::Relaxed));
    let frames_sealed = finished.streams.iter().map(|stream| stream.frames).sum();
    let commit = CommitRecord {
        session: task_identity.session.as_bytes().to_vec().into(),
        execution: task.execution.0,
        stage: task_identity.stage.0,
        partition: task_identity.partition.0,
        attempt: attempt.to_vec().into(),
        streams: finished.streams.clone(),
        reads: task.epochs.clone(),
        files: finished
            .written
            .as_ref()
            .map_or_else(Vec::new, |written| written.files.clone()),
        run: task
            .run
            .map(|run| run.as_bytes().to_vec().into())
            .unwrap_or_default(),
    };
    let commit_identity = identity::commit(
        task_identity.session,
        task_identity.stage,
        task_identity.partition,
    );
    let metrics_identity = identity::metrics(
        task_identity.session,
        task_identity.stage,
        task_identity.partition,
    );
    let nodes = metrics
        .iter()
        .map(|node| coffer_protocol::wire::NodeMetrics {
            node: node.node,
            rows: node.rows,
            nanos: node.nanos,
            spilled_bytes: node.spilled,
        })
        .collect();
    let crossed = &link.crossed;
    let kept = finished.streams.iter().filter(|_| finished.kept);
    Ok(Done {
        sealed_commit: seal_message(&session.key, &commit_identity, &padded(&commit))?.into(),
        sealed_metrics: seal_message(
            &session.key,
            &metrics_identity,
            &padded(&TaskMetrics { nodes }),
        )?
        .into(),
        counters: Some(Counters {
            // The message that carries these counts is one more.
            crossings: alone(crossed.messages.load(Ordering::Relaxed) + 1),
            bytes_in: alone(crossed.bytes_in.load(Ordering::Relaxed)),
            bytes_out: sealed,
            bytes_sealed: sealed,
            bytes_opened: counted.opened.load(Ordering::Relaxed),
            bytes_read: bytes_read.load(Ordering::Relaxed),
            bytes_spilled: metrics.iter().map(|node| node.spilled).sum::<u64>()
                + counted.parked.load(Ordering::Relaxed)
                + finished.spilled,
            engine_nanos: 0,
            frames_sealed,
        }),
        kept: kept.map(|stream| stream.bytes).collect(),
    })
}

/// What was counted between two looks at a plan that other runs of the same partition may share.
fn since(before: &[NodeMetrics], after: &[NodeMetrics]) -> Vec<NodeMetrics> {
    let of = |node: u32| before.iter().find(|metrics| metrics.node == node);
    after
        .iter()
        .map(|now| {
            let then = of(now.node).copied().unwrap_or_default();
            NodeMetrics {
                node: now.node,
                rows: now.rows.saturating_sub(then.rows),
                nanos: now.nanos.saturating_sub(then.nanos),
                spilled: now.spilled.saturating_sub(then.spilled),
            }
        })
        .collect()
}

fn expressions(task: &Assignment) -> Result<CompileContext, TaskError> {
    let mut values = HashMap::new();
    for (id, value) in &task.values {
        let literal = value.literal.as_ref().ok_or(Check::Malformed("object"))?;
        let scalar = coffer_expr::scalar(literal).map_err(|why| TaskError::Value(*id, why))?;
        values.insert(*id, scalar);
    }
    Ok(CompileContext::with_subqueries(move |id, data_type| {
        let scalar = values.get(&id)?;
        (scalar.data_type() == *data_type).then(|| Arc::new(Literal::new(scalar.clone())) as _)
    }))
}

fn plan(
    enclave: &Enclave,
    session: &Session,
    task: &Assignment,
    expressions: &CompileContext,
) -> Result<Arc<Plan>, TaskError> {
    if let Some(plan) = session.plan(&task.plan_key) {
        return Ok(plan);
    }
    if enclave.is_crowded() {
        // A stage begins: what others built that are over is most likely of no more use.
        enclave.sessions().relieve();
    }
    let context = BuildContext {
        partitions: usize::try_from(task.partitions).map_err(|_| Check::DescriptorIdentity)?,
        expressions,
        decryptor: None,
    };
    let plan = Arc::new(build(&task.fragment, &context)?);
    Ok(session.keep_plan(task.plan_key.clone(), plan))
}

impl From<LinkError> for DataFusionError {
    fn from(error: LinkError) -> Self {
        Self::External(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_the_tasks_own_error() {
        let panics = contained(async { panic!("on purpose") });
        assert!(matches!(
            panics.await as Result<(), _>,
            Err(TaskError::Panicked)
        ));
        assert_eq!(contained(async { Ok(1) }).await.unwrap(), 1);
    }
}
