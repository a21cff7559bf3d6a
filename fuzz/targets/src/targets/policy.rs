//! The policy's text. It lies at the client site, but people write it.

use std::path::Path;

use coffer_custody::Draft;

use super::{cut, replaced, seed};
use crate::{Outcome, Seed, Target, outcome};

pub(super) const TARGET: Target = Target {
    name: "policy",
    about: "policy files",
    memory: |input| 1024 * input + (256 << 10),
    smoke: 10_000,
    run,
    seeds,
};

fn run(input: &[u8]) -> Outcome {
    match std::str::from_utf8(input) {
        Ok(text) => outcome(Draft::parse(text, Path::new("/home/owner/policy.toml"))),
        Err(_) => "NotText".to_owned(),
    }
}

const TEXT: &str = r#"
unverified_inputs = ["/data/open"]
[defaults]
protection = "tee"
master = "main"
[attestation]
accept = ["simulated"]
[tables.lineitem]
path = "lineitem"
columns.l_comment = "tee"
columns.l_tax = { protection = ["ope", "ashe"], domain = ["0.00", "0.08"], rows = 1e9 }
[links.customer]
id = "0123456789abcdef0123456789abcdef"
"#;

fn seeds() -> Vec<Seed> {
    let changed = |from: &str, to: &str| replaced(TEXT, from, to);
    vec![
        seed("whole", TEXT),
        seed("template", coffer_custody::policy::TEMPLATE),
        seed("nothing", []),
        seed("not_text", [0xff, 0xfe]),
        seed("cut", cut(TEXT.as_bytes(), 9)),
        seed("key_unknown", changed("master", "mister")),
        seed(
            "protection_unknown",
            changed("protection = \"tee\"", "protection = \"tea\""),
        ),
        seed(
            "protections_contradict",
            changed("protection = \"tee\"", "protection = [\"ore\", \"plain\"]"),
        ),
        seed("evidence_unknown", changed("simulated", "emulated")),
        seed("evidence_of_a_tee", changed("simulated", "sgx")),
        seed(
            "pcr_unknown",
            format!("{TEXT}[attestation.tpm.pcrs]\n24 = []\n"),
        ),
        seed(
            "measurement_short",
            format!("{TEXT}[attestation.sgx]\nmrenclave = [\"ab\"]\n"),
        ),
        seed(
            "evidence_of_two_kinds",
            changed("\"simulated\"", "\"simulated\", \"sgx\""),
        ),
        seed("type_wrong", changed("\"main\"", "7")),
        seed("table_twice", format!("{TEXT}[tables.lineitem]\n")),
        seed("nested_deep", format!("x = {}", "[".repeat(2000))),
        seed("inline_tables_deep", format!("x = {}", "{a=".repeat(2000))),
        seed("dotted_deep", format!("{}a = 1", "a.".repeat(2000))),
    ]
}
