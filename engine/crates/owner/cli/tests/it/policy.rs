//! `coffer policy check` as people and scripts meet it: words, exit codes, JSON.
//! `COFFER_REGENERATE=1` rewrites the golden files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::common::{Ends, Owner};
use arrow::array::*;

struct Checked {
    owner: Owner,
}

impl Checked {
    /// With these tables in the policy, beside what a new config directory has.
    fn new(tables: &str) -> Self {
        let owner = Owner::new();
        owner.policy(tables);
        Self { owner }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.owner.path(name)
    }

    fn policy(&self, more: &str) {
        self.owner.policy(more);
    }

    /// stdout and stderr of a command that must end so, the folder's name taken out.
    fn run(&self, code: i32, unlocked: bool, arguments: &[&str]) -> (String, String) {
        let mut command = self.owner.command("config");
        if !unlocked {
            command.env_remove("COFFER_PASSPHRASE");
        }
        let output = command.args(arguments).ends();
        let own = self.owner.folder.path().to_str().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap().replace(own, "FOLDER");
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {out}{err}"
        );
        (out, err)
    }

    fn check(&self, code: i32, unlocked: bool, arguments: &[&str]) -> (String, String) {
        self.run(code, unlocked, &[&["policy", "check"], arguments].concat())
    }

    /// The ids and places of the warnings, sorted.
    fn warnings(&self, code: i32, unlocked: bool, arguments: &[&str]) -> Vec<(String, String)> {
        let (out, _) = self.check(code, unlocked, &[&["--json"], arguments].concat());
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let mut warnings: Vec<_> = (report["warnings"].as_array().unwrap().iter())
            .map(|warning| (text(&warning["id"]), text(&warning["place"])))
            .collect();
        warnings.sort();
        warnings
    }

    /// A thousand employees: ages 20 to 69, three categories, rows in the order of their salaries.
    fn employees(&self) {
        let rows = 1000;
        let columns: [(&str, ArrayRef, bool); 5] = [
            (
                "id",
                Arc::new(Int64Array::from_iter_values(0..rows).slice(0, 1000)),
                false,
            ),
            (
                "salary",
                Arc::new(Int64Array::from_iter_values(
                    (0..rows).map(|row| 30_000 + row * 17),
                )),
                false,
            ),
            (
                "age",
                Arc::new(Int32Array::from_iter_values(
                    (0..1000).map(|row| 20 + row * 7919 % 50),
                )),
                false,
            ),
            (
                "category",
                Arc::new(StringArray::from_iter((0..rows).map(|row| {
                    (row % 100 != 0)
                        .then(|| ["engineering", "law", "sales"][(row * 7919 % 1009 % 3) as usize])
                }))),
                true,
            ),
            (
                "bonus",
                Arc::new(Int32Array::from_iter_values(
                    (0..1000).map(|row| row * 7919 % 997),
                )),
                false,
            ),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        self.owner.parquet("employees.parquet", &batch, 1000);
    }
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/policy")
        .join(name);
    if std::env::var_os("COFFER_REGENERATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    assert_eq!(
        text,
        fs::read_to_string(&path).unwrap_or_default(),
        "{} is stale: run with COFFER_REGENERATE=1 and look at the difference",
        path.display()
    );
}

fn pair(id: &str, position: &str) -> (String, String) {
    (id.to_owned(), position.to_owned())
}

const EMPLOYEES: &str = "\
[tables.employees.columns]
id = \"tee\"
salary = \"tee\"
age = { protection = [\"ope\", \"det\"], domain = [18, 70] }
category = { protection = \"det\", link = \"category\" }
bonus = { protection = \"ashe\", domain = [0, 1000], rows = 1e6 }
[tables.budgets.columns]
category = { protection = [\"det\", \"ope\"], link = \"category\", prefix = 4 }
weight = \"ore\"
";

#[test]
fn a_policy_alone() {
    let owner = Checked::new("");
    let (out, err) = owner.check(0, false, &[]);
    golden("none.txt", &format!("{out}{err}"));
    owner.policy(EMPLOYEES);
    let (out, err) = owner.check(6, false, &[]);
    golden("alone.txt", &format!("{out}{err}"));
    // One table of it; the other one still counts for links.
    let found = owner.warnings(6, false, &["employees"]);
    assert_eq!(
        found,
        [
            pair("few-values", "employees.age"),
            pair("link-spreads", "employees.category")
        ]
    );
    owner.check(
        0,
        false,
        &["employees", "--accept", "few-values,link-spreads"],
    );
}

#[test]
fn a_sealed_table_says_more() {
    let owner = Checked::new(EMPLOYEES);
    owner.employees();
    owner.run(0, true, &["encrypt", "employees.parquet", "employees"]);
    let (out, err) = owner.check(6, true, &["employees"]);
    golden("sealed.txt", &format!("{out}{err}"));
    let found = owner.warnings(6, true, &["employees"]);
    assert_eq!(
        found,
        [
            pair("dense-order", "employees.age"),
            pair("few-values", "employees.age"),
            pair("few-values", "employees.category"),
            pair("link-spreads", "employees.category"),
            pair("row-order", "employees.id"),
            pair("row-order", "employees.salary"),
        ]
    );
    let (out, _) = owner.check(6, true, &["--json", "employees"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["tables"][0]["sealed"]["rows_read"], 1000);
    let age = &report["tables"][0]["columns"][2];
    assert_eq!(
        (&age["distinct"], &age["domain_size"]),
        (&50.into(), &"53".into())
    );
    assert_eq!(age["opened_by"], "client only");
    assert_eq!(
        report["tables"][0]["columns"][3]["linked"][0],
        "budgets.category"
    );
    // Mixed rows tell nothing of the order.
    owner.run(
        0,
        true,
        &["encrypt", "employees.parquet", "mixed", "--shuffle-rows"],
    );
    owner.policy("[tables.plain]\n");
    assert_eq!(owner.warnings(0, true, &["mixed", "plain"]), []);
    // Without the passphrase it is the policy that speaks.
    let (out, _) = owner.check(6, false, &["employees"]);
    assert!(out.contains("the keyring was not opened"), "{out}");
    // A later change of the policy does not undo what was written.
    let path = owner.path("config/policy.toml");
    let policy = fs::read_to_string(&path).unwrap();
    let changed = policy.replace(
        "category = { protection = \"det\", link = \"category\" }",
        "category = \"tee\"",
    );
    assert_ne!(policy, changed);
    fs::write(&path, changed).unwrap();
    let found = owner.warnings(6, true, &["employees"]);
    assert!(
        found.contains(&pair("policy-changed", "employees.category")),
        "{found:?}"
    );
    assert!(
        found.contains(&pair("few-values", "employees.category")),
        "{found:?}"
    );
    fs::remove_dir_all(owner.path("employees")).unwrap();
    let (out, _) = owner.check(6, true, &["employees"]);
    assert!(out.contains("its folder cannot be read from here"), "{out}");
}

#[test]
fn a_role_with_a_part_of_a_link_has_more_than_it_says() {
    let owner = Checked::new(
        "\
[tables.a.columns]
id = { protection = \"det\", link = \"id\" }
[tables.b.columns]
id = { protection = [\"tee\", \"det\"], link = \"id\" }
rank = { protection = \"ope\", domain = [0, 9], link = \"id\" }
[tables.c.columns]
other = \"tee\"
[roles.all]
tables = \"*\"
[roles.one]
tables.a = [\"id\"]
[roles.both]
tables = { a = \"*\", b = [\"id\"] }
[roles.rank]
tables.b = [\"rank\"]
[roles.none]
tables.c = \"*\"
",
    );
    let (out, _) = owner.check(6, false, &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let found: Vec<_> = (report["warnings"].as_array().unwrap().iter())
        .filter(|warning| warning["id"] == "link-rights")
        .collect();
    // Under no scheme that both have, `rank` has a key of its own.
    let [warning] = found.as_slice() else {
        panic!("{found:#?}");
    };
    assert_eq!(warning["place"], "roles.one");
    assert_eq!(
        warning["details"],
        serde_json::json!({ "role": "one", "link": "id", "columns": ["a.id"], "opens": ["b.id"] })
    );
    let (out, _) = owner.check(6, false, &["a"]);
    let text = "    roles.one: of the link \"id\" it may read a.id, which opens b.id too\n";
    assert!(
        out.contains("warning link-rights\n") && out.contains(text),
        "{out}"
    );
    let of_c = owner.warnings(0, false, &["c"]);
    assert_eq!(of_c, []);
}

#[test]
fn what_is_known_to_break() {
    let owner = Checked::new(
        "\
[tables.customer.columns]
c_custkey = \"det\"
c_name = { protection = \"ope\", prefix = 6 }
c_balance = { protection = [\"tee\", \"ashe\"], domain = [\"0.00\", \"1000000000.00\"], rows = 1e9 }
c_nation = { protection = [\"tee\", \"det\"], link = \"nation\" }
[tables.nation.columns]
n_region = { protection = \"ope\", domain = [0, 99999], link = \"region\" }
n_nation = { protection = [\"tee\", \"ore\"], link = \"nation\", domain = [0, 99999] }
n_key = [\"tee\", \"det\"]
[tables.orders.columns]
o_custkey = [\"tee\", \"det\"]
o_total = \"ashe\"
o_region = { protection = \"ope\", domain = [0, 9999], link = \"region\" }
nation_key = [\"tee\", \"det\"]
",
    );
    let found = owner.warnings(6, false, &[]);
    assert_eq!(
        found,
        [
            pair("ashe-rows", "customer.c_balance"),
            pair("ashe-rows", "orders.o_total"),
            pair("link-alone", "customer.c_nation"),
            pair("link-alone", "nation.n_nation"),
            pair("link-unlike", "orders.o_region"),
            pair("not-openable", "customer.c_name"),
            pair("unlinked-join", "customer.c_custkey, orders.o_custkey"),
        ]
    );
    let path = owner.path("config/policy.toml");
    let policy = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        policy.replace("host_results = \"refuse\"", "host_results = \"accept\""),
    )
    .unwrap();
    let found = owner.warnings(
        6,
        false,
        &["orders", "--accept", "ashe-rows,link-unlike,unlinked-join"],
    );
    assert_eq!(found, [pair("host-results", "")]);
}

#[test]
fn failures_have_codes_of_their_own() {
    let owner = Checked::new(EMPLOYEES);
    let (_, err) = owner.check(4, false, &["salaries"]);
    assert!(err.starts_with("error: "), "{err}");
    let (_, err) = owner.check(2, false, &["--accept", "rain"]);
    golden("no_such_warning.txt", &err);
    owner.employees();
    owner.run(0, true, &["encrypt", "employees.parquet", "employees"]);
    let (_, err) = owner.check(3, false, &["--unlock"]);
    assert!(err.contains("COFFER_PASSPHRASE"), "{err}");
    // A table that was tampered with is not described.
    let is_part = |path: &PathBuf| path.is_file();
    let part = (fs::read_dir(owner.path("employees")).unwrap())
        .map(|entry| entry.unwrap().path())
        .find(is_part)
        .unwrap();
    let mut bytes = fs::read(&part).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::write(&part, bytes).unwrap();
    owner.check(1, true, &["employees"]);
    owner.owner.draft("[tables.more.columns]\na = \"rot13\"\n");
    owner.check(4, false, &[]);
}

#[test]
fn nothing_uses_a_policy_before_it_is_signed() {
    let owner = Owner::new();
    let out = owner.ok(&["policy", "sign"]);
    assert!(out.contains("signed as it is"), "{out}");
    let before = fs::read_to_string(owner.path("config/policy.toml")).unwrap();
    assert_eq!(owner.ok(&["policy", "show"]), before);
    owner.draft("[users.eve]");
    for arguments in [
        &["policy", "show"][..],
        &["keys", "list"],
        &["kms"],
        &["inspect", "t"],
        &["verify", "t"],
    ] {
        let message = owner.fails(4, arguments);
        assert!(
            message.contains("+ [users.eve]") && message.contains("hint: "),
            "{arguments:?}: {message}"
        );
    }
    // Nobody is there to be asked.
    let message = owner.fails(2, &["policy", "sign"]);
    assert!(
        message.contains("+ [users.eve]") && message.contains("--yes"),
        "{message}"
    );
    owner.fails(4, &["policy", "show"]);
    let text = owner.ok(&["policy", "sign", "--yes"]);
    assert!(text.contains("version 2"), "{text}");
    assert!(owner.ok(&["policy", "show"]).contains("[users.eve]"));
    // From a file, and only what is a policy.
    owner.write("next.toml", &before);
    owner.ok(&["policy", "sign", "--yes", "--from", "next.toml"]);
    assert_eq!(owner.ok(&["policy", "show"]), before);
    owner.write("next.toml", "suprise = 1\n");
    owner.fails(4, &["policy", "sign", "--yes", "--from", "next.toml"]);
    let signings: Vec<_> = (owner.ok(&["audit", "show", "--json"]).lines())
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|record| record["event"]["action"] == "policy sign")
        .collect();
    assert_eq!(signings.len(), 2);
    assert!(
        signings
            .iter()
            .all(|record| record["event"]["policy"].as_str().unwrap().len() == 64)
    );
    assert_ne!(
        signings[0]["event"]["policy"],
        signings[1]["event"]["policy"]
    );
    owner.ok(&["audit", "verify"]);
}

#[test]
fn a_config_dir_from_before_is_signed_once() {
    let owner = Owner::new();
    fs::remove_file(owner.path("config/policy.sig")).unwrap();
    fs::remove_file(owner.path("config/register.coffer")).unwrap();
    let message = owner.fails(4, &["keys", "list"]);
    assert!(
        message.contains("never signed") && message.contains("coffer policy sign"),
        "{message}"
    );
    owner.ok(&["policy", "sign", "--yes"]);
    owner.ok(&["keys", "list"]);
}

#[test]
fn two_releases_are_compared() {
    let owner = Owner::new();
    let release = |version: &str, measurement: &str| {
        format!(
            r#"{{"format": 1, "version": "{version}", "source": {{"commit": "a", "tree": "b"}},
            "toolchain": {{}}, "files": {{}}, "programs": {{}},
            "measurements": {{"sev-snp": {{"measurement": "{measurement}"}}}}}}"#
        )
    };
    fs::create_dir(owner.path("old")).unwrap();
    owner.write("old/release.json", &release("0.1.0", "aaaa"));
    owner.write("new.json", &release("0.2.0", "bbbb"));
    let said = owner.ok(&["policy", "compare", "old", "new.json"]);
    assert!(
        said.contains("measurements\n  sev-snp.measurement\n    - aaaa\n    + bbbb\n"),
        "{said}"
    );
    assert!(
        said.contains("source\n  version\n    - 0.1.0\n    + 0.2.0\n"),
        "{said}"
    );
    let report = owner.ok(&["policy", "compare", "--json", "old", "new.json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["changes"][0]["name"], "sev-snp.measurement");
    assert_eq!(report["changes"].as_array().unwrap().len(), 2);
    owner.write("new.json", &release("0.1.0", "aaaa"));
    let said = owner.ok(&["policy", "compare", "old", "new.json"]);
    assert!(said.contains("Both say the same."), "{said}");
    owner.write("new.json", "{}");
    owner.fails(1, &["policy", "compare", "old", "new.json"]);
    owner.fails(5, &["policy", "compare", "old", "gone.json"]);
}
