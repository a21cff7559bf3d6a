//! Stages that run again: which lists of attempts a task may be given, and whose rows may change
//! when they do.

use crate::harness;

use std::collections::HashMap;

use arrow::{array::AsArray, datatypes::Int64Type};
use coffer_protocol::{
    plan::{AggMode, DataType, Fragment, Literal, Node, Schema, TypeId, Union, literal, node::Op},
    wire::{
        ClientMessage, CommitsAccepted, Problem, ResultKept, RunAtClient, SealValue, TaskResult,
        ValueSealed, run_at_client::ClientInput,
    },
};
use harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, Stage, feed, leaf_stage, reduce_stage, results},
};
use prost::Message;

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

/// Three stages, of which the last one's tasks are about to run: rows, something made of them by
/// two tasks, a result of two tasks.
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
    let leaves = query
        .seal(&mut client, leaf_stage(1, &fragment, 2))
        .await
        .unwrap();
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
    let accepted = query.accept(&mut client, 2, &outputs).await.unwrap();
    // What another run may change tells Spark nothing that it could plan by.
    assert_eq!(accepted.may_change, made.sealed.indeterminate);
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

fn last_stage() -> coffer_protocol::wire::SealStage {
    let fragment = ir::to_result(ir::input(pairs()), pairs());
    reduce_stage(3, &fragment, 2, 2, 2)
}

impl Ready {
    /// Runs task 0 of the second stage again; what both made now.
    async fn again(&mut self) -> (Vec<Output>, CommitsAccepted) {
        let start = self.query.start(&self.made, 0, &self.engine);
        let input: HashMap<u32, Vec<u8>> = [(0, self.fed[0].clone())].into();
        let again = self
            .engine
            .run(&mut self.client, &start, &input)
            .await
            .done();
        let now = vec![again, self.outputs[1].clone()];
        let accepted = self.query.accept(&mut self.client, 2, &now).await.unwrap();
        assert_eq!(accepted.epoch, 2);
        (now, accepted)
    }

    /// Runs a task of the last stage over these outputs; with the list that counts now, as a
    /// repeated task.
    async fn finish(
        &mut self,
        partition: usize,
        from: &[Output],
        list: Option<&CommitsAccepted>,
    ) -> Output {
        let mut start = self.query.start(&self.last, partition, &self.engine);
        start
            .sealed_objects
            .extend(list.map(|list| list.sealed_attempts.clone()));
        let input: HashMap<u32, Vec<u8>> = [(0, feed(from, 2)[partition].clone())].into();
        self.engine
            .run(&mut self.client, &start, &input)
            .await
            .done()
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
    // Sealed again, it names the list that counts now. An engine that has seen neither list is
    // given the old one.
    ready.last = ready
        .query
        .seal(&mut ready.client, last_stage())
        .await
        .unwrap();
    let mut other = ready._site.engine("other", 64 << 20).await;
    other.admit(&mut ready.client).await.unwrap();
    let mut start = ready.query.start(&ready.last, 0, &other);
    start.sealed_objects = old.sealed.sealed_objects.clone();
    let error = ready
        .query
        .error_of(
            &mut ready.client,
            &mut other,
            &start,
            feed(&old_outputs, 2)[0].clone(),
        )
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

    // Also when they come to the client one by one.
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
            let refused = ready
                .query
                .seal(&mut ready.client, leaf_stage(9, &fragment, 1))
                .await;
            assert_eq!(
                refused.err().map(|problem| problem.code).as_deref(),
                Some("stage"),
                "{partitions}"
            );
        }
    }
}

fn double() -> DataType {
    DataType {
        id: TypeId::Double.into(),
        ..ir::long()
    }
}

/// Rows (k, v), three doubles in each of 30,000 groups, the rows of a group far from each other.
fn measured() -> Node {
    let rows = ir::schema(&[("k", ir::long()), ("v", double())]);
    let real = |value: f64| Literal {
        r#type: Some(double()),
        value: Some(literal::Value::Double(value)),
    };
    let values = (0..1000).map(|k: i32| vec![ir::int(k.into()), real(f64::from(k).sqrt())]);
    let parts = [1.0, 3.0, 7.0].into_iter().flat_map(|part| {
        let projection = move |group: i64| {
            let key = ir::called(
                "add",
                vec![ir::column(0), ir::constant(ir::int(1000 * group))],
                ir::long(),
            );
            let value = ir::called(
                "divide",
                vec![ir::column(1), ir::constant(real(part))],
                double(),
            );
            vec![key, value]
        };
        (0..30).map(projection)
    });
    ir::expanded(
        ir::values(rows.clone(), values.collect()),
        parts.collect(),
        rows,
    )
}

/// An executor is lost under GROUP BY avg(d): its map runs again elsewhere, where memory is short,
/// so rows are added up in another order. Some readers are done; the others read what was made now.
#[tokio::test(flavor = "multi_thread")]
async fn groups_by_an_average_of_doubles_are_counted_once() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    let mut small = site.engine("small", 1 << 20).await;
    engine.admit(&mut client).await.unwrap();
    small.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;

    let averages = ir::schema(&[("a", double()), ("k", ir::long())]);
    let binary = TypeId::Binary;
    for (stage, name, buffer) in [
        (10, "avg", vec![("sum", binary), ("count", TypeId::Long)]),
        (20, "sum", vec![("sum", binary)]),
        (
            30,
            "stddev_samp",
            vec![("n", TypeId::Double), ("sum", binary), ("squares", binary)],
        ),
    ] {
        let made = ir::projected(
            ir::by_key(measured(), name, double(), &buffer),
            &[("a", 1), ("k", 0)],
        );
        let made = query
            .seal(
                &mut client,
                leaf_stage(stage, &ir::to_hash(made, averages.clone(), 2), 1),
            )
            .await
            .unwrap();
        assert!(!made.sealed.indeterminate, "{name}");
        let first = query.run(&mut client, &mut engine, &made, &[]).await;
        query.accept(&mut client, stage, &first).await.unwrap();
        let fragment = ir::to_result(ir::input(averages.clone()), averages.clone());
        let last = query
            .seal(&mut client, reduce_stage(stage + 1, &fragment, stage, 1, 2))
            .await
            .unwrap();

        let read = async |client: &mut Client,
                          engine: &mut Engine,
                          partition: usize,
                          from: &[Output],
                          list| {
            let mut start = query.start(&last, partition, engine);
            start.sealed_objects.extend(list);
            let input: HashMap<u32, Vec<u8>> = [(0, feed(from, 2)[partition].clone())].into();
            engine.run(client, &start, &input).await.done()
        };
        let before = read(&mut client, &mut engine, 0, &first, None).await;
        let start = query.start(&made, 0, &small);
        let again = vec![small.run(&mut client, &start, &HashMap::new()).await.done()];
        let spilled = again[0].done.counters.unwrap().bytes_spilled;
        assert!(spilled > 0, "{name}: memory was not short");
        let accepted = query.accept(&mut client, stage, &again).await.unwrap();
        assert_eq!((accepted.epoch, accepted.rows), (2, 30_000));
        let after = read(
            &mut client,
            &mut engine,
            1,
            &again,
            Some(accepted.sealed_attempts),
        )
        .await;

        let request = query.result(stage + 1, &[before, after], None);
        let batches = client.rows(&request).await.unwrap();
        let mut keys: Vec<i64> = batches
            .iter()
            .flat_map(|batch| {
                batch
                    .column(1)
                    .as_primitive::<Int64Type>()
                    .values()
                    .to_vec()
            })
            .collect();
        keys.sort_unstable();
        assert!(
            keys.into_iter().eq(0..30_000),
            "{name}: groups are missing, or there twice"
        );
    }
}

/// `k = ` the value of subquery 7, over what stage 2 made.
fn at_the_value() -> coffer_protocol::wire::SealStage {
    let filter = ir::at_the_value(ir::input(pairs()), 7);
    let mut request = reduce_stage(4, &ir::to_result(filter, pairs()), 2, 2, 2);
    request.objects = vec![7];
    request
}

impl Ready {
    /// The value of a subquery, from rows that came to the client.
    async fn value(&mut self) -> Result<(), Problem> {
        let request = SealValue {
            session: self.query.session.clone(),
            id: 7,
            literal: Some(ir::int(3)),
        };
        let sealed: Result<ValueSealed, Problem> =
            self.client.ask(ClientMessage::SealValue, &request).await;
        sealed.map(|_| ())
    }

    /// Runs all of the last stage over these outputs and bring its rows to the client.
    async fn config_dir(&mut self, from: &[Output], list: Option<&CommitsAccepted>) {
        let one = self.finish(0, from, list).await;
        let two = self.finish(1, from, list).await;
        self.rows(&[one, two]).await.unwrap();
    }

    /// The rows where the key is the value.
    async fn found(&mut self, from: &[Output]) -> Result<usize, Problem> {
        let stage = self.query.seal(&mut self.client, at_the_value()).await?;
        let mut outputs = vec![];
        for partition in 0..2 {
            let start = self.query.start(&stage, partition, &self.engine);
            let input: HashMap<u32, Vec<u8>> = [(0, feed(from, 2)[partition].clone())].into();
            outputs.push(
                self.engine
                    .run(&mut self.client, &start, &input)
                    .await
                    .done(),
            );
        }
        let batches = self
            .client
            .rows(&self.query.result(4, &outputs, None))
            .await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    /// Runs all of the last stage, as another execution, and leaves its rows with the client
    /// engine.
    async fn kept(&mut self, execution: u64, from: &[Output]) -> u32 {
        self.query.execution = execution;
        self.last = self
            .query
            .seal(&mut self.client, last_stage())
            .await
            .unwrap();
        let outputs = [
            self.finish(0, from, None).await,
            self.finish(1, from, None).await,
        ];
        let mut request = self.query.result(3, &outputs, None);
        request.keep_bytes = 1 << 20;
        let kept: ResultKept = self
            .client
            .ask(ClientMessage::OpenResult, &request)
            .await
            .unwrap();
        kept.kept
    }

    async fn at_client(&mut self, kept: [u32; 2], values: bool) -> Result<usize, Problem> {
        let root = Node {
            id: 30,
            op: Some(Op::Union(Union {
                children: vec![
                    ir::input_of(0, pairs(), false),
                    ir::input_of(1, pairs(), false),
                ],
                schema: Some(pairs()),
                children_partitions: vec![],
            })),
        };
        let request = RunAtClient {
            session: self.query.session.clone(),
            fragment: ir::to_result(root, pairs()).encode_to_vec().into(),
            inputs: (0..)
                .zip(kept)
                .map(|(input_id, kept)| ClientInput { input_id, kept })
                .collect(),
            read_bytes: 1 << 20,
            values,
            ..RunAtClient::default()
        };
        let batches = self
            .client
            .rows_of(ClientMessage::RunAtClient, &request)
            .await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_and_the_rows_it_is_compared_with_are_of_one_version() {
    // A value of rows that nobody makes again, or that come out the same.
    for again in [false, true] {
        let mut ready = ready(sums()).await;
        let mut outputs = ready.outputs.clone();
        ready.config_dir(&outputs, None).await;
        ready.value().await.unwrap();
        if again {
            outputs = ready.again().await.0;
        }
        assert_eq!(ready.found(&outputs).await.unwrap(), 1, "{again}");
    }
    for again in [false, true] {
        let mut ready = ready(ir::limited(sums(), 10)).await;
        let mut outputs = ready.outputs.clone();
        ready.config_dir(&outputs, None).await;
        ready.value().await.unwrap();
        if again {
            outputs = ready.again().await.0;
        }
        let found = ready.found(&outputs).await;
        assert_eq!(
            found.err().map(|problem| problem.code),
            again.then(|| "mixed".to_owned())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_of_one_version_itself() {
    let mut ready = ready(ir::limited(sums(), 10)).await;
    let outputs = ready.outputs.clone();
    ready.kept(12, &outputs).await;
    let now = ready.again().await.0;
    ready.kept(13, &now).await;
    assert_eq!(ready.value().await.unwrap_err().code, "mixed");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_kept_are_of_one_version() {
    for (made, again, values, code) in [
        (ir::limited(sums(), 10), false, false, None),
        (ir::limited(sums(), 10), true, false, Some("mixed")),
        (sums(), true, false, None),
        (sums(), true, true, None),
    ] {
        let mut ready = ready(made).await;
        let mut outputs = ready.outputs.clone();
        let one = ready.kept(12, &outputs).await;
        if again {
            outputs = ready.again().await.0;
        }
        let two = ready.kept(13, &outputs).await;
        let rows = ready.at_client([one, two], values).await;
        assert_eq!(
            rows.err().map(|problem| problem.code).as_deref(),
            code,
            "{again} {values}"
        );
    }
    // Rows of one version, and in the fragment a value that was computed from the other.
    let mut ready = ready(ir::limited(sums(), 10)).await;
    let outputs = ready.outputs.clone();
    ready.kept(12, &outputs).await;
    let now = ready.again().await.0;
    let two = ready.kept(13, &now).await;
    assert_eq!(
        ready.at_client([two, 0], true).await.unwrap_err().code,
        "mixed"
    );
}
