//! The process: its ready line, what ends it, what it says when it cannot start.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::net::UnixStream,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use coffer_process::helper;

fn engine(folder: &std::path::Path, listen: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_coffer-engine"))
        .args([
            "--listen",
            listen,
            "--memory",
            "64MiB",
            "--evidence",
            "simulated",
        ])
        .args(["--lifeline", "stdin", "--spill-dir"])
        .arg(folder.join("spill"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
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
fn says_when_it_is_ready_and_ends_with_its_lifeline() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine.sock");
    let mut child = engine(folder.path(), &format!("unix:{}", socket.display()));
    let ready = ready(&mut child);
    assert_eq!(ready["listening"], format!("unix:{}", socket.display()));
    assert_eq!(ready["evidence"], "simulated");
    assert_eq!(ready["engine_id"].as_str().unwrap().len(), 32);
    assert_eq!(ready["version"], env!("CARGO_PKG_VERSION"));
    UnixStream::connect(&socket).unwrap();
    drop(child.stdin.take());
    assert!(ended(child).success());
    assert!(!socket.exists(), "the socket's file is gone");
    assert_eq!(
        std::fs::read_dir(folder.path().join("spill"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_port_chosen_by_the_system_is_said_and_sigterm_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = engine(folder.path(), "tcp:127.0.0.1:0");
    let ready = ready(&mut child);
    let address = ready["listening"]
        .as_str()
        .unwrap()
        .strip_prefix("tcp:")
        .unwrap()
        .to_owned();
    assert!(!address.ends_with(":0"));
    std::net::TcpStream::connect(address).unwrap();
    let killed = Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(ended(child).success());
}

#[test]
fn what_cannot_be_listened_on_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for (listen, words) in [
        ("unix:/no/such/folder/socket", "cannot listen on"),
        ("vsock:/socket:5", "one to connect to"),
        ("tcp:0.0.0.0:0", "loopback"),
    ] {
        let mut child = engine(folder.path(), listen);
        let mut message = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut message)
            .unwrap();
        assert!(!ended(child).success());
        assert!(
            message.contains("error:") && message.contains(words),
            "{listen}: {message}"
        );
    }
}
