//! What a session notes for its receipt while the query runs.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::digest;
use coffer_audit::{EngineUse, now};
use coffer_statement::{ResultDigest, ResultPart};

use crate::uses::Uses;

/// Which rows: of a stage and its execution. What runs at the client is stage 0, counted.
pub(crate) type Part = (u32, u64);

/// What a session's receipt will say.
pub(crate) struct Draft {
    pub(crate) began: String,
    pub(crate) text: [u8; 32],
    pub(crate) policies: BTreeSet<String>,
    pub(crate) stages: u64,
    pub(crate) plan: digest::Context,
    pub(crate) fragments: u64,
    pub(crate) at_client: digest::Context,
    /// What was read and opened at the client.
    pub(crate) here: Uses,
    pub(crate) engines: BTreeMap<String, EngineUse>,
    pub(crate) results: BTreeMap<Part, ResultDigest>,
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

    pub(crate) fn ran_at_client(&mut self, fragment: &[u8]) -> Part {
        self.fragments += 1;
        add(&mut self.at_client, fragment);
        (0, self.fragments)
    }

    pub(crate) fn parts(&self, whole: impl Fn(Part) -> bool) -> Vec<ResultPart> {
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
