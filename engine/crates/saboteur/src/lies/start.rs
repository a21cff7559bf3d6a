//! Lies in START: which sealed parts a task is made of.

use std::sync::Arc;

use coffer_proto::wire::Start;

use super::{Did, Lie, cut, flipped};
use crate::{
    past::{Past, Task},
    rng::Rng,
};

pub(super) const LIES: &[(&str, Lie)] = &[
    (
        "flip-bit-fragment",
        Lie::Start(|start, _, rng| {
            let (altered, what) = flipped(&start.sealed_fragment, rng)?;
            start.sealed_fragment = altered.into();
            Some(what)
        }),
    ),
    (
        "flip-bit-descriptor",
        Lie::Start(|start, _, rng| {
            let (altered, what) = flipped(&start.sealed_descriptor, rng)?;
            start.sealed_descriptor = altered.into();
            Some(what)
        }),
    ),
    (
        "flip-bit-object",
        Lie::Start(|start, _, rng| {
            let at = rng.below(start.sealed_objects.len());
            let object = start.sealed_objects.get_mut(at)?;
            let (altered, what) = flipped(object, rng)?;
            *object = altered.into();
            Some(format!("object {at}: {what}"))
        }),
    ),
    (
        "truncate-fragment",
        Lie::Start(|start, _, rng| {
            let mut bytes = start.sealed_fragment.to_vec();
            let what = cut(&mut bytes, rng)?;
            start.sealed_fragment = bytes.into();
            Some(what)
        }),
    ),
    (
        "truncate-descriptor",
        Lie::Start(|start, _, rng| {
            let mut bytes = start.sealed_descriptor.to_vec();
            let what = cut(&mut bytes, rng)?;
            start.sealed_descriptor = bytes.into();
            Some(what)
        }),
    ),
    (
        "truncate-object",
        Lie::Start(|start, _, rng| {
            let at = rng.below(start.sealed_objects.len());
            let object = start.sealed_objects.get_mut(at)?;
            let mut bytes = object.to_vec();
            let what = cut(&mut bytes, rng)?;
            *object = bytes.into();
            Some(format!("object {at}: {what}"))
        }),
    ),
    (
        "drop-object",
        Lie::Start(|start, _, rng| {
            let at = rng.below(start.sealed_objects.len());
            (at < start.sealed_objects.len()).then(|| start.sealed_objects.remove(at))?;
            Some(format!("object {at} dropped"))
        }),
    ),
    (
        "repeat-object",
        Lie::Start(|start, _, rng| {
            let object = rng.pick(&start.sealed_objects)?.clone();
            start.sealed_objects.push(object);
            Some("an object twice".to_owned())
        }),
    ),
    (
        "reorder-objects",
        Lie::Start(|start, _, _| {
            start.sealed_objects.reverse();
            Some(format!("{} objects reversed", start.sealed_objects.len()))
        }),
    ),
    (
        "add-object-of-a-query",
        Lie::Start(|start, past, rng| {
            let tasks = of_another_query(start, past);
            start
                .sealed_objects
                .push(rng.pick(&rng.clone().pick(&tasks)?.start.sealed_objects)?.clone());
            Some("an object of another query added".to_owned())
        }),
    ),
    (
        "object-of-a-query",
        Lie::Start(|start, past, rng| {
            let tasks = of_another_query(start, past);
            object_of(start, &tasks, rng)
        }),
    ),
    (
        "object-of-a-stage",
        Lie::Start(|start, past, rng| {
            let tasks = of_another_stage(start, past);
            object_of(start, &tasks, rng)
        }),
    ),
    (
        "fragment-of-a-query",
        Lie::Start(|start, past, rng| {
            start.sealed_fragment = rng.pick(&of_another_query(start, past))?.start.sealed_fragment.clone();
            Some("the fragment of another query".to_owned())
        }),
    ),
    (
        "fragment-of-a-stage",
        Lie::Start(|start, past, rng| {
            start.sealed_fragment = rng.pick(&of_another_stage(start, past))?.start.sealed_fragment.clone();
            Some("the fragment of another stage".to_owned())
        }),
    ),
    (
        "descriptor-of-a-query",
        Lie::Start(|start, past, rng| {
            start.sealed_descriptor = rng
                .pick(&of_another_query(start, past))?
                .start
                .sealed_descriptor
                .clone();
            Some("the descriptor of another query".to_owned())
        }),
    ),
    (
        "descriptor-of-a-stage",
        Lie::Start(|start, past, rng| {
            start.sealed_descriptor = rng
                .pick(&of_another_stage(start, past))?
                .start
                .sealed_descriptor
                .clone();
            Some("the descriptor of another stage".to_owned())
        }),
    ),
    (
        "descriptor-of-a-task",
        Lie::Start(|start, past, rng| {
            start.sealed_descriptor = rng.pick(&of_another_task(start, past))?.start.sealed_descriptor.clone();
            Some("the descriptor of another task".to_owned())
        }),
    ),
    (
        "start-of-a-query",
        Lie::Start(|start, past, rng| {
            let tasks = of_another_query(start, past);
            whole(start, &tasks, rng)
        }),
    ),
    (
        "start-of-a-stage",
        Lie::Start(|start, past, rng| {
            let tasks = of_another_stage(start, past);
            whole(start, &tasks, rng)
        }),
    ),
    (
        "start-of-a-task",
        Lie::Start(|start, past, rng| {
            let tasks = of_another_task(start, past);
            whole(start, &tasks, rng)
        }),
    ),
    (
        "false-stage",
        Lie::Start(|start, _, rng| {
            start.stage = other_number(start.stage, rng);
            Some(format!("stage {}", start.stage))
        }),
    ),
    (
        "false-partition",
        Lie::Start(|start, _, rng| {
            start.partition = other_number(start.partition, rng);
            Some(format!("partition {}", start.partition))
        }),
    ),
    (
        "false-execution",
        Lie::Start(|start, _, rng| {
            let mut bytes = start.sealed_descriptor.to_vec();
            let low = bytes.first_mut()?;
            *low = low.wrapping_add(1 + rng.bits().to_le_bytes()[0] % 8);
            start.sealed_descriptor = bytes.into();
            Some("another execution by the hint".to_owned())
        }),
    ),
    (
        "false-session",
        Lie::Start(|start, past, rng| {
            start.session = match rng.pick(&of_another_query(start, past)) {
                Some(task) if rng.coin() => task.start.session.clone(),
                _ => rng.bytes(16).into(),
            };
            Some("another session's id".to_owned())
        }),
    ),
    (
        "false-protocol",
        Lie::Start(|start, _, rng| {
            start.protocol = other_number(start.protocol, rng);
            Some(format!("protocol {}", start.protocol))
        }),
    ),
];

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

fn object_of(start: &mut Start, tasks: &[Arc<Task>], rng: &mut Rng) -> Did {
    let theirs = rng.pick(&rng.clone().pick(tasks)?.start.sealed_objects)?.clone();
    let at = rng.below(start.sealed_objects.len());
    *start.sealed_objects.get_mut(at)? = theirs;
    Some(format!("object {at} by another's"))
}

/// All of another task's START; its answer is passed off as this one's.
fn whole(start: &mut Start, tasks: &[Arc<Task>], rng: &mut Rng) -> Did {
    let task = rng.pick(tasks)?;
    start.clone_from(&task.start);
    Some(format!("all of stage {} partition {}", start.stage, start.partition))
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
    fn each_lie_alters_what_it_can() {
        let mut past = Past::default();
        for (session, stage, partition) in [(1, 1, 2), (1, 2, 1), (2, 1, 1)] {
            past.keep(Task {
                start: start(session, stage, partition),
                inputs: super::super::Inputs::new(),
                outcome: Outcome {
                    outs: vec![],
                    end: End::Done(coffer_proto::wire::Done::default()),
                },
            });
        }
        for (name, lie) in LIES {
            let Lie::Start(tell) = lie else { panic!("{name}") };
            for seed in 0..20 {
                let mut altered = start(1, 1, 1);
                let did = tell(&mut altered, &past, &mut Rng::new(seed));
                assert!(did.is_some(), "{name}");
                assert_ne!(altered, start(1, 1, 1), "{name} {did:?}");
            }
        }
    }
}
