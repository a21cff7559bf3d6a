//! What answers of all stores have in common.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use crate::port::{
    storage_answer::{Entry, Failure, Kind, List, Of},
    storage_request,
};

/// Entries of one answer.
const PAGE: usize = 10_000;
/// Names that are kept of one folder.
const KEPT: usize = 10 * PAGE;
/// Folders of which names are kept.
const FOLDERS: usize = 4;
/// Entries of a folder, and bytes of their names, as whoever asks bounds them.
const ENTRIES_MOST: usize = 1_000_000;
const NAMES_MOST: usize = 128 << 20;
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

/// A folder's first names behind one, in order. Stores list in orders of their own, so a folder is
/// listed whole for its first page; of one whose listing does not end nothing is kept.
pub(crate) struct Names {
    after: String,
    first: BTreeMap<String, bool>,
    /// Whether these are all.
    whole: bool,
    seen: usize,
    bytes: usize,
}

impl Names {
    pub(crate) fn behind(after: &str) -> Self {
        Self {
            after: after.to_owned(),
            first: BTreeMap::new(),
            whole: true,
            seen: 0,
            bytes: 0,
        }
    }

    /// One more answer of the store, however empty.
    pub(crate) fn answered(&mut self) -> Result<(), Failure> {
        self.seen = self.seen.saturating_add(1);
        match self.seen > ENTRIES_MOST || self.bytes > NAMES_MOST {
            true => Err(other("a folder without end")),
            false => Ok(()),
        }
    }

    /// An entry. Of a file and a folder of one name, which object stores may have, the file counts.
    pub(crate) fn add(&mut self, name: &str, folder: bool) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(name.len());
        self.answered()?;
        if name > self.after.as_str() {
            let is_folder = self.first.entry(name.to_owned()).or_insert(folder);
            *is_folder &= folder;
            if self.first.len() > KEPT {
                self.first.pop_last();
                self.whole = false;
            }
        }
        Ok(())
    }
}

/// Names that were listed and not asked for yet, of the folders that were listed last.
#[derive(Default)]
pub(crate) struct Listings(VecDeque<(String, Names)>);

impl Listings {
    /// What was kept of a listing that goes on here.
    pub(crate) fn kept(&mut self, asked: &storage_request::List) -> Option<Names> {
        let same = |(folder, names): &(String, Names)| {
            *folder == asked.path && names.after == asked.after && !asked.after.is_empty()
        };
        let at = self.0.iter().position(same)?;
        self.0.remove(at).map(|(_, names)| names)
    }

    /// The next page; what is behind it is kept.
    pub(crate) fn page(&mut self, folder: String, mut names: Names) -> Of {
        let mut entries = Vec::new();
        while entries.len() < PAGE
            && let Some((name, folder)) = names.first.pop_first()
        {
            entries.push(Entry { name, folder });
        }
        let more = !names.first.is_empty() || !names.whole;
        if let Some(last) = entries.last()
            && !names.first.is_empty()
        {
            names.after = last.name.clone();
            self.0.push_back((folder, names));
            if self.0.len() > FOLDERS {
                self.0.pop_front();
            }
        }
        Of::List(List { entries, more })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &Of) -> Vec<&str> {
        match of {
            Of::List(list) => list.entries.iter().map(|entry| &*entry.name).collect(),
            other => panic!("no listing: {other:?}"),
        }
    }

    #[test]
    fn pages_follow_each_other_in_order() {
        let asked = |after: &str| storage_request::List {
            path: "s3a://b/t".to_owned(),
            after: after.to_owned(),
        };
        let (mut listings, mut times, mut all) = (Listings::default(), 0, Vec::new());
        let mut after = String::new();
        loop {
            let names_now = listings.kept(&asked(&after)).unwrap_or_else(|| {
                times += 1;
                let mut names = Names::behind(&after);
                for at in (0..KEPT + 5).rev() {
                    names.add(&format!("part-{at:06}"), false).unwrap();
                }
                names
            });
            let page = listings.page("s3a://b/t".to_owned(), names_now);
            all.extend(names(&page).into_iter().map(str::to_owned));
            after.clone_from(all.last().unwrap());
            if matches!(&page, Of::List(list) if !list.more) {
                break;
            }
        }
        assert_eq!(all.len(), KEPT + 5);
        assert!(all.is_sorted());
        assert_eq!(times, 2);
        assert!(listings.0.is_empty());
    }

    #[test]
    fn a_file_beside_a_folder_of_its_name_is_one_entry() {
        for order in [[true, false], [false, true]] {
            let mut names = Names::behind("");
            for folder in order {
                names.add("x", folder).unwrap();
            }
            let Of::List(list) = Listings::default().page(String::new(), names) else {
                panic!("no listing");
            };
            let entries: Vec<_> = list.entries.iter().map(|e| (&*e.name, e.folder)).collect();
            assert_eq!((entries, list.more), (vec![("x", false)], false));
        }
    }

    #[test]
    fn a_listing_that_does_not_end_is_given_up() {
        let mut names = Names::behind("");
        let ended = (0..).find(|at| names.add(&at.to_string(), false).is_err());
        assert_eq!(ended, Some(ENTRIES_MOST));
        assert!(names.first.len() <= KEPT);
        let mut names = Names::behind("");
        assert!((0..=ENTRIES_MOST).any(|_| names.answered().is_err()));
        let mut names = Names::behind("");
        let long = "x".repeat(1 << 20);
        assert!((0..200).any(|_| names.add(&long, true).is_err()));
    }
}
