//! What the audit log says of the commands on keys; and that nothing is done of which it cannot say
//! anything.

use std::fs;

use crate::common::{Ends, Owner, done};
use serde_json::{Value, json};

fn small(owner: &Owner, name: &str) {
    owner.write("small.csv", "id\n1\n2\n");
    owner.ok(&["encrypt", "--header", "small.csv", name]);
}

/// The records of the log: action, outcome, tables, details.
fn records(owner: &Owner) -> Vec<(String, String, Vec<String>, Value)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = owner.ok(&["audit", "show", "--json"]);
    let events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone());
    events
        .map(|event| {
            let tables = event["tables"].as_array().cloned().unwrap_or_default();
            (
                text(&event["action"]),
                text(&event["outcome"]),
                tables.iter().map(|table| text(&table["name"])).collect(),
                event["details"].clone(),
            )
        })
        .collect()
}

#[test]
fn each_command_on_keys_is_recorded() {
    let owner = Owner::new();
    small(&owner, "a");
    small(&owner, "b");
    let before = records(&owner).len();
    let steps: &[(&[&str], &str, &[&str])] = &[
        (&["keys", "create", "payroll"], "keys create", &[]),
        (&["keys", "rotate", "main"], "keys rotate", &[]),
        (&["keys", "rewrap", "--all"], "keys rewrap", &["a", "b"]),
        (
            &["keys", "rewrap", "a", "--to", "payroll"],
            "keys rewrap",
            &["a"],
        ),
        (
            &["keys", "rewrap", "--data", "b"],
            "keys rewrap --data",
            &["b"],
        ),
        (&["keys", "disable", "payroll"], "keys disable", &[]),
        (&["keys", "enable", "payroll"], "keys enable", &[]),
        (
            &["keys", "export", "payroll", "--output", "payroll.coffer"],
            "keys export",
            &[],
        ),
        (
            &["keys", "export", "--output", "all.coffer"],
            "keys export",
            &[],
        ),
        (
            &["keys", "export", "--shares", "2-of-3", "--output", "shares"],
            "keys export",
            &[],
        ),
        (
            &["keys", "import", "payroll.coffer", "--as", "copy"],
            "keys import",
            &[],
        ),
        (&["keys", "destroy", "copy", "--yes"], "keys destroy", &[]),
        (
            &[
                "keys",
                "export-keks",
                "--table",
                "a",
                "--output",
                "keks.json",
            ],
            "export keks",
            &["a"],
        ),
        (&["keys", "forget", "b", "--yes"], "keys forget", &["b"]),
    ];
    for (arguments, _, _) in steps {
        owner.ok(arguments);
    }
    owner.fails(1, &["keys", "destroy", "payroll", "--yes"]);
    let found = records(&owner);
    let found = &found[before..];
    for ((arguments, action, tables), record) in steps.iter().zip(found) {
        assert_eq!(
            (record.0.as_str(), record.1.as_str()),
            (*action, "granted"),
            "{arguments:?}"
        );
        assert_eq!(record.2, *tables, "{arguments:?}");
    }
    assert_eq!(
        (&found[0].3["master"], &found[3].3["to"]),
        (&"payroll".into(), &"payroll".into())
    );
    assert_eq!(
        (&found[7].3["what"], &found[9].3["shares"]),
        (&"payroll".into(), &"2-of-3".into())
    );
    // What was refused is there twice: that it was asked for, and that it was not done.
    let outcomes: Vec<_> = found[steps.len()..]
        .iter()
        .map(|record| (record.0.as_str(), record.1.as_str()))
        .collect();
    assert_eq!(
        outcomes,
        [("keys destroy", "granted"), ("keys destroy", "refused")]
    );
    assert!(
        owner.ok(&["audit", "verify"]).contains("whole"),
        "{}",
        owner.ok(&["audit", "verify"])
    );
}

#[test]
fn a_config_dir_that_lost_its_keyring_records_that_it_came_back() {
    let owner = Owner::new();
    small(&owner, "a");
    owner.ok(&["keys", "export", "--shares", "2-of-3", "--output", "shares"]);
    fs::remove_file(owner.path("config/keyring.coffer")).unwrap();
    owner.ok(&[
        "keys",
        "recover",
        "shares/share-1.txt",
        "shares/share-3.txt",
    ]);
    assert_eq!(records(&owner).last().unwrap().0, "keys recover");
    // Into a config directory without the register no record is written: its head would be in the
    // way of the backup's.
    let arguments = [
        "keys",
        "recover",
        "shares/share-1.txt",
        "shares/share-2.txt",
    ];
    done(owner.command("found").args(arguments).ends(), &arguments);
    assert!(!owner.path("found/audit").exists());
}

#[test]
fn what_a_kms_client_is_refused_is_recorded_once() {
    let owner = Owner::new();
    let before = records(&owner).len();
    let key = "AAECAwQFBgcICQoLDA0ODw==";
    let wrap = |master: &str| json!({ "master": master, "wrap": key });
    let unwrap = |master: &str| json!({ "master": master, "unwrap": "AAAA" });
    let no_kek = "00000000000000000000000000000000.1";
    let answers = owner.kms(&[
        wrap("main"),
        wrap("none"),
        wrap("none"),
        unwrap("main"),
        unwrap("main"),
        json!({ "master": "main" }),
        json!({ "master": "main", "wrap": "no base64" }),
        unwrap(no_kek),
    ]);
    let granted: Vec<bool> = answers
        .iter()
        .map(|answer| answer["error"].is_null())
        .collect();
    assert_eq!(
        granted,
        [true, false, false, false, false, false, false, false]
    );
    let found: Vec<_> = records(&owner)[before..]
        .iter()
        .map(|(action, outcome, _, details)| {
            let master = details["master"].as_str().unwrap_or_default().to_owned();
            (action.clone(), outcome.clone(), master)
        })
        .collect();
    let record = |action: &str, outcome: &str, master: &str| {
        (action.to_owned(), outcome.to_owned(), master.to_owned())
    };
    let want = [
        record("kms wrap", "granted", "main"),
        record("kms wrap", "refused", "none"),
        record("kms unwrap", "granted", "main"),
        record("kms unwrap", "refused", "main"),
    ];
    assert_eq!(found[..want.len()], want);
    // The KEK of no table.
    assert_eq!(found[want.len()..], [record("kms unwrap", "refused", "")]);
}

/// With a log that cannot be written no command does anything: keyring, register and files stay as
/// they were, to the byte.
#[test]
fn nothing_is_done_that_cannot_be_recorded() {
    let owner = Owner::new();
    small(&owner, "a");
    owner.ok(&["keys", "create", "payroll"]);
    owner.ok(&["keys", "export", "payroll", "--output", "payroll.coffer"]);
    owner.ok(&["keys", "export", "--shares", "2-of-3", "--output", "shares"]);
    let log = owner.path("config/audit/log");
    let mut bytes = fs::read(&log).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&log, bytes).unwrap();
    let state = |owner: &Owner| {
        let mut files = owner.files("config");
        files.extend(owner.files("a"));
        files
    };
    // Its keys would be opened before the folder is known to have a file that is none.
    fs::create_dir(owner.path("foreign")).unwrap();
    owner.write("foreign/a.parquet", "no Parquet");
    let before = state(&owner);
    let commands: &[&[&str]] = &[
        &["keys", "create", "third"],
        &["keys", "rotate", "main"],
        &["keys", "rewrap", "--all", "--again"],
        &["keys", "rewrap", "--all", "--to", "payroll"],
        &["keys", "rewrap", "--data", "a"],
        &["keys", "disable", "main"],
        &["keys", "destroy", "payroll", "--yes"],
        &["keys", "export", "main", "--output", "x"],
        &["keys", "export", "--shares", "2-of-3", "--output", "x"],
        &["keys", "import", "payroll.coffer", "--as", "copy"],
        &["keys", "export-keks", "--table", "a", "--output", "x"],
        &["keys", "passwd", "--new-passphrase-file", "small.csv"],
        &["keys", "forget", "a", "--yes"],
        &["adopt", "foreign"],
    ];
    for arguments in commands {
        let message = owner.fails(1, arguments);
        assert!(message.contains("audit log"), "{arguments:?}: {message}");
        assert!(state(&owner) == before, "{arguments:?} changed something");
        assert!(!owner.path("x").exists(), "{arguments:?}");
    }
    fs::remove_file(owner.path("config/keyring.coffer")).unwrap();
    let message = owner.fails(
        1,
        &[
            "keys",
            "recover",
            "shares/share-1.txt",
            "shares/share-2.txt",
        ],
    );
    assert!(message.contains("audit log"), "{message}");
    assert!(!owner.path("config/keyring.coffer").exists());
}

#[test]
fn who_stops_reading_is_no_error() {
    let owner = Owner::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = owner
        .command("config")
        .args(["audit", "show"])
        .stdout(writer)
        .ends();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
}
