//! Tables written by engines and published by the client engine: whole, once, or not at all.

mod conflicts;
mod drops;
mod rows;

use crate::harness;

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
        let folder = self.folder();
        self.client.open(&folder).await
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
            streams: 0,
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
