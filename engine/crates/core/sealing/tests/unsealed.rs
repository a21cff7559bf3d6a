//! Which of the two builds this is: `bench/build-unsealed` asks for this test alone, with the
//! feature.

use coffer_sealing::{
    Attempt, ExecutionId, Partition, SessionId, SessionKey, StageId, StreamTarget,
};

fn frame() -> Vec<u8> {
    let key = SessionKey::generate().unwrap();
    let session = SessionId::draw().unwrap();
    let mut attempt =
        Attempt::begin(&key, session, ExecutionId(1), StageId(1), Partition(0)).unwrap();
    let mut sealer = attempt.sealer(StreamTarget::Result).unwrap();
    let mut out = Vec::new();
    sealer
        .seal(b"a value that can be looked for", true, &mut out)
        .unwrap();
    out
}

#[test]
fn a_frame_shows_its_plaintext_in_an_unsealed_build_only() {
    let shows = frame()
        .windows(30)
        .any(|w| w == b"a value that can be looked for");
    assert_eq!(shows, coffer_sealing::UNSEALED);
    assert_eq!(coffer_sealing::UNSEALED, cfg!(feature = "unsealed"));
    assert_eq!(
        coffer_sealing::OPEN_TABLES,
        cfg!(feature = "unsealed") && !cfg!(feature = "sealed-tables")
    );
    assert_eq!(
        coffer_sealing::UNSEALED_WARNING.is_some(),
        coffer_sealing::UNSEALED
    );
}
