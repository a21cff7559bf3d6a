//! Reading that does not depend on what is read: every row group and page of a scan's columns,
//! whatever its rows are and whatever the plan makes of them.
//!
//! The scan then prunes nothing (`ScanExec` of the plan); and what a plan left unread, because a
//! limit was reached or one side of a join was empty, is read by [`read_rest`] when the plan is
//! done.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use parking_lot::Mutex;

use crate::{
    ScanFiles, files,
    reader::{SealedFile, read_range},
};

/// Which bytes of storage a scan has read, by file.
#[derive(Debug, Default)]
pub struct BytesSeen(Mutex<HashMap<Arc<str>, Vec<Range<u64>>>>);

impl BytesSeen {
    pub(crate) fn note(&self, path: &Arc<str>, range: &Range<u64>) {
        let mut files = self.0.lock();
        files
            .entry(Arc::clone(path))
            .or_default()
            .push(range.clone());
    }

    fn has(&self, path: &str, range: &Range<u64>) -> bool {
        let files = self.0.lock();
        files.get(path).is_some_and(|seen| {
            seen.iter()
                .any(|seen| seen.start <= range.start && range.end <= seen.end)
        })
    }
}

/// Reads the column chunks of a task's scan that it has not read, row group by row group, and drops
/// them. `schema` has the columns of the scan. Does nothing for a scan that may prune.
pub async fn read_rest(schema: &SchemaRef, task: &ScanFiles) -> Result<()> {
    let Some(seen) = &task.whole else {
        return Ok(());
    };
    for (slice, opened) in task
        .slices
        .iter()
        .zip(files::open(task, schema).await?.files)
    {
        let Some(file) = opened.extension::<SealedFile>() else {
            continue;
        };
        let groups = files::row_groups(slice, &file.metadata)?;
        for group in file
            .metadata
            .row_groups()
            .iter()
            .take(groups.end)
            .skip(groups.start)
        {
            for column in group.columns() {
                let name = coffer_format::footer::root(column.column_path());
                if schema.column_with_name(name).is_none() {
                    continue;
                }
                let (start, length) = column.byte_range();
                let range = start..start.saturating_add(length).min(file.size);
                if !seen.has(&file.path, &range) {
                    let of = (&*file.path, file.size);
                    read_range(task.store.as_ref(), of, range, &task.bytes_read).await?;
                }
            }
        }
    }
    Ok(())
}
