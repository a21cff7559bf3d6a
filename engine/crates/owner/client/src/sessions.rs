//! The sessions of one application: their numbers, which of them live, and why others ended.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use coffer_sealing::{DerivationKey, Secret, SessionId, SessionIssuer, SessionKey};
use parking_lot::Mutex;

use crate::{
    ClientError, Revoked,
    session::{Session, Shared},
};

/// Ended sessions whose reason is known; of older ones it is only known that they ended.
const REASONS: usize = 1024;

/// Of one application.
#[derive(Default)]
pub(crate) struct Sessions {
    begun: HashMap<SessionId, Shared>,
    /// Who numbers them; drawn with the first.
    issuer: Option<SessionIssuer>,
    /// The number of the next one.
    next: u64,
    /// The numbers of those that live: all others below the next one have ended.
    live: BTreeSet<u64>,
    reasons: Reasons,
    /// The application's cache key; drawn with the first session that caches. It is nowhere else,
    /// and ends with the application.
    caches: Option<DerivationKey>,
}

impl Sessions {
    /// The id of a session that begins now. From here on it lives, for whatever descriptor is
    /// sealed.
    pub(crate) fn number(&mut self) -> Result<SessionId, ClientError> {
        let issuer = match self.issuer {
            Some(issuer) => issuer,
            None => *self.issuer.insert(SessionIssuer::draw()?),
        };
        let number = self.next;
        self.next = number.saturating_add(1);
        self.live.insert(number);
        Ok(issuer.session(number))
    }

    /// The key of a session of which others read what it writes.
    pub(crate) fn cache_key(&mut self, id: SessionId) -> Result<SessionKey, ClientError> {
        let application = match &self.caches {
            Some(key) => key,
            None => (self.caches).insert(DerivationKey::new("cache", &Secret::generate()?)),
        };
        Ok(SessionKey::of_cache(application, id)?)
    }

    /// What was made under a number; where nothing could be, the number has ended.
    pub(crate) fn begin(
        &mut self,
        id: SessionId,
        made: Result<Session, ClientError>,
    ) -> Result<(), ClientError> {
        match made {
            Ok(session) => self.begun.insert(id, Arc::new(Mutex::new(session))),
            Err(error) => {
                self.live.remove(&id.number());
                return Err(error);
            }
        };
        Ok(())
    }

    /// One that lives.
    pub(crate) fn get(&self, id: SessionId) -> Result<Shared, ClientError> {
        let found = self.begun.get(&id).map(Arc::clone);
        found.ok_or_else(|| match self.reasons.of(id) {
            Some(why) => ClientError::Revoked(why),
            None => ClientError::SessionUnknown,
        })
    }

    pub(crate) fn all(&self) -> Vec<(SessionId, Shared)> {
        let sessions = self.begun.iter();
        sessions
            .map(|(id, session)| (*id, Arc::clone(session)))
            .collect()
    }

    /// The number of the next one, and which of those before it live.
    pub(crate) fn horizon(&self) -> (u64, Vec<u64>) {
        (self.next, self.live.iter().copied().collect())
    }

    /// Ends one; whether there was one.
    pub(crate) fn end(&mut self, id: SessionId) -> bool {
        let ended = self.begun.remove(&id).is_some();
        if ended {
            self.live.remove(&id.number());
        }
        ended
    }

    /// Why one ended before its query did.
    pub(crate) fn note(&mut self, id: SessionId, why: Revoked) {
        self.reasons.note(id, why);
    }

    /// Whether it was ended from here, as far as that is still known.
    pub(crate) fn was_revoked(&self, id: SessionId) -> bool {
        self.reasons.of(id).is_some()
    }
}

/// Why sessions ended, the newest last.
#[derive(Default)]
struct Reasons(VecDeque<(SessionId, Revoked)>);

impl Reasons {
    fn note(&mut self, session: SessionId, why: Revoked) {
        self.0.push_back((session, why));
        while self.0.len() > REASONS {
            self.0.pop_front();
        }
    }

    fn of(&self, session: SessionId) -> Option<Revoked> {
        let found = self.0.iter().rev().find(|(id, _)| *id == session);
        found.map(|(_, why)| *why)
    }
}
