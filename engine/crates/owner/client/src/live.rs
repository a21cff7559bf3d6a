//! What lives of an application: its engines and its sessions.

use coffer_sealing::SessionId;

use crate::{ClientError, Revoked, engines::Engines, session::Shared, sessions::Sessions};

/// Engines and the sessions that they have keys of: what ends one ends the other's, at once.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) engines: Engines,
    pub(crate) sessions: Sessions,
}

impl Live {
    /// The session that a request names.
    pub(crate) fn session(&self, id: &[u8]) -> Result<Shared, ClientError> {
        let id = SessionId::from_slice(id).map_err(|_| ClientError::SessionUnknown)?;
        self.sessions.get(id)
    }

    /// Ends the session that a request names: its query has ended.
    pub(crate) fn ended(&mut self, id: &[u8]) -> Result<(), ClientError> {
        let id = SessionId::from_slice(id).map_err(|_| ClientError::SessionUnknown)?;
        // One that was ended from here is ended.
        match self.end(id) || self.sessions.was_revoked(id) {
            true => Ok(()),
            false => Err(ClientError::SessionUnknown),
        }
    }

    /// Ends a session; whether there was one.
    fn end(&mut self, id: SessionId) -> bool {
        let ended = self.sessions.end(id);
        if ended {
            self.engines.forget(id);
        }
        ended
    }

    /// Ends a session before its query has ended.
    pub(crate) fn revoke(&mut self, id: SessionId, why: Revoked) {
        if self.end(id) {
            self.sessions.note(id, why);
        }
    }
}
