//! What makes a virtual machine ready for the engine: see the crate's README.
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

mod modules;

use std::{
    convert::Infallible,
    ffi::{CString, OsString},
    fs::{self, File},
    io,
    os::unix::{fs::DirBuilderExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    io::Errno,
    mount::{MountFlags, mount},
};
use thiserror::Error;

const ENGINE: &str = "/coffer-engine";
const SPILL: &str = "/run/spill";
/// Port of the tasks, and port at which whoever connects asks the engine to end.
const LISTEN: [&str; 2] = ["vsock:any:7077", "vsock:any:7078"];

/// Source, folder, type, flags, options.
const MOUNTS: [(&str, &str, MountFlags, &str); 6] = [
    ("proc", "/proc", CLOSED, ""),
    ("sysfs", "/sys", CLOSED, ""),
    ("securityfs", "/sys/kernel/security", CLOSED, ""),
    (
        "devtmpfs",
        "/dev",
        MountFlags::NOSUID.union(MountFlags::NOEXEC),
        "",
    ),
    ("tmpfs", "/run", CLOSED, "mode=0700,huge=within_size"),
    ("tmpfs", "/tmp", CLOSED, "mode=0700"),
];
const CLOSED: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);
const CONFIGFS: (&str, &str) = ("configfs", "/sys/kernel/config");

/// What must be so before a key comes here. A machine in which one cannot be set does not start.
const SETTINGS: [(&str, &str); 6] = [
    // No other kernel, now or after a panic, which could read this one's memory.
    ("/proc/sys/kernel/kexec_load_disabled", "1"),
    ("/proc/sys/kernel/core_pattern", "|/bin/false"),
    ("/proc/sys/kernel/sysrq", "0"),
    ("/proc/sys/kernel/kptr_restrict", "2"),
    // Nothing that runs here reads or changes the kernel's memory, or sleeps on a disk.
    ("/sys/kernel/security/lockdown", "confidentiality"),
    // With what was loaded the machine runs.
    ("/proc/sys/kernel/modules_disabled", "1"),
];

/// Why the machine does not start.
#[derive(Debug, Error)]
pub enum InitError {
    /// Something that the kernel has is not mounted.
    #[error("{0} cannot be mounted: {1}")]
    Mount(&'static str, Errno),
    /// A file or a setting.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// A module without which nothing works.
    #[error("the kernel's module {0} cannot be loaded: {1}")]
    Module(PathBuf, io::Error),
    /// It is not in the image, or not for this processor.
    #[error("the engine cannot be started: {0}")]
    Engine(io::Error),
}

/// Mounts what the kernel has to say and to give, and loads its modules.
pub fn prepare() -> Result<(), InitError> {
    for (kind, at, flags, options) in MOUNTS {
        attach(kind, at, flags, options)?;
    }
    modules::load(Path::new("/modules"), Path::new("/modules/optional"))?;
    attach(CONFIGFS.0, CONFIGFS.1, CLOSED, "")
}

/// What is for the engine. Firmware that starts the kernel with a RAM disk says so at the end of
/// the command line (EDK II's QemuLoadImageLib), behind the engine's arguments.
pub fn engines(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    arguments.filter(|argument| argument != "initrd=initrd")
}

/// Becomes the engine, in a machine that is closed now.
pub fn become_engine(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Infallible, InitError> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(SPILL)
        .map_err(|error| InitError::File(SPILL.into(), error))?;
    for (path, value) in SETTINGS {
        fs::write(path, value).map_err(|error| InitError::File(path.into(), error))?;
    }
    let null = File::open("/dev/null");
    let null = null.map_err(|error| InitError::File("/dev/null".into(), error))?;
    let [listen, stop] = LISTEN;
    let error = Command::new(ENGINE)
        .env_clear()
        .args(["--listen", listen, "--stop-at", stop])
        .args(["--files", "executor", "--spill-dir", SPILL])
        .args(arguments)
        .stdin(null)
        .exec();
    Err(InitError::Engine(error))
}

fn attach(
    kind: &'static str,
    at: &'static str,
    flags: MountFlags,
    options: &str,
) -> Result<(), InitError> {
    let made = fs::create_dir_all(at);
    made.map_err(|error| InitError::File(at.into(), error))?;
    let options = CString::new(options).unwrap_or_default();
    match mount(kind, at, kind, flags, options.as_c_str()) {
        // It is mounted there already.
        Err(Errno::BUSY) => Ok(()),
        mounted => mounted.map_err(|error| InitError::Mount(at, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_firmware_adds_is_not_for_the_engine() {
        let line = ["--evidence", "auto", "--memory", "2GiB", "initrd=initrd"];
        let kept = engines(line.iter().map(OsString::from));
        assert!(kept.eq(line[..4].iter().map(OsString::from)));
        // Whatever else somebody adds the engine refuses.
        let other = ["initrd=other", "initrd"];
        let kept: Vec<OsString> = engines(other.iter().map(OsString::from)).collect();
        assert_eq!(kept, other);
    }
}
