//! A query that one engine runs whole: the answer is that of its stages one by one, and what the
//! host may leave out, exchange or mix is refused.

use crate::harness;

use std::collections::BTreeMap;

use arrow::{array::AsArray, datatypes::Int64Type};
use bytes::Bytes;
use coffer_protocol::{
    plan::{JoinType, Schema},
    wire::{OpenResult, Problem, RunQuery, SealStage, StageInput, TaskSpec, task_spec::Rectangle},
};
use harness::{
    Client, Engine, Site, ir,
    query::{Query, leaf_stage, reduce_stage},
};

const MEMORY: usize = 64 << 20;
/// Enough for what the query's joins hold, and not for its exchanges too.
const LITTLE: usize = 1 << 20;
const MAPS: u32 = 2;
const TARGETS: u32 = 3;
const ROWS: i64 = 4000;

/// Stage numbers.
const LEFT: u32 = 1;
const RIGHT: u32 = 2;
const TOP: u32 = 3;

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

fn leaf(stage: u32, rows: std::ops::Range<i64>, broadcast: bool) -> SealStage {
    let rows = rows.map(|i| vec![ir::int(i), ir::int(i * 10)]).collect();
    let rows = ir::values(pairs(), rows);
    let fragment = match broadcast {
        true => ir::to_broadcast(rows, pairs()),
        false => ir::to_hash(rows, pairs(), TARGETS),
    };
    leaf_stage(stage, &fragment, usize::try_from(MAPS).unwrap())
}

/// Rows 0..ROWS, hashed, joined with the broadcast rows ROWS/2..2×ROWS.
fn stages() -> Vec<SealStage> {
    stages_of(ROWS)
}

/// The same with so many rows that are hashed.
fn stages_of(rows: i64) -> Vec<SealStage> {
    let join = ir::join(JoinType::Inner, &pairs(), true);
    let top = ir::to_result(join, ir::twice(&pairs()));
    let mut top = reduce_stage(TOP, &top, LEFT, MAPS, TARGETS);
    top.inputs.push(StageInput {
        input_id: 1,
        producer_stage: RIGHT,
        maps: MAPS,
        reduces: 1,
        broadcast: true,
        ..StageInput::default()
    });
    for task in &mut top.tasks {
        task.rectangles.push(Rectangle {
            input_id: 1,
            map_begin: 0,
            map_end: MAPS,
            reduce_begin: 0,
            reduce_end: 1,
        });
    }
    vec![
        leaf(RIGHT, ROWS / 2..2 * ROWS, true),
        leaf(LEFT, 0..rows, false),
        top,
    ]
}

/// A site, an engine, and the query above: sealed, not run.
struct Ready {
    _site: Site,
    client: Client,
    engine: Engine,
    query: Query,
    run: RunQuery,
}

async fn ready(memory: usize) -> Ready {
    ready_with(memory, stages()).await
}

async fn ready_with(memory: usize, stages: Vec<SealStage>) -> Ready {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", memory).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let sealed = query.seal_whole(&mut client, stages).await.unwrap();
    let run = query.run_whole(&engine, &[RIGHT, LEFT, TOP], &sealed);
    Ready {
        _site: site,
        client,
        engine,
        query,
        run,
    }
}

/// What a host makes of a query that it was given.
type Change = fn(&mut RunQuery);
type Ran = (BTreeMap<u32, Bytes>, Vec<Bytes>);

impl Ready {
    /// Streams and commits of the last stage.
    async fn ran(&mut self) -> Ran {
        let run = self.run.clone();
        let (streams, done) = self.engine.run_query(&mut self.client, &run).await.unwrap();
        let all = done.stages.iter().flat_map(|stage| &stage.tasks);
        assert!(all.map(|task| task.kept.len()).all(|sizes| sizes == 0));
        let tasks = &done.stages.last().unwrap().tasks;
        let commits = tasks.iter().map(|done| done.sealed_commit.clone());
        (streams, commits.collect())
    }

    fn result(&self, from: &[&Ran]) -> OpenResult {
        let part = |(partition, (streams, commits)): (u32, &&Ran)| {
            let commit = &commits[usize::try_from(partition).unwrap()];
            (streams[&partition].clone(), commit.clone())
        };
        let parts = (0..TARGETS)
            .zip(from)
            .map(|(partition, ran)| part((partition, ran)));
        self.query.result_of(TOP, parts.collect())
    }

    async fn keys(&mut self, result: &OpenResult) -> Result<Vec<i64>, Problem> {
        let mut keys = Vec::new();
        for batch in self.client.rows(result).await? {
            keys.extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// What the engine says of a run that is not the one that was sealed.
    async fn refused(&mut self, what: &str, change: impl FnOnce(&mut RunQuery)) -> String {
        let mut run = self.run.clone();
        change(&mut run);
        match self.engine.run_query(&mut self.client, &run).await {
            Ok(_) => panic!("{what}: it was run"),
            Err(failed) => self.query.code_of(&mut self.client, failed).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_run_in_one_request_and_leaves_nothing() {
    let mut ready = ready(MEMORY).await;
    let ran = ready.ran().await;
    assert_eq!(ran.0.len(), 3, "the result's streams and no others leave");
    let result = ready.result(&[&ran, &ran, &ran]);
    let keys = ready.keys(&result).await.unwrap();
    assert_eq!(keys, (ROWS / 2..ROWS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_two_runs_do_not_go_together() {
    let mut ready = ready(MEMORY).await;
    let (one, other) = (ready.ran().await, ready.ran().await);
    let mixed = ready.result(&[&one, &one, &other]);
    let refused = ready.keys(&mixed).await.unwrap_err();
    assert_eq!(refused.code, "commit_identity");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_query_that_was_sealed_is_run() {
    let mut ready = ready(MEMORY).await;
    let cases: [(&str, Change, &str); 8] = [
        (
            "a stage is left out",
            |run| drop(run.stages.remove(0)),
            "COFFER_ATTEMPTS_MISSING",
        ),
        (
            "a stage comes after who reads it",
            |run| run.stages.swap(1, 2),
            "COFFER_ATTEMPTS_MISSING",
        ),
        (
            "a task is left out",
            |run| drop(run.stages[1].sealed_descriptors.pop()),
            "COFFER_DESCRIPTOR_IDENTITY",
        ),
        (
            "a task comes twice",
            |run| {
                let again = run.stages[1].sealed_descriptors[0].clone();
                run.stages[1].sealed_descriptors[1] = again;
            },
            "COFFER_OPENING",
        ),
        (
            "a stage comes twice",
            |run| run.stages.insert(0, run.stages[1].clone()),
            "COFFER_DESCRIPTOR_IDENTITY",
        ),
        (
            "a stage under another's number",
            |run| run.stages[1].stage = 9,
            "COFFER_OPENING",
        ),
        (
            "another stage's fragment",
            |run| run.stages[0].sealed_fragment = run.stages[1].sealed_fragment.clone(),
            "COFFER_OPENING",
        ),
        ("no stages", |run| run.stages.clear(), "failed"),
    ];
    for (what, change, code) in cases {
        let said = ready.refused(what, change).await;
        assert!(
            said.contains(code) || said.starts_with(code),
            "{what}: {said}"
        );
    }
    // None of that is in the way of the query itself.
    let ran = ready.ran().await;
    let result = ready.result(&[&ran, &ran, &ran]);
    assert_eq!(ready.keys(&result).await.unwrap().len(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_it_is_not_run_alone() {
    let mut ready = ready(MEMORY).await;
    let stage = ready.run.stages[1].clone();
    let start = coffer_protocol::wire::Start {
        protocol: 1,
        session: ready.query.session.clone(),
        sealed_fragment: stage.sealed_fragment,
        sealed_descriptor: stage.sealed_descriptors[0].clone(),
        sealed_objects: stage.sealed_objects,
        release: ready.run.release.clone(),
        stage: LEFT,
        partition: 0,
    };
    let (client, engine) = (&mut ready.client, &mut ready.engine);
    let error = ready
        .query
        .error_of(client, engine, &start, Vec::new())
        .await;
    assert_eq!(error.code, "COFFER_DESCRIPTOR_IDENTITY");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_says_so_and_is_forgotten() {
    let mut ready = ready(100 << 10).await;
    let run = ready.run.clone();
    let failed = ready
        .engine
        .run_query(&mut ready.client, &run)
        .await
        .unwrap_err();
    assert_eq!(failed.code, "memory");
    assert!(failed.sealed_error.is_empty());
    assert_eq!(ready.engine.enclave.memory_in_use(), 0);
}

/// Exchanges have half of the memory.
#[tokio::test(flavor = "multi_thread")]
async fn rows_without_room_wait_on_disk() {
    let mut ready = ready_with(LITTLE, stages_of(20 * ROWS)).await;
    let spill = ready.engine.enclave.spill();
    let ran = ready.ran().await;
    assert!(spill.written() > 0);
    let result = ready.result(&[&ran, &ran, &ran]);
    let keys = ready.keys(&result).await.unwrap();
    assert_eq!(keys, (ROWS / 2..2 * ROWS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_ends_the_query() {
    let mut ready = ready(MEMORY).await;
    let run = ready.run.clone();
    let mut other = ready.engine.again().await;
    other
        .send(coffer_protocol::wire::TaskMessage::RunQuery, &run)
        .await;
    drop(other);
    while ready.engine.enclave.running() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let ran = ready.ran().await;
    let result = ready.result(&[&ran, &ran, &ran]);
    assert_eq!(ready.keys(&result).await.unwrap().len(), 2000);
}

/// What a stage may read is a stage before it in the same query.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_sealed_only_if_it_is_whole() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let query = Query::begin(&mut client).await;
    let refused = query.seal_whole(&mut client, stages()[1..].to_vec()).await;
    assert_eq!(refused.unwrap_err().code, "stage_unknown");

    // It was sealed with another query, in which its rows stay.
    let query = Query::begin(&mut client).await;
    query.seal_whole(&mut client, stages()).await.unwrap();
    let mut top = stages().pop().unwrap();
    top.stage = 7;
    let refused = query.seal(&mut client, top.clone()).await;
    assert_eq!(refused.err().unwrap().code, "attempts_missing");
    let refused = query.seal_whole(&mut client, vec![top]).await;
    assert_eq!(refused.unwrap_err().code, "attempts_missing");

    let query = Query::begin(&mut client).await;
    let refused = query.seal_whole(&mut client, stages()[..2].to_vec()).await;
    assert_eq!(refused.unwrap_err().code, "stage", "nobody reads the last");
    let query = Query::begin(&mut client).await;
    let mut part = stages();
    part[2].tasks[0] = TaskSpec::default();
    let refused = query.seal_whole(&mut client, part).await;
    assert_eq!(refused.unwrap_err().code, "coverage");
}
