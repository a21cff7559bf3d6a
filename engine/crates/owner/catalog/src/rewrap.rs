//! Moving wrapped keys to the newest version of their master, or to another master. Data files name
//! no master, so none is touched.
//!
//! Keys are wrapped anew without any lock, many at once, since masters may be servers; and put in
//! place under the register's lock, each only if the key that it replaces is still there. So each
//! is either old or new, whatever happens in between; one that somebody else changed meanwhile is
//! looked at again; and whoever is interrupted begins again and skips what is done.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use coffer_custody::{KeyContext, MasterError, Vault, WrappedKey};

use crate::{Error, HeldKey, Register};

/// So many keys are put in place at once, at most.
const BATCH: usize = 256;
/// How often a key is tried that somebody else changes each time.
const ROUNDS: usize = 8;

/// How to go about it.
#[derive(Debug, Clone)]
pub struct RewrapOptions {
    /// The master; none: each key's own.
    pub to: Option<String>,
    /// Keys that are wrapped at once.
    pub threads: usize,
    /// Also keys that are under the newest version already: where a master does not tell its
    /// versions apart.
    pub again: bool,
}

/// A master and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapping {
    /// The master's name.
    pub master: String,
    /// Its version, as it names it.
    pub version: String,
}

/// What became of one key.
#[derive(Debug)]
pub enum Rewrapped {
    /// It was under the newest version already.
    Current(Wrapping),
    /// It was moved.
    Moved {
        /// It was under.
        from: Wrapping,
        /// It is under.
        to: Wrapping,
    },
    /// It stays as it was.
    Failed(Error),
}

/// Rewraps keys of the register. `each` is told of every one, as it is done. The error is of the
/// register itself: what was told before it is done.
pub fn rewrap(
    register: &Register,
    vault: &Vault,
    keys: Vec<HeldKey>,
    options: &RewrapOptions,
    mut each: impl FnMut(&HeldKey, Rewrapped),
) -> Result<(), Error> {
    let mut todo = keys;
    for round in 0..ROUNDS {
        let newest = newest(vault, &todo, options);
        let mut lost = Vec::new();
        wrap_all(vault, &todo, options, &newest, |results| {
            let results = results
                .into_iter()
                .filter_map(|(key, wrapped)| match wrapped {
                    Ok(Some(new)) => Some((key, new)),
                    Ok(None) => {
                        each(
                            key,
                            wrapping(vault, &key.context, &key.wrapped)
                                .map_or_else(Rewrapped::Failed, Rewrapped::Current),
                        );
                        None
                    }
                    Err(error) => {
                        each(key, Rewrapped::Failed(error.into()));
                        None
                    }
                });
            let results: Vec<_> = results.collect();
            put(register, vault, results, &mut each, &mut lost)
        })?;
        if lost.is_empty() {
            return Ok(());
        }
        let now = register.held_keys()?;
        let is_lost = |key: &HeldKey| !key.pending && lost.contains(&key.context);
        todo = now.into_iter().filter(is_lost).collect();
        if round.saturating_add(1) == ROUNDS {
            for key in &todo {
                each(key, Rewrapped::Failed(Error::RewrapRaced(key.name.clone())));
            }
        }
    }
    Ok(())
}

type Newest = BTreeMap<String, String>;
type Wrapped<'a> = (&'a HeldKey, Result<Option<WrappedKey>, MasterError>);

/// The newest version of each master in question, asked once. One that does not answer is missing:
/// then each key's own failure says why.
fn newest(vault: &Vault, keys: &[HeldKey], options: &RewrapOptions) -> Newest {
    let mut newest = Newest::new();
    for key in keys {
        let master = options.to.as_ref().unwrap_or(&key.wrapped.master);
        if !newest.contains_key(master)
            && let Ok(state) = vault.master(master).state()
        {
            newest.insert(master.clone(), state.version);
        }
    }
    newest
}

/// Wraps all keys anew, on some threads, and hands the results over in batches.
fn wrap_all<'a>(
    vault: &Vault,
    keys: &'a [HeldKey],
    options: &RewrapOptions,
    newest: &Newest,
    mut put: impl FnMut(Vec<Wrapped<'a>>) -> Result<(), Error>,
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        // Gone with an early return from here, before the threads are waited for: then nothing more
        // is wrapped. Nor does it ever hold more than a batch that is still to be put in place.
        let (sender, results) = mpsc::sync_channel::<Wrapped<'a>>(BATCH);
        for _ in 0..options.threads.clamp(1, keys.len().max(1)) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender
                        .send((key, one(vault, key, options, newest)))
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        while let Ok(first) = results.recv() {
            let mut batch = vec![first];
            batch.extend(results.try_iter().take(BATCH.saturating_sub(1)));
            put(batch)?;
        }
        Ok(())
    })
}

/// The key under the newest version; none if it is there already.
fn one(
    vault: &Vault,
    key: &HeldKey,
    options: &RewrapOptions,
    newest: &Newest,
) -> Result<Option<WrappedKey>, MasterError> {
    let to = options.to.as_ref().unwrap_or(&key.wrapped.master);
    if !options.again && *to == key.wrapped.master {
        let version = vault.version_of(&key.context, &key.wrapped)?;
        if newest.get(to) == Some(&version) {
            return Ok(None);
        }
    }
    vault.rewrap(&key.context, &key.wrapped, to).map(Some)
}

/// Puts new keys in place, all at once.
fn put(
    register: &Register,
    vault: &Vault,
    keys: Vec<(&HeldKey, WrappedKey)>,
    each: &mut impl FnMut(&HeldKey, Rewrapped),
    lost: &mut Vec<KeyContext>,
) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut locked = register.lock()?;
    let mut placed = Vec::new();
    for (key, new) in &keys {
        // The version that wrapped it just now may have been destroyed since; under the lock nobody
        // destroys one.
        if let Err(error) = vault.check_by_keyring(&key.context, new) {
            each(key, Rewrapped::Failed(error.into()));
        } else if locked.swap_key(&key.context, &key.wrapped, new) {
            placed.push((key, new));
        } else {
            lost.push(key.context);
        }
    }
    if placed.is_empty() {
        return Ok(());
    }
    locked.store()?;
    drop(locked);
    for (key, new) in placed {
        let from = wrapping(vault, &key.context, &key.wrapped);
        let to = wrapping(vault, &key.context, new);
        let moved = from.and_then(|from| Ok(Rewrapped::Moved { from, to: to? }));
        each(key, moved.unwrap_or_else(Rewrapped::Failed));
    }
    Ok(())
}

fn wrapping(vault: &Vault, context: &KeyContext, wrapped: &WrappedKey) -> Result<Wrapping, Error> {
    Ok(Wrapping {
        master: wrapped.master.clone(),
        version: vault.version_of(context, wrapped)?,
    })
}

#[cfg(test)]
mod tests;
