//! What keeps an engine's memory out of files: no core dumps.
//!
//! This binds an honest system only. A hostile root reads memory as it likes where no TEE stops it; see `SECURITY.md`.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Turns core dumps off for this process. To be called first, before any key exists.
pub fn forbid_core_dumps() -> io::Result<()> {
    setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    )?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
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
    use rustix::process::{dumpable_behavior, getrlimit};

    use super::*;

    #[test]
    fn core_dumps_are_off_afterwards() {
        forbid_core_dumps().unwrap();
        assert_eq!(getrlimit(Resource::Core).maximum, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
