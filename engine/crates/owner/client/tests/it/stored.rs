//! Tables whose columns are stored under other protections than `tee`, as the driver meets them:
//! described, scanned by stored names, compared with encrypted literals, and not written.

use crate::harness;

use std::{path::PathBuf, sync::Arc};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use coffer_catalog::Register;
use coffer_custody::{Keyring, Vault};
use coffer_protocol::{
    plan::{DataType, Field, JoinType, Literal, Node, Schema, TypeId, literal::Value, node::Op},
    wire::{
        BeginWrite, ClientMessage, EncryptLiterals, LiteralsEncrypted, Problem, RunAtClient,
        StoredColumn, TableInfo, TableScan, WriteBegun,
        begin_write::Mode,
        literals_encrypted::{Ciphertext, ciphertext::Kind},
        run_at_client::ClientInput,
    },
};
use harness::{
    Client, Engine, Site, ir,
    query::{Query, row_groups, scan_stage},
};
use prost::Message;

const POLICY: &str = r#"
attestation.accept = ["simulated"]
[tables.people.columns]
name = { protection = ["tee", "det", "ope"], link = "name", prefix = 4 }
n = { protection = ["ope", "std", "ore"], domain = [0, 1000] }
born = "plain"
"#;
const ROWS: i64 = 120;

struct Tables {
    site: Site,
    client: Client,
    engine: Engine,
    info: TableInfo,
}

/// A sealed table at `people`: person n, n, and NULL where born.
fn make(site: &Site) -> PathBuf {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..ROWS).map(|n| format!("person {n}")),
    ));
    let born: ArrayRef = Arc::new(Int64Array::from(vec![None; ROWS as usize]));
    site.table(
        "people",
        "name STRING, n BIGINT, born BIGINT",
        vec![vec![names, numbers, born]],
    )
}

impl Tables {
    async fn open() -> Self {
        let site = Site::with_policy(POLICY).await;
        let mut client = site.client().await;
        let mut engine = site.engine("engine", 64 << 20).await;
        engine.admit(&mut client).await.unwrap();
        let info = client.open(&make(&site)).await.unwrap();
        Self {
            site,
            client,
            engine,
            info,
        }
    }

    fn stored(&self, column: u32, protection: &str) -> &StoredColumn {
        let found =
            |stored: &&StoredColumn| stored.protection == protection && stored.column == column;
        self.info.stored.iter().find(found).unwrap()
    }

    async fn encrypt(
        &mut self,
        stored: &str,
        literals: Vec<Literal>,
    ) -> Result<Vec<Ciphertext>, Problem> {
        let request = EncryptLiterals {
            handle: self.info.handle,
            stored: stored.to_owned(),
            literals,
        };
        let answer: LiteralsEncrypted = self
            .client
            .ask(ClientMessage::EncryptLiterals, &request)
            .await?;
        Ok(answer.ciphertexts)
    }

    /// Some stored columns, read by the client engine itself: at most so many bytes.
    async fn read(
        &mut self,
        stored: &[StoredColumn],
        bytes: u64,
    ) -> Result<Vec<RecordBatch>, Problem> {
        let request = self.reading(stored, bytes).await;
        self.client
            .rows_of(ClientMessage::RunAtClient, &request)
            .await
    }

    async fn reading(&mut self, stored: &[StoredColumn], bytes: u64) -> RunAtClient {
        let schema = schema_of(stored);
        RunAtClient {
            session: Query::begin(&mut self.client).await.session,
            fragment: ir::to_result(ir::scan(schema.clone()), schema)
                .encode_to_vec()
                .into(),
            scans: vec![TableScan {
                scan_id: 0,
                handle: self.info.handle,
                ..TableScan::default()
            }],
            read_bytes: bytes,
            ..RunAtClient::default()
        }
    }

    /// The whole of some stored columns.
    async fn scan(&mut self, stored: &[StoredColumn]) -> RecordBatch {
        let schema = schema_of(stored);
        let fragment = ir::to_result(ir::scan(schema.clone()), schema);
        let query = Query::begin(&mut self.client).await;
        let request = scan_stage(
            1,
            &fragment,
            self.info.handle,
            vec![row_groups(0..1), row_groups(1..3)],
        );
        let stage = query.seal(&mut self.client, request).await.unwrap();
        let outputs = query
            .run(&mut self.client, &mut self.engine, &stage, &[])
            .await;
        let batches = self
            .client
            .rows(&query.result(1, &outputs, None))
            .await
            .unwrap();
        arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
    }
}

fn schema_of(stored: &[StoredColumn]) -> Schema {
    let field = |stored: &StoredColumn| Field {
        name: stored.name.clone(),
        r#type: stored.r#type.clone(),
        nullable: true,
        ..Field::default()
    };
    Schema {
        fields: stored.iter().map(field).collect(),
    }
}

fn text(value: &str) -> Literal {
    ir::text(value)
}

fn number(value: i64) -> Literal {
    ir::int(value)
}

fn literal(ciphertext: &Ciphertext) -> &Value {
    match &ciphertext.kind {
        Some(Kind::Literal(literal)) => literal.value.as_ref().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_says_how_its_columns_are_stored() {
    let tables = Tables::open().await;
    let info = &tables.info;
    let described: Vec<(u32, &str, bool)> = info
        .stored
        .iter()
        .map(|stored| (stored.column, stored.protection.as_str(), stored.prefix))
        .collect();
    let wanted = [
        (0, "tee", false),
        (0, "det", false),
        (0, "ope", true),
        (1, "ope", false),
        (1, "std", false),
        (1, "ore", false),
        (2, "plain", false),
        (0, "file", false),
        (0, "row", false),
    ];
    assert_eq!(described, wanted);
    let kind = |stored: &StoredColumn| stored.r#type.as_ref().map(DataType::id);
    assert_eq!(kind(tables.stored(1, "ope")), Some(TypeId::Long));
    assert_eq!(kind(tables.stored(0, "det")), Some(TypeId::Binary));
    assert_eq!(tables.stored(0, "det").link.len(), 32);
    assert_eq!(tables.stored(1, "ope").link, format!("{}.2", info.table_id));
    assert!(tables.stored(1, "std").link.is_empty());
    assert_eq!(info.columns[0].protection, "tee+det+ope");
    assert!(info.columns[1].kek_id.is_empty() && !info.columns[0].kek_id.is_empty());
    assert!(info.stored.iter().all(|stored| stored.bytes > 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_scan_stored_columns_and_literals_meet_them() {
    let mut tables = Tables::open().await;
    let (tee, det) = (
        tables.stored(0, "tee").clone(),
        tables.stored(0, "det").clone(),
    );
    let (ope, ore) = (
        tables.stored(1, "ope").clone(),
        tables.stored(1, "ore").clone(),
    );
    let rows = tables
        .scan(&[det.clone(), ope.clone(), ore.clone(), tee.clone()])
        .await;
    assert_eq!(rows.num_rows(), 120);
    assert_eq!(rows.column(3).as_string::<i32>().value(7), "person 7");

    let met = tables
        .encrypt(&det.name, vec![text("person 7"), text("nobody")])
        .await
        .unwrap();
    let stored = rows.column(0).as_binary::<i32>();
    assert_eq!(literal(&met[0]), &Value::Binary(stored.value(7).to_vec()));
    assert_ne!(literal(&met[1]), &Value::Binary(stored.value(7).to_vec()));

    let met = tables
        .encrypt(
            &ope.name,
            vec![number(7), number(-1), number(1001), number(1000)],
        )
        .await
        .unwrap();
    let stored = rows.column(1).as_primitive::<arrow::datatypes::Int64Type>();
    assert_eq!(literal(&met[0]), &Value::Int(stored.value(7)));
    assert_eq!(met[1].kind, Some(Kind::Below(true)));
    assert_eq!(met[2].kind, Some(Kind::Above(true)));
    assert!(matches!(literal(&met[3]), Value::Int(above) if *above > stored.value(119)));

    let met = tables.encrypt(&ore.name, vec![number(7)]).await.unwrap();
    assert_eq!(
        literal(&met[0]),
        &Value::Binary(rows.column(2).as_binary::<i32>().value(7).to_vec())
    );
    let plain = tables.stored(2, "plain").name.clone();
    let met = tables.encrypt(&plain, vec![number(7)]).await.unwrap();
    assert_eq!(literal(&met[0]), &Value::Int(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_engine_reads_tables_itself() {
    let mut tables = Tables::open().await;
    let columns = [
        tables.stored(0, "tee").clone(),
        tables.stored(2, "plain").clone(),
    ];
    let batches = tables.read(&columns, 1 << 20).await.unwrap();
    let rows = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(rows.num_rows(), 120);
    assert_eq!(rows.column(0).as_string::<i32>().value(77), "person 77");
    assert_eq!(rows.column(1).null_count(), 120);

    let refused = tables.read(&columns, 100).await.unwrap_err();
    assert_eq!(refused.code, "too_much_at_client");
    assert!(
        refused.message.contains("`born`, `name` of table `people`"),
        "{}",
        refused.message
    );
    assert!(refused.hint.contains("client.maxBytes"), "{}", refused.hint);

    let mut unnamed = tables.reading(&columns, 1 << 20).await;
    unnamed.scans.clear();
    let mut unknown = tables.reading(&columns, 1 << 20).await;
    unknown.scans[0].handle = 99;
    let another = StoredColumn {
        name: "c99".to_owned(),
        ..columns[0].clone()
    };
    let another = tables.reading(&[another], 1 << 20).await;
    for (request, code) in [
        (unnamed, "protocol"),
        (unknown, "handle_unknown"),
        (another, "column"),
    ] {
        let refused = tables
            .client
            .rows_of(ClientMessage::RunAtClient, &request)
            .await;
        assert_eq!(refused.unwrap_err().code, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_at_the_client_keeps_to_its_memory() {
    const TIMES: usize = 2000;
    let mut tables = Tables::open().await;
    let columns = [tables.stored(0, "tee").clone()];
    let schema = schema_of(&columns);
    let many = || ir::multiplied(4, ir::scan(schema.clone()), schema.clone(), TIMES);
    // Three megabytes of names, in two of memory: a sort spills them.
    let mut request = tables.reading(&columns, 1 << 20).await;
    request.fragment = ir::to_result(ir::sorted(many(), 0), schema.clone())
        .encode_to_vec()
        .into();
    let sorted = tables
        .client
        .rows_of(ClientMessage::RunAtClient, &request)
        .await
        .unwrap();
    let rows: usize = sorted.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 120 * TIMES);
    let last = sorted.last().unwrap();
    assert_eq!(
        last.column(0).as_string::<i32>().value(last.num_rows() - 1),
        "person 99"
    );

    // A hash table of them cannot be.
    let Some(Op::Join(mut join)) = ir::join(JoinType::Inner, &schema, false).op else {
        panic!("no join");
    };
    join.right = Some(Box::new(many()));
    let joined = Node {
        id: 10,
        op: Some(Op::Join(join)),
    };
    let mut request = tables.reading(&columns, 1 << 20).await;
    request.fragment = ir::to_result(joined, ir::twice(&schema))
        .encode_to_vec()
        .into();
    request.inputs = vec![ClientInput {
        input_id: 0,
        kept: 0,
    }];
    let refused = tables
        .client
        .rows_of(ClientMessage::RunAtClient, &request)
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, "too_much_at_client", "{}", refused.message);
    assert!(
        refused.message.contains("2097152 bytes of memory"),
        "{}",
        refused.message
    );
    assert!(refused.hint.contains("client.maxBytes"), "{}", refused.hint);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_storage_changed_is_not_read_at_the_client() {
    let mut tables = Tables::open().await;
    let column = tables.stored(2, "plain").clone();
    let part = std::fs::read_dir(tables.site.folder.path().join("people"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "parquet")
        })
        .unwrap();
    let mut bytes = std::fs::read(&part).unwrap();
    for byte in &mut bytes[4..200] {
        *byte ^= 1;
    }
    std::fs::write(&part, bytes).unwrap();
    let tee = tables.stored(0, "tee").clone();
    assert!(tables.read(&[tee, column], 1 << 20).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_longer_than_the_prefix_is_cut() {
    let mut tables = Tables::open().await;
    let ope = tables.stored(0, "ope").name.clone();
    let met = tables
        .encrypt(&ope, vec![text("per"), text("pers"), text("person 7")])
        .await
        .unwrap();
    let cut: Vec<bool> = met.iter().map(|met| met.cut).collect();
    assert_eq!(cut, [false, true, true]);
    assert_eq!(literal(&met[1]), literal(&met[2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn literals_that_cannot_be_compared_are_refused() {
    let mut tables = Tables::open().await;
    let (det, std, row) = (
        tables.stored(0, "det").name.clone(),
        tables.stored(1, "std").name.clone(),
        tables.info.stored[8].name.clone(),
    );
    for (stored, given, code) in [
        (det.as_str(), number(1), "literal"),
        (&det, ir::null(ir::string()), "literal"),
        (&std, number(1), "literal"),
        (&row, number(1), "literal"),
        ("c99", number(1), "table"),
        ("name", text("x"), "table"),
    ] {
        let refused = tables.encrypt(stored, vec![given]).await.unwrap_err();
        assert_eq!(refused.code, code, "{stored}: {}", refused.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spark_does_not_write_what_hosts_can_read() {
    let mut tables = Tables::open().await;
    let begin = |mode: Mode, folder: &str, handle| BeginWrite {
        mode: mode.into(),
        path: tables.site.folder.path().join(folder).display().to_string(),
        name: "people".to_owned(),
        schema: Some(ir::schema(&[
            ("name", ir::string()),
            ("n", ir::long()),
            ("born", ir::long()),
        ])),
        handle,
        ..BeginWrite::default()
    };
    let requests = [
        begin(Mode::Create, "new", 0),
        begin(Mode::Replace, "people", 0),
        begin(Mode::Append, "people", tables.info.handle),
        begin(Mode::Overwrite, "people", tables.info.handle),
    ];
    for request in requests {
        let mode = request.mode();
        let answer: Result<WriteBegun, Problem> =
            tables.client.ask(ClientMessage::BeginWrite, &request).await;
        let problem = answer.expect_err(mode.as_str_name());
        assert_eq!(
            problem.code, "COFFER_HOST_READABLE_WRITE",
            "{mode:?}: {}",
            problem.message
        );
        assert!(problem.hint.contains("coffer encrypt"), "{}", problem.hint);
    }
    assert!(!tables.site.folder.path().join("new").exists());
    let vault = Vault::from(
        Keyring::open(&tables.site.config_dir.keyring(), &harness::passphrase()).unwrap(),
    );
    assert_eq!(
        Register::of(&tables.site.config_dir, vault.keyring())
            .tables()
            .unwrap()
            .len(),
        1
    );
}
