//! The bounds and subquery values of a session: each is set once.

use std::collections::HashMap;

use crate::{ClientError, origins::Origins};

/// A bounds or value object.
pub(crate) struct Object {
    /// Of the rows that a value was computed from.
    pub(crate) origins: Origins,
    pub(crate) digest: [u8; 32],
    pub(crate) sealed: Vec<u8>,
}

/// By id.
#[derive(Default)]
pub(crate) struct Objects(HashMap<u32, Object>);

impl Objects {
    /// One that a stage is to be given.
    pub(crate) fn get(&self, stage: u32, id: u32) -> Result<&Object, ClientError> {
        let object = self.0.get(&id);
        object.ok_or(ClientError::ObjectUnknown { stage, object: id })
    }

    /// Sets an object. The same again is fine; each is set once.
    pub(crate) fn set(&mut self, id: u32, object: Object) -> Result<(), ClientError> {
        match self.0.get(&id) {
            Some(held) if held.digest == object.digest => Ok(()),
            Some(_) => Err(ClientError::ObjectTaken(id)),
            None => {
                self.0.insert(id, object);
                Ok(())
            }
        }
    }
}
