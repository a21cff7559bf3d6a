//! `vectors/keyrings.json`, `vectors/wrapped_table_keys.json`, and a keyring's life. Argon2 runs at
//! its real price, so few tests unlock.

use std::os::unix::fs::PermissionsExt;

use coffer_sealing::{ColumnId, LinkId, Secret, TableId};
use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    keyring::master::MasterVersion,
    vectors::{Case, base, check, flipped, kept},
};

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text).unwrap()
}

#[test]
fn one_life() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.coffer");
    let (old, new) = (passphrase("old one"), passphrase("new one"));
    assert!(matches!(
        Keyring::open(&path, &old),
        Err(KeyringError::NotFound(_))
    ));

    let mut keyring = Keyring::create(&path, &old).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(matches!(
        Keyring::create(&path, &old),
        Err(KeyringError::Exists(_))
    ));
    let second = Keyring::open(&path, &old).unwrap();

    // Two handles add a master each; neither is lost.
    let added = keyring.add_master("archive-2026").unwrap();
    second.add_master("b").unwrap();
    assert!(matches!(
        keyring.add_master("b"),
        Err(KeyringError::MasterExists(_))
    ));
    assert!(matches!(
        keyring.add_master("no good"),
        Err(KeyringError::BadName(_))
    ));
    let names: Vec<String> = second
        .masters()
        .unwrap()
        .into_iter()
        .map(|master| master.name)
        .collect();
    assert_eq!(names, ["archive-2026", "b", "main"]);
    assert_eq!(
        (
            added.newest().unwrap().fingerprint.len(),
            second.masters().unwrap().contains(&added)
        ),
        (16, true)
    );

    let table = TableKey::generate(TableId::draw().unwrap()).unwrap();
    let wrapped = second.wrap("b", &table).unwrap();
    let register = keyring.register_key().seal(b"register").unwrap();
    keyring.change_passphrase(&new).unwrap();
    assert!(matches!(
        second.add_master("c"),
        Err(KeyringError::ChangedMeanwhile(_))
    ));
    assert!(matches!(
        Keyring::open(&path, &old),
        Err(KeyringError::WrongPassphrase)
    ));

    let reopened = Keyring::open(&path, &new).unwrap();
    assert_eq!(reopened.owner_public(), second.owner_public());
    assert_eq!(
        reopened.register_key().open(&register).unwrap(),
        b"register"
    );
    let wrapped = WrappedTableKey::from_bytes(&wrapped.to_bytes()).unwrap();
    let unwrapped = reopened.unwrap(&wrapped).unwrap();
    assert_eq!(
        unwrapped.kek(ColumnId(1)).unwrap().expose(),
        table.kek(ColumnId(1)).unwrap().expose()
    );
    assert!(matches!(
        reopened.wrap("z", &table),
        Err(KeyringError::NoMaster { .. })
    ));

    let link = LinkKey::generate(LinkId(*table.table().as_bytes())).unwrap();
    let wrapped_link = reopened.wrap_link("b", &link).unwrap();
    let wrapped_link = WrappedLinkKey::from_bytes(&wrapped_link.to_bytes()).unwrap();
    let unwrapped = reopened.unwrap_link(&wrapped_link).unwrap();
    assert!(unwrapped.secret().ct_eq(link.secret()) && unwrapped.link() == link.link());
    // One kind never opens as the other, even with the same id.
    let as_table = WrappedTableKey::from_bytes(&wrapped_link.to_bytes()).unwrap();
    assert!(matches!(
        reopened.unwrap(&as_table),
        Err(KeyringError::AlteredWrappedKey(_))
    ));
    let as_link = WrappedLinkKey::from_bytes(&wrapped.to_bytes()).unwrap();
    assert!(matches!(
        reopened.unwrap_link(&as_link),
        Err(KeyringError::AlteredWrappedKey(_))
    ));

    // Nothing but the file and its lock is left behind.
    let mut left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["keyring.coffer", "keyring.coffer.lock"]);
}

fn table_key() -> TableKey {
    TableKey::generate(TableId::draw().unwrap()).unwrap()
}

#[test]
fn a_masters_life() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.coffer");
    let keyring = Keyring::create(&path, &passphrase("p")).unwrap();
    // As a running application: it sees what the other handle, of another process, does.
    let running = Keyring::open(&path, &passphrase("p")).unwrap();
    let key = table_key();
    let first = running.wrap("main", &key).unwrap();

    let rotated = keyring.rotate("main").unwrap();
    let numbers: Vec<u32> = rotated
        .versions
        .iter()
        .map(|version| version.number)
        .collect();
    assert_eq!(
        (numbers, rotated.status),
        (vec![1, 2], MasterStatus::Enabled)
    );
    assert_ne!(
        rotated.versions[0].fingerprint,
        rotated.versions[1].fingerprint
    );
    let second = running.wrap("main", &key).unwrap();
    assert_eq!((first.version(), second.version()), (1, 2));
    for wrapped in [&first, &second] {
        assert!(
            running
                .unwrap(wrapped)
                .unwrap()
                .secret()
                .ct_eq(key.secret())
        );
    }

    keyring.set_enabled("main", false).unwrap();
    assert!(matches!(
        running.unwrap(&first),
        Err(KeyringError::Disabled(_))
    ));
    assert!(matches!(
        running.wrap("main", &key),
        Err(KeyringError::Disabled(_))
    ));
    assert!(matches!(
        keyring.rotate("main"),
        Err(KeyringError::Disabled(_))
    ));
    keyring.set_enabled("main", true).unwrap();
    running.unwrap(&first).unwrap();

    let refused = keyring.destroy("main", Some(2));
    assert!(matches!(
        refused,
        Err(KeyringError::NewestVersion { version: 2, .. })
    ));
    keyring.destroy("main", Some(1)).unwrap();
    assert!(matches!(
        running.unwrap(&first),
        Err(KeyringError::NoVersion { version: 1, .. })
    ));
    running.unwrap(&second).unwrap();
    assert_eq!(keyring.rotate("main").unwrap().newest().unwrap().number, 3);

    let destroyed = keyring.destroy("main", None).unwrap();
    assert_eq!(
        (destroyed.status, destroyed.versions.len()),
        (MasterStatus::Destroyed, 0)
    );
    assert!(matches!(
        running.unwrap(&second),
        Err(KeyringError::Destroyed(_))
    ));
    assert!(matches!(
        keyring.set_enabled("main", true),
        Err(KeyringError::Destroyed(_))
    ));
    assert!(matches!(
        keyring.add_master("main"),
        Err(KeyringError::MasterExists(_))
    ));
    assert!(matches!(
        keyring.rotate("none"),
        Err(KeyringError::NoMaster { .. })
    ));
}

#[test]
fn two_that_rotate_at_once_both_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.coffer");
    let one = Keyring::create(&path, &passphrase("p")).unwrap();
    let two = Keyring::open(&path, &passphrase("p")).unwrap();
    std::thread::scope(|scope| {
        for keyring in [&one, &two] {
            scope.spawn(|| (0..8).for_each(|_| drop(keyring.rotate("main").unwrap())));
        }
    });
    let numbers = |keyring: &Keyring| -> Vec<u32> {
        let info = keyring.master_info("main").unwrap();
        info.versions.iter().map(|version| version.number).collect()
    };
    assert_eq!(numbers(&one), (1..=17).collect::<Vec<u32>>());
    assert_eq!(numbers(&two), numbers(&one));
}

#[test]
fn a_keyring_of_format_1_is_written_anew_in_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.coffer");
    std::fs::write(
        &path,
        kept::<Context>("keyrings.json", "keyring_of_format_1"),
    )
    .unwrap();
    let words = passphrase("correct horse battery staple");
    let (keyring, running) = (
        Keyring::open(&path, &words).unwrap(),
        Keyring::open(&path, &words).unwrap(),
    );
    let before = keyring.master_info("main").unwrap();
    assert_eq!(before.newest().unwrap().number, 1);
    let key = table_key();
    let wrapped = keyring.wrap("main", &key).unwrap();
    keyring.rotate("main").unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[4], 2);
    // Who opened it in the old format reads on in the new one.
    assert_eq!(running.wrap("main", &key).unwrap().version(), 2);
    running.unwrap(&wrapped).unwrap();
    let reopened = Keyring::open(&path, &words).unwrap();
    assert_eq!(reopened.owner_public(), running.owner_public());
    assert_eq!(
        reopened.master_info("main").unwrap().versions[0],
        before.versions[0]
    );
}

#[test]
fn exported_imported_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let keyring = Keyring::create(&at("k"), &passphrase("p")).unwrap();
    keyring.rotate("main").unwrap();
    keyring.add_master("second").unwrap();
    let key = table_key();
    let wrapped = keyring.wrap("main", &key).unwrap();

    // One master, into another keyring.
    let other = Keyring::create(&at("other"), &passphrase("q")).unwrap();
    keyring
        .export(&at("one"), &passphrase("x"), &["main".to_string()])
        .unwrap();
    assert_eq!(
        std::fs::metadata(at("one")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(matches!(
        ExportedKeys::open(&at("one"), &passphrase("p")),
        Err(KeyringError::WrongPassphrase)
    ));
    assert!(matches!(
        ExportedKeys::open(&at("k"), &passphrase("p")),
        Err(KeyringError::NotAnExport(_))
    ));
    let exported = ExportedKeys::open(&at("one"), &passphrase("x")).unwrap();
    assert!(!exported.is_whole() && exported.masters().unwrap().len() == 1);
    assert!(matches!(
        other.import(&exported, None),
        Err(KeyringError::OtherVersion { version: 1, .. })
    ));
    assert!(other.import(&exported, Some("theirs")).unwrap()[0].changed);
    assert!(!other.import(&exported, Some("theirs")).unwrap()[0].changed);
    // A wrapped key names its master, so there it opens under that name only.
    assert!(matches!(
        other.unwrap(&wrapped),
        Err(KeyringError::OtherMaster { .. } | KeyringError::NoVersion { .. })
    ));
    assert!(matches!(
        exported.create_keyring(&at("new"), &passphrase("n")),
        Err(KeyringError::NotWhole(_))
    ));

    // A destroyed one comes back.
    let exported = ExportedKeys::open(&at("one"), &passphrase("x")).unwrap();
    keyring.destroy("main", None).unwrap();
    assert!(keyring.import(&exported, None).unwrap()[0].changed);
    assert!(
        keyring
            .unwrap(&wrapped)
            .unwrap()
            .secret()
            .ct_eq(key.secret())
    );

    // All of it, to the byte.
    keyring.export(&at("all"), &passphrase("x"), &[]).unwrap();
    let whole = ExportedKeys::open(&at("all"), &passphrase("x")).unwrap();
    let again = whole
        .create_keyring(&at("again"), &passphrase("n"))
        .unwrap();
    let root = Secret::generate().unwrap();
    let snapshot = keyring.snapshot(&root).unwrap();
    let recovered = ExportedKeys::from_snapshot(&root, &snapshot).unwrap();
    let recovered = recovered
        .create_keyring(&at("recovered"), &passphrase("r"))
        .unwrap();
    let bytes = |keyring: &Keyring| keyring.contents().unwrap().encode().to_vec();
    assert_eq!(bytes(&again), bytes(&keyring));
    assert_eq!(bytes(&recovered), bytes(&keyring));
    let reopened = Keyring::open(&at("recovered"), &passphrase("r")).unwrap();
    assert_eq!(bytes(&reopened), bytes(&keyring));

    let wrong = ExportedKeys::from_snapshot(&Secret::generate().unwrap(), &snapshot);
    assert!(matches!(wrong, Err(KeyringError::RecoveryKey)));
    let altered = ExportedKeys::from_snapshot(&root, &flipped(&snapshot, 60, 1));
    assert!(matches!(altered, Err(KeyringError::SnapshotAltered)));
    let cut = ExportedKeys::from_snapshot(&root, &snapshot[..10]);
    assert!(matches!(cut, Err(KeyringError::RecoveryKey)));
}

#[test]
fn weak_or_dear_parameters_are_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    let weak = [
        Params {
            memory: FLOOR.memory - 1,
            ..FLOOR
        },
        Params { passes: 2, ..FLOOR },
        Params { lanes: 3, ..FLOOR },
    ];
    for params in weak {
        let made = Keyring::create_with(&path, &passphrase("p"), params);
        assert!(
            matches!(made, Err(KeyringError::ParamsTooWeak(_))),
            "{params:?}"
        );
    }
    let dear = [
        Params {
            memory: u32::MAX,
            ..FLOOR
        },
        Params {
            passes: CEILING.passes + 1,
            ..FLOOR
        },
        Params {
            lanes: u32::MAX,
            ..FLOOR
        },
    ];
    for params in dear {
        let made = Keyring::create_with(&path, &passphrase("p"), params);
        assert!(
            matches!(made, Err(KeyringError::ParamsTooDear(_))),
            "{params:?}"
        );
    }
    assert!(!path.exists());
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    passphrase: String,
}

#[test]
fn keyrings() {
    let here = Context {
        passphrase: "correct horse battery staple".into(),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    let whole = base::<Context>("keyrings.json", "keyring_whole", || {
        Keyring::create(&path, &passphrase(&here.passphrase)).unwrap();
        std::fs::read(&path).unwrap()
    });
    let new =
        |name: &str, bytes: Vec<u8>, outcome: &str| Case::new(name, here.clone(), &bytes, outcome);
    let first = kept::<Context>("keyrings.json", "keyring_of_format_1");
    let cases = vec![
        new("keyring_whole", whole.clone(), "opens"),
        new("keyring_of_format_1", first.clone(), "opens"),
        // Were the version not part of the keys, contents of one layout could be read as the
        // other's.
        new(
            "keyring_of_format_1_called_2",
            flipped(&first, 4, 3),
            "wrong_passphrase",
        ),
        new(
            "keyring_called_format_1",
            flipped(&whole, 4, 3),
            "wrong_passphrase",
        ),
        new("keyring_empty", Vec::new(), "not_a_keyring"),
        new(
            "keyring_cut_in_its_header",
            whole[..64].to_vec(),
            "not_a_keyring",
        ),
        new(
            "keyring_magic_changed",
            flipped(&whole, 0, 1),
            "not_a_keyring",
        ),
        new(
            "keyring_version_unknown",
            flipped(&whole, 4, 4),
            "keyring_version",
        ),
        new(
            "keyring_version_zero",
            flipped(&whole, 4, 2),
            "keyring_version",
        ),
        new(
            "keyring_memory_under_the_floor",
            flipped(&whole, 7, 1),
            "argon_too_weak",
        ),
        new(
            "keyring_memory_over_the_ceiling",
            flipped(&whole, 8, 0x80),
            "argon_too_dear",
        ),
        new(
            "keyring_passes_under_the_floor",
            flipped(&whole, 9, 1),
            "argon_too_weak",
        ),
        new(
            "keyring_lanes_over_the_ceiling",
            flipped(&whole, 16, 0x80),
            "argon_too_dear",
        ),
        new(
            "keyring_lanes_changed",
            flipped(&whole, 13, 1),
            "wrong_passphrase",
        ),
        new(
            "keyring_salt_changed",
            flipped(&whole, 17, 1),
            "wrong_passphrase",
        ),
        new(
            "keyring_check_changed",
            flipped(&whole, 49, 1),
            "wrong_passphrase",
        ),
        new(
            "keyring_contents_changed",
            flipped(&whole, 90, 1),
            "keyring_damaged",
        ),
        new(
            "keyring_contents_cut",
            whole[..whole.len() - 1].to_vec(),
            "keyring_damaged",
        ),
        Case::new(
            "keyring_wrong_passphrase",
            Context {
                passphrase: "battery".into(),
            },
            &whole,
            "wrong_passphrase",
        ),
    ];
    check("keyrings.json", cases, |case| {
        std::fs::write(&path, case.bytes()).unwrap();
        Keyring::open(&path, &passphrase(&case.context.passphrase)).map_err(|error| error.code())
    });
}

/// A master whose key is a repeated byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MasterByte {
    master: u8,
}

#[test]
fn wrapped_table_keys() {
    const FILE: &str = "wrapped_table_keys.json";
    let here = MasterByte { master: 1 };
    let master =
        |context: MasterByte| MasterVersion::new(5, 0, Secret::from_bytes([context.master; 32]));
    let key = TableKey::from_secret(TableId([7; 16]), Secret::from_bytes([3; 32]));
    let whole = base::<MasterByte>(FILE, "wrapped_whole", || {
        wrapped::wrap("main", &master(here), &key)
            .unwrap()
            .to_bytes()
    });
    let new = |name: &str, bytes: &[u8], outcome: &str| Case::new(name, here, bytes, outcome);
    let first = kept::<MasterByte>(FILE, "wrapped_before_versions");
    assert_eq!(WrappedTableKey::from_bytes(&first).unwrap().version(), 1);
    assert_eq!(WrappedTableKey::from_bytes(&whole).unwrap().version(), 5);
    let cases = vec![
        new("wrapped_whole", &whole, "opens"),
        new("wrapped_before_versions", &first, "opens"),
        new("wrapped_empty", &[], "wrapped_key_malformed"),
        new(
            "wrapped_magic_changed",
            &flipped(&whole, 0, 1),
            "wrapped_key_malformed",
        ),
        new(
            "wrapped_name_length_huge",
            &flipped(&whole, 7, 0x80),
            "wrapped_key_malformed",
        ),
        new(
            "wrapped_name_not_plain",
            &flipped(&whole, 8, 0x4d),
            "bad_master_name",
        ),
        new(
            "wrapped_cut_in_its_version",
            &whole[..14],
            "wrapped_key_malformed",
        ),
        new(
            "wrapped_cut_before_its_check",
            &whole[..40],
            "wrapped_key_malformed",
        ),
        new(
            "wrapped_table_changed",
            &flipped(&whole, 16, 1),
            "other_master",
        ),
        new(
            "wrapped_check_changed",
            &flipped(&whole, 32, 1),
            "other_master",
        ),
        new(
            "wrapped_key_changed",
            &flipped(&whole, 74, 1),
            "wrapped_key_altered",
        ),
        new(
            "wrapped_key_cut",
            &whole[..whole.len() - 1],
            "wrapped_key_altered",
        ),
        Case::new(
            "wrapped_by_other_master",
            MasterByte { master: 2 },
            &whole,
            "other_master",
        ),
    ];
    check(FILE, cases, |case| {
        let parsed = WrappedTableKey::from_bytes(&case.bytes()).map_err(|error| error.code())?;
        let opened =
            wrapped::unwrap(&master(case.context), &parsed).map_err(|error| error.code())?;
        assert!(
            opened.secret().ct_eq(key.secret()) && opened.table() == key.table(),
            "{}",
            case.name
        );
        Ok(())
    });
}

proptest::proptest! {
    /// The decoders before and behind the authentication; Argon2 lies between them, so no fuzz
    /// target gets there.
    #[test]
    fn keyrings_of_any_bytes_are_decoded_or_refused(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        count in proptest::prelude::any::<u32>(),
    ) {
        let _ = Contents::decode(&bytes);
        let _ = Contents::decode_first(&bytes);
        let mut contents = bytes.clone();
        if let Some(context) = contents.get_mut(64..68) {
            context.copy_from_slice(&count.to_le_bytes());
        }
        let _ = Contents::decode(&contents);
        let _ = Contents::decode_first(&contents);
        let path = Path::new("keyring");
        let _ = Header::parse(Kind::Keyring, path, &bytes);
        let _ = Header::parse(Kind::Keyring, path, &[b"CFKR\x01", bytes.as_slice()].concat());
        let _ = Header::parse(Kind::Export, path, &[b"CFKX\x01", bytes.as_slice()].concat());
    }
}
