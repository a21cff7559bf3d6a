//! A policy that its owner did not sign, or not last, is no policy.

use std::{fs, path::PathBuf};

use coffer_catalog::{Error, policy};
use coffer_custody::{ConfigDir, Keyring, Passphrase, Policy, PolicyError};
use coffer_sealing::TableId;

const FIRST: &str = "# mine\n[attestation]\naccept = [\"simulated\"]\n";
const SECOND: &str = "# mine\n[attestation]\naccept = []\n";

struct Owner {
    folder: tempfile::TempDir,
    config_dir: ConfigDir,
    keyring: Keyring,
}

impl Owner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config_dir = ConfigDir::at(folder.path().join("config"));
        config_dir.create().unwrap();
        let keyring = Keyring::create(
            &config_dir.keyring(),
            &Passphrase::new("correct horse").unwrap(),
        )
        .unwrap();
        Self {
            folder,
            config_dir,
            keyring,
        }
    }

    fn signed(text: &str) -> Self {
        let owner = Self::new();
        owner.replace(text);
        owner
    }

    fn replace(&self, text: &str) -> Policy {
        policy::replace(&self.config_dir, &self.keyring, text).unwrap()
    }

    fn open(&self) -> Result<Policy, PolicyError> {
        policy::open(&self.config_dir, &self.keyring).map_err(|error| match error {
            Error::Policy(error) => error,
            other => panic!("{other}"),
        })
    }

    fn code(&self) -> &'static str {
        let error = self.open().unwrap_err();
        assert!(error.hint().is_some());
        error.code()
    }

    /// Policy and signature as they are now.
    fn copy(&self) -> [(PathBuf, Vec<u8>); 2] {
        [self.config_dir.policy(), self.config_dir.policy_signature()].map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
    }
}

fn put_back(files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn what_was_never_signed_is_refused_and_signed_once_after_it_was_shown() {
    let owner = Owner::new();
    assert_eq!(owner.code(), "policy_not_found");
    // As a config directory of before has it.
    fs::write(owner.config_dir.policy(), FIRST).unwrap();
    let error = owner.open().unwrap_err();
    assert_eq!(error.code(), "policy_not_signed");
    assert!(
        error.to_string().contains("+ accept = [\"simulated\"]"),
        "{error}"
    );
    let review = policy::review(&owner.config_dir, &owner.keyring).unwrap();
    assert!(!review.is_signed && review.trouble.is_none());
    assert_eq!(review.difference.lines().count(), FIRST.lines().count());
    // What is signed is what was shown.
    fs::write(owner.config_dir.policy(), SECOND).unwrap();
    let refused = policy::sign(&owner.config_dir, &owner.keyring, &review);
    assert!(matches!(
        refused,
        Err(Error::Policy(PolicyError::ChangedMeanwhile(_)))
    ));
    assert_eq!(owner.code(), "policy_not_signed");
    fs::write(owner.config_dir.policy(), FIRST).unwrap();
    let signed = policy::sign(&owner.config_dir, &owner.keyring, &review).unwrap();
    assert_eq!((signed.text(), signed.head().version), (FIRST, 1));
    assert_eq!(owner.open().unwrap(), signed);
    assert!(
        policy::review(&owner.config_dir, &owner.keyring)
            .unwrap()
            .is_signed
    );
}

#[test]
fn an_edit_without_the_passphrase_is_refused_and_shown() {
    let owner = Owner::signed(FIRST);
    for edited in [
        FIRST.replace("\"simulated\"", ""),
        format!("{FIRST}[users.eve]\n"),
        format!("{FIRST}\n"),
        FIRST.replace('\n', "\r\n"),
        FIRST.trim_end().to_owned(),
        String::new(),
        "no policy at all".to_owned(),
        format!("{FIRST}[masters]\nm = \"hadoop-kms:https://elsewhere/kms?key=k&user=u\"\n"),
    ] {
        fs::write(owner.config_dir.policy(), &edited).unwrap();
        let error = owner.open().unwrap_err();
        assert_eq!(error.code(), "policy_changed", "{edited:?}");
        assert!(
            error.to_string().lines().count() > 1,
            "the difference is shown: {error}"
        );
        // A command that edits does not sign it along.
        let record = policy::record_table(
            &owner.config_dir,
            &owner.keyring,
            "t",
            TableId([1; 16]),
            owner.folder.path(),
            "main",
        );
        assert!(matches!(
            record,
            Err(Error::Policy(PolicyError::Changed { .. }))
        ));
        assert_eq!(
            fs::read_to_string(owner.config_dir.policy()).unwrap(),
            edited
        );
    }
    fs::write(owner.config_dir.policy(), FIRST).unwrap();
    owner.open().unwrap();
}

#[test]
fn an_older_pair_that_is_put_back_is_refused() {
    let owner = Owner::signed(FIRST);
    let first = owner.copy();
    assert_eq!(owner.replace(SECOND).head().version, 2);
    let second = owner.copy();
    for old in [&first[..], &first[..1], &first[1..]] {
        put_back(old);
        let code = owner.code();
        assert!(
            ["policy_not_newest", "policy_changed"].contains(&code),
            "{code}"
        );
        put_back(&second);
    }
    assert_eq!(owner.open().unwrap().text(), SECOND);
    put_back(&first);
    assert_eq!(owner.code(), "policy_not_newest");
    let review = policy::review(&owner.config_dir, &owner.keyring).unwrap();
    assert!(matches!(
        review.trouble,
        Some(PolicyError::NotNewest {
            version: 1,
            newest: 2,
            ..
        })
    ));
    // The same text signed again is another version: what was put back is not what counts then.
    assert_eq!(owner.replace(FIRST).head().version, 3);
    put_back(&first);
    assert_eq!(owner.code(), "policy_not_newest");
}

#[test]
fn a_signature_that_is_gone_altered_or_anothers_is_none() {
    let (owner, other) = (Owner::signed(FIRST), Owner::signed(FIRST));
    let [policy_file, (path, signature)] = owner.copy();
    fs::remove_file(&path).unwrap();
    assert_eq!(owner.code(), "policy_signature");
    put_back(&[policy_file, (path.clone(), other.copy()[1].1.clone())]);
    assert_eq!(owner.code(), "policy_signature");
    for at in [0, 6, 8, 15, 20, 45, signature.len() - 1] {
        let mut altered = signature.clone();
        altered[at] ^= 1;
        fs::write(&path, &altered).unwrap();
        assert_eq!(owner.code(), "policy_signature", "byte {at}");
    }
    for length in [0, 5, 6, 13, 45, signature.len() - 1] {
        fs::write(&path, &signature[..length]).unwrap();
        assert_eq!(owner.code(), "policy_signature", "{length} bytes");
    }
    fs::write(&path, &signature).unwrap();
    owner.open().unwrap();
}

#[test]
fn a_keyring_that_is_in_two_directories_signs_for_each() {
    let owner = Owner::signed(FIRST);
    let copy = ConfigDir::at(owner.folder.path().join("copy"));
    copy.create().unwrap();
    fs::copy(owner.config_dir.keyring(), copy.keyring()).unwrap();
    for (from, to) in [
        (owner.config_dir.policy(), copy.policy()),
        (owner.config_dir.policy_signature(), copy.policy_signature()),
    ] {
        fs::copy(from, to).unwrap();
    }
    let keyring =
        Keyring::open(&copy.keyring(), &Passphrase::new("correct horse").unwrap()).unwrap();
    let error = policy::open(&copy, &keyring).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Policy(PolicyError::NotNewest { newest: 0, .. })
        ),
        "{error}"
    );
    policy::replace(&copy, &keyring, SECOND).unwrap();
    assert_eq!(policy::open(&copy, &keyring).unwrap().text(), SECOND);
    assert_eq!(owner.open().unwrap().text(), FIRST);
}

#[test]
fn what_a_command_records_is_signed_and_comments_stay() {
    let owner = Owner::signed(FIRST);
    let (id, path) = (TableId([7; 16]), owner.folder.path().join("t"));
    let record = || policy::record_table(&owner.config_dir, &owner.keyring, "t", id, &path, "main");
    record().unwrap();
    let signed = owner.open().unwrap();
    assert_eq!(
        (signed.table("t").unwrap().id(), signed.head().version),
        (Some(id), 2)
    );
    assert!(signed.text().starts_with("# mine\n"));
    // Nothing new is no new version.
    record().unwrap();
    assert_eq!(owner.open().unwrap().head().version, 2);
    policy::forget_table(&owner.config_dir, &owner.keyring, "t", id).unwrap();
    assert!(owner.open().unwrap().table("t").is_err());
}

#[test]
fn a_linked_policy_is_what_it_leads_to() {
    let owner = Owner::signed(FIRST);
    let elsewhere = owner.folder.path().join("elsewhere.toml");
    fs::rename(owner.config_dir.policy(), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, owner.config_dir.policy()).unwrap();
    assert_eq!(owner.open().unwrap().text(), FIRST);
    fs::write(&elsewhere, SECOND).unwrap();
    assert_eq!(owner.code(), "policy_changed");
}

#[test]
fn readers_beside_a_writer_see_the_one_or_the_other() {
    let owner = Owner::signed(FIRST);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for at in 0..20 {
                owner.replace(if at % 2 == 0 { SECOND } else { FIRST });
            }
        });
        while !writing.is_finished() {
            let seen = owner.open().unwrap();
            assert!([FIRST, SECOND].contains(&seen.text()));
        }
        writing.join().unwrap();
    });
    assert_eq!(owner.open().unwrap().head().version, 21);
}

#[test]
fn what_is_no_policy_is_not_signed() {
    let owner = Owner::signed(FIRST);
    let refused = policy::replace(&owner.config_dir, &owner.keyring, "suprise = 1\n");
    assert!(matches!(
        refused,
        Err(Error::Policy(PolicyError::Syntax { .. }))
    ));
    assert_eq!(owner.open().unwrap().text(), FIRST);
}
