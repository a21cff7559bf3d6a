//! Paths that name another storage: refused before anything is made, but for stores' URLs where a
//! command takes a table.

use crate::common::Owner;

#[test]
fn no_command_takes_a_url_for_a_folder() {
    let owner = Owner::new();
    owner.write("in.csv", "id\n7\n");
    owner.ok(&["encrypt", "--header", "in.csv", "table"]);
    let before = owner.files(".");
    for url in [
        "viewfs://c/t",
        "s3a://key:secret@b/t",
        "s3a:/b/t",
        "hdfs:///t",
        "C:\\t",
        "a:b",
        " s3a://b/t",
        "file://host/t",
        "//host/t",
        "file:t",
    ] {
        let commands: &[&[&str]] = &[
            &["encrypt", "--header", url, "new"],
            &["encrypt", "--header", "in.csv", url],
            &["encrypt", "--header", "--append", "in.csv", url],
            &["decrypt", url, "out"],
            &["decrypt", "table", url],
            &["decrypt", "--kek-file", url, "table", "out"],
            &["adopt", url],
            &["inspect", url],
            &["verify", url],
            &["verify", "--deep", "--clean", url],
            &["keys", "export-keks", "--table", "table", "--output", url],
            &["keys", "export", "--output", url],
            &["keys", "verify", url],
            &["policy", "advise", url, "in.csv"],
            &["policy", "advise", "in.csv", url],
            &["policy", "advise", "in.csv", &format!("named={url}")],
            &["--config-dir", url, "init"],
            &["sql", "-f", url],
        ];
        for command in commands {
            let message = owner.fails(2, command);
            let text = message.contains("scheme") || message.contains("host");
            assert!(text && message.contains("hint: "), "{command:?}: {message}");
        }
    }
    assert_eq!(owner.files("."), before);
}

#[test]
fn a_store_s_url_is_no_file() {
    let owner = Owner::new();
    owner.write("in.csv", "id\n7\n");
    owner.ok(&["encrypt", "--header", "in.csv", "table"]);
    let before = owner.files(".");
    let url = "s3a://b/t";
    let commands: &[&[&str]] = &[
        &["encrypt", "--header", url, "new"],
        &["decrypt", "table", url],
        &["decrypt", "--kek-file", "in.csv", url, "out"],
        &["decrypt", "--kek-file", url, "table", "out"],
        &["keys", "export", "--output", url],
        &["--config-dir", url, "init"],
    ];
    for command in commands {
        owner.fails(2, command);
    }
    assert_eq!(owner.files("."), before);
}

#[test]
fn a_file_url_is_the_path_in_it() {
    let owner = Owner::new();
    owner.write("in.csv", "id\n7\n");
    let url = |name: &str| format!("file://{}", owner.path(name).display());
    owner.ok(&["encrypt", "--header", &url("in.csv"), &url("table")]);
    owner.ok(&["verify", "--deep", &url("table")]);
    owner.ok(&["decrypt", "./table", &url("out.csv")]);
    assert!(owner.path("table").is_dir() && owner.path("out.csv").is_file());
    // A name with a colon is a path behind ./
    owner.ok(&["encrypt", "--header", "in.csv", "./a:b", "--table", "colon"]);
    owner.ok(&["verify", "./a:b"]);
    assert!(owner.path("a:b").is_dir());
}

#[test]
fn a_policy_names_places_that_can_be_served() {
    let owner = Owner::new();
    owner.draft("[tables.sales]\npath = \"s3a:b/sales\"");
    let message = owner.fails(4, &["policy", "sign", "--yes"]);
    assert!(
        message.contains("sales") && message.contains("s3a"),
        "{message}"
    );
    assert!(message.contains("hint: "), "{message}");
}
