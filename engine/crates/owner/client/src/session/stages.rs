//! The stages of a session, as they were sealed.

use std::collections::HashMap;

use coffer_protocol::plan::Schema;

use crate::{ClientError, repeatable::Repeatable};

/// What a stage writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// One stream for each of so many reduce partitions.
    Shuffle(u32),
    /// One stream for all tasks that read it.
    Broadcast,
    Result,
    Sample,
    /// Files of a table: the number of the write.
    Write(u32),
}

impl Output {
    /// Whether other stages read it, in this execution or a later one.
    pub(crate) fn is_exchange(self) -> bool {
        matches!(self, Self::Shuffle(_) | Self::Broadcast)
    }
}

/// A stage as it was sealed.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// Digest of the whole request: a stage is sealed again only if it is the same.
    pub(crate) digest: [u8; 32],
    pub(crate) output: Output,
    pub(crate) schema: Schema,
    pub(crate) partitions: u32,
    pub(crate) repeatable: Repeatable,
    /// Bounds and values that its tasks are given.
    pub(crate) objects: Vec<u32>,
    /// Whether bytes reach it that the host may have chosen: from an unverified input, over
    /// whatever stages.
    pub(crate) host_chosen: bool,
    /// Whether one engine runs it with all others of its query.
    pub(crate) in_query: bool,
}

/// By stage and, but for exchanges (0), execution.
#[derive(Default)]
pub(crate) struct Stages(HashMap<(u32, u64), Stage>);

impl Stages {
    /// Enters a stage. The same again is fine; another one in its place is not, or descriptors of
    /// both could be mixed.
    pub(crate) fn enter(
        &mut self,
        stage: u32,
        execution: u64,
        entry: Stage,
    ) -> Result<(), ClientError> {
        let exchange = entry.output.is_exchange();
        let other_kind = self
            .0
            .iter()
            .any(|((id, _), held)| *id == stage && held.output.is_exchange() != exchange);
        let position = (stage, if exchange { 0 } else { execution });
        match self.0.get(&position) {
            _ if other_kind => Err(ClientError::StageTaken(stage)),
            Some(held) if held.digest == entry.digest => Ok(()),
            Some(_) => Err(ClientError::StageTaken(stage)),
            None => {
                self.0.insert(position, entry);
                Ok(())
            }
        }
    }

    /// A stage that others read, and how many streams each of its tasks writes.
    pub(crate) fn exchange(&self, stage: u32) -> Option<(&Stage, u32)> {
        let held = self.0.get(&(stage, 0))?;
        match held.output {
            Output::Shuffle(reduces) => Some((held, reduces)),
            Output::Broadcast => Some((held, 1)),
            Output::Result | Output::Sample | Output::Write(_) => None,
        }
    }

    /// A stage whose streams, or whose word on what it wrote, come here.
    pub(crate) fn collected(
        &self,
        stage: u32,
        execution: u64,
        output: Output,
    ) -> Result<Stage, ClientError> {
        self.0
            .get(&(stage, execution))
            .filter(|held| held.output == output)
            .cloned()
            .ok_or(ClientError::StageUnknown(stage))
    }

    /// How many tasks a stage has whose streams come here.
    pub(crate) fn partitions(&self, stage: u32, execution: u64) -> Option<usize> {
        let held = self.0.get(&(stage, execution))?;
        usize::try_from(held.partitions).ok()
    }

    /// Whether the rows of a stage come here as a result.
    pub(super) fn is_result(&self, stage: u32, execution: u64) -> bool {
        let held = self.0.get(&(stage, execution));
        held.is_some_and(|held| held.output == Output::Result)
    }
}
