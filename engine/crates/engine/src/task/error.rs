//! Why a task fails, and how much of it anyone may know.
//!
//! The host sees a code: one uniform *failed* for all that happens inside, and a few codes for what it can see anyway.
//! Class, text and place are sealed for the client engine.

use coffer_expr::SparkError;
use coffer_plan::Unsupported;
use coffer_proto::wire::ErrorDetail;
use datafusion_common::DataFusionError;
use thiserror::Error;

use super::{check::Check, descriptor::Place, link::LinkError, sink::SinkError};

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
    pub(crate) fn detail(&self, place: Place) -> ErrorDetail {
        let (code, message, retryable) = self.describe();
        ErrorDetail {
            code,
            message,
            place: format!("stage {}, partition {}", place.stage, place.partition),
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
            Self::Output(SinkError::Scratch(_) | SinkError::Table(coffer_table::Error::Io { .. })) => {
                ours("COFFER_STORAGE", true)
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
    if let Some(sealing) = find::<coffer_sealing::Error>(error) {
        // Frames of inputs have a check of their own; what is left here is spill.
        let message = format!("a spill file does not open: {sealing}");
        return ("COFFER_SPILL".to_owned(), message, true);
    }
    let (code, retryable) = match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => ("COFFER_MEMORY", true),
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => ("COFFER_STORAGE", true),
        DataFusionError::ParquetError(_) => ("COFFER_FILE", false),
        DataFusionError::External(_) => ("COFFER_FILE", false),
        _ => ("COFFER_OPERATOR", false),
    };
    if code == "COFFER_MEMORY" {
        let hint = "give the engine more memory (spark.coffer.engine.memory), or cut the work into more partitions";
        return (
            code.to_owned(),
            format!("{}; {hint}", error.strip_backtrace()),
            retryable,
        );
    }
    // The message may hold values: it travels sealed. A back trace would only be noise.
    (code.to_owned(), error.strip_backtrace(), retryable)
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
            DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(deep()))), None),
        ] {
            let error = TaskError::Operators(error);
            assert_eq!(error.describe().0, "COFFER_FRAGMENT_DIGEST");
            assert_eq!(error.code(), "failed");
        }
    }

    #[test]
    fn a_lost_executor_is_a_cancel_however_deep() {
        let lost = DataFusionError::External(Box::new(LinkError::Closed)).context("merge");
        assert_eq!(TaskError::Operators(lost).code(), "cancelled");
        let broken = LinkError::Unexpected { got: 1, want: "IN" };
        assert_eq!(TaskError::Link(broken).code(), "protocol");
    }
}
