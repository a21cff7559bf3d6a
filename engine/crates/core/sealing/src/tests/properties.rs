//! For any plaintexts and any damage: whole streams open, no other bytes do, nothing panics.

use proptest::prelude::*;

use super::{attempt, frame_ranges, key, session};
use crate::{
    Error, ExecutionId, Partition, StageId, StreamIdentity, StreamOpener, StreamPreamble,
    StreamSealer, StreamTarget, frame::FrameHeader, identity, open_message, open_object,
    seal_message, stream::PREAMBLE_LEN,
};

fn context() -> StreamIdentity {
    StreamIdentity {
        session: session(1),
        execution: ExecutionId(1),
        stage: StageId(1),
        partition: Partition(1),
        attempt: attempt(1),
        target: StreamTarget::Shuffle(1),
    }
}

fn seal(plains: &[Vec<u8>]) -> Vec<u8> {
    let mut sealer = StreamSealer::new(&key(1), context()).unwrap();
    let mut out = Vec::new();
    sealer.preamble(&mut out);
    for plain in plains {
        sealer.seal(plain, false, &mut out).unwrap();
    }
    sealer.seal(b"", true, &mut out).unwrap();
    out
}

fn open(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    StreamPreamble::parse(bytes)?.check(&context())?;
    let mut opener = StreamOpener::new(&key(1), context())?;
    let (mut rest, mut plains) = (&bytes[PREAMBLE_LEN..], Vec::new());
    while !rest.is_empty() {
        let (frame, behind) = rest.split_at(FrameHeader::parse(rest)?.frame_len()?.min(rest.len()));
        plains.push(opener.open(frame.to_vec())?.plain().to_vec());
        rest = behind;
    }
    opener.finish()?;
    Ok(plains)
}

fn plains() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..6)
}

proptest! {
    #[test]
    fn whole_streams_open(plains in plains()) {
        let mut opened = open(&seal(&plains)).unwrap();
        prop_assert_eq!(opened.pop(), Some(Vec::new()));
        prop_assert_eq!(opened, plains);
    }

    #[test]
    fn a_flipped_bit_anywhere_is_found(plains in plains(), at in any::<prop::sample::Index>(),
        bit in 0..8u8) {
        let mut bytes = seal(&plains);
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        prop_assert!(open(&bytes).is_err());
    }

    #[test]
    fn a_cut_anywhere_is_found(plains in plains(), at in any::<prop::sample::Index>()) {
        let bytes = seal(&plains);
        prop_assert!(open(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn frames_in_any_other_order_are_refused(
        order in Just((0..5usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let bytes = seal(&(0..4u8).map(|n| vec![n]).collect::<Vec<_>>());
        let ranges = frame_ranges(&bytes);
        let shuffled: Vec<u8> = order.iter().flat_map(|n|
            bytes[ranges[*n].clone()].to_vec()).collect();
        let opened = open(&[&bytes[..PREAMBLE_LEN], &shuffled].concat());
        prop_assert_eq!(opened.is_ok(), order.is_sorted());
    }

    #[test]
    fn made_up_bytes_never_panic_nor_open(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(open(&bytes).is_err());
        prop_assert!(open_message(&key(1), &identity::fragment(session(1), StageId(1)),
            &bytes).is_err());
        prop_assert!(open_object(&key(1), session(1), &bytes).is_err());
        let _ = FrameHeader::parse(&bytes);
    }

    #[test]
    fn messages_open_whole_and_only_so(
        plain in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(),
            bit in 0..8u8
    ) {
        let context = identity::commit(session(1), StageId(1), Partition(1));
        let mut sealed = seal_message(&key(1), &context, &plain).unwrap();
        prop_assert_eq!(open_message(&key(1), &context, &sealed).unwrap(), plain);
        let at = at.index(sealed.len());
        sealed[at] ^= 1u8 << bit;
        prop_assert!(open_message(&key(1), &context, &sealed).is_err());
    }
}
