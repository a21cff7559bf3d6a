//! Why a record was not written, or a log is not what was written.

use std::path::{Path, PathBuf};

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// No record at all.
    #[error("it is no record")]
    Malformed,
    /// Its MAC is not that of its contents: it was edited, or made by who does not have the
    /// keyring.
    #[error("it was edited, or not written by who has the keyring")]
    Altered,
    /// It stands in another's place: records were removed, or put in another order.
    #[error("record {0} stands there: records were removed or moved")]
    OutOfOrder(u64),
    /// It does not follow from the record before.
    #[error("it does not follow from the record before, which was replaced")]
    Chain,
    /// The register knows another record of this number.
    #[error("the register knows another record of this number")]
    Replaced,
    /// It and more are missing at the end.
    #[error(
        "it is missing, though the register knows of it: the log was cut, or put back to an older \
            state"
    )]
    Cut,
    /// More than one record beyond those that the register knows.
    #[error("the register does not know of it: the register was put back to an older state")]
    Unknown,
}

/// Every failure of the log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The system did not do it.
    #[error("cannot {doing} the audit log {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The log is not what was written.
    #[error("the audit log is broken at record {record}: {flaw}")]
    Broken {
        /// The first record that is not what it should be.
        record: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The register, which has the chain's head.
    #[error("the audit log's head cannot be kept: {0}")]
    Register(#[from] coffer_catalog::Error),
    /// A MAC or sealing failed.
    #[error("the audit log cannot be sealed: {0}")]
    Sealing(#[from] coffer_sealing::Error),
    /// A record over the limit.
    #[error("a record for the audit log is too long")]
    TooLong,
    /// The text of a query does not open.
    #[error("the text of a query in the audit log does not open")]
    Query,
}

impl AuditError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            doing,
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn broken(record: u64) -> impl FnOnce(Flaw) -> Self {
        move |flaw| Self::Broken { record, flaw }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => {
                "nothing was released; see to permissions and free space of the config \
                    directory's folder `audit`"
            }
            Self::Broken { .. } => {
                "nothing was released; look at coffer audit verify, find out who had access to \
                    the config directory, and put log and register back from one backup"
            }
            Self::Register(_) => {
                "nothing was released; see to the register in the config directory"
            }
            Self::Sealing(_) | Self::TooLong => "nothing was released",
            Self::Query => "the record itself is authentic; the text was sealed by another program",
        }
    }
}
