//! Event logs and the history server: queries in clear, kept.

use std::path::{Component, Path, PathBuf};

use super::{
    Check, Posture,
    Severity::{High, Medium},
    found,
};
use crate::doctor::checks::site::open_to_others;

const TRUSTED: &str = "spark.coffer.eventLog.trustedDir";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "event-log",
        severity: High,
        why: "event logs hold queries and plans in clear; Coffer does not start with one outside \
            a folder known as trusted",
        set: "spark.coffer.eventLog.trustedDir to a local folder of the client site that holds \
            spark.eventLog.dir, or \
            spark.eventLog.enabled false",
        find: |p| {
            let inside = match (folder(p), p.get(TRUSTED).and_then(local)) {
                (Some(folder), Some(trusted)) => folder.starts_with(trusted),
                _ => false,
            };
            found(
                logs(p) && !inside,
                format!("the event log goes to {}", directory(p)),
            )
        },
    },
    Check {
        id: "event-log-readable",
        severity: Medium,
        why: "other users of this machine read there what Coffer hides from executors",
        set: "mode 0700 for the folder of spark.eventLog.dir",
        find: |p| {
            let folder = folder(p).filter(|folder| logs(p) && open_to_others(folder));
            folder.map(|folder| format!("{} is open to other users", folder.display()))
        },
    },
    Check {
        id: "history-server",
        severity: Medium,
        why: "it shows the queries of all event logs to whoever asks",
        set: "spark.history.ui.acls.enable true, with a login filter in spark.ui.filters",
        find: |p| {
            let served = p.beginning("spark.history.").next().is_some()
                || p.get("spark.yarn.historyServer.address").is_some();
            let closed =
                p.on("spark.history.ui.acls.enable", false) && p.get("spark.ui.filters").is_some();
            found(
                served && !closed,
                "a history server is configured, and lets everybody look",
            )
        },
    },
];

fn logs(posture: &Posture) -> bool {
    posture.on("spark.eventLog.enabled", false)
}

fn directory(posture: &Posture) -> &str {
    posture
        .get("spark.eventLog.dir")
        .unwrap_or("/tmp/spark-events")
}

fn folder(posture: &Posture) -> Option<PathBuf> {
    local(directory(posture))
}

/// A local path, absolute and without `..`, as the plugin reads one; None for another file system.
fn local(text: &str) -> Option<PathBuf> {
    let path = match text.split_once(':') {
        None => text,
        Some(("file", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        Some(_) => return None,
    };
    let mut normal = std::path::absolute("/").ok()?;
    let absolute = std::path::absolute(Path::new(path)).ok()?;
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    Some(normal)
}
