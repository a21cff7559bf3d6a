//! Tables written by engines and published by the client engine: whole, once, or not at all.

mod harness;

use std::{fs, path::PathBuf};

use coffer_catalog::{FileReader, Target, open_table, policy, verify};
use coffer_custody::{Draft, Keyring, Vault};
use coffer_protocol::{
    plan::{Fragment, Schema},
    wire::{
        AbortWrite, BeginWrite, CheckPlain, ClientMessage, DropTable, OpenTable, PartitionValue,
        PlainChecked, Problem, PublishWrite, RenameTable, SealStage, TableDropped, TableInfo,
        TableRenamed, TaskSpec, WriteAborted, WriteBegun, WritePublished,
        begin_write::{Mode, Only},
    },
};
use harness::{
    Client, Engine, Output, Site, ir,
    query::{Query, Stage},
};
use prost::Message;

struct Writing {
    site: Site,
    client: Client,
    engine: Engine,
}

fn columns() -> Schema {
    ir::schema(&[("k", ir::long()), ("name", ir::string())])
}

/// Rows (k, name), sorted by k, to the table's files.
fn rows(rows: &[(i64, &str)], partition_columns: Vec<u32>) -> Fragment {
    let rows = rows
        .iter()
        .map(|(k, name)| vec![ir::int(*k), ir::text(name)])
        .collect();
    ir::to_table(ir::values(columns(), rows), columns(), partition_columns)
}

impl Writing {
    async fn open() -> Self {
        Self::with_policy(harness::POLICY).await
    }

    async fn with_policy(policy: &str) -> Self {
        let site = Site::with_policy(policy).await;
        let mut client = site.client().await;
        let mut engine = site.engine("engine", 64 << 20).await;
        engine.admit(&mut client).await.unwrap();
        Self {
            site,
            client,
            engine,
        }
    }

    fn folder(&self) -> PathBuf {
        self.site.folder.path().join("t")
    }

    fn files(&self) -> usize {
        let entries = fs::read_dir(self.folder()).map(|entries| entries.count());
        entries.unwrap_or(0).saturating_sub(1) // the manifests' folder
    }

    async fn create(&mut self, partition_columns: &[&str]) -> Result<WriteBegun, Problem> {
        let begin = BeginWrite {
            mode: Mode::Create.into(),
            path: self.folder().display().to_string(),
            schema: Some(columns()),
            partition_columns: partition_columns.iter().map(ToString::to_string).collect(),
            ..BeginWrite::default()
        };
        self.client.ask(ClientMessage::BeginWrite, &begin).await
    }

    async fn info(&mut self) -> TableInfo {
        let open = OpenTable {
            path: self.folder().display().to_string(),
            if_there: true,
            ..OpenTable::default()
        };
        self.client
            .ask(ClientMessage::OpenTable, &open)
            .await
            .unwrap()
    }

    async fn opened(&mut self) -> Result<TableInfo, Problem> {
        let open = OpenTable {
            path: self.folder().display().to_string(),
            ..OpenTable::default()
        };
        self.client.ask(ClientMessage::OpenTable, &open).await
    }

    async fn next(&mut self, mode: Mode, handle: u32) -> Result<WriteBegun, Problem> {
        let begin = BeginWrite {
            mode: mode.into(),
            handle,
            ..BeginWrite::default()
        };
        self.client.ask(ClientMessage::BeginWrite, &begin).await
    }

    async fn seal(
        &mut self,
        query: &Query,
        write: u32,
        fragment: &Fragment,
        tasks: usize,
    ) -> Result<Stage, Problem> {
        let request = SealStage {
            stage: 1,
            fragment: fragment.encode_to_vec().into(),
            tasks: vec![TaskSpec::default(); tasks],
            write,
            ..SealStage::default()
        };
        query.seal(&mut self.client, request).await
    }

    async fn publish(
        &mut self,
        query: &Query,
        write: u32,
        outputs: &[Output],
    ) -> Result<WritePublished, Problem> {
        let publish = PublishWrite {
            write,
            session: query.session.clone(),
            execution: query.execution,
            stage: 1,
            commits: outputs
                .iter()
                .map(|output| output.done.sealed_commit.clone())
                .collect(),
        };
        self.client.ask(ClientMessage::PublishWrite, &publish).await
    }

    /// Seals, runs and publishes.
    async fn write(&mut self, write: u32, fragment: &Fragment) -> Result<WritePublished, Problem> {
        let query = Query::begin(&mut self.client).await;
        let stage = self.seal(&query, write, fragment, 2).await?;
        let outputs = query
            .run(&mut self.client, &mut self.engine, &stage, &[])
            .await;
        self.publish(&query, write, &outputs).await
    }

    /// What the table holds now, read at the client.
    fn names(&self) -> Vec<String> {
        let vault = Vault::from(
            Keyring::open(&self.site.config_dir.keyring(), &harness::passphrase()).unwrap(),
        );
        let policy = policy::open(&self.site.config_dir, vault.keyring()).unwrap();
        let table = open_table(
            &self.site.config_dir,
            &vault,
            &policy,
            &Target::Path(self.folder()),
        )
        .unwrap();
        let mut names: Vec<String> = Vec::new();
        for pin in &table.manifest().files {
            for batch in FileReader::open(&table, pin).unwrap() {
                let batch = batch.unwrap();
                let column = arrow::array::AsArray::as_string::<i32>(batch.column(1)).clone();
                names.extend(column.iter().map(|name| name.unwrap().to_owned()));
            }
        }
        assert!(
            verify::verify(&table, true, |_| ())
                .unwrap()
                .findings
                .is_empty()
        );
        names.sort();
        names
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn created_appended_overwritten() {
    let mut w = Writing::open().await;
    assert_eq!(w.info().await.handle, 0);
    let begun = w.create(&[]).await.unwrap();
    assert_eq!((begun.name.as_str(), begun.version), ("t", 1));
    let published = w
        .write(begun.write, &rows(&[(1, "ann"), (2, "bob")], vec![]))
        .await
        .unwrap();
    assert_eq!(
        (published.version, published.rows, published.files),
        (1, 2, 1)
    );
    assert!(published.warning.is_empty(), "{}", published.warning);
    assert_eq!(w.names(), ["ann", "bob"]);
    let policy = Draft::load(&w.site.config_dir.policy()).unwrap();
    assert_eq!(
        policy.table("t").unwrap().id().unwrap().to_string(),
        begun.table_id
    );

    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    assert_eq!(
        w.write(begun.write, &rows(&[(3, "cy")], vec![]))
            .await
            .unwrap()
            .version,
        2
    );
    assert_eq!(w.names(), ["ann", "bob", "cy"]);
    let info = w.info().await;
    let begun = w.next(Mode::Overwrite, info.handle).await.unwrap();
    w.write(begun.write, &rows(&[], vec![])).await.unwrap();
    assert_eq!(w.names(), Vec::<String>::new());
    assert_eq!(w.info().await.version, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_cut_into_files_and_replaced_one_by_one() {
    let mut w = Writing::open().await;
    let begun = w.create(&["k"]).await.unwrap();
    let all = [(1, "ann"), (1, "bea"), (2, "bob"), (3, "cy")];
    let published = w.write(begun.write, &rows(&all, vec![0])).await.unwrap();
    assert_eq!((published.rows, published.files), (4, 3));
    let info = w.info().await;
    assert_eq!(info.partition_columns, ["k"]);
    let begun = w
        .next(Mode::OverwritePartitions, info.handle)
        .await
        .unwrap();
    w.write(begun.write, &rows(&[(1, "abe"), (4, "dan")], vec![0]))
        .await
        .unwrap();
    assert_eq!(w.names(), ["abe", "bob", "cy", "dan"]);
    let info = w.info().await;
    let begin = BeginWrite {
        mode: Mode::Overwrite.into(),
        handle: info.handle,
        only: vec![Only {
            column: "k".into(),
            value: Some(PartitionValue {
                value: Some("2".into()),
            }),
        }],
        ..BeginWrite::default()
    };
    let begun: WriteBegun = w
        .client
        .ask(ClientMessage::BeginWrite, &begin)
        .await
        .unwrap();
    w.write(begun.write, &rows(&[(2, "bo")], vec![0]))
        .await
        .unwrap();
    assert_eq!(w.names(), ["abe", "bo", "cy", "dan"]);
    // A fragment that does not know of the partitions writes nothing.
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    assert_eq!(
        w.write(begun.write, &rows(&[], vec![]))
            .await
            .err()
            .unwrap()
            .code,
        "stage"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_whole_stages_are_published_and_each_once() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let fragment = rows(&[(1, "ann")], vec![]);
    let stage = w.seal(&query, begun.write, &fragment, 2).await.unwrap();
    let outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    // A commit is missing: the whole write is over, and its files are gone.
    let code = |result: Result<WritePublished, Problem>| result.err().unwrap().code;
    assert_eq!(
        code(w.publish(&query, begun.write, &outputs[..1]).await),
        "commit_count"
    );
    assert_eq!(
        code(w.publish(&query, begun.write, &outputs).await),
        "write_unknown"
    );
    assert!(!w.folder().exists());

    for wrong in 0..3 {
        let begun = w.create(&[]).await.unwrap();
        let query = Query::begin(&mut w.client).await;
        let stage = w.seal(&query, begun.write, &fragment, 2).await.unwrap();
        let mut outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
        let want = match wrong {
            0 => {
                outputs.swap(0, 1);
                "commit_opening_tag"
            }
            1 => {
                outputs[1] = outputs[0].clone();
                "commit_opening_tag"
            }
            _ => {
                let part = fs::read_dir(w.folder())
                    .unwrap()
                    .next()
                    .unwrap()
                    .unwrap()
                    .path();
                fs::write(part, b"short").unwrap();
                "file_length"
            }
        };
        assert_eq!(code(w.publish(&query, begun.write, &outputs).await), want);
        assert!(!w.folder().exists());
    }

    // A task that ran twice: the record that the driver picked counts, the other's file goes.
    let begun = w.create(&[]).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let stage = w.seal(&query, begun.write, &fragment, 2).await.unwrap();
    query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    let outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    assert_eq!(w.files() + 1, 2, "one file of each attempt");
    w.publish(&query, begun.write, &outputs).await.unwrap();
    assert_eq!((w.names(), w.files()), (vec!["ann".to_owned()], 1));
    // Another write cannot take the same stage again.
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    assert_eq!(
        code(w.publish(&query, begun.write, &outputs).await),
        "stage_unknown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_given_up_writes_and_failed_tasks() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    assert_eq!(
        w.create(&[]).await.err().unwrap().code,
        "table_unfinished",
        "it is being made"
    );
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    assert_eq!(
        w.create(&[]).await.err().unwrap().code,
        "table",
        "it is there"
    );

    let info = w.info().await;
    let (one, two) = (
        w.next(Mode::Append, info.handle).await.unwrap(),
        w.next(Mode::Append, info.handle).await.unwrap(),
    );
    w.write(one.write, &rows(&[(2, "bob")], vec![]))
        .await
        .unwrap();
    let lost = w
        .write(two.write, &rows(&[(3, "cy")], vec![]))
        .await
        .err()
        .unwrap();
    assert_eq!(lost.code, "write_conflict");
    assert!(
        lost.message.contains("version 1") && lost.message.contains("version 2"),
        "{}",
        lost.message
    );
    assert_eq!(
        (w.names(), w.files()),
        (vec!["ann".to_owned(), "bob".to_owned()], 2)
    );

    // Given up after its tasks were done.
    let info = w.info().await;
    let begun = w.next(Mode::Overwrite, info.handle).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let stage = w
        .seal(&query, begun.write, &rows(&[(4, "dan")], vec![]), 1)
        .await
        .unwrap();
    query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    assert_eq!(w.files(), 3);
    let abort = AbortWrite { write: begun.write };
    let _: WriteAborted = w
        .client
        .ask(ClientMessage::AbortWrite, &abort)
        .await
        .unwrap();
    assert_eq!((w.names().len(), w.files()), (2, 2));

    // A task that fails takes its files away itself; NULL where the table has none is Spark's
    // error.
    let mut schema = columns();
    schema.fields[0].nullable = false;
    let begin = BeginWrite {
        mode: Mode::Replace.into(),
        path: w.folder().display().to_string(),
        schema: Some(schema),
        ..BeginWrite::default()
    };
    let begun: WriteBegun = w
        .client
        .ask(ClientMessage::BeginWrite, &begin)
        .await
        .unwrap();
    let null = ir::null(ir::long());
    let fragment = ir::to_table(
        ir::values(
            columns(),
            vec![vec![ir::int(1), ir::text("x")], vec![null, ir::text("y")]],
        ),
        columns(),
        vec![],
    );
    let query = Query::begin(&mut w.client).await;
    let stage = w.seal(&query, begun.write, &fragment, 1).await.unwrap();
    let start = query.start(&stage, 0, &w.engine);
    let error = query
        .error_of(&mut w.client, &mut w.engine, &start, Vec::new())
        .await;
    assert_eq!(error.code, "NOT_NULL_ASSERT_VIOLATION", "{}", error.message);
    assert_eq!(w.files(), 2);
    assert_eq!(w.engine.enclave.memory_in_use(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_table_is_forgotten_by_register_and_policy() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    let info = w.info().await;
    let drop = DropTable {
        path: info.path.clone(),
        table_id: info.table_id.clone(),
        name: "t".to_owned(),
        ..DropTable::default()
    };
    let still: Result<TableDropped, Problem> = w.client.ask(ClientMessage::DropTable, &drop).await;
    assert_eq!(still.unwrap_err().code, "table");
    // Asking is no dropping, and a foreign id or folder is not dropped.
    let check = DropTable {
        check: true,
        ..drop.clone()
    };
    let _: TableDropped = w
        .client
        .ask(ClientMessage::DropTable, &check)
        .await
        .unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_ok()
    );
    for (path, table_id) in [
        ("/elsewhere", &*info.table_id),
        ("s3a:b/t", ""),
        (&info.path, "no id"),
    ] {
        let other = DropTable {
            path: path.to_owned(),
            table_id: table_id.to_owned(),
            ..DropTable::default()
        };
        let refused: Result<TableDropped, Problem> =
            w.client.ask(ClientMessage::DropTable, &other).await;
        assert!(refused.is_err(), "{path}");
    }
    // Nor is one that the catalog calls by another table's name, whether it opens or not.
    let second = BeginWrite {
        mode: Mode::Create.into(),
        path: w.site.folder.path().join("u").display().to_string(),
        name: "u".to_owned(),
        schema: Some(columns()),
        ..BeginWrite::default()
    };
    let begun: WriteBegun = w
        .client
        .ask(ClientMessage::BeginWrite, &second)
        .await
        .unwrap();
    w.write(begun.write, &rows(&[(9, "zoe")], vec![]))
        .await
        .unwrap();
    let by_name = |name: &str| {
        [info.table_id.clone(), String::new()].map(|table_id| DropTable {
            table_id,
            name: name.to_owned(),
            ..check.clone()
        })
    };
    for misled in ["U", "nobody's", ""].into_iter().flat_map(by_name) {
        let refused: Result<TableDropped, Problem> =
            w.client.ask(ClientMessage::DropTable, &misled).await;
        assert_eq!(refused.unwrap_err().code, "other_table", "{}", misled.name);
    }
    // A name that the owner gave it in the catalog is its own: two while that is done, then the new
    // one.
    let rename = |name: &str, to: &str, done| RenameTable {
        path: info.path.clone(),
        name: name.to_owned(),
        to: to.to_owned(),
        done,
        ..RenameTable::default()
    };
    let taken: Result<TableRenamed, Problem> = w
        .client
        .ask(ClientMessage::RenameTable, &rename("t", "U", false))
        .await;
    assert_eq!(taken.unwrap_err().code, "table");
    for (renamed, own, others) in [
        (
            rename("t", "d.one", false),
            &["t", "D.One"][..],
            &["d.two"][..],
        ),
        (
            rename("d.one", "d.two", false),
            &["t", "d.one", "d.two"],
            &[],
        ),
        (rename("d.one", "d.two", true), &["t", "d.two"], &["d.one"]),
    ] {
        let _: TableRenamed = w
            .client
            .ask(ClientMessage::RenameTable, &renamed)
            .await
            .unwrap();
        for (names, is_own) in [(own, true), (others, false)] {
            for asked in names.iter().flat_map(|name| by_name(name)) {
                let answer: Result<TableDropped, Problem> =
                    w.client.ask(ClientMessage::DropTable, &asked).await;
                assert_eq!(answer.is_ok(), is_own, "{}", asked.name);
            }
        }
    }
    // Nor does a new table get a name that this one has in the catalog, whatever its own is to be.
    for taken in ["d.two", "D.Two", "T"] {
        let third = BeginWrite {
            path: w.site.folder.path().join("third").display().to_string(),
            name: taken.to_owned(),
            ..second.clone()
        };
        let refused: Result<WriteBegun, Problem> =
            w.client.ask(ClientMessage::BeginWrite, &third).await;
        assert_eq!(refused.unwrap_err().code, "table", "{taken}");
        let asked = RenameTable {
            path: third.path.clone(),
            name: "third".to_owned(),
            to: taken.to_owned(),
            ..RenameTable::default()
        };
        let refused: Result<TableRenamed, Problem> =
            w.client.ask(ClientMessage::RenameTable, &asked).await;
        assert_eq!(refused.unwrap_err().code, "table", "{taken}");
    }
    fs::remove_dir_all(w.folder()).unwrap();
    let _: TableDropped = w.client.ask(ClientMessage::DropTable, &drop).await.unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_err()
    );
    let begun = w.create(&[]).await.unwrap();
    assert_ne!(begun.table_id, info.table_id);
    w.write(begun.write, &rows(&[(1, "bob")], vec![]))
        .await
        .unwrap();
    assert_eq!(w.names(), ["bob"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_open_is_dropped_by_its_folder() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    let path = w.info().await.path;
    let drop = DropTable {
        path: path.clone(),
        name: "t".to_owned(),
        ..DropTable::default()
    };
    let nowhere = DropTable {
        path: format!("{path}-nowhere"),
        ..DropTable::default()
    };
    // While it is there it stays.
    let still: Result<TableDropped, Problem> = w.client.ask(ClientMessage::DropTable, &drop).await;
    assert_eq!(still.unwrap_err().code, "table");
    fs::remove_dir_all(w.folder()).unwrap();
    let _: TableDropped = w
        .client
        .ask(ClientMessage::DropTable, &nowhere)
        .await
        .unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_ok()
    );
    let _: TableDropped = w.client.ask(ClientMessage::DropTable, &drop).await.unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_err()
    );
    w.create(&[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_without_rows_needs_no_engine() {
    let policy = format!("{}[tables.t.columns]\nname = \"plain\"\n", harness::POLICY);
    let mut w = Writing::with_policy(&policy).await;
    assert_eq!(
        w.create(&[]).await.err().unwrap().code,
        "COFFER_HOST_READABLE_WRITE",
        "engines write plain values of partition columns only"
    );
    let begun = w.create(&["name"]).await.unwrap();
    let publish = PublishWrite {
        write: begun.write,
        ..PublishWrite::default()
    };
    let published: WritePublished = w
        .client
        .ask(ClientMessage::PublishWrite, &publish)
        .await
        .unwrap();
    assert_eq!((published.version, published.rows), (1, 0));
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    w.write(begun.write, &rows(&[(1, "a/b")], vec![1]))
        .await
        .unwrap();
    assert!(w.folder().join("name=a%2Fb").is_dir());
    assert_eq!(w.names(), ["a/b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_files_are_refused_in_zones() {
    let site = Site::with_policy(&format!(
        "{}[zones]\npay = {{ path = \"/nowhere/pay\", master = \"main\" }}\n\
         far = {{ path = \"s3://bucket/pay/\", master = \"main\" }}\n",
        harness::POLICY
    ))
    .await;
    let mut client = site.client().await;
    for (path, code) in [
        ("/nowhere/pay", Some("policy")),
        ("/nowhere/pay/t", Some("policy")),
        ("/nowhere/other/../pay/x://y", Some("policy")),
        ("/nowhere/payments", None),
        ("hdfs://host/nowhere/pay", None),
        ("s3a://bucket/nowhere/pay", None),
        ("s3a://bucket/pay", Some("policy")),
        ("s3n://bucket/x/..//pay/t", Some("policy")),
        ("s3a://bucket/payments", None),
        ("s3a://other/pay", None),
        ("s3a:///pay", Some("plain_elsewhere")),
        ("nowhere/pay", Some("plain_elsewhere")),
        ("File:/nowhere/pay", Some("plain_elsewhere")),
        ("file:///elsewhere", Some("plain_elsewhere")),
        ("./x://y", Some("plain_elsewhere")),
        // What may have a local folder behind it.
        ("viewfs://mounted/t", Some("plain_elsewhere")),
        ("har://file-host/nowhere/pay", Some("plain_elsewhere")),
        ("HDFS://host/t", Some("plain_elsewhere")),
    ] {
        let request = CheckPlain {
            paths: vec!["/elsewhere".to_owned(), path.to_owned()],
        };
        let answer: Result<PlainChecked, Problem> =
            client.ask(ClientMessage::CheckPlain, &request).await;
        assert_eq!(answer.err().map(|p| p.code).as_deref(), code, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_table_s_place_makes_it_no_other() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    let other = w.site.folder.path().join("u");
    let begin = |mode: Mode| BeginWrite {
        mode: mode.into(),
        path: other.display().to_string(),
        schema: Some(columns()),
        ..BeginWrite::default()
    };
    let begun: WriteBegun = w
        .client
        .ask(ClientMessage::BeginWrite, &begin(Mode::Create))
        .await
        .unwrap();
    w.write(begun.write, &rows(&[(2, "bob")], vec![]))
        .await
        .unwrap();
    let open = OpenTable {
        path: other.display().to_string(),
        if_there: true,
        ..OpenTable::default()
    };
    let info: TableInfo = w.client.ask(ClientMessage::OpenTable, &open).await.unwrap();
    // A write that was begun before goes nowhere either.
    let waiting = w.next(Mode::Append, info.handle).await.unwrap();
    fs::rename(&other, w.site.folder.path().join("away")).unwrap();
    std::os::unix::fs::symlink(w.folder(), &other).unwrap();
    let opened: Result<TableInfo, Problem> = w.client.ask(ClientMessage::OpenTable, &open).await;
    assert_eq!(opened.err().unwrap().code, "other_table");
    for (mode, code) in [(Mode::Replace, "other_table"), (Mode::Create, "table")] {
        let begun: Result<WriteBegun, Problem> =
            w.client.ask(ClientMessage::BeginWrite, &begin(mode)).await;
        assert_eq!(begun.err().unwrap().code, code);
    }
    assert_eq!(
        w.next(Mode::Overwrite, info.handle)
            .await
            .err()
            .unwrap()
            .code,
        "folder_changed"
    );
    let error = w
        .write(waiting.write, &rows(&[(3, "cy")], vec![]))
        .await
        .err()
        .unwrap();
    assert_eq!(error.code, "file_missing", "{}", error.message);
    // The other is as it was, and is found by its own path alone.
    assert_eq!(w.names(), ["ann"]);
    let real = fs::canonicalize(w.folder()).unwrap();
    fs::remove_file(&other).unwrap();
    fs::rename(w.site.folder.path().join("away"), &other).unwrap();
    let link = w.site.folder.path().join("link");
    std::os::unix::fs::symlink(real, &link).unwrap();
    let open = OpenTable {
        path: link.display().to_string(),
        if_there: true,
        ..OpenTable::default()
    };
    let opened: Result<TableInfo, Problem> = w.client.ask(ClientMessage::OpenTable, &open).await;
    assert_eq!(opened.err().unwrap().code, "path_not_recorded");
    // Who asks for a table at a path gets that one or none.
    let mut open = OpenTable {
        path: other.display().to_string(),
        table_id: info.table_id.clone(),
        ..OpenTable::default()
    };
    let again: TableInfo = w.client.ask(ClientMessage::OpenTable, &open).await.unwrap();
    assert_eq!(again.table_id, info.table_id);
    open.path = w.folder().display().to_string();
    let opened: Result<TableInfo, Problem> = w.client.ask(ClientMessage::OpenTable, &open).await;
    assert_eq!(opened.err().unwrap().code, "other_table");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_client_engines_and_a_manifest_that_comes_back() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    let mut second = w.site.client().await;
    let open = OpenTable {
        path: w.folder().display().to_string(),
        ..OpenTable::default()
    };
    let theirs: TableInfo = second.ask(ClientMessage::OpenTable, &open).await.unwrap();
    // The host has something where the next manifest belongs: the write fails, and is told so.
    let next = w.folder().join("_coffer/manifest-0000000002");
    fs::write(&next, b"planted").unwrap();
    let info = w.opened().await;
    assert_eq!(
        info.err().unwrap().code,
        "version_unknown",
        "a manifest that nobody knows"
    );
    fs::remove_file(&next).unwrap();
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let stage = w
        .seal(&query, begun.write, &rows(&[(2, "bob")], vec![]), 1)
        .await
        .unwrap();
    let outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    fs::write(&next, b"planted").unwrap();
    let failed = w
        .publish(&query, begun.write, &outputs)
        .await
        .err()
        .unwrap();
    assert_eq!(failed.code, "version_taken");
    fs::remove_file(&next).unwrap();
    // The other engine publishes from the version that it opened before; and what was told to have
    // failed is tried again.
    let begin = BeginWrite {
        mode: Mode::Overwrite.into(),
        handle: theirs.handle,
        ..BeginWrite::default()
    };
    let begun: WriteBegun = second.ask(ClientMessage::BeginWrite, &begin).await.unwrap();
    let publish = PublishWrite {
        write: begun.write,
        ..PublishWrite::default()
    };
    let published: WritePublished = second
        .ask(ClientMessage::PublishWrite, &publish)
        .await
        .unwrap();
    assert_eq!(published.version, 2);
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    w.write(begun.write, &rows(&[(2, "bob")], vec![]))
        .await
        .unwrap();
    assert_eq!(w.names(), ["bob"]);
}
