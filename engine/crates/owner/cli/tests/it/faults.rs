//! `coffer` when it is killed, when two of it run at once, and when the disk is full: nothing is
//! lost, nothing plain stays, and the next run does the rest.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{Ends, Owner, done, failed};
use arrow::array::*;
use serde_json::Value;

/// Is in every row, and so in any file that is not sealed.
const PLANTED: &str = "planted-where-nobody-may-find-it";
const SEED: u64 = 20261122;

/// A table of 120,000 rows in twelve row groups, and what `decrypt` gives of it.
fn table(owner: &Owner, name: &str) -> String {
    if !owner.path("in.parquet").exists() {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..120_000));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..120_000).map(|row| format!("{PLANTED}-{row}")),
        ));
        let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap();
        owner.parquet("in.parquet", &batch, 10_000);
    }
    owner.ok(&["encrypt", "in.parquet", name]);
    rows(owner, name)
}

/// A table of a few rows.
fn small(owner: &Owner, name: &str) {
    owner.write("small.csv", "id\n1\n2\n");
    owner.ok(&["encrypt", "--header", "small.csv", name]);
}

fn rows(owner: &Owner, name: &str) -> String {
    owner.ok(&["decrypt", name, "-"])
}

fn quiet(mut command: Command) -> Child {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn coffer(owner: &Owner, arguments: &[&str]) -> Command {
    let mut command = owner.command("config");
    command.args(arguments);
    command
}

/// No file of the table and of the config directory has a plain row in it, nor is a Parquet file
/// with a footer that anybody reads.
fn nothing_plain(owner: &Owner, table: &str) {
    for (path, bytes) in owner.files(table).into_iter().chain(owner.files("config")) {
        let found = bytes
            .windows(PLANTED.len())
            .any(|part| part == PLANTED.as_bytes());
        assert!(!found && !bytes.ends_with(b"PAR1"), "{}", path.display());
    }
}

/// Files of the config directory that are none of its own.
fn strays(owner: &Owner) -> Vec<String> {
    let known = [
        "keyring.coffer",
        "register.coffer",
        "policy.toml",
        "policy.sig",
        "audit",
    ];
    let names = |folder: &str| {
        let entries = fs::read_dir(owner.path(folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
    };
    let folders = ["leases", "writes"];
    names("config")
        .filter(|name| {
            let name = name.as_str();
            !known.contains(&name) && !name.ends_with(".lock") && !folders.contains(&name)
        })
        // A journal is there for as long as its write can go on.
        .chain(names("config/writes"))
        .collect()
}

fn versions(owner: &Owner) -> Vec<Value> {
    let listed = owner.json(&["keys", "list"]);
    let tables = listed["tables"].as_array().unwrap().iter();
    tables
        .map(|table| table["master_version"].clone())
        .collect()
}

#[test]
fn killed_while_re_encrypting() {
    let owner = Owner::new();
    let before = table(&owner, "t");
    let again = ["keys", "rewrap", "--data", "t"];
    let started = Instant::now();
    owner.ok(&again);
    let whole = started.elapsed();
    let mut rng = fastrand::Rng::with_seed(SEED);
    let (mut old, mut new) = (0, 0);
    let version = || owner.json(&["inspect", "t"])["version"].as_u64().unwrap();
    let mut newest = version();
    for _ in 0..12 {
        let mut child = quiet(coffer(&owner, &again));
        std::thread::sleep(whole.mul_f64(1.1 * rng.f64()));
        let _ = child.kill();
        child.ends();
        nothing_plain(&owner, "t");
        // All of it, as it was or under the new key.
        assert!(rows(&owner, "t") == before, "rows are missing or others");
        let now = version();
        match now - newest {
            0 => old += 1,
            1 => new += 1,
            more => panic!("{more} versions more"),
        }
        newest = now;
    }
    assert!(old > 0, "none of {new} was interrupted");
    // Whoever begins again ends well, and what the dead ones left goes.
    owner.ok(&again);
    assert!(rows(&owner, "t") == before);
    owner.ok(&["verify", "--clean", "t"]);
    let verified = owner.json(&["verify", "--deep", "t"]);
    assert_eq!(
        (&verified["extra"], &verified["superseded"]),
        (&Value::Array(vec![]), &Value::Array(vec![]))
    );
    let data = owner
        .files("t")
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|kind| kind == "parquet"));
    assert_eq!(
        data.count() as u64,
        owner.json(&["inspect", "t"])["files"]
            .as_array()
            .unwrap()
            .len() as u64
    );
    // What a killed writer left in the config directory went with the next writing.
    assert_eq!(strays(&owner), Vec::<String>::new());
    nothing_plain(&owner, "t");
}

#[test]
fn two_re_encryptions_at_once() {
    let owner = Owner::new();
    let before = table(&owner, "t");
    let again = ["keys", "rewrap", "--data", "t"];
    let both = [quiet(coffer(&owner, &again)), quiet(coffer(&owner, &again))];
    let codes: Vec<_> = both
        .into_iter()
        .map(|child| child.ends().status.code().unwrap())
        .collect();
    // One was first. The other came too late, or began after it.
    assert!(
        codes.contains(&0) && codes.iter().all(|code| [0, 1].contains(code)),
        "{codes:?}"
    );
    let done = codes.iter().filter(|code| **code == 0).count() as u64;
    assert_eq!(owner.json(&["inspect", "t"])["version"], 1 + done);
    assert!(rows(&owner, "t") == before);
    owner.ok(&["verify", "--clean", "t"]);
    assert_eq!(
        owner.json(&["verify", "--deep", "t"])["extra"],
        Value::Array(vec![])
    );
    owner.ok(&["keys", "verify"]);
}

#[test]
fn two_programs_rotate_and_rewrap_at_once() {
    let owner = Owner::new();
    for name in ["a", "b", "c"] {
        small(&owner, name);
    }
    let both: Vec<_> = (0..2)
        .map(|_| {
            let script = "coffer keys rotate main && coffer keys rewrap --all && coffer keys \
                rotate main && coffer keys rewrap --all";
            let mut shell = Command::new("/bin/sh");
            shell
                .args(["-c", script])
                .env(
                    "PATH",
                    Path::new(env!("CARGO_BIN_EXE_coffer")).parent().unwrap(),
                )
                .env("COFFER_CONFIG_DIR", owner.path("config"))
                .env("COFFER_PASSPHRASE", "correct horse");
            quiet(shell)
        })
        .collect();
    for child in both {
        assert!(child.ends().status.success());
    }
    assert_eq!(owner.json(&["keys", "list"])["masters"][0]["version"], 5);
    owner.ok(&["keys", "verify"]);
    owner.ok(&["keys", "rewrap", "--all"]);
    assert_eq!(versions(&owner), ["5", "5", "5"]);
}

#[test]
fn two_rewraps_to_two_masters_at_once() {
    let owner = Owner::new();
    let names: Vec<String> = (0..6).map(|number| format!("t{number}")).collect();
    names.iter().for_each(|name| small(&owner, name));
    for master in ["one", "two"] {
        owner.ok(&["keys", "create", master]);
    }
    for _ in 0..4 {
        let rewrap = |to| quiet(coffer(&owner, &["keys", "rewrap", "--all", "--to", to]));
        for child in [rewrap("one"), rewrap("two")] {
            assert!(child.ends().status.success());
        }
        let masters = owner.json(&["keys", "list"]);
        let masters = masters["tables"]
            .as_array()
            .unwrap()
            .iter()
            .map(|table| &table["master"]);
        assert!(
            masters
                .into_iter()
                .all(|master| master == "one" || master == "two")
        );
        owner.ok(&["keys", "verify"]);
    }
    // The last word is the register's and the policy's alike.
    owner.ok(&["keys", "rewrap", "--all", "--to", "one"]);
    owner.ok(&["keys", "destroy", "two", "--yes"]);
    for name in &names {
        owner.ok(&["verify", "--deep", name]);
    }
}

#[test]
fn killed_while_rewrapping() {
    let owner = Owner::new();
    for name in ["a", "b", "c"] {
        small(&owner, name);
    }
    owner.ok(&["keys", "rotate", "main"]);
    // At any moment: nothing is lost, and the next run does the rest.
    for wait in [0, 30, 60, 90, 120, 150] {
        let mut child = quiet(coffer(&owner, &["keys", "rewrap", "--all", "--again"]));
        std::thread::sleep(Duration::from_millis(wait));
        let _ = child.kill();
        child.ends();
        owner.ok(&["keys", "verify"]);
    }
    owner.ok(&["keys", "rewrap", "--all"]);
    assert_eq!(versions(&owner), ["2", "2", "2"]);
}

/// Runs a command that can make no file of more than so many blocks of 512 bytes.
fn limited(owner: &Owner, blocks: u32, arguments: &[&str]) -> Output {
    let mut shell = Command::new("/bin/sh");
    shell
        .args([
            "-c",
            &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""),
        ])
        .arg(env!("CARGO_BIN_EXE_coffer"))
        .args(arguments)
        .current_dir(owner.folder.path())
        .env("COFFER_CONFIG_DIR", owner.path("config"))
        .env("COFFER_PASSPHRASE", "correct horse")
        .env("COFFER_EXPORT_PASSPHRASE", "battery staple")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    shell.ends()
}

/// Each command that writes, where no file can grow beyond a size: it says so, and all is as
/// before.
#[test]
fn files_that_cannot_be_written() {
    let owner = Owner::new();
    let before = table(&owner, "t");
    owner.ok(&["keys", "create", "other"]);
    let commands: &[(u32, &[&str])] = &[
        (0, &["keys", "create", "third"]),
        (0, &["keys", "rotate", "main"]),
        (0, &["keys", "disable", "main"]),
        (0, &["keys", "destroy", "other", "--yes"]),
        (0, &["keys", "export", "--output", "all.coffer"]),
        (
            0,
            &["keys", "export", "--shares", "2-of-3", "--output", "shares"],
        ),
        (0, &["keys", "rewrap", "t", "--to", "other"]),
        (0, &["keys", "rewrap", "--data", "t"]),
        (32, &["keys", "rewrap", "--data", "t"]),
        (64, &["keys", "rewrap", "--data", "t"]),
        (0, &["encrypt", "in.parquet", "u"]),
        (64, &["encrypt", "in.parquet", "u"]),
        (0, &["decrypt", "t", "out.parquet"]),
        (64, &["decrypt", "t", "out.parquet"]),
        (64, &["decrypt", "t", "out.csv"]),
    ];
    let config_dir = owner.files("config");
    for (blocks, arguments) in commands {
        let output = limited(&owner, *blocks, arguments);
        // Of the keyring's own file as of any other.
        let code = if output.status.code() == Some(3) {
            3
        } else {
            5
        };
        let message = failed(output, code, arguments);
        assert!(
            message.contains("File too large"),
            "{arguments:?}: {message}"
        );
        assert!(
            strays(&owner).is_empty(),
            "{arguments:?}: {:?}",
            strays(&owner)
        );
        for name in ["all.coffer", "out.parquet", "out.csv", "shares", "u"] {
            let there = owner.path(name).exists();
            assert!(!there, "{arguments:?} left {name}");
        }
        let keyring = |files: &[(std::path::PathBuf, Vec<u8>)]| {
            files
                .iter()
                .find(|(path, _)| path.ends_with("keyring.coffer"))
                .cloned()
        };
        assert!(
            keyring(&owner.files("config")) == keyring(&config_dir),
            "{arguments:?}"
        );
        assert!(rows(&owner, "t") == before, "{arguments:?}");
    }
    assert_eq!(owner.json(&["verify", "--deep", "t"])["sound"], true);
    nothing_plain(&owner, "t");
    // With space again all of it goes as if nothing had been.
    owner.ok(&["keys", "rotate", "main"]);
    owner.ok(&["keys", "rewrap", "--all"]);
    owner.ok(&["keys", "rewrap", "--data", "t", "--to", "other"]);
    owner.ok(&["encrypt", "in.parquet", "u"]);
    assert!(rows(&owner, "t") == before && rows(&owner, "u") == before);
    assert_eq!(
        owner.json(&["verify", "--clean", "t"])["extra"],
        Value::Array(vec![])
    );
}

/// The config directory and a table on a file system of five megabytes, in a mount namespace of the
/// test's own, which is filled to the last byte: each step must fail, and leave what was there.
/// Where the kernel lets nobody make such a namespace, only the test above holds.
#[test]
fn a_full_disk() {
    let may = Command::new("unshare").args(["-rm", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("COFFER_TEST_STRICT").is_none(),
            "no mount namespaces here, and COFFER_TEST_STRICT lets nothing be left out"
        );
        eprintln!("no mount namespaces here: not run");
        return;
    }
    let owner = Owner::new();
    let before = table(&owner, "t");
    fs::create_dir(owner.path("small")).unwrap();
    let script = r#"
        set -eu
        mount -t tmpfs -o size=5m tmpfs small
        export COFFER_CONFIG_DIR="$PWD/small/config"
        cp -r config small/config
        "$COFFER" encrypt in.parquet small/s 2>&1
        "$COFFER" keys create other 2>&1
        "$COFFER" decrypt s before.csv
        filled() {
            dd if=/dev/zero of=small/filler bs=1 count=1 2>/dev/null
            dd if=/dev/zero of=small/filler bs=4096 2>/dev/null || true
            [ "$1" = 0 ] || truncate -s -"$1" small/filler
            shift
            code=0
            "$COFFER" "$@" >out.txt 2>&1 || code=$?
            echo "$code $(tr '\n' ' ' < out.txt)"
            rm small/filler
            "$COFFER" decrypt s after.csv
            cmp before.csv after.csv
            rm after.csv
            "$COFFER" verify --clean s >/dev/null
        }
        echo begin
        filled 0 keys rotate main
        filled 0 keys create third
        filled 0 keys destroy other --yes
        filled 0 keys rewrap s --to other
        filled 0 keys export --output small/all.coffer
        filled 0 keys rewrap --data s
        filled 8K keys rewrap --data s
        filled 100K keys rewrap --data s
        filled 100K encrypt in.parquet small/new
        filled 100K decrypt s small/out.csv
        echo end
        ls -A small/config small
        "$COFFER" keys rewrap --data s --to other 2>/dev/null
        "$COFFER" decrypt s after.csv
        cmp before.csv after.csv
        cp before.csv "$KEEP"
    "#;
    let output = Command::new("unshare")
        .args(["-rm", "/bin/sh", "-c", script])
        .current_dir(owner.folder.path())
        .env("COFFER", env!("CARGO_BIN_EXE_coffer"))
        .env("KEEP", owner.path("kept.csv"))
        .env("COFFER_PASSPHRASE", "correct horse")
        .env("COFFER_EXPORT_PASSPHRASE", "battery staple")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .ends();
    let text = done(output, &["the script"]);
    let (_, steps) = text.split_once("begin\n").unwrap();
    let (steps, left) = steps.split_once("end\n").unwrap();
    assert_eq!(steps.lines().count(), 10, "{steps}");
    for step in steps.lines() {
        assert!(
            (step.starts_with("5 ") || step.starts_with("3 ")) && step.contains("No space left"),
            "{step}"
        );
    }
    for stray in [".tmp", ".coffer-", "all.coffer", "out.csv", "filler"] {
        assert!(!left.contains(stray), "{stray} is in {left}");
    }
    assert!(fs::read_to_string(owner.path("kept.csv")).unwrap() == before);
}
