//! What rows were made from, as far as it matters: which versions of those outputs that are not the
//! same each time they are made.
//!
//! Spark leaves a reader alone that was done before its input was made again. If the input has
//! other rows then, the query would mix two versions of it. Spark is told which outputs are so, and
//! runs their readers again; this is the check that it did, since a host that holds old streams and
//! old lists of attempts could have had some tasks read those.
//!
//! What leaves the streams keeps its origins: the value of a subquery is of the versions that its
//! rows were made from, and so is what a task makes with it; rows that are kept here, and what is
//! made of those. (Range bounds have none: they say which task a row goes to, and whatever they
//! say, each row goes to one.)

use std::collections::BTreeMap;

use crate::ClientError;

/// By stage: the epoch of its attempts that was read, directly or by a stage in between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<u32, u32>);

impl Origins {
    /// Adds what other rows were made from; `stage` is made from both.
    pub(crate) fn merge(&mut self, stage: u32, other: &Self) -> Result<(), ClientError> {
        let mut origins = other.0.iter();
        origins.try_for_each(|(origin, epoch)| self.add(stage, *origin, *epoch))
    }

    /// Whether whoever reads the same again reads the same rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one version of an output that may have others.
    pub(crate) fn add(&mut self, stage: u32, producer: u32, epoch: u32) -> Result<(), ClientError> {
        match *self.0.entry(producer).or_insert(epoch) {
            held if held == epoch => Ok(()),
            _ => Err(ClientError::Mixed { stage, producer }),
        }
    }
}
