//! The driver's web UI and REST API, and what else is told of queries: they show in clear what
//! Coffer hides from executors.

use super::{
    Check, Posture,
    Severity::{High, Low, Medium},
    found,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "ui-open",
        severity: High,
        why: "the web UI and its REST API show every query's text and plan with its literals, to \
            executors too",
        set: "spark.ui.enabled false, or spark.ui.filters with a filter that asks for a login, \
            and spark.acls.enable true",
        find: |p| {
            let port = match p.get("spark.ui.port") {
                Some("0") => "its port".to_owned(),
                port => format!("port {}", port.unwrap_or("4040")),
            };
            let known = match &p.running {
                Some(running) => format!("; it has shown this program {} queries", running.queries),
                None => String::new(),
            };
            found(
                shown(p) && p.get("spark.ui.filters").is_none(),
                format!("anyone who reaches {port} sees the driver's web UI{known}"),
            )
        },
    },
    Check {
        id: "ui-acls",
        severity: Medium,
        why: "whoever passes the login filter sees all queries, and may end them",
        set: "spark.acls.enable true, with spark.ui.view.acls and spark.modify.acls",
        find: |p| {
            found(
                shown(p)
                    && p.get("spark.ui.filters").is_some()
                    && !p.on("spark.acls.enable", false),
                "the web UI asks who it is, and lets everybody see everything",
            )
        },
    },
    Check {
        id: "ui-everybody",
        severity: Medium,
        why: "an asterisk stands for all users",
        set: "names in place of the asterisk",
        find: |p| {
            let keys = [
                "spark.ui.view.acls",
                "spark.modify.acls",
                "spark.admin.acls",
            ];
            let groups = [
                "spark.ui.view.acls.groups",
                "spark.modify.acls.groups",
                "spark.admin.acls.groups",
            ];
            let open: Vec<_> = keys
                .into_iter()
                .chain(groups)
                .filter(|key| p.lists(key, "*"))
                .collect();
            found(
                shown(p) && p.on("spark.acls.enable", false) && !open.is_empty(),
                format!("{} names everybody", open.join(", ")),
            )
        },
    },
    Check {
        id: "ui-tls",
        severity: Low,
        why: "queries, and the login of who looks at them, cross the network in clear",
        set: "spark.ssl.ui.enabled true, with a key store",
        find: |p| {
            let tls = p.on("spark.ssl.ui.enabled", p.on("spark.ssl.enabled", false));
            found(shown(p) && !tls, "the web UI speaks plain HTTP")
        },
    },
    Check {
        id: "ui-proxy",
        severity: High,
        why: "the master belongs to the host, and fetches the driver's pages for whoever asks",
        set: "spark.ui.reverseProxy false",
        find: |p| {
            found(
                shown(p) && p.on("spark.ui.reverseProxy", false),
                "the master is a proxy for the driver's web UI",
            )
        },
    },
    Check {
        id: "listeners",
        severity: Medium,
        why: "these classes get every query's text and plan; where they send them is not Spark's \
            to say",
        set: "only listeners that stay at the client site",
        find: |p| {
            let keys = [
                "spark.extraListeners",
                "spark.sql.queryExecutionListeners",
                "spark.sql.streaming.streamingQueryListeners",
            ];
            let set: Vec<_> = keys
                .into_iter()
                .filter_map(|key| p.get(key).map(|value| format!("{key} = {value}")))
                .collect();
            found(!set.is_empty(), set.join("; "))
        },
    },
];

fn shown(posture: &Posture) -> bool {
    posture.on("spark.ui.enabled", true)
}
