//! What a session uses of tables, for the audit log and for rights that change meanwhile.

use std::collections::{BTreeMap, btree_map::Entry};

use coffer_audit::TableUse;
use coffer_catalog::TableWrite;
use coffer_custody::{Draft, Rights};
use coffer_protocol::EvidenceKinds;
use coffer_sealing::{Kek, KekSet};

use crate::table::Opened;

/// How the log calls plain inputs. No table can be called so.
const UNVERIFIED: &str = "unverified input";

/// What a session has used of tables so far.
#[derive(Clone, Default)]
pub(crate) struct Uses {
    /// By id, version, and whether it is written.
    tables: BTreeMap<(String, u64, bool), TableUse>,
    /// Whether the log lacks some of them.
    unrecorded: bool,
}

impl Uses {
    /// Columns of a table's files that a stage reads, and the KEKs that it takes.
    pub(crate) fn read<'a>(
        &mut self,
        table: &Opened,
        file_columns: impl IntoIterator<Item = &'a str>,
        keks: &KekSet,
    ) {
        let empty = match table {
            Opened::Sealed(sealed) => TableUse {
                name: sealed.name().to_owned(),
                id: sealed.manifest().table.to_string(),
                version: sealed.manifest().version,
                manifest: format!("{:?}", sealed.hash()),
                master: sealed.master().to_owned(),
                ..TableUse::default()
            },
            Opened::Plain(plain) => TableUse {
                name: UNVERIFIED.to_owned(),
                id: format!("{:?}", plain.digest()),
                ..TableUse::default()
            },
        };
        let columns = file_columns
            .into_iter()
            .filter_map(|name| table.column_of(name));
        self.add(empty, columns.map(str::to_owned), keks);
    }

    /// What another session has read, of rows that this one reads in their place.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (position, theirs) in other.tables.iter().filter(|(_, used)| !used.write) {
            let held = self.tables.entry(position.clone());
            self.unrecorded |= matches!(held, Entry::Vacant(_));
            let held = held.or_insert_with(|| theirs.clone());
            self.unrecorded |= add_names(
                held,
                theirs.columns.iter().cloned(),
                theirs.keys.iter().cloned(),
            );
        }
    }

    /// A table that a stage writes.
    pub(crate) fn write(&mut self, write: &TableWrite) {
        let columns = write.columns().iter().map(|column| column.name.clone());
        self.add(written(write), columns, write.keks());
    }

    /// What was used of tables of this owner.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableUse> {
        self.tables.values().filter(|used| used.name != UNVERIFIED)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// As a record has them.
    pub(crate) fn all(&self) -> Vec<TableUse> {
        self.tables.values().cloned().collect()
    }

    /// Whether the log has all of them.
    pub(crate) fn are_recorded(&self) -> bool {
        !self.unrecorded
    }

    /// The log has all of them now.
    pub(crate) fn recorded(&mut self) {
        self.unrecorded = false;
    }

    /// Whether these rights still allow all of them.
    pub(crate) fn are_within(&self, rights: &Rights) -> bool {
        self.tables().all(|used| {
            let reads = used
                .columns
                .iter()
                .all(|column| rights.reads(&used.name, column));
            reads && (!used.write || rights.writes(&used.name))
        })
    }

    /// The kinds of evidence that an engine must all have shown to get a session's keys, by
    /// table. They seal the rows that it passes on, so what one column wants holds for all that it
    /// uses.
    pub(crate) fn wanted(&self, policy: &Draft) -> Vec<(String, EvidenceKinds)> {
        let wanted = self.tables().map(|used| {
            let id = used.id.parse().ok();
            let named = id.and_then(|id| policy.table_of(id));
            let columns = used.columns.iter().map(String::as_str);
            let kinds = match named.or_else(|| policy.table(&used.name).ok()) {
                Some(table) => table.evidence(columns),
                None => policy.unnamed_table(&used.name).evidence(columns),
            };
            (used.name.clone(), kinds)
        });
        wanted.filter(|(_, kinds)| !kinds.is_empty()).collect()
    }

    fn add(&mut self, empty: TableUse, columns: impl Iterator<Item = String>, keks: &KekSet) {
        let position = (empty.id.clone(), empty.version, empty.write);
        self.unrecorded |= !self.tables.contains_key(&position);
        let held = self.tables.entry(position).or_insert(empty);
        let keys = keks.iter().map(Kek::id).map(|id| id.to_string());
        self.unrecorded |= add_names(held, columns, keys);
    }
}

/// Adds columns and keys to a use; whether any was missing.
fn add_names(
    held: &mut TableUse,
    columns: impl Iterator<Item = String>,
    keys: impl Iterator<Item = String>,
) -> bool {
    let before = held.columns.len() + held.keys.len();
    held.columns.extend(columns);
    held.keys.extend(keys);
    for names in [&mut held.columns, &mut held.keys] {
        names.sort_unstable();
        names.dedup();
    }
    held.columns.len() + held.keys.len() > before
}

/// A table that is written, without its columns.
pub(crate) fn written(write: &TableWrite) -> TableUse {
    TableUse {
        name: write.name().to_owned(),
        id: write.table().to_string(),
        version: write.version(),
        write: true,
        ..TableUse::default()
    }
}
