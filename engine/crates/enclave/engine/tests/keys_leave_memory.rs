//! Keys are gone from the process's memory when nothing needs them any more. Read from
//! /proc/self/mem, as a debugger would; a program of its own, with one test, so that nothing else
//! moves keys about.

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    time::{Duration, Instant},
};

use coffer_engine::session::Sessions;
use coffer_sealing::{
    Attempt, ColumnId, DerivationKey, ExecutionId, Kek, KekId, KekSet, Partition, Secret,
    SessionId, SessionKey, StageId, StreamOpener, StreamTarget, TableId,
};

/// A key as the test keeps it: not as it lies in memory.
struct Masked(Vec<u8>);

const MASK: u8 = 0x5a;

impl Masked {
    fn of(key: &[u8; 32]) -> Self {
        Self(key.iter().map(|byte| byte ^ MASK).collect())
    }

    /// How often the key lies in the process's writable memory.
    fn found(&self) -> usize {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut memory = fs::File::open("/proc/self/mem").unwrap();
        let mut found = 0;
        for line in maps.lines().filter(|line| {
            line.split(' ')
                .nth(1)
                .is_some_and(|mode| mode.starts_with("rw"))
        }) {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let (from, to) = (
                u64::from_str_radix(from, 16).unwrap(),
                u64::from_str_radix(to, 16).unwrap(),
            );
            let mut bytes = Vec::new();
            let read = memory
                .seek(SeekFrom::Start(from))
                .and_then(|_| (&mut memory).take(to - from).read_to_end(&mut bytes));
            if read.is_err() {
                continue; // the system's own pages
            }
            // Masked at once, so that the copy is no finding of the next look.
            bytes.iter_mut().for_each(|byte| *byte ^= MASK);
            found += bytes
                .windows(self.0.len())
                .filter(|window| *window == self.0)
                .count();
        }
        found
    }
}

#[test]
fn a_session_takes_its_keys_along() {
    let sessions = Sessions::default();
    let (id, now) = (SessionId::draw().unwrap(), Instant::now());
    let column = KekId::column(TableId([1; 16]), ColumnId(1));
    let (kek, session) = {
        let mut keks = KekSet::new();
        keks.insert(Kek::new(column, Secret::generate().unwrap()));
        let kek = Masked::of(keks.iter().next().unwrap().expose());
        let secret = Secret::generate().unwrap();
        let session = Masked::of(secret.expose());
        let key = SessionKey::from_secret(secret);
        sessions
            .accept(id, key, &keks, Duration::from_secs(60), now)
            .unwrap();
        (kek, session)
    };
    assert!(session.found() > 0, "the search finds a key that is there");
    assert!(kek.found() > 0);

    // By idle lease.
    sessions.expire(now + Duration::from_secs(61));
    assert!(sessions.is_empty());
    assert_eq!((session.found(), kek.found()), (0, 0), "after the lease");

    // On the driver's word.
    let again = Secret::generate().unwrap();
    let session = Masked::of(again.expose());
    sessions
        .accept(
            id,
            SessionKey::from_secret(again),
            &KekSet::new(),
            Duration::from_secs(60),
            now,
        )
        .unwrap();
    assert!(session.found() > 0);
    sessions.end([id]);
    assert_eq!(session.found(), 0, "after the query");

    streams();
}

/// The expanded key of AES begins with the key itself, so the keys of streams are found too while
/// they are in use.
fn streams() {
    let secret = Secret::generate().unwrap();
    let root = Masked::of(secret.expose());
    let derivation = DerivationKey::new("session", &secret);
    let key = SessionKey::from_secret(secret);
    let session = SessionId([2; 16]);
    let mut attempt =
        Attempt::begin(&key, session, ExecutionId(0), StageId(1), Partition(0)).unwrap();
    let mut sealer = attempt.sealer(StreamTarget::Shuffle(0)).unwrap();
    let id = attempt.id();
    let parts: [&[u8]; 6] = [
        session.as_bytes(),
        &[0; 8],
        &[1, 0, 0, 0],
        &[0; 4],
        id.as_bytes(),
        &[0; 4],
    ];
    let stream = Masked::of(
        derivation
            .derive("stream shuffle", &parts)
            .unwrap()
            .expose(),
    );
    let mut out = Vec::new();
    sealer.seal(b"row", true, &mut out).unwrap();
    let mut opener = StreamOpener::new(&key, *sealer.identity()).unwrap();
    opener.open(out).unwrap();
    assert!(stream.found() > 0, "the schedule is as this test says");
    drop((derivation, key, attempt, sealer, opener));
    assert_eq!((root.found(), stream.found()), (0, 0), "after the streams");
}
