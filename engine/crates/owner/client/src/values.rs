//! The value of a subquery, from rows that were opened here, sealed for the stages that use it.

use coffer_protocol::{
    padded,
    wire::{SealValue, SealedObject, Value, ValueSealed, sealed_object::Kind},
};
use coffer_sealing::{ObjectKind, seal_object, sha256};

use crate::{
    ClientError,
    session::{Object, Session},
};

/// Sets a value for the stages that are sealed from here on.
pub(crate) fn seal(session: &mut Session, request: SealValue) -> Result<ValueSealed, ClientError> {
    let id = request.id;
    let plain = padded(&SealedObject {
        kind: Some(Kind::Value(Value {
            id,
            literal: request.literal,
        })),
    });
    let object = Object {
        origins: session.origins_here()?,
        digest: sha256(&plain),
        sealed: seal_object(&session.key, session.id, ObjectKind::Value, &plain)?,
    };
    session.objects.set(id, object)?;
    Ok(ValueSealed {})
}
