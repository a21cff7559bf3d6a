//! Tables that the client engine reads itself, for the part of a plan that runs here: where no
//! engine may open what a query needs.
//!
//! Files, row groups and footers are pinned by the manifest as they are for enclaves, so what is
//! read is authentic and whole; the keys stay in this process.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::AtomicU64},
};

use arrow::datatypes::SchemaRef;
use coffer_catalog::{ChunkPins, VerifiedManifest};
use coffer_plan::{ScanSource, boundary_schema};
use coffer_protocol::{plan::Scan, storage::Reach, wire::FileSlice};
use coffer_scan::{BytesSeen, FooterCache, ReadLimit, ScanFiles, TableFiles, read_rest};
use datafusion_common::{Result as DataResult, internal_datafusion_err};

use crate::{ClientError, table::Opened};

/// The scans of one run, by id.
#[derive(Default)]
pub(crate) struct Reads(pub(crate) HashMap<u32, Read>);

pub(crate) struct Read {
    /// As the owner calls the table.
    table: String,
    /// That are read, as the owner calls them.
    columns: BTreeSet<String>,
    schema: SchemaRef,
    pub(crate) files: ScanFiles,
    limit: Arc<ReadLimit>,
    most: u64,
}

impl Read {
    pub(crate) fn new(
        table: &Opened,
        sealed: &VerifiedManifest,
        scan: &Scan,
        columns: &[String],
        (most, whole): (u64, bool),
        reach: &Reach,
    ) -> Result<Self, ClientError> {
        let declared = scan
            .schema
            .as_ref()
            .ok_or(ClientError::Malformed("fragment"))?;
        for field in &declared.fields {
            if !table.has(field) {
                return Err(ClientError::ClientColumn(field.name.clone()));
            }
        }
        let keys = table.keks(columns.iter().map(String::as_str))?;
        let limit = Arc::new(ReadLimit::new(most));
        let files = ScanFiles {
            slices: slices(table, columns)?,
            keys: Arc::new(keys),
            footers: Arc::new(FooterCache::default()),
            store: Arc::new(TableFiles::reaching(reach.clone())),
            bytes_read: Arc::new(AtomicU64::new(0)),
            whole: whole.then(|| Arc::new(BytesSeen::default())),
            limit: Some(Arc::clone(&limit)),
        };
        Ok(Self {
            table: sealed.name().to_owned(),
            columns: columns.iter().map(|name| shown(table, name)).collect(),
            schema: boundary_schema(declared)?,
            files,
            limit,
            most,
        })
    }
}

/// What the owner calls one of the files' columns; a number that says where a row is has no other
/// name.
fn shown(table: &Opened, name: &str) -> String {
    table.column_of(name).unwrap_or(name).to_owned()
}

/// All row groups of all files.
fn slices(table: &Opened, columns: &[String]) -> Result<Vec<FileSlice>, ClientError> {
    let mut slices = Vec::new();
    for file in 0..table.files() {
        let groups = u32::try_from(table.row_groups(file).unwrap_or_default());
        let groups = groups.map_err(|_| ClientError::Malformed("a file too large"))?;
        if groups > 0 {
            let slice = table.slice(file, 0..groups, columns, &ChunkPins::default());
            slices.push(slice.ok_or(ClientError::Malformed("a file's name"))?);
        }
    }
    Ok(slices)
}

impl Reads {
    pub(crate) fn files(&self, scan: u32) -> DataResult<Arc<dyn ScanSource>> {
        let read = self.0.get(&scan);
        let read =
            read.ok_or_else(|| internal_datafusion_err!("scan {scan} is not of this fragment"))?;
        Ok(Arc::new(read.files.clone()))
    }

    /// Whether a scan wanted more than it may read, which is then why the run failed.
    pub(crate) fn passed(&self) -> Option<ClientError> {
        let read = self.0.values().find(|read| read.limit.was_passed())?;
        let names: Vec<&str> = read.columns.iter().map(String::as_str).collect();
        Some(ClientError::TooMuchRead {
            table: read.table.clone(),
            columns: names.join("`, `"),
            most: read.most,
        })
    }

    /// Reads what the plan left unread, where reading must not depend on data.
    pub(crate) async fn rest(&self) -> DataResult<()> {
        for read in self.0.values() {
            read_rest(&read.schema, &read.files).await?;
        }
        Ok(())
    }
}
