//! Which log and which witnesses are believed, and what they must have signed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    Checkpoint, Entry, LogError, Proof,
    note::{Note, PublicKey, Signs},
    tree,
};

/// Clocks differ by so much: a signature from further ahead does not count.
const CLOCKS_DIFFER: Duration = Duration::from_secs(300);

/// Keys, and how many of them. Made by [`Trust::new`] alone, which sees to it that there are
/// enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    log: PublicKey,
    witnesses: Vec<PublicKey>,
    quorum: usize,
    most_age: Duration,
}

/// An entry that is in the log. Made by [`Trust::verify`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Included {
    /// The state of the log.
    pub checkpoint: Checkpoint,
    /// Which entry of it.
    pub index: u64,
    /// When enough witnesses had seen that state, in seconds since 1970.
    pub seen: u64,
}

impl Trust {
    /// `quorum`: so many of the witnesses must have signed a checkpoint, within `most_age`.
    pub fn new(
        log: PublicKey,
        witnesses: Vec<PublicKey>,
        quorum: usize,
        most_age: Duration,
    ) -> Result<Self, LogError> {
        if log.signs() != Signs::Notes {
            return Err(LogError::Key("a witness's key is none of a log"));
        }
        if witnesses
            .iter()
            .any(|key| key.signs() != Signs::Cosignatures)
        {
            return Err(LogError::Key("a log's key is none of a witness"));
        }
        let twice = |(at, key): (usize, &PublicKey)| {
            let mut before = witnesses.iter().take(at);
            before.any(|other| other.is_key_of(key)) || log.is_key_of(key)
        };
        if witnesses.iter().enumerate().any(twice) {
            return Err(LogError::Key(
                "a key is given twice: it would count as two witnesses",
            ));
        }
        if quorum == 0 || quorum > witnesses.len() {
            return Err(LogError::Key(
                "at least one witness must be asked for, and no more than there are",
            ));
        }
        Ok(Self {
            log,
            witnesses,
            quorum,
            most_age,
        })
    }

    /// The log.
    pub fn log(&self) -> &PublicKey {
        &self.log
    }

    /// Checks that an entry is in the log: the path leads to the root of a checkpoint that the log
    /// signed, which enough witnesses saw lately, and which takes nothing back of what this owner
    /// saw `before`.
    pub fn verify(
        &self,
        proof: &Proof,
        entry: &Entry,
        now: SystemTime,
        before: Option<&Checkpoint>,
    ) -> Result<Included, LogError> {
        let note = Note::parse(&proof.checkpoint)?;
        let checkpoint = Checkpoint::open(&note, &self.log)?;
        let seen = self.witnessed(&note, now)?;
        let leaf = tree::leaf(&entry.bytes());
        let root = tree::root_by(&leaf, proof.index, checkpoint.size, &proof.path);
        if root != Some(checkpoint.root) {
            return Err(LogError::NotIncluded);
        }
        if let Some(before) = before {
            goes_on(before, &checkpoint)?;
        }
        Ok(Included {
            checkpoint,
            index: proof.index,
            seen,
        })
    }

    /// When the last of a quorum signed: the witnesses' newest signatures count.
    fn witnessed(&self, note: &Note, now: SystemTime) -> Result<u64, LogError> {
        let seconds = |time: SystemTime| {
            time.duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs()
        };
        let latest = seconds(now + CLOCKS_DIFFER);
        let mut times: Vec<u64> = self
            .witnesses
            .iter()
            .filter_map(|key| note.signed_by(key))
            .filter(|time| *time <= latest)
            .collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let seen = self.quorum.checked_sub(1).and_then(|at| times.get(at));
        let seen = *seen.ok_or(LogError::TooFewWitnesses {
            found: times.len(),
            wanted: self.quorum,
        })?;
        let age = Duration::from_secs(seconds(now).saturating_sub(seen));
        match age > self.most_age {
            true => Err(LogError::Stale {
                hours: age.as_secs() / 3600,
                most: self.most_age.as_secs() / 3600,
            }),
            false => Ok(seen),
        }
    }
}

/// Whether a log may be in this state after that. That a larger tree holds the smaller one is what
/// its witnesses signed.
fn goes_on(before: &Checkpoint, now: &Checkpoint) -> Result<(), LogError> {
    match now.size.cmp(&before.size) {
        std::cmp::Ordering::Less => Err(LogError::Rollback {
            found: now.size,
            before: before.size,
        }),
        std::cmp::Ordering::Equal if now.root != before.root => Err(LogError::Fork(now.size)),
        _ => Ok(()),
    }
}
