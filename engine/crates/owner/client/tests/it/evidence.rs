//! Columns whose keys are for engines that show several kinds of evidence.

use crate::harness;

use std::{collections::HashMap, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use arrow::array::{ArrayRef, Int64Array};
use coffer_custody::{Checks, verifiers::Verifiers};
use coffer_protocol::{
    EvidenceError, EvidenceKind,
    wire::{ClientMessage, KeysReleased, Problem, ReleaseKeys, RunAtClient, TableInfo, TableScan},
};
use coffer_release::Issuer;
use harness::{
    Client, Ended, Engine, Site,
    query::{Query, Stage, columns_of, row_groups, scan_stage},
};
use prost::Message;

const POLICY: &str = r#"
attestation.accept = ["tdx", "tpm"]
[tables.t.columns]
b = { evidence = ["tpm", "tdx"] }
"#;

/// A TEE whose report is the report data.
struct Tee(EvidenceKind);

impl Issuer for Tee {
    fn kind(&self) -> EvidenceKind {
        self.0
    }

    fn report(&self, report_data: &[u8; 32]) -> Result<Vec<u8>, EvidenceError> {
        Ok(report_data.to_vec())
    }
}

/// A program that passes each report that is the report data.
fn verifiers(folder: &Path) -> Verifiers {
    let program = folder.join("verifiers");
    let answer = |kind: EvidenceKind| {
        let mut checks = Checks::new();
        for name in Checks::required(kind) {
            checks.note(name, true, "");
        }
        let checks = serde_json::to_string(&checks).unwrap();
        format!("*'\"kind\":\"{kind}\"'*) echo '{{\"kind\":\"{kind}\",\"checks\":{checks}}}';;")
    };
    let field = |name: &str| {
        format!("$(printf %s \"$asked\" | sed 's/.*\"{name}\":\"\\([0-9a-f]*\\)\".*/\\1/')")
    };
    let script = format!(
        "#!/bin/sh\nasked=$(cat)\n[ \"{}\" = \"{}\" ] || exit 1\ncase \"$asked\" in {} {} esac\n",
        field("report"),
        field("expected"),
        answer(EvidenceKind::Tdx),
        answer(EvidenceKind::Tpm),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    Verifiers::at(&program, None)
}

/// An engine that shows both kinds, one that shows one of them, and a table.
struct Both {
    site: Site,
    client: Client,
    whole: Engine,
    half: Engine,
    table: TableInfo,
    _programs: tempfile::TempDir,
}

impl Both {
    async fn begin() -> Self {
        let programs = tempfile::tempdir().unwrap();
        let by = verifiers(programs.path());
        let site = Site::serving(POLICY, |service| service.with_verifiers(by)).await;
        let mut client = site.client().await;
        let kinds = |kinds: &[EvidenceKind]| {
            let tees = kinds
                .iter()
                .map(|kind| Box::new(Tee(*kind)) as Box<dyn Issuer>);
            tees.collect()
        };
        let both = kinds(&[EvidenceKind::Tdx, EvidenceKind::Tpm]);
        let whole = site.engine_of("whole", 64 << 20, both).await;
        let half = site
            .engine_of("half", 64 << 20, kinds(&[EvidenceKind::Tdx]))
            .await;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
        let columns = vec![vec![Arc::clone(&numbers), numbers]];
        let path = site.table("t", "a BIGINT, b BIGINT", columns);
        let table = client.open(&path).await.unwrap();
        Self {
            site,
            client,
            whole,
            half,
            table,
            _programs: programs,
        }
    }

    async fn query(&mut self) -> Query {
        Query::begin(&mut self.client).await
    }

    async fn seal(
        &mut self,
        query: &Query,
        number: u32,
        columns: &[&str],
    ) -> Result<Stage, Problem> {
        let fragment = columns_of(&self.table, columns);
        let stage = scan_stage(number, &fragment, self.table.handle, vec![row_groups(0..1)]);
        query.seal(&mut self.client, stage).await
    }

    async fn read_here(&mut self, query: &Query, columns: &[&str]) -> Result<(), Problem> {
        let fragment = columns_of(&self.table, columns);
        let request = RunAtClient {
            session: query.session.clone(),
            fragment: fragment.encode_to_vec().into(),
            scans: vec![TableScan {
                handle: self.table.handle,
                ..TableScan::default()
            }],
            read_bytes: 1 << 30,
            ..RunAtClient::default()
        };
        self.client.send(ClientMessage::RunAtClient, &request).await;
        while i32::from(self.client.receive().await?.kind) != i32::from(ClientMessage::ResultEnd) {}
        Ok(())
    }

    async fn release(&mut self, query: &Query, id: &str) -> Result<KeysReleased, Problem> {
        let request = ReleaseKeys {
            session: query.session.clone(),
            engine_id: id.to_owned(),
        };
        self.client.ask(ClientMessage::ReleaseKeys, &request).await
    }
}

fn to(stage: &Stage) -> Vec<&str> {
    let releases = stage.sealed.releases.iter();
    let mut engines: Vec<&str> = releases.map(|release| release.engine_id.as_str()).collect();
    engines.sort_unstable();
    engines
}

fn code<T>(answer: Result<T, Problem>) -> String {
    answer.err().map_or(String::new(), |problem| problem.code)
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_to_engines_that_showed_all_kinds_that_are_wanted() {
    let mut both = Both::begin().await;
    both.half.admit(&mut both.client).await.unwrap();
    let half = both.half.id.clone();

    // With one kind, what wants one.
    let query = both.query().await;
    let stage = both.seal(&query, 1, &["a"]).await.unwrap();
    assert_eq!(to(&stage), [half.as_str()]);
    let refused = both.seal(&query, 2, &["b"]).await.err().unwrap();
    assert_eq!(refused.code, "more_evidence");
    assert!(
        refused.message.contains("tdx+tpm evidence together"),
        "{}",
        refused.message
    );
    let query = both.query().await;
    assert_eq!(
        code(both.seal(&query, 1, &["a", "b"]).await),
        "more_evidence"
    );
    assert_eq!(code(both.release(&query, &half).await), "more_evidence");

    both.whole.admit(&mut both.client).await.unwrap();
    let whole = both.whole.id.clone();
    let query = both.query().await;
    let stage = both.seal(&query, 1, &["b"]).await.unwrap();
    assert_eq!(to(&stage), [whole.as_str()]);
    assert_eq!(code(both.release(&query, &half).await), "more_evidence");
    let start = query.start(&stage, 0, &both.whole);
    let ended = both
        .whole
        .run(&mut both.client, &start, &HashMap::new())
        .await;
    assert!(matches!(ended, Ended::Done(_)));

    // An engine that has the session's key could open what others write of the column.
    let query = both.query().await;
    let stage = both.seal(&query, 1, &["a"]).await.unwrap();
    assert_eq!(to(&stage).len(), 2);
    assert_eq!(code(both.seal(&query, 2, &["b"]).await), "more_evidence");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_left_out_is_not_shown() {
    let mut both = Both::begin().await;
    both.whole.admit(&mut both.client).await.unwrap();
    let id = both.whole.id.clone();
    let query = both.query().await;
    assert_eq!(
        to(&both.seal(&query, 1, &["b"]).await.unwrap()),
        [id.as_str()]
    );

    // The host drops one when the engine is to prove itself again.
    let without = |evidence: &mut coffer_protocol::wire::EngineEvidence| evidence.further.clear();
    both.whole
        .admit_altered(&mut both.client, without)
        .await
        .unwrap();
    assert_eq!(code(both.release(&query, &id).await), "session_revoked");
    let query = both.query().await;
    assert_eq!(code(both.seal(&query, 1, &["b"]).await), "more_evidence");
    both.whole.admit(&mut both.client).await.unwrap();
    let query = both.query().await;
    assert_eq!(
        to(&both.seal(&query, 1, &["b"]).await.unwrap()),
        [id.as_str()]
    );

    // One of another engine's does not pass.
    let foreign = |evidence: &mut coffer_protocol::wire::EngineEvidence| {
        evidence.further[0].report = vec![7; 32].into();
    };
    let refused = both.whole.admit_altered(&mut both.client, foreign).await;
    assert_eq!(code(refused), "verifiers");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_client_read_comes_to_no_engine_that_showed_less() {
    let mut both = Both::begin().await;
    both.half.admit(&mut both.client).await.unwrap();
    let id = both.half.id.clone();
    let query = both.query().await;
    both.read_here(&query, &["a"]).await.unwrap();
    both.release(&query, &id).await.unwrap();
    both.read_here(&query, &["b"]).await.unwrap();
    assert_eq!(code(both.release(&query, &id).await), "more_evidence");
    assert_eq!(code(both.seal(&query, 1, &["a"]).await), "more_evidence");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_wants_more_ends_the_sessions_of_engines_that_showed_less() {
    let mut both = Both::begin().await;
    both.half.admit(&mut both.client).await.unwrap();
    let (reads, idle) = (both.query().await, both.query().await);
    both.seal(&reads, 1, &["a"]).await.unwrap();
    let id = both.half.id.clone();
    both.release(&idle, &id).await.unwrap();

    let wanting = "[defaults]\nevidence = [\"tpm\"]\n";
    both.site.sign(&format!("{POLICY}{wanting}"));
    assert_eq!(code(both.release(&reads, &id).await), "session_revoked");
    // It uses nothing of any table yet.
    both.release(&idle, &id).await.unwrap();
    assert_eq!(code(both.seal(&idle, 1, &["a"]).await), "more_evidence");
}
