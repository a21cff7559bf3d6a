//! The fragment IR turned into DataFusion operators with Spark's semantics.
//!
//! [`build()`] makes one plan of N partitions from a [`coffer_protocol::plan::Fragment`]; task *i*
//! runs partition *i* with a task context of its own, whose [`TaskIo`] extension hands the plan's
//! leaves what is that task's: rows of sealed streams, slices of sealed files. Around the plan lies
//! what happens at a fragment's edge: the frame [`codec`], the [`partitioner`] of exchanges, the
//! [`sample`] for range bounds.
//!
//! There is no SQL, no optimizer and no catalogue here. What the IR says is done exactly, or
//! refused as [`Unsupported`] with the node and the reason. What it seals is only what sorts and
//! aggregates spill; it knows no socket.

#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod aggregate;
mod build;
mod coalesce;
#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::as_conversions))]
pub mod codec;
mod columns;
mod conjuncts;
mod decrypt;
mod drawn;
mod error;
mod expand;
mod expressions;
mod first_error;
mod generate;
mod input;
mod io;
mod join;
mod limit;
mod metrics;
mod narrow;
mod numbers;
mod operator;
mod order;
pub mod partitioner;
mod paused;
mod placed;
mod random;
mod readable;
pub mod sample;
mod scan;
mod scan_source;
mod schema;
pub mod spill;
mod top_k;
mod union;
mod values;
mod window;

pub use aggregate::{DependsOn, ashe_counts, depends_on};
pub use build::{BuildContext, Plan, build};
pub use coalesce::coalesced;
pub use conjuncts::Conjuncts;
pub use decrypt::Decryptor;
pub use error::Unsupported;
pub use io::{TaskIo, with_task_io};
pub use metrics::NodeMetrics;
pub use narrow::KeyBounds;
pub use readable::readable;
pub use scan_source::{ScanSource, Wanted};
pub use schema::{boundary_schema, config};
