//! What is asked of `coffer-aws` on its standard input, and what it answers on its output: one line
//! of JSON each, in turn.

use serde::{Deserialize, Serialize};

use crate::secret_text::SecretText;

/// Bytes of a line at most, of a question as of an answer.
pub const MAX_LINE: u64 = 64 << 10;

/// A question.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The profile of the shared files whose credentials these are to be, and no others. Without
    /// one they come from wherever the AWS tools find them.
    pub profile: Option<String>,
    /// Milliseconds within which the answer is to come.
    pub within: u64,
    /// What is asked for.
    pub what: What,
}

/// What is asked for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The region that is set up here.
    Region,
    /// The secrets that stand in the environment and in the shared files. Nobody is asked for more.
    Secrets,
    /// The headers that sign a request.
    Sign(Unsigned),
}

/// A request without its signature.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unsigned {
    /// As its service calls itself in signatures.
    pub service: String,
    /// The service's.
    pub region: String,
    /// GET, POST.
    pub method: String,
    /// Whole, with the server.
    pub url: String,
    /// All headers that it has so far, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// SHA-256 of its body, in hexadecimal digits.
    pub digest: String,
}

/// An answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The region, if there is one.
    Region(Option<String>),
    /// Secret keys and session tokens.
    Secrets(Vec<SecretText>),
    /// Further headers, by their lower-case names.
    Signed(Vec<(String, SecretText)>),
    /// It is none.
    Failed(Failure),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Whether to wait.
    pub kind: FailureKind,
    /// For people.
    pub message: String,
}

/// Whether to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It will be the same until somebody changes something: there are no credentials, or whoever
    /// hands them out refuses.
    Settings,
    /// Whoever hands out credentials is away: the same may do later.
    Away,
}

impl Failure {
    /// It stays so.
    pub fn settings(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Settings,
            message: message.into(),
        }
    }

    /// It may pass.
    pub fn away(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Away,
            message: message.into(),
        }
    }
}
