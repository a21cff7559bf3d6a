//! Files that lie elsewhere than on local disks, and the port through which they are asked for.
//!
//! Whoever serves them holds credentials and may answer anything. So a [`Remote`] bounds each
//! request before it is sent, and takes only answers of the asked shape: as many ranges, each as
//! long as asked, names in ascending order without a slash. Whether the bytes are the right ones is
//! said by digests and tags, where they are used.
//!
//! An answer is decoded before it is looked at: carriers take none over [`ANSWER_MOST`] bytes.
//!
//! What it does not do: keep from the host which files and ranges are read.

use std::{fmt, io, ops::Range, path::Path, sync::Arc};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::port::{
    StorageAnswer, StorageRequest,
    storage_answer::{self, Failure, Kind},
    storage_request::{self, Delete, List, Put, PutIfAbsent, Range as PortRange, Ranges, Size},
};

/// The longest answer: the bytes of one request for ranges, or a page of the longest names.
pub const ANSWER_MOST: usize = 12 << 20;

/// Bytes of one request for ranges, and so of its answer.
const RANGES_MOST: u64 = 8 << 20;
/// Ranges of one request.
const RANGES_COUNT: usize = 1024;
/// Bytes of one part that is put.
const PART: usize = 4 << 20;
/// Requests of one reading that are under way at the same time.
const IN_FLIGHT: usize = 4;
/// Entries of one answer.
const ENTRIES_PAGE: usize = 10_000;
/// Entries of a folder, and of all below it.
pub const ENTRIES_MOST: usize = 1_000_000;
/// Bytes of all these entries' names.
pub const NAMES_MOST: usize = 128 << 20;
/// Bytes of a name: as many as S3 gives a whole key.
const NAME_MOST: usize = 1024;
/// Ranges closer to each other than this are asked for as one.
const GAP: u64 = 64 << 10;
/// What is kept of a server's own words.
const MESSAGE: usize = 500;
/// An answer of no bytes of a file and no names, or what surrounds these.
const ANSWER_LEAST: usize = 64 << 10;

/// The URL that a path is, if it is one: `scheme://…`. Local paths of tables are absolute, and a
/// URL as a path is not.
pub fn url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, rest) = text.split_once(':')?;
    (!scheme.is_empty() && !scheme.contains('/') && rest.starts_with("//")).then_some(text)
}

/// What lies in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name there.
    pub name: String,
    /// Whether it is a folder itself.
    pub folder: bool,
}

/// Where files are. Paths are whole: of local files absolute, else URLs.
#[async_trait]
pub trait Storage: fmt::Debug + Send + Sync {
    /// The length of a file in bytes; none if there is no file of that name.
    async fn size(&self, path: &str) -> io::Result<Option<u64>>;

    /// These bytes of a file, each exactly as long as its range. Errors of kind `NotFound` where
    /// there is no such file, `UnexpectedEof` where it ends before.
    async fn ranges(&self, path: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>>;

    /// The same of a file whose length is known, which storage then need not look up.
    async fn ranges_of(
        &self,
        path: &str,
        _size: u64,
        ranges: &[Range<u64>],
    ) -> io::Result<Vec<Bytes>> {
        self.ranges(path, ranges).await
    }

    /// Whether a file's bytes come over a way on which they may be asked for before they are
    /// needed.
    fn is_far(&self, _path: &str) -> bool {
        false
    }

    /// The next bytes of a file that was not there: parts come in order, and `last` makes it whole
    /// and durable.
    async fn put(&self, path: &str, offset: u64, bytes: Bytes, last: bool) -> io::Result<()>;

    /// A whole file, durably; false where there is one of that name. What storage says here is not
    /// to be relied upon: the register decides what counts.
    async fn put_if_absent(&self, path: &str, bytes: Bytes) -> io::Result<bool>;

    /// What lies right in a folder, by name; nothing in one that is not there.
    async fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Removes a file, or an empty folder. What is not there is removed.
    async fn delete(&self, path: &str, folder: bool) -> io::Result<()>;
}

/// How files are reached whose paths are URLs; none: not at all.
pub type Reach = Option<Arc<dyn Storage>>;

/// Bytes of the longest answer that a request may have.
pub fn answer_most(request: &StorageRequest) -> usize {
    match &request.of {
        Some(storage_request::Of::List(_)) => ANSWER_MOST,
        Some(storage_request::Of::Ranges(asked)) => {
            let sizes = asked
                .ranges
                .iter()
                .map(|range| range.end.saturating_sub(range.start));
            let bytes = sizes.fold(0_u64, u64::saturating_add);
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            bytes.saturating_add(ANSWER_LEAST).min(ANSWER_MOST)
        }
        _ => ANSWER_LEAST,
    }
}

/// Carries a request to whoever serves storage, and its answer back.
#[async_trait]
pub trait Port: Send + Sync {
    /// One request's answer. Any number at the same time.
    async fn ask(&self, request: StorageRequest) -> io::Result<StorageAnswer>;
}

/// Storage behind a port, none of whose answers is believed.
pub struct Remote<P>(P);

impl<P: Port> Remote<P> {
    /// Through this port.
    pub fn new(port: P) -> Self {
        Self(port)
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.0
    }

    async fn ask(&self, of: storage_request::Of) -> io::Result<storage_answer::Of> {
        let answer = self.0.ask(StorageRequest { of: Some(of) }).await?;
        match answer.of {
            Some(storage_answer::Of::Failure(failure)) => Err(failed(&failure)),
            Some(of) => Ok(of),
            None => Err(hostile("an empty answer")),
        }
    }

    /// One request's worth of ranges.
    async fn ranges_once(
        &self,
        path: &str,
        size: Option<u64>,
        ranges: Vec<Range<u64>>,
    ) -> io::Result<Vec<Bytes>> {
        let request = Ranges {
            path: path.to_owned(),
            size,
            ranges: ranges
                .iter()
                .map(|range| PortRange {
                    start: range.start,
                    end: range.end,
                })
                .collect(),
        };
        let storage_answer::Of::Ranges(answer) =
            self.ask(storage_request::Of::Ranges(request)).await?
        else {
            return Err(hostile("another answer than ranges"));
        };
        if answer.ranges.len() != ranges.len() {
            return Err(hostile("another number of ranges"));
        }
        for (bytes, range) in answer.ranges.iter().zip(&ranges) {
            match length(bytes).cmp(&span(range)) {
                std::cmp::Ordering::Less => return Err(io::ErrorKind::UnexpectedEof.into()),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => {
                    return Err(hostile("more bytes than were asked for"));
                }
            }
        }
        Ok(answer.ranges)
    }

    /// Ranges that lie near each other are asked for as one, several requests at the same time.
    async fn read(
        &self,
        path: &str,
        size: Option<u64>,
        ranges: &[Range<u64>],
    ) -> io::Result<Vec<Bytes>> {
        if ranges.iter().any(|range| range.start > range.end) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let joined = join(ranges);
        let requests = requests(&joined);
        let asking = requests.clone().into_iter();
        let asking = asking.map(|request| self.ranges_once(path, size, request));
        let answers: Vec<Vec<Bytes>> = stream::iter(asking)
            .buffered(IN_FLIGHT)
            .try_collect()
            .await?;
        let pieces = requests.into_iter().flatten();
        let pieces: Vec<_> = pieces.zip(answers.into_iter().flatten()).collect();
        ranges.iter().map(|range| part(&pieces, range)).collect()
    }

    async fn done(&self, of: storage_request::Of) -> io::Result<()> {
        match self.ask(of).await? {
            storage_answer::Of::Done(_) => Ok(()),
            _ => Err(hostile("another answer than that it was done")),
        }
    }
}

impl<P> fmt::Debug for Remote<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

#[async_trait]
impl<P: Port> Storage for Remote<P> {
    async fn size(&self, path: &str) -> io::Result<Option<u64>> {
        let path = path.to_owned();
        match self.ask(storage_request::Of::Size(Size { path })).await? {
            storage_answer::Of::Size(size) => Ok(size.bytes),
            _ => Err(hostile("another answer than a size")),
        }
    }

    async fn ranges(&self, path: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        self.read(path, None, ranges).await
    }

    async fn ranges_of(
        &self,
        path: &str,
        size: u64,
        ranges: &[Range<u64>],
    ) -> io::Result<Vec<Bytes>> {
        self.read(path, Some(size), ranges).await
    }

    fn is_far(&self, _: &str) -> bool {
        true
    }

    async fn put(&self, path: &str, offset: u64, bytes: Bytes, last: bool) -> io::Result<()> {
        let mut rest = bytes;
        let mut offset = offset;
        loop {
            let part = rest.split_to(rest.len().min(PART));
            let end = rest.is_empty();
            let taken = length(&part);
            let put = Put {
                path: path.to_owned(),
                offset,
                bytes: part,
                last: last && end,
            };
            self.done(storage_request::Of::Put(put)).await?;
            offset = offset.saturating_add(taken);
            if end {
                return Ok(());
            }
        }
    }

    async fn put_if_absent(&self, path: &str, bytes: Bytes) -> io::Result<bool> {
        let path = path.to_owned();
        let put = storage_request::Of::PutIfAbsent(PutIfAbsent { path, bytes });
        match self.ask(put).await? {
            storage_answer::Of::PutIfAbsent(answer) => Ok(!answer.taken),
            _ => Err(hostile("another answer than to a put")),
        }
    }

    async fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut named = 0_usize;
        loop {
            let last = entries.last().map_or("", |entry| entry.name.as_str());
            let list = List {
                path: folder.to_owned(),
                after: last.to_owned(),
            };
            let storage_answer::Of::List(page) = self.ask(storage_request::Of::List(list)).await?
            else {
                return Err(hostile("another answer than a listing"));
            };
            if page.entries.len() > ENTRIES_PAGE || page.more && page.entries.is_empty() {
                return Err(hostile("a listing of another length"));
            }
            for entry in page.entries {
                let after = entries.last().is_none_or(|last| last.name < entry.name);
                if !after || !is_name(&entry.name) {
                    return Err(hostile("a listing out of order, or of what are no names"));
                }
                named = named.saturating_add(entry.name.len());
                entries.push(Entry {
                    name: entry.name,
                    folder: entry.folder,
                });
            }
            if entries.len() > ENTRIES_MOST || named > NAMES_MOST {
                return Err(hostile("a listing without end"));
            }
            if !page.more {
                return Ok(entries);
            }
        }
    }

    async fn delete(&self, path: &str, folder: bool) -> io::Result<()> {
        let path = path.to_owned();
        self.done(storage_request::Of::Delete(Delete { path, folder }))
            .await
    }
}

/// Ranges to fetch in order of their place: those that touch, or nearly, as one.
fn join(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range.clone()),
        }
    }
    joined
}

/// The same cut into requests, each no larger than what may be asked for at once.
fn requests(joined: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
    let mut requests = Vec::new();
    let (mut request, mut bytes) = (Vec::new(), 0_u64);
    for range in joined {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(RANGES_MOST));
            let piece = end.saturating_sub(at);
            let full = bytes.saturating_add(piece) > RANGES_MOST || request.len() >= RANGES_COUNT;
            if full && !request.is_empty() {
                requests.push(std::mem::take(&mut request));
                bytes = 0;
            }
            request.push(at..end);
            bytes = bytes.saturating_add(piece);
            at = end;
        }
    }
    if !request.is_empty() {
        requests.push(request);
    }
    requests
}

/// A range out of the pieces that were fetched, which lie in order: of one piece a slice, of
/// several a copy.
fn part(pieces: &[(Range<u64>, Bytes)], range: &Range<u64>) -> io::Result<Bytes> {
    let hole = || hostile("ranges with a hole");
    let first = pieces.partition_point(|(held, _)| held.end <= range.start);
    let mut at = range.start;
    let mut parts: Vec<Bytes> = Vec::new();
    for (held, bytes) in pieces.iter().skip(first) {
        if at >= range.end {
            break;
        }
        let end = range.end.min(held.end);
        let place = |at: u64| usize::try_from(at.checked_sub(held.start)?).ok();
        let (from, to) = place(at).zip(place(end)).ok_or_else(hole)?;
        if from > to || to > bytes.len() {
            return Err(hole());
        }
        parts.push(bytes.slice(from..to));
        at = end;
    }
    match parts.len() {
        _ if at < range.end => Err(hole()),
        0 | 1 => Ok(parts.pop().unwrap_or_default()),
        _ => {
            let mut whole = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
            parts.iter().for_each(|part| whole.extend_from_slice(part));
            Ok(whole.freeze())
        }
    }
}

/// A name that a folder may hold.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MOST
        && name != "."
        && name != ".."
        && !name.contains(['/', '\0'])
}

fn failed(failure: &Failure) -> io::Error {
    let text: String = failure
        .message
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(MESSAGE)
        .collect();
    let kind = match failure.kind() {
        Kind::NotFound => io::ErrorKind::NotFound,
        Kind::Short => io::ErrorKind::UnexpectedEof,
        Kind::Denied => io::ErrorKind::PermissionDenied,
        Kind::Exists => io::ErrorKind::AlreadyExists,
        Kind::Unserved => io::ErrorKind::Unsupported,
        Kind::Other => io::ErrorKind::Other,
    };
    io::Error::new(kind, text)
}

fn hostile(what: &'static str) -> io::Error {
    let text = format!("storage gave {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn span(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
