//! The tables that a stage reads.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use coffer_protocol::wire::SealStage;
use coffer_sealing::{Kek, KekId, KekSet};

use super::{leaves::Leaves, wrong};
use crate::{ClientError, Service, prune, table::Opened};

/// One table that a stage reads.
pub(super) struct Source {
    pub(super) table: Arc<Opened>,
    pub(super) keks: KekSet,
    pub(super) ids: Vec<KekId>,
    /// That the scan reads.
    pub(super) columns: Vec<String>,
    /// Those, and what else it has the keys of.
    pub(super) used: Vec<String>,
    /// The side of a Cartesian product that it lies below.
    pub(super) side: u32,
    /// Files that no task is given, as none of their rows can pass.
    pub(super) unneeded: BTreeSet<u32>,
}

impl Service {
    /// The tables of a stage's scans, with the keys that they take, if the user may read them.
    pub(super) fn sources(
        &self,
        request: &SealStage,
        leaves: &Leaves,
        read_all: bool,
    ) -> Result<HashMap<u32, Source>, ClientError> {
        let stage = request.stage;
        let mut sources = HashMap::new();
        for asked in &request.scans {
            let scan = leaves
                .scans
                .get(&asked.scan_id)
                .ok_or(wrong(stage, "a scan that the fragment does not have"))?;
            let table = self.table(asked.handle)?;
            let mut columns: BTreeSet<&str> = asked.columns.iter().map(String::as_str).collect();
            for field in scan.schema.iter().flat_map(|schema| &schema.fields) {
                if !table.has(field) {
                    return Err(ClientError::Column {
                        stage,
                        column: field.name.clone(),
                    });
                }
                columns.insert(&field.name);
            }
            self.may_read(&table, columns.iter().copied())?;
            let used = columns.iter().map(ToString::to_string).collect();
            let keks = table.keks(columns)?;
            let ids = keks.iter().map(Kek::id).collect();
            let side = asked.side;
            let read = scan.schema.iter().flat_map(|schema| &schema.fields);
            let source = Source {
                keks,
                ids,
                columns: read.map(|field| field.name.clone()).collect(),
                used,
                side,
                unneeded: match read_all {
                    true => BTreeSet::new(),
                    false => prune::unneeded(&table, scan),
                },
                table,
            };
            if sources.insert(asked.scan_id, source).is_some() {
                return Err(wrong(stage, "a scan that is named twice"));
            }
        }
        if sources.len() != leaves.scans.len() {
            return Err(wrong(stage, "a scan of the fragment without a table"));
        }
        Ok(sources)
    }
}

/// Host engines get no key of a column, and no rows of the query's own: what goes to them is as
/// good as in clear.
pub(super) fn for_hosts(
    leaves: &Leaves,
    sources: &HashMap<u32, Source>,
    writes: bool,
) -> Result<(), ClientError> {
    let mut ids = sources.values().flat_map(|source| &source.ids);
    if ids.any(|id| id.column_id().is_some()) {
        return Err(ClientError::ForHosts("the key of a column"));
    }
    if leaves.values {
        return Err(ClientError::ForHosts("rows that the query brings along"));
    }
    if writes {
        return Err(ClientError::ForHosts("a table to write"));
    }
    Ok(())
}
