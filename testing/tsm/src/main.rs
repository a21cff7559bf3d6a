//! `coffer-tsm`: see the crate's README.

mod files;

use std::{
    fs, io,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::Path,
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

const REPORTS: &str = "/sys/kernel/config/tsm/report";
/// The shipped image's first program, under another name here.
const NEXT: &str = "/coffer-init";
const SERVE: &str = "--serve";
const READY: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match arguments.first() {
        Some(first) if first == SERVE => files::serve(Path::new(REPORTS)),
        _ => begin(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the stand-in for configfs-tsm: {error}");
            ExitCode::FAILURE
        }
    }
}

fn begin(arguments: &[std::ffi::OsString]) -> io::Result<()> {
    coffer_init::prepare().map_err(io::Error::other)?;
    let below = fs::metadata("/sys/kernel/config/tsm")?.dev();
    Command::new("/proc/self/exe").arg(SERVE).spawn()?;
    let deadline = Instant::now() + READY;
    while fs::metadata(REPORTS).is_ok_and(|found| found.dev() == below) {
        if Instant::now() > deadline {
            return Err(io::Error::other("it did not mount in time"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(Command::new(NEXT).args(arguments).exec())
}
