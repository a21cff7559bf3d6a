//! What sealers and openers refuse, and what they leave behind.

use super::{attempt, key, session};
use crate::{
    Attempt, AttemptId, DerivationKey, Error, ExecutionId, Fault, MAX_FRAME_LEN, Partition, Secret,
    SpillKey, StageId, StreamIdentity, StreamOpener, StreamSealer, StreamTarget, blob,
    frame::{FrameHeader, HEADER_LEN, MAX_FRAMES, OVERHEAD},
    identity, open_blob, seal_blob, seal_message,
};

fn begin() -> Attempt {
    Attempt::begin(
        &key(1),
        session(2),
        ExecutionId(1),
        StageId(3),
        Partition(4),
    )
    .unwrap()
}

fn sealer() -> StreamSealer {
    begin().sealer(StreamTarget::Shuffle(0)).unwrap()
}

fn opener(sealer: &StreamSealer) -> StreamOpener {
    StreamOpener::new(&key(1), *sealer.identity()).unwrap()
}

#[test]
fn an_attempt_seals_each_target_once() {
    let mut run = begin();
    assert!(run.sealer(StreamTarget::Shuffle(0)).is_ok());
    assert!(run.sealer(StreamTarget::Shuffle(1)).is_ok());
    assert_eq!(
        run.sealer(StreamTarget::Shuffle(0)).err(),
        Some(Error::TargetTaken)
    );
    assert_ne!(run.id(), begin().id());
}

#[test]
fn nothing_is_sealed_after_the_last_frame() {
    let (mut sealer, mut out) = (sealer(), Vec::new());
    sealer.seal(b"a", true, &mut out).unwrap();
    let before = out.clone();
    assert_eq!(
        sealer.seal(b"b", true, &mut out),
        Err(Error::SealedAfterLast)
    );
    assert_eq!(out, before);
    assert!(sealer.is_finished());
}

#[test]
fn a_key_seals_and_opens_so_many_frames_and_no_more() {
    let (mut sealer, mut out) = (sealer(), Vec::new());
    let mut opener = opener(&sealer);
    sealer.skip_to(MAX_FRAMES - 1);
    opener.skip_to(MAX_FRAMES - 1);
    sealer.seal(b"the last that fits", false, &mut out).unwrap();
    let before = out.clone();
    assert_eq!(
        sealer.seal(b"one more", true, &mut out),
        Err(Error::TooManyFrames)
    );
    assert_eq!(out, before);
    assert_eq!(opener.open(out).unwrap().counter(), MAX_FRAMES - 1);

    // A sealer that did not keep to it would not be believed.
    let mut header = [0; HEADER_LEN + 16];
    header[0] = 1;
    header[4..12].copy_from_slice(&MAX_FRAMES.to_le_bytes());
    header[12] = 16;
    let refused = opener.open(header.to_vec()).err();
    assert!(
        matches!(
            refused,
            Some(Error::WrongCounter {
                got: MAX_FRAMES,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[test]
fn a_failed_frame_leaves_buffer_and_counter() {
    let (mut sealer, mut out) = (sealer(), b"before".to_vec());
    let failed: Result<(), Error> = sealer.seal_with(false, &mut out, |out| {
        out.extend_from_slice(b"secret");
        Err(Error::Randomness)
    });
    assert_eq!(
        (failed, out.as_slice(), sealer.frames()),
        (Err(Error::Randomness), b"before".as_slice(), 0)
    );
    let shortened = sealer.seal_with(false, &mut out, |out| {
        out.truncate(2);
        Ok::<(), Error>(())
    });
    assert_eq!(
        (shortened, sealer.frames()),
        (Err(Error::BufferShortened), 0)
    );
    out.clear();
    sealer.seal(b"whole", true, &mut out).unwrap();
    assert_eq!(opener(&sealer).open(out).unwrap().plain(), b"whole");
}

#[test]
fn too_long_is_refused_before_sealing() {
    let (mut sealer, mut out) = (sealer(), Vec::new());
    let plain = vec![0; MAX_FRAME_LEN - OVERHEAD + 1];
    assert_eq!(
        sealer.seal(&plain, false, &mut out),
        Err(Error::TooLong {
            length: MAX_FRAME_LEN + 1
        })
    );
    assert!(out.is_empty());
    sealer.seal(&plain[1..], true, &mut out).unwrap();
    assert_eq!(out.len(), MAX_FRAME_LEN);
    assert_eq!(
        opener(&sealer).open(out).unwrap().plain().len(),
        MAX_FRAME_LEN - OVERHEAD
    );
    let message = seal_message(
        &key(1),
        &identity::fragment(session(1), StageId(1)),
        &vec![0; MAX_FRAME_LEN],
    );
    assert!(matches!(message, Err(Error::TooLong { .. })));
}

#[test]
fn after_a_refusal_nothing_opens() {
    let (mut sealer, mut out) = (sealer(), Vec::new());
    sealer.seal(b"a", true, &mut out).unwrap();
    let mut opener = opener(&sealer);
    let mut altered = out.clone();
    *altered.last_mut().unwrap() ^= 1;
    assert_eq!(opener.open(altered).err(), Some(Error::Unauthentic));
    assert_eq!(opener.open(out).err(), Some(Error::Refused));
    assert_eq!(opener.finish(), Err(Error::Refused));
}

#[test]
fn bytes_behind_a_frame_are_refused() {
    let (mut sealer, mut out) = (sealer(), Vec::new());
    sealer.seal(b"a", true, &mut out).unwrap();
    out.push(0);
    assert_eq!(
        opener(&sealer).open(out).err(),
        Some(Error::Trailing { extra: 1 })
    );
}

#[test]
fn frames_open_in_the_callers_buffer() {
    let (mut sealer, mut out) = (sealer(), Vec::new());
    sealer.seal(b"in place", true, &mut out).unwrap();
    let opened = opener(&sealer).open(out.as_mut_slice()).unwrap();
    assert!(opened.is_last());
    let (buffer, range) = opened.into_parts();
    assert_eq!(&buffer[range], b"in place");
}

#[test]
fn domains_labels_and_parts_all_count() {
    let secret = Secret::from_bytes([1; 32]);
    let root = crate::DerivationKey::new("one", &secret);
    let derived = root.derive("ab", &[b"c"]).unwrap();
    let others = [
        crate::DerivationKey::new("two", &secret).derive("ab", &[b"c"]),
        root.derive("a", &[b"bc"]),
        root.derive("abc", &[]),
        root.derive("ab", &[b"c", b""]),
        root.derive("ab", &[b"d"]),
    ];
    assert!(derived.ct_eq(&root.derive("ab", &[b"c"]).unwrap()));
    for other in others {
        assert!(!derived.ct_eq(&other.unwrap()));
    }
}

#[test]
fn ids_print_as_hex_and_know_their_length() {
    assert_eq!(attempt(0xab).to_string(), "ab".repeat(16));
    assert_eq!(
        AttemptId::from_slice(&[0; 15]),
        Err(Error::WrongLength { want: 16, got: 15 })
    );
    assert!(matches!(
        Secret::<32>::from_slice(&[0; 33]),
        Err(Error::WrongLength { want: 32, got: 33 })
    ));
}

#[test]
fn the_partitioning_key_is_the_sessions() {
    let here = key(1).partitioning_key(session(1)).unwrap();
    assert!(here.ct_eq(&key(1).partitioning_key(session(1)).unwrap()));
    assert!(!here.ct_eq(&key(1).partitioning_key(session(2)).unwrap()));
    assert!(!here.ct_eq(&key(2).partitioning_key(session(1)).unwrap()));
}

#[test]
fn each_error_has_the_hint_of_its_cause() {
    let _: StreamIdentity = *sealer().identity();
    assert_eq!(
        (Error::Unauthentic.fault(), Error::Unauthentic.code()),
        (Fault::Host, "unauthentic")
    );
    let has = |error: Error, word: &str| {
        assert!(
            error.hint().is_some_and(|hint| hint.contains(word)),
            "{error}"
        )
    };
    has(Error::Unauthentic, "host");
    has(Error::Randomness, "getrandom");
    has(Error::UnknownVersion(9), "same version");
    has(Error::TooLong { length: 1 }, "smaller");
    assert_eq!(Error::TargetTaken.hint(), None);
}

#[test]
fn a_header_claims_no_more_than_the_longest_frame() {
    let (mut sealer, mut out) = (sealer(), Vec::new());
    sealer.seal(b"a", true, &mut out).unwrap();
    let claims = |length: usize| {
        let mut header = out[..HEADER_LEN].to_vec();
        header[12..16].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
        FrameHeader::parse(&header).and_then(|header| header.frame_len())
    };
    assert_eq!(claims(MAX_FRAME_LEN - HEADER_LEN), Ok(MAX_FRAME_LEN));
    for length in [
        0,
        15,
        MAX_FRAME_LEN - HEADER_LEN + 1,
        MAX_FRAME_LEN,
        u32::MAX as usize,
    ] {
        assert_eq!(claims(length), Err(Error::BadLength(length as u64)));
    }
}

#[test]
fn a_blob_is_as_long_as_a_frame_at_most() {
    let root = DerivationKey::new("blobs", &Secret::from_bytes([1; 32]));
    let plain = vec![7; MAX_FRAME_LEN - blob::OVERHEAD + 1];
    let long = seal_blob(&root, "a", &[], &plain);
    assert_eq!(
        long,
        Err(Error::TooLong {
            length: MAX_FRAME_LEN + 1
        })
    );
    let mut longest = seal_blob(&root, "a", &[], &plain[1..]).unwrap();
    assert_eq!(longest.len(), MAX_FRAME_LEN);
    assert!(open_blob(&root, "a", &[], &longest).unwrap() == plain[1..]);
    longest.push(0);
    let opened = open_blob(&root, "a", &[], &longest);
    assert_eq!(opened, Err(Error::BadLength(MAX_FRAME_LEN as u64 + 1)));
}

#[test]
fn sealers_and_openers_say_how_far_they_are() {
    let mut sealer = sealer();
    let mut opener = opener(&sealer);
    for (number, last) in [(1, false), (2, false), (3, true)] {
        assert!(!sealer.is_finished() && !opener.is_finished());
        let mut out = Vec::new();
        sealer.seal(b"a", last, &mut out).unwrap();
        assert_eq!(opener.open(out).unwrap().is_last(), last);
        assert_eq!((sealer.frames(), opener.frames()), (number, number));
    }
    assert!(sealer.is_finished() && opener.is_finished());

    let mut key = SpillKey::generate().unwrap();
    let (mut writer, mut reader) = (key.writer().unwrap(), key.reader().unwrap());
    for last in [false, true] {
        assert!(!writer.is_finished() && !reader.is_finished());
        let mut out = Vec::new();
        writer.seal(b"a", last, &mut out).unwrap();
        reader.open(out).unwrap();
    }
    assert!(writer.is_finished() && reader.is_finished());
}

#[test]
fn a_released_key_is_the_sessions() {
    let released = Secret::from_slice(key(1).expose()).unwrap();
    let (here, there) = (key(1), crate::SessionKey::from_secret(released));
    let partitioning = |key: &crate::SessionKey| key.partitioning_key(session(1)).unwrap();
    assert!(partitioning(&here).ct_eq(&partitioning(&there)));
    assert_eq!(key(7).expose(), &[7; 32]);
}
