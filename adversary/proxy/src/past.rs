//! What crossed earlier: a host forgets nothing, within reason.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use coffer_protocol::wire::{Done, EngineEvidence, Failed, Release, Start};

use crate::streams::{Stream, parse};

/// Bytes of tasks that are kept.
const KEPT: usize = 96 << 20;
/// Releases that are kept.
const RELEASES: usize = 256;
/// Second attempts that are kept: those of the newest query.
const ATTEMPTS: usize = 64;

/// How a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// With its records.
    Done(Done),
    /// With a sealed error.
    Failed(Failed),
}

/// What a task brought: each target's bytes in the order in which they left, and its last message.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// By target.
    pub outs: Vec<(u32, Vec<u8>)>,
    /// DONE or FAILED.
    pub end: End,
}

impl Outcome {
    /// The records, if it was done.
    #[must_use]
    pub fn done(&self) -> Option<&Done> {
        match &self.end {
            End::Done(done) => Some(done),
            End::Failed(_) => None,
        }
    }
}

/// One task as it truly was.
#[derive(Debug, Clone)]
pub struct Task {
    /// START as the executor sent it.
    pub start: Start,
    /// Whole inputs by id, those that the engine asked for.
    pub inputs: BTreeMap<u32, Vec<u8>>,
    /// What the engine answered.
    pub outcome: Outcome,
}

impl Task {
    fn size(&self) -> usize {
        let inputs: usize = self.inputs.values().map(Vec::len).sum();
        let outs: usize = self.outcome.outs.iter().map(|(_, bytes)| bytes.len()).sum();
        inputs + outs + self.start.sealed_fragment.len() + self.start.sealed_descriptor.len()
    }

    /// The streams that it wrote.
    #[must_use]
    pub fn streams(&self) -> Vec<Stream> {
        let parsed = self
            .outcome
            .outs
            .iter()
            .filter_map(|(_, bytes)| parse(bytes));
        parsed.flatten().collect()
    }
}

/// All that is kept, oldest first.
#[derive(Debug, Default)]
pub struct Past {
    tasks: VecDeque<Arc<Task>>,
    bytes: usize,
    attempts: VecDeque<Arc<Task>>,
    releases: VecDeque<(Vec<u8>, Release)>,
    /// Evidence of this engine and of earlier ones.
    pub evidence: Vec<EngineEvidence>,
}

impl Past {
    /// Keeps a task.
    pub fn keep(&mut self, task: Task) {
        self.bytes += task.size();
        self.tasks.push_back(Arc::new(task));
        while self.bytes > KEPT {
            let Some(oldest) = self.tasks.pop_front() else {
                return;
            };
            self.bytes = self.bytes.saturating_sub(oldest.size());
        }
    }

    /// Keeps another attempt of a task.
    pub fn keep_attempt(&mut self, task: Task) {
        self.attempts.push_back(Arc::new(task));
        if self.attempts.len() > ATTEMPTS {
            self.attempts.pop_front();
        }
    }

    /// Other attempts of those tasks of which this holds.
    pub fn attempts(&self, wanted: impl Fn(&Task) -> bool) -> Vec<Arc<Task>> {
        let wanted = self.attempts.iter().filter(|task| wanted(task));
        wanted.map(Arc::clone).collect()
    }

    /// Keeps a key release, and which session it was for.
    pub fn keep_release(&mut self, session: &[u8], release: &Release) {
        if self.releases.iter().any(|(_, kept)| kept == release) {
            return;
        }
        self.releases.push_back((session.to_vec(), release.clone()));
        if self.releases.len() > RELEASES {
            self.releases.pop_front();
        }
    }

    /// All tasks for which this holds.
    pub fn tasks(&self, wanted: impl Fn(&Task) -> bool) -> Vec<Arc<Task>> {
        self.tasks
            .iter()
            .filter(|task| wanted(task))
            .map(Arc::clone)
            .collect()
    }

    /// Releases for which this holds, by their session.
    pub fn releases(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<Release> {
        let found = self.releases.iter().filter(|(session, _)| wanted(session));
        found.map(|(_, release)| release.clone()).collect()
    }

    /// The newest task.
    #[must_use]
    pub fn newest(&self) -> Option<Arc<Task>> {
        self.tasks.back().map(Arc::clone)
    }
}
