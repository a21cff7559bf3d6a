//! What a policy may say, what it must not, and that editing leaves people's words alone.

use super::*;

fn parse(text: &str) -> Result<Draft, PolicyError> {
    Draft::parse(text, Path::new("/home/owner/policy.toml"))
}

const ID: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn the_template_is_valid_and_says_what_it_says() {
    let policy = parse(TEMPLATE).unwrap();
    assert_eq!(policy.accepted_evidence(), [EvidenceKind::Simulated]);
    assert_eq!(
        (policy.default_master(), policy.default_protection()),
        ("main", &[Protection::Tee][..])
    );
    assert!(!policy.accepts_host_results());
    assert!(!policy.trusts_cluster_deploy_mode() && policy.unverified_inputs().is_empty());
}

#[test]
fn an_empty_policy_allows_nothing() {
    let policy = parse("").unwrap();
    assert!(policy.accepted_evidence().is_empty());
    assert!(!policy.trusts_cluster_deploy_mode());
    assert!(!policy.allows_unverified(Path::new("/")));
}

#[test]
fn tables() {
    let text = format!(
        "[tables.t]\nid = \"{ID}\"\npath = \"sealed/t\"\nmaster = \"m\"\n\
         [tables.t.columns]\na = \"tee\"\nb = [\"tee\"]"
    );
    let policy = parse(&text).unwrap();
    let table = policy.table("t").unwrap();
    assert_eq!(table.path(), Some(Path::new("/home/owner/sealed/t")));
    assert_eq!(
        (table.id().unwrap().to_string().as_str(), table.master()),
        (ID, "m")
    );
    let named: Vec<(&str, &[Protection])> = table
        .columns()
        .map(|(name, column)| (name, column.protections()))
        .collect();
    assert_eq!(
        named,
        [("a", &[Protection::Tee][..]), ("b", &[Protection::Tee])]
    );
    assert_eq!(
        policy.table_at(Path::new("/home/owner/sealed/t")),
        Some(table)
    );
    assert_eq!(policy.table_of(table.id().unwrap()), Some(table));
    assert!(table.check_columns(["a", "b", "c"]).is_ok());
    let error = table.check_columns(["a", "B_"]).unwrap_err();
    assert_eq!(
        (error.code(), error.hint().unwrap().as_str()),
        ("unknown_column", "did you mean \"B_\"?")
    );
    assert_eq!(
        policy.table("T").unwrap_err().hint().unwrap(),
        "did you mean \"t\"?"
    );
}

#[test]
fn refusals() {
    let twice = format!("[tables.a]\nid = \"{ID}\"\n[tables.b]\nid = \"{ID}\"");
    let cases = [
        ("nonsense", "policy_syntax"),
        ("[tables.t]\npath = \"s3a:b/t\"", "location_scheme"),
        (
            "[tables.t]\npath = \"s3a://key:secret@b/t\"",
            "location_credentials",
        ),
        (
            "unverified_inputs = [\"jar:file:/b!/in\"]",
            "location_scheme",
        ),
        (
            "unverified_inputs = [\"s3a://key@b/in\"]",
            "location_credentials",
        ),
        ("[tables.t]\npath = \"file://host/t\"", "location_host"),
        ("[tables.t]\npath = \"\"", "location_empty"),
        (
            "[zones]\nz = { path = \"hdfs:///z\", master = \"main\" }",
            "location_scheme",
        ),
        ("unverified_inputs = [\"s3a:in\"]", "location_scheme"),
        ("surprise = 1", "policy_syntax"),
        ("[defaults]\nprotektion = \"tee\"", "policy_syntax"),
        ("[attestation]\naccept = \"simulated\"", "policy_syntax"),
        (
            "[driver]\ntrust_cluster_deploy_mode = \"yes\"",
            "policy_syntax",
        ),
        ("[tables.t]\ncolumn = 1", "policy_syntax"),
        ("[tables.t.columns]\na = 1", "policy_syntax"),
        ("[tables.t.columns]\na = \"secret\"", "unknown_protection"),
        ("[tables.t.columns]\na = \"TEE\"", "unknown_protection"),
        (
            "[tables.t.columns]\na = [\"det\", \"ope\", \"det\"]",
            "protection_twice",
        ),
        (
            "[tables.t.columns]\na = [\"tee\", \"plain\"]",
            "plain_with_others",
        ),
        (
            "[tables.t.columns]\na = { domain = [0, 9] }",
            "unused_setting",
        ),
        (
            "[tables.t.columns]\na = { protection = \"ashe\", link = \"l\" }",
            "unused_setting",
        ),
        (
            "[tables.t.columns]\na = { protection = \"det\", prefix = 8 }",
            "unused_setting",
        ),
        (
            "[tables.t.columns]\na = { protection = \"ope\", rows = 8 }",
            "unused_setting",
        ),
        (
            "[tables.t.columns]\na = { protection = \"ashe\", rows = 0 }",
            "policy_syntax",
        ),
        (
            "[tables.t.columns]\na = { protection = \"ashe\", rows = 1.5 }",
            "policy_syntax",
        ),
        (
            "[tables.t.columns]\na = { protection = \"ope\", domain = [0, 0.5] }",
            "policy_syntax",
        ),
        (
            "[tables.t.columns]\na = { protection = \"ope\", domain = [0] }",
            "policy_syntax",
        ),
        (
            "[tables.t.columns]\na = { protection = \"ope\", domains = [0, 1] }",
            "policy_syntax",
        ),
        (
            "[tables.t.columns]\na = { protection = { protection = \"ope\" } }",
            "policy_syntax",
        ),
        (
            "[tables.t.columns]\na = { protection = \"det\", link = \"a b\" }",
            "bad_table_name",
        ),
        ("[defaults.domains]\nstring = [\"a\", \"b\"]", "domain_type"),
        ("[defaults]\nprotection = []", "no_protection"),
        ("host_results = \"maybe\"", "policy_syntax"),
        ("[links.l]\nid = \"12\"", "bad_link_id"),
        ("[links.\"a b\"]", "bad_table_name"),
        ("[links.l]\nkey = 1", "policy_syntax"),
        ("[tables.t.columns]\na = []", "no_protection"),
        ("[tables.t]\nid = \"12\"", "bad_table_id"),
        ("[tables.\"a b\"]", "bad_table_name"),
        (
            "[tables.a]\npath = \"/x\"\n[tables.b]\npath = \"/x\"",
            "table_twice",
        ),
        (twice.as_str(), "table_twice"),
        ("[attestation]\naccept = [\"none\"]", "unknown_evidence"),
        ("[attestation.sgx]\nmrenclave = [\"abcd\"]", "policy_syntax"),
        (
            "[attestation.sgx.tcb]\nstates = [\"Revoked\"]",
            "policy_syntax",
        ),
        ("[attestation.tpm.pcrs]\n24 = []", "no_pcr"),
        ("[attestation.tpm.pcrs]\n07 = []", "no_pcr"),
        ("[attestation.sev-snp]\nmeasurements = []", "policy_syntax"),
        (
            "[attestation]\naccept = [\"simulated\", \"tdx\"]",
            "simulated_with_others",
        ),
    ];
    for (text, code) in cases {
        let error = parse(text).expect_err(text);
        assert_eq!(error.code(), code, "{text}: {error}");
        assert!(error.hint().is_some(), "{text}");
    }
    for (name, instead) in [
        ("paillier", "use \"ashe\""),
        ("SPLASHE", "use \"det\""),
        ("aes", "protections are plain, std, "),
    ] {
        let error = parse(&format!("[tables.t.columns]\nprice = \"{name}\"")).unwrap_err();
        assert_eq!(error.code(), "unknown_protection");
        assert!(error.hint().unwrap().contains(instead), "{error}");
    }
    let error =
        parse("[tables.t.columns]\nprice = { protection = \"ashe\", prefix = 3 }").unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.hint().unwrap().as_str()),
        (
            "table \"t\", column \"price\": nothing uses `prefix`",
            "`prefix` is for ope, ore: add one of them, or remove it"
        )
    );
}

#[test]
fn columns_with_schemes() {
    let text = r#"
        host_results = "accept"
        [defaults]
        protection = ["tee", "det"]
        [defaults.domains]
        date = ["1992-01-01", "1998-12-31"]
        [links.customer]
        id = "0123456789abcdef0123456789abcdef"
        master = "m"
        [tables.t.columns]
        key = { protection = ["det", "ope"], link = "customer" }
        price = { protection = ["ope", "ashe"], domain = ["-0.05", "1e3"], rows = 1e9 }
        age = { protection = "ore", domain = [-1, 150], }
        name = { protection = ["tee", "ope"], prefix = 8 }
        linked = { link = "other" }
    "#;
    let policy = parse(text).unwrap();
    assert!(policy.accepts_host_results());
    assert_eq!(
        policy.default_protection(),
        [Protection::Tee, Protection::Det]
    );
    let table = policy.table("t").unwrap();
    let price = table.column("price");
    assert_eq!(price.text(), "ope+ashe");
    assert_eq!(price.domain().unwrap().to_string(), "-0.05 to 1e3");
    assert_eq!(
        (price.rows(), price.link(), price.prefix()),
        (Some(1_000_000_000), None, None)
    );
    assert_eq!(table.column("age").domain().unwrap().min, "-1");
    assert_eq!(table.column("name").prefix(), Some(8));
    assert_eq!(
        table.column("linked").protections(),
        [Protection::Tee, Protection::Det]
    );
    assert_eq!(table.column("unnamed").text(), "tee+det");
    assert_eq!(table.default_domain("date").unwrap().max, "1998-12-31");
    assert_eq!(
        policy.unnamed_table("u").default_domain("date"),
        table.default_domain("date")
    );
    assert_eq!(policy.link("customer").id().unwrap().to_string(), ID);
    assert_eq!(
        (
            policy.link("customer").master(),
            policy.link("other").master()
        ),
        ("m", "main")
    );
    assert_eq!(policy.link("other").id(), None);
    assert_eq!(
        table.partition_protection("name").unwrap_err().code(),
        "protection_of_partition"
    );
}

#[test]
fn links_are_recorded_once() {
    let (one, two) = (LinkId([1; 16]), LinkId([2; 16]));
    let mut policy = Policy::unsigned("# mine\n[links.mine]\nmaster = \"m\"\n");
    for (name, id, master) in [
        ("mine", one, "m"),
        ("mine", one, "m"),
        ("other", two, "main"),
    ] {
        policy = Policy::unsigned(&edit::record_link(&policy, name, id, master).unwrap());
    }
    let links: Vec<_> = policy
        .links()
        .map(|(name, link)| (name, link.id(), link.master()))
        .collect();
    assert_eq!(
        links,
        [("mine", Some(one), "m"), ("other", Some(two), "main")]
    );
    assert!(policy.text().starts_with("# mine\n"));
    for (id, master) in [(two, "m"), (one, "main")] {
        let error = edit::record_link(&policy, "mine", id, master).unwrap_err();
        assert_eq!(error.code(), "link_conflict");
    }
}

#[test]
fn unverified_inputs_cover_what_is_below_them() {
    let text = "unverified_inputs = [\"/data/plain\", \"here.parquet\", \"s3://b//in/\"]";
    let policy = parse(text).unwrap();
    for (path, allowed) in [
        ("s3a://b/in", true),
        ("s3a://b/in/a/b.parquet", true),
        ("s3a://b/inner", false),
        ("s3a://other/in", false),
        ("hdfs://b/in", false),
        ("s3a://b/in/../secret", false),
        ("/home/owner/s3a:/b/in", false),
        ("/data/plain", true),
        ("/data/plain/a/b.parquet", true),
        ("/data/plainer", false),
        ("/data/plain/../secret", false),
        ("/home/owner/here.parquet", true),
        ("here.parquet", false),
    ] {
        assert_eq!(policy.allows_unverified(Path::new(path)), allowed, "{path}");
    }
}

#[test]
fn recording_keeps_comments_and_refuses_conflicts() {
    let text = format!("{TEMPLATE}\n# mine\n[tables.t]\n[tables.t.columns]\na = \"tee\" # why\n");
    let (one, two) = (TableId([1; 16]), TableId([2; 16]));
    let (here, there) = (Path::new("/data/t"), Path::new("/data/u"));
    let mut policy = Policy::unsigned(&text);
    for (name, id, path) in [("t", one, here), ("t", one, here), ("u", two, there)] {
        policy = Policy::unsigned(&edit::record_table(&policy, name, id, path, "main").unwrap());
    }
    let edited = policy.text();
    assert!(
        edited.contains("# mine")
            && edited.contains("# why")
            && edited.starts_with("# Coffer's policy")
    );
    assert_eq!(
        (
            policy.table("t").unwrap().id(),
            policy.table("u").unwrap().path()
        ),
        (Some(one), Some(there))
    );

    let conflicts = [
        ("t", two, here, "main"),
        ("t", one, there, "main"),
        ("t", one, here, "other"),
    ];
    for (name, id, path, master) in conflicts {
        assert_eq!(
            edit::record_table(&policy, name, id, path, master)
                .unwrap_err()
                .code(),
            "policy_conflict"
        );
    }
    assert_eq!(
        edit::record_table(&policy, "v", one, Path::new("/v"), "main")
            .unwrap_err()
            .code(),
        "table_twice"
    );
    // Another table's id is not forgotten under this name.
    assert_eq!(edit::forget_table(&policy, "t", two).unwrap(), edited);
    let forgotten = Policy::unsigned(&edit::forget_table(&policy, "t", one).unwrap());
    assert_eq!(
        (
            forgotten.table("t").unwrap().id(),
            forgotten.table("u").unwrap().id()
        ),
        (None, Some(two))
    );
    assert!(forgotten.text().contains("# why"));
}
