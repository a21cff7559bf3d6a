//! Why a log, or a proof of one, is not believed.

use std::{io, path::PathBuf};

/// One variant per cause.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No signed note (C2SP signed-note), or a longer one than any is.
    #[error("it is no signed note: {0}")]
    Note(&'static str),
    /// Text that is no key.
    #[error("it is no key of a log or a witness: {0}")]
    Key(&'static str),
    /// The note's text is no checkpoint.
    #[error("it is no checkpoint: {0}")]
    Checkpoint(&'static str),
    /// A file that is no proof.
    #[error("it is no proof of a log: {0}")]
    Proof(&'static str),
    /// A checkpoint of another log.
    #[error("the checkpoint is of the log {found:?}, not of {wanted:?}")]
    Origin {
        /// What is asked for.
        wanted: String,
        /// What it says.
        found: String,
    },
    /// The log did not sign it.
    #[error("the checkpoint is not signed by {0:?}")]
    NotSigned(String),
    /// Too few witnesses signed it, of those that are known.
    #[error("{found} of the known witnesses signed the checkpoint, {wanted} must have")]
    TooFewWitnesses {
        /// Those that did.
        found: usize,
        /// Those that must.
        wanted: usize,
    },
    /// Enough witnesses signed it, long ago.
    #[error("the witnesses saw the checkpoint {hours} hours ago, {most} at most are allowed")]
    Stale {
        /// Since then.
        hours: u64,
        /// Allowed.
        most: u64,
    },
    /// The entry is not where the proof says.
    #[error("the proof does not lead from this entry to the checkpoint's root")]
    NotIncluded,
    /// The log was larger before.
    #[error("the log has {found} entries by this checkpoint, and had {before} before")]
    Rollback {
        /// By the checkpoint.
        found: u64,
        /// By one that was seen before.
        before: u64,
    },
    /// Two trees of one size.
    #[error("the log showed another tree of {0} entries before: it is forked")]
    Fork(u64),
    /// A log whose tree does not go on from the one that was seen.
    #[error("the log's tree of {to} entries does not go on from that of {from}: it is forked")]
    Inconsistent {
        /// Seen before.
        from: u64,
        /// Now.
        to: u64,
    },
    /// Somebody wrote meanwhile.
    #[error("the log's checkpoint was changed meanwhile: try again")]
    Changed,
    /// A file of the log that does not go with its checkpoint.
    #[error("{0} is missing or is not what the checkpoint says")]
    Tile(PathBuf),
    /// There is no such entry.
    #[error("the log has no such entry")]
    NoEntry,
    /// A folder with a log in it already, or something else.
    #[error("{0} is there already")]
    Exists(PathBuf),
    /// The system did not read or write a file.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The source of random numbers, or the library of ciphers.
    #[error("no signature can be made")]
    Crypto,
}

impl LogError {
    /// A system's error on a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
