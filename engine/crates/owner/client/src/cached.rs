//! Cached rows: what one session has written and other sessions of the application read.
//!
//! They are an exchange like any other, under a key from the application's cache key. To the
//! session that reads them they are a stage of its own: with a list of attempts that is sealed
//! under its key, and the key of the streams among the KEKs that it needs. So what counts of a
//! cache is what that list names, however many blocks the host has of it or of others.

use coffer_protocol::wire::{CommitsAccepted, ReadCache};
use coffer_sealing::{AttemptId, Kek, SessionId, sha256};

use crate::{
    ClientError,
    commits::accept,
    origins::Origins,
    repeatable::Repeatable,
    session::{Cached, Output, Session, Shared, Stage},
};

/// Enters rows that `cache` has written as a stage of the session that is to read them.
pub(crate) fn read(
    cache: &Shared,
    session: &Shared,
    request: &ReadCache,
) -> Result<CommitsAccepted, ClientError> {
    let unknown = ClientError::CacheUnknown(request.cache_stage);
    // One after the other: a session that caches may read what others have cached.
    let (entry, attempts, key, uses) = {
        let cache = cache.lock();
        let (entry, attempts) = found(&cache, request.cache_stage).ok_or(unknown)?;
        let key = Kek::of_cache(cache.id, &cache.key);
        (entry, attempts, key, cache.uses.clone())
    };
    let position = Cached {
        session: SessionId::from_slice(&request.cache_session)?,
        stage: request.cache_stage,
    };
    let mut session = session.lock();
    let output = entry.output;
    session.stages.enter(request.stage, 0, entry)?;
    session.exchanges.stand_for(request.stage, position);
    session.keys.need(&[key].into_iter().collect());
    // Who reads cached rows reads the tables that they come from.
    session.uses.absorb(&uses);
    let (epoch, sealed) = accept(&mut session, request.stage, output, attempts)?;
    (session.exchanges).trace(request.stage, epoch, Origins::default());
    Ok(CommitsAccepted {
        epoch,
        sealed_attempts: sealed.into(),
        ..CommitsAccepted::default()
    })
}

/// The stage of a session that caches, as another session has it, and which attempts count.
fn found(cache: &Session, stage: u32) -> Option<(Stage, Vec<AttemptId>)> {
    if !cache.caches {
        return None;
    }
    let (held, _) = cache.stages.exchange(stage)?;
    let accepted = cache.exchanges.accepted(stage)?;
    let origins = cache.exchanges.origins(stage, accepted.epoch)?;
    let Output::Shuffle(_) = held.output else {
        return None;
    };
    // What it was made from is of the other session: here the stage itself may be other rows when
    // it is made again.
    let repeatable = match origins.is_empty() {
        true => held.repeatable,
        false => Repeatable::Not,
    };
    let digest = sha256(&[cache.id.as_bytes().as_slice(), &stage.to_le_bytes()].concat());
    let entry = Stage {
        digest,
        output: held.output,
        schema: held.schema.clone(),
        partitions: held.partitions,
        repeatable,
        objects: Vec::new(),
        host_chosen: held.host_chosen,
        in_query: false,
    };
    Some((entry, accepted.attempts.clone()))
}
