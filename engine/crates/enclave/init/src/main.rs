//! `coffer-init`: see the crate's README.
//!
//! What it does is fixed here and in the image, which is measured; the machine's host chooses
//! nothing of it but the arguments behind `--`, and these are measured too.

use std::process::ExitCode;

use rustix::system::{RebootCommand, reboot};

fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("error: coffer-init is the first program of a virtual machine and nothing else");
        return ExitCode::from(2);
    }
    let prepared = coffer_init::prepare();
    // As the kernel gave them: those behind `--`.
    let arguments = coffer_init::engines(std::env::args_os().skip(1));
    let error = match prepared.and_then(|()| coffer_init::become_engine(arguments)) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("error: {error}");
    let _ = reboot(RebootCommand::PowerOff);
    ExitCode::FAILURE
}
