//! What rows were made from, as far as it matters: which versions of those outputs that are not the same each time they are made.
//!
//! Spark leaves a reader alone that was done before its input was made again. If the input has other rows then, the query would mix two
//! versions of it. Spark is told which outputs are so, and runs their readers again; this is the check that it did, since a host that
//! holds old streams and old lists of attempts could have had some tasks read those.

use std::collections::BTreeMap;

use coffer_proto::wire::CommitRecord;

use crate::{ClientError, repeatable::Repeatable, session::Session};

/// By stage: the epoch of its attempts that was read, directly or by a stage in between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<u32, u32>);

impl Origins {
    /// Adds what one task of `stage` says it has read. Two versions of one output are an error.
    pub(crate) fn trace(&mut self, session: &Session, stage: u32, record: &CommitRecord) -> Result<(), ClientError> {
        for read in &record.reads {
            let (producer, epoch) = (read.stage, read.epoch);
            let (held, _) = session.exchange(producer).ok_or(ClientError::StageUnknown(producer))?;
            let before = session
                .origins
                .get(&(producer, epoch))
                .ok_or(ClientError::AttemptsMissing { stage, producer })?;
            if held.repeatable == Repeatable::Not {
                self.add(stage, producer, epoch)?;
            }
            for (origin, epoch) in &before.0 {
                self.add(stage, *origin, *epoch)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, stage: u32, producer: u32, epoch: u32) -> Result<(), ClientError> {
        match *self.0.entry(producer).or_insert(epoch) {
            held if held == epoch => Ok(()),
            _ => Err(ClientError::Mixed { stage, producer }),
        }
    }
}
