//! What keeps an engine's memory out of files ([`crate::memory`]) and its values out of logs.

use std::io;

/// Where a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// A kernel that keeps one process from another's memory, if it is told to.
    Kernel,
    /// What may be a library inside an enclave, as Gramine is: it has no `prctl`, and no other
    /// process reads the memory of its own.
    EnclaveLibrary,
}

/// Core dumps and ptrace off, memory locked where the system lets it, arenas bounded. First thing
/// in `main`, before any key exists and any thread. What was not possible is in the log.
///
/// # Errors
/// The system's; that it has no such call is none [under a library](Under::EnclaveLibrary).
pub fn harden(under: Under) -> io::Result<()> {
    crate::memory::bound_arenas();
    match crate::memory::forbid_core_dumps() {
        Err(error)
            if under == Under::EnclaveLibrary && error.raw_os_error() == Some(libc::ENOSYS) =>
        {
            tracing::warn!(
                "the system has no prctl: what keeps other processes from this memory is an \
                 enclave, or nothing"
            );
        }
        done => done?,
    }
    match crate::memory::lock_memory() {
        locked @ crate::memory::Locked::All => tracing::info!("{locked}"),
        not => tracing::warn!("{not}"),
    }
    Ok(())
}

/// Panics say where, never what: a message may hold a value.
pub fn silence_panic_messages() {
    std::panic::set_hook(Box::new(|panic| {
        let position = panic
            .location()
            .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        tracing::error!(position, "a task panicked");
    }));
}
