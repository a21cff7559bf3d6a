//! `coffer audit`

use std::io::{ErrorKind, Write, stdout};

use coffer_audit::{
    AuditError, AuditLog, EngineUse, Event, Outcome, Record, TableUse, Who, instant,
};
use coffer_catalog::VerifiedManifest;
use coffer_custody::Keyring;
use serde_json::{Value, json};

use crate::{
    args::{Audit, AuditCommand, AuditShow},
    failure::{Exit, Failure},
    output,
    site::Site,
};

pub(crate) fn run(site: &Site, args: &Audit) -> Result<(), Failure> {
    let log = AuditLog::of(&site.config_dir()?, &site.keyring()?);
    match &args.command {
        AuditCommand::Show(args) => show(&log, args),
        AuditCommand::Verify { json } => verify(&log, *json),
    }
}

fn show(log: &AuditLog, args: &AuditShow) -> Result<(), Failure> {
    let since = match &args.since {
        Some(text) => Some(instant(text).ok_or_else(|| {
            Failure::usage(format!("{text:?} is no time"))
                .hint("write it as 2026-11-22, or as 2026-11-22T13:45:00Z")
        })?),
        None => None,
    };
    let wanted = |record: &Record| {
        since.as_ref().is_none_or(|since| record.at >= *since)
            && args
                .table
                .as_ref()
                .is_none_or(|name| record.event.tables.iter().any(|table| table.name == *name))
            && args
                .user
                .as_ref()
                .is_none_or(|user| record.who.user == *user)
            && (!args.refusals || record.event.outcome == Outcome::Refused)
    };
    let mut out = stdout().lock();
    // Record by record, so that what stands before a broken one is shown.
    for record in log.records()? {
        let record = record?;
        if !wanted(&record) {
            continue;
        }
        let query = match &record.event.query {
            Some(query) => query.text(log.key())?,
            None => None,
        };
        let shown = match args.json {
            true => as_json(&record, query).to_string(),
            false => in_words(&record, query.as_deref()),
        };
        match writeln!(out, "{shown}") {
            Ok(()) => {}
            // Whoever reads has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                return Err(Failure::new(
                    Exit::Io,
                    format!("cannot print the log: {error}"),
                ));
            }
        }
    }
    Ok(())
}

/// Something that is about to be done with keys: the log has it first, or it is not done.
pub(crate) fn note(site: &Site, keyring: &Keyring, event: Event) -> Result<(), Failure> {
    Ok(AuditLog::of(&site.config_dir()?, keyring).append(&Who::owner(), event)?)
}

/// A table of which these columns are used; none named: all.
pub(crate) fn used(table: &VerifiedManifest, columns: &[String]) -> TableUse {
    let all = table
        .manifest()
        .columns
        .iter()
        .map(|column| column.name.clone());
    TableUse {
        name: table.name().to_owned(),
        id: table.manifest().table.to_string(),
        version: table.manifest().version,
        columns: match columns.is_empty() {
            true => all.collect(),
            false => columns.to_vec(),
        },
        master: table.master().to_owned(),
        ..TableUse::default()
    }
}

/// The record as it is, with the query's text opened.
fn as_json(record: &Record, query: Option<String>) -> Value {
    let mut shown = json!(record);
    if let Some(event) = shown
        .get_mut("event")
        .and_then(|event| event.get_mut("query"))
        .and_then(Value::as_object_mut)
    {
        event.remove("sealed");
        event.insert("text".to_owned(), json!(query));
    }
    shown
}

/// Text that a user chose, so that it cannot pass for a line of the log's own, nor move the cursor:
/// control characters and those that change the direction of writing are escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let steers = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' |
            '\u{2060}'..='\u{206f}' | '\u{feff}');
        if c.is_control() || steers {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// One record, its query on a line below.
fn in_words(record: &Record, query: Option<&str>) -> String {
    let event = &record.event;
    let outcome = match event.outcome {
        Outcome::Granted => "granted",
        Outcome::Refused => "refused",
    };
    let mut line = format!(
        "{:>6}  {}  {} (uid {})  {} {outcome}",
        record.sequence, record.at, record.who.user, record.who.uid, event.action
    );
    for part in event
        .tables
        .iter()
        .map(table)
        .chain(event.engines.iter().map(engine))
    {
        line.push_str("  ");
        line.push_str(&part);
    }
    for (name, value) in &event.details {
        line.push_str(&format!("  {name}={value}"));
    }
    line = escaped(&line);
    if let Some(reason) = &event.reason {
        line.push_str(&format!(
            "\n        {}: {}",
            event.code.as_deref().unwrap_or_default(),
            escaped(reason)
        ));
    }
    if let Some(query) = query {
        let words: Vec<&str> = query.split_whitespace().collect();
        line.push_str(&format!("\n        {}", escaped(&words.join(" "))));
    }
    line
}

fn table(used: &TableUse) -> String {
    let version = match used.version {
        0 => String::new(),
        version => format!(" v{version}"),
    };
    let columns = match used.columns.is_empty() {
        true => String::new(),
        false => format!("({})", used.columns.join(", ")),
    };
    let write = if used.write { " written" } else { "" };
    format!("{}{version}{write}{columns}", used.name)
}

fn engine(to: &EngineUse) -> String {
    let id = to.id.get(..8).unwrap_or(&to.id);
    let measurement = to.measurement.get(..16).unwrap_or(&to.measurement);
    match measurement.is_empty() {
        true => format!("-> engine {id} ({})", to.kind),
        false => format!("-> engine {id} ({} {measurement})", to.kind),
    }
}

fn verify(log: &AuditLog, as_json: bool) -> Result<(), Failure> {
    let found = log.verify();
    if as_json {
        let (records, broken) = match &found {
            Ok(report) => (Some(report.records), None),
            Err(AuditError::Broken { record, flaw }) => (
                None,
                Some(json!({ "record": record, "problem": flaw.to_string() })),
            ),
            Err(_) => (None, None),
        };
        output::json(&json!({
            "whole": found.is_ok(),
            "records": records,
            "unfinished": found.as_ref().is_ok_and(|report| report.unfinished),
            "torn_bytes": found.as_ref().map_or(0, |report| report.torn),
            "broken": broken,
        }));
    }
    let report = found?;
    if !as_json {
        println!("the audit log is whole: {} records", report.records);
    }
    if report.unfinished {
        eprintln!(
            "The last record was written by a program that then stopped: nothing was released for \
                it."
        );
    }
    if report.torn > 0 {
        eprintln!(
            "Behind it lies half a record ({} bytes), which a crash left: nothing was released \
                for it.",
            report.torn
        );
    }
    Ok(())
}

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Self {
        let exit = match &error {
            AuditError::Io { .. } => Exit::Io,
            AuditError::Register(_) => Exit::Keys,
            AuditError::Broken { .. }
            | AuditError::Sealing(_)
            | AuditError::TooLong
            | AuditError::Query => Exit::Check,
        };
        Failure::new(exit, error.to_string()).hint(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use coffer_format::Digest;

    use super::*;

    #[test]
    fn no_text_of_a_user_passes_for_a_record() {
        let forged =
            "x\n     9  2026-11-22T00:00:00Z  (owner) (uid 0)  decrypt granted\u{1b}[2K\u{202e}";
        let event = Event {
            reason: Some(forged.to_owned()),
            ..Event::granted("open").table(TableUse {
                name: forged.to_owned(),
                columns: vec![forged.to_owned()],
                ..TableUse::default()
            })
        };
        let record = Record {
            sequence: 1,
            previous: Digest::ZERO,
            at: instant("2026-11-22").unwrap(),
            who: Who::owner(),
            event,
        };
        let shown = in_words(&record, Some(forged));
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        assert!(in_words(&record, Some("in Zürich")).contains("in Zürich"));
    }
}
