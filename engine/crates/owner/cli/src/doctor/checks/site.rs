//! Where the driver runs, how programs are submitted, and what lies on disks.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::{
    Check,
    Severity::{High, Low, Medium},
    found,
};
use crate::doctor::posture::Site;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "deploy-mode",
        severity: High,
        why: "the driver, with keys and results, runs on the host; Coffer does not start there \
            unless the policy trusts it",
        set: "spark.submit.deployMode client",
        find: |p| {
            found(
                p.get("spark.submit.deployMode")
                    .is_some_and(|mode| mode.eq_ignore_ascii_case("cluster")),
                "the deploy mode is cluster",
            )
        },
    },
    Check {
        id: "rest-submission",
        severity: Medium,
        why: "the REST server asks for no login: whoever reaches it runs programs as Spark's user \
            on the workers",
        set: "spark.master.rest.enabled false, in the master's own configuration",
        find: |p| {
            found(
                p.site() == Site::Standalone && p.on("spark.master.rest.enabled", true),
                "the master takes submissions over REST, as is Spark's default",
            )
        },
    },
    Check {
        id: "connect-open",
        severity: High,
        why: "whoever reaches the Spark Connect server asks queries with the owner's keys",
        set: "spark.connect.authenticate.token, behind a proxy with TLS",
        find: |p| {
            let served = p
                .get("spark.plugins")
                .is_some_and(|list| list.contains("SparkConnectPlugin"))
                || p.beginning("spark.connect.grpc.binding.").next().is_some();
            found(
                served && p.get("spark.connect.authenticate.token").is_none(),
                "a Spark Connect server answers without a login",
            )
        },
    },
    Check {
        id: "driver-debug-port",
        severity: High,
        why: "a debugger or JMX client without a login reads the driver's results and runs code \
            in it",
        set: "no jdwp agent in the driver, and jmxremote with authentication and TLS",
        find: |p| {
            let keys = [
                "spark.driver.extraJavaOptions",
                "spark.driver.defaultJavaOptions",
            ];
            let open = |value: &str| {
                value.contains("jdwp") || value.contains("jmxremote.authenticate=false")
            };
            keys.into_iter()
                .find(|key| p.get(key).is_some_and(open))
                .map(|key| format!("{key} opens the driver to debuggers"))
        },
    },
    Check {
        id: "local-disks",
        severity: Low,
        why: "what Coffer shuffles and spills is sealed; what plaintext queries, broadcasts and \
            jars leave there is not, and others use \
            that folder too",
        set: "spark.local.dir (on workers SPARK_LOCAL_DIRS) to a folder of Spark's user alone, in \
            memory or on an encrypted disk",
        find: |p| {
            let folders = p.get("spark.local.dir").unwrap_or("/tmp");
            let shared: Vec<_> = folders
                .split(',')
                .map(str::trim)
                .filter(|folder| is_shared(folder))
                .collect();
            found(
                p.has_executors() && p.site() != Site::Managed && !shared.is_empty(),
                format!(
                    "local files go to {}, if nothing else is set on the workers",
                    shared.join(", ")
                ),
            )
        },
    },
    Check {
        id: "local-encryption",
        severity: Low,
        why: "what plaintext queries of the same application shuffle, cache and broadcast lies \
            open on executors' disks; Spark's cipher \
            hides it, but notices no change",
        set: "spark.io.encryption.enabled true, together with encrypted RPC",
        find: |p| {
            found(
                p.has_executors() && !p.on("spark.io.encryption.enabled", false),
                "Spark does not encrypt what it writes to local disks",
            )
        },
    },
    Check {
        id: "local-leftovers",
        severity: Low,
        why: "files of executors that ended stay on the workers' disks",
        set: "spark.storage.cleanupFilesAfterExecutorExit true",
        find: |p| {
            found(
                p.has_executors() && !p.on("spark.storage.cleanupFilesAfterExecutorExit", true),
                "workers do not clean up behind executors",
            )
        },
    },
    Check {
        id: "secret-in-settings",
        severity: Medium,
        why: "all settings travel to executors: what a credential opens is open to the host",
        set: "credentials for executors that can do no more than read and write the sealed \
            tables' folders",
        find: |p| {
            let keys: Vec<_> = p
                .all()
                .map(|(key, _)| key)
                .filter(|key| is_credential(key))
                .collect();
            found(
                !keys.is_empty(),
                format!("credentials are in {}", keys.join(", ")),
            )
        },
    },
];

/// Whether others than the owner may look into a file or folder; not, if it is not there.
pub(super) fn open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

fn is_shared(folder: &str) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm"].contains(&folder.trim_end_matches('/'))
}

/// The secrets of Spark's own RPC and TLS are made to be shared; those of Coffer are judged
/// elsewhere.
fn is_credential(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let own = [
        "spark.authenticate",
        "spark.ssl.",
        "spark.coffer.",
        "spark.connect.authenticate",
    ];
    let secret = [
        "secret",
        "password",
        "token",
        "access.key",
        "accesskey",
        "account.key",
    ];
    !own.iter().any(|prefix| lower.starts_with(prefix))
        && secret.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::is_credential;

    #[test]
    fn credentials_by_name() {
        for key in [
            "spark.hadoop.fs.s3a.secret.key",
            "spark.hadoop.fs.s3a.access.key",
            "spark.executorEnv.DB_PASSWORD",
        ] {
            assert!(is_credential(key), "{key}");
        }
        for key in [
            "spark.authenticate.secret",
            "spark.ssl.keyPassword",
            "spark.app.name",
            "spark.coffer.passphraseFile",
        ] {
            assert!(!is_credential(key), "{key}");
        }
    }
}
