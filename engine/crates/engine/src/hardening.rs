//! What keeps an engine's memory out of files: no core dumps.
//!
//! This binds an honest system only. A hostile root reads memory as it likes where no TEE stops it; see `SECURITY.md`.

use std::io;

use capctl::prctl::set_dumpable;
use rlimit::Resource;

/// Turns core dumps off for this process. To be called first, before any key exists.
pub fn forbid_core_dumps() -> io::Result<()> {
    Resource::CORE.set(0, 0)?;
    set_dumpable(false)?;
    Ok(())
}

/// Panics say where, never what: a message may hold a value.
pub fn silence_panic_messages() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        tracing::error!(place, "a task panicked");
    }));
}

#[cfg(test)]
mod tests {
    use capctl::prctl::get_dumpable;

    use super::*;

    #[test]
    fn core_dumps_are_off_afterwards() {
        forbid_core_dumps().unwrap();
        assert_eq!(Resource::CORE.get().unwrap(), (0, 0));
        assert!(!get_dumpable().unwrap());
    }
}
