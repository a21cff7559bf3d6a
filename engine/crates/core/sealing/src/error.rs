//! Every way in which sealing or opening fails: one variant per cause, and who is at fault.

/// Who is to blame for an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The code that called this crate.
    Caller,
    /// Whoever carried or stored the bytes: they are not what was sealed for this place.
    Host,
    /// This process or the machine below it.
    Us,
}

/// Which kind of check refused sealed bytes: the end of every code that says that something does
/// not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedBy {
    /// The tag: bytes were altered, or sealed for another place or under another key.
    Tag,
    /// A length: bytes are missing or too many, or the length that a header states is not possible.
    Length,
    /// The order of frames: one is missing, repeated, or after the last.
    Order,
    /// Magic, version, kind or reserved bits: these are no sealed bytes of this kind.
    Format,
    /// The place that a preamble names: another partition, target or attempt.
    Identity,
    /// None: this side failed, and not what it was given.
    Nothing,
}

/// Why something could not be sealed or opened. Never holds a value of data or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The system's random source failed.
    #[error("the system's random source failed")]
    Randomness,
    /// The crypto library refused an operation that cannot fail on valid input.
    #[error("the crypto library refused the operation")]
    Crypto,
    /// A frame or message over [`crate::MAX_FRAME_LEN`] was to be sealed.
    #[error("{length} bytes are too many for one frame or message")]
    TooLong {
        /// Bytes of the sealed form.
        length: usize,
    },
    /// A stream has used up the frames that one key may seal.
    #[error("the stream has too many frames for one key")]
    TooManyFrames,
    /// A frame was to be sealed after the one marked last.
    #[error("the stream already has its last frame")]
    SealedAfterLast,
    /// A second sealer was asked for, for the same target of the same attempt, or for the same
    /// spill file.
    #[error("this target of the attempt already has a sealer")]
    TargetTaken,
    /// A frame's writer removed bytes that were in the buffer before it.
    #[error("the frame's writer shortened the buffer it was to append to")]
    BufferShortened,
    /// An id or key of the wrong length.
    #[error("{got} bytes came where {want} are needed")]
    WrongLength {
        /// Bytes that are needed.
        want: usize,
        /// Bytes that came.
        got: usize,
    },
    /// Fewer bytes than the format needs.
    #[error("the bytes end too early: {need} needed, {got} came")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        got: usize,
    },
    /// More bytes than the header says.
    #[error("{extra} bytes follow the end of the frame")]
    Trailing {
        /// Bytes too many.
        extra: usize,
    },
    /// The first bytes are not those of the format.
    #[error("these are not sealed bytes of the expected kind")]
    BadMagic,
    /// A format version this build does not know.
    #[error("format version {0} is unknown")]
    UnknownVersion(u8),
    /// Flag or reserved bits that must be zero are not.
    #[error("reserved bits are set")]
    ReservedBits,
    /// The header declares a length outside what a frame may have.
    #[error("a sealed length of {0} bytes is not possible")]
    BadLength(u64),
    /// Not the next frame: one is missing, repeated or out of order.
    #[error("frame {want} was expected, frame {got} came")]
    WrongCounter {
        /// The next frame's number.
        want: u64,
        /// The number in the header.
        got: u64,
    },
    /// A frame after the one marked last.
    #[error("a frame follows the last one")]
    FrameAfterLast,
    /// The stream ended before its last frame.
    #[error("the stream ends before its last frame, after {frames} frames")]
    Unfinished {
        /// Frames that were opened.
        frames: u64,
    },
    /// An opener is used on after it refused a frame.
    #[error("the stream was refused before")]
    Refused,
    /// The preamble names another partition than the one read.
    #[error("the stream is of another partition")]
    WrongPartition,
    /// The preamble names another target than the one read.
    #[error("the stream is for another target")]
    WrongTarget,
    /// The preamble names another attempt than the one that counts.
    #[error("the stream is of another attempt")]
    WrongAttempt,
    /// A sealed object of an unknown kind.
    #[error("object kind {0} is unknown")]
    UnknownKind(u8),
    /// The tag does not match: altered, moved from another place, or sealed under another key.
    #[error("authentication failed: altered bytes, another place, or another key")]
    Unauthentic,
}

const ALTERED: &str = "the host lost, changed or mixed up data; run the query again, and look at \
    storage and network if it recurs";

crate::error_table! {
    Error: &'static str, Fault;
    Self::Randomness => "randomness", Fault::Us,
        "is /dev/urandom or getrandom available to this process?";
    Self::Crypto => "crypto", Fault::Us;
    Self::TooLong { .. } => "too_long", Fault::Caller, "use smaller batches";
    Self::TooManyFrames => "too_many_frames", Fault::Caller;
    Self::SealedAfterLast => "sealed_after_last", Fault::Caller;
    Self::TargetTaken => "target_taken", Fault::Caller;
    Self::BufferShortened => "buffer_shortened", Fault::Caller;
    Self::WrongLength { .. } => "wrong_length", Fault::Host, ALTERED;
    Self::Truncated { .. } => "truncated", Fault::Host, ALTERED;
    Self::Trailing { .. } => "trailing", Fault::Host, ALTERED;
    Self::BadMagic => "bad_magic", Fault::Host, ALTERED;
    Self::UnknownVersion(_) => "unknown_version", Fault::Host,
        "use the same version of Coffer on the driver and on every executor";
    Self::ReservedBits => "reserved_bits", Fault::Host, ALTERED;
    Self::BadLength(_) => "bad_length", Fault::Host, ALTERED;
    Self::WrongCounter { .. } => "wrong_counter", Fault::Host, ALTERED;
    Self::FrameAfterLast => "frame_after_last", Fault::Host, ALTERED;
    Self::Unfinished { .. } => "unfinished", Fault::Host, ALTERED;
    Self::Refused => "refused", Fault::Host, ALTERED;
    Self::WrongPartition => "wrong_partition", Fault::Host, ALTERED;
    Self::WrongTarget => "wrong_target", Fault::Host, ALTERED;
    Self::WrongAttempt => "wrong_attempt", Fault::Host, ALTERED;
    Self::UnknownKind(_) => "unknown_kind", Fault::Host, ALTERED;
    Self::Unauthentic => "unauthentic", Fault::Host, ALTERED;
}

impl Error {
    /// Which kind of check failed.
    pub fn refused_by(&self) -> RefusedBy {
        match self {
            Error::Unauthentic => RefusedBy::Tag,
            Error::WrongLength { .. }
            | Error::Truncated { .. }
            | Error::Trailing { .. }
            | Error::BadLength(_) => RefusedBy::Length,
            Error::WrongCounter { .. }
            | Error::FrameAfterLast
            | Error::Unfinished { .. }
            | Error::Refused => RefusedBy::Order,
            Error::BadMagic
            | Error::UnknownVersion(_)
            | Error::ReservedBits
            | Error::UnknownKind(_) => RefusedBy::Format,
            Error::WrongPartition | Error::WrongTarget | Error::WrongAttempt => RefusedBy::Identity,
            Error::Randomness
            | Error::Crypto
            | Error::TooLong { .. }
            | Error::TooManyFrames
            | Error::SealedAfterLast
            | Error::TargetTaken
            | Error::BufferShortened => RefusedBy::Nothing,
        }
    }
}
