//! What answers of all stores have in common.

use std::ops::Range;

use crate::port::{
    storage_answer::{Entry, Failure, Kind, List, Of},
    storage_request,
};

/// Entries of one answer.
const PAGE: usize = 10_000;
/// Bytes that one question may be answered with.
const MOST_READ: u64 = 64 << 20;

pub(crate) type Answer = Result<Of, Failure>;

/// The ranges, if they are some, and not too much in all.
pub(crate) fn within(asked: &[storage_request::Range]) -> Result<Vec<Range<u64>>, Failure> {
    let mut sizes = asked.iter().map(|range| range.end.checked_sub(range.start));
    let sum = sizes.try_fold(0_u64, |sum, size| sum.checked_add(size?));
    if sum.is_none_or(|sum| sum > MOST_READ) {
        return Err(other("ranges out of bounds"));
    }
    Ok(asked.iter().map(|range| range.start..range.end).collect())
}

/// The first of a folder's entries behind a name.
pub(crate) fn page(mut entries: Vec<Entry>, after: &str) -> Of {
    entries.retain(|entry| entry.name.as_str() > after);
    entries.sort_by(|a, b| a.name.cmp(&b.name).then(b.folder.cmp(&a.folder)));
    entries.dedup_by(|a, b| a.name == b.name);
    let more = entries.len() > PAGE;
    entries.truncate(PAGE);
    Of::List(List { entries, more })
}

pub(crate) fn unserved(url: &str) -> Failure {
    failure(Kind::Unserved, &format!("no store is known for {url}"))
}

pub(crate) fn other(message: &str) -> Failure {
    failure(Kind::Other, message)
}

pub(crate) fn failure(kind: Kind, message: &str) -> Failure {
    Failure {
        kind: kind.into(),
        message: message.to_owned(),
    }
}
