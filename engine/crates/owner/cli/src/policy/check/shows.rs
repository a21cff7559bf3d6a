//! What a column's protections show to whoever holds the files, and what can be done with it
//! unopened, in words: the table's (`coffer-schemes`), put together for one column.

use std::collections::BTreeSet;

use coffer_schemes::{Capability, Leakage, Opener, Protection};

use super::CheckedColumn;

/// What hosts see of a column, by its own protections and by those of the columns that can be
/// compared with it.
pub(super) struct Shown {
    /// By its own.
    pub(super) own: Vec<String>,
    /// What the link adds.
    pub(super) by_link: Vec<String>,
}

/// The union of what all its protections show.
pub(super) fn to_hosts(column: &CheckedColumn) -> Shown {
    let own = of(column, &column.protections);
    let linked: Vec<Protection> = [&column.protections[..], &column.linked.protections].concat();
    let by_link = (of(column, &linked).into_iter())
        .filter(|words| !own.contains(words))
        .collect();
    Shown { own, by_link }
}

fn of(column: &CheckedColumn, protections: &[Protection]) -> Vec<String> {
    let prefix = column.prefix().or(column.linked.prefix);
    let all = |texts: bool| {
        let shown = (protections.iter())
            .flat_map(|protection| protection.treatment(texts).shows.iter().copied());
        let nullable = column.seen.as_ref().is_none_or(|seen| seen.nullable);
        Leakage::union(shown.filter(|shown| *shown != Leakage::Nulls || nullable))
    };
    let kind = column.seen.as_ref().map(|seen| seen.kind.clone());
    let texts = prefix.is_some() || kind.as_ref().is_some_and(|kind| kind.is_bytes());
    let mut shown = all(texts);
    // Of a type that is not known, numbers are told, and how long they would be if they are none.
    if kind.is_none() && all(true).contains(&Leakage::Lengths) {
        shown.push(Leakage::Lengths);
        shown = Leakage::union(shown);
    }
    let partition = column.seen.as_ref().is_some_and(|seen| seen.is_partition);
    let words = |shown: Leakage| match shown {
        Leakage::Values if partition => Leakage::ValuesInPaths.words().to_owned(),
        Leakage::Lengths if kind.is_none() => format!("{}, if they are texts", shown.words()),
        shown => shown.words_of_prefix(prefix),
    };
    shown.into_iter().map(words).collect()
}

/// What can be done with what is stored, by an engine without the column's key.
pub(super) fn unopened(column: &CheckedColumn) -> Vec<&'static str> {
    let texts = column.is_of_texts();
    let allowed: BTreeSet<Capability> = (column.protections.iter())
        .flat_map(|protection| protection.treatment(texts).allows.iter().copied())
        .collect();
    let mut work = Vec::new();
    for words in allowed.into_iter().flat_map(|allowed| allowed.words()) {
        if !work.contains(words) {
            work.push(*words);
        }
    }
    work
}

/// What enclaves see, beyond hosts.
pub(super) fn to_enclaves(column: &CheckedColumn) -> &'static str {
    if column.openers().any(|opener| opener <= Opener::Enclaves) {
        "every value"
    } else {
        "no more than hosts: the keys stay at the client"
    }
}

/// Who can have the values.
pub(super) fn opened_by(column: &CheckedColumn) -> &'static str {
    match column.openers().min() {
        Some(Opener::Anyone) => "anyone",
        Some(Opener::Enclaves) => "enclaves and client",
        Some(Opener::Nobody) | None => "nobody",
        // Only numbers have a domain; of a text a prefix would be stored, and coffer encrypt would
        // refuse that.
        Some(Opener::Client)
            if column.seen.is_none()
                && column.rules.domain().is_none()
                && column.is_closed_as_texts() =>
        {
            "client only; nobody if it is a text, which takes tee, std or det beside it"
        }
        Some(Opener::Client) => "client only",
    }
}
