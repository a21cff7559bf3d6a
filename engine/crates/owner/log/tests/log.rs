//! A log, its witnesses and who believes them: what is in the log is shown to be, and what a log or
//! a witness may try against that is refused.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use coffer_log::{
    Checkpoint, Entry, Included, LogError, Proof, Trust, cosign,
    keeper::Tiles,
    note::{Note, PrivateKey, Signs},
};
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3600);

struct Site {
    folder: TempDir,
    log: PrivateKey,
    witnesses: Vec<PrivateKey>,
    tiles: Tiles,
}

fn release(number: u32) -> Entry {
    let mut digest = [0; 32];
    digest[..4].copy_from_slice(&number.to_be_bytes());
    Entry::Release(digest)
}

impl Site {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let log = PrivateKey::generate("example.org/log", Signs::Notes).unwrap();
        let named = |n| PrivateKey::generate(&format!("w{n}.example.org"), Signs::Cosignatures);
        let tiles = Tiles::create(&folder.path().join("log"), &log).unwrap();
        Self {
            folder,
            log,
            witnesses: (0..3).map(|n| named(n).unwrap()).collect(),
            tiles,
        }
    }

    fn append(&self, numbers: std::ops::Range<u32>) {
        let entries: Vec<Entry> = numbers.map(release).collect();
        self.tiles.append(&self.log, &entries).unwrap();
    }

    /// These witnesses sign at that time, whatever they signed before.
    fn sign(&self, witnesses: &[usize], at: SystemTime) -> Checkpoint {
        let mut state = None;
        for witness in witnesses {
            let key = &self.witnesses[*witness];
            let (read, signed, found) =
                cosign(&self.tiles, self.log.public(), key, None, at).unwrap();
            self.tiles.add_signature(&read, &signed).unwrap();
            state = Some(found);
        }
        state.unwrap_or_else(|| self.tiles.state(self.log.public()).unwrap())
    }

    fn prove(&self, number: u32) -> Proof {
        self.tiles
            .prove(self.log.public(), &release(number))
            .unwrap()
    }

    fn trust(&self, quorum: usize) -> Trust {
        let keys = self.witnesses.iter().map(|key| key.public().clone());
        Trust::new(self.log.public().clone(), keys.collect(), quorum, 24 * HOUR).unwrap()
    }

    fn check(&self, proof: &Proof, number: u32) -> Result<Included, LogError> {
        self.trust(2).verify(proof, &release(number), now(), None)
    }

    /// Another log of the same key, as one that shows each of two victims another tree has.
    fn fork(&self) -> Self {
        let folder = TempDir::new().unwrap();
        copy(&self.folder.path().join("log"), &folder.path().join("log"));
        let again = |key: &PrivateKey| PrivateKey::parse(&key.to_text()).unwrap();
        Self {
            tiles: Tiles::at(&folder.path().join("log")),
            log: again(&self.log),
            witnesses: self.witnesses.iter().map(again).collect(),
            folder,
        }
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 500_000 * HOUR
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => fs::copy(entry.path(), to.join(entry.file_name()))
                .map(|_| ())
                .unwrap(),
        }
    }
}

#[test]
fn each_entry_is_proved_whatever_the_log_has_grown_to() {
    let site = Site::new();
    for (from, to) in [(0, 1), (1, 3), (3, 255), (255, 257), (257, 600)] {
        site.append(from..to);
        site.sign(&[0, 1], now());
        for number in [0, to / 2, to - 1] {
            let proof = site.prove(number);
            let read = Proof::parse(proof.to_text().as_bytes()).unwrap();
            let found = site.check(&read, number).unwrap();
            assert_eq!(
                (found.index, found.checkpoint.size),
                (number.into(), to.into())
            );
        }
        assert!(matches!(
            site.tiles.prove(site.log.public(), &release(to)),
            Err(LogError::NoEntry)
        ));
    }
    // Nothing is added twice.
    assert_eq!(site.tiles.append(&site.log, &[release(3)]).unwrap(), [3]);
    assert_eq!(site.tiles.state(site.log.public()).unwrap().size, 600);
    // Files are those of the specification: full tiles, the rest, and one level above.
    for file in [
        "tile/0/000",
        "tile/0/001",
        "tile/0/002.p/88",
        "tile/1/000.p/2",
        "tile/entries/001",
    ] {
        assert!(
            site.folder.path().join("log").join(file).is_file(),
            "{file}"
        );
    }
}

#[test]
fn a_proof_of_something_else_is_refused() {
    let site = Site::new();
    site.append(0..9);
    site.sign(&[0, 1], now());
    let proof = site.prove(4);
    site.check(&proof, 4).unwrap();
    let not_included = |proof: &Proof, number| {
        assert!(matches!(
            site.check(proof, number),
            Err(LogError::NotIncluded)
        ));
    };
    not_included(&proof, 5);
    // The same digest as another kind of entry.
    let policy = Entry::Policy(*release(4).digest());
    assert!(matches!(
        site.trust(2).verify(&proof, &policy, now(), None),
        Err(LogError::NotIncluded)
    ));
    for bad in [
        Proof {
            index: 3,
            ..proof.clone()
        },
        Proof {
            index: 9,
            ..proof.clone()
        },
        Proof {
            path: proof.path[1..].to_vec(),
            ..proof.clone()
        },
        Proof {
            path: vec![],
            ..proof.clone()
        },
    ] {
        not_included(&bad, 4);
    }
}

#[test]
fn a_checkpoint_that_the_log_did_not_sign_is_refused() {
    let site = Site::new();
    site.append(0..4);
    site.sign(&[0, 1], now());
    let proof = site.prove(1);
    let forged = |checkpoint: String| {
        site.check(
            &Proof {
                checkpoint,
                ..proof.clone()
            },
            1,
        )
    };
    // Another log of that name.
    let other = PrivateKey::generate("example.org/log", Signs::Notes).unwrap();
    let state = site.tiles.state(site.log.public()).unwrap();
    assert!(matches!(
        forged(state.sign(&other)),
        Err(LogError::NotSigned(_))
    ));
    // Another name.
    let named = PrivateKey::generate("example.org/other", Signs::Notes).unwrap();
    let of_other = Checkpoint {
        origin: "example.org/other".to_owned(),
        ..state.clone()
    };
    assert!(matches!(
        forged(of_other.sign(&named)),
        Err(LogError::Origin { .. })
    ));
    // Its text changed below the signatures.
    let grown = proof.checkpoint.replacen("\n4\n", "\n5\n", 1);
    assert!(matches!(forged(grown), Err(LogError::NotSigned(_))));
    assert!(matches!(forged(String::new()), Err(LogError::Note(_))));
}

#[test]
fn witnesses_are_counted_once_each_and_strangers_are_not() {
    let site = Site::new();
    site.append(0..4);
    let too_few = |site: &Site, wanted: usize| {
        let found = site.check(&site.prove(1), 1);
        assert!(
            matches!(found, Err(LogError::TooFewWitnesses { found, wanted: 2 }) if found == wanted),
            "{found:?}"
        );
    };
    too_few(&site, 0);
    site.sign(&[0, 0, 0], now());
    too_few(&site, 1);
    // One that nobody named; one of a known name with a key of its own.
    for name in ["stranger.example", "w1.example.org"] {
        let key = PrivateKey::generate(name, Signs::Cosignatures).unwrap();
        let (read, signed, _) = cosign(&site.tiles, site.log.public(), &key, None, now()).unwrap();
        site.tiles.add_signature(&read, &signed).unwrap();
    }
    too_few(&site, 1);
    site.sign(&[2], now());
    site.check(&site.prove(1), 1).unwrap();

    let keys = |of: &[usize]| {
        of.iter()
            .map(|n| site.witnesses[*n].public().clone())
            .collect()
    };
    let trust =
        |of: &[usize], quorum| Trust::new(site.log.public().clone(), keys(of), quorum, HOUR);
    trust(&[0, 1], 2).unwrap();
    for (of, quorum) in [(&[0, 1][..], 0), (&[0, 1], 3), (&[0, 0], 1), (&[], 0)] {
        assert!(matches!(trust(of, quorum), Err(LogError::Key(_))));
    }
    let log = || site.log.public().clone();
    assert!(Trust::new(log(), vec![log()], 1, HOUR).is_err());
    assert!(Trust::new(site.witnesses[0].public().clone(), keys(&[1]), 1, HOUR).is_err());
}

#[test]
fn old_and_future_signatures_do_not_count() {
    let site = Site::new();
    site.append(0..4);
    site.sign(&[0], now() - 25 * HOUR);
    site.sign(&[1], now());
    let found = site.check(&site.prove(1), 1);
    assert!(
        matches!(
            found,
            Err(LogError::Stale {
                hours: 25,
                most: 24
            })
        ),
        "{found:?}"
    );
    site.sign(&[2], now() + HOUR);
    let found = site.check(&site.prove(1), 1);
    assert!(matches!(found, Err(LogError::Stale { .. })), "{found:?}");
    // The witness signs again.
    site.sign(&[0], now() - HOUR);
    site.check(&site.prove(1), 1).unwrap();
}

#[test]
fn what_was_seen_before_is_not_taken_back() {
    let site = Site::new();
    site.append(0..4);
    let small = site.sign(&[0, 1], now());
    let old = site.prove(1);
    site.append(4..6);
    let large = site.sign(&[0, 1], now());
    let trust = site.trust(2);
    let check = |proof: &Proof, before| trust.verify(proof, &release(1), now(), Some(before));
    check(&site.prove(1), &small).unwrap();
    check(&site.prove(1), &large).unwrap();
    let found = check(&old, &large);
    assert!(
        matches!(
            found,
            Err(LogError::Rollback {
                found: 4,
                before: 6
            })
        ),
        "{found:?}"
    );
    let other = Checkpoint {
        root: [1; 32],
        ..large.clone()
    };
    let found = check(&site.prove(1), &other);
    assert!(matches!(found, Err(LogError::Fork(6))), "{found:?}");
}

#[test]
fn a_witness_signs_no_fork_and_nothing_older() {
    let site = Site::new();
    site.append(0..4);
    let witness = &site.witnesses[0];
    let sign = |site: &Site, before: &Checkpoint| {
        cosign(&site.tiles, site.log.public(), witness, Some(before), now())
            .map(|(_, _, found)| found)
    };
    let (_, _, first) = cosign(&site.tiles, site.log.public(), witness, None, now()).unwrap();
    let forked = site.fork();
    site.append(4..8);
    let second = sign(&site, &first).unwrap();
    assert_eq!(second.size, 8);

    // The log shows a tree to another victim in which other releases follow.
    forked.append(100..104);
    assert_eq!(sign(&forked, &first).unwrap().size, 8);
    let found = sign(&forked, &second);
    assert!(
        matches!(found, Err(LogError::Inconsistent { from: 8, to: 8 })),
        "{found:?}"
    );
    forked.append(104..300);
    let found = sign(&forked, &second);
    assert!(
        matches!(found, Err(LogError::Inconsistent { from: 8, to: 204 })),
        "{found:?}"
    );
    let old = site.fork();
    old.append(8..9);
    let third = sign(&old, &second).unwrap();
    let found = sign(&site, &third);
    assert!(
        matches!(
            found,
            Err(LogError::Rollback {
                found: 8,
                before: 9
            })
        ),
        "{found:?}"
    );
}

#[test]
fn a_signature_takes_nothing_back_that_came_meanwhile() {
    let site = Site::new();
    site.append(0..2);
    let sign = |witness: usize| {
        let key = &site.witnesses[witness];
        cosign(&site.tiles, site.log.public(), key, None, now()).unwrap()
    };
    let add = |read: &str, signed: &str| site.tiles.add_signature(read, signed);
    let (late, other) = (sign(0), sign(1));
    add(&other.0, &other.1).unwrap();
    assert!(matches!(add(&late.0, &late.1), Err(LogError::Changed)));
    let late = sign(0);
    site.append(2..3);
    assert!(matches!(add(&late.0, &late.1), Err(LogError::Changed)));
    assert_eq!(site.tiles.state(site.log.public()).unwrap().size, 3);
    // Signed again and again, a checkpoint has one line of each witness.
    for hours in 0..3 {
        site.sign(&[0, 1], crate::now() + hours * HOUR);
    }
    assert_eq!(
        site.tiles.checkpoint().unwrap().matches('\u{2014}').count(),
        3
    );
    // Nor is it another checkpoint.
    let now = site.tiles.checkpoint().unwrap();
    assert!(matches!(add(&now, &late.1), Err(LogError::Changed)));
}

#[test]
fn a_log_whose_files_do_not_go_with_its_checkpoint_is_not_read() {
    let site = Site::new();
    site.append(0..300);
    let state = site.tiles.state(site.log.public()).unwrap();
    let log = site.folder.path().join("log");
    for (file, at) in [("tile/0/000", 5), ("tile/0/001.p/44", 31)] {
        let path = log.join(file);
        let whole = fs::read(&path).unwrap();
        let mut changed = whole.clone();
        changed[at] ^= 1;
        for bytes in [changed, whole[32..].to_vec(), whole[1..].to_vec(), vec![]] {
            fs::write(&path, bytes).unwrap();
            assert!(matches!(site.tiles.leaves(&state), Err(LogError::Tile(_))));
            let witness = &site.witnesses[0];
            cosign(&site.tiles, site.log.public(), witness, None, now()).unwrap_err();
            site.tiles.append(&site.log, &[release(1000)]).unwrap_err();
        }
        fs::write(&path, whole).unwrap();
    }
    site.tiles.leaves(&state).unwrap();
    // Whoever was interrupted before the checkpoint left tiles that nobody asks for.
    fs::write(log.join("tile/0/001.p/45"), [7; 45 * 32]).unwrap();
    site.append(300..301);
    site.sign(&[0, 1], now());
    site.check(&site.prove(300), 300).unwrap();
    assert!(Note::parse(&site.tiles.checkpoint().unwrap()).is_ok());
    assert!(matches!(
        Tiles::create(&log, &site.log),
        Err(LogError::Exists(_))
    ));
}
