//! Sealed messages and objects of every purpose. The first byte says which one the reader expects.

use coffer_sealing::{
    Error, ExecutionId, MessageIdentity, ObjectKind, Partition, StageId, identity, open_message,
    open_object, seal_message, seal_object,
};

use super::{cut, seed, with};
use crate::{
    Outcome, Seed, Target,
    fixture::{SESSION, session_key},
    outcome,
};

pub(super) const TARGET: Target = Target {
    name: "messages",
    about: "sealed messages and objects",
    memory: |input| 3 * input + (64 << 10),
    smoke: 20_000,
    run,
    seeds,
};

fn expected(which: u8) -> MessageIdentity {
    let (stage, partition) = (StageId(4), Partition(6));
    match which % 5 {
        0 => identity::fragment(SESSION, stage),
        1 => identity::descriptor(SESSION, ExecutionId(1), stage, partition),
        2 => identity::commit(SESSION, stage, partition),
        3 => identity::metrics(SESSION, stage, partition),
        _ => identity::error(SESSION, stage, partition),
    }
}

fn run(input: &[u8]) -> Outcome {
    let Some((which, sealed)) = input.split_first() else {
        return outcome::<(), _>(Err(Error::Truncated { need: 1, got: 0 }));
    };
    match which {
        0..=4 => outcome(open_message(&session_key(), &expected(*which), sealed)),
        _ => outcome(open_object(&session_key(), SESSION, sealed)),
    }
}

fn seeds() -> Vec<Seed> {
    let message = |which: u8| {
        let sealed = seal_message(&session_key(), &expected(which), b"what it says").unwrap();
        [&[which][..], &sealed].concat()
    };
    let object = |kind| {
        [
            &[5][..],
            &seal_object(&session_key(), SESSION, kind, b"an object").unwrap(),
        ]
        .concat()
    };
    let fragment = message(0);
    let bounds = object(ObjectKind::Bounds);
    vec![
        seed("fragment", fragment.clone()),
        seed("descriptor", message(1)),
        seed("commit", message(2)),
        seed("metrics", message(3)),
        seed("error", message(4)),
        seed("attempts", object(ObjectKind::Attempts)),
        seed("bounds", bounds.clone()),
        seed("value", object(ObjectKind::Value)),
        seed("nothing", []),
        seed("fragment_as_descriptor", with(&fragment, 0, &[1])),
        seed("fragment_as_commit", with(&fragment, 0, &[2])),
        seed("metrics_as_error", with(&message(3), 0, &[4])),
        seed("fragment_without_a_byte", cut(&fragment, 1)),
        seed("fragment_too_short", &fragment[..36]),
        seed("fragment_magic", with(&fragment, 1, b"CFS1")),
        seed(
            "fragment_id_flipped",
            with(&fragment, 5, &[fragment[5] ^ 1]),
        ),
        seed(
            "fragment_text_flipped",
            with(&fragment, 21, &[fragment[21] ^ 1]),
        ),
        seed("object_of_an_unknown_kind", with(&bounds, 1, &[9])),
        seed("bounds_as_value", with(&bounds, 1, &[3])),
        seed("object_empty", [5]),
    ]
}
