//! Mutations in what a task brings: its streams, and its last message.

use coffer_protocol::wire::{Counters, Done, Failed};

use super::{
    Did, Mutation, View, cut, flip, flipped,
    input::{
        cut_frames, drop_frame, end_early, one_that_changes, repeat_frame, replay_frame,
        reverse_frames, swap_frames,
    },
};
use crate::{
    past::{End, Outcome, Task},
    rng::Rng,
    streams::{Stream, join, parse},
};

/// Alters one target's bytes.
macro_rules! raw {
    ($alter:expr) => {
        Mutation::Outcome(|outcome, _, rng| raw(outcome, rng, $alter))
    };
}

/// Alters one target's frames.
macro_rules! framed {
    ($alter:expr) => {
        Mutation::Outcome(|outcome, _, rng| framed(outcome, rng, $alter))
    };
}

/// Takes something from one of those tasks of the past; or does it in one of two ways.
macro_rules! taken {
    ($take:ident, $how:expr) => {
        Mutation::Outcome(|outcome, view, rng| $take(outcome, view, rng, $how))
    };
}

/// Alters the sealed records that come with the streams.
macro_rules! record {
    ($alter:expr, $what:literal) => {
        Mutation::Outcome(|outcome, _, _| records(outcome, $alter, $what))
    };
}

#[rustfmt::skip] // a table: a line for each
pub(super) const MUTATIONS: &[(&str, Mutation)] = &[
    ("flip-bit-out", raw!(|bytes, rng| flip(bytes, rng))),
    ("truncate-out", raw!(cut)),
    ("extend-out", raw!(extend)),
    ("empty-stream-out", raw!(empty)),
    ("repeat-stream-out", raw!(repeat)),
    ("drop-target-out", Mutation::Outcome(drop_target)),
    ("drop-frame-out", framed!(drop_frame)),
    ("repeat-frame-out", framed!(repeat_frame)),
    ("swap-frames-out", framed!(swap_frames)),
    ("reverse-frames-out", framed!(reverse_frames)),
    ("cut-stream-out", framed!(cut_frames)),
    ("end-stream-early-out", framed!(end_early)),
    ("swap-targets-out", taken!(swap_targets, Label::Kept)),
    ("swap-targets-relabelled-out", taken!(swap_targets, Label::Changed)),
    ("replay-stream-out", taken!(replay_stream, Label::Kept)),
    ("replay-stream-relabelled-out", taken!(replay_stream, Label::Changed)),
    ("replay-frame-of-a-query-out", taken!(frame_of, of_another_query)),
    ("replay-frame-of-a-stage-out", taken!(frame_of, of_another_stage)),
    ("replay-frame-of-an-attempt-out", Mutation::Twice(frame_of_second)),
    ("replay-result-of-a-query", taken!(replay, of_another_query)),
    ("replay-result-of-a-task", taken!(replay, of_another_partition)),
    ("replay-result-of-a-stage", taken!(replay, of_another_stage)),
    ("commit-of-another-query", taken!(commit, of_another_query)),
    ("commit-of-another-task", taken!(commit, of_another_partition)),
    ("commit-of-another-stage", taken!(commit, of_another_stage)),
    ("flip-bit-commit", Mutation::Outcome(flip_commit)),
    ("empty-commit", record!(|done| done.sealed_commit.clear(), "no commit record")),
    ("metrics-as-commit", record!(swap_records, "commit and metrics swapped")),
    ("metrics-of-another-task", Mutation::Outcome(metrics_of_another)),
    ("flip-bit-metrics", Mutation::Outcome(flip_metrics)),
    ("empty-metrics", record!(|done| done.sealed_metrics.clear(), "no metrics")),
    ("false-counters", Mutation::Outcome(false_counters)),
    ("failed-invented", Mutation::Outcome(failed_invented)),
    ("run-twice", Mutation::Twice(second_whole)),
    ("mix-attempts", Mutation::Twice(mixed)),
    ("commit-of-another-attempt", Mutation::Twice(second_commit)),
    ("swap-engines", Mutation::Exchange),
];

/// Whether a stream that is put elsewhere goes under the preamble of the one it replaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Kept,
    Changed,
}

fn raw(outcome: &mut Outcome, rng: &mut Rng, alter: fn(&mut Vec<u8>, &mut Rng) -> Did) -> Did {
    outcome.done()?;
    let at = rng.below(outcome.outs.len());
    let (target, bytes) = outcome.outs.get_mut(at)?;
    let what = alter(bytes, rng)?;
    Some(format!("target {target}: {what}"))
}

fn extend(bytes: &mut Vec<u8>, rng: &mut Rng) -> Did {
    let count = 1 + rng.below(64);
    bytes.extend(rng.bytes(count));
    Some(format!("{count} bytes more"))
}

fn empty(bytes: &mut Vec<u8>, _: &mut Rng) -> Did {
    let was = bytes.len();
    bytes.clear();
    Some(format!("all {was} bytes dropped"))
}

fn repeat(bytes: &mut Vec<u8>, _: &mut Rng) -> Did {
    bytes.extend_from_within(..);
    Some("twice".to_owned())
}

fn drop_target(outcome: &mut Outcome, _: &View<'_>, rng: &mut Rng) -> Did {
    outcome.done()?;
    let at = rng.below(outcome.outs.len());
    let (target, _) = (at < outcome.outs.len()).then(|| outcome.outs.remove(at))?;
    Some(format!("no word of target {target}"))
}

fn framed(outcome: &mut Outcome, rng: &mut Rng, alter: fn(&mut Stream, &mut Rng) -> Did) -> Did {
    outcome.done()?;
    let parsed = outcome
        .outs
        .iter()
        .map(|(_, bytes)| parse(bytes)?.into_iter().next());
    let mut streams = parsed.collect::<Option<Vec<_>>>()?;
    let which = one_that_changes(&streams, rng, alter)?;
    let what = alter(streams.get_mut(which)?, rng)?;
    let (target, bytes) = outcome.outs.get_mut(which)?;
    *bytes = join(&[streams.swap_remove(which)]);
    Some(format!("target {target}: {what}"))
}

fn swap_targets(outcome: &mut Outcome, _: &View<'_>, rng: &mut Rng, label: Label) -> Did {
    outcome.done()?;
    let count = outcome.outs.len();
    if count < 2 {
        return None;
    }
    let one = rng.below(count);
    let other = (one + 1 + rng.below(count - 1)) % count;
    let mine = outcome.outs.get(one)?.1.clone();
    let theirs = outcome.outs.get(other)?.1.clone();
    outcome.outs.get_mut(one)?.1 = label.put(&mine, &theirs)?;
    outcome.outs.get_mut(other)?.1 = label.put(&theirs, &mine)?;
    Some(format!("the streams of {one} and {other} swapped"))
}

impl Label {
    /// `from` in the place of `old`.
    fn put(self, old: &[u8], from: &[u8]) -> Option<Vec<u8>> {
        if self == Self::Kept {
            return Some(from.to_vec());
        }
        let (old, mut from) = (parse(old)?, parse(from)?);
        from.first_mut()?
            .preamble
            .clone_from(&old.first()?.preamble);
        Some(join(&from))
    }
}

fn replay_stream(outcome: &mut Outcome, view: &View<'_>, rng: &mut Rng, label: Label) -> Did {
    outcome.done()?;
    let tasks = of_another_query(view);
    let from = rng.pick(&tasks)?;
    let at = rng.below(outcome.outs.len());
    let (target, bytes) = outcome.outs.get_mut(at)?;
    let (_, theirs) = from
        .outcome
        .outs
        .iter()
        .find(|(other, _)| other == target)?;
    *bytes = label.put(bytes, theirs)?;
    Some(format!("target {target} by another query's"))
}

/// One recorded frame in a stream that is honest otherwise.
fn frame_of(outcome: &mut Outcome, view: &View<'_>, rng: &mut Rng, candidates: Candidates) -> Did {
    outcome.done()?;
    let tasks = candidates(view);
    let from = rng.pick(&tasks)?;
    let what = frame_by(outcome, &from.outcome, rng)?;
    Some(format!(
        "{what} of stage {} partition {}",
        from.start.stage, from.start.partition
    ))
}

fn frame_of_second(first: &mut Outcome, second: &Outcome, rng: &mut Rng) -> Did {
    let what = frame_by(first, second, rng)?;
    Some(format!("{what} of the second run"))
}

fn frame_by(outcome: &mut Outcome, from: &Outcome, rng: &mut Rng) -> Did {
    let stream = |bytes: &[u8]| parse(bytes)?.into_iter().next();
    let long = |bytes: &[u8]| stream(bytes).is_some_and(|stream| stream.frames.len() > 1);
    let positions: Vec<usize> = (0..outcome.outs.len())
        .filter(|at| outcome.outs.get(*at).is_some_and(|(_, bytes)| long(bytes)))
        .collect();
    let (target, bytes) = outcome.outs.get_mut(*rng.pick(&positions)?)?;
    // Another stage may have no such target.
    let same = from.outs.iter().find(|(other, _)| other == target);
    let theirs = stream(&same.or_else(|| from.outs.first())?.1)?;
    let mut mine = stream(bytes)?;
    let what = replay_frame(&mut mine, &theirs, rng)?;
    *bytes = mine.bytes();
    Some(format!("target {target}: {what}"))
}

type Candidates = fn(&View<'_>) -> Vec<std::sync::Arc<Task>>;

fn of_another_query(view: &View<'_>) -> Vec<std::sync::Arc<Task>> {
    let position = (view.start.stage, view.start.partition);
    done(view, |task| {
        task.start.session != view.start.session
            && (task.start.stage, task.start.partition) == position
    })
}

fn of_another_partition(view: &View<'_>) -> Vec<std::sync::Arc<Task>> {
    done(view, |task| {
        task.start.session == view.start.session
            && task.start.stage == view.start.stage
            && task.start.partition != view.start.partition
    })
}

fn of_another_stage(view: &View<'_>) -> Vec<std::sync::Arc<Task>> {
    done(view, |task| {
        task.start.session == view.start.session && task.start.stage != view.start.stage
    })
}

fn done(view: &View<'_>, wanted: impl Fn(&Task) -> bool) -> Vec<std::sync::Arc<Task>> {
    view.past
        .tasks(|task| task.outcome.done().is_some() && wanted(task))
}

fn replay(outcome: &mut Outcome, view: &View<'_>, rng: &mut Rng, candidates: Candidates) -> Did {
    let tasks = candidates(view);
    let from = rng.pick(&tasks)?;
    *outcome = from.outcome.clone();
    Some(format!(
        "all of stage {} partition {}",
        from.start.stage, from.start.partition
    ))
}

fn commit(outcome: &mut Outcome, view: &View<'_>, rng: &mut Rng, candidates: Candidates) -> Did {
    let tasks = candidates(view);
    let from = rng.pick(&tasks)?;
    let theirs = from.outcome.done()?.sealed_commit.clone();
    let what = format!(
        "the commit of stage {} partition {}",
        from.start.stage, from.start.partition
    );
    records(outcome, |done| done.sealed_commit = theirs, &what)
}

fn records(outcome: &mut Outcome, alter: impl FnOnce(&mut Done), what: &str) -> Did {
    match &mut outcome.end {
        End::Done(done) => alter(done),
        End::Failed(_) => return None,
    }
    Some(what.to_owned())
}

fn flip_commit(outcome: &mut Outcome, _: &View<'_>, rng: &mut Rng) -> Did {
    let (altered, what) = flipped(&outcome.done()?.sealed_commit, rng)?;
    records(outcome, |done| done.sealed_commit = altered.into(), &what)
}

fn flip_metrics(outcome: &mut Outcome, _: &View<'_>, rng: &mut Rng) -> Did {
    let (altered, what) = flipped(&outcome.done()?.sealed_metrics, rng)?;
    records(outcome, |done| done.sealed_metrics = altered.into(), &what)
}

fn swap_records(done: &mut Done) {
    std::mem::swap(&mut done.sealed_commit, &mut done.sealed_metrics);
}

fn metrics_of_another(outcome: &mut Outcome, view: &View<'_>, rng: &mut Rng) -> Did {
    let tasks = done(view, |task| task.start.partition != view.start.partition);
    let theirs = rng.pick(&tasks)?.outcome.done()?.sealed_metrics.clone();
    records(
        outcome,
        |done| done.sealed_metrics = theirs,
        "another task's metrics",
    )
}

fn false_counters(outcome: &mut Outcome, _: &View<'_>, rng: &mut Rng) -> Did {
    let mut word = || if rng.coin() { 0 } else { rng.bits() };
    let counters = Counters {
        crossings: word(),
        bytes_in: word(),
        bytes_out: word(),
        bytes_sealed: word(),
        bytes_opened: word(),
        bytes_read: word(),
        bytes_spilled: word(),
        engine_nanos: word(),
        frames_sealed: word(),
    };
    records(
        outcome,
        |done| done.counters = Some(counters),
        "false counters",
    )
}

/// Words of FAILED that are made up, the likely one twice.
pub const INVENTED: &[&str] = &[
    "failed",
    "failed",
    "session",
    "draining",
    "cancelled",
    "protocol",
    "version",
    "no such word",
];

fn failed_invented(outcome: &mut Outcome, view: &View<'_>, rng: &mut Rng) -> Did {
    let code = rng.pick(INVENTED)?;
    let sealed_error = match rng.below(4) {
        0 => Vec::new(),
        1 => rng.bytes(80),
        // Sealed by an engine, but no error: its commit record.
        2 => outcome.done()?.sealed_commit.to_vec(),
        _ => rng
            .pick(&done(view, |_| true))?
            .outcome
            .done()?
            .sealed_metrics
            .to_vec(),
    };
    let what = format!("FAILED {code} with {} bytes of error", sealed_error.len());
    *outcome = Outcome {
        outs: Vec::new(),
        end: End::Failed(Failed {
            code: (*code).to_owned(),
            sealed_error: sealed_error.into(),
            ..Failed::default()
        }),
    };
    Some(what)
}

/// As right as the first: the host may run a task as often as it likes.
fn second_whole(first: &mut Outcome, second: &Outcome, _: &mut Rng) -> Did {
    first.clone_from(second);
    Some("run twice, the second counts".to_owned())
}

/// Some targets' streams of the second run under the first one's commit.
fn mixed(first: &mut Outcome, second: &Outcome, rng: &mut Rng) -> Did {
    let at = rng.below(first.outs.len());
    let (target, bytes) = first.outs.get_mut(at)?;
    let (_, theirs) = second.outs.iter().find(|(other, _)| other == target)?;
    bytes.clone_from(theirs);
    Some(format!("target {target} of the second run"))
}

fn second_commit(first: &mut Outcome, second: &Outcome, _: &mut Rng) -> Did {
    let theirs = second.done()?.sealed_commit.clone();
    records(
        first,
        |done| done.sealed_commit = theirs,
        "the commit of the second run",
    )
}

#[cfg(test)]
mod tests {
    use coffer_protocol::wire::Start;

    use super::*;
    use crate::{past::Past, streams::tests::stream};

    fn outcome(word: &'static [u8]) -> Outcome {
        Outcome {
            outs: vec![(0, stream(1, 0, 3).bytes()), (1, stream(1, 1, 2).bytes())],
            end: End::Done(Done {
                sealed_commit: word.into(),
                sealed_metrics: [word, b"m"].concat().into(),
                ..Done::default()
            }),
        }
    }

    fn task(session: u8, stage: u32, partition: u32) -> Task {
        let mut outcome = outcome(b"another");
        outcome.outs[0].1 = stream(partition + 10, 0, 2).bytes();
        outcome.outs[1].1 = stream(partition + 10, 1, 4).bytes();
        let start = Start {
            session: vec![session; 16].into(),
            stage,
            partition,
            ..Start::default()
        };
        Task {
            start,
            inputs: super::super::Inputs::new(),
            outcome,
        }
    }

    #[test]
    fn each_mutation_alters_what_it_can() {
        let mut past = Past::default();
        for position in [(1, 5, 2), (1, 4, 1), (2, 5, 1)] {
            past.keep(task(position.0, position.1, position.2));
        }
        let start = task(1, 5, 1).start;
        let view = View {
            start: &start,
            past: &past,
        };
        let (first, mut second) = (outcome(b"first"), outcome(b"second"));
        second.outs[0].1 = stream(9, 0, 1).bytes();
        second.outs[1].1 = stream(9, 1, 1).bytes();
        for (name, mutation) in MUTATIONS {
            for seed in 0..20 {
                let (mut altered, mut rng) = (first.clone(), Rng::new(seed));
                let did = match mutation {
                    Mutation::Outcome(apply) => apply(&mut altered, &view, &mut rng),
                    Mutation::Twice(apply) => apply(&mut altered, &second, &mut rng),
                    _ => continue,
                };
                assert!(did.is_some(), "{name}");
                assert_ne!(altered, first, "{name} {did:?}");
            }
        }
    }
}
