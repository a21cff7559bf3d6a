//! How much memory an input claims: the system's allocator, counting.
//!
//! Counted is what is asked for, whether it is then touched or not: a machine that does not
//! overcommit ends the process that asks. All threads count together, since a task's work is done
//! by several.

#![allow(unsafe_code)] // an allocator cannot be written without

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Beyond this an allocation fails, and with it the process: so that a finding is one, and does not
/// take the machine along.
const CEILING: usize = 6 << 30;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Notes a claim; false if it is over the ceiling.
fn claim(bytes: usize) -> bool {
    let held = HELD
        .fetch_add(bytes, Ordering::Relaxed)
        .saturating_add(bytes);
    PEAK.fetch_max(held, Ordering::Relaxed);
    if held > CEILING {
        give_back(bytes);
        return false;
    }
    true
}

fn give_back(bytes: usize) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged, or fails as an allocator may.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !claim(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !claim(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !claim(size) {
            return std::ptr::null_mut();
        }
        give_back(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Looks at what is claimed from its start on.
pub(crate) struct Watch(usize);

impl Watch {
    pub(crate) fn start() -> Self {
        let held = HELD.load(Ordering::Relaxed);
        PEAK.store(held, Ordering::Relaxed);
        Self(held)
    }

    /// The most bytes that were held at once, over what was held at the start.
    pub(crate) fn claimed(&self) -> usize {
        PEAK.load(Ordering::Relaxed).saturating_sub(self.0)
    }
}
