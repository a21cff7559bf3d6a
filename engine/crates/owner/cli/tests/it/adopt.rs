//! `coffer adopt`, and the commands on tables that were adopted.

use std::fs;

use crate::common::{Owner, done};

/// Actions in the audit log.
fn actions(owner: &Owner) -> Vec<String> {
    let lines = owner.ok(&["audit", "show", "--json"]);
    let action = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["event"]["action"].as_str().unwrap().to_owned()
    };
    lines.lines().map(action).collect()
}

#[test]
fn a_table_that_the_policy_has_elsewhere_is_not_adopted() {
    let owner = Owner::new();
    owner.foreign("sales/a.parquet", 0..100);
    let policy = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    owner.policy(&format!(
        "[tables.sales]\npath = {:?}",
        owner.path("elsewhere")
    ));
    let message = owner.fails(4, &["adopt", "sales"]);
    assert!(message.contains("elsewhere"), "{message}");
    owner.fails(2, &["verify", "sales"]);
    // Spelled otherwise it is the same, and stays as the owner spelled it.
    owner.sign(&policy);
    std::os::unix::fs::symlink(owner.path("sales"), owner.path("link")).unwrap();
    let spelled = format!("path = {:?}", owner.path("link"));
    owner.policy(&format!("[tables.sales]\n{spelled}"));
    assert_eq!(owner.json(&["adopt", "sales"])["rows"], 100);
    owner.ok(&["verify", "--deep", "sales"]);
    assert!(
        fs::read_to_string(owner.path("config/policy.toml"))
            .unwrap()
            .contains(&spelled)
    );
}

#[test]
fn keks_are_exported_of_files_that_they_open() {
    let owner = Owner::new();
    owner.foreign("sales/part-00000.parquet", 0..100);
    owner.write("sales/_SUCCESS", "");
    owner.write("sales/.part-00000.parquet.crc", "");
    owner.ok(&["adopt", "sales"]);
    let export = ["keys", "export-keks", "--table", "sales"];
    let message = owner.fails(2, &export);
    assert!(message.contains("rewrap --data sales"), "{message}");
    assert!(!actions(&owner).contains(&"export keks".to_owned()));
    owner.write("more.csv", "id\n7\n");
    owner.ok(&[
        "encrypt",
        "--append",
        "--header",
        "--schema",
        "id BIGINT",
        "more.csv",
        "sales",
    ]);
    let output = owner.run(&export);
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    done(output, &export);
    assert!(
        message.contains("1 of its 2 files do not open"),
        "{message}"
    );
    owner.ok(&["keys", "rewrap", "--data", "sales"]);
    let output = owner.run(&export);
    assert!(
        !String::from_utf8(output.stderr)
            .unwrap()
            .contains("do not open")
    );
    // Of Spark's markers none is in the way, before cleaning and after it.
    owner.ok(&["verify", "sales"]);
    owner.ok(&["verify", "--clean", "sales"]);
    owner.ok(&["verify", "--deep", "sales"]);
    assert!(!owner.path("sales/_SUCCESS").exists());
}

#[test]
fn a_master_that_wrapped_for_files_is_destroyed_by_really_alone() {
    let owner = Owner::new();
    owner.foreign("sales/a.parquet", 0..100);
    owner.ok(&["keys", "create", "other"]);
    let message = owner.fails(1, &["keys", "destroy", "main", "--yes"]);
    assert!(
        message.contains("files that other programs wrote") && message.contains("--really main"),
        "{message}"
    );
    let output = owner.run(&["keys", "destroy", "main", "--yes", "--really", "main"]);
    assert!(
        String::from_utf8(output.stderr.clone())
            .unwrap()
            .contains("PyArrow")
    );
    done(output, &["keys", "destroy"]);
}
