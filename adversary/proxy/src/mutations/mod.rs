//! Every mutation, by name. A mutation is a function that alters one thing on its way, and says
//! what it did; or does nothing, when it finds nothing to bite on.

mod input;
mod keys;
mod outcome;
mod start;
mod talk;

use std::collections::BTreeMap;

use coffer_protocol::wire::{Attest, EngineEvidence, Release, Start};

use crate::{
    past::{Outcome, Past},
    rng::Rng,
};

pub use outcome::INVENTED;
pub use talk::Sent;

/// What was done, in words; none when nothing was.
pub type Did = Option<String>;

/// A task's inputs by id, whole.
pub type Inputs = BTreeMap<u32, Vec<u8>>;

/// Where in the conversation a mutation is applied, and the mutation.
#[derive(Clone, Copy)]
pub enum Mutation {
    /// In what the executor asks of a new engine.
    Attest(fn(&mut Attest, &Past, &mut Rng) -> Did),
    /// In what the engine proves.
    Evidence(fn(&mut EngineEvidence, &Past, &mut Rng) -> Did),
    /// In a key release; none: it is left out. The session's id is beside it.
    Release(fn(&mut Option<Release>, &[u8], &Past, &mut Rng) -> Did),
    /// In START.
    Start(fn(&mut Start, &Past, &mut Rng) -> Did),
    /// In an input, when the engine first asks for it.
    Input(fn(&mut Inputs, u32, &View<'_>, &mut Rng) -> Did),
    /// The same, with the task's other inputs at hand.
    Inputs(fn(&mut Inputs, u32, &View<'_>, &mut Rng) -> Did),
    /// In an input, with a second attempt at hand of each task that came before.
    Attempts(fn(&mut Inputs, u32, &View<'_>, &mut Rng) -> Did),
    /// A second run of the task beside the first, over these inputs, as they are or altered.
    Duplicate(fn(&mut Inputs, u32, &mut Rng) -> Did),
    /// In what the task brings.
    Outcome(fn(&mut Outcome, &View<'_>, &mut Rng) -> Did),
    /// The task is run a second time; the executor gets something of both.
    Twice(fn(&mut Outcome, &Outcome, &mut Rng) -> Did),
    /// The task is run by two engines, which change answers.
    Exchange,
    /// Out of turn, on the task's connection, when the engine asks for an input.
    Midway(fn(u32, &mut Rng) -> (Sent, String)),
    /// Before START, on the task's connection.
    Before(fn(&Past, &mut Rng) -> Option<(Sent, String)>),
    /// Beside a task, on a connection of its own; the task goes on.
    Beside(fn(&Start, &mut Rng) -> (Vec<u8>, String)),
    /// Without a query: a task of an earlier session is run again, by all that is known of it.
    Again,
}

/// The task in whose course a mutation is applied.
pub struct View<'a> {
    /// START as the executor sent it.
    pub start: &'a Start,
    /// What crossed before.
    pub past: &'a Past,
}

/// Every mutation.
pub fn all() -> Vec<(&'static str, Mutation)> {
    let mut all = Vec::new();
    for some in [
        input::MUTATIONS,
        outcome::MUTATIONS,
        start::MUTATIONS,
        keys::MUTATIONS,
        talk::MUTATIONS,
    ] {
        all.extend_from_slice(some);
    }
    all
}

/// The mutation of that name.
#[must_use]
pub fn named(name: &str) -> Option<Mutation> {
    all()
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, mutation)| mutation)
}

impl Mutation {
    /// Where it is applied, for lists.
    #[must_use]
    pub fn position(&self) -> &'static str {
        match self {
            Self::Attest(_) | Self::Evidence(_) => "boot",
            Self::Again => "probe",
            Self::Exchange => "engines",
            _ => "task",
        }
    }
}

/// Turns one bit over; none if there is none.
pub(crate) fn flip(bytes: &mut [u8], rng: &mut Rng) -> Did {
    let at = rng.below(bytes.len());
    let bit = rng.below(8);
    *bytes.get_mut(at)? ^= 1 << bit;
    Some(format!("bit {bit} of byte {at}"))
}

/// The same for an owned field of a message.
pub(crate) fn flipped(bytes: &[u8], rng: &mut Rng) -> Option<(Vec<u8>, String)> {
    let mut altered = bytes.to_vec();
    let what = flip(&mut altered, rng)?;
    Some((altered, what))
}

/// Cuts bytes somewhere before their end.
pub(crate) fn cut(bytes: &mut Vec<u8>, rng: &mut Rng) -> Did {
    if bytes.is_empty() {
        return None;
    }
    let (at, of) = (rng.below(bytes.len()), bytes.len());
    bytes.truncate(at);
    Some(format!("cut at {at} of {of}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let all = all();
        for (name, _) in &all {
            assert_eq!(
                all.iter().filter(|(other, _)| other == name).count(),
                1,
                "{name}"
            );
            assert!(named(name).is_some());
        }
        assert!(named("truth").is_none());
    }

    #[test]
    fn a_flip_is_one_bit_and_a_cut_is_shorter() {
        let mut rng = Rng::new(1);
        let mut bytes = vec![0; 8];
        flip(&mut bytes, &mut rng).unwrap();
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        cut(&mut bytes, &mut rng).unwrap();
        assert!(bytes.len() < 8);
        assert!(flip(&mut [], &mut rng).is_none());
    }
}
