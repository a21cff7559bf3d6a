//! The last operator of a fragment: seals its rows into streams.

mod direct;
mod frames;
mod keeper;
mod padding;
mod select;
mod shuffle;
mod stay;
mod write;

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use thiserror::Error;

pub(crate) use direct::{DirectSink, Staying};
pub use frames::FrameError;
pub(crate) use keeper::Keeper;
pub(crate) use select::Finished;
pub(crate) use select::TaskSink;
pub(crate) use shuffle::ShuffleSink;
pub(crate) use stay::StaySink;
pub(crate) use write::{WriteSink, Written};

use crate::task::link::LinkError;

/// Why rows do not leave.
#[derive(Debug, Error)]
pub enum SinkError {
    /// A row's target is none of the sink's: a defect of ours.
    #[error("a row was given to a target that the exchange does not have")]
    Target,
    /// Arrow refused to put rows together.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Encoding or sealing failed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The memory pool is full, and nothing is left to spill.
    #[error(transparent)]
    Memory(#[from] DataFusionError),
    /// The scratch file failed.
    #[error("the scratch file failed: {0}")]
    Scratch(#[from] std::io::Error),
    /// A file of a table could not be written.
    #[error("a file of the table cannot be written: {0}")]
    Table(#[from] coffer_format::Error),
    /// NULL for a column of the table that has none.
    #[error("NULL value appeared in non-nullable field: {0}")]
    NotNull(String),
    /// The executor is gone, or breaks the protocol.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl From<coffer_sealing::Error> for SinkError {
    fn from(error: coffer_sealing::Error) -> Self {
        Self::Frame(error.into())
    }
}

impl From<coffer_plan::codec::CodecError> for SinkError {
    fn from(error: coffer_plan::codec::CodecError) -> Self {
        Self::Frame(error.into())
    }
}
