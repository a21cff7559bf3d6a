//! `coffer keys`, as people and scripts meet it.

use std::{fs, path::Path, process::Output, sync::Arc};

use crate::common::{Ends, Owner, done};
use arrow::array::*;
use serde_json::Value;

/// A small table.
fn table(owner: &Owner, name: &str) {
    if !owner.path("in.parquet").exists() {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        owner.parquet("in.parquet", &batch, 1000);
    }
    owner.ok(&["encrypt", "in.parquet", name]);
}

#[test]
fn rotated_and_rewrapped_without_touching_a_file() {
    let owner = Owner::new();
    table(&owner, "a");
    table(&owner, "b");
    let files = owner.files("a");
    assert_eq!(owner.json(&["keys", "rotate", "main"])["version"], "2");
    let moved = owner.json(&["keys", "rewrap", "a"]);
    assert_eq!((&moved["moved"], &moved["current"]), (&1.into(), &0.into()));
    let moved = owner.json(&["keys", "rewrap", "--all"]);
    assert_eq!((&moved["moved"], &moved["current"]), (&1.into(), &1.into()));
    assert!(moved["per_second"].as_f64().unwrap() > 0.0);
    assert!(
        owner
            .ok(&["keys", "rewrap", "--all"])
            .starts_with("moved 0 keys")
    );
    assert_eq!(owner.files("a"), files);
    owner.ok(&["verify", "--deep", "a"]);

    // To another master: the policy follows, and the first one can go.
    owner.ok(&["keys", "create", "second"]);
    let message = owner.fails(1, &["keys", "destroy", "main", "--yes"]);
    assert!(
        message.contains("`a`, `b`") && message.contains("--really main"),
        "{message}"
    );
    owner.ok(&["keys", "rewrap", "a", "--to", "second"]);
    let policy = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    assert!(policy.contains("master = \"second\""), "{policy}");
    let message = owner.fails(1, &["keys", "destroy", "main", "--yes"]);
    assert!(
        message.contains("`b`") && !message.contains("`a`"),
        "{message}"
    );
    owner.ok(&["keys", "rewrap", "--all", "--to", "second"]);
    owner.fails(2, &["keys", "destroy", "main"]);
    owner.ok(&["keys", "destroy", "main", "--yes"]);
    let listed = owner.json(&["keys", "list"]);
    assert_eq!(listed["masters"][0]["state"], "destroyed");
    assert_eq!(listed["tables"][0]["master"], "second");
    owner.ok(&["verify", "--deep", "a"]);
    assert!(
        owner
            .fails(3, &["keys", "rotate", "main"])
            .contains("was destroyed")
    );
    owner.fails(2, &["keys", "rewrap", "none"]);
    owner.fails(2, &["keys", "rewrap", "link:none"]);
}

#[test]
fn disabled_until_enabled_and_verify_says_so() {
    let owner = Owner::new();
    table(&owner, "a");
    owner.ok(&["keys", "create", "second"]);
    table(&owner, "b");
    owner.ok(&["keys", "rewrap", "b", "--to", "second"]);
    assert_eq!(owner.json(&["keys", "verify"])["ok"], true);
    owner.ok(&["keys", "disable", "second"]);
    assert!(owner.fails(3, &["verify", "b"]).contains("is disabled"));
    let output = owner.run(&["keys", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("ok       a: ")
            && shown.contains("missing  b: ")
            && shown.contains("the master key \"second\" is disabled"),
        "{shown}"
    );
    owner.ok(&["keys", "verify", "a"]);
    assert_eq!(owner.run(&["keys", "verify", "b"]).status.code(), Some(1));
    owner.ok(&["keys", "enable", "second"]);
    owner.ok(&["keys", "verify"]);

    // A table of somebody else, and one whose manifest is gone.
    let stranger = Owner::new();
    table(&stranger, "theirs");
    let from = stranger.path("theirs/_coffer");
    fs::create_dir_all(owner.path("theirs/_coffer")).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(
            entry.path(),
            owner.path("theirs/_coffer").join(entry.file_name()),
        )
        .unwrap();
    }
    fs::remove_dir_all(owner.path("a/_coffer")).unwrap();
    let output = owner.run(&["keys", "verify", "."]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        shown.contains("theirs: it is not in this config directory's register"),
        "{shown}"
    );
    assert!(
        shown.contains("missing  a: ") && shown.contains("ok       b: "),
        "{shown}"
    );
}

#[test]
fn a_table_needs_its_master_and_really_gives_it_up() {
    let owner = Owner::new();
    table(&owner, "a");
    owner.fails(
        2,
        &["keys", "destroy", "main", "--yes", "--really", "other"],
    );
    owner.fails(2, &["keys", "destroy", "main", "--really", "main"]);
    let output = owner.run(&["keys", "destroy", "main", "--yes", "--really", "main"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("`a` can never be opened again"));
    owner.fails(3, &["verify", "a"]);
}

#[test]
fn data_is_re_encrypted_under_a_fresh_key() {
    let owner = Owner::new();
    table(&owner, "a");
    let keks = owner.ok(&["keys", "export-keks", "--table", "a"]);
    let before = owner.ok(&["decrypt", "a", "-"]);
    let report = owner.json(&["keys", "rewrap", "--data", "a"]);
    assert_eq!(
        (&report["version"], &report["rows"]),
        (&2.into(), &1000.into())
    );
    assert_eq!(owner.ok(&["decrypt", "a", "-"]), before);
    assert_ne!(owner.ok(&["keys", "export-keks", "--table", "a"]), keks);
    let verified = owner.json(&["verify", "--deep", "a"]);
    assert_eq!(verified["sound"], true);
    assert_eq!(verified["superseded"].as_array().unwrap().len(), 1);
    let verified = owner.json(&["verify", "--clean", "a"]);
    assert_eq!(verified["removed"].as_array().unwrap().len(), 1);
    // Again, and a version behind it.
    owner.ok(&["keys", "rewrap", "--data", "a"]);
    assert_eq!(owner.ok(&["decrypt", "a", "-"]), before);
    owner.fails(2, &["keys", "rewrap", "--data", "a", "b"]);
    let help = owner.ok(&["keys", "rewrap", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("After a compromise only this helps"),
        "{help}"
    );
}

#[test]
fn masters_travel_under_a_passphrase() {
    let owner = Owner::new();
    table(&owner, "a");
    owner.ok(&["keys", "export", "main", "--output", "main.coffer"]);
    owner.ok(&["keys", "destroy", "main", "--yes", "--really", "main"]);
    owner.fails(3, &["verify", "a"]);
    assert_eq!(
        owner.json(&["keys", "import", "main.coffer"])["masters"][0]["changed"],
        true
    );
    owner.ok(&["verify", "--deep", "a"]);
    assert!(
        owner
            .ok(&["keys", "import", "main.coffer", "--as", "copy"])
            .contains("copy imported")
    );
    let wrong = owner
        .command("config")
        .env("COFFER_EXPORT_PASSPHRASE", "no")
        .args(["keys", "import", "main.coffer"])
        .ends();
    assert_eq!(wrong.status.code(), Some(3));
    owner.fails(2, &["keys", "export", "--output", "main.coffer"]);

    // The whole keyring into a new config directory; with the register it has all tables.
    owner.ok(&["keys", "export", "--output", "all.coffer"]);
    let import = ["keys", "import", "all.coffer"];
    done(owner.command("home2").args(import).ends(), &import);
    for file in ["register.coffer", "policy.toml", "policy.sig"] {
        fs::copy(
            owner.path("config").join(file),
            owner.path("home2").join(file),
        )
        .unwrap();
    }
    let verify = ["verify", "--deep", "a"];
    done(owner.command("home2").args(verify).ends(), &verify);
}

#[test]
fn a_lost_config_dir_comes_back_from_three_of_five() {
    let owner = Owner::new();
    table(&owner, "a");
    let report = owner.json(&["keys", "export", "--shares", "3-of-5", "--output", "shares"]);
    assert_eq!(report["shares"].as_array().unwrap().len(), 5);
    owner.fails(
        2,
        &["keys", "export", "--shares", "3-of-5", "--output", "shares"],
    );
    assert_eq!(
        owner
            .run(&["keys", "export", "--shares", "6-of-5", "--output", "x"])
            .status
            .code(),
        Some(2)
    );
    let share = |number: u32| format!("shares/share-{number}.txt");
    assert!(
        owner
            .fails(3, &["keys", "recover", &share(1), &share(2), &share(3)])
            .contains("already")
    );

    let recover = |numbers: &[u32]| {
        let shares: Vec<String> = numbers.iter().map(|number| share(*number)).collect();
        let mut command = owner.command("found");
        command.args(["keys", "recover"]).args(shares).ends()
    };
    let message = |output: Output| {
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(message(recover(&[1, 4])).contains("2 shares are given, and 3 of the 5 are needed"));
    owner.ok(&["keys", "export", "--shares", "3-of-5", "--output", "other"]);
    fs::copy(
        owner.path("other/share-5.txt"),
        owner.path("shares/share-9.txt"),
    )
    .unwrap();
    assert!(message(recover(&[1, 4, 9])).contains("not of one set"));
    let text = fs::read_to_string(owner.path(&share(4))).unwrap();
    let slipped: String = text
        .lines()
        .map(|line| match line.strip_prefix("   3  ") {
            Some(rest) => format!(
                "   3  {}\n",
                rest.replacen(|c: char| c.is_ascii_alphanumeric(), "-", 1)
            ),
            None => format!("{line}\n"),
        })
        .collect();
    fs::write(owner.path("shares/share-8.txt"), slipped).unwrap();
    let slip = message(recover(&[1, 8, 2]));
    // A line's check has two bytes: one slip in 65,536 is found by the whole.
    assert!(
        slip.contains("line 3") || slip.contains("do not go together"),
        "{slip}"
    );

    done(recover(&[5, 1, 4]), &["recover"]);
    for file in ["register.coffer", "policy.toml", "policy.sig"] {
        fs::copy(
            owner.path("config").join(file),
            owner.path("found").join(file),
        )
        .unwrap();
    }
    let verify = ["keys", "verify"];
    done(owner.command("found").args(verify).ends(), &verify);
}

#[test]
fn a_zone_gives_its_tables_its_master_and_takes_nothing_plain() {
    let owner = Owner::new();
    owner.ok(&["keys", "create", "payroll"]);
    let zone = owner.path("data/pay");
    owner.policy(&format!(
        "[zones]\npay = {{ path = \"{}\", master = \"payroll\" }}\n\
         [tables.told]\nmaster = \"main\"",
        zone.display()
    ));
    table(&owner, "data/pay/staff");
    table(&owner, "elsewhere");
    let listed = owner.json(&["keys", "list"]);
    let masters: Vec<&Value> = listed["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| &table["master"])
        .collect();
    assert_eq!(masters, ["main", "payroll"]);
    let shown = owner.json(&["keys", "zones"]);
    assert_eq!(shown["zones"][0]["tables"][0]["name"], "staff");
    assert!(owner.ok(&["keys", "zones"]).contains("pay   payroll"));

    let message = owner.fails(4, &["decrypt", "elsewhere", "data/pay/plain"]);
    assert!(message.contains("where nothing plain is made"), "{message}");
    owner.fails(4, &["decrypt", "staff", "data/pay/staff.csv"]);
    owner.ok(&["decrypt", "staff", "data/staff.csv"]);
    let message = owner.fails(4, &["encrypt", "in.parquet", "data/pay/told"]);
    assert!(
        message.contains("its zone \"pay\" has \"payroll\""),
        "{message}"
    );
    owner.fails(4, &["keys", "rewrap", "staff", "--to", "main"]);
    assert!(!Path::new(&zone).join("told").exists());
}
