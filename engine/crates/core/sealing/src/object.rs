//! Sealed objects: what a task gets beside fragment and descriptor (attempt lists, bounds, subquery
//! values), as `kind u8 ‖ blob`. The kind is a hint that picks the label; a changed one does not
//! open.

use crate::{
    Error, SessionId, SessionKey,
    blob::{append_blob, open_blob},
    message::Purpose,
};

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Which attempts of a stage count.
    Attempts,
    /// Bounds of a range partitioning.
    Bounds,
    /// The value of a scalar subquery.
    Value,
}

impl ObjectKind {
    fn byte(self) -> u8 {
        match self {
            ObjectKind::Attempts => 1,
            ObjectKind::Bounds => 2,
            ObjectKind::Value => 3,
        }
    }

    fn from_byte(byte: u8) -> Result<Self, Error> {
        match byte {
            1 => Ok(ObjectKind::Attempts),
            2 => Ok(ObjectKind::Bounds),
            3 => Ok(ObjectKind::Value),
            other => Err(Error::UnknownKind(other)),
        }
    }

    fn label(self) -> &'static str {
        match self {
            ObjectKind::Attempts => Purpose::Attempts.label(),
            ObjectKind::Bounds => Purpose::Bounds.label(),
            ObjectKind::Value => Purpose::Value.label(),
        }
    }
}

/// Seals an object for a session.
pub fn seal_object(
    key: &SessionKey,
    session: SessionId,
    kind: ObjectKind,
    plain: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut out = vec![kind.byte()];
    append_blob(
        key.root(),
        kind.label(),
        &[session.as_bytes()],
        plain,
        &mut out,
    )?;
    Ok(out)
}

/// Opens an object of a session. The kind it returns is authenticated; which object it is, the
/// plaintext says.
pub fn open_object(
    key: &SessionKey,
    session: SessionId,
    sealed: &[u8],
) -> Result<(ObjectKind, Vec<u8>), Error> {
    let (kind, blob) = sealed
        .split_first()
        .ok_or(Error::Truncated { need: 1, got: 0 })?;
    let kind = ObjectKind::from_byte(*kind)?;
    Ok((
        kind,
        open_blob(key.root(), kind.label(), &[session.as_bytes()], blob)?,
    ))
}
