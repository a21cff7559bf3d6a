//! Scans of files that lie far away: what is asked for before it is needed.

use std::{
    collections::HashSet,
    fs, io,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use coffer_protocol::storage::{Entry, Storage};
use coffer_scan::ScanFiles;
use futures::StreamExt;
use parking_lot::Mutex;

use crate::{
    scan::{Table, at_least, table, wanted},
    support::{MemoryIo, body, context, plan, read, scan},
};

/// A folder as storage that is far away, and what of it was asked for.
#[derive(Debug, Default)]
struct Far {
    folder: PathBuf,
    asked: Mutex<Vec<Range<u64>>>,
    /// So many questions fail, behind the first so many.
    fails: (usize, usize),
    questions: AtomicUsize,
    /// Of a question with this number one bit is another.
    flips: Option<usize>,
}

#[async_trait]
impl Storage for Far {
    async fn size(&self, path: &str) -> io::Result<Option<u64>> {
        let file = self.folder.join(path.trim_start_matches("far://b/"));
        Ok(fs::metadata(file).ok().map(|found| found.len()))
    }

    async fn ranges(&self, path: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        if (self.fails.0..self.fails.0 + self.fails.1).contains(&number) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        self.asked.lock().extend_from_slice(ranges);
        // As over a network: nothing is there at once.
        tokio::task::yield_now().await;
        let whole = fs::read(self.folder.join(path.trim_start_matches("far://b/")))?;
        let part = |range: &Range<u64>| {
            let mut part = whole[range.start as usize..range.end as usize].to_vec();
            if self.flips == Some(number) {
                let middle = part.len() / 2;
                part[middle] ^= 1;
            }
            Bytes::from(part)
        };
        Ok(ranges.iter().map(part).collect())
    }

    fn is_far(&self, _: &str) -> bool {
        true
    }

    async fn put(&self, _: &str, _: u64, _: Bytes, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn put_if_absent(&self, _: &str, _: Bytes) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn list(&self, _: &str) -> io::Result<Vec<Entry>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn delete(&self, _: &str, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn far(table: &Table, store: Far) -> (ScanFiles, Arc<Far>) {
    let path = table.path();
    let store = Arc::new(Far {
        folder: path.parent().unwrap().to_owned(),
        ..store
    });
    let mut slice = table.slice(0, 10);
    slice.path = format!("far://b/{}", path.file_name().unwrap().to_str().unwrap());
    let mut files = table.files(vec![slice], [1, 3]);
    files.store = Arc::clone(&store) as Arc<dyn Storage>;
    (files, store)
}

/// Ranges that were asked for when the first rows were there.
async fn at_first(files: ScanFiles, store: &Far) -> usize {
    let mut io = MemoryIo::default();
    io.scans.insert(4, files);
    let plan = plan(&scan(&wanted(), vec![]), 1).unwrap();
    let mut rows = plan.execute(0, context(io, 3)).unwrap();
    rows.next().await.unwrap().unwrap();
    store.asked.lock().len()
}

#[tokio::test]
async fn next_row_groups_are_asked_for_and_nothing_twice() {
    let table = table();
    let near = table.files(vec![table.slice(0, 10)], [1, 3]);
    for pushed in [vec![], vec![at_least(1, 450)], vec![at_least(1, 995)]] {
        let (files, store) = far(&table, Far::default());
        let rows = read(files.clone(), &wanted(), pushed.clone())
            .await
            .unwrap();
        let wanted_rows = read(near.clone(), &wanted(), pushed.clone()).await.unwrap();
        assert_eq!(body(&rows), body(&wanted_rows));
        let asked = store.asked.lock();
        let once: HashSet<_> = asked.iter().cloned().collect();
        assert_eq!(asked.len(), once.len(), "{asked:?}");
        // Row groups that statistics rule out are not asked for: no more than is read.
        let read: u64 = asked.iter().map(|range| range.end - range.start).sum();
        assert_eq!(read, files.bytes_read.load(Ordering::Relaxed));
    }
    let (files, store) = far(&table, Far::default());
    // The footer, and two columns of each of five row groups.
    assert_eq!(at_first(files, &store).await, 11);
}

#[tokio::test]
async fn nothing_is_read_ahead_where_reading_must_not_depend_on_data() {
    let table = table();
    let (mut files, store) = far(&table, Far::default());
    files.whole = Some(Arc::default());
    assert_eq!(at_first(files, &store).await, 3);
}

#[tokio::test]
async fn what_was_asked_for_early_is_checked_as_all_else() {
    let table = table();
    for number in 0..6 {
        let flips = Some(number);
        let (files, _) = far(
            &table,
            Far {
                flips,
                ..Far::default()
            },
        );
        let refused = read(files, &wanted(), vec![]).await;
        assert!(refused.is_err(), "question {number}");
    }
}

#[tokio::test]
async fn what_failed_early_is_asked_for_again() {
    let table = table();
    let fails = |fails| Far {
        fails,
        ..Far::default()
    };
    // Behind the footer and the first row group.
    let (files, _) = far(&table, fails((2, 4)));
    let rows = read(files, &wanted(), vec![]).await.unwrap();
    assert_eq!(rows.num_rows(), 1000);
    let (files, _) = far(&table, fails((2, usize::MAX - 2)));
    assert!(read(files, &wanted(), vec![]).await.is_err());
}
