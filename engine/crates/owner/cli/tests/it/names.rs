//! Which table a path means, on the command line: what its owner wrote, wherever links lead by now.

use std::{fs, os::unix::fs::symlink};

use crate::common::{Ends, Owner};

fn sealed(owner: &Owner, folder: &str, rows: &str) {
    owner.write("in.csv", &format!("id\n{rows}\n"));
    owner.ok(&["encrypt", "--header", "in.csv", folder]);
}

#[test]
fn a_link_that_a_host_made_is_another_table_s_for_no_command() {
    let owner = Owner::new();
    sealed(&owner, "ledger", "1");
    sealed(&owner, "ledger_v2", "2");
    fs::rename(owner.path("ledger_v2"), owner.path("away")).unwrap();
    symlink(owner.path("ledger"), owner.path("ledger_v2")).unwrap();
    let before = owner.files("ledger");
    for table in [
        "ledger_v2",
        "./ledger_v2",
        "ledger_v2/",
        "ledger/../ledger_v2",
    ] {
        for arguments in [
            &["decrypt", table, "-"][..],
            &["inspect", table],
            &["verify", table],
            &["verify", "--deep", table],
            &["verify", "--clean", table],
            &["keys", "export-keks", "--table", table],
            &["encrypt", "--header", "--append", "in.csv", table],
        ] {
            let message = owner.fails(1, arguments);
            assert!(
                message.contains("belongs to table"),
                "{arguments:?}: {message}"
            );
        }
    }
    let message = owner.fails(1, &["keys", "rewrap", "--data", "ledger_v2"]);
    assert!(message.contains("belongs to table"), "{message}");
    // The owner's word does not make one table of two.
    let message = owner.fails(2, &["verify", "ledger", "--record-path", "./ledger_v2"]);
    assert!(
        message.contains("is the path of the table `ledger_v2`"),
        "{message}"
    );
    assert!(owner.files("ledger") == before);
    assert_eq!(owner.ok(&["decrypt", "ledger", "-"]), "id\n1\n");
    // Without a passphrase nothing is verified, and it says so; with one it is.
    let mut bare = owner.command("config");
    let bare = bare
        .env_remove("COFFER_PASSPHRASE")
        .args(["inspect", "./ledger_v2"])
        .ends();
    assert!(String::from_utf8_lossy(&bare.stderr).contains("Nothing of this was verified"));
}

#[test]
fn what_the_owner_wrote_and_where_it_led_are_both_its_paths() {
    let owner = Owner::new();
    fs::create_dir_all(owner.path("disk/data")).unwrap();
    symlink(owner.path("disk/data"), owner.path("data")).unwrap();
    owner.write("in.csv", "id\n1\n");
    let made = owner.run(&["encrypt", "--header", "in.csv", "data/t"]);
    assert!(made.status.success());
    let message = String::from_utf8_lossy(&made.stderr);
    assert!(
        message.contains("note: ") && message.contains("disk/data/t; both mean this table"),
        "{message}"
    );
    owner.foreign("disk/data/f/one.parquet", 0..3);
    owner.ok(&["adopt", "data/f"]);
    for (path, rows) in [
        ("data/t", "id\n1\n"),
        ("disk/data/t", "id\n1\n"),
        ("data/f", "id\n0\n1\n2\n"),
        ("disk/data/f", "id\n0\n1\n2\n"),
    ] {
        assert_eq!(owner.ok(&["decrypt", path, "-"]), rows, "{path}");
    }
    // A link of later is not, until it is recorded.
    symlink(owner.path("disk/data/t"), owner.path("short")).unwrap();
    let message = owner.fails(1, &["decrypt", "./short", "-"]);
    assert!(
        message.contains("hint: ") && message.contains("coffer verify t --record-path"),
        "{message}"
    );
    owner.ok(&["verify", "t", "--record-path", "./short"]);
    assert_eq!(owner.ok(&["decrypt", "./short", "-"]), "id\n1\n");
    // Only where the table is.
    symlink(owner.path("disk/data/f"), owner.path("wrong")).unwrap();
    owner.fails(1, &["verify", "t", "--record-path", "./wrong"]);
    let message = owner.fails(1, &["decrypt", "./wrong", "-"]);
    assert!(
        message.contains("coffer verify f --record-path"),
        "{message}"
    );
}

#[test]
fn a_folder_here_decides_nothing_about_a_name() {
    let owner = Owner::new();
    sealed(&owner, "one", "1");
    fs::create_dir(owner.path("inner")).unwrap();
    owner.write("in.csv", "id\n2\n");
    // The table `two` lies in the folder `inner/one`.
    owner.ok(&[
        "encrypt",
        "--header",
        "--table",
        "two",
        "in.csv",
        "inner/one",
    ]);
    let inside = |arguments: &[&str]| {
        let mut command = owner.command("config");
        let output = command
            .current_dir(owner.path("inner"))
            .args(arguments)
            .ends();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (done, message) = inside(&["decrypt", "one", "-"]);
    assert!(
        !done && message.contains("./one for the folder"),
        "{message}"
    );
    assert_eq!(
        inside(&["decrypt", "./one", "-"]),
        (true, "id\n2\n".to_owned())
    );
    // With the folder gone the word is still no other table's name.
    fs::rename(owner.path("inner/one"), owner.path("inner/away")).unwrap();
    let (done, message) = inside(&["decrypt", "one", "-"]);
    assert!(
        !done && message.contains("./one for the folder"),
        "{message}"
    );
}
