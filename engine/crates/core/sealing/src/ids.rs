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
                let bytes = <[u8; 16]>::try_from(bytes).map_err(|_|
                    Error::WrongLength { want: 16, got: bytes.len() })?;
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
    ///
    /// `issuer (8 bytes) ‖ number (u64, big endian)`: a client engine numbers its sessions in the
    /// order in which they begin, so that it can say in few words which of them have ended. The id
    /// is in the identity of all that is sealed under the session's key.
    SessionId
);

/// Who numbers sessions: one client engine, for one application, from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionIssuer(pub [u8; 8]);

impl SessionIssuer {
    /// 64 random bits.
    pub fn draw() -> Result<Self, Error> {
        let mut bytes = [0; 8];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Its session of this number.
    pub fn session(self, number: u64) -> SessionId {
        let mut bytes = [0; 16];
        let (issuer, count) = bytes.split_at_mut(8);
        issuer.copy_from_slice(&self.0);
        count.copy_from_slice(&number.to_be_bytes());
        SessionId(bytes)
    }
}

impl SessionId {
    /// Who gave it its number.
    pub fn issuer(&self) -> SessionIssuer {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        SessionIssuer([a, b, c, d, e, f, g, h])
    }

    /// Its number among its issuer's.
    pub fn number(&self) -> u64 {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}
random_id!(
    /// One run of one task, drawn by the engine that runs it (see [`crate::Attempt`]). Not a
    /// secret.
    AttemptId
);
random_id!(
    /// One run of a query that one engine runs whole, drawn by that engine. Not a secret.
    RunId
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
    /// One run of a plan within a session. A shuffle's output outlives it, so shuffle streams leave
    /// it out.
    ExecutionId(u64)
);
random_id!(
    /// A table, whatever it is called. Not a secret. Written as hex.
    TableId
);
random_id!(
    /// A group of columns with comparable ciphertexts. Not a secret. Written as hex.
    LinkId
);

/// A column of a table: given once, never used again for another column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

macro_rules! id_from_hex {
    ($($name:ident),*) => {
        $(impl std::str::FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let mut bytes = [0; 16];
                hex::decode_to_slice(text, &mut bytes).map_err(|_| Error::WrongLength {
                    want: 16,
                    got: text.len() / 2,
                })?;
                Ok(Self(bytes))
            }
        })*
    };
}

id_from_hex!(TableId, LinkId);
