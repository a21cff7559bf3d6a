//! `coffer-leakscan`: looks for byte patterns in files, at the speed of reading them.
//!
//! A test tool, no part of Coffer: the leak harness (`testing/`) plants values, runs queries, and
//! has this program search heap dumps, core files, disks, logs and captured traffic, several
//! gigabytes in all. Nothing here knows what a pattern means.
//!
//! In: on stdin, one JSON list of patterns as hexadecimal text. Arguments: files and folders; what
//! is not a plain file is passed over, links are not followed. Out: one JSON object (see
//! [`scan::Report`]). Exit codes: 0 done, whatever was found; 2 used wrongly, or a file could not
//! be read. A file that vanishes while it is searched (a shuffle that Spark cleans up) is counted,
//! not an error.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

mod files;
mod scan;

use std::{
    io::{Read, stdin},
    path::PathBuf,
    process::ExitCode,
};

fn main() -> ExitCode {
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<String, String> {
    let roots: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut text = String::new();
    stdin()
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read the patterns from stdin: {error}"))?;
    let patterns: Vec<String> = serde_json::from_str(&text)
        .map_err(|error| format!("stdin is no JSON list of patterns: {error}"))?;
    let patterns = patterns
        .iter()
        .map(|pattern| hex::decode(pattern).map_err(|error| format!("pattern {pattern}: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    let mut found = files::Found::default();
    for root in roots {
        found
            .add(&root)
            .map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let report = scan::scan(&patterns, found)?;
    serde_json::to_string(&report).map_err(|error| format!("the report: {error}"))
}
