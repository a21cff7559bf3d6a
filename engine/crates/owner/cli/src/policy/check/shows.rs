//! What a column's protections show to whoever holds the files, and what can be done with it unopened: in words.

use coffer_format::SparkType;
use coffer_schemes::Protection::{self, Ashe, Det, Ope, Ore, Plain, Std, Tee};

use super::CheckedColumn;

/// What hosts see of a column, by its own protections and by those of the columns that can be compared with it.
pub(super) struct Shown {
    /// By its own.
    pub(super) own: Vec<String>,
    /// What the link adds.
    pub(super) by_link: Vec<String>,
}

/// The union of what all its protections show.
pub(super) fn to_hosts(column: &CheckedColumn) -> Shown {
    let own = of(column, |protection| column.has(protection));
    let linked = of(column, |protection| {
        column.has(protection) || column.linked.protections.contains(&protection)
    });
    let by_link = linked.into_iter().filter(|words| !own.contains(words)).collect();
    Shown { own, by_link }
}

fn of(column: &CheckedColumn, has: impl Fn(Protection) -> bool) -> Vec<String> {
    if has(Plain) {
        let partition = column.seen.as_ref().is_some_and(|seen| seen.is_partition);
        let place = if partition { ", in the files' paths" } else { "" };
        return vec![format!("every value{place}")];
    }
    let kind = column.seen.as_ref().map(|seen| seen.kind);
    let prefix = column.prefix().or(column.linked.prefix);
    let mut words = Vec::new();
    let mut say = |said: bool, text: &str| {
        if said {
            words.push(text.to_owned());
        }
    };
    match prefix {
        None => {
            say(has(Det) || has(Ope) || has(Ore), "which values are equal");
            say(has(Ope) || has(Ore), "their order");
        }
        Some(bytes) => {
            say(has(Det), "which values are equal");
            let first = format!("the order of their first {bytes} bytes, and which are equal there");
            say(has(Ope) || has(Ore), &first);
        }
    }
    say(has(Ope), "about the upper half of each one's bits");
    say(has(Ore), "the first bit in which any two differ");
    say(has(Ashe), "which rows each sum took");
    match kind {
        None => say(has(Det) || has(Std), "lengths, if they are texts"),
        Some(kind) if kind.is_text() || kind == SparkType::Binary => say(has(Det) || has(Std), "lengths"),
        Some(_) => {}
    }
    let nullable = column.seen.as_ref().is_none_or(|seen| seen.nullable);
    let sealed_values = [Det, Ope, Ore, Ashe, Std].into_iter().any(has);
    say(nullable && sealed_values, "which are NULL");
    if words.is_empty() {
        words.push("nothing but sizes, and which files, row groups and pages are read".to_owned());
    }
    words
}

/// What can be done with what is stored, by an engine without the column's key.
pub(super) fn unopened(column: &CheckedColumn) -> Vec<&'static str> {
    let has = |protection| column.has(protection);
    if has(Plain) {
        return vec!["everything"];
    }
    let mut work = Vec::new();
    let whole = column.prefix().is_none();
    if has(Det) || (whole && (has(Ope) || has(Ore))) {
        work.extend(["=, IN", "joins", "GROUP BY", "DISTINCT"]);
    }
    match (has(Ope), has(Ore), whole) {
        (true, _, true) => work.extend(["ranges", "MIN, MAX", "ORDER BY", "pruning of row groups"]),
        (false, true, true) => work.extend(["ranges", "MIN, MAX", "ORDER BY, by a comparator"]),
        (false, false, _) => {}
        (_, _, false) => work.push("ranges on the first bytes, repeated where the value is opened"),
    }
    if has(Ashe) {
        work.push("SUM, AVG");
    }
    if column.protections.iter().any(|protection| *protection != Tee) {
        work.extend(["COUNT", "IS NULL", "being carried along"]);
    }
    work
}

/// What enclaves see, beyond hosts.
pub(super) fn to_enclaves(column: &CheckedColumn) -> &'static str {
    if column.has(Tee) || column.has(Plain) {
        "every value"
    } else {
        "no more than hosts: the keys stay at home"
    }
}

/// Who can have the values.
pub(super) fn opened_by(column: &CheckedColumn) -> &'static str {
    let ordered_only = column
        .protections
        .iter()
        .all(|protection| matches!(protection, Ope | Ore));
    match (column.has(Plain), column.has(Tee), column.opens()) {
        (true, ..) => "anyone",
        (_, true, _) => "enclaves and home",
        (_, _, false) => "nobody",
        // Only numbers have a domain; of a text a prefix would be stored, and coffer encrypt would refuse that.
        _ if ordered_only && column.seen.is_none() && column.rules.domain().is_none() => {
            "home only; nobody if it is a text, which takes tee, std or det beside it"
        }
        _ => "home only",
    }
}
