//! Faults of a disk, for tests: any step fails, or is the last thing that the process does. Of one
//! thread.

use std::{cell::RefCell, io, path::Path};

use crate::disk::Op;

/// What becomes of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done.
    Done,
    /// It fails, and nothing is done.
    Fails,
    /// It is done, and yet said to have failed.
    DoneButFails,
    /// The process dies before it.
    DiesBefore,
    /// The process dies after it.
    DiesAfter,
}

type Judge = Box<dyn FnMut(Op, &Path) -> Fate>;

#[derive(Default)]
struct Process {
    judge: Option<Judge>,
    dead: bool,
}

thread_local! {
    static PROCESS: RefCell<Process> = RefCell::default();
}

/// Until [`end`], each step of this thread is judged.
pub(crate) fn begin(judge: impl FnMut(Op, &Path) -> Fate + 'static) {
    PROCESS.with_borrow_mut(|process| {
        *process = Process {
            judge: Some(Box::new(judge)),
            ..Process::default()
        };
    });
}

/// Whether the process died since [`begin`].
pub(crate) fn end() -> bool {
    PROCESS.with_borrow_mut(|process| std::mem::take(process).dead)
}

pub(super) fn around<T>(op: Op, path: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // Taken out while it judges: it may look at the disk itself.
    let judge = PROCESS.with_borrow_mut(|process| match process.dead {
        true => Err(()),
        false => Ok(process.judge.take()),
    });
    let fate = match judge {
        Err(()) => Fate::DiesBefore,
        Ok(None) => return act(),
        Ok(Some(mut judge)) => {
            let fate = judge(op, path);
            PROCESS.with_borrow_mut(|process| {
                process.judge = Some(judge);
                process.dead = matches!(fate, Fate::DiesBefore | Fate::DiesAfter);
            });
            fate
        }
    };
    let failed = || io::Error::from(io::ErrorKind::StorageFull);
    match fate {
        Fate::Done => act(),
        Fate::Fails | Fate::DiesBefore => Err(failed()),
        Fate::DoneButFails | Fate::DiesAfter => {
            let _ = act();
            Err(failed())
        }
    }
}
