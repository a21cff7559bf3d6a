//! What the audit log has of queries and refusals, and that nothing leaves without it.

use crate::harness;

use std::{path::PathBuf, sync::Arc};

use arrow::array::{ArrayRef, Int64Array};
use coffer_audit::{AuditLog, Outcome, Record};
use coffer_custody::Keyring;
use coffer_protocol::{
    plan::{Field, Schema},
    wire::{
        ClientMessage, NewSession, OpenTable, Problem, SealStage, SealedStage, Session, TableInfo,
    },
};
use harness::{
    Client, Engine, Site, ir,
    query::{Query, Stage, columns_of, opening, row_groups, scan_stage},
};

const POLICY: &str = r#"
attestation.accept = ["simulated"]
[tables.s.columns]
x = "det"
y = { protection = "ope", domain = [0, 1000] }
[roles.some]
tables.t = ["a"]
tables.s = "*"
[users.ann]
roles = ["some"]
"#;

struct Asked {
    site: Site,
    client: Client,
    engine: Engine,
    info: TableInfo,
}

/// A table of stored columns, which engines read without a key.
fn make_stored(site: &Site) -> PathBuf {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    site.table(
        "s",
        "x BIGINT, y BIGINT",
        vec![vec![Arc::clone(&numbers), numbers]],
    )
}

fn make(site: &Site) -> PathBuf {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    site.table(
        "t",
        "a BIGINT, b BIGINT",
        vec![vec![Arc::clone(&numbers), numbers]],
    )
}

impl Asked {
    async fn begin() -> Self {
        let site = Site::acting(POLICY, Some("ann")).await;
        let mut client = site.client().await;
        let engine = site.engine("engine", 64 << 20).await;
        let info = client.open(&make(&site)).await.unwrap();
        Self {
            site,
            client,
            engine,
            info,
        }
    }

    async fn query(&mut self, text: &str) -> Query {
        let request = NewSession {
            query: text.to_owned(),
            ..NewSession::default()
        };
        let session: Session = self
            .client
            .ask(ClientMessage::NewSession, &request)
            .await
            .unwrap();
        Query {
            session: session.session,
            execution: 1,
        }
    }

    fn stage(&self, number: u32, columns: &[&str]) -> SealStage {
        let fragment = columns_of(&self.info, columns);
        scan_stage(number, &fragment, self.info.handle, vec![row_groups(0..1)])
    }

    async fn seal(
        &mut self,
        query: &Query,
        number: u32,
        columns: &[&str],
    ) -> Result<Stage, Problem> {
        let request = self.stage(number, columns);
        query.seal(&mut self.client, request).await
    }

    fn log(&self) -> AuditLog {
        let keyring =
            Keyring::open(&self.site.config_dir.keyring(), &harness::passphrase()).unwrap();
        AuditLog::of(&self.site.config_dir, &keyring)
    }

    fn records(&self) -> Vec<Record> {
        self.log().records().unwrap().map(Result::unwrap).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_says_who_what_and_to_whom() {
    let mut asked = Asked::begin().await;
    let engine = asked
        .engine
        .admit(&mut asked.client)
        .await
        .unwrap()
        .engine_id;
    let text = "select a from t where a = 7";
    let query = asked.query(text).await;
    for number in 1..=2 {
        let stage = asked.seal(&query, number, &["a"]).await.unwrap();
        query
            .run(&mut asked.client, &mut asked.engine, &stage, &[])
            .await;
    }
    let records = asked.records();
    let [record] = records.as_slice() else {
        panic!("one record for one set of keys and one engine: {records:#?}");
    };
    assert_eq!(
        (record.who.user.as_str(), record.who.application.as_str()),
        ("ann", harness::APPLICATION)
    );
    let event = &record.event;
    assert_eq!(
        (event.action.as_str(), event.outcome),
        ("release", Outcome::Granted)
    );
    let log = asked.log();
    let asked_for = event.query.as_ref().unwrap();
    assert_eq!(asked_for.session, hex::encode(&query.session));
    assert_eq!(asked_for.text(log.key()).unwrap().as_deref(), Some(text));
    assert!(
        !std::fs::read_to_string(log.path())
            .unwrap()
            .contains("select")
    );
    let [table] = event.tables.as_slice() else {
        panic!()
    };
    assert_eq!(
        (table.name.as_str(), table.id.as_str(), table.version),
        ("t", asked.info.table_id.as_str(), 1)
    );
    assert_eq!(
        (table.columns.as_slice(), table.master.as_str()),
        (&["a".to_owned()][..], "main")
    );
    assert_eq!(
        table.keys.len(),
        2,
        "the column's and the footer's: {:?}",
        table.keys
    );
    let [to] = event.engines.as_slice() else {
        panic!()
    };
    assert_eq!(
        (to.id.as_str(), to.kind.as_str(), to.evidence.len()),
        (engine.as_str(), "simulated", 64)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_comes_later_has_a_record_of_its_own() {
    let mut asked = Asked::begin().await;
    let query = asked.query("late").await;
    let stage = asked.seal(&query, 1, &["a"]).await.unwrap();
    assert!(
        asked.records().is_empty(),
        "there is nobody to release keys to"
    );
    asked.engine.admit(&mut asked.client).await.unwrap();
    query
        .run(&mut asked.client, &mut asked.engine, &stage, &[])
        .await;
    assert_eq!(asked.records().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_recorded() {
    let mut asked = Asked::begin().await;
    asked.engine.admit(&mut asked.client).await.unwrap();
    let query = asked.query("select b from t").await;
    assert!(asked.seal(&query, 1, &["a", "b"]).await.is_err());
    let open = OpenTable {
        name: "no_such_table".to_owned(),
        ..OpenTable::default()
    };
    let unknown: Result<TableInfo, Problem> =
        asked.client.ask(ClientMessage::OpenTable, &open).await;
    assert!(unknown.is_err());
    // Evidence for a challenge that was never drawn.
    let evidence = coffer_protocol::wire::AdmitEngine {
        evidence: prost::Message::encode_to_vec(&coffer_protocol::wire::EngineEvidence {
            engine_key: vec![1; 32].into(),
            ..Default::default()
        })
        .into(),
        challenge: vec![2; 32].into(),
    };
    let refused: Result<coffer_protocol::wire::Admitted, Problem> = asked
        .client
        .ask(ClientMessage::AdmitEngine, &evidence)
        .await;
    assert!(refused.is_err());
    let records = asked.records();
    let message: Vec<(&str, Outcome, &str)> = records
        .iter()
        .map(|record| &record.event)
        .map(|event| {
            (
                event.action.as_str(),
                event.outcome,
                event.code.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        message,
        [
            ("release", Outcome::Refused, "denied_column"),
            ("open table", Outcome::Refused, "table"),
            ("admit engine", Outcome::Refused, "unknown_challenge"),
        ]
    );
    let denied = &records[0].event;
    assert_eq!(denied.tables[0].columns, ["b"]);
    assert_eq!(
        denied
            .query
            .as_ref()
            .unwrap()
            .text(asked.log().key())
            .unwrap()
            .unwrap(),
        "select b from t"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaves_when_the_log_cannot_be_written() {
    let mut asked = Asked::begin().await;
    asked.engine.admit(&mut asked.client).await.unwrap();
    // A folder where the file would be stops the superuser too.
    let path = asked.log().path().to_path_buf();
    std::fs::create_dir_all(&path).unwrap();
    let query = asked.query("select a from t").await;
    let refused: Result<SealedStage, Problem> =
        asked.seal(&query, 1, &["a"]).await.map(|s| s.sealed);
    let problem = refused.unwrap_err();
    assert_eq!(problem.code, "audit", "{}", problem.message);
    assert!(problem.hint.contains("nothing was released"));
    // The same for the keys that an engine asks for by itself.
    let keys = coffer_protocol::wire::ReleaseKeys {
        session: query.session.clone(),
        engine_id: asked.engine.id.clone(),
    };
    let keys: Result<coffer_protocol::wire::KeysReleased, Problem> =
        asked.client.ask(ClientMessage::ReleaseKeys, &keys).await;
    assert_eq!(keys.unwrap_err().code, "audit");
    // It goes on as soon as the log does.
    std::fs::remove_dir(&path).unwrap();
    asked.seal(&query, 1, &["a"]).await.unwrap();
    assert_eq!(asked.records().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_no_new_key_is_recorded_too() {
    let mut asked = Asked::begin().await;
    asked.engine.admit(&mut asked.client).await.unwrap();
    let folder = make_stored(&asked.site);
    let table = asked.client.open(&folder).await.unwrap();
    let stored = |protection: &str| {
        let found = table
            .stored
            .iter()
            .find(|stored| stored.protection == protection);
        found.unwrap().clone()
    };
    let (x, y) = (stored("det"), stored("ope"));
    let query = asked.query("select y from s where x = 7").await;
    for (number, column) in [(1, &x), (2, &y), (3, &y)] {
        let schema = Schema {
            fields: vec![Field {
                name: column.name.clone(),
                r#type: column.r#type.clone(),
                nullable: true,
                ..Field::default()
            }],
        };
        let fragment = ir::to_result(ir::scan(schema.clone()), schema);
        let request = scan_stage(number, &fragment, table.handle, vec![row_groups(0..1)]);
        query.seal(&mut asked.client, request).await.unwrap();
    }
    let config_dir = opening(&query.session, table.handle, &x);
    asked
        .client
        .rows_of(ClientMessage::RunAtClient, &config_dir)
        .await
        .unwrap();
    let records = asked.records();
    let message: Vec<_> = records
        .iter()
        .map(|record| {
            let table = &record.event.tables[0];
            let session = &record.event.query.as_ref().unwrap().session;
            assert_eq!(
                (session, table.name.as_str()),
                (&hex::encode(&query.session), "s")
            );
            assert_eq!(
                (record.event.outcome, table.keys.len()),
                (Outcome::Granted, 0)
            );
            let engines = record.event.engines.len();
            (
                record.event.action.as_str(),
                table.columns.join(" "),
                engines,
            )
        })
        .collect();
    assert_eq!(
        message,
        [
            ("release", "x".to_owned(), 1),
            ("release", "x y".to_owned(), 0),
            ("open at the client", "x".to_owned(), 0),
        ]
    );
    // Without a record nothing is sealed or opened.
    let path = asked.log().path().to_path_buf();
    let kept = path.with_extension("kept");
    std::fs::rename(&path, &kept).unwrap();
    std::fs::create_dir(&path).unwrap();
    let refused = asked
        .client
        .rows_of(ClientMessage::RunAtClient, &config_dir)
        .await;
    assert_eq!(refused.unwrap_err().code, "audit");
    let again = asked.query("again").await;
    let request = asked.stage(1, &["a"]);
    assert_eq!(
        again
            .seal(&mut asked.client, request)
            .await
            .err()
            .unwrap()
            .code,
        "audit"
    );
}
