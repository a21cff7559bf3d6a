//! What a saboteur has in hand: what crossed, and the lie that it is to tell next.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coffer_protocol::wire::{Attest, EngineEvidence, Release, Start};

use crate::{
    lies::{Did, Inputs, Lie, Said, View, named},
    past::{Outcome, Past, Task},
    rng::Rng,
};

/// What an armed lie came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// What was done, and to what; none when nothing was.
    pub what: Option<String>,
    /// In how many places it could have been told.
    pub seen: u64,
    /// How many tasks came since it was armed.
    pub served: u64,
    /// How a second run of the task beside the first ended: `done`, or the word it failed with.
    pub beside: Option<String>,
}

/// Inputs of a second run of a task, and what was done to them.
pub(crate) struct Twin {
    pub(crate) inputs: Inputs,
    pub(crate) position: String,
    pub(crate) what: String,
}

/// How long runs beside a task may go on when it has ended.
const LINGERS: Duration = Duration::from_secs(20);

struct Armed {
    lie: Lie,
    rng: Rng,
    skip: u64,
    /// Whether some connection has set out to tell it.
    claimed: bool,
    told: Told,
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
pub struct Hands {
    state: Mutex<State>,
    ended: Condvar,
}

impl Hands {
    /// Nothing armed, nothing seen.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Arms a lie for the next place but `skip` where it can be told; false if there is no such lie.
    pub fn arm(&self, lie: &str, seed: u64, skip: u64) -> bool {
        let Some(lie) = named(lie) else { return false };
        self.lock().armed = Some(Armed {
            lie,
            rng: Rng::new(seed),
            skip,
            claimed: false,
            told: Told::default(),
        });
        true
    }

    /// Disarms, and says what came of it. Runs beside a task are waited for.
    pub fn disarm(&self) -> Told {
        let state = self.lock();
        let waited = self
            .ended
            .wait_timeout_while(state, LINGERS, |state| state.beside > 0)
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = waited.0;
        if state.beside > 0 {
            state.faults.push("hang: a run beside a task does not end".to_owned());
        }
        state.armed.take().map(|armed| armed.told).unwrap_or_default()
    }

    /// What an engine did since the last call that none may do, whatever it is told: it gave no answer in time.
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
        self.tell("ATTEST", attest, |lie, value, past, rng| match lie {
            Lie::Attest(tell) => tell(value, past, rng),
            _ => None,
        });
    }

    pub(crate) fn evidence(&self, evidence: &mut EngineEvidence) {
        self.tell("EVIDENCE", evidence, |lie, value, past, rng| match lie {
            Lie::Evidence(tell) => tell(value, past, rng),
            _ => None,
        });
    }

    /// Whether the lie was told.
    pub(crate) fn release(&self, release: &mut Option<Release>, session: &[u8]) -> bool {
        self.tell("RELEASE", release, |lie, value, past, rng| match lie {
            Lie::Release(tell) => tell(value, session, past, rng),
            _ => None,
        })
    }

    /// The lie about a task's key release once more, when the engine asks for what it did not get by the first.
    pub(crate) fn release_again(&self, release: &mut Option<Release>, session: &[u8]) {
        let mut state = self.lock();
        let State { armed, past, .. } = &mut *state;
        if let Some(armed) = armed
            && let Lie::Release(tell) = armed.lie
        {
            let _ = tell(release, session, past, &mut armed.rng);
        }
    }

    pub(crate) fn start(&self, start: &mut Start) {
        if let Some(armed) = &mut self.lock().armed {
            armed.told.served += 1;
        }
        let position = position("START", start);
        self.tell(&position, start, |lie, value, past, rng| match lie {
            Lie::Start(tell) => tell(value, past, rng),
            _ => None,
        });
    }

    /// Keeps another attempt of a finished task.
    pub(crate) fn keep_attempt(&self, task: Task) {
        self.lock().past.keep_attempt(task);
    }

    /// Whether the lie that is armed wants a second attempt of each task at hand.
    pub(crate) fn wants_attempts(&self) -> bool {
        let state = self.lock();
        let armed = state.armed.as_ref();
        armed.is_some_and(|armed| matches!(armed.lie, Lie::Attempts(_)) && !armed.claimed)
    }

    /// Whether the lie that is armed wants all inputs of a task at hand.
    pub(crate) fn wants_inputs(&self) -> bool {
        let state = self.lock();
        let armed = state.armed.as_ref();
        armed.is_some_and(|armed| matches!(armed.lie, Lie::Inputs(_) | Lie::Twin(_)))
    }

    /// The inputs of a second run of this task, if there is to be one. Whoever is told so has to say how it ended.
    pub(crate) fn twin(&self, inputs: &Inputs, asked: u32, start: &Start) -> Option<Twin> {
        let tell = self.due(|lie| match lie {
            Lie::Twin(tell) => Some(tell),
            _ => None,
        })?;
        let mut inputs = inputs.clone();
        let mut state = self.lock();
        let what = tell(&mut inputs, asked, &mut state.armed.as_mut()?.rng)?;
        state.beside += 1;
        let position = position("beside", start);
        Some(Twin { inputs, position, what })
    }

    /// How a second run ended. `read`: the engine asked for the input that was altered.
    pub(crate) fn twin_ended(&self, twin: &str, read: bool, end: String) {
        let mut state = self.lock();
        if end == "hang" {
            state.faults.push(format!("hang: {twin}"));
        }
        if let Some(armed) = state.armed.as_mut().filter(|_| read) {
            armed.told.what = Some(twin.to_owned());
            armed.told.beside = Some(end);
        }
        state.beside = state.beside.saturating_sub(1);
        drop(state);
        self.ended.notify_all();
    }

    pub(crate) fn input(&self, inputs: &mut Inputs, asked: u32, start: &Start) {
        let position = position(&format!("input {asked}"), start);
        self.tell(&position, inputs, |lie, value, past, rng| match lie {
            Lie::Input(tell) | Lie::Inputs(tell) | Lie::Attempts(tell) => {
                tell(value, asked, &View { start, past }, rng)
            }
            _ => None,
        });
    }

    pub(crate) fn outcome(&self, outcome: &mut Outcome, start: &Start) {
        let position = position("outcome", start);
        self.tell(&position, outcome, |lie, value, past, rng| match lie {
            Lie::Outcome(tell) => tell(value, &View { start, past }, rng),
            _ => None,
        });
    }

    /// Whether this task is to be run a second time.
    pub(crate) fn twice(&self) -> bool {
        self.due(|lie| matches!(lie, Lie::Twice(_)).then_some(())).is_some()
    }

    /// Makes something of both runs.
    pub(crate) fn of_both(&self, outcome: &mut Outcome, second: &Outcome, start: &Start) {
        let position = position("outcome", start);
        let before = outcome.clone();
        self.told(&position, |lie, rng| match lie {
            Lie::Twice(tell) => tell(outcome, second, rng).filter(|_| *outcome != before),
            _ => None,
        });
    }

    /// Whether this task's answer is to be changed for another engine's, if one is at hand. Asked until it was.
    pub(crate) fn exchange(&self) -> bool {
        let state = self.lock();
        let armed = state.armed.as_ref();
        armed.is_some_and(|armed| matches!(armed.lie, Lie::Exchange) && armed.told.what.is_none())
    }

    /// Notes that it was.
    pub(crate) fn exchanged(&self, with: &str, start: &Start) {
        let position = position("outcome", start);
        self.told(&position, |_, _| Some(format!("the answer of {with}")));
    }

    /// What is said when the engine asks for an input, and in which words it is noted when it was said.
    pub(crate) fn midway(&self, asked: u32, start: &Start) -> Option<(Said, String)> {
        let tell = self.due(|lie| match lie {
            Lie::Midway(tell) => Some(tell),
            _ => None,
        })?;
        let (said, what) = tell(asked, &mut self.lock().armed.as_mut()?.rng);
        Some((said, format!("{}: {what}", position(&format!("NEED {asked}"), start))))
    }

    /// The same before START.
    pub(crate) fn before(&self, start: &Start) -> Option<(Said, String)> {
        let tell = self.due(|lie| match lie {
            Lie::Before(tell) => Some(tell),
            _ => None,
        })?;
        let mut state = self.lock();
        let State { armed, past, .. } = &mut *state;
        let (said, what) = tell(past, &mut armed.as_mut()?.rng)?;
        Some((said, format!("{}: {what}", position("before START", start))))
    }

    /// The same beside a task.
    pub(crate) fn beside(&self, start: &Start) -> Option<(Vec<u8>, String)> {
        let tell = self.due(|lie| match lie {
            Lie::Beside(tell) => Some(tell),
            _ => None,
        })?;
        let (said, what) = tell(start, &mut self.lock().armed.as_mut()?.rng);
        Some((said, format!("{}: {what}", position("beside", start))))
    }

    /// Notes that what was to be said reached the engine.
    pub(crate) fn delivered(&self, what: String) {
        if let Some(armed) = &mut self.lock().armed {
            armed.told.what = Some(what);
        }
    }

    /// A lie of this place is due: one is armed, nobody has set out to tell it, and as many places were spared as it was to
    /// spare. Whoever is told so has to tell it.
    fn due<T>(&self, of_this_task: impl FnOnce(Lie) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        let armed = state.armed.as_mut()?;
        let found = of_this_task(armed.lie)?;
        armed.told.seen += 1;
        let due = !armed.claimed && armed.told.seen > armed.skip;
        armed.claimed |= due;
        due.then_some(found)
    }

    /// Tells a lie that is due, and notes what was done.
    fn told(&self, position: &str, tell: impl FnOnce(Lie, &mut Rng) -> Did) {
        let mut state = self.lock();
        if let Some(armed) = state.armed.as_mut() {
            let lie = armed.lie;
            armed.told.what = tell(lie, &mut armed.rng).map(|what| format!("{position}: {what}"));
        }
    }

    /// Tells the armed lie of `value`, if it is one of this place, has something to bite on here, and was not told before;
    /// whether it did.
    fn tell<T: Clone + PartialEq>(
        &self,
        position: &str,
        value: &mut T,
        of_this_task: impl FnOnce(Lie, &mut T, &Past, &mut Rng) -> Did,
    ) -> bool {
        let mut state = self.lock();
        let State { armed, past, .. } = &mut *state;
        let Some(armed) = armed.as_mut() else { return false };
        let mut altered = value.clone();
        let mut rng = armed.rng.clone();
        let did = of_this_task(armed.lie, &mut altered, past, &mut rng);
        let Some(what) = did.filter(|_| altered != *value) else {
            return false;
        };
        armed.told.seen += 1;
        armed.rng = rng;
        let due = !armed.claimed && armed.told.seen > armed.skip;
        if due {
            armed.claimed = true;
            *value = altered;
            armed.told.what = Some(format!("{position}: {what}"));
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn position(what: &str, start: &Start) -> String {
    format!("{what} of stage {} partition {}", start.stage, start.partition)
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
    fn a_lie_is_told_once_after_those_it_spares() {
        let hands = Hands::new();
        assert!(!hands.arm("truth", 1, 0));
        assert!(hands.arm("flip-bit-fragment", 1, 2));
        let altered: Vec<bool> = (0..5)
            .map(|_| {
                let mut value = start();
                hands.start(&mut value);
                value != start()
            })
            .collect();
        assert_eq!(altered, [false, false, true, false, false]);
        let told = hands.disarm();
        assert_eq!(told.seen, 5);
        assert!(told.what.is_some());
        assert_eq!(hands.disarm(), Told::default());
    }

    #[test]
    fn a_lie_without_anything_to_bite_on_is_not_told() {
        let hands = Hands::new();
        hands.arm("drop-object", 1, 0);
        let mut value = start();
        hands.start(&mut value);
        hands.arm("flip-bit-release", 1, 0);
        hands.release(&mut None, &[]);
        assert_eq!(value, start());
        assert_eq!(hands.disarm(), Told::default());
    }

    #[test]
    fn what_did_not_reach_the_engine_was_not_told() {
        let hands = Hands::new();
        hands.arm("garbage-beside", 1, 0);
        hands.beside(&start()).unwrap();
        assert_eq!(hands.disarm().what, None);
        hands.arm("garbage-beside", 1, 0);
        let (_, what) = hands.beside(&start()).unwrap();
        hands.delivered(what);
        assert!(hands.disarm().what.is_some());
    }

    #[test]
    fn two_runs_that_brought_the_same_are_no_lie() {
        let outcome = |commit: u8| Outcome {
            outs: vec![(0, vec![1, 2, 3])],
            end: crate::past::End::Done(coffer_protocol::wire::Done {
                sealed_commit: vec![commit].into(),
                ..Default::default()
            }),
        };
        for (lie, second, told) in [
            ("run-twice", 1, false),
            ("run-twice", 2, true),
            ("mix-attempts", 2, false),
        ] {
            let hands = Hands::new();
            hands.arm(lie, 1, 0);
            assert!(hands.twice());
            hands.of_both(&mut outcome(1), &outcome(second), &start());
            assert_eq!(hands.disarm().what.is_some(), told, "{lie}");
        }
    }

    #[test]
    fn a_run_beside_is_waited_for_and_counts_when_it_read_what_was_altered() {
        for (read, beside) in [(true, Some("failed".to_owned())), (false, None)] {
            let hands = Hands::new();
            hands.arm("honest-twin", 1, 0);
            hands.twin(&Inputs::new(), 3, &start()).unwrap();
            let ending = Arc::clone(&hands);
            let ended = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                ending.twin_ended("the twin", read, "failed".to_owned());
            });
            let told = hands.disarm();
            assert_eq!((told.what.is_some(), told.beside), (read, beside));
            ended.join().unwrap();
            assert!(hands.faults().is_empty());
        }
    }

    #[test]
    fn a_run_beside_that_hangs_is_a_fault() {
        let hands = Hands::new();
        hands.arm("honest-twin", 1, 0);
        hands.twin(&Inputs::new(), 0, &start()).unwrap();
        hands.twin_ended("the twin", true, "hang".to_owned());
        assert_eq!(hands.faults(), ["hang: the twin"]);
        assert!(hands.faults().is_empty());
    }
}
