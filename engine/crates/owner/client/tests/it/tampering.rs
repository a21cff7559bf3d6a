//! What a host can do to a query's bytes, and the check that answers: none of these returns rows.

use crate::harness;

use std::collections::HashMap;

use coffer_protocol::{
    plan::{AggMode, Schema},
    wire::{ErrorDetail, Problem},
};
use harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, Stage, feed, leaf_stage, reduce_stage},
};

const PREAMBLE: usize = 28;
const HEADER: usize = 16;

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

/// A query whose second stage is about to run: two maps, three reduces, all bytes in the executor's
/// hands.
struct Ready {
    _site: Site,
    client: Client,
    engine: Engine,
    query: Query,
    maps: Stage,
    outputs: Vec<Output>,
    reduces: Stage,
}

async fn spread(
    query: &Query,
    client: &mut Client,
    engine: &mut Engine,
) -> (Stage, Vec<Output>, Stage) {
    // Both tasks hold rows only in partition 0; the streams of map 1 are empty, and must come all
    // the same.
    let rows = (0..3000).map(|i| vec![ir::int(i), ir::int(i)]).collect();
    let fragment = ir::to_round_robin(ir::values(pairs(), rows), pairs(), 3);
    let maps = query
        .seal(client, leaf_stage(1, &fragment, 2))
        .await
        .unwrap();
    let outputs = query.run(client, engine, &maps, &[]).await;
    query.accept(client, 1, &outputs).await.unwrap();
    let fragment = ir::to_result(
        ir::sum_by_key(ir::input(pairs()), AggMode::Complete),
        pairs(),
    );
    let reduces = query
        .seal(client, reduce_stage(2, &fragment, 1, 2, 3))
        .await
        .unwrap();
    (maps, outputs, reduces)
}

async fn ready() -> Ready {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let query = Query::begin(&mut client).await;
    let (maps, outputs, reduces) = spread(&query, &mut client, &mut engine).await;
    Ready {
        _site: site,
        client,
        engine,
        query,
        maps,
        outputs,
        reduces,
    }
}

impl Ready {
    fn stream(&self, map: usize, target: u32) -> Vec<u8> {
        self.outputs[map].streams[&target].to_vec()
    }

    /// Runs reduce task 0 over these bytes, which must fail.
    async fn error_with(&mut self, input: Vec<u8>) -> ErrorDetail {
        let start = self.query.start(&self.reduces, 0, &self.engine);
        self.query
            .error_of(&mut self.client, &mut self.engine, &start, input)
            .await
    }
}

/// Lengths of the frames of a stream.
fn frames(stream: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut at = PREAMBLE;
    let mut frames = Vec::new();
    while at < stream.len() {
        let length = u32::from_le_bytes(stream[at + 12..at + 16].try_into().unwrap());
        let end = at + HEADER + usize::try_from(length).unwrap();
        frames.push(at..end);
        at = end;
    }
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_not_exactly_the_descriptors_is_refused() {
    let mut ready = ready().await;
    let (one, two) = (ready.stream(0, 0), ready.stream(1, 0));
    let whole = [one.clone(), two.clone()].concat();

    let mut flipped = whole.clone();
    flipped[PREAMBLE + HEADER + 3] ^= 1;
    let mut flag = whole.clone();
    flag[PREAMBLE + 1] ^= 1;
    let mut counter = whole.clone();
    counter[PREAMBLE + 4] ^= 1;
    let mut magic = whole.clone();
    magic[0] ^= 1;
    let mut attempt = whole.clone();
    attempt[4] ^= 1;
    let mut version = whole.clone();
    version[PREAMBLE] = 9;
    let mut long = whole.clone();
    long[PREAMBLE + 12..PREAMBLE + 16].copy_from_slice(&u32::MAX.to_le_bytes());

    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing comes", vec![], "COFFER_STREAM_MISSING"),
        ("a stream is dropped", one.clone(), "COFFER_STREAM_MISSING"),
        (
            "an empty stream is dropped",
            two.clone(),
            "COFFER_STREAM_MISSING",
        ),
        (
            "a stream comes twice",
            [&whole[..], &one].concat(),
            "COFFER_STREAM_REPEATED",
        ),
        (
            "a stream replaces another",
            [one.clone(), one.clone()].concat(),
            "COFFER_STREAM_REPEATED",
        ),
        (
            "another reducer's stream",
            [ready.stream(0, 1), two.clone()].concat(),
            "COFFER_STREAM_FOREIGN",
        ),
        (
            "another reducer's stream besides",
            [&whole[..], &ready.stream(0, 1)].concat(),
            "COFFER_STREAM_FOREIGN",
        ),
        (
            "cut in a frame",
            whole[..whole.len() - 1].to_vec(),
            "COFFER_STREAM_CUT",
        ),
        (
            "cut after a preamble",
            [&two[..], &one[..PREAMBLE]].concat(),
            "COFFER_STREAM_CUT",
        ),
        (
            "cut in a preamble",
            [&two[..], &one[..9]].concat(),
            "COFFER_STREAM_LENGTH",
        ),
        ("no magic", magic, "COFFER_STREAM_FORMAT"),
        (
            "bytes after the end",
            [&whole[..], &[0]].concat(),
            "COFFER_STREAM_LENGTH",
        ),
        ("an attempt nobody made", attempt, "COFFER_STREAM_ATTEMPT"),
        ("a bit of a frame flipped", flipped, "COFFER_FRAME_TAG"),
        ("the counter changed", counter, "COFFER_FRAME_ORDER"),
        ("an unknown frame version", version, "COFFER_FRAME_FORMAT"),
        ("a frame of four gigabytes", long, "COFFER_FRAME_LENGTH"),
    ];
    for (name, input, code) in cases {
        let error = ready.error_with(input).await;
        assert_eq!(error.code, code, "{name}: {error:?}");
        assert!(!error.retryable, "{name}");
    }
    // The last flag decides where the next stream begins: either way the bytes no longer fit.
    let error = ready.error_with(flag).await;
    assert!(
        [
            "COFFER_FRAME_FORMAT",
            "COFFER_STREAM_FORMAT",
            "COFFER_STREAM_CUT"
        ]
        .contains(&error.code.as_str()),
        "{error:?}"
    );

    // After all this the same connection and engine still run the task over the true bytes, in any
    // order of streams.
    let start = ready.query.start(&ready.reduces, 0, &ready.engine);
    let input: HashMap<u32, Vec<u8>> = [(0, [two, one].concat())].into();
    ready
        .engine
        .run(&mut ready.client, &start, &input)
        .await
        .done();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_spliced_together_are_refused() {
    let mut ready = ready().await;
    let own = ready.stream(0, 0);
    let other = ready.stream(0, 1);
    let empty = ready.stream(1, 0);

    // The preamble of one stream before the frames of another.
    let spliced = [&own[..PREAMBLE], &other[PREAMBLE..], &empty].concat();
    assert_eq!(ready.error_with(spliced).await.code, "COFFER_FRAME_TAG");

    // Frames swapped, repeated, left out.
    let frames = frames(&own);
    assert!(!frames.is_empty());
    let (last, first) = (frames.last().unwrap().clone(), frames[0].clone());
    let repeated = [
        &own[..first.start],
        &own[first.clone()],
        &own[first.start..],
        &empty,
    ]
    .concat();
    let code = ready.error_with(repeated).await.code;
    assert!(
        ["COFFER_FRAME_ORDER", "COFFER_STREAM_FORMAT"].contains(&code.as_str()),
        "{code}"
    );
    if frames.len() > 1 {
        let left_out = [&own[..first.start], &own[last], &empty].concat();
        assert_eq!(ready.error_with(left_out).await.code, "COFFER_FRAME_ORDER");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_attempt_of_the_same_map_does_not_count_until_it_is_the_accepted_one() {
    let mut ready = ready().await;
    let again = ready
        .query
        .run(&mut ready.client, &mut ready.engine, &ready.maps, &[])
        .await;
    let stale = [again[0].streams[&0].to_vec(), ready.stream(1, 0)].concat();
    assert_eq!(
        ready.error_with(stale.clone()).await.code,
        "COFFER_STREAM_ATTEMPT"
    );

    // The driver accepts the new attempt of map 0: the next epoch. Sealing again gives tasks the
    // new list.
    let now = vec![again[0].clone(), ready.outputs[1].clone()];
    let accepted = ready
        .query
        .accept(&mut ready.client, 1, &now)
        .await
        .unwrap();
    assert_eq!(accepted.epoch, 2);
    let same = ready
        .query
        .accept(&mut ready.client, 1, &now)
        .await
        .unwrap();
    assert_eq!(same.epoch, 2);
    let old_start = ready.query.start(&ready.reduces, 0, &ready.engine);
    // A repeated task brings the list it was sealed with, and the one that counts now.
    let mut new_start = old_start.clone();
    new_start.sealed_objects.push(accepted.sealed_attempts);
    let input: HashMap<u32, Vec<u8>> = [(0, stale)].into();
    ready
        .engine
        .run(&mut ready.client, &new_start, &input)
        .await
        .done();

    // The engine has seen epoch 2; it does not go back.
    let error = ready
        .query
        .error_of(
            &mut ready.client,
            &mut ready.engine,
            &old_start,
            feed(&ready.outputs, 3)[0].clone(),
        )
        .await;
    assert_eq!(error.code, "COFFER_ATTEMPTS_STALE");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_task_stage_or_session_does_not_open() {
    let mut ready = ready().await;
    let good = ready.query.start(&ready.reduces, 0, &ready.engine);
    let input = feed(&ready.outputs, 3)[0].clone();

    let mut cases = Vec::new();
    let mut start = good.clone();
    start.sealed_descriptor = ready.reduces.sealed.sealed_descriptors[1].clone();
    cases.push((
        "a descriptor of another partition",
        start,
        "COFFER_OPENING_TAG",
    ));
    let mut start = good.clone();
    start.sealed_descriptor = ready.maps.sealed.sealed_descriptors[0].clone();
    cases.push(("a descriptor of another stage", start, "COFFER_OPENING_TAG"));
    let mut start = good.clone();
    start.sealed_fragment = ready.maps.sealed.sealed_fragment.clone();
    cases.push(("a fragment of another stage", start, "COFFER_OPENING_TAG"));
    let mut start = good.clone();
    start.partition = 1;
    cases.push((
        "another partition by START's word",
        start,
        "COFFER_OPENING_TAG",
    ));
    let mut start = good.clone();
    start.sealed_objects.clear();
    cases.push(("no list of attempts", start, "COFFER_ATTEMPTS_MISSING"));
    let mut start = good.clone();
    let mut object = start.sealed_objects[0].to_vec();
    object[0] = 2;
    start.sealed_objects = vec![object.into()];
    cases.push((
        "an object of another kind by its first byte",
        start,
        "COFFER_OPENING_TAG",
    ));
    let mut start = good.clone();
    let mut descriptor = start.sealed_descriptor.to_vec();
    descriptor[0] ^= 1;
    start.sealed_descriptor = descriptor.into();
    cases.push(("another execution by the hint", start, "COFFER_OPENING_TAG"));
    let mut start = good.clone();
    start.sealed_descriptor = vec![1, 2, 3].into();
    cases.push(("a descriptor of three bytes", start, "COFFER_MALFORMED"));
    for (name, start, code) in cases {
        let error = ready
            .query
            .error_of(&mut ready.client, &mut ready.engine, &start, input.clone())
            .await;
        assert_eq!(error.code, code, "{name}: {error:?}");
    }

    // Another session's query, the same in every word: nothing of it fits here.
    let other = Query::begin(&mut ready.client).await;
    let (_, outputs, reduces) = spread(&other, &mut ready.client, &mut ready.engine).await;
    let mut start = good.clone();
    start.sealed_descriptor = reduces.sealed.sealed_descriptors[0].clone();
    let error = ready
        .query
        .error_of(&mut ready.client, &mut ready.engine, &start, input.clone())
        .await;
    assert_eq!(error.code, "COFFER_OPENING_TAG");
    let foreign = feed(&outputs, 3)[0].clone();
    assert_eq!(
        ready.error_with(foreign).await.code,
        "COFFER_STREAM_ATTEMPT"
    );
    // With the attempt id written over, it is the key that does not fit.
    let mut forged = outputs[0].streams[&0].to_vec();
    forged[4..20].copy_from_slice(&ready.stream(0, 0)[4..20]);
    forged.extend(ready.stream(1, 0));
    assert_eq!(ready.error_with(forged).await.code, "COFFER_FRAME_TAG");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_taken_whole_and_once() {
    let mut ready = ready().await;
    let outputs = ready
        .query
        .run(
            &mut ready.client,
            &mut ready.engine,
            &ready.reduces,
            &feed(&ready.outputs, 3),
        )
        .await;
    let good = ready.query.result(2, &outputs, None);

    let mut cases = Vec::new();
    let mut request = good.clone();
    request.results.remove(1);
    cases.push(("a partition is missing", request, "result_partition"));
    let mut request = good.clone();
    request.results[1] = request.results[0].clone();
    cases.push(("a partition comes twice", request, "result_partition"));
    let mut request = good.clone();
    request.results[1].partition = 9;
    cases.push(("a partition that is none", request, "result_partition"));
    let mut request = good.clone();
    request.results[0].partition = 1;
    request.results[1].partition = 0;
    cases.push((
        "two partitions change places",
        request,
        "commit_opening_tag",
    ));
    let mut request = good.clone();
    request.partitions = 2;
    request.results.pop();
    cases.push((
        "fewer partitions by the plugin's word",
        request,
        "commit_count",
    ));
    let mut request = good.clone();
    request.execution += 1;
    cases.push(("another execution", request, "stage_unknown"));
    let mut request = good.clone();
    request.stage = 1;
    cases.push(("a shuffle's stage", request, "stage_unknown"));
    for (name, request, code) in cases {
        let problem = ready.client.rows(&request).await.unwrap_err();
        assert_eq!(problem.code, code, "{name}: {problem:?}");
        assert!(!problem.message.is_empty());
    }

    // Streams that do not open end the query: each is tried on a result of its own execution.
    type Damage = fn(&mut Vec<u8>);
    let stream_cases: [(&str, Damage, &str); 4] = [
        (
            "a bit flipped",
            |bytes| bytes[PREAMBLE + HEADER] ^= 1,
            "stream_tag",
        ),
        (
            "cut",
            |bytes| {
                bytes.pop();
            },
            "stream_length",
        ),
        ("longer", |bytes| bytes.push(0), "stream_order"),
        ("empty", Vec::clear, "stream_length"),
    ];
    for (turn, (name, tamper, code)) in (1..).zip(stream_cases) {
        let (request, outputs) = rerun(&mut ready, turn).await;
        let mut request = request;
        let mut bytes = outputs[0].streams[&0].to_vec();
        tamper(&mut bytes);
        request.results[0].stream = bytes.into();
        let problem = ready.client.rows(&request).await.unwrap_err();
        assert_eq!(problem.code, code, "{name}: {problem:?}");
    }
    let (mut request, outputs) = rerun(&mut ready, 10).await;
    request.results[0].stream = outputs[1].streams[&0].clone();
    assert_eq!(
        ready.client.rows(&request).await.unwrap_err().code,
        "stream_identity"
    );

    // An earlier execution's commit and stream, replayed into a later one.
    let (mut request, _) = rerun(&mut ready, 11).await;
    request.results[0] = good.results[0].clone();
    let problem = ready.client.rows(&request).await.unwrap_err();
    assert_eq!(problem.code, "commit_identity");

    ready.client.rows(&good).await.unwrap();
    assert_eq!(
        ready.client.rows(&good).await.unwrap_err().code,
        "result_partition"
    );
}

/// The result stage once more, as an execution of its own.
async fn rerun(ready: &mut Ready, turn: u64) -> (coffer_protocol::wire::OpenResult, Vec<Output>) {
    let query = Query {
        session: ready.query.session.clone(),
        execution: ready.query.execution + turn,
    };
    let fragment = ir::to_result(
        ir::sum_by_key(ir::input(pairs()), AggMode::Complete),
        pairs(),
    );
    let stage = query
        .seal(&mut ready.client, reduce_stage(2, &fragment, 1, 2, 3))
        .await
        .unwrap();
    let outputs = query
        .run(
            &mut ready.client,
            &mut ready.engine,
            &stage,
            &feed(&ready.outputs, 3),
        )
        .await;
    (query.result(2, &outputs, None), outputs)
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_records_are_each_tasks_own() {
    let mut ready = ready().await;
    let (one, two) = (ready.outputs[0].clone(), ready.outputs[1].clone());
    let refused = |result: Result<_, Problem>| {
        result
            .map(|_: coffer_protocol::wire::CommitsAccepted| ())
            .unwrap_err()
            .code
    };

    let swapped = ready
        .query
        .accept(&mut ready.client, 1, &[two.clone(), one.clone()])
        .await;
    assert_eq!(refused(swapped), "commit_opening_tag");
    let repeated = ready
        .query
        .accept(&mut ready.client, 1, &[one.clone(), one.clone()])
        .await;
    assert_eq!(refused(repeated), "commit_opening_tag");
    let short = ready
        .query
        .accept(&mut ready.client, 1, std::slice::from_ref(&one))
        .await;
    assert_eq!(refused(short), "commit_count");
    let foreign = ready
        .query
        .accept(&mut ready.client, 7, &[one.clone(), two.clone()])
        .await;
    assert_eq!(refused(foreign), "stage_unknown");
    let mut altered = one.clone();
    let mut commit = altered.done.sealed_commit.to_vec();
    let last = commit.len() - 1;
    commit[last] ^= 1;
    altered.done.sealed_commit = commit.into();
    let altered = ready
        .query
        .accept(&mut ready.client, 1, &[altered, two.clone()])
        .await;
    assert_eq!(refused(altered), "commit_opening_tag");
    ready
        .query
        .accept(&mut ready.client, 1, &[one, two])
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_does_not_read_all_of_its_inputs_once_is_not_sealed() {
    let mut ready = ready().await;
    let fragment = ir::to_result(
        ir::sum_by_key(ir::input(pairs()), AggMode::Complete),
        pairs(),
    );
    let good = || reduce_stage(3, &fragment, 1, 2, 3);

    let mut cases = Vec::new();
    let mut request = good();
    request.tasks.pop();
    cases.push(("a reduce partition that nobody reads", request, "coverage"));
    let mut request = good();
    request.tasks.push(request.tasks[0].clone());
    cases.push(("a reduce partition read twice", request, "coverage"));
    let mut request = good();
    request.tasks[0].rectangles[0].map_end = 1;
    cases.push(("a map that nobody reads", request, "coverage"));
    let mut request = good();
    request.tasks[0].rectangles[0].input_id = 4;
    cases.push(("an input that is none", request, "coverage"));
    let mut request = good();
    request.inputs[0].maps = 1;
    cases.push(("fewer maps than were run", request, "stage"));
    let mut request = good();
    request.inputs[0].producer_stage = 8;
    cases.push(("a producer that is none", request, "stage_unknown"));
    let mut request = good();
    request.inputs.clear();
    cases.push(("an input without producer", request, "stage"));
    let mut request = good();
    request.objects = vec![77];
    cases.push(("an object that is none", request, "object_unknown"));
    let mut request = reduce_stage(2, &fragment, 1, 2, 3);
    request.tasks.reverse();
    cases.push(("a sealed stage with other tasks", request, "stage_taken"));
    let wide = ir::schema(&[("k", ir::long()), ("v", ir::string())]);
    let other = ir::to_result(ir::input(wide.clone()), wide);
    cases.push((
        "an input of other columns",
        reduce_stage(3, &other, 1, 2, 3),
        "stage",
    ));
    for (name, request, code) in cases {
        let problem = ready
            .query
            .seal(&mut ready.client, request)
            .await
            .err()
            .unwrap();
        assert_eq!(problem.code, code, "{name}: {problem:?}");
    }
    ready.query.seal(&mut ready.client, good()).await.unwrap();

    // A stage is not sealed over one whose outputs have not been accepted.
    let spread = ir::to_round_robin(ir::values(pairs(), vec![]), pairs(), 3);
    ready
        .query
        .seal(&mut ready.client, leaf_stage(5, &spread, 2))
        .await
        .unwrap();
    let early = ready
        .query
        .seal(&mut ready.client, reduce_stage(6, &fragment, 5, 2, 3))
        .await;
    assert_eq!(early.err().unwrap().code, "attempts_missing");
}
