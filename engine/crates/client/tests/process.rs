//! The process: its ready line, what ends it, and what it says when it cannot start.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use coffer_keys::{Home, Keyring, Passphrase};

fn client(home: &Path, passphrase: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coffer-client"));
    command
        .args(["--lifeline", "stdin", "--listen"])
        .arg(format!("unix:{}", home.join("client.sock").display()))
        .arg("--home")
        .arg(home)
        .env_remove("COFFER_PASSPHRASE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(passphrase) = passphrase {
        command.env("COFFER_PASSPHRASE", passphrase);
    }
    command
}

fn make_home(folder: &Path) {
    let home = Home::at(folder);
    home.create().unwrap();
    Keyring::create(&home.keyring(), &Passphrase::new("right").unwrap()).unwrap();
    std::fs::write(home.policy(), "").unwrap();
}

fn refusal(home: &Path, passphrase: Option<&str>) -> String {
    let output = client(home, passphrase).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn opens_its_home_says_so_and_ends_with_its_lifeline() {
    let folder = tempfile::tempdir().unwrap();
    make_home(folder.path());
    let file = folder.path().join("passphrase");
    std::fs::write(&file, "right\n").unwrap();
    let mut command = client(folder.path(), None);
    let mut child = command.arg("--passphrase-file").arg(file).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(ready["listening"].as_str().unwrap().starts_with("unix:"));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_is_wrong_with_the_home_is_said_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    make_home(folder.path());
    let wrong = refusal(folder.path(), Some("wrong"));
    assert!(wrong.contains("error: ") && wrong.contains("hint: "), "{wrong}");
    assert!(!wrong.contains("\"wrong\""));
    let none = refusal(folder.path(), None);
    assert!(none.contains("COFFER_PASSPHRASE"), "{none}");

    std::fs::write(folder.path().join("policy.toml"), "[attestaton]\naccept = []\n").unwrap();
    let policy = refusal(folder.path(), Some("right"));
    assert!(policy.contains("attestaton"), "{policy}");
    let nowhere = tempfile::tempdir().unwrap();
    assert!(refusal(nowhere.path(), Some("right")).contains("error: "));
}
