//! What a policy that changes does to an application that runs.

use crate::harness;

use std::time::Duration;

use coffer_protocol::wire::{
    Challenge, CheckSettings, ClientMessage, EndSession, KeysReleased, NewChallenge, NewSession,
    OpenTable, Problem, ReleaseKeys, Session, SessionEnded, Setting, SettingsChecked, TableInfo,
};
use harness::{
    Client, Engine, POLICY, Site, ir,
    query::{Query, leaf_stage},
};

const OTHERS: &str = "[attestation]\naccept = [\"tpm\"]\n";

async fn site_and_engine(policy: &str) -> (Site, Client, Engine) {
    let site = Site::with_policy(policy).await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    (site, client, engine)
}

async fn release(
    client: &mut Client,
    query: &Query,
    engine: &Engine,
) -> Result<KeysReleased, Problem> {
    let request = ReleaseKeys {
        session: query.session.clone(),
        engine_id: engine.id.clone(),
    };
    client.ask(ClientMessage::ReleaseKeys, &request).await
}

fn code<T>(answer: Result<T, Problem>) -> String {
    answer.err().map_or(String::new(), |problem| problem.code)
}

async fn new_session(client: &mut Client) -> Result<Session, Problem> {
    client
        .ask(ClientMessage::NewSession, &NewSession::default())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_the_policy_names_no_more_loses_its_sessions() {
    let (site, mut client, mut engine) = site_and_engine(POLICY).await;
    let query = Query::begin(&mut client).await;
    release(&mut client, &query, &engine).await.unwrap();
    // A change of something else ends nothing.
    site.sign(&format!("{POLICY}[roles.some]\n"));
    release(&mut client, &query, &engine).await.unwrap();
    let untouched = Query::begin(&mut client).await;

    site.sign(OTHERS);
    let revoked = release(&mut client, &query, &engine).await.unwrap_err();
    assert_eq!(revoked.code, "session_revoked");
    assert!(!revoked.hint.is_empty());
    assert_eq!(
        code(release(&mut client, &untouched, &engine).await),
        "engine_unknown"
    );
    // It can be ended, as always.
    let end = EndSession {
        session: query.session.clone(),
    };
    let _: SessionEnded = client.ask(ClientMessage::EndSession, &end).await.unwrap();
    assert_eq!(
        engine.admit(&mut client).await.unwrap_err().code,
        "evidence_not_accepted"
    );

    // A policy that takes it again brings no session back.
    site.sign(POLICY);
    engine.admit(&mut client).await.unwrap();
    assert_eq!(
        code(release(&mut client, &query, &engine).await),
        "session_revoked"
    );
    release(&mut client, &untouched, &engine).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_revoked_engine_are_not_opened() {
    let (site, mut client, mut engine) = site_and_engine(POLICY).await;
    let schema = ir::schema(&[("a", ir::long())]);
    let query = Query::begin(&mut client).await;
    let fragment = ir::to_result(ir::values(schema.clone(), vec![]), schema);
    let stage = query
        .seal(&mut client, leaf_stage(1, &fragment, 1))
        .await
        .unwrap();
    let outputs = query.run(&mut client, &mut engine, &stage, &[]).await;
    site.sign(OTHERS);
    let opened = client.rows(&query.result(1, &outputs, None)).await;
    assert_eq!(code(opened), "session_revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_proves_itself_again_or_is_forgotten() {
    let brief = POLICY.replace("accept", "renew_evidence_after_seconds = 4\naccept");
    let (_site, mut client, mut engine) = site_and_engine(&brief).await;
    let (kept, lost) = (
        Query::begin(&mut client).await,
        Query::begin(&mut client).await,
    );
    tokio::time::sleep(Duration::from_millis(2500)).await;
    release(&mut client, &kept, &engine).await.unwrap();
    // In time: its sessions go on, with keys by the new admission.
    engine.admit(&mut client).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    release(&mut client, &kept, &engine).await.unwrap();
    release(&mut client, &lost, &engine).await.unwrap();
    tokio::time::sleep(Duration::from_millis(4200)).await;
    for query in [&kept, &lost] {
        assert_eq!(
            code(release(&mut client, query, &engine).await),
            "session_revoked"
        );
    }
    let query = Query::begin(&mut client).await;
    assert_eq!(
        code(release(&mut client, &query, &engine).await),
        "engine_unknown"
    );
    engine.admit(&mut client).await.unwrap();
    release(&mut client, &query, &engine).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsigned_change_stops_what_would_begin_and_the_policy_before_does_not_come_back() {
    let (site, mut client, mut engine) = site_and_engine(POLICY).await;
    let schema = ir::schema(&[("a", ir::long())]);
    let query = Query::begin(&mut client).await;
    let fragment = ir::to_result(ir::values(schema.clone(), vec![]), schema);
    let stage = query
        .seal(&mut client, leaf_stage(1, &fragment, 1))
        .await
        .unwrap();
    let outputs = query.run(&mut client, &mut engine, &stage, &[]).await;
    let file = site.config_dir.policy();
    std::fs::write(&file, format!("{POLICY}[users.eve]\n")).unwrap();
    let refused = release(&mut client, &query, &engine).await.unwrap_err();
    assert_eq!(refused.code, "policy");
    assert!(
        refused.message.contains("+ [users.eve]"),
        "{}",
        refused.message
    );
    assert!(
        refused.hint.contains("coffer policy sign"),
        "{}",
        refused.hint
    );
    assert_eq!(code(new_session(&mut client).await), "policy");
    assert_eq!(code(engine.admit(&mut client).await), "policy");
    let challenge: Result<Challenge, Problem> = client
        .ask(ClientMessage::NewChallenge, &NewChallenge {})
        .await;
    assert_eq!(code(challenge), "policy");
    let open: Result<TableInfo, Problem> = client
        .ask(ClientMessage::OpenTable, &OpenTable::default())
        .await;
    assert_eq!(code(open), "policy");
    // What engines had the keys of comes to its end.
    client.rows(&query.result(1, &outputs, None)).await.unwrap();
    // So does an older policy with its signature, and the signature's absence.
    std::fs::write(&file, POLICY).unwrap();
    new_session(&mut client).await.unwrap();
    let signature = std::fs::read(site.config_dir.policy_signature()).unwrap();
    site.sign(OTHERS);
    std::fs::write(&file, POLICY).unwrap();
    std::fs::write(site.config_dir.policy_signature(), signature).unwrap();
    assert_eq!(code(new_session(&mut client).await), "policy");
    std::fs::remove_file(site.config_dir.policy_signature()).unwrap();
    assert_eq!(code(new_session(&mut client).await), "policy");
    site.sign(POLICY);
    new_session(&mut client).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_is_no_longer_trusted_gets_nothing() {
    let trusting = format!("{POLICY}[driver]\ntrust_cluster_deploy_mode = true\n");
    let site = Site::with_policy(&trusting).await;
    let mut client = site.stranger().await;
    client.hello(true).await.unwrap();
    new_session(&mut client).await.unwrap();
    site.sign(POLICY);
    assert_eq!(code(new_session(&mut client).await), "cluster_deploy_mode");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_hold_a_secret_are_named() {
    let (_site, mut client, _engine) = site_and_engine(POLICY).await;
    let ask = |key: &str, value: &str| CheckSettings {
        settings: vec![
            Setting {
                key: "spark.app.name".to_owned(),
                value: "mine".to_owned(),
            },
            Setting {
                key: key.to_owned(),
                value: value.to_owned(),
            },
        ],
    };
    let secret = "correct horse battery staple";
    let _: SettingsChecked = client
        .ask(
            ClientMessage::CheckSettings,
            &ask("spark.a", "correct horse"),
        )
        .await
        .unwrap();
    for value in [
        secret.to_owned(),
        format!("-Dx={secret}"),
        hex::encode(secret),
    ] {
        let answer: Result<SettingsChecked, Problem> = client
            .ask(ClientMessage::CheckSettings, &ask("spark.x", &value))
            .await;
        let problem = answer.unwrap_err();
        assert_eq!(problem.code, "COFFER_SECRET_IN_CONF");
        assert!(
            problem.message.contains("spark.x") && !problem.message.contains(secret),
            "{}",
            problem.message
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_name_the_policy_that_they_were_made_under() {
    let (site, mut client, engine) = site_and_engine(POLICY).await;
    for policy in [POLICY, OTHERS, POLICY] {
        site.sign(policy);
        let query = Query::begin(&mut client).await;
        let _ = release(&mut client, &query, &engine).await;
    }
    let keyring =
        coffer_custody::Keyring::open(&site.config_dir.keyring(), &harness::passphrase()).unwrap();
    let log = coffer_audit::AuditLog::of(&site.config_dir, &keyring);
    let digests: Vec<String> = log
        .records()
        .unwrap()
        .map(|record| record.unwrap().event.policy.unwrap())
        .collect();
    let now = coffer_catalog::policy::open(&site.config_dir, &keyring)
        .unwrap()
        .digest()
        .to_string();
    assert!(digests.contains(&now), "{digests:?}");
}
