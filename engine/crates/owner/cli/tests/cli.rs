//! The program as people and scripts meet it: round trips, exit codes, words. `COFFER_REGENERATE=1`
//! rewrites the golden files and `docs/reference/cli.md`.

mod common;

use std::{fs, path::Path, sync::Arc};

use arrow::{array::*, datatypes::i256};
use common::{Ends, Owner};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A Parquet file of so many rows in small row groups.
fn rows(owner: &Owner, name: &str, rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter((0..rows).map(|row| {
            (row % 3 != 0).then(|| format!("v{}", row * 7919 % 1000))
        })));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("text", texts, true)])
            .unwrap();
    owner.parquet(name, &batch, 50_000);
    batch
}

fn read(path: &Path) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(path).unwrap()).unwrap();
    let schema = builder.schema().clone();
    let batches: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}

/// Compares with a golden file; the temporary folder's name is taken out.
fn golden(owner: &Owner, name: &str, text: &str) {
    let own = owner.folder.path().to_str().unwrap();
    let text = text.replace(own, "FOLDER");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("COFFER_REGENERATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text,
        want,
        "{} is stale: run with COFFER_REGENERATE=1 and look at the difference",
        path.display()
    );
}

#[test]
fn parquet_goes_round_in_order_with_many_threads() {
    let owner = Owner::new();
    let batch = rows(&owner, "in.parquet", 300_000);
    owner.ok(&["encrypt", "in.parquet", "sealed", "--threads", "3"]);
    let shown = owner.json(&["inspect", "sealed"]);
    assert_eq!(shown["rows"], 300_000);
    assert!(shown["files"].as_array().unwrap().len() > 1);
    assert_eq!(shown["columns"][1]["protection"], "tee");
    owner.ok(&["decrypt", "sealed", "out.parquet"]);
    assert_eq!(read(&owner.path("out.parquet")), batch);
    assert!(
        owner
            .ok(&["verify", "--deep", "sealed"])
            .starts_with("sound: `sealed`, version 1")
    );
    owner.ok(&["decrypt", "sealed", "plain"]);
    assert!(owner.path("plain/part-00000.parquet").is_file());
    assert!(
        owner
            .fails(2, &["decrypt", "sealed", "plain"])
            .contains("exists already")
    );
}

#[test]
fn csv_inferred_declared_and_refused() {
    let owner = Owner::new();
    owner.write(
        "a.csv",
        "i,l,d,day,t,s,b\n\
         1,3000000000,1.5,2020-02-29,2020-02-29 12:00:00,\"x, \"\"y\"\"\nz\",true\n,,,,,,\n",
    );
    let message = owner.fails(2, &["encrypt", "a.csv", "sealed"]);
    assert!(message.contains("--no-header"), "{message}");
    owner.ok(&["encrypt", "a.csv", "sealed", "--header"]);
    let shown = owner.json(&["inspect", "sealed"]);
    let types: Vec<_> = shown["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        types,
        [
            "int",
            "bigint",
            "double",
            "date",
            "timestamp_ntz",
            "string",
            "boolean"
        ]
    );
    assert_eq!(
        owner.ok(&["decrypt", "sealed", "-"]),
        "i,l,d,day,t,s,b\n\
         1,3000000000,1.5,2020-02-29,2020-02-29T12:00:00,\"x, \"\"y\"\"\nz\",true\n,,,,,,\n"
    );

    owner.write("b.csv", "1|12.5|NIL\n2|-0.25|\n");
    let given = [
        "--no-header",
        "--delimiter",
        "|",
        "--null-value",
        "NIL",
        "--schema",
        "a INT, b DECIMAL(12,2), c STRING",
    ];
    owner.ok(&[&["encrypt", "b.csv", "given"][..], &given].concat());
    // As text both are empty; as Parquet, NULL and the empty string differ.
    assert_eq!(
        owner.ok(&["decrypt", "given", "-"]),
        "a,b,c\n1,12.50,\n2,-0.25,\n"
    );
    owner.ok(&["decrypt", "given", "given.parquet"]);
    let texts = read(&owner.path("given.parquet"))
        .column(2)
        .as_string::<i32>()
        .iter()
        .map(|t| t.map(str::to_owned))
        .collect::<Vec<_>>();
    assert_eq!(texts, [None, Some(String::new())]);

    owner.write("c.csv", "a\n1\nx\n");
    let message = owner.fails(
        1,
        &["encrypt", "c.csv", "bad", "--header", "--schema", "a INT"],
    );
    golden(&owner, "csv_value.txt", &message);
    assert!(
        !owner.path("bad").exists(),
        "what was begun is cleared away"
    );
    assert!(
        owner
            .fails(
                2,
                &[
                    "encrypt",
                    "c.csv",
                    "bad",
                    "--header",
                    "--schema",
                    "a ARRAY<INT>"
                ]
            )
            .contains("--schema")
    );
}

#[test]
fn sources_that_cannot_be_held_are_refused_by_name() {
    let owner = Owner::new();
    let numbers: ArrayRef = Arc::new(Decimal256Array::from(vec![i256::ONE]));
    let batch = RecordBatch::try_from_iter([("numbers", numbers)]).unwrap();
    owner.parquet("n.parquet", &batch, 1);
    golden(
        &owner,
        "type_unfit.txt",
        &owner.fails(1, &["encrypt", "n.parquet", "sealed"]),
    );
    rows(&owner, "in.parquet", 10);
    let policy = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    let columns = |text: &str| owner.sign(&format!("{policy}\n[tables.sealed.columns]\n{text}\n"));
    columns("salery = \"tee\"");
    golden(
        &owner,
        "unknown_column.txt",
        &owner.fails(4, &["encrypt", "in.parquet", "sealed"]),
    );
    columns("text = \"ashe\"");
    golden(
        &owner,
        "protection_unfit.txt",
        &owner.fails(4, &["encrypt", "in.parquet", "sealed"]),
    );
    columns("id = { protection = \"ope\", domain = [0, 8] }");
    golden(
        &owner,
        "value_outside.txt",
        &owner.fails(1, &["encrypt", "in.parquet", "sealed"]),
    );
    assert!(!owner.path("sealed").exists());
}

#[test]
fn columns_of_several_protections_go_round() {
    let owner = Owner::new();
    let policy = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    let columns = "[tables.sealed.columns]\n\
        id = { protection = [\"ope\", \"ashe\"], domain = [0, 1000000], rows = 1e9 }\n\
        text = { protection = [\"tee\", \"det\"], link = \"words\" }\n";
    owner.sign(&format!("{policy}\n{columns}"));
    let batch = rows(&owner, "in.parquet", 120_000);
    owner.ok(&["encrypt", "in.parquet", "sealed", "--threads", "2"]);
    let shown = owner.json(&["inspect", "sealed"]);
    assert_eq!(shown["columns"][0]["protection"], "ope+ashe");
    assert_eq!(shown["columns"][0]["kek_id"], serde_json::Value::Null);
    let encodings: Vec<&str> = shown["stored"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stored| stored["form"].as_str().unwrap())
        .collect();
    assert_eq!(encodings, ["ope", "ashe", "tee", "det", "file", "row"]);
    let text = owner.ok(&["inspect", "sealed"]);
    assert!(
        text.contains("in the files  of column  as    type"),
        "{text}"
    );
    // The link's id is in the policy now, and in the manifest.
    let policy = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    let link = shown["stored"][3]["link"].as_str().unwrap();
    assert!(
        policy.contains(&format!("[links.words]\nid = \"{link}\"")),
        "{policy}"
    );
    let listed = owner.ok(&["keys", "list"]);
    let message = listed.lines().find(|line| line.contains(link)).unwrap();
    assert_eq!(
        message.split_whitespace().collect::<Vec<_>>(),
        ["words", "main", "1", link]
    );
    assert_eq!(owner.json(&["keys", "list"])["links"][0]["name"], "words");
    owner.ok(&["decrypt", "sealed", "out.parquet"]);
    assert_eq!(read(&owner.path("out.parquet")), batch);
    assert!(
        owner
            .ok(&["verify", "--deep", "sealed"])
            .starts_with("sound: `sealed`")
    );
    let keks = serde_json::from_str::<serde_json::Value>(&owner.ok(&[
        "keys",
        "export-keks",
        "--table",
        "sealed",
    ]))
    .unwrap();
    assert_eq!(keks["keks"].as_object().unwrap().len(), 2);
    // Another table of the link, later.
    let columns = "[tables.other.columns]\ntext = { protection = \"det\", link = \"words\" }\n";
    owner.sign(&format!("{policy}\n{columns}"));
    owner.ok(&["encrypt", "in.parquet", "other", "--shuffle-rows"]);
    let other = owner.json(&["inspect", "other"]);
    assert_eq!(other["stored"][1]["link"], link);
}

#[test]
fn rows_are_appended_to_any_protections() {
    let owner = Owner::new();
    let policy = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    let columns = "[tables.sealed.columns]\n\
        id = { protection = [\"ope\", \"ashe\", \"std\"], domain = [0, 1000000], rows = 3000 }\n\
        text = { protection = \"det\", link = \"words\" }\n";
    owner.sign(&format!("{policy}\n{columns}"));
    let batch = rows(&owner, "in.parquet", 1000);
    owner.ok(&["encrypt", "in.parquet", "sealed"]);
    let before = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    let text = owner.json(&["encrypt", "in.parquet", "sealed", "--append"]);
    assert_eq!(
        (text["version"].as_u64(), text["rows"].as_u64()),
        (Some(2), Some(2000))
    );
    owner.ok(&["encrypt", "in.parquet", "./sealed", "--append"]);
    assert_eq!(
        fs::read_to_string(owner.path("config/policy.toml")).unwrap(),
        before
    );
    owner.ok(&["decrypt", "sealed", "out.parquet"]);
    let thrice = arrow::compute::concat_batches(&batch.schema(), [&batch, &batch, &batch]).unwrap();
    assert_eq!(read(&owner.path("out.parquet")), thrice);
    assert!(
        owner
            .ok(&["verify", "--deep", "sealed"])
            .starts_with("sound: `sealed`")
    );

    // More rows than the policy lets ashe add up, other columns, no table; the version stays.
    let message = owner.fails(2, &["encrypt", "in.parquet", "sealed", "--append"]);
    assert!(
        message.contains("would have 4000 rows, and was made for 3000"),
        "{message}"
    );
    owner.write("other.csv", "id,words\n1,x\n");
    let message = owner.fails(
        2,
        &["encrypt", "other.csv", "sealed", "--append", "--header"],
    );
    assert!(
        message.contains("`sealed` has other columns: id bigint")
            && message.contains("hint: the source has id "),
        "{message}"
    );
    owner.fails(2, &["encrypt", "in.parquet", "nowhere", "--append"]);
    assert_eq!(owner.json(&["inspect", "sealed"])["version"], 3);
}

#[test]
fn failures_say_what_and_what_to_do() {
    let owner = Owner::new();
    rows(&owner, "in.parquet", 1000);
    owner.ok(&["encrypt", "in.parquet", "sealed"]);
    let wrong = owner
        .command("config")
        .env("COFFER_PASSPHRASE", "wrong")
        .args(["verify", "sealed"])
        .ends();
    assert_eq!(wrong.status.code(), Some(3));
    golden(
        &owner,
        "wrong_passphrase.txt",
        &String::from_utf8(wrong.stderr).unwrap(),
    );
    let none = owner
        .command("config")
        .env_remove("COFFER_PASSPHRASE")
        .args(["verify", "sealed"])
        .ends();
    assert_eq!(none.status.code(), Some(3));
    golden(
        &owner,
        "no_passphrase.txt",
        &String::from_utf8(none.stderr).unwrap(),
    );
    golden(
        &owner,
        "unknown_table.txt",
        &owner.fails(2, &["verify", "nowhere"]),
    );
    golden(
        &owner,
        "name_taken.txt",
        &owner.fails(2, &["encrypt", "in.parquet", "other", "--table", "sealed"]),
    );
    let stranger = Owner::new();
    let message = stranger.fails(3, &["verify", owner.path("sealed").to_str().unwrap()]);
    assert!(
        message.contains("not in this config directory's register") && message.contains("hint: "),
        "{message}"
    );
    golden(&owner, "init_again.txt", &owner.fails(3, &["init"]));
    assert_eq!(owner.run(&["encrypt"]).status.code(), Some(2));

    let part = fs::read_dir(owner.path("sealed"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.is_file())
        .unwrap();
    let mut bytes = fs::read(&part).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::write(&part, bytes).unwrap();
    let output = owner.run(&["verify", "sealed"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("SHA-256")
    );
    owner.fails(1, &["decrypt", "sealed", "out.parquet"]);
    assert!(!owner.path("out.parquet").exists());
}

#[test]
fn without_a_key_only_what_needs_none() {
    let owner = Owner::new();
    rows(&owner, "in.parquet", 1000);
    owner.ok(&["encrypt", "in.parquet", "sealed"]);
    let output = owner
        .command("config")
        .env_remove("COFFER_PASSPHRASE")
        .args(["inspect", "--json", "sealed"])
        .ends();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&shown["verified"], &shown["version"], &shown["master"]),
        (&false.into(), &1.into(), &"main".into())
    );
    assert!(shown.get("columns").is_none() && shown.get("rows").is_none());
}

#[test]
fn killed_while_encrypting() {
    let owner = Owner::new();
    rows(&owner, "in.parquet", 3_000_000);
    let mut child = owner
        .command("config")
        .args(["encrypt", "in.parquet", "sealed", "--threads", "1"])
        .spawn()
        .unwrap();
    // Until the first file appears; if it is over by then, there is nothing to interrupt and the
    // test says so below.
    let begun = || fs::read_dir(owner.path("sealed")).is_ok_and(|mut files| files.next().is_some());
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    assert!(
        !child.ends().status.success(),
        "it was over before it could be interrupted"
    );
    let message = owner.fails(1, &["decrypt", "sealed", "out.parquet"]);
    assert!(message.contains("never finished"), "{message}");
    owner.fails(1, &["verify", "sealed"]);
    owner.ok(&["verify", "--clean", "sealed"]);
    assert!(!owner.path("sealed").exists());
    owner.ok(&["encrypt", "in.parquet", "sealed"]);
}

#[test]
fn keys_exported_passphrase_changed_tables_forgotten() {
    let owner = Owner::new();
    let batch = rows(&owner, "in.parquet", 1000);
    owner.ok(&["encrypt", "in.parquet", "sealed"]);
    owner.ok(&[
        "keys",
        "export-keks",
        "--table",
        "sealed",
        "--output",
        "keks.json",
    ]);
    let part = fs::read_dir(owner.path("sealed"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.is_file())
        .unwrap();
    owner.ok(&[
        "decrypt",
        part.to_str().unwrap(),
        "one.parquet",
        "--kek-file",
        "keks.json",
    ]);
    assert_eq!(read(&owner.path("one.parquet")).columns(), batch.columns());
    owner.ok(&[
        "keys",
        "export-keks",
        "--table",
        "sealed",
        "--columns",
        "id",
        "--output",
        "one.json",
    ]);
    let message = owner.fails(
        3,
        &[
            "decrypt",
            part.to_str().unwrap(),
            "two.parquet",
            "--kek-file",
            "one.json",
        ],
    );
    assert!(message.contains("`text`"), "{message}");

    owner.ok(&["keys", "create", "second"]);
    let listed = owner.json(&["keys", "list"]);
    assert_eq!(listed["masters"].as_array().unwrap().len(), 2);
    assert_eq!(listed["tables"][0]["version"], 1);
    owner.write("new", "battery staple\n");
    owner.ok(&["keys", "passwd", "--new-passphrase-file", "new"]);
    owner.fails(3, &["verify", "sealed"]);
    owner.ok(&["--passphrase-file", "new", "verify", "sealed"]);
    assert!(
        owner
            .fails(2, &["--passphrase-file", "new", "keys", "forget", "sealed"])
            .contains("--yes")
    );
    owner.ok(&[
        "--passphrase-file",
        "new",
        "keys",
        "forget",
        "sealed",
        "--yes",
    ]);
    owner.fails(3, &["--passphrase-file", "new", "verify", "./sealed"]);
}

/// Between these lines docs/reference/schemes.md has the table of the protections, and beside it
/// what no table stores.
const TABLE: [&str; 2] = [
    "<!-- coffer reference --protections -->\n",
    "<!-- end -->\n",
];

#[test]
fn the_table_of_protections_is_fresh() {
    let owner = Owner::new();
    let text = owner.ok(&["reference", "--protections"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../docs/reference/schemes.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(TABLE[0]).unwrap();
    let (found, after) = rest.split_once(TABLE[1]).unwrap();
    if std::env::var_os("COFFER_REGENERATE").is_some() {
        fs::write(&path, [before, TABLE[0], &text, TABLE[1], after].concat()).unwrap();
        return;
    }
    assert_eq!(found, text, "stale: run with COFFER_REGENERATE=1");
}

/// The Scala tests have it from there: no client engine tells them.
#[test]
fn the_printed_table_of_protections_is_fresh() {
    is_fresh(
        &["reference", "--protections", "--json"],
        "spark/src/test/resources/protections.json",
    );
}

#[test]
fn reference_is_fresh() {
    is_fresh(&["reference"], "docs/reference/cli.md");
}

/// A file of the source tree is what the command prints.
fn is_fresh(command: &[&str], file: &str) {
    let text = Owner::new().ok(command);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../..")
        .join(file);
    if std::env::var_os("COFFER_REGENERATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        text,
        "stale: run with COFFER_REGENERATE=1"
    );
}
