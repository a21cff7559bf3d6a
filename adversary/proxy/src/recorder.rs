//! What a proxy has in hand: what crossed, and the mutation that it is to apply next.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coffer_protocol::wire::{Attest, EngineEvidence, Release, Start};

use crate::{
    mutations::{Did, Inputs, Mutation, Sent, View, named},
    past::{Outcome, Past, Task},
    rng::Rng,
};

/// What an armed mutation came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What was done, and to what; none when nothing was.
    pub what: Option<String>,
    /// In how many places it could have been applied.
    pub seen: u64,
    /// How many tasks came since it was armed.
    pub served: u64,
    /// How a second run of the task beside the first ended: `done`, or the word it failed with.
    pub beside: Option<String>,
}

/// Inputs of a second run of a task, and what was done to them.
pub(crate) struct Duplicate {
    pub(crate) inputs: Inputs,
    pub(crate) position: String,
    pub(crate) what: String,
}

/// How long runs beside a task may go on when it has ended.
const LINGERS: Duration = Duration::from_secs(20);

struct Armed {
    mutation: Mutation,
    rng: Rng,
    skip: u64,
    /// Whether some connection has set out to apply it.
    claimed: bool,
    report: Report,
}

#[derive(Default)]
struct State {
    armed: Option<Armed>,
    past: Past,
    /// Runs beside a task that have not ended.
    beside: u32,
    faults: Vec<String>,
}

/// Shared by all connections.
#[derive(Default)]
pub struct Recorder {
    state: Mutex<State>,
    ended: Condvar,
}

impl Recorder {
    /// Nothing armed, nothing seen.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Arms a mutation for the next place but `skip` where it can be applied; false if there is no
    /// such mutation.
    pub fn arm(&self, mutation: &str, seed: u64, skip: u64) -> bool {
        let Some(mutation) = named(mutation) else {
            return false;
        };
        self.lock().armed = Some(Armed {
            mutation,
            rng: Rng::new(seed),
            skip,
            claimed: false,
            report: Report::default(),
        });
        true
    }

    /// Disarms, and says what came of it. Runs beside a task are waited for.
    pub fn disarm(&self) -> Report {
        let state = self.lock();
        let waited = self
            .ended
            .wait_timeout_while(state, LINGERS, |state| state.beside > 0)
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = waited.0;
        if state.beside > 0 {
            state
                .faults
                .push("hang: a run beside a task does not end".to_owned());
        }
        state
            .armed
            .take()
            .map(|armed| armed.report)
            .unwrap_or_default()
    }

    /// What an engine did since the last call that none may do, whatever it is applied: it gave no
    /// answer in time.
    pub fn faults(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().faults)
    }

    pub(crate) fn fault(&self, what: &str) {
        self.lock().faults.push(what.to_owned());
    }

    /// Looks at what crossed.
    pub fn past<T>(&self, look: impl FnOnce(&mut Past) -> T) -> T {
        look(&mut self.lock().past)
    }

    /// Keeps a finished task.
    pub fn keep(&self, task: Task) {
        let mut state = self.lock();
        if let Some(release) = &task.start.release {
            state.past.keep_release(&task.start.session, release);
        }
        state.past.keep(task);
    }

    pub(crate) fn attest(&self, attest: &mut Attest) {
        self.apply(
            "ATTEST",
            attest,
            |mutation, value, past, rng| match mutation {
                Mutation::Attest(apply) => apply(value, past, rng),
                _ => None,
            },
        );
    }

    pub(crate) fn evidence(&self, evidence: &mut EngineEvidence) {
        self.apply(
            "EVIDENCE",
            evidence,
            |mutation, value, past, rng| match mutation {
                Mutation::Evidence(apply) => apply(value, past, rng),
                _ => None,
            },
        );
    }

    /// Whether the mutation was applied.
    pub(crate) fn release(&self, release: &mut Option<Release>, session: &[u8]) -> bool {
        self.apply(
            "RELEASE",
            release,
            |mutation, value, past, rng| match mutation {
                Mutation::Release(apply) => apply(value, session, past, rng),
                _ => None,
            },
        )
    }

    /// The mutation about a task's key release once more, when the engine asks for what it did not
    /// get by the first.
    pub(crate) fn release_again(&self, release: &mut Option<Release>, session: &[u8]) {
        let mut state = self.lock();
        let State { armed, past, .. } = &mut *state;
        if let Some(armed) = armed
            && let Mutation::Release(apply) = armed.mutation
        {
            let _ = apply(release, session, past, &mut armed.rng);
        }
    }

    pub(crate) fn start(&self, start: &mut Start) {
        if let Some(armed) = &mut self.lock().armed {
            armed.report.served += 1;
        }
        let position = position("START", start);
        self.apply(
            &position,
            start,
            |mutation, value, past, rng| match mutation {
                Mutation::Start(apply) => apply(value, past, rng),
                _ => None,
            },
        );
    }

    /// Keeps another attempt of a finished task.
    pub(crate) fn keep_attempt(&self, task: Task) {
        self.lock().past.keep_attempt(task);
    }

    /// Whether the mutation that is armed wants a second attempt of each task at hand.
    pub(crate) fn wants_attempts(&self) -> bool {
        let state = self.lock();
        let armed = state.armed.as_ref();
        armed.is_some_and(|armed| matches!(armed.mutation, Mutation::Attempts(_)) && !armed.claimed)
    }

    /// Whether the mutation that is armed wants all inputs of a task at hand.
    pub(crate) fn wants_inputs(&self) -> bool {
        let state = self.lock();
        let armed = state.armed.as_ref();
        armed.is_some_and(|armed| {
            matches!(armed.mutation, Mutation::Inputs(_) | Mutation::Duplicate(_))
        })
    }

    /// The inputs of a second run of this task, if there is to be one. Whoever gets it has to say
    /// how it ended.
    pub(crate) fn duplicate(
        &self,
        inputs: &Inputs,
        asked: u32,
        start: &Start,
    ) -> Option<Duplicate> {
        let apply = self.due(|mutation| match mutation {
            Mutation::Duplicate(apply) => Some(apply),
            _ => None,
        })?;
        let mut inputs = inputs.clone();
        let mut state = self.lock();
        let what = apply(&mut inputs, asked, &mut state.armed.as_mut()?.rng)?;
        state.beside += 1;
        let position = position("beside", start);
        Some(Duplicate {
            inputs,
            position,
            what,
        })
    }

    /// How a second run ended. `read`: the engine asked for the input that was altered.
    pub(crate) fn duplicate_ended(&self, duplicate: &str, read: bool, end: String) {
        let mut state = self.lock();
        if end == "hang" {
            state.faults.push(format!("hang: {duplicate}"));
        }
        if let Some(armed) = state.armed.as_mut().filter(|_| read) {
            armed.report.what = Some(duplicate.to_owned());
            armed.report.beside = Some(end);
        }
        state.beside = state.beside.saturating_sub(1);
        drop(state);
        self.ended.notify_all();
    }

    pub(crate) fn input(&self, inputs: &mut Inputs, asked: u32, start: &Start) {
        let position = position(&format!("input {asked}"), start);
        self.apply(
            &position,
            inputs,
            |mutation, value, past, rng| match mutation {
                Mutation::Input(apply) | Mutation::Inputs(apply) | Mutation::Attempts(apply) => {
                    apply(value, asked, &View { start, past }, rng)
                }
                _ => None,
            },
        );
    }

    pub(crate) fn outcome(&self, outcome: &mut Outcome, start: &Start) {
        let position = position("outcome", start);
        self.apply(
            &position,
            outcome,
            |mutation, value, past, rng| match mutation {
                Mutation::Outcome(apply) => apply(value, &View { start, past }, rng),
                _ => None,
            },
        );
    }

    /// Whether this task is to be run a second time.
    pub(crate) fn twice(&self) -> bool {
        self.due(|mutation| matches!(mutation, Mutation::Twice(_)).then_some(()))
            .is_some()
    }

    /// Makes something of both runs.
    pub(crate) fn of_both(&self, outcome: &mut Outcome, second: &Outcome, start: &Start) {
        let position = position("outcome", start);
        let before = outcome.clone();
        self.report(&position, |mutation, rng| match mutation {
            Mutation::Twice(apply) => apply(outcome, second, rng).filter(|_| *outcome != before),
            _ => None,
        });
    }

    /// Whether this task's answer is to be changed for another engine's, if one is at hand. Asked
    /// until it was.
    pub(crate) fn exchange(&self) -> bool {
        let state = self.lock();
        let armed = state.armed.as_ref();
        armed.is_some_and(|armed| {
            matches!(armed.mutation, Mutation::Exchange) && armed.report.what.is_none()
        })
    }

    /// Notes that it was.
    pub(crate) fn exchanged(&self, with: &str, start: &Start) {
        let position = position("outcome", start);
        self.report(&position, |_, _| Some(format!("the answer of {with}")));
    }

    /// What is said when the engine asks for an input, and in which words it is noted when it was
    /// said.
    pub(crate) fn midway(&self, asked: u32, start: &Start) -> Option<(Sent, String)> {
        let apply = self.due(|mutation| match mutation {
            Mutation::Midway(apply) => Some(apply),
            _ => None,
        })?;
        let (sent, what) = apply(asked, &mut self.lock().armed.as_mut()?.rng);
        Some((
            sent,
            format!("{}: {what}", position(&format!("NEED {asked}"), start)),
        ))
    }

    /// The same before START.
    pub(crate) fn before(&self, start: &Start) -> Option<(Sent, String)> {
        let apply = self.due(|mutation| match mutation {
            Mutation::Before(apply) => Some(apply),
            _ => None,
        })?;
        let mut state = self.lock();
        let State { armed, past, .. } = &mut *state;
        let (sent, what) = apply(past, &mut armed.as_mut()?.rng)?;
        Some((sent, format!("{}: {what}", position("before START", start))))
    }

    /// The same beside a task.
    pub(crate) fn beside(&self, start: &Start) -> Option<(Vec<u8>, String)> {
        let apply = self.due(|mutation| match mutation {
            Mutation::Beside(apply) => Some(apply),
            _ => None,
        })?;
        let (sent, what) = apply(start, &mut self.lock().armed.as_mut()?.rng);
        Some((sent, format!("{}: {what}", position("beside", start))))
    }

    /// Notes that what was to be said reached the engine.
    pub(crate) fn delivered(&self, what: String) {
        if let Some(armed) = &mut self.lock().armed {
            armed.report.what = Some(what);
        }
    }

    /// A mutation of this place is due: one is armed, nobody has set out to apply it, and as many
    /// places were spared as it was to spare. Whoever gets it has to apply it.
    fn due<T>(&self, of_this_task: impl FnOnce(Mutation) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        let armed = state.armed.as_mut()?;
        let found = of_this_task(armed.mutation)?;
        armed.report.seen += 1;
        let due = !armed.claimed && armed.report.seen > armed.skip;
        armed.claimed |= due;
        due.then_some(found)
    }

    /// Tells a mutation that is due, and notes what was done.
    fn report(&self, position: &str, apply: impl FnOnce(Mutation, &mut Rng) -> Did) {
        let mut state = self.lock();
        if let Some(armed) = state.armed.as_mut() {
            let mutation = armed.mutation;
            armed.report.what =
                apply(mutation, &mut armed.rng).map(|what| format!("{position}: {what}"));
        }
    }

    /// Applies the armed mutation to `value`, if it is one of this place, has something to bite on
    /// here, and was not applied before; whether it did.
    fn apply<T: Clone + PartialEq>(
        &self,
        position: &str,
        value: &mut T,
        of_this_task: impl FnOnce(Mutation, &mut T, &Past, &mut Rng) -> Did,
    ) -> bool {
        let mut state = self.lock();
        let State { armed, past, .. } = &mut *state;
        let Some(armed) = armed.as_mut() else {
            return false;
        };
        let mut altered = value.clone();
        let mut rng = armed.rng.clone();
        let did = of_this_task(armed.mutation, &mut altered, past, &mut rng);
        let Some(what) = did.filter(|_| altered != *value) else {
            return false;
        };
        armed.report.seen += 1;
        armed.rng = rng;
        let due = !armed.claimed && armed.report.seen > armed.skip;
        if due {
            armed.claimed = true;
            *value = altered;
            armed.report.what = Some(format!("{position}: {what}"));
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn position(what: &str, start: &Start) -> String {
    format!(
        "{what} of stage {} partition {}",
        start.stage, start.partition
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Start {
        Start {
            protocol: 1,
            sealed_fragment: vec![1, 2, 3].into(),
            ..Start::default()
        }
    }

    #[test]
    fn a_mutation_is_applied_once_after_those_it_spares() {
        let recorder = Recorder::new();
        assert!(!recorder.arm("truth", 1, 0));
        assert!(recorder.arm("flip-bit-fragment", 1, 2));
        let altered: Vec<bool> = (0..5)
            .map(|_| {
                let mut value = start();
                recorder.start(&mut value);
                value != start()
            })
            .collect();
        assert_eq!(altered, [false, false, true, false, false]);
        let report = recorder.disarm();
        assert_eq!(report.seen, 5);
        assert!(report.what.is_some());
        assert_eq!(recorder.disarm(), Report::default());
    }

    #[test]
    fn a_mutation_that_finds_nothing_to_change_is_not_applied() {
        let recorder = Recorder::new();
        recorder.arm("drop-object", 1, 0);
        let mut value = start();
        recorder.start(&mut value);
        recorder.arm("flip-bit-release", 1, 0);
        recorder.release(&mut None, &[]);
        assert_eq!(value, start());
        assert_eq!(recorder.disarm(), Report::default());
    }

    #[test]
    fn what_did_not_reach_the_engine_was_not_applied() {
        let recorder = Recorder::new();
        recorder.arm("garbage-beside", 1, 0);
        recorder.beside(&start()).unwrap();
        assert_eq!(recorder.disarm().what, None);
        recorder.arm("garbage-beside", 1, 0);
        let (_, what) = recorder.beside(&start()).unwrap();
        recorder.delivered(what);
        assert!(recorder.disarm().what.is_some());
    }

    #[test]
    fn two_runs_that_brought_the_same_are_no_mutation() {
        let outcome = |commit: u8| Outcome {
            outs: vec![(0, vec![1, 2, 3])],
            end: crate::past::End::Done(coffer_protocol::wire::Done {
                sealed_commit: vec![commit].into(),
                ..Default::default()
            }),
        };
        for (mutation, second, report) in [
            ("run-twice", 1, false),
            ("run-twice", 2, true),
            ("mix-attempts", 2, false),
        ] {
            let recorder = Recorder::new();
            recorder.arm(mutation, 1, 0);
            assert!(recorder.twice());
            recorder.of_both(&mut outcome(1), &outcome(second), &start());
            assert_eq!(recorder.disarm().what.is_some(), report, "{mutation}");
        }
    }

    #[test]
    fn a_run_beside_is_waited_for_and_counts_when_it_read_what_was_altered() {
        for (read, beside) in [(true, Some("failed".to_owned())), (false, None)] {
            let recorder = Recorder::new();
            recorder.arm("honest-duplicate", 1, 0);
            recorder.duplicate(&Inputs::new(), 3, &start()).unwrap();
            let ending = Arc::clone(&recorder);
            let ended = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                ending.duplicate_ended("the duplicate", read, "failed".to_owned());
            });
            let report = recorder.disarm();
            assert_eq!((report.what.is_some(), report.beside), (read, beside));
            ended.join().unwrap();
            assert!(recorder.faults().is_empty());
        }
    }

    #[test]
    fn a_run_beside_that_hangs_is_a_fault() {
        let recorder = Recorder::new();
        recorder.arm("honest-duplicate", 1, 0);
        recorder.duplicate(&Inputs::new(), 0, &start()).unwrap();
        recorder.duplicate_ended("the duplicate", true, "hang".to_owned());
        assert_eq!(recorder.faults(), ["hang: the duplicate"]);
        assert!(recorder.faults().is_empty());
    }
}
