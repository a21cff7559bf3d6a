//! A key service: one process of the owner, with the keyring open, to which drivers of other
//! accounts connect.
//!
//! Who connects the kernel says, by the credentials of the Unix socket's other end; `[users]` of
//! the policy maps the account to roles, and an account that is no user's is refused before a byte
//! that it sends is read and before it costs a thread. Over the network it is who holds the key of
//! a certificate: a relay of the owner's, in a program of its own, speaks TLS with it, and says at
//! a socket that is the owner's alone whose the connection is ([`crate::network`]).
//!
//! Each application of each user has a state of its own ([`Service`]): sessions, tables, engines
//! and writes of one are nothing to another. Neither passphrase nor keyring reaches a user's
//! account.
//!
//! What it does not do: bound the memory and time that a listed user takes.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use coffer_audit::{Event, Seldom};
use coffer_custody::{ConfigDir, Passphrase};
use coffer_protocol::{
    framing::Message,
    wire::{ClientMessage, Hello, Introduce},
};
use parking_lot::Mutex;

use crate::{
    ClientError, Service,
    access::{Peer, PeerId},
    guesses::Guesses,
};

/// How long an application's state outlives its last connection: a driver keeps some as long as it
/// runs.
const IDLE: Duration = Duration::from_secs(60);
/// Applications of one user at a time.
const APPLICATIONS: usize = 64;
const MAX_NAME: usize = 256;

/// Connections of one account at a time; a driver has one for each request that is under way.
const CONNECTIONS: usize = 256;

/// The owner's side of many applications.
pub struct KeyService {
    /// The owner's own, which no connection reaches: it has keyring, policy and audit log.
    front: Service,
    applications: Mutex<HashMap<ApplicationId, Served>>,
    /// Connections by account or certificate.
    guests: Mutex<HashMap<PeerId, usize>>,
    /// What each user had encrypted.
    guesses: Mutex<HashMap<String, Arc<Mutex<Guesses>>>>,
    /// By account; one person may have many (subordinate ones).
    refusals: Mutex<Seldom<PeerId>>,
}

/// A connection of a user's account.
pub(crate) struct Guest {
    keys: Arc<KeyService>,
    peer: Peer,
    user: String,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut guests = self.keys.guests.lock();
        let id = self.peer.id();
        if let Some(count) = guests.get_mut(&id) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                guests.remove(&id);
            }
        }
    }
}

/// Whose application: nothing of it is shared with another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ApplicationId {
    peer: PeerId,
    user: String,
    application: String,
}

struct Served {
    service: Arc<Service>,
    connections: usize,
    idle: Instant,
}

/// A connection's hold on its application's state.
pub(crate) struct Attached {
    pub(crate) service: Arc<Service>,
    application: ApplicationId,
    guest: Guest,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(held) = self
            .guest
            .keys
            .applications
            .lock()
            .get_mut(&self.application)
        {
            held.connections = held.connections.saturating_sub(1);
            held.idle = Instant::now();
        }
    }
}

impl KeyService {
    /// Opens config directory, policy and keyring. A policy without users has nobody to serve.
    pub fn open(config_dir: ConfigDir, passphrase: &Passphrase) -> Result<Self, ClientError> {
        let front = Service::open(config_dir, passphrase)?;
        if front.policy_now()?.users().next().is_none() {
            return Err(ClientError::NoUsers);
        }
        Ok(Self {
            front,
            applications: Mutex::default(),
            guests: Mutex::default(),
            guesses: Mutex::default(),
            refusals: Mutex::default(),
        })
    }

    /// As [`Service::end`].
    pub fn end(&self) {
        self.front.end();
    }

    /// Lets the account of a connection in, if it is a user's. Nothing that it sent plays a part.
    pub(crate) fn enter(self: &Arc<Self>, uid: Option<u32>) -> Result<Guest, ClientError> {
        let peer = Peer::of(uid.ok_or(ClientError::NoCredentials)?);
        self.guest(&peer)
            .inspect_err(|error| self.refused(&peer, error))
    }

    /// Lets in whom the relay's first message names, if it is a user's certificate.
    pub(crate) fn enter_introduced(
        self: &Arc<Self>,
        first: &Message,
    ) -> Result<Guest, ClientError> {
        if i32::from(first.kind) != i32::from(ClientMessage::Introduce) {
            return Err(ClientError::NotIntroduced);
        }
        let introduced: Introduce = first
            .decode("INTRODUCE")
            .map_err(|_| ClientError::NotIntroduced)?;
        let peer = Peer::Certificate {
            names: introduced.names,
            fingerprint: hex::encode(introduced.fingerprint),
        };
        self.guest(&peer)
            .inspect_err(|error| self.refused(&peer, error))
    }

    fn guest(self: &Arc<Self>, peer: &Peer) -> Result<Guest, ClientError> {
        // What is wrong with the policy is the owner's to know.
        let policy = self
            .front
            .policy_now()
            .map_err(ClientError::without_policy)?;
        let user = peer
            .user(&policy)
            .map_err(ClientError::without_policy)?
            .to_owned();
        let mut guests = self.guests.lock();
        let count = guests.entry(peer.id()).or_default();
        if *count >= CONNECTIONS {
            return Err(ClientError::TooManyConnections(CONNECTIONS));
        }
        *count += 1;
        Ok(Guest {
            keys: Arc::clone(self),
            peer: peer.clone(),
            user,
        })
    }

    /// The state of the application that a connection's first message names.
    pub(crate) fn attach(guest: Guest, first: &Message) -> Result<Attached, ClientError> {
        if i32::from(first.kind) != i32::from(ClientMessage::Hello) {
            return Err(ClientError::NotGreeted);
        }
        let hello: Hello = first
            .decode("HELLO")
            .map_err(|_| ClientError::Malformed("HELLO"))?;
        if hello.application.len() > MAX_NAME {
            return Err(ClientError::Malformed("HELLO"));
        }
        let application = ApplicationId {
            peer: guest.peer.id(),
            user: guest.user.clone(),
            application: hello.application,
        };
        let keys = &guest.keys;
        keys.forget_idle();
        let mut applications = keys.applications.lock();
        if !applications.contains_key(&application) {
            let others = applications
                .keys()
                .filter(|held| held.user == application.user);
            if others.count() >= APPLICATIONS {
                return Err(ClientError::TooManyApplications(APPLICATIONS));
            }
            let guesses = Arc::clone(
                keys.guesses
                    .lock()
                    .entry(application.user.clone())
                    .or_default(),
            );
            let service = keys
                .front
                .fork(&application.user, guest.peer.clone(), guesses);
            let held = Served {
                service: Arc::new(service.map_err(ClientError::without_policy)?),
                connections: 0,
                idle: Instant::now(),
            };
            applications.insert(application.clone(), held);
        }
        let held = applications
            .get_mut(&application)
            .ok_or(ClientError::NotGreeted)?;
        held.connections = held.connections.saturating_add(1);
        let service = Arc::clone(&held.service);
        drop(applications);
        Ok(Attached {
            service,
            application,
            guest,
        })
    }

    /// Drops the states of applications that are gone, with their session keys and leases.
    pub(crate) fn forget_idle(&self) {
        let mut applications = self.applications.lock();
        applications.retain(|_, held| held.connections > 0 || held.idle.elapsed() < IDLE);
    }

    fn refused(&self, peer: &Peer, error: &ClientError) {
        let event = Event::refused("connect", error.code(), error.in_owners_log());
        let Some(event) = self.refusals.lock().record(peer.id(), event) else {
            return;
        };
        if let Err(failed) = self.front.audit.append(&peer.who(), event) {
            tracing::error!(error = %failed, "a refusal is not in the audit log");
        }
    }
}

#[cfg(test)]
mod tests {
    use coffer_audit::{Record, Who};
    use coffer_custody::Keyring;
    use coffer_protocol::wire::NewSession;

    use super::*;
    use crate::{kinds::kind_byte, service::Talk};

    /// Of users' accounts, and of one that is nobody's.
    const ANN: u32 = 4_000_000_001;
    const BOB: u32 = 4_000_000_002;
    const EVE: u32 = 4_000_000_003;
    const POLICY: &str = "[roles.some]\ntables.t = [\"a\"]\n[users.ann]\nroles = \
        [\"some\"]\naccount = 4000000001\n\
        [users.bob]\naccount = 4000000002\n";

    fn keys(policy: &str) -> (tempfile::TempDir, Arc<KeyService>) {
        let folder = tempfile::tempdir().unwrap();
        let config_dir = ConfigDir::at(folder.path().join("config"));
        config_dir.create().unwrap();
        let passphrase = Passphrase::new("correct horse").unwrap();
        let keyring = Keyring::create(&config_dir.keyring(), &passphrase).unwrap();
        coffer_catalog::policy::replace(&config_dir, &keyring, policy).unwrap();
        let keys = KeyService::open(config_dir, &passphrase).unwrap();
        (folder, Arc::new(keys))
    }

    fn message<M: prost::Message>(kind: ClientMessage, message: &M) -> Message {
        Message {
            kind: kind_byte(kind),
            payload: prost::Message::encode_to_vec(message).into(),
        }
    }

    fn hello() -> Message {
        let hello = Hello {
            protocol: 1,
            application: "app".to_owned(),
            ..Hello::default()
        };
        message(ClientMessage::Hello, &hello)
    }

    fn attached(keys: &Arc<KeyService>, uid: u32) -> Attached {
        KeyService::attach(keys.enter(Some(uid)).unwrap(), &hello()).unwrap()
    }

    fn records(keys: &KeyService) -> Vec<Record> {
        keys.front
            .audit
            .records()
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    fn code<T>(answer: Result<T, ClientError>) -> String {
        answer
            .err()
            .map_or(String::new(), |error| error.code().to_owned())
    }

    #[test]
    fn an_account_has_so_many_connections_and_no_more() {
        let (_folder, keys) = keys(POLICY);
        let mut guests: Vec<Guest> = (1..CONNECTIONS)
            .map(|_| keys.enter(Some(ANN)).unwrap())
            .collect();
        // It counts as long as its application is served.
        let attached = attached(&keys, ANN);
        assert_eq!(code(keys.enter(Some(ANN))), "too_many_connections");
        let other = keys.enter(Some(BOB)).unwrap();
        drop(attached);
        guests.push(keys.enter(Some(ANN)).unwrap());
        assert_eq!(code(keys.enter(Some(ANN))), "too_many_connections");
        drop((guests, other));
        assert!(keys.guests.lock().is_empty());
    }

    #[test]
    fn a_stranger_is_recorded_once() {
        let (_folder, keys) = keys(POLICY);
        for _ in 0..50 {
            assert_eq!(code(keys.enter(Some(EVE))), "unknown_account");
        }
        let records = records(&keys);
        let [record] = records.as_slice() else {
            panic!("{records:#?}");
        };
        assert_eq!(
            (record.who.user.as_str(), record.who.uid),
            (Who::NOBODY, EVE)
        );
        assert_eq!(record.event.code.as_deref(), Some("unknown_account"));
    }

    #[test]
    fn whom_the_relay_brings_is_known_by_a_name_in_the_certificate() {
        let policy = POLICY.replacen("account = 4000000001", "certificate = \"ann@b\"", 1);
        let (_folder, keys) = keys(&policy);
        let brought = |names: &[&str], certificate: &[u8]| {
            let introduced = Introduce {
                names: names.iter().map(ToString::to_string).collect(),
                fingerprint: certificate.to_vec().into(),
            };
            keys.enter_introduced(&message(ClientMessage::Introduce, &introduced))
        };
        let attached = KeyService::attach(brought(&["x", "ann@b"], b"one").unwrap(), &hello());
        let service = attached.unwrap().service.clone();
        assert_eq!(service.who().certificate, hex::encode("one"));
        assert_eq!(
            (service.who().user.as_str(), service.who().uid),
            ("ann", Who::ELSEWHERE)
        );
        assert!(service.rights().unwrap().reads("t", "a"));
        // Nor is an account's user one by the account's name, or a certificate's an account's.
        for names in [&[][..], &["bob"], &["4000000002"], &["ANN@b"]] {
            for _ in 0..3 {
                assert_eq!(
                    code(brought(names, b"other")),
                    "unknown_certificate",
                    "{names:?}"
                );
            }
        }
        assert_eq!(code(keys.enter(Some(ANN))), "unknown_account");
        assert_eq!(code(keys.enter_introduced(&hello())), "not_introduced");
        let mut cut = message(ClientMessage::Introduce, &Introduce::default());
        cut.payload = vec![0xff].into();
        assert_eq!(code(keys.enter_introduced(&cut)), "not_introduced");
        let refused: Vec<_> = records(&keys)
            .into_iter()
            .map(|record| record.who)
            .collect();
        assert_eq!(refused[0].certificate, hex::encode("other"));
        assert_eq!(refused.len(), 2, "one for each stranger");
    }

    #[test]
    fn what_is_wrong_with_the_policy_only_the_owner_reads() {
        let (_folder, keys) = keys(POLICY);
        let attached = attached(&keys, ANN);
        attached.service.rights().unwrap();
        std::fs::write(keys.front.config_dir.policy(), "nonsense of the owner").unwrap();
        for error in [
            keys.enter(Some(ANN)).err().unwrap(),
            keys.enter(Some(EVE)).err().unwrap(),
            attached.service.rights().err().unwrap(),
        ] {
            let problem = error.problem();
            assert_eq!(problem.code, "policy");
            for word in ["nonsense", "toml", "config"] {
                assert!(
                    !problem.message.contains(word) && !problem.hint.contains(word),
                    "{problem:?}"
                );
            }
            assert!(error.in_owners_log().contains("nonsense"));
        }
        let records = records(&keys);
        assert_eq!(records.len(), 2, "one for each account");
        assert!(
            records[0]
                .event
                .reason
                .as_deref()
                .unwrap()
                .contains("nonsense")
        );
    }

    #[test]
    fn an_account_that_becomes_another_users_has_no_rights_left() {
        let (_folder, keys) = keys(POLICY);
        let attached = attached(&keys, ANN);
        assert!(attached.service.rights().unwrap().reads("t", "a"));
        for (account, want) in [
            (
                "account = 4000000009\n[users.eve]\naccount = 4000000001",
                "unknown_account",
            ),
            ("", "unknown_account"),
            ("account = 4000000001", ""),
        ] {
            let policy = POLICY.replacen("account = 4000000001", account, 1);
            coffer_catalog::policy::replace(
                &keys.front.config_dir,
                keys.front.vault.keyring(),
                &policy,
            )
            .unwrap();
            assert_eq!(code(attached.service.rights()), want, "{account}");
        }
    }

    #[test]
    fn who_has_a_session_may_ask_which_policy_is_followed() {
        let (_folder, keys) = keys(POLICY);
        let attached = attached(&keys, ANN);
        let service = &attached.service;
        let mut talk = Talk::default();
        service.handle(&hello(), &mut talk).unwrap();
        let begin = message(ClientMessage::NewSession, &NewSession::default());
        service.handle(&begin, &mut talk).unwrap();
        let (_, session) = service.live.lock().sessions.all().pop().unwrap();
        let held = session.lock();
        let policy = format!("{POLICY}[tables.t]\n");
        let (config_dir, keyring) = (&keys.front.config_dir, keys.front.vault.keyring());
        coffer_catalog::policy::replace(config_dir, keyring, &policy).unwrap();
        std::thread::scope(|scope| {
            // It waits for the session, whose uses it looks at.
            let follows = scope.spawn(|| service.follow().is_ok());
            std::thread::sleep(Duration::from_millis(300));
            let (said, hears) = std::sync::mpsc::channel();
            scope.spawn(move || said.send(service.followed.digest()));
            let heard = hears.recv_timeout(Duration::from_secs(20));
            drop(held);
            assert!(heard.is_ok(), "who follows a policy holds it up");
            assert!(follows.join().unwrap());
        });
    }

    #[test]
    fn an_account_that_is_two_users_is_let_in_as_neither() {
        let Peer::Account {
            name: Some(name), ..
        } = Peer::of(0)
        else {
            return;
        };
        let (_folder, keys) = keys(&format!(
            "[users.a]\naccount = \"{name}\"\n[users.b]\naccount = 0\n"
        ));
        let error = keys.enter(Some(0)).err().unwrap();
        assert_eq!(error.code(), "policy");
        assert!(!error.to_string().contains("\"a\""));
        let reason = records(&keys)[0].event.reason.clone().unwrap();
        assert!(
            reason.contains("\"a\"") && reason.contains("\"b\""),
            "{reason}"
        );
    }
}
