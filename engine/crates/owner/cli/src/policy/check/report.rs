//! The report, as text and as JSON.

use coffer_custody::Draft;
use coffer_protocol::EvidenceKind;
use serde_json::{Value, json};

use super::{
    CheckedColumn, CheckedTable, OTHERS, evidence, shows,
    size::{self, grouped},
    warnings::{ALL, Warning},
};
use crate::output;

/// For people.
pub(super) fn text(policy: &Draft, tables: &[CheckedTable], warnings: &[Warning]) -> String {
    let mut text = String::from(
        "hosts     whoever holds the files: storage, executors, network, and who runs them; of \
            every column they see sizes and what is read\n",
    );
    text.push_str(&format!("enclaves  {}\n", enclaves(policy)));
    text.push_str(&format!("unopened  {}\n", unopened(policy)));
    if tables.is_empty() {
        let names: Vec<&str> = policy
            .default_protection()
            .iter()
            .map(|protection| protection.name())
            .collect();
        text.push_str(&format!(
            "\nThe policy names no table. Columns of a new one are {}.\n",
            names.join("+")
        ));
    }
    for table in tables {
        text.push_str(&format!("\n{}: {}\n", table.name, seen(table)));
        for column in &table.columns {
            text.push('\n');
            text.push_str(&column_text(column));
        }
    }
    for kind in ALL {
        let of_kind: Vec<&Warning> = warnings
            .iter()
            .filter(|warning| warning.kind.id == kind.id)
            .collect();
        if of_kind.is_empty() {
            continue;
        }
        text.push_str(&format!("\nwarning {}\n", kind.id));
        for warning in of_kind {
            let place = match warning.place.as_str() {
                "" => "the policy",
                place => place,
            };
            text.push_str(&format!("    {place}: {}\n", warning.what));
        }
        text.push_str(&format!("    why:  {}\n", kind.why));
        text.push_str(&format!("    mend: {}\n", kind.mend));
    }
    text
}

fn enclaves(policy: &Draft) -> String {
    match evidence(policy).as_slice() {
        [] => {
            "no engine is one: attestation.accept is empty, so no key leaves the client".to_owned()
        }
        ["simulated"] => {
            "engines that say what they are: simulated evidence proves nothing, so count them as \
                hosts"
                .to_owned()
        }
        kinds => format!("engines that proved what they are, by {}", kinds.join(", ")),
    }
}

fn unopened(policy: &Draft) -> &'static str {
    if policy.accepts_host_results() {
        "work on what is stored, by enclaves or by engines that proved nothing \
         (host_results = \"accept\")"
    } else {
        "work on what is stored, by enclaves only (host_results = \"refuse\")"
    }
}

fn seen(table: &CheckedTable) -> String {
    match &table.look {
        Ok(look) => format!(
            "sealed, version {}; {} of {} rows were looked at",
            look.version,
            grouped(look.rows_read),
            grouped(look.rows)
        ),
        Err(why) => format!("by the policy alone: {why}. Types and numbers of values are unknown"),
    }
}

fn column_text(column: &CheckedColumn) -> String {
    let names: Vec<&str> = column
        .protections
        .iter()
        .map(|protection| protection.name())
        .collect();
    let kind = column
        .seen
        .as_ref()
        .map(|seen| format!("{}, ", seen.kind))
        .unwrap_or_default();
    let name = if column.name == OTHERS {
        "columns not named"
    } else {
        &column.name
    };
    let mut text = format!("  {name}: {kind}{}\n", names.join("+"));
    let mut line = |label: &str, words: String| {
        if !words.is_empty() {
            text.push_str(&format!("    {label:<9} {words}\n"));
        }
    };
    let shown = shows::to_hosts(column);
    line("hosts", shown.own.join("; "));
    line("by link", shown.by_link.join("; "));
    line("enclaves", shows::to_enclaves(column).to_owned());
    line("evidence", column.wanted.to_string());
    line("opened by", shows::opened_by(column).to_owned());
    line(
        "unopened",
        match shows::unopened(column).as_slice() {
            [] => "nothing; in an enclave all of SQL".to_owned(),
            work => work.join("; "),
        },
    );
    if column.is_comparable() {
        line("values", values(column));
    }
    if let Some(link) = column.rules.link() {
        let others = match column.linked.columns.as_slice() {
            [] => "no other column".to_owned(),
            others => others.join(", "),
        };
        line("link", format!("\"{link}\" with {others}"));
    }
    text
}

/// How many values there are, in words.
fn values(column: &CheckedColumn) -> String {
    let size = size::of(column).map(|size| format!(", of {} that it may have", grouped(size)));
    let size = size.unwrap_or_default();
    match &column.seen {
        None if size.is_empty() => "unknown how many".to_owned(),
        None => format!("unknown how many{size}"),
        Some(seen) => match seen.values.distinct {
            Some(distinct) => format!(
                "{} in {} rows{size}",
                grouped(distinct),
                grouped(seen.values.count)
            ),
            None => format!("many in {} rows{size}", grouped(seen.values.count)),
        },
    }
}

/// For programs.
pub(super) fn json(
    policy: &Draft,
    tables: &[CheckedTable],
    warnings: &[Warning],
    accepted: &[String],
) {
    let warnings: Vec<Value> = warnings
        .iter()
        .map(|warning| {
            json!({
                "id": warning.kind.id, "place": warning.place, "what": warning.what,
                "why": warning.kind.why, "mend": warning.kind.mend, "details": warning.details,
            })
        })
        .collect();
    output::json(&json!({
        "host_results": if policy.accepts_host_results() { "accept" } else { "refuse" },
        "evidence": evidence(policy),
        "tables": tables.iter().map(table_json).collect::<Vec<_>>(),
        "warnings": warnings,
        "accepted": accepted,
    }));
}

fn table_json(table: &CheckedTable) -> Value {
    let columns: Vec<Value> = table.columns.iter().map(column_json).collect();
    let (look, unseen) = match &table.look {
        Ok(look) => (
            json!({ "version": look.version, "rows": look.rows, "rows_read": look.rows_read }),
            Value::Null,
        ),
        Err(why) => (Value::Null, json!(why)),
    };
    json!({ "name": table.name, "sealed": look, "unseen": unseen, "columns": columns })
}

fn column_json(column: &CheckedColumn) -> Value {
    let shown = shows::to_hosts(column);
    let names: Vec<&str> = column
        .protections
        .iter()
        .map(|protection| protection.name())
        .collect();
    let seen = column.seen.as_ref();
    json!({
        "name": (column.name != OTHERS).then_some(&column.name),
        "type": seen.map(|seen| seen.kind.to_string()),
        "protections": names,
        "hosts": shown.own,
        "hosts_by_link": shown.by_link,
        "enclaves": shows::to_enclaves(column),
        "evidence": column.wanted.iter().map(EvidenceKind::name).collect::<Vec<_>>(),
        "opened_by": shows::opened_by(column),
        "unopened": shows::unopened(column),
        "distinct": seen.and_then(|seen| seen.values.distinct),
        "in_row_order": seen.map(|seen| seen.values.in_order),
        "domain_size": size::of(column).map(|size| size.to_string()),
        "link": column.rules.link(),
        "linked": column.linked.columns,
    })
}
