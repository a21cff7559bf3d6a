//! Columns whose ciphertexts can be compared: those of one link, and those that look as if they
//! should be.

use std::collections::BTreeMap;

use coffer_schemes::{Opener, Protection, Setting};

use super::{CheckedColumn, CheckedTable, OTHERS};

/// What a column's link makes of it.
#[derive(Default, Clone)]
pub(super) struct Linked {
    /// The other columns of the link, "table.column", whether or not they share a form with it.
    pub(super) columns: Vec<String>,
    /// Those among them that can be compared with it, directly or by way of others.
    pub(super) comparable: Vec<String>,
    /// The comparable protections of these.
    pub(super) protections: Vec<Protection>,
    /// How many bytes of a text are in their order, if it is of texts.
    pub(super) prefix: Option<u32>,
}

/// A column of a table, by positions.
type At = (usize, usize);

/// Fills in each column's [`Linked`].
pub(super) fn join(tables: &mut [CheckedTable]) {
    let mut groups: BTreeMap<String, Vec<At>> = BTreeMap::new();
    for (t, table) in tables.iter().enumerate() {
        for (c, column) in table.columns.iter().enumerate() {
            if let Some(link) = column.rules.link() {
                groups.entry(link.to_owned()).or_default().push((t, c));
            }
        }
    }
    let of = |tables: &[CheckedTable], members: &[At], own: At| {
        let column = |(t, c): At| {
            tables
                .get(t)
                .and_then(|table| Some((table, table.columns.get(c)?)))
        };
        let name =
            |at: &At| column(*at).map(|(table, column)| format!("{}.{}", table.name, column.name));
        let mut reached = vec![own];
        let mut next = 0;
        while let Some(from) = reached.get(next).copied() {
            for at in members {
                if !reached.contains(at)
                    && (column(from).zip(column(*at))).is_some_and(|(a, b)| share(a.1, b.1))
                {
                    reached.push(*at);
                }
            }
            next += 1;
        }
        let others = |among: &[At]| {
            among
                .iter()
                .filter(|at| **at != own)
                .filter_map(name)
                .collect()
        };
        let shown = |encoding: &Protection| {
            let others = reached.iter().filter(|at| **at != own);
            others
                .filter_map(|at| column(*at))
                .any(|(_, column)| column.has(*encoding))
        };
        Linked {
            columns: others(members),
            comparable: others(&reached),
            protections: Setting::Link.users().filter(shown).collect(),
            prefix: (reached.iter().filter_map(|at| column(*at)))
                .find_map(|(_, column)| column.prefix()),
        }
    };
    for members in groups.values() {
        for own in members {
            let linked = of(tables, members, *own);
            if let Some(column) = tables
                .get_mut(own.0)
                .and_then(|table| table.columns.get_mut(own.1))
            {
                column.linked = linked;
            }
        }
    }
}

/// Whether two columns of a link have ciphertexts under one key.
pub(super) fn share(a: &CheckedColumn, b: &CheckedColumn) -> bool {
    Setting::Link
        .users()
        .any(|encoding| a.has(encoding) && b.has(encoding))
}

/// Columns of different tables that are named as if they were joined.
pub(super) struct Alike<'a> {
    pub(super) members: Vec<(&'a CheckedTable, &'a CheckedColumn)>,
}

/// Groups of columns that are named alike, comparable, and not all of one link. Where enclaves may
/// open all of them, a join works there, and nothing is said.
pub(super) fn unlinked(tables: &[CheckedTable]) -> Vec<Alike<'_>> {
    let mut groups: BTreeMap<String, Vec<(&CheckedTable, &CheckedColumn)>> = BTreeMap::new();
    for table in tables {
        for column in &table.columns {
            if column.name != OTHERS && column.is_comparable() {
                for name in join_names(&table.name, &column.name) {
                    groups.entry(name).or_default().push((table, column));
                }
            }
        }
    }
    let mut found: Vec<Alike<'_>> = Vec::new();
    for members in groups.into_values() {
        let Some(((first_table, first), rest)) = members.split_first() else {
            continue;
        };
        let elsewhere = rest.iter().any(|(table, _)| table.name != first_table.name);
        let linked = first.rules.link().is_some()
            && rest
                .iter()
                .all(|(_, column)| column.rules.link() == first.rules.link());
        let in_enclaves = members
            .iter()
            .all(|(_, column)| column.openers().any(|opener| opener == Opener::Enclaves));
        let known = found.iter().any(|alike| same(&alike.members, &members));
        if elsewhere && !linked && !in_enclaves && !known {
            found.push(Alike { members });
        }
    }
    found
}

fn same(a: &[(&CheckedTable, &CheckedColumn)], b: &[(&CheckedTable, &CheckedColumn)]) -> bool {
    let pairs = a.iter().zip(b);
    a.len() == b.len() && pairs.into_iter().all(|(a, b)| std::ptr::eq(a.1, b.1))
}

/// The names under which a column may be joined: its own; for what looks like a key, also without a
/// prefix of up to three letters ("o_custkey" as "custkey"); an "id" of a table "customers" as
/// "customer_id".
fn join_names(table: &str, column: &str) -> Vec<String> {
    let column = column.to_lowercase();
    let mut names = vec![column.clone()];
    let stem = match column.split_once('_') {
        Some((prefix, rest))
            if prefix.len() <= 3 && rest.len() > 1 && prefix.chars().all(char::is_alphabetic) =>
        {
            rest
        }
        _ => column.as_str(),
    };
    if stem != column && is_key(stem) {
        names.push(stem.to_owned());
    }
    if matches!(stem, "id" | "key" | "code") {
        let table = table.rsplit('.').next().unwrap_or(table).to_lowercase();
        let table = table.strip_suffix('s').unwrap_or(&table).to_owned();
        // An "id" of its own says nothing of another table's.
        names = vec![format!("{table}_{stem}"), format!("{table}{stem}")];
    }
    names
}

fn is_key(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name);
    matches!(
        last,
        "id" | "key" | "code" | "no" | "nr" | "num" | "number" | "uuid" | "ref"
    ) || last.ends_with("key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_joined() {
        let meet = |a: (&str, &str), b: (&str, &str)| {
            let b = join_names(b.0, b.1);
            join_names(a.0, a.1).iter().any(|name| b.contains(name))
        };
        assert!(meet(("customer", "c_custkey"), ("orders", "o_custkey")));
        assert!(meet(("partsupp", "ps_suppkey"), ("lineitem", "l_suppkey")));
        assert!(meet(("customers", "id"), ("orders", "customer_id")));
        assert!(meet(("sales.customers", "ID"), ("orders", "customerid")));
        assert!(meet(("employees", "category"), ("budgets", "Category")));
        assert!(!meet(("customer", "c_comment"), ("orders", "o_comment")));
        assert!(!meet(("customers", "id"), ("orders", "id")));
        assert!(!meet(("orders", "o_orderkey"), ("lineitem", "l_partkey")));
    }
}
