//! Where the work at the client spills: one folder of this process, made when something does and
//! removed when the process ends, which may be in the middle of a query.

use std::{io, mem, sync::Arc};

use coffer_plan::spill::SpillFolder;
use parking_lot::Mutex;

/// The folder, shared by all applications.
#[derive(Default)]
pub(crate) struct Spills(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Unused,
    There(Arc<SpillFolder>),
    Ended,
}

impl Spills {
    /// Makes it, if it is not there. After the end there is none.
    pub(crate) fn folder(&self) -> io::Result<Arc<SpillFolder>> {
        let mut state = self.0.lock();
        match &*state {
            State::There(folder) => Ok(Arc::clone(folder)),
            State::Ended => Err(io::Error::other("the client engine is ending")),
            State::Unused => {
                let folder = SpillFolder::create(&std::env::temp_dir())?;
                *state = State::There(Arc::clone(&folder));
                Ok(folder)
            }
        }
    }

    /// Removes it, whoever still uses it.
    pub(crate) fn end(&self) {
        if let State::There(folder) = mem::replace(&mut *self.0.lock(), State::Ended) {
            folder.remove();
        }
    }
}
