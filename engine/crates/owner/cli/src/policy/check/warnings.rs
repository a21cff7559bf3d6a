//! What is known to break, one function for each kind.

use std::collections::BTreeMap;

use coffer_custody::Draft;
use coffer_schemes::{Protection, Setting};
use serde_json::{Value, json};

use super::{
    CheckedColumn, CheckedTable, OTHERS, links, shows,
    size::{self, grouped},
};
use crate::failure::Failure;

/// A column with so many values or fewer has few: what others know of their frequency is then worth
/// most.
const FEW: u64 = 1_000;

/// One way in which a policy disappoints.
pub(super) struct Kind {
    pub(super) id: &'static str,
    pub(super) why: &'static str,
    pub(super) mend: &'static str,
}

/// One such case.
pub(super) struct Warning {
    pub(super) kind: &'static Kind,
    /// "table.column", a table, or nothing: the policy.
    pub(super) place: String,
    pub(super) what: String,
    /// The same for programs, where there is more than one thing to name.
    pub(super) details: Value,
}

static FEW_VALUES: Kind = Kind {
    id: "few-values",
    why: "Naveed, Kamara, Wright, \"Inference attacks on property-preserving encrypted \
        databases\", CCS 2015: public statistics of a \
          similar population turn frequency (det) and order (ope, ore) back into values; sex, \
          race and mortality risk under det came \
          back for more than 60 % of the patients of more than 60 % of the hospitals, age and \
          severity under ope for more than 80 % of those of 95 %",
    mend: "tee; std where it is only carried along; ashe where only sums are needed",
};

static DENSE_ORDER: Kind = Kind {
    id: "dense-order",
    why: "when most values of a domain occur, the k-th ciphertext is about the k-th value: \
        sorting is enough, and no statistics are \
          needed (the sorting attack of Naveed, Kamara, Wright, CCS 2015)",
    mend: "tee, or det if only equality is needed and there are many values",
};

static ROW_ORDER: Kind = Kind {
    id: "row-order",
    why: "a host sees the place of each row, and what the row's other columns show: rows that lie \
        in the order of a column publish \
          that order, whatever protects it",
    mend: "make the table anew with coffer encrypt --shuffle-rows, from rows that are not sorted \
        by it",
};

static UNLINKED_JOIN: Kind = Kind {
    id: "unlinked-join",
    why: "each column has a key of its own, so equal values have unlike ciphertexts: a join of \
        these columns is left to enclaves, if \
          all of them are tee, else to the client",
    mend: "one `link` for those that are joined, before the tables are encrypted; accept this for \
        those that are not",
};

static LINK_ALONE: Kind = Kind {
    id: "link-alone",
    why: "columns of a link are comparable only under a protection that they have in common",
    mend: "give another column the link, or both the same protection, or take the link away",
};

static LINK_UNLIKE: Kind = Kind {
    id: "link-unlike",
    why: "ciphertexts of one link are alike only under one domain and one prefix; coffer encrypt \
        refuses the second column",
    mend: "the same `domain` and `prefix` for all columns of the link",
};

static LINK_SPREADS: Kind = Kind {
    id: "link-spreads",
    why: "a column shows the union of what its link's columns show: equal values stand in both",
    mend: "the same protections for all columns of the link, or no link",
};

static LINK_RIGHTS: Kind = Kind {
    id: "link-rights",
    why: "columns of a link share a key, and a ciphertext does not say of which column it is: who \
        may read one of them and has \
          ciphertexts of another (from the files, say) gets them opened, as if they were of the \
          one",
    mend: "give the role all columns of the link, or none; or take the link away",
};

static NOT_OPENABLE: Kind = Kind {
    id: "not-openable",
    why: "only the first bytes of a text are in its order, so nobody can open the column; coffer \
        encrypt refuses it",
    mend: "add tee, std or det",
};

static ASHE_ROWS: Kind = Kind {
    id: "ashe-rows",
    why: "sums are kept modulo 2^64 for each file: files of more rows than fit are refused when \
        they are written, and sums over more \
          (a join may repeat rows) when they are opened, after the work is done",
    mend: "a `domain` as narrow as the values are, and `rows` for the most that the table will \
        ever have",
};

static HOST_RESULTS: Kind = Kind {
    id: "host-results",
    why: "engines that proved nothing may drop, repeat or move rows, and add to ashe sums: no \
        value is read there, but not verified \
          that an answer is right",
    mend: "host_results = \"refuse\", and enclaves",
};

static POLICY_CHANGED: Kind = Kind {
    id: "policy-changed",
    why: "what was written stays as readable as it was, and the next write is refused",
    mend: "make the table anew, or let the policy say what is stored",
};

pub(super) static ALL: [&Kind; 12] = [
    &FEW_VALUES,
    &DENSE_ORDER,
    &ROW_ORDER,
    &UNLINKED_JOIN,
    &LINK_ALONE,
    &LINK_UNLIKE,
    &LINK_SPREADS,
    &LINK_RIGHTS,
    &NOT_OPENABLE,
    &ASHE_ROWS,
    &HOST_RESULTS,
    &POLICY_CHANGED,
];

/// Errors when one of these is no warning's id.
pub(super) fn check_ids(ids: &[String]) -> Result<(), Failure> {
    match ids.iter().find(|id| !ALL.iter().any(|kind| kind.id == *id)) {
        None => Ok(()),
        Some(id) => {
            let known: Vec<&str> = ALL.iter().map(|kind| kind.id).collect();
            Err(Failure::usage(format!("there is no warning `{id}`"))
                .hint(format!("there are {}", known.join(", "))))
        }
    }
}

/// The kinds as a Markdown table, for the reference.
pub(crate) fn reference() -> String {
    let mut text = String::from("| id | why | what mends it |\n|---|---|---|\n");
    for kind in ALL {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            kind.id, kind.why, kind.mend
        ));
    }
    text
}

/// All that is to be said of these tables.
pub(super) fn find(
    policy: &Draft,
    tables: &[CheckedTable],
    is_reported: &dyn Fn(&str) -> bool,
) -> Vec<Warning> {
    let mut found = Vec::new();
    let reported = || tables.iter().filter(|table| is_reported(&table.name));
    if policy.accepts_host_results() {
        found.push(Warning {
            kind: &HOST_RESULTS,
            place: String::new(),
            what: "answers of engines that proved nothing are accepted".to_owned(),
            details: Value::Null,
        });
    }
    for table in reported() {
        for column in &table.columns {
            let place = format!("{}.{}", table.name, column.name);
            let mut say = |kind: &'static Kind, what: Option<String>| {
                if let Some(what) = what {
                    found.push(Warning {
                        kind,
                        place: place.clone(),
                        what,
                        details: Value::Null,
                    });
                }
            };
            say(&POLICY_CHANGED, policy_changed(column));
            say(&NOT_OPENABLE, not_openable(column));
            say(&FEW_VALUES, few_values(column));
            say(&DENSE_ORDER, dense_order(column));
            say(&ROW_ORDER, row_order(table, column));
            say(&ASHE_ROWS, ashe_rows(table, column));
            say(&LINK_ALONE, link_alone(column));
            say(&LINK_UNLIKE, link_unlike(tables, column));
            say(&LINK_SPREADS, link_spreads(column));
        }
    }
    for links::Alike { members } in links::unlinked(tables) {
        if members.iter().any(|(table, _)| is_reported(&table.name)) {
            let names: Vec<String> = members
                .iter()
                .map(|(table, column)| format!("{}.{}", table.name, column.name))
                .collect();
            found.push(Warning {
                kind: &UNLINKED_JOIN,
                place: names.join(", "),
                what: "named as if they were joined, and not of one link".to_owned(),
                details: Value::Null,
            });
        }
    }
    found.extend(link_rights(policy, tables, is_reported));
    found
}

/// Roles that may read some columns of a link, and not others that share a key with them.
fn link_rights(
    policy: &Draft,
    tables: &[CheckedTable],
    is_reported: &dyn Fn(&str) -> bool,
) -> Vec<Warning> {
    let mut links: BTreeMap<&str, Vec<(&CheckedTable, &CheckedColumn)>> = BTreeMap::new();
    for table in tables {
        for column in &table.columns {
            if let Some(link) = column.rules.link() {
                links.entry(link).or_default().push((table, column));
            }
        }
    }
    let mut found = Vec::new();
    for (role, rights) in policy.roles() {
        for (link, members) in &links {
            let (given, denied): (Vec<_>, Vec<_>) = (members.iter())
                .partition(|(table, column)| rights.reads(&table.name, &column.name));
            // Of one link, but under schemes that they do not share, columns have keys of their
            // own.
            let among = |members: &[&(&CheckedTable, &CheckedColumn)],
                         others: &[&(&CheckedTable, &CheckedColumn)]| {
                let shares = |column| others.iter().any(|(_, other)| links::share(column, other));
                let shared = members.iter().filter(|(_, column)| shares(column));
                shared
                    .map(|(table, column)| format!("{}.{}", table.name, column.name))
                    .collect()
            };
            let (may, opened): (Vec<String>, Vec<String>) =
                (among(&given, &denied), among(&denied, &given));
            if !opened.is_empty() && members.iter().any(|(table, _)| is_reported(&table.name)) {
                found.push(Warning {
                    kind: &LINK_RIGHTS,
                    place: format!("roles.{role}"),
                    what: format!(
                        "of the link \"{link}\" it may read {}, which opens {} too",
                        may.join(", "),
                        opened.join(", ")
                    ),
                    details: json!({ "role": role, "link": link, "columns": may, "opens": opened }),
                });
            }
        }
    }
    found
}

fn policy_changed(column: &CheckedColumn) -> Option<String> {
    let sorted = |protections: &[Protection]| {
        let mut sorted = protections.to_vec();
        sorted.sort_unstable();
        sorted
    };
    (sorted(&column.protections) != sorted(column.rules.protections())).then(|| {
        let stored: Vec<&str> = column
            .protections
            .iter()
            .map(|protection| protection.name())
            .collect();
        format!(
            "it is stored as {}, and the policy says {}",
            stored.join("+"),
            column.rules.text()
        )
    })
}

fn not_openable(column: &CheckedColumn) -> Option<String> {
    (!column.opens()).then(|| "no site can open it".to_owned())
}

/// How many values the column has, at most, with the words for it, if they are few and repeat.
fn few(column: &CheckedColumn) -> Option<(u64, String)> {
    let by_domain = size::of(column)
        .and_then(|size| u64::try_from(size).ok())
        .filter(|size| *size <= FEW)
        .map(|size| (size, format!("it has {} values at most", grouped(size))));
    let by_rows = column.seen.as_ref().and_then(|seen| {
        let distinct = seen.values.distinct.filter(|distinct| *distinct <= FEW)?;
        let rows = grouped(seen.values.count);
        let repeated = seen.values.count >= distinct.saturating_mul(2);
        repeated.then(|| {
            (
                distinct,
                format!("{} values in {rows} rows", grouped(distinct)),
            )
        })
    });
    by_rows.or(by_domain)
}

fn few_values(column: &CheckedColumn) -> Option<String> {
    let (_, words) = few(column).filter(|_| column.is_comparable())?;
    let shown = if column.is_ordered() {
        "their order and frequency show"
    } else {
        "their frequency shows"
    };
    Some(format!("{words}: {shown}"))
}

fn dense_order(column: &CheckedColumn) -> Option<String> {
    let distinct = column
        .seen
        .as_ref()?
        .values
        .distinct
        .filter(|distinct| column.is_ordered() && *distinct > 1)?;
    let size = size::of(column)?;
    let most = u128::from(distinct).saturating_mul(2) >= size;
    most.then(|| {
        format!(
            "{} of the {} values that it may have occur",
            grouped(distinct),
            grouped(size)
        )
    })
}

fn row_order(table: &CheckedTable, column: &CheckedColumn) -> Option<String> {
    let look = table
        .look
        .as_ref()
        .ok()
        .filter(|look| look.is_host_readable)?;
    let hidden = !column.is_ordered() && !column.has(Protection::Plain);
    let in_order = column
        .seen
        .as_ref()
        .is_some_and(|seen| seen.values.in_order);
    (hidden && in_order).then(|| {
        let read = grouped(look.rows_read);
        format!("of {read} rows that were looked at, nearly all lie in its order")
    })
}

fn ashe_rows(table: &CheckedTable, column: &CheckedColumn) -> Option<String> {
    if !column
        .protections
        .iter()
        .any(|protection| protection.uses(Setting::Rows))
    {
        return None;
    }
    let pinned = column
        .seen
        .iter()
        .flat_map(|seen| &seen.stored)
        .find_map(|stored| stored.rows);
    let most = size::of(column).map(size::most_rows);
    match (pinned.or(column.rules.rows()), most) {
        (Some(rows), Some(most)) if u128::from(rows) > most => Some(format!(
            "`rows` is {}, and sums of so wide a domain fit {} rows: coffer encrypt refuses it",
            grouped(rows),
            grouped(most)
        )),
        (Some(rows), _) => {
            let now = table.look.as_ref().ok().map(|look| look.rows)?;
            let near = now.saturating_mul(2) > rows;
            near.then(|| {
                format!(
                    "`rows` is {}, and the table has {} already",
                    grouped(rows),
                    grouped(now)
                )
            })
        }
        (None, Some(most)) => Some(format!(
            "`rows` is not said; a sum fits {} rows of a file",
            grouped(most)
        )),
        (None, None) => Some(
            "neither `rows` nor `domain` is said: how many rows a sum fits, the type decides"
                .to_owned(),
        ),
    }
}

fn link_alone(column: &CheckedColumn) -> Option<String> {
    let link = column.rules.link()?;
    column
        .linked
        .comparable
        .is_empty()
        .then(|| match column.linked.columns.as_slice() {
            [] => format!("no other column has the link \"{link}\""),
            others => format!(
                "it shares no protection with the other columns of the link \"{link}\": {}",
                others.join(", ")
            ),
        })
}

/// Said at the column that comes later by name.
fn link_unlike(tables: &[CheckedTable], column: &CheckedColumn) -> Option<String> {
    let link = column.rules.link()?;
    let earlier = tables
        .iter()
        .flat_map(|table| table.columns.iter().map(move |column| (table, column)))
        .take_while(|(_, other)| !std::ptr::eq(*other, column));
    let shape = |column: &CheckedColumn| (column.rules.domain().cloned(), column.rules.prefix());
    let unlike = earlier
        .filter(|(_, other)| other.name != OTHERS && other.rules.link() == Some(link))
        .find(|(_, other)| {
            column.is_ordered() && other.is_ordered() && shape(other) != shape(column)
        });
    unlike.map(|(table, other)| {
        format!(
            "its domain or prefix differs from that of {}.{}, of the same link",
            table.name, other.name
        )
    })
}

fn link_spreads(column: &CheckedColumn) -> Option<String> {
    let shown = shows::to_hosts(column).by_link;
    (!shown.is_empty()).then(|| {
        format!(
            "through {}, hosts also see {}",
            column.linked.comparable.join(", "),
            shown.join("; ")
        )
    })
}
