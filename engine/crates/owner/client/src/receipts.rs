//! Receipts of sessions that asked for one: what is noted while the query runs, and what is signed
//! in the end.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use aws_lc_rs::digest;
use coffer_audit::{EngineUse, Event, now};
use coffer_protocol::wire::{MakeReceipt, ReceiptMade};
use coffer_sealing::sha256;
use coffer_statement::{
    AtClient, Envelope, Input, Plan, Query, RECEIPT_TYPE, Receipt, ResultDigest, ResultPart,
    Written,
};

use crate::{
    ClientError, Service,
    result::ResultRows,
    session::{Session, Shared},
    uses::Uses,
};

/// Which rows: of a stage and its execution. What runs at the client is stage 0, counted.
type Part = (u32, u64);

/// What a session's receipt will say.
pub(crate) struct Draft {
    began: String,
    text: [u8; 32],
    policies: BTreeSet<String>,
    stages: u64,
    plan: digest::Context,
    fragments: u64,
    at_client: digest::Context,
    /// What was read and opened at the client.
    here: Uses,
    engines: BTreeMap<String, EngineUse>,
    results: BTreeMap<Part, ResultDigest>,
}

impl Draft {
    /// Of a query with this text, under this policy.
    pub(crate) fn begin(text: &str, policy: String) -> Self {
        let sha256 = || digest::Context::new(&digest::SHA256);
        Self {
            began: now(),
            text: coffer_sealing::sha256(text.as_bytes()),
            policies: BTreeSet::from([policy]),
            stages: 0,
            plan: sha256(),
            fragments: 0,
            at_client: sha256(),
            here: Uses::default(),
            engines: BTreeMap::new(),
            results: BTreeMap::new(),
        }
    }

    /// A fragment that is sealed for engines, under this policy.
    pub(crate) fn stage(&mut self, stage: u32, fragment: &[u8], policy: String) {
        self.stages += 1;
        self.plan.update(&stage.to_le_bytes());
        add(&mut self.plan, fragment);
        self.policies.insert(policy);
    }

    /// An engine that gets keys of it.
    pub(crate) fn engine(&mut self, engine: &EngineUse) {
        let key = format!("{}/{}", engine.id, engine.evidence);
        self.engines.insert(key, engine.clone());
    }

    /// What is read or opened here.
    pub(crate) fn reads_here(&mut self, uses: &Uses) {
        self.here.absorb(uses);
    }

    fn ran_at_client(&mut self, fragment: &[u8]) -> Part {
        self.fragments += 1;
        add(&mut self.at_client, fragment);
        (0, self.fragments)
    }

    fn parts(&self, whole: impl Fn(Part) -> bool) -> Vec<ResultPart> {
        let parts = self.results.iter();
        parts
            .map(|(part, digest)| ResultPart {
                stage: part.0,
                execution: part.1,
                rows: digest.rows(),
                digest: digest.to_hex(),
                whole: whole(*part),
            })
            .collect()
    }
}

fn add(context: &mut digest::Context, fragment: &[u8]) {
    let length = u64::try_from(fragment.len()).unwrap_or(u64::MAX);
    context.update(&length.to_le_bytes());
    context.update(fragment);
}

/// Counts the rows that are given out into a session's receipt. What is not given out whole is in
/// none: the request has failed.
pub(crate) struct Tally {
    session: Shared,
    part: Part,
    digest: ResultDigest,
}

impl Tally {
    /// Rows in the types in which they are given out.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), ClientError> {
        Ok(self.digest.add(batch)?)
    }

    pub(crate) fn end(self) {
        if let Some(draft) = &mut self.session.lock().receipt {
            draft
                .results
                .entry(self.part)
                .or_default()
                .merge(&self.digest);
        }
    }
}

/// Rows of a stage's result that are given out.
pub(crate) fn given_out(rows: ResultRows, session: &Shared, part: Part) -> ResultRows {
    let asked = session.lock().receipt.is_some();
    let tally = asked.then(|| Tally {
        session: Shared::clone(session),
        part,
        digest: ResultDigest::default(),
    });
    ResultRows { tally, ..rows }
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
