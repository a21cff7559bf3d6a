//! Rows that are given out, counted into a session's receipt.

use arrow::array::RecordBatch;
use coffer_statement::ResultDigest;

use crate::{ClientError, draft::Part, session::Shared};

/// Counts the rows that are given out into a session's receipt. What is not given out whole is in
/// none: the request has failed.
pub(crate) struct Tally {
    session: Shared,
    part: Part,
    digest: ResultDigest,
}

impl Tally {
    /// Of a stage's result; none where the session makes no receipt.
    pub(crate) fn begin(session: &Shared, part: Part) -> Option<Self> {
        let asked = session.lock().receipt.is_some();
        asked.then(|| Self {
            session: Shared::clone(session),
            part,
            digest: ResultDigest::default(),
        })
    }

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
