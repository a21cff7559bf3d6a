//! `vectors/messages.json` and `vectors/objects.json`. The session key is 32 times the byte `key`.

use serde::{Deserialize, Serialize};

use super::{Case, check_vectors, flipped, key, session};
use crate::{
    Error, ExecutionId, MessageId, MessageIdentity, ObjectKind, Partition, StageId,
    blob::{OVERHEAD, append_with_id},
    identity, open_message, open_object, seal_message, seal_object,
};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    key: u8,
    purpose: Purpose,
    session: u8,
    execution: u64,
    stage: u32,
    partition: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Purpose {
    Fragment,
    Descriptor,
    Commit,
    Metrics,
    Error,
}

const HERE: Context = Context {
    key: 1,
    purpose: Purpose::Descriptor,
    session: 2,
    execution: 7,
    stage: 3,
    partition: 4,
};
const PLAIN: &[u8] = b"what the engine is to do";

impl Context {
    fn identity(&self) -> MessageIdentity {
        let (session, stage, partition) = (
            session(self.session),
            StageId(self.stage),
            Partition(self.partition),
        );
        match self.purpose {
            Purpose::Fragment => identity::fragment(session, stage),
            Purpose::Descriptor => {
                identity::descriptor(session, ExecutionId(self.execution), stage, partition)
            }
            Purpose::Commit => identity::commit(session, stage, partition),
            Purpose::Metrics => identity::metrics(session, stage, partition),
            Purpose::Error => identity::error(session, stage, partition),
        }
    }

    fn seal(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let identity = self.identity();
        let label = identity.purpose().label();
        append_with_id(
            key(self.key).root(),
            label,
            &identity.parts(),
            MessageId([8; 16]),
            PLAIN,
            &mut out,
        )
        .unwrap();
        out
    }
}

#[test]
fn messages() {
    let whole = HERE.seal();
    let fails = |name: &str, bytes: &[u8], code: &str| Case::fails(name, HERE, bytes, code);
    let of = |purpose| Context { purpose, ..HERE };
    let mut cases = vec![
        Case::opens("message_descriptor", HERE, &whole, &[PLAIN]),
        Case::opens(
            "message_fragment",
            of(Purpose::Fragment),
            &of(Purpose::Fragment).seal(),
            &[PLAIN],
        ),
        Case::opens(
            "message_commit",
            of(Purpose::Commit),
            &of(Purpose::Commit).seal(),
            &[PLAIN],
        ),
        Case::opens(
            "message_metrics",
            of(Purpose::Metrics),
            &of(Purpose::Metrics).seal(),
            &[PLAIN],
        ),
        Case::opens(
            "message_error",
            of(Purpose::Error),
            &of(Purpose::Error).seal(),
            &[PLAIN],
        ),
        fails("message_empty", &[], "truncated"),
        fails(
            "message_cut_under_its_overhead",
            &whole[..OVERHEAD - 1],
            "truncated",
        ),
        fails("message_cut", &whole[..whole.len() - 1], "unauthentic"),
        fails(
            "message_longer",
            &[whole.as_slice(), b"x"].concat(),
            "unauthentic",
        ),
        fails("message_magic_changed", &flipped(&whole, 3, 1), "bad_magic"),
        fails("message_id_changed", &flipped(&whole, 4, 1), "unauthentic"),
        fails(
            "message_ciphertext_flipped",
            &flipped(&whole, 20, 1),
            "unauthentic",
        ),
        fails(
            "message_tag_flipped",
            &flipped(&whole, whole.len() - 1, 0x80),
            "unauthentic",
        ),
        Case::fails(
            "message_key_other",
            Context { key: 9, ..HERE },
            &whole,
            "unauthentic",
        ),
        Case::fails(
            "commit_as_metrics",
            of(Purpose::Metrics),
            &of(Purpose::Commit).seal(),
            "unauthentic",
        ),
        Case::fails(
            "error_as_commit",
            of(Purpose::Commit),
            &of(Purpose::Error).seal(),
            "unauthentic",
        ),
    ];
    let moved = [
        ("message_of_other_session", Context { session: 9, ..HERE }),
        (
            "message_of_other_execution",
            Context {
                execution: 9,
                ..HERE
            },
        ),
        ("message_of_other_stage", Context { stage: 9, ..HERE }),
        (
            "message_of_other_partition",
            Context {
                partition: 9,
                ..HERE
            },
        ),
        ("message_of_other_purpose", of(Purpose::Fragment)),
    ];
    cases.extend(moved.map(|(name, context)| fails(name, &context.seal(), "unauthentic")));
    check_vectors("messages.json", cases, |case| {
        Ok(vec![open_message(
            &key(case.context.key),
            &case.context.identity(),
            &case.bytes(),
        )?])
    });
}

#[test]
fn sealed_here_opens_there() {
    let sealed = seal_message(&key(1), &HERE.identity(), PLAIN).unwrap();
    assert_eq!(
        open_message(&key(1), &HERE.identity(), &sealed).unwrap(),
        PLAIN
    );
    assert_ne!(
        sealed,
        seal_message(&key(1), &HERE.identity(), PLAIN).unwrap(),
        "each message has an id of its own"
    );
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectContext {
    key: u8,
    session: u8,
}

fn object(context: ObjectContext, kind: u8, label: &str) -> Vec<u8> {
    let mut out = vec![kind];
    let session = session(context.session);
    append_with_id(
        key(context.key).root(),
        label,
        &[session.as_bytes()],
        MessageId([8; 16]),
        PLAIN,
        &mut out,
    )
    .unwrap();
    out
}

#[test]
fn objects() {
    let here = ObjectContext { key: 1, session: 2 };
    let bounds = object(here, 2, "down bounds");
    let cases = vec![
        Case::opens("object_bounds", here, &bounds, &[b"Bounds", PLAIN]),
        Case::opens(
            "object_value",
            here,
            &object(here, 3, "down value"),
            &[b"Value", PLAIN],
        ),
        Case::fails(
            "object_kind_changed",
            here,
            &flipped(&bounds, 0, 1),
            "unauthentic",
        ),
        Case::fails(
            "object_kind_zero",
            here,
            &flipped(&bounds, 0, 2),
            "unknown_kind",
        ),
        Case::fails(
            "object_kind_unknown",
            here,
            &flipped(&bounds, 0, 0x80),
            "unknown_kind",
        ),
        Case::fails("object_empty", here, &[], "truncated"),
        Case::fails("object_of_a_kind_and_no_more", here, &[2], "truncated"),
        Case::fails(
            "object_of_other_session",
            ObjectContext { session: 9, ..here },
            &bounds,
            "unauthentic",
        ),
        Case::fails(
            "object_is_an_up_message",
            here,
            &object(here, 2, "up commit"),
            "unauthentic",
        ),
    ];
    check_vectors("objects.json", cases, |case| {
        let (kind, plain) = open_object(
            &key(case.context.key),
            session(case.context.session),
            &case.bytes(),
        )?;
        Ok::<_, Error>(vec![format!("{kind:?}").into_bytes(), plain])
    });
    for kind in [ObjectKind::Attempts, ObjectKind::Bounds, ObjectKind::Value] {
        let sealed = seal_object(&key(1), session(2), kind, PLAIN).unwrap();
        assert_eq!(
            open_object(&key(1), session(2), &sealed).unwrap(),
            (kind, PLAIN.to_vec())
        );
    }
}
