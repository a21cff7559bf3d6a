//! The client engine: the half of Coffer that runs at the client site, beside the Spark driver.
//!
//! It alone holds keyring, policy and register. For the driver's JVM, which holds no key, it
//! verifies engines and releases keys to them, opens tables, checks and seals whole stages, accepts
//! commit records, opens results, and publishes what was written. It parses what executors send
//! (sealed streams, commit records, errors) so that the JVM need not.
//!
//! It also runs what no engine may (`config_dir`): the finish of a result, and the part of a plan
//! above the last operator that engines can do on columns as they are stored.
//!
//! What it is not: it reads no table file, and believes nothing that was not sealed by an engine it
//! admitted.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod access;
mod admit;
mod application;
mod at_client;
mod audit;
mod bounds;
mod cached;
mod commits;
pub mod connection;
mod coverage;
mod decrypt;
mod diagnostics;
mod draft;
mod engines;
mod error;
mod finish;
mod follow;
mod guesses;
mod kinds;
mod literals;
mod live;
mod made;
pub mod network;
mod opened;
mod origins;
mod protections;
mod prune;
mod reads;
mod receipts;
mod repeatable;
mod result;
mod rows;
mod run;
mod serve;
mod service;
mod session;
mod sessions;
mod settings;
mod spark_arrow;
mod spills;
mod stage;
mod storage;
mod table;
mod tables;
mod tally;
mod types;
mod uses;
mod values;
mod writes;

pub use coverage::CoverageError;
pub use error::{ClientError, Revoked};
pub use serve::KeyService;
pub use service::Service;
