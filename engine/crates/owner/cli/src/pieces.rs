//! Work in pieces that threads take one after another.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use crate::failure::{Exit, Failure};

/// As many threads as were asked for, else one for each core.
pub(crate) fn threads(asked: Option<u16>) -> usize {
    match asked {
        Some(threads) => usize::from(threads),
        None => thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Does `work` for each of the pieces `0..count`, on so many threads, and gives what came of them,
/// in their order. After the first failure no piece is begun; `work` is handed the flag that says
/// so, and may give up with none.
pub(crate) fn each<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize, &AtomicBool) -> Result<Option<T>, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let take = || -> Result<(), Failure> {
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            if let Some(made) = work(at, &failed)? {
                done.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((at, made));
            }
        }
        Ok(())
    };
    let take = || take().inspect_err(|_| failed.store(true, Ordering::Relaxed));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, count.max(1)))
            .map(|_| scope.spawn(take))
            .collect();
        let results = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| {
                Err(Failure::new(
                    Exit::Check,
                    "a thread of coffer gave up on the data",
                ))
            })
        });
        results.fold(Ok(()), Result::and)
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, made)| made).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_none_after_a_failure() {
        assert_eq!(
            each(100, 7, |at, _| Ok(Some(at))).unwrap(),
            (0..100).collect::<Vec<_>>()
        );
        assert!(each(0, 3, |at, _| Ok(Some(at))).unwrap().is_empty());
        let begun = AtomicUsize::new(0);
        let failed = each(100, 1, |at, _| {
            begun.fetch_add(1, Ordering::Relaxed);
            if at == 3 {
                Err(Failure::usage("three"))
            } else {
                Ok(Some(at))
            }
        });
        assert!(failed.is_err());
        assert_eq!(begun.load(Ordering::Relaxed), 4);
    }
}
