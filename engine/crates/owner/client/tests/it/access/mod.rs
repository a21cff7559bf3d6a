//! Users who hold the keys of some columns only: what the client engine refuses, whatever the
//! driver's JVM asks.

use crate::harness;
mod reads;
mod writers;

use std::{path::PathBuf, sync::Arc};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use coffer_custody::Keyring;
use coffer_protocol::{
    plan::{Field, Schema},
    wire::{
        BeginWrite, CheckRead, ClientMessage, DropTable, EncryptLiterals, LiteralsEncrypted,
        OpenTable, Problem, PublishWrite, ReadChecked, RunAtClient, StoredColumn, TableDropped,
        TableInfo, TableScan, WriteBegun, WritePublished, begin_write::Mode,
    },
};
use harness::{
    Client, Engine, Site, ir,
    query::{Query, opening, row_groups, scan_stage},
};
use prost::Message;

/// `people` has stored columns, `plain` ones that Parquet encrypts.
const POLICY: &str = r#"
unverified_inputs = ["../open"]
attestation.accept = ["simulated"]
[tables.people.columns]
name = { protection = ["tee", "det"], link = "name" }
n = { protection = ["ope", "std"], domain = [0, 1000] }
born = "plain"
[roles.some]
tables.people = ["n"]
tables.other = ["n", "born"]
[roles.writer]
tables.other = ["name", "n"]
write = ["other"]
[roles.loader]
tables.made = "*"
tables.other = "*"
write = ["made", "other"]
[users.ann]
roles = ["some"]
[users.walt]
roles = ["some", "writer"]
[users.lou]
roles = ["loader"]
[users.nobody]
"#;

struct Tables {
    site: Site,
    client: Client,
    engine: Engine,
    people: TableInfo,
    other: TableInfo,
}

fn make(site: &Site, table: &str) -> PathBuf {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..50).map(|n| format!("person {n}")),
    ));
    let columns = vec![names, Arc::clone(&numbers), numbers];
    site.table(table, "name STRING, n BIGINT, born BIGINT", vec![columns])
}

impl Tables {
    async fn of(user: Option<&str>) -> Self {
        let site = Site::acting(POLICY, user).await;
        let mut client = site.client().await;
        let mut engine = site.engine("engine", 64 << 20).await;
        engine.admit(&mut client).await.unwrap();
        let mut infos = Vec::new();
        for table in ["people", "other"] {
            infos.push(client.open(&make(&site, table)).await.unwrap());
        }
        let [people, other] = infos.try_into().unwrap();
        Self {
            site,
            client,
            engine,
            people,
            other,
        }
    }

    fn stored(&self, column: u32, protection: &str) -> StoredColumn {
        let found =
            |stored: &&StoredColumn| stored.protection == protection && stored.column == column;
        self.people.stored.iter().find(found).unwrap().clone()
    }

    /// Asks for a stage that scans these columns of the files, and for the keys of `more`; runs it
    /// if it is sealed.
    async fn scan(
        &mut self,
        handle: u32,
        fields: Vec<Field>,
        more: &[&str],
    ) -> Result<usize, Problem> {
        let schema = Schema { fields };
        let fragment = ir::to_result(ir::scan(schema.clone()), schema);
        let mut request = scan_stage(1, &fragment, handle, vec![row_groups(0..1)]);
        request.scans = vec![TableScan {
            columns: more.iter().map(ToString::to_string).collect(),
            ..request.scans.remove(0)
        }];
        let query = Query::begin(&mut self.client).await;
        let stage = query.seal(&mut self.client, request).await?;
        let outputs = query
            .run(&mut self.client, &mut self.engine, &stage, &[])
            .await;
        let batches = self.client.rows(&query.result(1, &outputs, None)).await?;
        Ok(batches.iter().map(RecordBatch::num_rows).sum())
    }

    async fn scan_other(&mut self, columns: &[&str], more: &[&str]) -> Result<usize, Problem> {
        let fields = self.other.schema.clone().unwrap().fields;
        let fields = fields
            .into_iter()
            .filter(|field| columns.contains(&field.name.as_str()));
        self.scan(self.other.handle, fields.collect(), more).await
    }

    async fn scan_stored(&mut self, stored: &[StoredColumn]) -> Result<usize, Problem> {
        let fields = stored.iter().map(|stored| Field {
            name: stored.name.clone(),
            r#type: stored.r#type.clone(),
            nullable: true,
            ..Field::default()
        });
        self.scan(self.people.handle, fields.collect(), &[]).await
    }

    async fn encrypt(
        &mut self,
        stored: &StoredColumn,
        literal: coffer_protocol::plan::Literal,
    ) -> Result<(), Problem> {
        let request = EncryptLiterals {
            handle: self.people.handle,
            stored: stored.name.clone(),
            literals: vec![literal],
        };
        let answer: Result<LiteralsEncrypted, Problem> = self
            .client
            .ask(ClientMessage::EncryptLiterals, &request)
            .await;
        answer.map(|_| ())
    }

    async fn encrypt_number(&mut self, value: i64) -> Result<(), Problem> {
        let stored = self.stored(1, "ope");
        self.encrypt(&stored, ir::int(value)).await
    }

    /// Asks the client engine to open a stored column over no rows: what it says of the keys.
    async fn decrypt(&mut self, stored: &StoredColumn) -> Result<(), Problem> {
        let query = Query::begin(&mut self.client).await;
        let request = opening(&query.session, self.people.handle, stored);
        self.at_client(request).await
    }

    /// Asks the client engine to read columns of `other` itself.
    async fn read_at_client(&mut self, columns: &[&str]) -> Result<(), Problem> {
        let query = Query::begin(&mut self.client).await;
        let mut schema = self.other.schema.clone().unwrap();
        schema
            .fields
            .retain(|field| columns.contains(&field.name.as_str()));
        let fragment = ir::to_result(ir::scan(schema.clone()), schema);
        let scan = TableScan {
            scan_id: 0,
            handle: self.other.handle,
            ..TableScan::default()
        };
        let request = RunAtClient {
            session: query.session.clone(),
            fragment: fragment.encode_to_vec().into(),
            scans: vec![scan],
            read_bytes: 1 << 30,
            ..RunAtClient::default()
        };
        self.at_client(request).await
    }

    async fn at_client(&mut self, request: RunAtClient) -> Result<(), Problem> {
        self.client.send(ClientMessage::RunAtClient, &request).await;
        loop {
            let message = self.client.receive().await?;
            if i32::from(message.kind) == i32::from(ClientMessage::ResultEnd) {
                return Ok(());
            }
        }
    }

    fn events(&self) -> Vec<coffer_audit::Event> {
        let keyring =
            Keyring::open(&self.site.config_dir.keyring(), &harness::passphrase()).unwrap();
        let log = coffer_audit::AuditLog::of(&self.site.config_dir, &keyring);
        log.records()
            .unwrap()
            .map(|record| record.unwrap().event)
            .collect()
    }

    fn change_policy(&self, from: &str, to: &str) {
        let policy = self.site.config_dir.policy();
        let text = std::fs::read_to_string(&policy).unwrap();
        assert!(text.contains(from));
        self.site.sign(&text.replace(from, to));
    }

    /// A version of no files.
    async fn publish(&mut self, write: u32) -> Result<WritePublished, Problem> {
        let publish = PublishWrite {
            write,
            ..PublishWrite::default()
        };
        self.client.ask(ClientMessage::PublishWrite, &publish).await
    }

    async fn open(&mut self, request: OpenTable) -> Result<TableInfo, Problem> {
        self.client.ask(ClientMessage::OpenTable, &request).await
    }

    async fn begin(&mut self, mode: Mode, folder: &str) -> Result<WriteBegun, Problem> {
        let begin = BeginWrite {
            mode: mode.into(),
            path: self.site.folder.path().join(folder).display().to_string(),
            schema: self.other.schema.clone(),
            handle: self.other.handle,
            ..BeginWrite::default()
        };
        self.client.ask(ClientMessage::BeginWrite, &begin).await
    }

    async fn drop_other(&mut self) -> Result<TableDropped, Problem> {
        let request = DropTable {
            path: self.other.path.clone(),
            table_id: self.other.table_id.clone(),
            name: "other".to_owned(),
            ..DropTable::default()
        };
        self.client.ask(ClientMessage::DropTable, &request).await
    }
}

fn denied<T: std::fmt::Debug>(answer: Result<T, Problem>, column: &str) {
    let problem = answer.unwrap_err();
    assert_eq!(problem.code, "denied_column", "{}", problem.message);
    assert!(problem.message.contains(column), "{}", problem.message);
    assert!(problem.hint.contains("deniedColumns"), "{}", problem.hint);
}

fn denied_write<T: std::fmt::Debug>(answer: Result<T, Problem>) {
    let problem = answer.unwrap_err();
    assert_eq!(problem.code, "denied_write", "{}", problem.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_has_all_of_it() {
    let mut tables = Tables::of(None).await;
    assert!(tables.people.denied.is_empty() && tables.other.denied.is_empty());
    assert_eq!(
        tables
            .scan_other(&["name", "n", "born"], &[])
            .await
            .unwrap(),
        50
    );
    let det = tables.stored(0, "det");
    tables.encrypt(&det, ir::text("x")).await.unwrap();
    assert_eq!(tables.scan_stored(&[det]).await.unwrap(), 50);
    let ope = tables.stored(1, "ope");
    tables.decrypt(&ope).await.unwrap();
    tables.begin(Mode::Append, "other").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_sees_the_schema_and_which_columns_are_denied() {
    let tables = Tables::of(Some("ann")).await;
    assert_eq!(tables.people.schema.as_ref().unwrap().fields.len(), 3);
    assert_eq!(
        (&tables.people.denied[..], &tables.other.denied[..]),
        (&[0, 2][..], &[0][..])
    );
    let tables = Tables::of(Some("nobody")).await;
    assert_eq!(tables.other.denied, [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_is_gone_at_once() {
    let mut tables = Tables::of(Some("ann")).await;
    assert_eq!(tables.scan_other(&["n"], &[]).await.unwrap(), 50);
    let policy = tables.site.config_dir.policy();
    let text = std::fs::read_to_string(&policy).unwrap();
    tables
        .site
        .sign(&text.replace("roles = [\"some\"]", "roles = []"));
    denied(tables.scan_other(&["n"], &[]).await, "other.n");
    // And a policy that cannot be read allows nothing.
    std::fs::write(&policy, "nonsense").unwrap();
    assert_eq!(tables.encrypt_number(7).await.unwrap_err().code, "policy");
    tables
        .site
        .sign(&text.replace("[users.ann]", "[users.anne]"));
    assert_eq!(tables.encrypt_number(7).await.unwrap_err().code, "policy");
    tables.site.sign(&text);
    assert_eq!(tables.scan_other(&["n"], &[]).await.unwrap(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_planner_asks_is_answered_by_todays_rights_and_a_refusal_is_recorded() {
    let mut tables = Tables::of(Some("ann")).await;
    for handle in [tables.people.handle, tables.other.handle] {
        let ask = |columns: &[&str]| CheckRead {
            handle,
            columns: columns.iter().map(ToString::to_string).collect(),
        };
        let read: Result<ReadChecked, Problem> = tables
            .client
            .ask(ClientMessage::CheckRead, &ask(&["n"]))
            .await;
        read.unwrap();
        let read: Result<ReadChecked, Problem> = tables
            .client
            .ask(ClientMessage::CheckRead, &ask(&["n", "name"]))
            .await;
        denied(read, ".name");
    }
    let events = tables.events();
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.action.as_str(),
                event.code.as_deref().unwrap(),
                &event.tables[0].columns[..],
            )
        })
        .collect();
    assert_eq!(
        shown,
        [("read", "denied_column", &["name".to_owned()][..]); 2]
    );
    tables.change_policy("tables.other = [\"n\", \"born\"]", "tables.other = \"*\"");
    let request = CheckRead {
        handle: tables.other.handle,
        columns: vec!["name".to_owned()],
    };
    let read: Result<ReadChecked, Problem> =
        tables.client.ask(ClientMessage::CheckRead, &request).await;
    read.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn literals_are_recorded_and_counted_once_each() {
    let mut ann = Tables::of(Some("ann")).await;
    ann.change_policy(
        "[roles.some]",
        "[limits]\nliterals_per_day = 3\n[roles.some]",
    );
    let n = ann.stored(1, "ope");
    for value in [1, 2, 1, 2, 3, 3] {
        ann.encrypt(&n, ir::int(value)).await.unwrap();
    }
    let refused = ann.encrypt(&n, ir::int(4)).await.unwrap_err();
    assert_eq!(refused.code, "too_many_literals");
    assert!(
        refused.message.contains("people.n") && refused.hint.contains("literals_per_day"),
        "{refused:?}"
    );
    ann.encrypt(&n, ir::int(2)).await.unwrap();
    let events = ann.events();
    let granted: Vec<_> = (events.iter())
        .filter(|event| event.action == "encrypt literals" && event.code.is_none())
        .map(|event| {
            (
                event.tables[0].columns.clone(),
                event.details["literals"].as_str(),
                event.details["in all"].as_str(),
            )
        })
        .collect();
    let n = || vec!["n".to_owned()];
    assert_eq!(granted, [(n(), "1", "1"), (n(), "1", "2"), (n(), "1", "3")]);
    assert!(
        events
            .iter()
            .any(|event| event.code.as_deref() == Some("too_many_literals"))
    );
    // The owner has the keys anyway; that it encrypts is recorded, and not bounded.
    let mut owner = Tables::of(None).await;
    owner.change_policy(
        "[roles.some]",
        "[limits]\nliterals_per_day = 0\n[roles.some]",
    );
    let n = owner.stored(1, "ope");
    owner.encrypt(&n, ir::int(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_uses_what_is_taken_away_ends() {
    let mut ann = Tables::of(Some("ann")).await;
    let schema = Schema {
        fields: ann
            .other
            .schema
            .clone()
            .unwrap()
            .fields
            .into_iter()
            .filter(|field| field.name == "n")
            .collect(),
    };
    let fragment = ir::to_result(ir::scan(schema.clone()), schema);
    let query = Query::begin(&mut ann.client).await;
    let stage = scan_stage(1, &fragment, ann.other.handle, vec![row_groups(0..1)]);
    let stage = query.seal(&mut ann.client, stage).await.unwrap();
    let outputs = query
        .run(&mut ann.client, &mut ann.engine, &stage, &[])
        .await;
    // A right to something else changes nothing.
    ann.change_policy("tables.people = [\"n\"]", "tables.people = []");
    ann.client
        .rows(&query.result(1, &outputs, None))
        .await
        .unwrap();
    ann.change_policy(
        "tables.other = [\"n\", \"born\"]",
        "tables.other = [\"born\"]",
    );
    let opened = ann.client.rows(&query.result(1, &outputs, None)).await;
    assert_eq!(opened.unwrap_err().code, "session_revoked");
}
