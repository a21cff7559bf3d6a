//! The audit log's part of the client engine: a record before keys leave, and one of each refusal.

use std::collections::BTreeMap;

use coffer_audit::{EngineUse, Event, Outcome, Query, TableUse, Who};
use coffer_catalog::TableWrite;
use coffer_protocol::{framing::Message, wire::ClientMessage};
use coffer_sealing::{Kek, KekSet, SessionId};
use prost::Message as _;

use crate::{ClientError, Service, session::Session, tables::Opened};

/// How the log calls plain inputs. No table can be called so.
const UNVERIFIED: &str = "unverified input";

/// What a session has used of tables so far.
#[derive(Clone, Default)]
pub(crate) struct Uses(BTreeMap<(String, u64, bool), TableUse>);

impl Uses {
    /// Columns of a table's files that a stage reads, and the KEKs that it takes. Whether that is
    /// news.
    pub(crate) fn read<'a>(
        &mut self,
        table: &Opened,
        file_columns: impl IntoIterator<Item = &'a str>,
        keks: &KekSet,
    ) -> bool {
        let empty = match table {
            Opened::Sealed(sealed) => TableUse {
                name: sealed.name().to_owned(),
                id: sealed.manifest().table.to_string(),
                version: sealed.manifest().version,
                master: sealed.master().to_owned(),
                ..TableUse::default()
            },
            Opened::Plain(plain) => TableUse {
                name: UNVERIFIED.to_owned(),
                id: format!("{:?}", plain.digest()),
                ..TableUse::default()
            },
        };
        let columns = file_columns
            .into_iter()
            .filter_map(|name| table.column_of(name));
        self.add(empty, columns.map(str::to_owned), keks)
    }

    /// What another session has read, of rows that this one reads in their place. Whether that is
    /// news.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        let mut news = false;
        for (position, theirs) in other.0.iter().filter(|(_, used)| !used.write) {
            let held = self.0.entry(position.clone());
            news |= matches!(held, std::collections::btree_map::Entry::Vacant(_));
            let held = held.or_insert_with(|| theirs.clone());
            news |= add_names(
                held,
                theirs.columns.iter().cloned(),
                theirs.keys.iter().cloned(),
            );
        }
        news
    }

    /// A table that a stage writes. Whether that is news.
    pub(crate) fn write(&mut self, write: &TableWrite) -> bool {
        let columns = write.columns().iter().map(|column| column.name.clone());
        self.add(written(write), columns, write.keks())
    }

    /// What was used of tables of this owner.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableUse> {
        self.0.values().filter(|used| used.name != UNVERIFIED)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(
        &mut self,
        empty: TableUse,
        columns: impl Iterator<Item = String>,
        keks: &KekSet,
    ) -> bool {
        let position = (empty.id.clone(), empty.version, empty.write);
        let mut news = !self.0.contains_key(&position);
        let held = self.0.entry(position).or_insert(empty);
        let keys = keks.iter().map(Kek::id).map(|id| id.to_string());
        news |= add_names(held, columns, keys);
        news
    }
}

/// Adds columns and keys to a use; whether any was missing.
fn add_names(
    held: &mut TableUse,
    columns: impl Iterator<Item = String>,
    keys: impl Iterator<Item = String>,
) -> bool {
    let before = held.columns.len() + held.keys.len();
    held.columns.extend(columns);
    held.keys.extend(keys);
    for names in [&mut held.columns, &mut held.keys] {
        names.sort_unstable();
        names.dedup();
    }
    held.columns.len() + held.keys.len() > before
}

/// A table that is written, without its columns.
fn written(write: &TableWrite) -> TableUse {
    TableUse {
        name: write.name().to_owned(),
        id: write.table().to_string(),
        version: write.version(),
        write: true,
        ..TableUse::default()
    }
}

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
            tables: session.uses.0.values().cloned().collect(),
            engines,
            ..Event::granted("release")
        };
        self.audit_append(event)
    }

    /// Each record names the policy that was followed then.
    fn audit_append(&self, event: Event) -> Result<(), ClientError> {
        let event = Event {
            policy: Some(self.followed.lock().digest()),
            ..event
        };
        Ok(self.audit.append(&self.who(), event)?)
    }

    /// Before a version of a table counts.
    pub(crate) fn audit_publish(&self, write: &TableWrite) -> Result<(), ClientError> {
        let columns = write.columns().iter().map(|column| column.name.clone());
        self.audit_granted(Event::granted("write").table(TableUse {
            columns: columns.collect(),
            ..written(write)
        }))
    }

    /// Before tables are read or values opened here, for a part of a query that no engine may do.
    pub(crate) fn audit_client(&self, query: Query, uses: Uses) -> Result<(), ClientError> {
        self.audit_granted(Event {
            query: Some(query),
            tables: uses.0.into_values().collect(),
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
        ClientMessage::ReleaseKeys | ClientMessage::SealStage => "release",
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
