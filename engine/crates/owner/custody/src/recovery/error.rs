//! Why shares are not made or joined.

use crate::KeyringError;

/// One variant per cause.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// Threshold and count that do not go together.
    #[error("shares are made as in 3-of-5: at least 2 of at most 255")]
    Scheme,
    /// No share was given.
    #[error("no share is given")]
    None,
    /// Not a share.
    #[error("the share is malformed: {0}")]
    Malformed(&'static str),
    /// Made by a later version.
    #[error("the share has the unknown format version {0}")]
    Version(u8),
    /// A line with a slip.
    #[error("line {0} of the share does not fit its check")]
    Line(usize),
    /// A line that is not there.
    #[error("line {0} of the share is missing or out of place")]
    LineMissing(usize),
    /// The lines are fine one by one.
    #[error("the share does not fit its checksum")]
    Checksum,
    /// Shares of two splittings.
    #[error("the shares are not of one set: {first}, and {other}")]
    Mixed {
        /// One.
        first: String,
        /// Another.
        other: String,
    },
    /// One share twice.
    #[error("share {0} is given twice")]
    Twice(u8),
    /// Fewer than the threshold.
    #[error("{have} shares are given, and {need} of the {of} are needed")]
    TooFew {
        /// Given.
        have: usize,
        /// The threshold.
        need: usize,
        /// There are.
        of: u8,
    },
    /// No choice of them opens the snapshot.
    #[error("the {have} shares do not fit together: at least one of them was altered")]
    Unfit {
        /// Given.
        have: usize,
    },
    /// The sharing library refused: a defect of ours.
    #[error("the key could not be split or joined")]
    Sharing,
    /// The snapshot is none.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// Random source or crypto library failed.
    #[error(transparent)]
    Sealing(#[from] coffer_sealing::Error),
}

impl RecoveryError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Scheme => "3-of-5 makes five shares, any three of which give the keyring back",
            Self::None => "name the files of the shares",
            Self::Malformed(_) | Self::Checksum => {
                "compare it with what was printed: all lines, and the checksum"
            }
            Self::Version(_) => "use a newer version of Coffer",
            Self::Line(_) | Self::LineMissing(_) => "compare that line with what was printed",
            Self::Mixed { .. } => {
                "every export makes a new set; bring shares that say the same set in their second \
                    line"
            }
            Self::Twice(_) => "bring another share of the set",
            Self::TooFew { .. } => "bring more shares of the set; fewer tell nothing",
            Self::Unfit { .. } => {
                "bring another share: with one more than needed, the altered one is left out by \
                    itself"
            }
            Self::Sharing => return None,
            Self::Keyring(error) => return error.hint(),
            Self::Sealing(error) => return error.hint(),
        };
        Some(text.to_owned())
    }
}
