//! Receipts of sessions that asked for one: whose rows are noted, and what is signed in the end.

use aws_lc_rs::digest;
use coffer_audit::{Event, now};
use coffer_protocol::wire::{MakeReceipt, ReceiptMade};
use coffer_sealing::sha256;
use coffer_statement::{AtClient, Envelope, Input, Plan, Query, RECEIPT_TYPE, Receipt, Written};

use crate::{
    ClientError, Service,
    draft::{Draft, Part},
    result::ResultRows,
    session::{Session, Shared},
    tally::Tally,
    uses::Uses,
};

/// Rows of a stage's result that are given out.
pub(crate) fn given_out(rows: ResultRows, session: &Shared, part: Part) -> ResultRows {
    ResultRows {
        tally: Tally::begin(session, part),
        ..rows
    }
}

/// Notes a fragment that runs at the client; its rows are given out, unless they are kept.
pub(crate) fn at_client(
    rows: ResultRows,
    session: &Shared,
    fragment: &[u8],
    keeps: bool,
) -> ResultRows {
    let part = match &mut session.lock().receipt {
        Some(draft) => draft.ran_at_client(fragment),
        None => return rows,
    };
    match keeps {
        true => rows,
        false => given_out(rows, session, part),
    }
}

impl Service {
    /// Signs what is known of a session up to now. The audit log has the receipt's hash before
    /// anybody has the receipt.
    pub(crate) fn make_receipt(&self, request: MakeReceipt) -> Result<ReceiptMade, ClientError> {
        let session = self.session(&request.session)?;
        let (payload, query) = {
            let session = session.lock();
            let draft = session.receipt.as_deref().ok_or(ClientError::NoReceipt)?;
            let receipt = self.receipt(&session, draft, request.driver_operators);
            let payload = serde_json::to_vec(&receipt)
                .map_err(|source| ClientError::Receipt(source.into()))?;
            (payload, session.query.clone())
        };
        let key = self.vault.keyring().receipt_key();
        let envelope = Envelope::sign(RECEIPT_TYPE, &payload, &key)?;
        let event = Event {
            query: Some(query),
            ..Event::granted("receipt")
        };
        self.audit_granted(event.detail("sha256", hex::encode(sha256(&payload))))?;
        Ok(ReceiptMade {
            receipt: envelope.to_json()?.into(),
        })
    }

    fn receipt(&self, session: &Session, draft: &Draft, driver: Vec<String>) -> Receipt {
        let who = self.who();
        let hash = |context: &digest::Context| hex::encode(context.clone().finish());
        let mut policies = draft.policies.clone();
        policies.insert(self.followed.digest());
        Receipt {
            format: 1,
            query: Query {
                session: session.query.session.clone(),
                user: who.user,
                application: who.application,
                text_sha256: hex::encode(draft.text),
            },
            began: draft.began.clone(),
            made: now(),
            policies,
            plan: Plan {
                stages: draft.stages,
                sha256: hash(&draft.plan),
            },
            engines: draft.engines.values().cloned().collect(),
            inputs: inputs(&session.uses, &draft.here),
            written: written(&session.uses),
            at_client: AtClient {
                fragments: draft.fragments,
                sha256: hash(&draft.at_client),
                driver,
            },
            results: draft.parts(|part| is_whole(session, part)),
        }
    }
}

/// Whether all partitions of a stage came here; what runs at the client has one.
fn is_whole(session: &Session, (stage, execution): Part) -> bool {
    let partitions = session.stages.partitions(stage, execution);
    stage == 0 || partitions == Some(session.results.taken(stage, execution))
}

fn inputs(in_engines: &Uses, here: &Uses) -> Vec<Input> {
    let mut all = in_engines.clone();
    all.absorb(here);
    let read = all.all().into_iter().filter(|used| !used.write);
    read.map(|used| Input {
        name: used.name,
        id: used.id,
        version: used.version,
        manifest: used.manifest,
        columns: used.columns,
    })
    .collect()
}

fn written(uses: &Uses) -> Vec<Written> {
    let written = uses.all().into_iter().filter(|used| used.write);
    written
        .map(|used| Written {
            name: used.name,
            id: used.id,
            version: used.version,
        })
        .collect()
}
