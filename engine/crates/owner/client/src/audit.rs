//! The audit log's part of the client engine: a record before keys leave, and one of each refusal.

use coffer_audit::{EngineUse, Event, Outcome, Query, TableUse, Who};
use coffer_catalog::TableWrite;
use coffer_protocol::{framing::Message, wire::ClientMessage};
use coffer_sealing::SessionId;
use prost::Message as _;

use crate::{
    ClientError, Service,
    session::Session,
    uses::{self, Uses},
};

/// The session that a message is about, in the messages that say so in their first field.
#[derive(Clone, PartialEq, prost::Message)]
struct OfSession {
    #[prost(bytes = "bytes", tag = "1")]
    session: bytes::Bytes,
}

impl Service {
    pub(crate) fn who(&self) -> Who {
        Who {
            user: self.user.clone().unwrap_or_else(|| Who::OWNER.to_owned()),
            application: self.application.lock().name.clone().unwrap_or_default(),
            ..self.account.clone()
        }
    }

    /// A session's query, for the log.
    pub(crate) fn query(&self, session: SessionId, text: &str) -> Result<Query, ClientError> {
        Ok(Query::seal(
            self.audit.key(),
            hex::encode(session.as_bytes()),
            text,
        )?)
    }

    /// Before keys of a session go to engines, or work for engines that have all keys it takes.
    /// What fails here stops it.
    pub(crate) fn audit_release(
        &self,
        session: &Session,
        engines: Vec<EngineUse>,
    ) -> Result<(), ClientError> {
        let event = Event {
            query: Some(session.query.clone()),
            tables: session.uses.all(),
            engines,
            ..Event::granted("release")
        };
        self.audit_append(event)
    }

    /// Each record names the policy that was followed then.
    fn audit_append(&self, event: Event) -> Result<(), ClientError> {
        let event = Event {
            policy: Some(self.followed.digest()),
            ..event
        };
        Ok(self.audit.append(&self.who(), event)?)
    }

    /// Before a version of a table counts.
    pub(crate) fn audit_publish(&self, write: &TableWrite) -> Result<(), ClientError> {
        let columns = write.columns().iter().map(|column| column.name.clone());
        self.audit_granted(Event::granted("write").table(TableUse {
            columns: columns.collect(),
            ..uses::written(write)
        }))
    }

    /// Before tables are read or values opened here, for a part of a query that no engine may do.
    pub(crate) fn audit_client(&self, query: Query, uses: Uses) -> Result<(), ClientError> {
        self.audit_granted(Event {
            query: Some(query),
            tables: uses.all(),
            ..Event::granted("open at the client")
        })
    }

    /// Before something else is done that the log must know of.
    pub(crate) fn audit_granted(&self, event: Event) -> Result<(), ClientError> {
        debug_assert_eq!(event.outcome, Outcome::Granted);
        self.audit_append(event)
    }

    /// A refusal stays one if it cannot be logged.
    pub(crate) fn audit_refusal(
        &self,
        kind: ClientMessage,
        message: &Message,
        error: &ClientError,
    ) {
        let mut event = Event::refused(action(kind), error.code(), error.in_owners_log());
        let denied = match error {
            ClientError::Denied { table, columns, .. } => Some((table, columns.clone(), false)),
            ClientError::DeniedWrite { table, .. } => Some((table, Vec::new(), true)),
            _ => None,
        };
        event.tables = denied
            .map(|(table, columns, write)| TableUse {
                name: table.clone(),
                columns,
                write,
                ..TableUse::default()
            })
            .into_iter()
            .collect();
        event.query = self.query_of(kind, message);
        if let Err(failed) = self.audit_append(event) {
            tracing::error!(error = %failed, "a refusal is not in the audit log");
        }
    }

    fn query_of(&self, kind: ClientMessage, message: &Message) -> Option<Query> {
        let says = matches!(
            kind,
            ClientMessage::SealStage
                | ClientMessage::SealQuery
                | ClientMessage::ReleaseKeys
                | ClientMessage::RunAtClient
                | ClientMessage::SealValue
        );
        let of = says
            .then(|| OfSession::decode(message.payload.clone()).ok())
            .flatten()?;
        let session = self.session(&of.session).ok()?;
        let query = session.lock().query.clone();
        Some(query)
    }
}

fn action(kind: ClientMessage) -> &'static str {
    match kind {
        ClientMessage::Hello => "connect",
        ClientMessage::OpenTable => "open table",
        ClientMessage::AdmitEngine => "admit engine",
        ClientMessage::ReleaseKeys | ClientMessage::SealStage | ClientMessage::SealQuery => {
            "release"
        }
        ClientMessage::EncryptLiterals => "encrypt literals",
        ClientMessage::RunAtClient => "open at the client",
        ClientMessage::BeginWrite | ClientMessage::WriteRows | ClientMessage::PublishWrite => {
            "write"
        }
        ClientMessage::CheckSources => "read plain",
        ClientMessage::DropTable => "drop table",
        ClientMessage::RenameTable => "rename table",
        ClientMessage::CheckPlain => "write plain",
        ClientMessage::CheckRead => "read",
        _ => "request",
    }
}
