//! The `coffer` command line: makes keyrings, seals tables, opens, shows and checks them, at the
//! client site.
//!
//! Data goes to stdout, words to stderr (`error:`, then `hint:`), and the exit code says what kind
//! of failure it was ([`exit::Exit`]). The work is done by coffer-catalog and coffer-custody;
//! here are arguments, sources (Parquet, CSV) and output.
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

mod adopt;
mod args;
mod audit;
mod decrypt;
mod doctor;
mod encrypt;
mod exec;
mod exit;
mod failure;
mod init;
mod inspect;
mod keys;
mod kms;
mod local_path;
mod output;
mod pieces;
mod policy;
mod reference;
mod site;
mod source;
mod store;
mod verify;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::{CommandFactory, FromArgMatches};

fn main() -> ExitCode {
    let mut command = exit::document(Cli::command());
    let matches = command.get_matches_mut();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut command).exit(),
    };
    if let Some(warning) = coffer_sealing::UNSEALED_WARNING {
        eprintln!("warning: {warning}");
    }
    // Memory is locked where it may be; a command that is over in seconds says nothing where it may
    // not.
    let _ = coffer_process::memory::lock_memory();
    if let Err(error) = coffer_process::memory::forbid_core_dumps() {
        eprintln!("error: core dumps cannot be turned off: {error}");
        return ExitCode::FAILURE;
    }
    let site = site::Site::new(&cli.global);
    let done = match cli.command {
        Command::Init(args) => init::run(&site, &args),
        Command::Encrypt(args) => encrypt::run(&site, &args),
        Command::Adopt(args) => adopt::run(&site, &args),
        Command::Decrypt(args) => decrypt::run(&site, &args),
        Command::Inspect(args) => inspect::run(&site, &args),
        Command::Keys(args) => keys::run(&site, args),
        Command::Kms => kms::run(&site),
        Command::Verify(args) => verify::run(&site, &args),
        Command::Policy(args) => policy::run(&site, &args),
        Command::Doctor(args) => doctor::run(&site, &args),
        Command::Audit(args) => audit::run(&site, &args),
        Command::Engine(args) => exec::engine(&args),
        Command::Sql(args) => exec::sql(&site, &args),
        Command::Explain(args) => exec::explain(&site, &args),
        Command::Reference(args) => reference::print(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
