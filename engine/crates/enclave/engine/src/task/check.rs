//! The checks between sealed bytes and a task: each failing one has a name, and ends the task.
//!
//! All of these mean that the host lost, changed, repeated or mixed up something (or that two
//! versions of Coffer meet). None is worth a retry on the same bytes.

use thiserror::Error;

/// A code with the check that refused at its end: one code for each.
macro_rules! by_check {
    ($code:literal, $error:expr) => {
        match $error.refused_by() {
            coffer_sealing::RefusedBy::Tag => concat!($code, "_TAG"),
            coffer_sealing::RefusedBy::Length => concat!($code, "_LENGTH"),
            coffer_sealing::RefusedBy::Order => concat!($code, "_ORDER"),
            coffer_sealing::RefusedBy::Format => concat!($code, "_FORMAT"),
            coffer_sealing::RefusedBy::Identity => concat!($code, "_IDENTITY"),
            coffer_sealing::RefusedBy::Nothing => "COFFER_SEALING",
        }
    };
}
pub(crate) use by_check;

/// A check that failed. Holds places, never values.
#[derive(Debug, Error)]
pub enum Check {
    /// What was sealed for the engine does not open: fragment, descriptor or object.
    #[error("the {what} does not open: {source}")]
    Opening {
        /// Which of them.
        what: &'static str,
        /// Why.
        source: coffer_sealing::Error,
    },
    /// An opened message is not what its type says.
    #[error("the {0} cannot be read")]
    Malformed(&'static str),
    /// The descriptor names another task than the one it was sealed for.
    #[error("the descriptor is of another task")]
    DescriptorIdentity,
    /// The fragment is not the one that the descriptor names.
    #[error("the fragment is not the one that the descriptor names")]
    FragmentDigest,
    /// An object that the descriptor pins has not come.
    #[error("object {0} is missing")]
    ObjectMissing(u32),
    /// An object's digest is not the one that the descriptor pins.
    #[error("object {0} is not the one that the descriptor names")]
    ObjectDigest(u32),
    /// Two objects with the same id, or an object that the descriptor does not pin.
    #[error("object {0} has no place in this task")]
    ObjectForeign(u32),
    /// No list of attempts came for a stage that the task reads.
    #[error("the list of attempts of stage {0} is missing")]
    AttemptsMissing(u32),
    /// The list of attempts is older than the descriptor, or than one that this engine has seen, or
    /// another one of the same epoch.
    #[error("the list of attempts of stage {stage} is stale: epoch {got}, epoch {seen} is known")]
    AttemptsStale {
        /// The producing stage.
        stage: u32,
        /// The list's epoch.
        got: u32,
        /// The newest known.
        seen: u32,
    },
    /// The list of attempts has another length than the stage has partitions, or an attempt of the
    /// wrong length.
    #[error("the list of attempts of stage {0} does not fit the stage")]
    AttemptsCount(u32),
    /// The descriptor's inputs are not those of the fragment, or not possible.
    #[error("input {0} of the descriptor does not fit the fragment")]
    Input(u32),
    /// The descriptor's scans are not those of the fragment.
    #[error("scan {0} of the descriptor does not fit the fragment")]
    Scan(u32),
    /// What the descriptor says of writing does not fit the fragment, or cannot be read.
    #[error("the descriptor's write does not fit the fragment: {0}")]
    Write(&'static str),
    /// A stream that the descriptor does not name.
    #[error("input {input}: a stream of map {map} for target {target} has no place in this task")]
    StreamForeign {
        /// The input.
        input: u32,
        /// The partition that wrote it, by its own word.
        map: u32,
        /// Its target, by its own word.
        target: u32,
    },
    /// A stream that came before.
    #[error("input {input}: the stream of map {map} for target {target} came twice")]
    StreamRepeated {
        /// The input.
        input: u32,
        /// The partition that wrote it.
        map: u32,
        /// Its target.
        target: u32,
    },
    /// The input ended without this stream.
    #[error("input {input}: the stream of map {map} for target {target} is missing")]
    StreamMissing {
        /// The input.
        input: u32,
        /// The partition that should have written it.
        map: u32,
        /// Its target.
        target: u32,
    },
    /// The input ended inside a stream.
    #[error("input {input}: the stream of map {map} for target {target} is cut short")]
    StreamCut {
        /// The input.
        input: u32,
        /// The partition that wrote it.
        map: u32,
        /// Its target.
        target: u32,
    },
    /// A stream of an attempt that does not count.
    #[error(
        "input {input}: the stream of map {map} for target {target} is of another attempt than \
            the one that counts"
    )]
    StreamAttempt {
        /// The input.
        input: u32,
        /// The partition that wrote it.
        map: u32,
        /// Its target.
        target: u32,
    },
    /// The bytes are no stream at all.
    #[error("input {input}: the bytes are no stream: {source}")]
    StreamFormat {
        /// The input.
        input: u32,
        /// Why.
        source: coffer_sealing::Error,
    },
    /// A frame does not open.
    #[error("input {input}: a frame of map {map} for target {target} does not open: {source}")]
    Frame {
        /// The input.
        input: u32,
        /// The partition that wrote it.
        map: u32,
        /// Its target.
        target: u32,
        /// Why.
        source: coffer_sealing::Error,
    },
    /// A frame's payload, though authentic, is no batch of the input's schema: two versions of
    /// Coffer, or a defect of ours.
    #[error(
        "input {input}: a frame of map {map} for target {target} holds no batch of the input's \
            schema: {source}"
    )]
    Payload {
        /// The input.
        input: u32,
        /// The partition that wrote it.
        map: u32,
        /// Its target.
        target: u32,
        /// Why.
        source: coffer_plan::codec::CodecError,
    },
    /// Rows that stayed in an engine's memory are asked for where they are not: in another engine,
    /// or after their session's lease was over.
    #[error("input {input}: the rows of map {map} for target {target} are no longer in memory")]
    RowsGone {
        /// The input.
        input: u32,
        /// The partition that wrote them.
        map: u32,
        /// Their target.
        target: u32,
    },
}

impl Check {
    /// The stable name, as in `docs/reference/errors.md`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Opening { source, .. } => by_check!("COFFER_OPENING", source),
            Self::Malformed(_) => "COFFER_MALFORMED",
            Self::DescriptorIdentity => "COFFER_DESCRIPTOR_IDENTITY",
            Self::FragmentDigest => "COFFER_FRAGMENT_DIGEST",
            Self::ObjectMissing(_) => "COFFER_OBJECT_MISSING",
            Self::ObjectDigest(_) => "COFFER_OBJECT_DIGEST",
            Self::ObjectForeign(_) => "COFFER_OBJECT_FOREIGN",
            Self::AttemptsMissing(_) => "COFFER_ATTEMPTS_MISSING",
            Self::AttemptsStale { .. } => "COFFER_ATTEMPTS_STALE",
            Self::AttemptsCount(_) => "COFFER_ATTEMPTS_COUNT",
            Self::Input(_) => "COFFER_INPUT",
            Self::Scan(_) => "COFFER_SCAN",
            Self::Write(_) => "COFFER_WRITE_TASK",
            Self::StreamForeign { .. } => "COFFER_STREAM_FOREIGN",
            Self::StreamRepeated { .. } => "COFFER_STREAM_REPEATED",
            Self::StreamMissing { .. } => "COFFER_STREAM_MISSING",
            Self::StreamCut { .. } => "COFFER_STREAM_CUT",
            Self::StreamAttempt { .. } => "COFFER_STREAM_ATTEMPT",
            Self::StreamFormat { source, .. } => by_check!("COFFER_STREAM", source),
            Self::Frame { source, .. } => by_check!("COFFER_FRAME", source),
            Self::Payload { .. } => "COFFER_PAYLOAD",
            Self::RowsGone { .. } => "COFFER_ROWS_GONE",
        }
    }
}
