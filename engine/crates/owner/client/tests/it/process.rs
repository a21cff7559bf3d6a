//! The process: its ready line, what ends it, and what it says when it cannot start.

use crate::harness;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use coffer_custody::{ConfigDir, Keyring, Passphrase};
use coffer_process::{address::Address, helper};
use coffer_protocol::wire::{ClientMessage, RunAtClient};
use harness::{Site, ir, query::Query};

/// The harness's.
const PASSPHRASE: &str = "correct horse battery staple";

fn client(config_dir: &Path, passphrase: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coffer-client"));
    command
        .args(["--lifeline", "stdin", "--listen"])
        .arg(format!("unix:{}", config_dir.join("client.sock").display()))
        .arg("--config-dir")
        .arg(config_dir)
        .env_remove("COFFER_PASSPHRASE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(passphrase) = passphrase {
        command.env("COFFER_PASSPHRASE", passphrase);
    }
    command
}

fn make_config_dir(folder: &Path, passphrase: &str) {
    let config_dir = ConfigDir::at(folder);
    config_dir.create().unwrap();
    let keyring =
        Keyring::create(&config_dir.keyring(), &Passphrase::new(passphrase).unwrap()).unwrap();
    coffer_catalog::policy::replace(&config_dir, &keyring, "").unwrap();
}

fn refusal(config_dir: &Path, passphrase: Option<&str>) -> String {
    let output = client(config_dir, passphrase).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn ready(child: &mut Child) -> serde_json::Value {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    serde_json::from_str(&line).unwrap()
}

/// How it ended. It has a minute for it.
fn ended(mut child: Child) -> ExitStatus {
    let status = helper::ended(&mut child, Duration::from_secs(60)).unwrap();
    status.expect("it has not ended")
}

#[test]
fn opens_its_config_dir_says_so_and_ends_with_its_lifeline() {
    let folder = tempfile::tempdir().unwrap();
    make_config_dir(folder.path(), "right");
    let file = folder.path().join("passphrase");
    std::fs::write(&file, "right\n").unwrap();
    let mut command = client(folder.path(), None);
    let mut child = command.arg("--passphrase-file").arg(file).spawn().unwrap();
    let ready = ready(&mut child);
    assert!(ready["listening"].as_str().unwrap().starts_with("unix:"));
    drop(child.stdin.take());
    assert!(ended(child).success());
}

#[test]
fn what_is_wrong_with_the_config_dir_has_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    make_config_dir(folder.path(), "right");
    let wrong = refusal(folder.path(), Some("wrong"));
    assert!(
        wrong.contains("error: ") && wrong.contains("hint: "),
        "{wrong}"
    );
    assert!(!wrong.contains("\"wrong\""));
    let none = refusal(folder.path(), None);
    assert!(none.contains("COFFER_PASSPHRASE"), "{none}");

    std::fs::write(
        folder.path().join("policy.toml"),
        "[attestaton]\naccept = []\n",
    )
    .unwrap();
    let policy = refusal(folder.path(), Some("right"));
    assert!(policy.contains("attestaton"), "{policy}");
    let nowhere = tempfile::tempdir().unwrap();
    assert!(refusal(nowhere.path(), Some("right")).contains("error: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_on_the_disk_when_it_ends_in_the_middle_of_a_query() {
    let folder = tempfile::tempdir().unwrap();
    let config_dir = ConfigDir::at(folder.path().join("config"));
    make_config_dir(config_dir.path(), PASSPHRASE);
    let spill = folder.path().join("tmp");
    std::fs::create_dir(&spill).unwrap();
    let site = Site {
        address: Address::Unix(config_dir.path().join("client.sock")),
        config_dir,
        folder,
    };
    let mut command = client(site.config_dir.path(), Some(PASSPHRASE));
    let mut child = command.env("TMPDIR", &spill).spawn().unwrap();
    ready(&mut child);
    let mut driver = site.client().await;
    // Far more than a socket holds: who does not read it keeps the query waiting.
    let schema = ir::schema(&[("a", ir::long())]);
    let rows = ir::values(
        schema.clone(),
        (0..10_000).map(|n| vec![ir::int(n)]).collect(),
    );
    let rows = ir::multiplied(7, rows, schema.clone(), 400);
    let request = RunAtClient {
        session: Query::begin(&mut driver).await.session,
        fragment: prost::Message::encode_to_vec(&ir::to_result(rows, schema)).into(),
        read_bytes: 1 << 30,
        ..RunAtClient::default()
    };
    driver.send(ClientMessage::RunAtClient, &request).await;
    driver.receive().await.unwrap();
    let left = || std::fs::read_dir(&spill).unwrap().count();
    assert_eq!(left(), 1, "the folder that the query may spill to");
    drop(child.stdin.take());
    assert!(ended(child).success());
    assert_eq!(left(), 0);
}
