//! Why a task fails, and how much of it anyone may know.
//!
//! The host sees a code: one uniform *failed* for all that happens inside, and a few codes for what
//! it can see anyway. Class, text and place are sealed for the client engine.

use coffer_expr::SparkError;
use coffer_plan::{Unsupported, spill::SpillFault};
use coffer_protocol::wire::ErrorDetail;
use datafusion_common::DataFusionError;
use thiserror::Error;

use crate::task::{
    check::{Check, by_check},
    descriptor::TaskIdentity,
    link::LinkError,
    sink::SinkError,
};

/// Why a task ended without DONE.
#[derive(Debug, Error)]
pub enum TaskError {
    /// START is of another protocol version.
    #[error("protocol version {0} is not spoken here")]
    Version(u32),
    /// START is not well formed.
    #[error("the task's start cannot be read: {0}")]
    Start(&'static str),
    /// The engine ends and takes no new tasks.
    #[error("the engine is draining")]
    Draining,
    /// The session has ended, or its keys did not come.
    #[error("the session's keys are not here")]
    Session,
    /// The conversation with the executor failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A check between sealed bytes and the task failed.
    #[error(transparent)]
    Check(#[from] Check),
    /// The keys that came do not cover the task's scans.
    #[error("keys of columns that the task reads have not been released to this engine")]
    KeysMissing,
    /// The fragment is not one that this engine runs.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A subquery's value is not of a type that expressions take.
    #[error("the value of subquery {0} cannot be used: {1}")]
    Value(u32, coffer_expr::Unsupported),
    /// An operator failed: Spark's errors, storage, memory.
    #[error(transparent)]
    Operators(#[from] DataFusionError),
    /// Rows did not leave.
    #[error(transparent)]
    Output(#[from] SinkError),
    /// The commit record or the metrics could not be sealed.
    #[error("sealing failed: {0}")]
    Sealing(#[from] coffer_sealing::Error),
    /// The task panicked; it was contained.
    #[error("the task panicked")]
    Panicked,
}

impl TaskError {
    /// What the host is told.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Version(_) => "version",
            Self::Start(_) => "protocol",
            Self::Draining => "draining",
            Self::Session => "session",
            _ => match self.link() {
                Some(LinkError::Closed) => "cancelled",
                Some(LinkError::Lease | LinkError::Silent) => "session",
                Some(_) => "protocol",
                None => "failed",
            },
        }
    }

    /// The failure of the conversation, if that is what lies below.
    pub(crate) fn link(&self) -> Option<&LinkError> {
        match self {
            Self::Link(error) | Self::Output(SinkError::Link(error)) => Some(error),
            Self::Operators(error) => find(error),
            _ => None,
        }
    }

    /// Whether the memory pool was full.
    pub(crate) fn is_memory(&self) -> bool {
        match self {
            Self::Operators(error) | Self::Output(SinkError::Memory(error)) => {
                matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
            }
            _ => false,
        }
    }

    /// What the client engine is told.
    pub(crate) fn detail(&self, task_identity: TaskIdentity) -> ErrorDetail {
        let (code, message, retryable) = self.describe();
        ErrorDetail {
            code,
            message,
            location: format!(
                "stage {}, partition {}",
                task_identity.stage, task_identity.partition
            ),
            retryable,
        }
    }

    fn describe(&self) -> (String, String, bool) {
        let ours = |code: &str, retryable| (code.to_owned(), self.to_string(), retryable);
        match self {
            Self::Check(check) => ours(check.code(), false),
            Self::KeysMissing => ours("COFFER_KEYS_MISSING", true),
            Self::Unsupported(_) | Self::Value(..) => ours("COFFER_UNSUPPORTED", false),
            Self::Sealing(_) => ours("COFFER_SEALING", true),
            Self::Panicked => ours("COFFER_PANIC", true),
            Self::Operators(error) | Self::Output(SinkError::Memory(error)) => operators(error),
            Self::Output(SinkError::Scratch(error)) => {
                let (code, retryable) = disk(error);
                ours(code, retryable)
            }
            Self::Output(SinkError::Table(error))
                if error.fault() != coffer_format::Fault::Caller =>
            {
                ours(&stored(error), retryable(error))
            }
            Self::Output(SinkError::NotNull(_)) => ours("NOT_NULL_ASSERT_VIOLATION", false),
            Self::Output(_) => ours("COFFER_OUTPUT", false),
            Self::Version(_) | Self::Start(_) | Self::Draining | Self::Session | Self::Link(_) => {
                ours("COFFER_PROTOCOL", true)
            }
        }
    }
}

fn operators(error: &DataFusionError) -> (String, String, bool) {
    if let Some(spark) = find::<SparkError>(error) {
        return (spark.class.to_owned(), spark.message.clone(), false);
    }
    if let Some(check) = find::<Check>(error) {
        return (check.code().to_owned(), check.to_string(), false);
    }
    if let Some(table) = find::<coffer_format::Error>(error) {
        return (stored(table), table.to_string(), retryable(table));
    }
    if let Some(sealing) = find::<coffer_sealing::Error>(error) {
        // Frames of inputs have a check of their own; what is left here is spill.
        let message = format!("a spill file does not open: {sealing}");
        return (by_check!("COFFER_SPILL", sealing).to_owned(), message, true);
    }
    if let Some(changed @ coffer_format::Error::PlainChanged) = find(error) {
        // Another try would find the same bytes, or others.
        return (
            "COFFER_INPUT_CHANGED".to_owned(),
            changed.to_string(),
            false,
        );
    }
    let (code, retryable) = match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => ("COFFER_MEMORY", true),
        root => match find::<std::io::Error>(error) {
            Some(error) => disk(error),
            None => match root {
                DataFusionError::ObjectStore(_) => ("COFFER_STORAGE", true),
                // The Parquet reader over bytes that a tag or a digest has passed, or not: its text
                // says which.
                DataFusionError::ParquetError(_)
                | DataFusionError::ArrowError(..)
                | DataFusionError::External(_) => {
                    match coffer_format::parquet_code(&error.to_string()) {
                        "file_tag" => ("COFFER_FILE_TAG", false),
                        _ if matches!(root, DataFusionError::ArrowError(..)) => {
                            ("COFFER_OPERATOR", false)
                        }
                        _ => ("COFFER_FILE_FORMAT", false),
                    }
                }
                _ => ("COFFER_OPERATOR", false),
            },
        },
    };
    if code == "COFFER_MEMORY" {
        let hint = "give the engine more memory (spark.coffer.engine.memory), or cut the work \
            into more partitions";
        return (
            code.to_owned(),
            format!("{}; {hint}", error.strip_backtrace()),
            retryable,
        );
    }
    // The message may hold values: it travels sealed. A back trace would only be noise.
    (code.to_owned(), error.strip_backtrace(), retryable)
}

/// The check of a table's bytes that refused, by the same word as at the client engine.
fn stored(error: &coffer_format::Error) -> String {
    format!("COFFER_{}", error.code().to_uppercase())
}

/// Whether the machine failed, and not what it was given.
fn retryable(error: &coffer_format::Error) -> bool {
    error.fault() == coffer_format::Fault::System
}

/// What an error of this executor's disk is: spill that is gone or short, no room, or a disk that
/// fails. Only the first is a check.
fn disk(error: &std::io::Error) -> (&'static str, bool) {
    let spilled = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<SpillFault>());
    match spilled {
        Some(fault) => (fault.code(), true),
        None if coffer_format::io_code(error) == "disk_full" => ("COFFER_DISK_FULL", true),
        None => ("COFFER_STORAGE", true),
    }
}

/// An error of this type anywhere in the chain of causes.
fn find<E: std::error::Error + 'static>(error: &DataFusionError) -> Option<&E> {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        // A shared error is a cause behind an Arc, which is an error itself.
        if let Some(shared) = error.downcast_ref::<std::sync::Arc<DataFusionError>>() {
            at = Some(shared.as_ref());
            continue;
        }
        // What an I/O error was made of is not among its causes.
        if let Some(inner) = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            at = Some(inner);
            continue;
        }
        at = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;

    use super::*;

    #[test]
    fn causes_are_found_however_deep() {
        let deep = || DataFusionError::External(Box::new(Check::FragmentDigest));
        for error in [
            deep(),
            deep().context("while reading"),
            DataFusionError::Shared(std::sync::Arc::new(deep())),
            DataFusionError::ArrowError(
                Box::new(ArrowError::ExternalError(Box::new(deep()))),
                None,
            ),
        ] {
            let error = TaskError::Operators(error);
            assert_eq!(error.describe().0, "COFFER_FRAGMENT_DIGEST");
            assert_eq!(error.code(), "failed");
        }
    }

    #[test]
    fn each_check_has_a_code_and_a_full_disk_is_none() {
        use std::io::{Error as Io, ErrorKind};

        use coffer_sealing::Error as Sealing;
        use parquet::errors::ParquetError;
        let code = |error: DataFusionError| TaskError::Operators(error).describe().0;
        let outside = |error: coffer_format::Error| DataFusionError::External(Box::new(error));
        assert_eq!(
            code(outside(coffer_format::Error::FooterDigest)),
            "COFFER_FILE_DIGEST"
        );
        let within = ParquetError::External(Box::new(coffer_format::Error::ChunkDigest));
        assert_eq!(code(DataFusionError::from(within)), "COFFER_FILE_DIGEST");
        let tag = || ParquetError::General("External: ring::error::Unspecified".to_owned());
        assert_eq!(code(DataFusionError::from(tag())), "COFFER_FILE_TAG");
        let as_arrow = DataFusionError::ArrowError(
            Box::new(ArrowError::ParquetError(tag().to_string())),
            None,
        );
        assert_eq!(code(as_arrow), "COFFER_FILE_TAG");
        let short = Io::new(ErrorKind::UnexpectedEof, SpillFault::Short);
        assert_eq!(code(DataFusionError::IoError(short)), "COFFER_SPILL_LENGTH");
        let altered = DataFusionError::External(Box::new(Sealing::Unauthentic));
        assert_eq!(code(altered), "COFFER_SPILL_TAG");
        let late = DataFusionError::External(Box::new(Sealing::FrameAfterLast));
        assert_eq!(code(late), "COFFER_SPILL_ORDER");
        assert_eq!(
            code(DataFusionError::IoError(ErrorKind::StorageFull.into())),
            "COFFER_DISK_FULL"
        );
        assert_eq!(
            code(DataFusionError::IoError(ErrorKind::Other.into())),
            "COFFER_STORAGE"
        );
        let full = |kind: ErrorKind| coffer_format::Error::Io {
            doing: "write",
            path: "/t".into(),
            source: kind.into(),
        };
        assert_eq!(
            code(outside(full(ErrorKind::StorageFull))),
            "COFFER_DISK_FULL"
        );
        let written = TaskError::Output(SinkError::Table(full(ErrorKind::StorageFull)));
        assert_eq!(written.describe().0, "COFFER_DISK_FULL");
    }

    #[test]
    fn a_lost_executor_is_a_cancel_however_deep() {
        let lost = DataFusionError::External(Box::new(LinkError::Closed)).context("merge");
        assert_eq!(TaskError::Operators(lost).code(), "cancelled");
        let broken = LinkError::Unexpected { got: 1, want: "IN" };
        assert_eq!(TaskError::Link(broken).code(), "protocol");
    }
}
