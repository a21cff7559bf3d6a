//! Coffer's own settings: whether it is switched on, whether it would start, and what was opened on
//! purpose.

use std::path::Path;

use coffer_protocol::evidence::EvidenceKind;

use super::{
    Check, Posture,
    Severity::{High, Medium},
    found,
    site::open_to_others,
};

const FILTER: &str =
    "-Djdk.serialFilterFactory=org.apache.spark.sql.coffer.driver.SerialFilterFactory";

/// Where the options of the driver's JVM are.
const OPTIONS: [&str; 2] = [
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
];

const PASSPHRASE_FILE: &str = "spark.coffer.passphraseFile";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "coffer-plugin",
        severity: High,
        why: "without it nothing is sealed, and no sealed table can be read",
        set: "spark.plugins org.apache.spark.sql.coffer.CofferPlugin",
        find: |p| {
            found(
                !p.lists("spark.plugins", "org.apache.spark.sql.coffer.CofferPlugin"),
                "Coffer's plugin is not named in spark.plugins",
            )
        },
    },
    Check {
        id: "coffer-secret",
        severity: High,
        why: "all settings travel to executors and show in the web UI; Coffer does not start with \
            a secret of its own among them",
        set: "the passphrase in the driver's environment (COFFER_PASSPHRASE) or in the file of \
            spark.coffer.passphraseFile",
        find: |p| {
            let keys: Vec<_> = p
                .all()
                .map(|(key, _)| key)
                .filter(|key| is_secret_of_ours(key))
                .collect();
            found(
                !keys.is_empty(),
                format!("a secret of Coffer's seems to be in {}", keys.join(", ")),
            )
        },
    },
    Check {
        id: "coffer-passphrase-file",
        severity: High,
        why: "who reads it, and the keyring, has all keys",
        set: "mode 0600 for the file",
        find: |p| {
            let file = p
                .get(PASSPHRASE_FILE)
                .filter(|file| open_to_others(Path::new(file)));
            file.map(|file| format!("{file} is open to other users"))
        },
    },
    Check {
        id: "coffer-filter",
        severity: High,
        why: "what executors send could make any object in the driver before Coffer's filter is \
            in place; Coffer does not start so",
        set: "spark.driver.extraJavaOptions \
            -Djdk.serialFilterFactory=org.apache.spark.sql.coffer.driver.SerialFilterFactory \
            (coffer.session() and coffer sql set it by themselves)",
        find: |p| {
            let given = OPTIONS.iter().any(|key| {
                let options = p.get(key).unwrap_or_default();
                options.split_whitespace().any(|option| option == FILTER)
            });
            found(
                p.has_executors() && !given,
                "the driver's JVM is not given Coffer's deserialisation filter",
            )
        },
    },
    Check {
        id: "coffer-serializer",
        severity: High,
        why: "what executors send would not pass the driver's deserialisation allow-list; Coffer \
            does not start so",
        set: "spark.serializer at its default",
        find: |p| {
            let serializer = p.get("spark.serializer")?;
            found(
                serializer != "org.apache.spark.serializer.JavaSerializer",
                format!("spark.serializer is {serializer}"),
            )
        },
    },
    Check {
        id: "coffer-shuffle",
        severity: High,
        why: "sealed commit records are matched by the ids of map outputs, which this changes; \
            Coffer does not start so",
        set: "these settings at their defaults",
        find: |p| {
            let keys = [
                "spark.shuffle.useOldFetchProtocol",
                "spark.shuffle.push.enabled",
            ];
            let on: Vec<_> = keys.into_iter().filter(|key| p.on(key, false)).collect();
            found(!on.is_empty(), format!("{} is on", on.join(", ")))
        },
    },
    Check {
        id: "coffer-allowed-classes",
        severity: Medium,
        why: "the driver deserialises objects of these classes from executors, beyond what Spark \
            itself needs",
        set: "no spark.coffer.driver.allowClasses",
        find: |p| {
            let classes = p.get("spark.coffer.driver.allowClasses")?;
            Some(format!("executors may send objects of {classes}"))
        },
    },
    Check {
        id: "coffer-allowed-pickles",
        severity: Medium,
        why: "pickles from executors may call these names in the driver's Python, beyond what \
            Coffer lists",
        set: "no spark.coffer.driver.allowPickles",
        find: |p| {
            let names = p.get("spark.coffer.driver.allowPickles")?;
            Some(format!("executors' pickles may call {names}"))
        },
    },
    Check {
        id: "simulated-evidence",
        severity: High,
        why: "nothing proves what an engine is: the administrator of the host could read all data",
        set: "attestation.accept in policy.toml without \"simulated\", on machines with a TEE",
        find: |p| {
            let accepted = p.policy.as_ref()?.accepted_evidence();
            found(
                accepted.contains(&EvidenceKind::Simulated),
                "the policy accepts simulated evidence",
            )
        },
    },
    Check {
        id: "kms-plain-http",
        severity: High,
        why: "who listens on the way to the KMS sees the data keys that tables' keys are sealed \
            with, and can answer for it",
        set: "https:// and no plain-http in the master's URI",
        find: |p| {
            let policy = p.policy.as_ref()?;
            let asked = policy.masters().filter_map(|(name, uri)| {
                let hosts = uri.plain_http();
                (!hosts.is_empty()).then(|| format!("{name} ({})", hosts.join(", ")))
            });
            let asked: Vec<_> = asked.collect();
            found(
                !asked.is_empty(),
                format!("masters are asked over plain HTTP: {}", asked.join("; ")),
            )
        },
    },
    Check {
        id: "cluster-mode-trusted",
        severity: Medium,
        why: "a driver started in cluster mode would get keys on the host",
        set: "driver.trust_cluster_deploy_mode = false in policy.toml",
        find: |p| {
            found(
                p.policy.as_ref()?.trusts_cluster_deploy_mode(),
                "the policy trusts drivers on the host",
            )
        },
    },
    Check {
        id: "adaptive-off",
        severity: Medium,
        why: "a query that the optimiser proves empty is then run by Spark itself, and its \
            literals may travel in tasks in clear",
        set: "spark.sql.adaptive.enabled true",
        find: |p: &Posture| {
            found(
                !p.on("spark.sql.adaptive.enabled", true),
                "adaptive query execution is off",
            )
        },
    },
];

/// As the plugin's own check at start has it.
fn is_secret_of_ours(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let ours = lower.starts_with("spark.coffer.") || lower.contains("coffer_");
    let secret = [
        "passphrase",
        "password",
        "passwd",
        "secret",
        "token",
        "credential",
        "private",
    ];
    ours && key != PASSPHRASE_FILE && secret.iter().any(|word| lower.contains(word))
}
