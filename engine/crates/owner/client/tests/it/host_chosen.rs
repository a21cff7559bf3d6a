//! What the host may have chosen: plain files beside sealed rows. They stay as they were when the
//! query first read them, and nothing that they reach is packed.

use crate::harness;

use std::{fs, path::PathBuf, sync::Arc};

use arrow::{
    array::{Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema as ArrowSchema},
};
use bytes::Bytes;
use coffer_protocol::{
    plan::{Expr, Fragment, NamedExpr, Node, Project, Schema, SubqueryValue, expr, node::Op},
    wire::{
        BeginWrite, ClientMessage, OpenTable, Problem, PublishWrite, SealStage, SealValue,
        TableInfo, TableScan, ValueSealed, WriteBegun, WritePublished, begin_write::Mode,
    },
};
use harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, feed, leaf_stage, reduce_stage, row_groups, scan_stage},
};
use parquet::{
    arrow::ArrowWriter,
    file::properties::{EnabledStatistics, WriterProperties},
};

const POLICY: &str = "unverified_inputs = [\"../open\"]\n[attestation]\naccept = [\"simulated\"]\n";

fn columns() -> Schema {
    ir::schema(&[("k", ir::long()), ("s", ir::string())])
}

fn only(name: &str) -> Schema {
    let mut schema = columns();
    schema.fields.retain(|field| field.name == name);
    schema
}

fn row(k: i64, s: &str) -> Vec<coffer_protocol::plan::Literal> {
    vec![ir::int(k), ir::text(s)]
}

/// Text that does not pack by itself.
fn noise(seed: u64, length: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..length)
        .map(|_| char::from(rng.u8(b'!'..=b'z')))
        .collect()
}

struct Beside {
    site: Site,
    client: Client,
    engine: Engine,
}

impl Beside {
    async fn open() -> Self {
        let site = Site::with_policy(POLICY).await;
        fs::create_dir(site.folder.path().join("open")).unwrap();
        let mut client = site.client().await;
        let mut engine = site.engine("engine", 64 << 20).await;
        engine.admit(&mut client).await.unwrap();
        Self {
            site,
            client,
            engine,
        }
    }

    fn path(&self) -> PathBuf {
        self.site.folder.path().join("open").join("guesses.parquet")
    }

    /// Puts a plain file there, of two rows in a row group: its footer tells of lengths, and of no
    /// value.
    fn plant(&self, rows: &[(i64, &str)]) {
        let schema = Arc::new(ArrowSchema::new(vec![
            Field::new("k", DataType::Int64, true),
            Field::new("s", DataType::Utf8, true),
        ]));
        let numbers: Int64Array = rows.iter().map(|(k, _)| Some(*k)).collect();
        let texts: StringArray = rows.iter().map(|(_, s)| Some(*s)).collect();
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![Arc::new(numbers), Arc::new(texts)],
        )
        .unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_max_row_group_row_count(Some(2))
            .build();
        let file = fs::File::create(self.path()).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    fn footer(&self) -> Vec<u8> {
        let bytes = fs::read(self.path()).unwrap();
        let length = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap());
        bytes[bytes.len() - 8 - usize::try_from(length).unwrap()..].to_vec()
    }

    async fn handle(&mut self) -> u32 {
        let request = OpenTable {
            plain_files: vec![self.path().display().to_string()],
            ..OpenTable::default()
        };
        let info: TableInfo = self
            .client
            .ask(ClientMessage::OpenTable, &request)
            .await
            .unwrap();
        assert!(info.unverified);
        info.handle
    }

    /// Seals a scan of both row groups, a task each.
    fn scan(number: u32, schema: &Schema, handle: u32) -> SealStage {
        let fragment = ir::to_result(ir::scan(schema.clone()), schema.clone());
        scan_stage(
            number,
            &fragment,
            handle,
            vec![row_groups(0..1), row_groups(1..2)],
        )
    }

    /// What the first task of a stage fails with; its text.
    async fn changed(&mut self, query: &Query, request: SealStage) -> String {
        let stage = query.seal(&mut self.client, request).await.unwrap();
        let start = query.start(&stage, 0, &self.engine);
        let detail = query
            .error_of(&mut self.client, &mut self.engine, &start, Vec::new())
            .await;
        assert_eq!(detail.code, "COFFER_INPUT_CHANGED", "{detail:?}");
        assert!(!detail.retryable);
        detail.message
    }
}

const OLD: [(i64, &str); 4] = [(1, "one"), (2, "two"), (3, "old"), (4, "fin")];
const NEW: [(i64, &str); 4] = [(1, "one"), (7, "two"), (3, "new"), (4, "fin")];

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_rewritten_under_a_query_is_refused_and_the_next_query_reads_it() {
    let mut b = Beside::open().await;
    b.plant(&OLD);
    let footer = b.footer();
    let handle = b.handle().await;
    let query = Query::begin(&mut b.client).await;
    let request = Beside::scan(1, &columns(), handle);
    let stage = query.seal(&mut b.client, request).await.unwrap();
    query.run(&mut b.client, &mut b.engine, &stage, &[]).await;

    // The host writes its next guess, of the same lengths, and runs the tasks again; one of the
    // same session over the other columns too.
    b.plant(&NEW);
    assert_eq!(b.footer(), footer, "the footer does not tell");
    for (partition, column) in [(0, "k"), (1, "s")] {
        let start = query.start(&stage, partition, &b.engine);
        let detail = query
            .error_of(&mut b.client, &mut b.engine, &start, Vec::new())
            .await;
        assert_eq!(detail.code, "COFFER_INPUT_CHANGED", "{column}: {detail:?}");
    }
    b.changed(&query, Beside::scan(2, &only("k"), handle)).await;

    // Another query reads what there is then, and a query whose files are put back goes on.
    let next = Query::begin(&mut b.client).await;
    let request = Beside::scan(1, &columns(), handle);
    let sealed = next.seal(&mut b.client, request).await.unwrap();
    let outputs = next.run(&mut b.client, &mut b.engine, &sealed, &[]).await;
    let batches = b
        .client
        .rows(&next.result(1, &outputs, None))
        .await
        .unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 4);
    b.plant(&OLD);
    query.run(&mut b.client, &mut b.engine, &stage, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_later_stages_will_read_is_pinned_with_the_first() {
    let mut b = Beside::open().await;
    b.plant(&OLD);
    let handle = b.handle().await;
    let query = Query::begin(&mut b.client).await;
    let request = SealStage {
        unverified: vec![TableScan {
            handle,
            columns: vec!["k".to_owned(), "s".to_owned()],
            ..TableScan::default()
        }],
        ..Beside::scan(1, &only("k"), handle)
    };
    let stage = query.seal(&mut b.client, request).await.unwrap();
    query.run(&mut b.client, &mut b.engine, &stage, &[]).await;
    // The host has seen what came of the first stage, and chooses what the second one will find.
    b.plant(&[(1, "one"), (2, "tow"), (3, "old"), (4, "fin")]);
    b.changed(&query, Beside::scan(2, &only("s"), handle)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_file_in_the_place_of_the_first_is_refused_when_the_stage_is_sealed() {
    let mut b = Beside::open().await;
    b.plant(&OLD);
    let handle = b.handle().await;
    b.plant(&[(1, "a longer text"), (2, "two")]);
    let query = Query::begin(&mut b.client).await;
    let request = Beside::scan(1, &columns(), handle);
    let problem: Problem = query
        .seal(&mut b.client, request.clone())
        .await
        .err()
        .unwrap();
    assert_eq!(problem.code, "input_changed", "{problem:?}");
    assert!(problem.hint.contains("run the query again"), "{problem:?}");

    // After the stage was sealed, the engine sees it.
    b.plant(&OLD);
    let stage = query.seal(&mut b.client, request).await.unwrap();
    let start = query.start(&stage, 0, &b.engine);
    for other in [
        &OLD[..2],
        &[(1, "one"), (2, "two"), (3, "old"), (4, "of another length")],
    ] {
        b.plant(other);
        let detail = query
            .error_of(&mut b.client, &mut b.engine, &start, Vec::new())
            .await;
        assert!(
            detail.code == "COFFER_INPUT_CHANGED" || detail.code.starts_with("COFFER_FILE_"),
            "{detail:?}"
        );
    }
}

/// How what the host has planted gets to meet a secret.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// In the stage that scans it.
    Scan,
    /// Over a shuffle.
    Shuffle,
    Broadcast,
    /// By the driver, as the value of a subquery.
    Subquery,
    /// In a file of a table.
    Write,
    /// As rows of a sealed table that were written from the plain file, by a query before.
    Table,
    /// Not at all: both come with the query.
    None,
}

const SECRET_NUMBER: i64 = 5_000_000_000_000;

/// The lengths of all that the host sees when `guess` meets the secret, `way`.
async fn seen(
    b: &mut Beside,
    way: Way,
    secret: &str,
    guess: (i64, &str),
    count: u32,
) -> Vec<usize> {
    b.plant(&[guess]);
    let handle = b.handle().await;
    let query = Query::begin(&mut b.client).await;
    let secrets = ir::values(columns(), vec![row(SECRET_NUMBER, secret)]);
    let with = |other: Node| ir::union(vec![secrets.clone(), other], columns());
    let tasks = vec![row_groups(0..1)];
    let outputs = match way {
        Way::None => {
            let other = Node {
                id: 9,
                ..ir::values(columns(), vec![row(guess.0, guess.1)])
            };
            let stage = leaf_stage(1, &ir::to_result(with(other), columns()), 1);
            b.run(&query, stage, &[]).await
        }
        Way::Scan => {
            let fragment = ir::to_result(with(ir::scan(columns())), columns());
            b.run(&query, scan_stage(1, &fragment, handle, tasks), &[])
                .await
        }
        Way::Shuffle | Way::Broadcast => {
            let broadcast = way == Way::Broadcast;
            let to = if broadcast { ir::to_broadcast } else { single };
            let fragment = to(ir::scan(columns()), columns());
            let outputs = b
                .run(&query, scan_stage(1, &fragment, handle, tasks), &[])
                .await;
            query.accept(&mut b.client, 1, &outputs).await.unwrap();
            let fragment = match broadcast {
                true => ir::to_result(
                    ir::with_broadcast(secrets.clone(), &columns()),
                    ir::twice(&columns()),
                ),
                false => ir::to_result(with(ir::input(columns())), columns()),
            };
            let mut stage = reduce_stage(2, &fragment, 1, 1, 1);
            stage.inputs[0].broadcast = broadcast;
            b.run(&query, stage, &feed(&outputs, 1)).await
        }
        Way::Subquery => {
            let fragment = ir::to_result(ir::scan(columns()), columns());
            let outputs = b
                .run(&query, scan_stage(1, &fragment, handle, tasks), &[])
                .await;
            b.client
                .rows(&query.result(1, &outputs, None))
                .await
                .unwrap();
            for (id, literal) in [(1, ir::int(guess.0)), (2, ir::text(guess.1))] {
                let value = SealValue {
                    session: query.session.clone(),
                    id,
                    literal: Some(literal),
                };
                let _: ValueSealed = b
                    .client
                    .ask(ClientMessage::SealValue, &value)
                    .await
                    .unwrap();
            }
            let fragment = ir::to_result(with(guessed()), columns());
            let stage = SealStage {
                objects: vec![1, 2],
                ..leaf_stage(2, &fragment, 1)
            };
            b.run(&query, stage, &[]).await
        }
        Way::Table => {
            let (folder, write, outputs) =
                b.write(&query, ir::scan(columns()), handle, count).await;
            let publish = PublishWrite {
                write,
                session: query.session.clone(),
                execution: query.execution,
                stage: 1,
                commits: vec![outputs[0].done.sealed_commit.clone()],
                ..PublishWrite::default()
            };
            let _: WritePublished = b
                .client
                .ask(ClientMessage::PublishWrite, &publish)
                .await
                .unwrap();
            let table = b.client.open(&folder).await.unwrap();
            assert!(!table.unverified);
            let next = Query::begin(&mut b.client).await;
            let fragment = ir::to_result(with(ir::scan(columns())), columns());
            b.run(&next, scan_stage(1, &fragment, table.handle, tasks), &[])
                .await
        }
        Way::Write => {
            let (folder, _, outputs) = b
                .write(&query, with(ir::scan(columns())), handle, count)
                .await;
            assert!(outputs[0].streams.is_empty());
            let mut files: Vec<usize> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| usize::try_from(entry.unwrap().metadata().unwrap().len()).unwrap())
                .collect();
            files.sort_unstable();
            return files;
        }
    };
    outputs
        .iter()
        .flat_map(|output| output.streams.values().map(Bytes::len))
        .collect()
}

fn single(root: Node, output: Schema) -> Fragment {
    ir::to_round_robin(root, output, 1)
}

/// The values of two subqueries, as a row.
fn guessed() -> Node {
    let value = |id: u32, data_type| NamedExpr {
        name: String::new(),
        expr: Some(Expr {
            kind: Some(expr::Kind::Subquery(SubqueryValue {
                id,
                r#type: Some(data_type),
            })),
        }),
    };
    let child = Node {
        id: 9,
        ..ir::values(columns(), vec![row(0, "")])
    };
    Node {
        id: 10,
        op: Some(Op::Project(Box::new(Project {
            child: Some(Box::new(child)),
            exprs: vec![value(1, ir::long()), value(2, ir::string())],
        }))),
    }
}

impl Beside {
    /// Begins a table and writes these rows; its folder, the write, what the task gave.
    async fn write(
        &mut self,
        query: &Query,
        rows: Node,
        handle: u32,
        count: u32,
    ) -> (PathBuf, u32, Vec<Output>) {
        let folder = self.site.folder.path().join(format!("t{count}"));
        let begin = BeginWrite {
            mode: Mode::Create.into(),
            path: folder.display().to_string(),
            schema: Some(columns()),
            ..BeginWrite::default()
        };
        let begun: WriteBegun = self
            .client
            .ask(ClientMessage::BeginWrite, &begin)
            .await
            .unwrap();
        let fragment = ir::to_table(rows, columns(), vec![]);
        let stage = SealStage {
            write: begun.write,
            ..scan_stage(1, &fragment, handle, vec![row_groups(0..1)])
        };
        let outputs = self.run(query, stage, &[]).await;
        (folder, begun.write, outputs)
    }

    async fn run(&mut self, query: &Query, request: SealStage, inputs: &[Vec<u8>]) -> Vec<Output> {
        let stage = query.seal(&mut self.client, request).await.unwrap();
        query
            .run(&mut self.client, &mut self.engine, &stage, inputs)
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lengths_do_not_tell_a_right_guess_from_a_wrong_one() {
    let mut b = Beside::open().await;
    let (secret, other) = (noise(1, 2000), noise(2, 2000));
    let right = (SECRET_NUMBER, secret.as_str());
    let guesses = [
        right,
        (SECRET_NUMBER, &other),
        (-SECRET_NUMBER, &secret),
        (7, &other),
    ];
    let mut count = 0;
    for way in [
        Way::Scan,
        Way::Shuffle,
        Way::Broadcast,
        Way::Subquery,
        Way::Write,
        Way::Table,
    ] {
        let mut lengths = Vec::new();
        for guess in guesses {
            count += 1;
            lengths.push(seen(&mut b, way, &secret, guess, count).await);
        }
        assert!(
            lengths[0].iter().sum::<usize>() > 4000,
            "{way:?}: {lengths:?}"
        );
        assert!(
            lengths.iter().all(|length| *length == lengths[0]),
            "{way:?}: {lengths:?}"
        );
    }
    // Where the host has no say they do: else this test could not fail.
    for wrong in &guesses[1..] {
        let known = seen(&mut b, Way::None, &secret, right, 0).await;
        assert_ne!(known, seen(&mut b, Way::None, &secret, *wrong, 0).await);
    }
}
