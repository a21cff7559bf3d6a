//! Stages that run again: which lists of attempts a task may be given, and whose rows may change when they do.

mod harness;

use std::collections::HashMap;

use coffer_proto::{
    plan::{AggMode, Fragment, Node, Schema},
    wire::{CommitsAccepted, Problem, TaskResult},
};
use harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, Stage, feed, leaf_stage, reduce_stage, results},
};

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

/// Three stages, of which the last one's tasks are about to run: rows, something made of them by two tasks, a result of two tasks.
struct Ready {
    _site: Site,
    client: Client,
    engine: Engine,
    query: Query,
    made: Stage,
    /// What the tasks that made it were fed.
    fed: Vec<Vec<u8>>,
    outputs: Vec<Output>,
    last: Stage,
}

fn sums() -> Node {
    ir::sum_by_key(ir::input(pairs()), AggMode::Complete)
}

async fn ready(made: Node) -> Ready {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;

    let rows = (0..900).map(|i| vec![ir::int(i), ir::int(i)]).collect();
    let fragment = ir::to_round_robin(ir::values(pairs(), rows), pairs(), 2);
    let leaves = query.seal(&mut client, leaf_stage(1, &fragment, 2)).await.unwrap();
    assert!(!leaves.sealed.indeterminate);
    let outputs = query.run(&mut client, &mut engine, &leaves, &[]).await;
    query.accept(&mut client, 1, &outputs).await.unwrap();
    let fed = feed(&outputs, 2);

    let fragment = ir::to_hash(made, pairs(), 2);
    let made = query
        .seal(&mut client, reduce_stage(2, &fragment, 1, 2, 2))
        .await
        .unwrap();
    let outputs = query.run(&mut client, &mut engine, &made, &fed).await;
    query.accept(&mut client, 2, &outputs).await.unwrap();
    let last = query.seal(&mut client, last_stage()).await.unwrap();
    Ready {
        _site: site,
        client,
        engine,
        query,
        made,
        fed,
        outputs,
        last,
    }
}

fn last_stage() -> coffer_proto::wire::SealStage {
    let fragment = ir::to_result(ir::input(pairs()), pairs());
    reduce_stage(3, &fragment, 2, 2, 2)
}

impl Ready {
    /// Runs task 0 of the second stage again; what both made now.
    async fn again(&mut self) -> (Vec<Output>, CommitsAccepted) {
        let start = self.query.start(&self.made, 0, &self.engine);
        let input: HashMap<u32, Vec<u8>> = [(0, self.fed[0].clone())].into();
        let again = self.engine.run(&mut self.client, &start, &input).await.done();
        let now = vec![again, self.outputs[1].clone()];
        let accepted = self.query.accept(&mut self.client, 2, &now).await.unwrap();
        assert_eq!(accepted.epoch, 2);
        (now, accepted)
    }

    /// Runs a task of the last stage over these outputs; with the list that counts now, as a repeated task.
    async fn finish(&mut self, partition: usize, from: &[Output], list: Option<&CommitsAccepted>) -> Output {
        let mut start = self.query.start(&self.last, partition, &self.engine);
        start
            .sealed_objects
            .extend(list.map(|list| list.sealed_attempts.clone()));
        let input: HashMap<u32, Vec<u8>> = [(0, feed(from, 2)[partition].clone())].into();
        self.engine.run(&mut self.client, &start, &input).await.done()
    }

    async fn rows(&mut self, outputs: &[Output]) -> Result<usize, Problem> {
        let request = self.query.result(3, outputs, None);
        let batches = self.client.rows(&request).await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_descriptor_takes_no_list_that_is_older_than_itself() {
    let mut ready = ready(sums()).await;
    let old = ready.last.clone();
    let old_outputs = ready.outputs.clone();
    ready.again().await;
    // Sealed again, it names the list that counts now. An engine that has seen neither list is given the old one.
    ready.last = ready.query.seal(&mut ready.client, last_stage()).await.unwrap();
    let mut other = ready._site.engine("other", 64 << 20).await;
    other.admit(&mut ready.client).await.unwrap();
    let mut start = ready.query.start(&ready.last, 0, &other);
    start.sealed_objects = old.sealed.sealed_objects.clone();
    let error = ready
        .query
        .error_of(&mut ready.client, &mut other, &start, feed(&old_outputs, 2)[0].clone())
        .await;
    assert_eq!(error.code, "COFFER_ATTEMPTS_STALE");

    // With the old descriptor it is the one that was sealed for it.
    start.sealed_descriptor = old.sealed.sealed_descriptors[0].clone();
    let input: HashMap<u32, Vec<u8>> = [(0, feed(&old_outputs, 2)[0].clone())].into();
    other.run(&mut ready.client, &start, &input).await.done();
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_rows_that_a_repeated_task_keeps_may_read_either_version() {
    let mut ready = ready(sums()).await;
    assert!(!ready.made.sealed.indeterminate);
    let (first, old) = (ready.outputs.clone(), ready.outputs.clone());
    let one = ready.finish(0, &first, None).await;
    let (now, list) = ready.again().await;
    let two = ready.finish(1, &now, Some(&list)).await;
    assert_ne!(old[0].done.sealed_commit, now[0].done.sealed_commit);
    assert_eq!(ready.rows(&[one, two]).await.unwrap(), 900);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_repeated_task_makes_anew_are_not_mixed() {
    // Ten of the groups, in whatever order they come.
    let mut ready = ready(ir::limited(sums(), 10)).await;
    assert!(ready.made.sealed.indeterminate);
    let first = ready.outputs.clone();
    let one = ready.finish(0, &first, None).await;
    let (now, list) = ready.again().await;
    let two = ready.finish(1, &now, Some(&list)).await;
    let mixed = ready.rows(&[one.clone(), two.clone()]).await.unwrap_err();
    assert_eq!(mixed.code, "mixed");

    // Also when they come home one by one.
    let mut part = ready.query.result(3, &[one.clone(), two.clone()], None);
    part.partial = true;
    let whole: Vec<TaskResult> = results(&[one, two.clone()]);
    part.results = whole[..1].to_vec();
    ready.client.rows(&part).await.unwrap();
    part.results = whole[1..].to_vec();
    assert_eq!(ready.client.rows(&part).await.unwrap_err().code, "mixed");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_readers_run_again_read_one_version() {
    let mut ready = ready(ir::limited(sums(), 10)).await;
    let first = ready.outputs.clone();
    ready.finish(0, &first, None).await;
    let (now, list) = ready.again().await;
    let one = ready.finish(0, &now, Some(&list)).await;
    let two = ready.finish(1, &now, Some(&list)).await;
    assert_eq!(ready.rows(&[one, two]).await.unwrap(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_has_a_possible_number_of_partitions() {
    let mut ready = ready(sums()).await;
    let of = |partitions: u32| -> Vec<Fragment> {
        vec![
            ir::to_hash(ir::values(pairs(), vec![]), pairs(), partitions),
            ir::to_round_robin(ir::values(pairs(), vec![]), pairs(), partitions),
            ir::to_range(ir::values(pairs(), vec![]), pairs(), partitions, 5),
        ]
    };
    for partitions in [0, (1 << 24) + 1, u32::MAX] {
        for fragment in of(partitions) {
            let refused = ready.query.seal(&mut ready.client, leaf_stage(9, &fragment, 1)).await;
            assert_eq!(
                refused.err().map(|problem| problem.code).as_deref(),
                Some("stage"),
                "{partitions}"
            );
        }
    }
}
