//! The search: files are cut into pieces that overlap by a pattern's length, and all cores take
//! pieces from one list.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde::Serialize;

use crate::files::Found;

/// Bytes of a piece: large enough that starting on it costs nothing, small enough that a core file
/// keeps all cores busy.
const PIECE: u64 = 32 << 20;
/// Offsets reported of one pattern in one file; the count is of all.
const SHOWN: usize = 4;

/// What was searched and what was found.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Report {
    /// Bytes of all files that were read to their end.
    pub(crate) searched_bytes: u64,
    /// How many files those are.
    pub(crate) files: u64,
    /// Files that were gone before they could be read.
    pub(crate) vanished: u64,
    /// One entry for each file and pattern that it holds, in order of path and pattern.
    pub(crate) hits: Vec<Hit>,
}

/// One pattern in one file.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The file as it was reached from the arguments.
    pub(crate) path: String,
    /// The pattern's place in the list.
    pub(crate) pattern: usize,
    /// How often. Of matches that overlap one is counted.
    pub(crate) count: u64,
    /// Where the first are, in bytes from the file's start.
    pub(crate) offsets: Vec<u64>,
}

struct Piece {
    file: usize,
    start: u64,
    end: u64,
}

#[derive(Default)]
struct Outcome {
    hits: BTreeMap<(usize, usize), (u64, Vec<u64>)>,
    gone: Vec<usize>,
}

/// Searches all files for all patterns. Errors are texts for a person: patterns that cannot be
/// searched for, a file that cannot be read.
pub(crate) fn scan(patterns: &[Vec<u8>], found: Found) -> Result<Report, String> {
    if patterns.iter().any(Vec::is_empty) {
        return Err("an empty pattern is everywhere".to_owned());
    }
    let overlap = patterns.iter().map(Vec::len).max().unwrap_or(1) - 1;
    let machine = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .kind(Some(AhoCorasickKind::DFA))
        .build(patterns)
        .map_err(|error| format!("these patterns cannot be searched for: {error}"))?;
    let pieces = Mutex::new(pieces(&found.files));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let outcomes = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(&machine, overlap, &found.files, &pieces)))
            .collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .map_err(|_| "a searching thread broke".to_owned())
                    .flatten()
            })
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(report(&found, outcomes))
}

/// Last pieces first, so that they are taken in order.
fn pieces(files: &[(PathBuf, u64)]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (file, (_, size)) in files.iter().enumerate() {
        let mut start = 0;
        while start < *size {
            let end = (start + PIECE).min(*size);
            pieces.push(Piece { file, start, end });
            start = end;
        }
    }
    pieces.reverse();
    pieces
}

fn work(
    machine: &AhoCorasick,
    overlap: usize,
    files: &[(PathBuf, u64)],
    pieces: &Mutex<Vec<Piece>>,
) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut buffer = Vec::new();
    loop {
        // A thread that broke has not touched the list in the middle of a change.
        let next = pieces
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
            .pop();
        let Some(piece) = next else {
            return Ok(outcome);
        };
        let Some((path, _)) = files.get(piece.file) else {
            continue;
        };
        match read(path, &piece, overlap, &mut buffer) {
            Ok(()) => search(machine, &piece, &buffer, &mut outcome),
            Err(error) if error.kind() == ErrorKind::NotFound => outcome.gone.push(piece.file),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        }
    }
}

/// The piece and what follows it, up to a pattern's length less one. A file that has shrunk
/// meanwhile gives less.
fn read(path: &Path, piece: &Piece, overlap: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    let file = File::open(path)?;
    let length = usize::try_from(piece.end - piece.start).map_err(io::Error::other)? + overlap;
    buffer.resize(length, 0);
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let at = piece.start + u64::try_from(filled).map_err(io::Error::other)?;
        match file.read_at(rest, at) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// A match belongs to the piece in which it starts.
fn search(machine: &AhoCorasick, piece: &Piece, bytes: &[u8], outcome: &mut Outcome) {
    for found in machine.find_iter(bytes) {
        let Some(at) = u64::try_from(found.start())
            .ok()
            .map(|start| piece.start + start)
        else {
            continue;
        };
        if at >= piece.end {
            break;
        }
        let (count, offsets) = outcome
            .hits
            .entry((piece.file, found.pattern().as_usize()))
            .or_default();
        *count += 1;
        offsets.push(at);
        if offsets.len() > SHOWN {
            offsets.sort_unstable();
            offsets.truncate(SHOWN);
        }
    }
}

fn report(found: &Found, outcomes: Vec<Outcome>) -> Report {
    let mut all = Outcome::default();
    for outcome in outcomes {
        all.gone.extend(outcome.gone);
        for (key, (more, offsets)) in outcome.hits {
            let (count, shown) = all.hits.entry(key).or_default();
            *count += more;
            shown.extend(offsets);
            shown.sort_unstable();
            shown.truncate(SHOWN);
        }
    }
    all.gone.sort_unstable();
    all.gone.dedup();
    let mut report = Report {
        searched_bytes: 0,
        files: 0,
        vanished: found.vanished,
        hits: Vec::new(),
    };
    for (file, (_, size)) in found.files.iter().enumerate() {
        if all.gone.binary_search(&file).is_ok() {
            report.vanished += 1;
        } else {
            report.files += 1;
            report.searched_bytes += size;
        }
    }
    for ((file, pattern), (count, offsets)) in all.hits {
        let path = found
            .files
            .get(file)
            .map(|(path, _)| path.display().to_string());
        report.hits.push(Hit {
            path: path.unwrap_or_default(),
            pattern,
            count,
            offsets,
        });
    }
    report
        .hits
        .sort_by(|a, b| (&a.path, a.pattern).cmp(&(&b.path, b.pattern)));
    report
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn scanned(folder: &Path, patterns: &[&[u8]]) -> Report {
        let mut found = Found::default();
        found.add(folder).unwrap();
        let patterns: Vec<_> = patterns.iter().map(|pattern| pattern.to_vec()).collect();
        scan(&patterns, found).unwrap()
    }

    #[test]
    fn counts_by_file_and_pattern() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("a"), b"xx wombat \x00\xff wombat").unwrap();
        fs::write(folder.path().join("below/b"), b"\x00\xff").unwrap();
        fs::write(folder.path().join("c"), b"womba").unwrap();
        fs::write(folder.path().join("empty"), b"").unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).unwrap();
        let report = scanned(folder.path(), &[b"wombat", b"\x00\xff", b"absent"]);
        let hits: Vec<_> = report
            .hits
            .iter()
            .map(|hit| {
                (
                    hit.path.rsplit('/').next().unwrap(),
                    hit.pattern,
                    hit.count,
                    hit.offsets.clone(),
                )
            })
            .collect();
        assert_eq!(
            hits,
            [
                ("a", 0, 2, vec![3, 13]),
                ("a", 1, 1, vec![10]),
                ("b", 1, 1, vec![0])
            ]
        );
        assert_eq!(
            (report.searched_bytes, report.files, report.vanished),
            (26, 4, 0)
        );
    }

    #[test]
    fn a_match_across_pieces_is_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let piece = usize::try_from(PIECE).unwrap();
        let mut bytes = vec![b'.'; 2 * piece + 3];
        for at in [0, piece - 3, piece, 2 * piece - 1, 2 * piece - 6] {
            bytes[at..at + 3].copy_from_slice(b"abc");
        }
        fs::write(folder.path().join("large"), &bytes).unwrap();
        let report = scanned(folder.path(), &[b"abc"]);
        let piece = PIECE;
        assert_eq!(report.hits[0].count, 5);
        assert_eq!(report.hits[0].offsets, [0, piece - 3, piece, 2 * piece - 6]);
    }

    #[test]
    fn no_pattern_may_be_empty_and_no_root_missing() {
        assert!(scan(&[Vec::new()], Found::default()).is_err());
        assert!(Found::default().add(Path::new("/nowhere/at/all")).is_err());
    }
}
