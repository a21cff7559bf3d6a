//! Mutations in the sealed streams that a task reads: of a shuffle, or of a broadcast.

use super::{Did, Inputs, Mutation, View, cut, flip};
use crate::{
    past::Task,
    rng::Rng,
    streams::{Stream, join, parse},
};

pub(super) const MUTATIONS: &[(&str, Mutation)] = &[
    (
        "flip-bit-in",
        Mutation::Input(|inputs, asked, _, rng| flip(inputs.get_mut(&asked)?, rng)),
    ),
    (
        "truncate-in",
        Mutation::Input(|inputs, asked, _, rng| cut(inputs.get_mut(&asked)?, rng)),
    ),
    ("extend-in", Mutation::Input(extend)),
    ("drop-input", Mutation::Input(empty)),
    (
        "drop-frame-in",
        Mutation::Input(|inputs, asked, _, rng| framed(inputs, asked, rng, drop_frame)),
    ),
    (
        "repeat-frame-in",
        Mutation::Input(|inputs, asked, _, rng| framed(inputs, asked, rng, repeat_frame)),
    ),
    (
        "swap-frames-in",
        Mutation::Input(|inputs, asked, _, rng| framed(inputs, asked, rng, swap_frames)),
    ),
    (
        "reverse-frames-in",
        Mutation::Input(|inputs, asked, _, rng| framed(inputs, asked, rng, reverse_frames)),
    ),
    (
        "cut-stream-in",
        Mutation::Input(|inputs, asked, _, rng| framed(inputs, asked, rng, cut_frames)),
    ),
    (
        "end-stream-early-in",
        Mutation::Input(|inputs, asked, _, rng| framed(inputs, asked, rng, end_early)),
    ),
    ("swap-frames-of-streams-in", Mutation::Input(swap_across)),
    ("drop-stream-in", Mutation::Input(drop_stream)),
    ("repeat-stream-in", Mutation::Input(repeat_stream)),
    ("reorder-streams-in", Mutation::Input(reorder_streams)),
    ("swap-inputs", Mutation::Inputs(swap_inputs)),
    (
        "swap-inputs-relabelled",
        Mutation::Inputs(swap_inputs_relabelled),
    ),
    (
        "swap-reducers",
        Mutation::Input(|inputs, asked, view, rng| {
            replaced(inputs, asked, view, rng, false, of_another_reducer)
        }),
    ),
    (
        "swap-reducers-relabelled",
        Mutation::Input(|inputs, asked, view, rng| {
            replaced(inputs, asked, view, rng, true, of_another_reducer)
        }),
    ),
    (
        "replay-stream-of-a-query",
        Mutation::Input(|inputs, asked, view, rng| {
            replaced(inputs, asked, view, rng, false, of_another_query)
        }),
    ),
    (
        "replay-stream-of-a-query-relabelled",
        Mutation::Input(|inputs, asked, view, rng| {
            replaced(inputs, asked, view, rng, true, of_another_query)
        }),
    ),
    (
        "replay-stream-of-a-stage-relabelled",
        Mutation::Input(|inputs, asked, view, rng| {
            replaced(inputs, asked, view, rng, true, of_another_stage)
        }),
    ),
    (
        "replay-input-of-a-query",
        Mutation::Input(input_of_another_query),
    ),
    (
        "replay-frame-of-a-query-in",
        Mutation::Input(|inputs, asked, view, rng| {
            frame_replaced(inputs, asked, view, rng, of_another_query)
        }),
    ),
    (
        "replay-frame-of-a-stage-in",
        Mutation::Input(|inputs, asked, view, rng| {
            frame_replaced(inputs, asked, view, rng, of_another_stage)
        }),
    ),
    (
        "replay-frame-of-an-attempt-in",
        Mutation::Attempts(|inputs, asked, view, rng| {
            frame_replaced(inputs, asked, view, rng, of_another_attempt)
        }),
    ),
    (
        "honest-duplicate",
        Mutation::Duplicate(|inputs, _, _| {
            Some(format!(
                "the same task at once, over {} inputs",
                inputs.len()
            ))
        }),
    ),
    ("tampered-duplicate", Mutation::Duplicate(tampered)),
    ("forge-attempt-in", Mutation::Input(forge_attempt)),
    (
        "forge-counter-in",
        Mutation::Input(|inputs, asked, _, rng| framed(inputs, asked, rng, forge_counter)),
    ),
];

fn extend(inputs: &mut Inputs, asked: u32, _: &View<'_>, rng: &mut Rng) -> Did {
    let count = 1 + rng.below(64);
    let more = rng.bytes(count);
    inputs.get_mut(&asked)?.extend_from_slice(&more);
    Some(format!("{count} bytes more"))
}

fn empty(inputs: &mut Inputs, asked: u32, _: &View<'_>, _: &mut Rng) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let was = bytes.len();
    bytes.clear();
    Some(format!("all {was} bytes"))
}

/// Alters one stream of the input.
fn framed(
    inputs: &mut Inputs,
    asked: u32,
    rng: &mut Rng,
    alter: fn(&mut Stream, &mut Rng) -> Did,
) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    let which = one_that_changes(&streams, rng, alter)?;
    let what = alter(streams.get_mut(which)?, rng)?;
    *bytes = join(&streams);
    Some(format!("stream {which}: {what}"))
}

/// One of those streams that this alters.
pub(super) fn one_that_changes(
    streams: &[Stream],
    rng: &mut Rng,
    alter: fn(&mut Stream, &mut Rng) -> Did,
) -> Option<usize> {
    let can: Vec<usize> = (0..streams.len())
        .filter(|at| {
            let Some(before) = streams.get(*at) else {
                return false;
            };
            let mut after = before.clone();
            alter(&mut after, &mut rng.clone()).is_some() && after != *before
        })
        .collect();
    // Drawn from another generator: `alter` is to draw for the chosen stream what it drew above.
    Rng::new(rng.clone().bits()).pick(&can).copied()
}

pub(super) fn drop_frame(stream: &mut Stream, rng: &mut Rng) -> Did {
    let at = rng.below(stream.frames.len());
    let of = stream.frames.len();
    (at < of).then(|| stream.frames.remove(at))?;
    Some(format!("frame {at} of {of} dropped"))
}

pub(super) fn repeat_frame(stream: &mut Stream, rng: &mut Rng) -> Did {
    let at = rng.below(stream.frames.len());
    let frame = stream.frames.get(at)?.clone();
    stream.frames.insert(at, frame);
    Some(format!("frame {at} twice"))
}

pub(super) fn swap_frames(stream: &mut Stream, rng: &mut Rng) -> Did {
    let count = stream.frames.len();
    if count < 2 {
        return None;
    }
    let one = rng.below(count);
    let other = (one + 1 + rng.below(count - 1)) % count;
    stream.frames.swap(one, other);
    Some(format!("frames {one} and {other} swapped"))
}

pub(super) fn reverse_frames(stream: &mut Stream, _: &mut Rng) -> Did {
    (stream.frames.len() > 1).then(|| stream.frames.reverse())?;
    Some(format!("{} frames reversed", stream.frames.len()))
}

pub(super) fn cut_frames(stream: &mut Stream, rng: &mut Rng) -> Did {
    let of = stream.frames.len();
    let keep = rng.below(of);
    stream.frames.truncate(keep);
    Some(format!("{keep} of {of} frames left"))
}

/// Fewer frames, the last of them marked as the last.
pub(super) fn end_early(stream: &mut Stream, rng: &mut Rng) -> Did {
    let of = stream.frames.len();
    if of < 2 {
        return None;
    }
    let keep = 1 + rng.below(of - 1);
    stream.frames.truncate(keep);
    *stream.frames.last_mut()?.get_mut(1)? |= 1;
    Some(format!("{keep} of {of} frames, the last marked so"))
}

/// A frame repeated under the number that is due, or its number changed.
fn forge_counter(stream: &mut Stream, rng: &mut Rng) -> Did {
    if rng.coin() && stream.frames.len() > 1 {
        let at = rng.below(stream.frames.len() - 1);
        let frame = stream.frames.get(at)?.clone();
        put_frame(stream, at + 1, frame)?;
        return Some(format!("frame {at} again as frame {}", at + 1));
    }
    let at = rng.below(stream.frames.len());
    let counter = stream.frames.get_mut(at)?.get_mut(4..12)?;
    let low = counter.first_mut()?;
    *low = low.wrapping_add(1);
    Some(format!("frame {at} under the next number"))
}

fn swap_across(inputs: &mut Inputs, asked: u32, _: &View<'_>, rng: &mut Rng) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    let count = streams.len();
    if count < 2 {
        return None;
    }
    let one = rng.below(count);
    let other = (one + 1 + rng.below(count - 1)) % count;
    let mine = std::mem::take(&mut streams.get_mut(one)?.frames);
    let theirs = std::mem::replace(&mut streams.get_mut(other)?.frames, mine);
    streams.get_mut(one)?.frames = theirs;
    *bytes = join(&streams);
    Some(format!("the frames of streams {one} and {other} swapped"))
}

fn drop_stream(inputs: &mut Inputs, asked: u32, _: &View<'_>, rng: &mut Rng) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    let (at, of) = (rng.below(streams.len()), streams.len());
    (at < of).then(|| streams.remove(at))?;
    *bytes = join(&streams);
    Some(format!("stream {at} of {of} dropped"))
}

fn repeat_stream(inputs: &mut Inputs, asked: u32, _: &View<'_>, rng: &mut Rng) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    let at = rng.below(streams.len());
    let again = streams.get(at)?.clone();
    let to = rng.below(streams.len() + 1);
    streams.insert(to, again);
    *bytes = join(&streams);
    Some(format!("stream {at} again at {to}"))
}

/// No mutation at all, as it turns out: the order of streams means nothing.
fn reorder_streams(inputs: &mut Inputs, asked: u32, _: &View<'_>, _: &mut Rng) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    streams.reverse();
    *bytes = join(&streams);
    Some(format!("{} streams reversed", streams.len()))
}

fn another_input(inputs: &Inputs, asked: u32, rng: &mut Rng) -> Option<u32> {
    let others = inputs
        .iter()
        .filter(|(id, bytes)| **id != asked && !bytes.is_empty());
    let others: Vec<u32> = others.map(|(id, _)| *id).collect();
    rng.pick(&others).copied()
}

fn swap_inputs(inputs: &mut Inputs, asked: u32, _: &View<'_>, rng: &mut Rng) -> Did {
    let other = another_input(inputs, asked, rng)?;
    let mine = std::mem::take(inputs.get_mut(&asked)?);
    let theirs = std::mem::replace(inputs.get_mut(&other)?, mine);
    *inputs.get_mut(&asked)? = theirs;
    Some(format!("inputs {asked} and {other} swapped"))
}

/// The frames of the other input's streams under the preambles of these.
fn swap_inputs_relabelled(inputs: &mut Inputs, asked: u32, _: &View<'_>, rng: &mut Rng) -> Did {
    let other = another_input(inputs, asked, rng)?;
    let theirs = parse(inputs.get(&other)?)?;
    let mut mine = parse(inputs.get(&asked)?)?;
    for (stream, from) in mine.iter_mut().zip(&theirs) {
        stream.frames.clone_from(&from.frames);
    }
    *inputs.get_mut(&asked)? = join(&mine);
    Some(format!("frames of input {other} as those of {asked}"))
}

/// Puts a recorded stream in the place of one of these; `relabelled`: with the preamble that is
/// due.
fn replaced(
    inputs: &mut Inputs,
    asked: u32,
    view: &View<'_>,
    rng: &mut Rng,
    relabelled: bool,
    candidates: fn(&Stream, &View<'_>) -> Vec<Stream>,
) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    let at = rng.below(streams.len());
    let stream = streams.get_mut(at)?;
    let candidates: Vec<Stream> = candidates(stream, view)
        .into_iter()
        .filter(|candidate| candidate.frames != stream.frames)
        .collect();
    let from = rng.pick(&candidates)?;
    stream.frames.clone_from(&from.frames);
    if !relabelled {
        stream.preamble.clone_from(&from.preamble);
    }
    let what = format!("stream {at} by one of {:?}", from.position());
    *bytes = join(&streams);
    Some(what)
}

/// Puts one recorded frame in the place of one of these, never a stream's first; all else of the
/// stream is as it was.
fn frame_replaced(
    inputs: &mut Inputs,
    asked: u32,
    view: &View<'_>,
    rng: &mut Rng,
    candidates: fn(&Stream, &View<'_>) -> Vec<Stream>,
) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    let long: Vec<usize> = (0..streams.len())
        .filter(|at| {
            streams
                .get(*at)
                .is_some_and(|stream| stream.frames.len() > 1)
        })
        .collect();
    let which = *rng.pick(&long)?;
    let stream = streams.get_mut(which)?;
    let candidates = candidates(stream, view);
    let from = rng.pick(&candidates)?;
    let what = replay_frame(stream, from, rng)?;
    *bytes = join(&streams);
    Some(format!("stream {which}: {what} of {:?}", from.position()))
}

/// One frame of `from` where another is due, under its number: of `from` the one that has it, if
/// there is one, so that nothing but the key is another.
pub(super) fn replay_frame(stream: &mut Stream, from: &Stream, rng: &mut Rng) -> Did {
    let count = stream.frames.len();
    if count < 2 {
        return None;
    }
    let at = 1 + rng.below(count - 1);
    let theirs = from.frames.get(at).or_else(|| from.frames.last())?.clone();
    put_frame(stream, at, theirs)?;
    Some(format!("frame {at} by one"))
}

/// Replaces a frame by another under its number and its word on whether it is the last.
fn put_frame(stream: &mut Stream, at: usize, mut frame: Vec<u8>) -> Option<()> {
    let mine = stream.frames.get_mut(at)?;
    *frame.get_mut(1)? = *mine.get(1)?;
    frame.get_mut(4..12)?.copy_from_slice(mine.get(4..12)?);
    *mine = frame;
    Some(())
}

fn of_another_reducer(stream: &Stream, view: &View<'_>) -> Vec<Stream> {
    let same_session = |task: &Task| task.start.session == view.start.session;
    let streams = view
        .past
        .tasks(same_session)
        .into_iter()
        .flat_map(|task| task.streams());
    streams
        .filter(|other| {
            other.attempt() == stream.attempt() && other.position() != stream.position()
        })
        .collect()
}

fn of_another_query(stream: &Stream, view: &View<'_>) -> Vec<Stream> {
    let other_session = |task: &Task| task.start.session != view.start.session;
    let streams = view
        .past
        .tasks(other_session)
        .into_iter()
        .rev()
        .flat_map(|task| task.streams());
    streams
        .filter(|other| other.position() == stream.position())
        .take(32)
        .collect()
}

fn of_another_stage(stream: &Stream, view: &View<'_>) -> Vec<Stream> {
    let same_session = |task: &Task| task.start.session == view.start.session;
    let streams = view
        .past
        .tasks(same_session)
        .into_iter()
        .flat_map(|task| task.streams());
    streams
        .filter(|other| {
            other.attempt() != stream.attempt() && other.position() == stream.position()
        })
        .collect()
}

/// Of a second run of the task that wrote the stream.
fn of_another_attempt(stream: &Stream, view: &View<'_>) -> Vec<Stream> {
    let same_session = |task: &Task| task.start.session == view.start.session;
    let wrote = |task: &Task| {
        task.streams()
            .iter()
            .any(|other| other.attempt() == stream.attempt())
    };
    let producers = view.past.tasks(|task| same_session(task) && wrote(task));
    let Some(producer) = producers.first() else {
        return Vec::new();
    };
    let stage = producer.start.stage;
    let attempts = view
        .past
        .attempts(|task| same_session(task) && task.start.stage == stage);
    let streams = attempts.into_iter().flat_map(|task| task.streams());
    streams
        .filter(|other| {
            other.attempt() != stream.attempt() && other.position() == stream.position()
        })
        .collect()
}

/// A whole input that the same task of another query was given.
fn input_of_another_query(inputs: &mut Inputs, asked: u32, view: &View<'_>, rng: &mut Rng) -> Did {
    let (stage, partition) = (view.start.stage, view.start.partition);
    let tasks = view.past.tasks(|task| {
        task.start.session != view.start.session
            && (task.start.stage, task.start.partition) == (stage, partition)
            && task.inputs.contains_key(&asked)
    });
    let theirs = rng.pick(&tasks)?.inputs.get(&asked)?.clone();
    *inputs.get_mut(&asked)? = theirs;
    Some(format!("input {asked} of another query"))
}

/// What tasks of one plan share must not be spoilt by one of them.
fn tampered(inputs: &mut Inputs, asked: u32, rng: &mut Rng) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let what = match rng.below(3) {
        0 => flip(bytes, rng),
        1 => cut(bytes, rng),
        _ => framed(inputs, asked, rng, drop_frame),
    }?;
    Some(format!("the same task at once, but {what}"))
}

fn forge_attempt(inputs: &mut Inputs, asked: u32, _: &View<'_>, rng: &mut Rng) -> Did {
    let bytes = inputs.get_mut(&asked)?;
    let mut streams = parse(bytes)?;
    let at = rng.below(streams.len());
    let drawn = rng.bytes(16);
    streams
        .get_mut(at)?
        .preamble
        .get_mut(4..20)?
        .copy_from_slice(&drawn);
    *bytes = join(&streams);
    Some(format!("an attempt that nobody made in stream {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{past::Past, streams::tests::stream};

    /// Every mutation about an input alters one that has all it could bite on, and says what it
    /// did.
    #[test]
    fn each_mutation_alters_what_it_can() {
        let start = coffer_protocol::wire::Start::default();
        let past = Past::default();
        let view = View {
            start: &start,
            past: &past,
        };
        let bytes = join(&[stream(0, 1, 3), stream(1, 1, 2), stream(2, 1, 1)]);
        let other = join(&[stream(0, 2, 2)]);
        let inputs: Inputs = [(4, bytes), (5, other)].into();
        for (name, mutation) in MUTATIONS {
            let apply = match mutation {
                Mutation::Input(apply) | Mutation::Inputs(apply) | Mutation::Attempts(apply) => {
                    apply
                }
                _ => continue,
            };
            let recorded = ["swap-reducers", "replay"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
            for seed in 0..20 {
                let mut altered = inputs.clone();
                let did = apply(&mut altered, 4, &view, &mut Rng::new(seed));
                assert_eq!(did.is_none(), recorded, "{name}");
                assert_eq!(altered == inputs, recorded, "{name} {did:?}");
            }
        }
    }

    #[test]
    fn a_replayed_frame_stands_under_the_number_that_is_due() {
        let honest = stream(0, 1, 4);
        for (of, seed) in [1, 3, 6]
            .into_iter()
            .flat_map(|of| (0..20).map(move |seed| (of, seed)))
        {
            let mut altered = honest.clone();
            replay_frame(&mut altered, &stream(0, 2, of), &mut Rng::new(seed)).unwrap();
            let changed: Vec<usize> = (0..4)
                .filter(|at| altered.frames[*at] != honest.frames[*at])
                .collect();
            let [at] = changed[..] else {
                panic!("{changed:?}")
            };
            assert!(at > 0);
            assert_eq!(altered.frames[at][..12], honest.frames[at][..12]);
            assert_eq!(altered.preamble, honest.preamble);
        }
        assert!(replay_frame(&mut stream(0, 1, 1), &honest, &mut Rng::new(1)).is_none());
    }

    #[test]
    fn a_counter_is_forged_in_both_ways() {
        let mut ways = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let mut altered = stream(0, 1, 3);
            let what = forge_counter(&mut altered, &mut Rng::new(seed)).unwrap();
            ways.insert(what.contains("again as"));
        }
        assert_eq!(ways.len(), 2);
    }
}
