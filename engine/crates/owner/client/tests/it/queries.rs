//! Queries from end to end: sealed at the client engine, run in enclaves, opened at the client
//! engine.

use crate::harness;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    datatypes::Int64Type,
};
use coffer_protocol::{
    plan::AggMode,
    wire::{
        BoundsPicked, ClientMessage, EndSession, MetricsOpened, OpenMetrics, OpenTable, PickBounds,
        SessionEnded, TableInfo, TaskSpec, open_metrics::TaskMetricsBlob, task_spec::Slice,
    },
};
use harness::{
    Client, Engine, Site, ir,
    query::{Query, feed, leaf_stage, reduce_stage, results, scan_stage},
};

const MEMORY: usize = 256 << 20;

fn pairs() -> coffer_protocol::plan::Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

/// Rows (k, v) with k = i mod 7, v = i.
fn rows(count: i64) -> Vec<Vec<coffer_protocol::plan::Literal>> {
    (0..count)
        .map(|i| vec![ir::int(i % 7), ir::int(i)])
        .collect()
}

fn longs(batches: &[RecordBatch]) -> Vec<(i64, i64)> {
    let mut all = Vec::new();
    for batch in batches {
        let (keys, sums) = (
            batch.column(0).as_primitive::<Int64Type>(),
            batch.column(1).as_primitive::<Int64Type>(),
        );
        all.extend(
            keys.values()
                .iter()
                .copied()
                .zip(sums.values().iter().copied()),
        );
    }
    all
}

fn expected(count: i64) -> Vec<(i64, i64)> {
    let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
    for i in 0..count {
        *sums.entry(i % 7).or_default() += i;
    }
    sums.into_iter().collect()
}

async fn site_and_engine() -> (Site, Client, Engine) {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", MEMORY).await;
    engine.admit(&mut client).await.unwrap();
    (site, client, engine)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_two_step_aggregate_over_two_exchanges_and_two_engines() {
    let (site, mut client, mut first) = site_and_engine().await;
    let query = Query::begin(&mut client).await;

    let spread = ir::to_round_robin(ir::values(pairs(), rows(1000)), pairs(), 3);
    let stage = query
        .seal(&mut client, leaf_stage(1, &spread, 2))
        .await
        .unwrap();
    let spread = query.run(&mut client, &mut first, &stage, &[]).await;
    assert!(
        spread.iter().all(|output| output.streams.len() == 3),
        "a stream for each target"
    );
    let accepted = query.accept(&mut client, 1, &spread).await.unwrap();
    assert_eq!((accepted.epoch, accepted.rows), (1, 1000));

    // The second engine was not there when the stage was sealed: it asks for its keys.
    let partial = ir::to_hash(
        ir::sum_by_key(ir::input(pairs()), AggMode::Partial),
        pairs(),
        4,
    );
    let stage = query
        .seal(&mut client, reduce_stage(2, &partial, 1, 2, 3))
        .await
        .unwrap();
    let mut second = site.engine("second", MEMORY).await;
    second.admit(&mut client).await.unwrap();
    let partial = query
        .run(&mut client, &mut second, &stage, &feed(&spread, 3))
        .await;
    let accepted = query.accept(&mut client, 2, &partial).await.unwrap();
    assert_eq!(accepted.rows, 21, "seven groups from each of three tasks");
    assert_eq!(accepted.rows_by_reduce.iter().sum::<u64>(), 21);

    let total = ir::to_result(ir::sum_by_key(ir::input(pairs()), AggMode::Final), pairs());
    let stage = query
        .seal(&mut client, reduce_stage(3, &total, 2, 3, 4))
        .await
        .unwrap();
    let outputs = query
        .run(&mut client, &mut first, &stage, &feed(&partial, 4))
        .await;

    let finish = ir::to_result(ir::sorted(ir::input(pairs()), 0), pairs());
    let batches = client
        .rows(&query.result(3, &outputs, Some(&finish)))
        .await
        .unwrap();
    assert_eq!(longs(&batches), expected(1000));

    let tasks = outputs
        .iter()
        .zip(0..)
        .map(|(output, partition)| TaskMetricsBlob {
            partition,
            sealed: output.done.sealed_metrics.clone(),
        })
        .collect();
    let metrics: MetricsOpened = client
        .ask(
            ClientMessage::OpenMetrics,
            &OpenMetrics {
                session: query.session.clone(),
                stage: 3,
                tasks,
            },
        )
        .await
        .unwrap();
    let aggregate = metrics.nodes.iter().find(|node| node.node == 4).unwrap();
    assert_eq!(aggregate.rows, 7);
    let counters = outputs[0].done.counters.as_ref().unwrap();
    assert!(counters.bytes_opened > 0 && counters.bytes_in > counters.bytes_opened);
    assert!(counters.crossings >= 4 && counters.engine_nanos > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_without_finish_comes_in_the_order_of_partitions_and_may_come_in_parts() {
    let (_site, mut client, mut engine) = site_and_engine().await;
    let query = Query::begin(&mut client).await;
    let spread = ir::to_round_robin(ir::values(pairs(), rows(30)), pairs(), 3);
    let stage = query
        .seal(&mut client, leaf_stage(1, &spread, 1))
        .await
        .unwrap();
    let spread = query.run(&mut client, &mut engine, &stage, &[]).await;
    query.accept(&mut client, 1, &spread).await.unwrap();
    let all = ir::to_result(ir::input(pairs()), pairs());
    let stage = query
        .seal(&mut client, reduce_stage(2, &all, 1, 1, 3))
        .await
        .unwrap();
    let outputs = query
        .run(&mut client, &mut engine, &stage, &feed(&spread, 3))
        .await;

    let mut request = query.result(2, &outputs, None);
    request.partial = true;
    let all_results = results(&outputs);
    request.results = vec![all_results[1].clone()];
    let middle = longs(&client.rows(&request).await.unwrap());
    request.results = vec![all_results[2].clone(), all_results[0].clone()];
    let ends = longs(&client.rows(&request).await.unwrap());
    assert_eq!((middle.len(), ends.len()), (10, 20));
    let mut values: Vec<i64> = middle.iter().chain(&ends).map(|(_, v)| *v).collect();
    values.sort_unstable();
    assert_eq!(values, (0..30).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_result_still_has_its_schema() {
    let (_site, mut client, mut engine) = site_and_engine().await;
    let query = Query::begin(&mut client).await;
    let nothing = ir::to_result(ir::values(pairs(), vec![]), pairs());
    let stage = query
        .seal(&mut client, leaf_stage(1, &nothing, 1))
        .await
        .unwrap();
    let outputs = query.run(&mut client, &mut engine, &stage, &[]).await;
    let batches = client.rows(&query.result(1, &outputs, None)).await.unwrap();
    assert_eq!(longs(&batches), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_of_no_tasks_has_an_empty_result() {
    let (_site, mut client, _engine) = site_and_engine().await;
    let query = Query::begin(&mut client).await;
    let nothing = ir::to_result(ir::values(pairs(), rows(5)), pairs());
    let stage = query
        .seal(&mut client, leaf_stage(1, &nothing, 0))
        .await
        .unwrap();
    assert!(stage.sealed.sealed_descriptors.is_empty());
    let batches = client.rows(&query.result(1, &[], None)).await.unwrap();
    assert_eq!(longs(&batches), []);

    // An exchange of no tasks feeds a reader all the same.
    let spread = ir::to_hash(ir::values(pairs(), rows(5)), pairs(), 2);
    query
        .seal(&mut client, leaf_stage(2, &spread, 0))
        .await
        .unwrap();
    let accepted = query.accept(&mut client, 2, &[]).await.unwrap();
    assert_eq!((accepted.rows, accepted.rows_by_reduce), (0, vec![0, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_exchange_by_sampled_bounds_orders_all_rows() {
    let (_site, mut client, mut engine) = site_and_engine().await;
    let query = Query::begin(&mut client).await;
    let count = 500;
    let source = || {
        let mixed = (0..count)
            .map(|i| vec![ir::int((i * 7919) % count), ir::int(i)])
            .collect();
        ir::values(pairs(), mixed)
    };
    let stage = query
        .seal(
            &mut client,
            leaf_stage(1, &ir::to_sample(source(), pairs()), 1),
        )
        .await
        .unwrap();
    let samples = query.run(&mut client, &mut engine, &stage, &[]).await;
    let picked: BoundsPicked = client
        .ask(
            ClientMessage::PickBounds,
            &PickBounds {
                session: query.session.clone(),
                execution: query.execution,
                stage: 1,
                bounds_id: 40,
                partitions: 4,
                sampled_partitions: 1,
                samples: results(&samples),
                keys: vec![ir::ascending(0)],
                schema: Some(ir::schema(&[("key0", ir::long()), ("weight", double())])),
            },
        )
        .await
        .unwrap();
    assert_eq!(picked.bounds, 3);

    let mut request = leaf_stage(2, &ir::to_range(source(), pairs(), 4, 40), 1);
    request.objects = vec![40];
    let stage = query.seal(&mut client, request).await.unwrap();
    let ranged = query.run(&mut client, &mut engine, &stage, &[]).await;
    query.accept(&mut client, 2, &ranged).await.unwrap();

    let sorted = ir::to_result(ir::sorted(ir::input(pairs()), 0), pairs());
    let stage = query
        .seal(&mut client, reduce_stage(3, &sorted, 2, 1, 4))
        .await
        .unwrap();
    let outputs = query
        .run(&mut client, &mut engine, &stage, &feed(&ranged, 4))
        .await;
    let keys: Vec<i64> = longs(&client.rows(&query.result(3, &outputs, None)).await.unwrap())
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, (0..count).collect::<Vec<_>>());
}

fn double() -> coffer_protocol::plan::DataType {
    coffer_protocol::plan::DataType {
        id: coffer_protocol::plan::TypeId::Double.into(),
        ..coffer_protocol::plan::DataType::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_finish_merges_sorted_partitions() {
    let (_site, mut client, mut engine) = site_and_engine().await;
    let query = Query::begin(&mut client).await;
    let spread = ir::to_round_robin(ir::values(pairs(), rows(300)), pairs(), 3);
    let stage = query
        .seal(&mut client, leaf_stage(1, &spread, 1))
        .await
        .unwrap();
    let spread = query.run(&mut client, &mut engine, &stage, &[]).await;
    query.accept(&mut client, 1, &spread).await.unwrap();
    let sorted = ir::to_result(ir::sorted(ir::input(pairs()), 1), pairs());
    let stage = query
        .seal(&mut client, reduce_stage(2, &sorted, 1, 1, 3))
        .await
        .unwrap();
    let outputs = query
        .run(&mut client, &mut engine, &stage, &feed(&spread, 3))
        .await;
    let merge = ir::to_result(ir::merged(pairs(), vec![ir::ascending(1)]), pairs());
    let batches = client
        .rows(&query.result(2, &outputs, Some(&merge)))
        .await
        .unwrap();
    let values: Vec<i64> = longs(&batches).into_iter().map(|(_, v)| v).collect();
    assert_eq!(values, (0..300).collect::<Vec<_>>());
}

/// A sealed table of two files: (name, n) with n from 0.
fn make_table(site: &Site) -> PathBuf {
    let file = |first: i64| -> Vec<ArrayRef> {
        let numbers = first..first + 120;
        let names = StringArray::from_iter_values(numbers.clone().map(|n| format!("person {n}")));
        vec![
            Arc::new(names),
            Arc::new(Int64Array::from_iter_values(numbers)),
        ]
    };
    site.table("people", "name STRING, n BIGINT", vec![file(0), file(120)])
}

fn every_row_group(info: &TableInfo) -> Vec<TaskSpec> {
    let slice = |file: usize, first: usize, end: usize| Slice {
        scan_id: 0,
        file: u32::try_from(file).unwrap(),
        first_row_group: u32::try_from(first).unwrap(),
        end_row_group: u32::try_from(end).unwrap(),
    };
    info.files
        .iter()
        .enumerate()
        .map(|(number, file)| TaskSpec {
            slices: vec![slice(number, 0, 1), slice(number, 1, file.row_groups.len())],
            ..TaskSpec::default()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_table_is_read_with_keys_released_for_its_columns() {
    let (site, mut client, mut engine) = site_and_engine().await;
    let folder = make_table(&site);
    let query = Query::begin(&mut client).await;
    let info = client.open(&folder).await.unwrap();
    assert_eq!(
        (info.rows, info.files.len(), info.name.as_str()),
        (240, 2, "people")
    );
    assert!(info.files[0].row_groups.len() >= 2);
    let again = client.open(&folder).await.unwrap();
    assert_eq!(again.handle, info.handle);

    let numbers = ir::schema(&[("n", ir::long())]);
    let all = ir::to_result(ir::scan(numbers.clone()), numbers);
    let stage = query
        .seal(
            &mut client,
            scan_stage(1, &all, info.handle, every_row_group(&info)),
        )
        .await
        .unwrap();
    assert_eq!(stage.sealed.releases.len(), 1);
    let outputs = query.run(&mut client, &mut engine, &stage, &[]).await;
    assert!(outputs[0].done.counters.as_ref().unwrap().bytes_read > 0);
    let batches = client.rows(&query.result(1, &outputs, None)).await.unwrap();
    let numbers: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    assert_eq!(numbers, (0..240).collect::<Vec<_>>());

    // A second stage that needs another column's key, run without the release that came with it:
    // the engine asks.
    let names = ir::schema(&[("name", ir::string())]);
    let all = ir::to_result(ir::scan(names.clone()), names);
    let mut stage = query
        .seal(
            &mut client,
            scan_stage(2, &all, info.handle, every_row_group(&info)),
        )
        .await
        .unwrap();
    assert_eq!(stage.sealed.releases.len(), 1);
    stage.sealed.releases.clear();
    let outputs = query.run(&mut client, &mut engine, &stage, &[]).await;
    let batches = client.rows(&query.result(2, &outputs, None)).await.unwrap();
    let names: Vec<String> = batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_string::<i32>()
                .iter()
                .map(|name| name.unwrap().to_owned())
        })
        .collect();
    assert_eq!(names.len(), 240);
    assert_eq!(names[7], "person 7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_changed_on_storage_fails_the_task() {
    let (site, mut client, mut engine) = site_and_engine().await;
    let folder = make_table(&site);
    let query = Query::begin(&mut client).await;
    let open = OpenTable {
        path: String::new(),
        name: "people".to_owned(),
        ..OpenTable::default()
    };
    let info: TableInfo = client.ask(ClientMessage::OpenTable, &open).await.unwrap();
    let numbers = ir::schema(&[("n", ir::long())]);
    let all = ir::to_result(ir::scan(numbers.clone()), numbers);
    let stage = query
        .seal(
            &mut client,
            scan_stage(1, &all, info.handle, every_row_group(&info)),
        )
        .await
        .unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "parquet")
        {
            let mut bytes = std::fs::read(&path).unwrap();
            let position = bytes.len() - 40;
            bytes[position] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let start = query.start(&stage, 0, &engine);
    let error = query
        .error_of(&mut client, &mut engine, &start, vec![])
        .await;
    assert!(error.code.starts_with("COFFER_"), "{error:?}");
    assert!(!error.retryable, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_is_dropped_by_engines_and_never_opens_again() {
    let (_site, mut client, mut engine) = site_and_engine().await;
    let (old, new) = (
        Query::begin(&mut client).await,
        Query::begin(&mut client).await,
    );
    let fragment = ir::to_result(ir::values(pairs(), rows(3)), pairs());
    let stage = old
        .seal(&mut client, leaf_stage(1, &fragment, 1))
        .await
        .unwrap();
    old.run(&mut client, &mut engine, &stage, &[]).await;
    let start = old.start(&stage, 0, &engine);
    let end = EndSession {
        session: old.session.clone(),
    };
    let _: SessionEnded = client.ask(ClientMessage::EndSession, &end).await.unwrap();
    let again = client
        .ask::<_, SessionEnded>(ClientMessage::EndSession, &end)
        .await
        .unwrap_err();
    assert_eq!(again.code, "session");

    // The next query's descriptor tells the engine.
    let stage = new
        .seal(&mut client, leaf_stage(1, &fragment, 1))
        .await
        .unwrap();
    new.run(&mut client, &mut engine, &stage, &[]).await;
    assert_eq!(engine.enclave.sessions().len(), 1);
    let failed = engine.run(&mut client, &start, &[].into()).await.failed();
    assert_eq!(
        (failed.code.as_str(), failed.sealed_error.len()),
        ("session", 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn subquery_values_are_set_once_and_pinned() {
    use coffer_protocol::{
        plan::{Expr, NamedExpr, Node, Project, SubqueryValue, expr, node::Op},
        wire::{SealValue, ValueSealed},
    };
    let (_site, mut client, mut engine) = site_and_engine().await;
    let query = Query::begin(&mut client).await;
    let value = |literal| SealValue {
        session: query.session.clone(),
        id: 5,
        literal: Some(literal),
    };
    let _: ValueSealed = client
        .ask(ClientMessage::SealValue, &value(ir::int(42)))
        .await
        .unwrap();
    let _: ValueSealed = client
        .ask(ClientMessage::SealValue, &value(ir::int(42)))
        .await
        .unwrap();
    let other = client
        .ask::<_, ValueSealed>(ClientMessage::SealValue, &value(ir::int(43)))
        .await;
    assert_eq!(other.unwrap_err().code, "object_taken");

    let subquery = Expr {
        kind: Some(expr::Kind::Subquery(SubqueryValue {
            id: 5,
            r#type: Some(ir::long()),
        })),
    };
    let project = Node {
        id: 9,
        op: Some(Op::Project(Box::new(Project {
            child: Some(Box::new(ir::values(pairs(), rows(2)))),
            exprs: vec![
                NamedExpr {
                    name: "v".to_owned(),
                    expr: Some(ir::column(1)),
                },
                NamedExpr {
                    name: "s".to_owned(),
                    expr: Some(subquery),
                },
            ],
        }))),
    };
    let fragment = ir::to_result(project, ir::schema(&[("v", ir::long()), ("s", ir::long())]));
    let mut request = leaf_stage(1, &fragment, 1);
    request.objects = vec![5];
    let stage = query.seal(&mut client, request).await.unwrap();
    let mut bare = query.start(&stage, 0, &engine);
    bare.sealed_objects.clear();
    let error = query
        .error_of(&mut client, &mut engine, &bare, vec![])
        .await;
    assert_eq!(error.code, "COFFER_OBJECT_MISSING");
    let outputs = query.run(&mut client, &mut engine, &stage, &[]).await;
    let batches = client.rows(&query.result(1, &outputs, None)).await.unwrap();
    assert_eq!(longs(&batches), [(0, 42), (1, 42)]);
}
