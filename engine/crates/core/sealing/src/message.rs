//! Sealed messages between the client engine and the enclaves. Each has a purpose, which fixes its
//! label and its direction, and an identity, which both ends build with the same function of
//! [`identity`].

use crate::{
    Error, SessionKey,
    blob::{open_blob, seal_blob},
};

/// What a message is. Keys of different purposes have nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Driver to engine: a stage's fragment.
    Fragment,
    /// Driver to engine: a task's descriptor.
    Descriptor,
    /// Driver to engine: which attempts of a stage count.
    Attempts,
    /// Driver to engine: bounds of a range partitioning.
    Bounds,
    /// Driver to engine: the value of a scalar subquery.
    Value,
    /// Engine to driver: what a task wrote.
    Commit,
    /// Engine to driver: a task's metrics.
    Metrics,
    /// Engine to driver: what went wrong.
    Error,
}

impl Purpose {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Purpose::Fragment => "down fragment",
            Purpose::Descriptor => "down descriptor",
            Purpose::Attempts => "down attempts",
            Purpose::Bounds => "down bounds",
            Purpose::Value => "down value",
            Purpose::Commit => "up commit",
            Purpose::Metrics => "up metrics",
            Purpose::Error => "up error",
        }
    }
}

/// A message's purpose and place. Built by the functions of [`identity`] alone, so that both ends
/// agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageIdentity {
    purpose: Purpose,
    context: Vec<Vec<u8>>,
}

impl MessageIdentity {
    /// The purpose.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    pub(crate) fn parts(&self) -> Vec<&[u8]> {
        self.context.iter().map(Vec::as_slice).collect()
    }
}

/// Seals a message for its identity.
pub fn seal_message(
    key: &SessionKey,
    identity: &MessageIdentity,
    plain: &[u8],
) -> Result<Vec<u8>, Error> {
    seal_blob(
        key.root(),
        identity.purpose.label(),
        &identity.parts(),
        plain,
    )
}

/// Opens a message that must have been sealed for this identity.
pub fn open_message(
    key: &SessionKey,
    identity: &MessageIdentity,
    sealed: &[u8],
) -> Result<Vec<u8>, Error> {
    open_blob(
        key.root(),
        identity.purpose.label(),
        &identity.parts(),
        sealed,
    )
}

/// The identities that exist.
pub mod identity {
    use super::{MessageIdentity, Purpose};
    use crate::{ExecutionId, Partition, SessionId, StageId};

    /// A stage's fragment.
    pub fn fragment(session: SessionId, stage: StageId) -> MessageIdentity {
        MessageIdentity {
            purpose: Purpose::Fragment,
            context: vec![session.0.to_vec(), stage.0.to_le_bytes().to_vec()],
        }
    }

    /// A task's descriptor.
    pub fn descriptor(
        session: SessionId,
        execution: ExecutionId,
        stage: StageId,
        partition: Partition,
    ) -> MessageIdentity {
        let context = vec![
            session.0.to_vec(),
            execution.0.to_le_bytes().to_vec(),
            stage.0.to_le_bytes().to_vec(),
            partition.0.to_le_bytes().to_vec(),
        ];
        MessageIdentity {
            purpose: Purpose::Descriptor,
            context,
        }
    }

    /// A task's commit record.
    pub fn commit(session: SessionId, stage: StageId, partition: Partition) -> MessageIdentity {
        from_task(Purpose::Commit, session, stage, partition)
    }

    /// A task's metrics.
    pub fn metrics(session: SessionId, stage: StageId, partition: Partition) -> MessageIdentity {
        from_task(Purpose::Metrics, session, stage, partition)
    }

    /// A task's error.
    pub fn error(session: SessionId, stage: StageId, partition: Partition) -> MessageIdentity {
        from_task(Purpose::Error, session, stage, partition)
    }

    fn from_task(
        purpose: Purpose,
        session: SessionId,
        stage: StageId,
        partition: Partition,
    ) -> MessageIdentity {
        let context = vec![
            session.0.to_vec(),
            stage.0.to_le_bytes().to_vec(),
            partition.0.to_le_bytes().to_vec(),
        ];
        MessageIdentity { purpose, context }
    }
}
