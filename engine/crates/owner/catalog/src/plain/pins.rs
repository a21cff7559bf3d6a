//! Digests of the column chunks that a query reads of plain files.
//!
//! They are taken at the client site, before a task of the query runs, and are the same for all of
//! its tasks, stages, repeats and results. Else a host could run a task again over a page that it
//! has rewritten, and see from the sizes of what comes out whether its guess joins.
//!
//! What a digest costs is one more reading of what the query reads, here. It is done by as many
//! threads as there are processors; of storage that is asked through a port by [`ASKING`], each of
//! which holds one block.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use coffer_format::{Digest, Error as FormatError};
use coffer_protocol::storage::{Reach, url};

use crate::{
    Error,
    plain::{PlainFile, PlainTable, still_ends_so},
    table_file::TableFile,
};

/// Questions that a driver answers at the same time.
const ASKING: usize = 4;
/// More would wait for storage rather than for a processor.
const THREADS: usize = 8;

/// What the chunks were when the query first read them: by path and footer of their file, then by
/// row group and leaf.
#[derive(Debug, Default)]
pub struct ChunkPins(HashMap<(PathBuf, Digest), HashMap<(usize, usize), Digest>>);

/// One file's chunks that are to be pinned.
struct Work<'a> {
    file: &'a PlainFile,
    chunks: Vec<(usize, usize, Range<u64>)>,
}

impl ChunkPins {
    /// Pins these columns in all row groups of the table, but for those that are pinned already.
    /// How many bytes were read for it.
    pub fn pin(
        &mut self,
        table: &PlainTable,
        columns: &[String],
        reach: &Reach,
    ) -> Result<u64, Error> {
        let positions: Vec<usize> = columns
            .iter()
            .filter_map(|name| position(table, name))
            .collect();
        let mut works = Vec::new();
        // A file that is there twice is read once.
        let mut met = HashSet::new();
        for file in table.files.iter().filter(|file| met.insert(&file.path)) {
            let pinned = self.0.get(&key(file));
            let mut chunks = Vec::new();
            for (group, ranges) in file.chunks.iter().enumerate() {
                for (leaf, column) in file.columns.iter().enumerate() {
                    if !positions.contains(column) {
                        continue;
                    }
                    let range = ranges.get(leaf).ok_or(FormatError::PlainChanged)?;
                    if pinned.is_none_or(|pinned| !pinned.contains_key(&(group, leaf))) {
                        chunks.push((group, leaf, range.clone()));
                    }
                }
            }
            if !chunks.is_empty() {
                works.push(Work { file, chunks });
            }
        }
        for (work, digests) in works.iter().zip(digests_of(&works, reach)?) {
            let pinned = self.0.entry(key(work.file)).or_default();
            for ((group, leaf, _), digest) in work.chunks.iter().zip(digests) {
                pinned.insert((*group, *leaf), digest);
            }
        }
        let chunks = works.iter().flat_map(|work| &work.chunks);
        Ok(chunks
            .map(|(_, _, range)| range.end.saturating_sub(range.start))
            .sum())
    }

    /// The digests of a column in some row groups of a file, of each of its leaves in turn; none if
    /// it is not pinned.
    pub fn of(
        &self,
        table: &PlainTable,
        file: &PlainFile,
        groups: Range<usize>,
        column: &str,
    ) -> Option<Vec<Digest>> {
        let column = position(table, column)?;
        let pinned = self.0.get(&key(file))?;
        let leaves = || {
            let leaves = file.columns.iter().enumerate();
            leaves
                .filter(|(_, of)| **of == column)
                .map(|(leaf, _)| leaf)
        };
        groups
            .flat_map(|group| leaves().map(move |leaf| (group, leaf)))
            .map(|chunk| pinned.get(&chunk).copied())
            .collect()
    }
}

/// All files of a table have its columns, in its order.
fn position(table: &PlainTable, column: &str) -> Option<usize> {
    table.columns.iter().position(|known| known.0 == column)
}

fn key(file: &PlainFile) -> (PathBuf, Digest) {
    (file.path.clone(), file.pin.footer_sha256)
}

/// File by file, each read by one thread.
fn digests_of(works: &[Work<'_>], reach: &Reach) -> Result<Vec<Vec<Digest>>, Error> {
    let is_remote = |work: &Work<'_>| url(&work.file.path).is_some();
    let threads = match works.iter().any(is_remote) {
        true => ASKING,
        false => thread::available_parallelism().map_or(1, usize::from),
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((at, work)) = take(works, &next) {
            done.push((at, read(work, reach)?));
        }
        Ok::<_, Error>(done)
    };
    let mut all: Vec<(usize, Vec<Digest>)> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(THREADS).min(works.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut all = Vec::with_capacity(works.len());
        for thread in running {
            all.extend(thread.join().map_err(|_| FormatError::PlainChanged)??);
        }
        Ok::<_, Error>(all)
    })?;
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, digests)| digests).collect())
}

fn take<'a, 'b>(works: &'a [Work<'b>], next: &AtomicUsize) -> Option<(usize, &'a Work<'b>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    works.get(at).map(|work| (at, work))
}

fn read(work: &Work<'_>, reach: &Reach) -> Result<Vec<Digest>, Error> {
    let path = &work.file.path;
    let (file, size) = TableFile::open(reach, path).map_err(Error::io("read", path))?;
    still_ends_so(&file, size, path, &work.file.pin)?;
    let digest = |(_, _, range): &(usize, usize, Range<u64>)| {
        let digest = file.digest(range.clone());
        let digest = digest.map_err(Error::io("read", path))?;
        digest.ok_or_else(|| FormatError::PlainChanged.into())
    };
    work.chunks.iter().map(digest).collect()
}
