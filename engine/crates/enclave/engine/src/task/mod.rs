//! One task: from START to DONE or FAILED.
//!
//! The engine opens what was sealed for it, checks it (`descriptor`), finds or builds the plan that
//! all tasks of the fragment share, runs its own partition with inputs from the executor (`input`)
//! and files from storage, and seals what comes out (`sink`). Nothing of a task outlives it but the
//! plan and opened footers, which are the session's.

mod check;
mod copies;
mod descriptor;
mod error;
pub(crate) mod input;
mod inputs;
mod io;
pub(crate) mod link;
mod narrow;
mod out;
mod query;
mod run;
mod sink;
mod storage;

pub use check::Check;
pub use error::TaskError;
pub use link::{LinkError, kind_byte};
pub(crate) use query::run_query;
pub(crate) use run::{Outcome, run};
pub use sink::{FrameError, SinkError};
