//! Shuffled and Cartesian joins read what the coverage rules let them.

use coffer_protocol::{
    plan::JoinType,
    wire::{
        Product, SealStage, StageInput, TaskSpec,
        product::Side,
        task_spec::{Position, Rectangle},
    },
};
use prost::Message;

use super::{LEFT, RIGHT, TOP, pairs, rectangle, rows, task, values, whole};
use crate::harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, leaf_stage},
};

/// Two shuffles by hash of `k` to two partitions each, of two maps.
async fn two_shuffles(query: &Query, client: &mut Client, engine: &mut Engine) -> [Vec<Output>; 2] {
    let mut both = Vec::new();
    for (stage, keys) in [(LEFT, 0..60), (RIGHT, 20..100)] {
        let fragment = ir::to_hash(ir::values(pairs(), rows(keys)), pairs(), 2);
        let sealed = query
            .seal(client, leaf_stage(stage, &fragment, 2))
            .await
            .unwrap();
        let outputs = query.run(client, engine, &sealed, &[]).await;
        query.accept(client, stage, &outputs).await.unwrap();
        both.push(outputs);
    }
    let right = both.pop().unwrap();
    [both.pop().unwrap(), right]
}

fn streams(outputs: &[Output], of: &Rectangle) -> Vec<u8> {
    let maps = of.map_begin..of.map_end;
    let each =
        maps.flat_map(|map| (of.reduce_begin..of.reduce_end).map(move |reduce| (map, reduce)));
    each.flat_map(|(map, reduce)| outputs[usize::try_from(map).unwrap()].streams[&reduce].to_vec())
        .collect()
}

async fn run_each(
    query: &Query,
    client: &mut Client,
    engine: &mut Engine,
    request: &SealStage,
    both: &[Vec<Output>; 2],
) -> Vec<(Option<i64>, Option<i64>)> {
    let top = query.seal(client, request.clone()).await.unwrap();
    let mut outputs = Vec::new();
    for (partition, task) in request.tasks.iter().enumerate() {
        let fed = task.rectangles.iter().map(|of| {
            let producer = usize::try_from(of.input_id).unwrap();
            (of.input_id, streams(&both[producer], of))
        });
        let start = query.start(&top, partition, engine);
        outputs.push(engine.run(client, &start, &fed.collect()).await.done());
    }
    let batches = client
        .rows(&query.result(request.stage, &outputs, None))
        .await
        .unwrap();
    values(&batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skew_split_reads_one_side_again_and_only_that() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let both = two_shuffles(&query, &mut client, &mut engine).await;
    let fragment = ir::to_result(
        ir::join(JoinType::LeftOuter, &pairs(), false),
        ir::twice(&pairs()),
    );
    let grouped = |input, producer| StageInput {
        group: 1,
        ..whole(input, producer, 2, 2)
    };
    // Reduce 0: the left side in two parts, each against all of the right one.
    let request = SealStage {
        stage: TOP,
        fragment: fragment.encode_to_vec().into(),
        tasks: vec![
            task(vec![rectangle(0, 0..1, 0..1), rectangle(1, 0..2, 0..1)]),
            task(vec![rectangle(0, 1..2, 0..1), rectangle(1, 0..2, 0..1)]),
            task(vec![rectangle(0, 0..2, 1..2), rectangle(1, 0..2, 1..2)]),
        ],
        inputs: vec![grouped(0, LEFT), grouped(1, RIGHT)],
        ..SealStage::default()
    };
    let found = run_each(&query, &mut client, &mut engine, &request, &both).await;
    let expected: Vec<_> = (0..60)
        .map(|k| (Some(k * 10), (k >= 20).then_some(k * 10)))
        .collect();
    assert_eq!(found, expected);

    let changed = |change: fn(&mut SealStage)| {
        let mut request = request.clone();
        request.stage = 9;
        change(&mut request);
        request
    };
    let mutations: Vec<SealStage> = vec![
        changed(|r| r.inputs[1].group = 0),
        changed(|r| r.tasks[1].rectangles[1].map_end = 1),
        changed(|r| r.tasks[1].rectangles[0].map_begin = 0),
        changed(|r| {
            r.tasks.pop();
        }),
        changed(|r| {
            let again = r.tasks[2].clone();
            r.tasks.push(again);
        }),
        changed(|r| r.tasks.push(task(vec![rectangle(0, 0..2, 1..2)]))),
    ];
    for (case, mutated) in mutations.into_iter().enumerate() {
        let refused = query
            .seal(&mut client, mutated)
            .await
            .err()
            .map(|problem| problem.code);
        assert_eq!(refused.as_deref(), Some("coverage"), "case {case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cartesian_product_reads_each_partition_against_each() {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let both = two_shuffles(&query, &mut client, &mut engine).await;
    let fragment = ir::to_result(ir::product(&pairs()), ir::twice(&pairs()));
    let below = |input, producer, side| StageInput {
        side,
        ..whole(input, producer, 2, 2)
    };
    // The left side in two partitions, the right one in one of both.
    let cells = (0..2).map(|i| TaskSpec {
        positions: [(1, i), (2, 0)]
            .map(|(side, partition)| Position { side, partition })
            .to_vec(),
        ..task(vec![rectangle(0, 0..2, i..i + 1), rectangle(1, 0..2, 0..2)])
    });
    let request = SealStage {
        stage: TOP,
        fragment: fragment.encode_to_vec().into(),
        tasks: cells.collect(),
        inputs: vec![below(0, LEFT, 1), below(1, RIGHT, 2)],
        products: vec![Product {
            sides: [(1, 2), (2, 1)]
                .map(|(side, partitions)| Side { side, partitions })
                .to_vec(),
        }],
        ..SealStage::default()
    };
    let found = run_each(&query, &mut client, &mut engine, &request, &both).await;
    assert_eq!(found.len(), 60 * 80);

    let mut mutated = request.clone();
    mutated.stage = 9;
    mutated.products.clear();
    mutated
        .tasks
        .iter_mut()
        .for_each(|task| task.positions.clear());
    mutated.inputs.iter_mut().for_each(|input| input.side = 0);
    let refused = query
        .seal(&mut client, mutated)
        .await
        .err()
        .map(|problem| problem.code);
    assert_eq!(
        refused.as_deref(),
        Some("coverage"),
        "the right side is read twice"
    );
    let mut mutated = request;
    mutated.stage = 9;
    mutated.tasks.pop();
    let refused = query
        .seal(&mut client, mutated)
        .await
        .err()
        .map(|problem| problem.code);
    assert_eq!(refused.as_deref(), Some("coverage"), "a cell is missing");
}
