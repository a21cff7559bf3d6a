//! Commit records of a shuffle or broadcast: which attempt of each map counts, and how many rows
//! there really are.

use std::collections::HashSet;

use coffer_protocol::{
    padded,
    wire::{
        AcceptCommits, AttemptList, CommitRecord, CommitsAccepted, SealedObject,
        sealed_object::Kind,
    },
};
use coffer_sealing::{
    AttemptId, ObjectKind, Partition, StageId, identity, open_message, seal_object,
};
use prost::Message;

use crate::{
    ClientError,
    origins::Origins,
    repeatable::Repeatable,
    session::{Accepted, Output, Session},
};

/// A commit record of the task that it must be of.
pub(crate) struct Commit {
    pub(crate) record: CommitRecord,
    pub(crate) attempt: AttemptId,
}

impl Commit {
    /// Opens the commit record of one task, which must count `streams` streams.
    pub(crate) fn open(
        session: &Session,
        stage: u32,
        partition: u32,
        streams: u32,
        sealed: &[u8],
    ) -> Result<Self, ClientError> {
        let identity = identity::commit(session.id, StageId(stage), Partition(partition));
        let plain = open_message(&session.key, &identity, sealed).map_err(|source| {
            ClientError::CommitOpening {
                stage,
                partition,
                source,
            }
        })?;
        let foreign = ClientError::CommitIdentity { stage, partition };
        let record = CommitRecord::decode(plain.as_slice())
            .map_err(|_| ClientError::Malformed("commit record"))?;
        let fits = record.session.as_ref() == session.id.as_bytes()
            && record.stage == stage
            && record.partition == partition
            && usize::try_from(streams) == Ok(record.streams.len());
        let attempt = AttemptId::from_slice(&record.attempt)
            .map_err(|_| ClientError::CommitIdentity { stage, partition })?;
        if fits {
            Ok(Self { record, attempt })
        } else {
            Err(foreign)
        }
    }
}

/// Takes the commit records of all maps of a shuffle or broadcast, and seals the list of their
/// attempts.
pub(crate) fn take(
    session: &mut Session,
    request: &AcceptCommits,
) -> Result<CommitsAccepted, ClientError> {
    let stage = request.stage;
    let (held, reduces) = session
        .stages
        .exchange(stage)
        .ok_or(ClientError::StageUnknown(stage))?;
    let (maps, output) = (held.partitions, held.output);
    let (repeatable, objects) = (held.repeatable, held.objects.clone());
    if request.maps != maps || usize::try_from(maps) != Ok(request.commits.len()) {
        return Err(ClientError::CommitCount {
            stage,
            want: maps,
            got: request.commits.len(),
        });
    }
    let width = usize::try_from(reduces).unwrap_or(usize::MAX);
    let mut rows_by_reduce = vec![0u64; width];
    let mut bytes_by_reduce = vec![0u64; width];
    let mut attempts = Vec::with_capacity(request.commits.len());
    let mut seen = HashSet::new();
    let mut origins = Origins::default();
    for (sealed, partition) in request.commits.iter().zip(0u32..) {
        let commit = Commit::open(session, stage, partition, reduces, sealed)?;
        if !seen.insert(commit.attempt) {
            return Err(ClientError::CommitRepeated { stage, partition });
        }
        attempts.push(commit.attempt);
        session.trace(&mut origins, stage, &objects, &commit.record)?;
        for ((count, rows), bytes) in commit
            .record
            .streams
            .iter()
            .zip(&mut rows_by_reduce)
            .zip(&mut bytes_by_reduce)
        {
            *rows = rows.saturating_add(count.rows);
            *bytes = bytes.saturating_add(count.bytes);
        }
    }
    let (epoch, sealed) = accept(session, stage, output, attempts)?;
    let may_change = repeatable == Repeatable::Not || !origins.is_empty();
    session.exchanges.trace(stage, epoch, origins);
    Ok(CommitsAccepted {
        epoch,
        sealed_attempts: sealed.into(),
        rows: rows_by_reduce
            .iter()
            .fold(0, |sum, rows| sum.saturating_add(*rows)),
        rows_by_reduce,
        bytes_by_reduce,
        may_change,
    })
}

/// A list that is not the one held gets the next epoch; a broadcast has one for ever.
pub(crate) fn accept(
    session: &mut Session,
    stage: u32,
    output: Output,
    attempts: Vec<AttemptId>,
) -> Result<(u32, Vec<u8>), ClientError> {
    let next = session.exchanges.next_epoch(stage, output, &attempts)?;
    let held = session.exchanges.accepted(stage);
    let epoch = match (next, held) {
        (Some(epoch), _) => epoch,
        (None, Some(held)) => return Ok((held.epoch, held.sealed.clone())),
        (None, None) => return Err(ClientError::StageUnknown(stage)),
    };
    let plain = padded(&SealedObject {
        kind: Some(Kind::Attempts(AttemptList {
            stage,
            epoch,
            attempts: attempts
                .iter()
                .map(|id| id.as_bytes().to_vec().into())
                .collect(),
        })),
    });
    let sealed = seal_object(&session.key, session.id, ObjectKind::Attempts, &plain)?;
    session.exchanges.accept(
        stage,
        Accepted {
            epoch,
            attempts,
            sealed: sealed.clone(),
        },
    );
    Ok((epoch, sealed))
}
