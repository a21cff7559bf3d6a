//! Panics anywhere in this process. An engine contains those of a task; one elsewhere costs a
//! connection, or nobody notices it.

use std::{
    panic,
    sync::{Mutex, PoisonError},
    thread,
};

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes all panics from now on, on whatever thread. Fails if it does not.
pub(crate) fn watch() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |report| {
        let panic = format!("panic in {:?}: {report}", thread::current().name());
        SEEN.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(panic);
        before(report);
    }));
    let control = thread::spawn(|| panic!("the control: this one must be noted"));
    assert!(control.join().is_err());
    assert_eq!(taken().len(), 1, "a panic on another thread was not noted");
}

/// Those noted since the last call.
pub(crate) fn taken() -> Vec<String> {
    std::mem::take(&mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner))
}
