//! Identities: every one a type of its own, so that a stage can't be passed for a partition.

use crate::{Error, fill_random};

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// 128 random bits.
            pub fn draw() -> Result<Self, Error> {
                let mut bytes = [0; 16];
                fill_random(&mut bytes)?;
                Ok(Self(bytes))
            }

            /// From 16 bytes that a peer sent.
            pub fn from_slice(bytes: &[u8]) -> Result<Self, Error> {
                let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| Error::WrongLength { want: 16, got: bytes.len() })?;
                Ok(Self(bytes))
            }

            /// The bytes.
            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

random_id!(
    /// One session: the life of a query's keys. Not a secret.
    SessionId
);
random_id!(
    /// One run of one task, drawn by the engine that runs it (see [`crate::Attempt`]). Not a secret.
    AttemptId
);
random_id!(
    /// One sealed message, drawn when it is sealed. Not a secret.
    MessageId
);
number_id!(
    /// A stage: one fragment of the plan, unique in its session.
    StageId(u32)
);
number_id!(
    /// A partition of a stage: one task.
    Partition(u32)
);
number_id!(
    /// One run of a plan within a session. A shuffle's output outlives it, so shuffle streams leave it out.
    ExecutionId(u64)
);
