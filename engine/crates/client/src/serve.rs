//! A key service: one process of the owner, with the keyring open, to which drivers of other accounts connect.
//!
//! Who connects the kernel says, by the credentials of the Unix socket's other end; `[users]` of the policy maps the account to roles, and an
//! account that is no user's is refused before anything that it sends is used. Each application of each user has a state of its own
//! ([`Service`]): sessions, tables, engines and writes of one are nothing to another. Neither passphrase nor keyring reaches a user's account.
//!
//! What it does not do: bound the memory and time that a listed user takes.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use coffer_audit::{Event, Who};
use coffer_engine::wire::Message;
use coffer_keys::{Home, Passphrase};
use coffer_proto::wire::{ClientMessage, Hello};
use parking_lot::Mutex;

use crate::{ClientError, Service};

/// How long an application's state outlives its last connection: a driver keeps some as long as it runs.
const IDLE: Duration = Duration::from_secs(60);
/// Applications of one user at a time.
const APPLICATIONS: usize = 64;
const MAX_NAME: usize = 256;

/// The owner's side of many applications.
pub struct KeyService {
    /// The owner's own, which no connection reaches: it has keyring, policy and audit log.
    front: Service,
    applications: Mutex<HashMap<Place, Held>>,
}

/// Whose application: nothing of it is shared with another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    uid: u32,
    user: String,
    application: String,
}

struct Held {
    service: Arc<Service>,
    connections: usize,
    idle: Instant,
}

/// A connection's hold on its application's state.
pub(crate) struct Attached {
    pub(crate) service: Arc<Service>,
    place: Option<(Arc<KeyService>, Place)>,
}

impl Attached {
    /// To a client engine that serves one application.
    pub(crate) fn only(service: Arc<Service>) -> Self {
        Self { service, place: None }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some((keys, place)) = &self.place
            && let Some(held) = keys.applications.lock().get_mut(place)
        {
            held.connections = held.connections.saturating_sub(1);
            held.idle = Instant::now();
        }
    }
}

impl KeyService {
    /// Opens home, policy and keyring. A policy without users has nobody to serve.
    pub fn open(home: Home, passphrase: &Passphrase) -> Result<Self, ClientError> {
        let front = Service::open(home, passphrase)?;
        if front.policy.users().next().is_none() {
            return Err(ClientError::NoUsers);
        }
        Ok(Self {
            front,
            applications: Mutex::default(),
        })
    }

    /// The state of the application that a connection's first message names, if its account is a user's.
    pub(crate) fn attach(self: &Arc<Self>, uid: Option<u32>, first: &Message) -> Result<Attached, ClientError> {
        if i32::from(first.kind) != i32::from(ClientMessage::Hello) {
            return Err(ClientError::NotGreeted);
        }
        let hello: Hello = first.decode("HELLO").map_err(|_| ClientError::Malformed("HELLO"))?;
        let uid = uid.ok_or(ClientError::NoCredentials)?;
        let account = uzers::get_user_by_uid(uid);
        let name = account.as_ref().and_then(|account| account.name().to_str());
        let policy = self.front.policy_now()?;
        let Some(user) = policy.user_of(uid, name) else {
            let error = ClientError::UnknownAccount(uid);
            self.refused(uid, &hello.application, &error);
            return Err(error);
        };
        if hello.application.len() > MAX_NAME {
            return Err(ClientError::Malformed("HELLO"));
        }
        let place = Place {
            uid,
            user: user.to_owned(),
            application: hello.application,
        };
        self.forget_idle();
        let mut applications = self.applications.lock();
        if !applications.contains_key(&place) {
            let others = applications.keys().filter(|held| held.user == place.user);
            if others.count() >= APPLICATIONS {
                return Err(ClientError::TooManyApplications(APPLICATIONS));
            }
            let held = Held {
                service: Arc::new(self.front.fork(&place.user, uid)?),
                connections: 0,
                idle: Instant::now(),
            };
            applications.insert(place.clone(), held);
        }
        let held = applications.get_mut(&place).ok_or(ClientError::NotGreeted)?;
        held.connections = held.connections.saturating_add(1);
        Ok(Attached {
            service: Arc::clone(&held.service),
            place: Some((Arc::clone(self), place)),
        })
    }

    /// Drops the states of applications that are gone, with their session keys and leases.
    pub(crate) fn forget_idle(&self) {
        let mut applications = self.applications.lock();
        applications.retain(|_, held| held.connections > 0 || held.idle.elapsed() < IDLE);
    }

    fn refused(&self, uid: u32, application: &str, error: &ClientError) {
        let who = Who {
            user: Who::NOBODY.to_owned(),
            uid,
            application: application.chars().take(MAX_NAME).collect(),
        };
        let event = Event::refused("connect", error.code(), error.to_string());
        if let Err(failed) = self.front.audit.append(&who, event) {
            tracing::error!(error = %failed, "a refusal is not in the audit log");
        }
    }
}
