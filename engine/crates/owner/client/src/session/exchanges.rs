//! What of a session other stages read: outputs of shuffles and broadcasts, and cached rows that
//! stand for them.

use std::collections::HashMap;

use coffer_sealing::{AttemptId, SessionId};

use crate::{ClientError, origins::Origins, session::Output};

/// The outputs of a shuffle or broadcast that count.
pub(crate) struct Accepted {
    pub(crate) epoch: u32,
    pub(crate) attempts: Vec<AttemptId>,
    pub(crate) sealed: Vec<u8>,
}

/// Rows that another session has written to be cached: the stage as that session calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) session: SessionId,
    pub(crate) stage: u32,
}

/// By stage.
#[derive(Default)]
pub(crate) struct Exchanges {
    accepted: HashMap<u32, Accepted>,
    /// What the outputs were made from, by stage and epoch.
    origins: HashMap<(u32, u32), Origins>,
    /// Stages that stand for cached rows: whose they are.
    cached: HashMap<u32, Cached>,
}

impl Exchanges {
    /// The outputs that count now.
    pub(crate) fn accepted(&self, stage: u32) -> Option<&Accepted> {
        self.accepted.get(&stage)
    }

    /// The epoch that outputs of these attempts would have; none where they are those held. A
    /// broadcast has one list for ever: the driver holds the bytes, so nothing of it is ever lost
    /// and made again, and tasks of one stage must not join with two versions of it.
    pub(crate) fn next_epoch(
        &self,
        stage: u32,
        output: Output,
        attempts: &[AttemptId],
    ) -> Result<Option<u32>, ClientError> {
        match self.accepted.get(&stage) {
            Some(held) if held.attempts == attempts => Ok(None),
            Some(_) if output == Output::Broadcast => Err(ClientError::BroadcastTaken(stage)),
            Some(held) => Ok(Some(held.epoch + 1)),
            None => Ok(Some(1)),
        }
    }

    /// From here on these outputs count.
    pub(crate) fn accept(&mut self, stage: u32, accepted: Accepted) {
        self.accepted.insert(stage, accepted);
    }

    /// What the outputs of an epoch were made from.
    pub(crate) fn origins(&self, stage: u32, epoch: u32) -> Option<&Origins> {
        self.origins.get(&(stage, epoch))
    }

    pub(crate) fn trace(&mut self, stage: u32, epoch: u32, origins: Origins) {
        self.origins.insert((stage, epoch), origins);
    }

    /// Whose a stage is that stands for cached rows.
    pub(crate) fn cached(&self, stage: u32) -> Option<Cached> {
        self.cached.get(&stage).copied()
    }

    pub(crate) fn stand_for(&mut self, stage: u32, cached: Cached) {
        self.cached.insert(stage, cached);
    }
}
