//! Mutations in START: which sealed parts a task is made of.

use std::sync::Arc;

use coffer_protocol::wire::Start;

use super::{Did, Mutation, cut, flip};
use crate::{
    past::{Past, Task},
    rng::Rng,
};

/// Alters one sealed part.
macro_rules! altered {
    ($part:ident, $alter:expr) => {
        Mutation::Start(|start, _, rng| {
            let mut bytes = start.$part.to_vec();
            let what = $alter(&mut bytes, rng)?;
            start.$part = bytes.into();
            Some(what)
        })
    };
}

/// Puts another task's part in the place of one.
macro_rules! replaced {
    ($part:ident, $tasks:expr, $what:literal) => {
        Mutation::Start(|start, past, rng| {
            start.$part = rng.pick(&$tasks(start, past))?.start.$part.clone();
            Some($what.to_owned())
        })
    };
}

/// The same for one object, or for all of START.
macro_rules! taken {
    ($take:expr, $tasks:expr) => {
        Mutation::Start(|start, past, rng| {
            let tasks = $tasks(start, past);
            $take(start, &tasks, rng)
        })
    };
}

/// Says another number than the true one.
macro_rules! misnumbered {
    ($field:ident) => {
        Mutation::Start(|start, _, rng| {
            start.$field = other_number(start.$field, rng);
            Some(format!(concat!(stringify!($field), " {}"), start.$field))
        })
    };
}

#[rustfmt::skip] // a table: a line for each
pub(super) const MUTATIONS: &[(&str, Mutation)] = &[
    ("flip-bit-fragment", altered!(sealed_fragment, flip)),
    ("flip-bit-descriptor", altered!(sealed_descriptor, flip)),
    ("flip-bit-object",
        Mutation::Start(|start, _, rng| object(start, rng, |bytes, rng| flip(bytes, rng)))),
    ("truncate-fragment", altered!(sealed_fragment, cut)),
    ("truncate-descriptor", altered!(sealed_descriptor, cut)),
    ("truncate-object", Mutation::Start(|start, _, rng| object(start, rng, cut))),
    ("drop-object", Mutation::Start(drop_object)),
    ("repeat-object", Mutation::Start(repeat_object)),
    ("reorder-objects", Mutation::Start(reorder_objects)),
    ("add-object-of-a-query", taken!(add_object_of, of_another_query)),
    ("object-of-a-query", taken!(object_of, of_another_query)),
    ("object-of-a-stage", taken!(object_of, of_another_stage)),
    ("fragment-of-a-query", replaced!(sealed_fragment, of_another_query, "the fragment of another \
        query")),
    ("fragment-of-a-stage", replaced!(sealed_fragment, of_another_stage, "the fragment of another \
        stage")),
    ("descriptor-of-a-query", replaced!(sealed_descriptor, of_another_query, "the descriptor of \
        another query")),
    ("descriptor-of-a-stage", replaced!(sealed_descriptor, of_another_stage, "the descriptor of \
        another stage")),
    ("descriptor-of-a-task", replaced!(sealed_descriptor, of_another_task, "the descriptor of \
        another task")),
    ("start-of-a-query", taken!(whole, of_another_query)),
    ("start-of-a-stage", taken!(whole, of_another_stage)),
    ("start-of-a-task", taken!(whole, of_another_task)),
    ("false-stage", misnumbered!(stage)),
    ("false-partition", misnumbered!(partition)),
    ("false-execution", Mutation::Start(false_execution)),
    ("false-session", Mutation::Start(false_session)),
    ("false-protocol", misnumbered!(protocol)),
];

fn object(start: &mut Start, rng: &mut Rng, alter: fn(&mut Vec<u8>, &mut Rng) -> Did) -> Did {
    let at = rng.below(start.sealed_objects.len());
    let object = start.sealed_objects.get_mut(at)?;
    let mut bytes = object.to_vec();
    let what = alter(&mut bytes, rng)?;
    *object = bytes.into();
    Some(format!("object {at}: {what}"))
}

fn drop_object(start: &mut Start, _: &Past, rng: &mut Rng) -> Did {
    let at = rng.below(start.sealed_objects.len());
    (at < start.sealed_objects.len()).then(|| start.sealed_objects.remove(at))?;
    Some(format!("object {at} dropped"))
}

fn repeat_object(start: &mut Start, _: &Past, rng: &mut Rng) -> Did {
    let object = rng.pick(&start.sealed_objects)?.clone();
    start.sealed_objects.push(object);
    Some("an object twice".to_owned())
}

fn reorder_objects(start: &mut Start, _: &Past, _: &mut Rng) -> Did {
    start.sealed_objects.reverse();
    Some(format!("{} objects reversed", start.sealed_objects.len()))
}

/// The hint before the sealed descriptor.
fn false_execution(start: &mut Start, _: &Past, rng: &mut Rng) -> Did {
    let mut bytes = start.sealed_descriptor.to_vec();
    let low = bytes.first_mut()?;
    *low = low.wrapping_add(1 + rng.bits().to_le_bytes()[0] % 8);
    start.sealed_descriptor = bytes.into();
    Some("another execution by the hint".to_owned())
}

fn false_session(start: &mut Start, past: &Past, rng: &mut Rng) -> Did {
    start.session = match rng.pick(&of_another_query(start, past)) {
        Some(task) if rng.coin() => task.start.session.clone(),
        _ => rng.bytes(16).into(),
    };
    Some("another session's id".to_owned())
}

fn of_another_query(start: &Start, past: &Past) -> Vec<Arc<Task>> {
    past.tasks(|task| task.start.session != start.session)
}

fn of_another_stage(start: &Start, past: &Past) -> Vec<Arc<Task>> {
    past.tasks(|task| task.start.session == start.session && task.start.stage != start.stage)
}

fn of_another_task(start: &Start, past: &Past) -> Vec<Arc<Task>> {
    past.tasks(|task| {
        task.start.session == start.session
            && task.start.stage == start.stage
            && task.start.partition != start.partition
    })
}

fn add_object_of(start: &mut Start, tasks: &[Arc<Task>], rng: &mut Rng) -> Did {
    let theirs = rng
        .pick(&rng.clone().pick(tasks)?.start.sealed_objects)?
        .clone();
    start.sealed_objects.push(theirs);
    Some("an object of another query added".to_owned())
}

fn object_of(start: &mut Start, tasks: &[Arc<Task>], rng: &mut Rng) -> Did {
    let theirs = rng
        .pick(&rng.clone().pick(tasks)?.start.sealed_objects)?
        .clone();
    let at = rng.below(start.sealed_objects.len());
    *start.sealed_objects.get_mut(at)? = theirs;
    Some(format!("object {at} by another's"))
}

/// All of another task's START; its answer is passed off as this one's.
fn whole(start: &mut Start, tasks: &[Arc<Task>], rng: &mut Rng) -> Did {
    let task = rng.pick(tasks)?;
    start.clone_from(&task.start);
    Some(format!(
        "all of stage {} partition {}",
        start.stage, start.partition
    ))
}

fn other_number(number: u32, rng: &mut Rng) -> u32 {
    match rng.below(3) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1),
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past::{End, Outcome};

    fn start(session: u8, stage: u8, partition: u8) -> Start {
        let word = vec![session, stage, partition, 1, 1, 1, 1, 1, 1];
        Start {
            protocol: 1,
            session: vec![session; 16].into(),
            sealed_fragment: word[..2].to_vec().into(),
            sealed_descriptor: word.clone().into(),
            sealed_objects: vec![word.clone().into(), [&word[..], &[2]].concat().into()],
            release: None,
            stage: u32::from(stage),
            partition: u32::from(partition),
        }
    }

    #[test]
    fn each_mutation_alters_what_it_can() {
        let mut past = Past::default();
        for (session, stage, partition) in [(1, 1, 2), (1, 2, 1), (2, 1, 1)] {
            past.keep(Task {
                start: start(session, stage, partition),
                inputs: super::super::Inputs::new(),
                outcome: Outcome {
                    outs: vec![],
                    end: End::Done(coffer_protocol::wire::Done::default()),
                },
            });
        }
        for (name, mutation) in MUTATIONS {
            let Mutation::Start(apply) = mutation else {
                panic!("{name}")
            };
            for seed in 0..20 {
                let mut altered = start(1, 1, 1);
                let did = apply(&mut altered, &past, &mut Rng::new(seed));
                assert!(did.is_some(), "{name}");
                assert_ne!(altered, start(1, 1, 1), "{name} {did:?}");
            }
        }
    }
}
