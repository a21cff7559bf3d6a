//! What keeps an engine's memory out of files ([`crate::memory`]) and its values out of logs.

use std::io;

/// Core dumps and ptrace off, memory locked where the system lets it. First thing in `main`, before
/// any key exists. What was not possible is in the log.
pub fn harden() -> io::Result<()> {
    crate::memory::forbid_core_dumps()?;
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
