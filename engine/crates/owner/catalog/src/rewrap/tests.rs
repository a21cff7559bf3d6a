//! Two rotations at once, keys that are destroyed in between, and a kill after any batch.

use std::sync::Arc;

use coffer_custody::{
    ConfigDir, Keyring, LinkKey, MasterKeys, MasterState, Masters, Passphrase, Policy, TableKey,
};
use coffer_format::SparkType;
use coffer_sealing::{LinkId, Secret, TableId};

use super::*;
use crate::{NewColumns, TableRecord, TableWrite, Target, open_table};

struct Owner {
    folder: tempfile::TempDir,
    config_dir: ConfigDir,
    vault: Vault,
}

impl Owner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config_dir = ConfigDir::at(folder.path().join("config"));
        config_dir.create().unwrap();
        let passphrase = Passphrase::new("correct horse").unwrap();
        let vault = Vault::from(Keyring::create(&config_dir.keyring(), &passphrase).unwrap());
        Self {
            folder,
            config_dir,
            vault,
        }
    }

    /// As another process.
    fn other(&self) -> Vault {
        let passphrase = Passphrase::new("correct horse").unwrap();
        Vault::from(Keyring::open(&self.config_dir.keyring(), &passphrase).unwrap())
    }

    fn register(&self) -> Register {
        Register::of(&self.config_dir, self.vault.keyring())
    }

    fn policy(&self) -> Policy {
        crate::policy::replace(&self.config_dir, self.vault.keyring(), "").unwrap()
    }

    fn table(&self, name: &str) {
        let new = NewColumns {
            columns: vec![("a".into(), SparkType::Long, true)],
            ..NewColumns::default()
        };
        let folder = self.folder.path().join(name);
        let write = TableWrite::create(
            &self.config_dir,
            &self.vault,
            &self.policy(),
            name,
            &folder,
            new,
        )
        .unwrap();
        write.publish(Vec::new()).unwrap();
    }

    /// Records without folders: enough to rewrap.
    fn records(&self, count: u8) {
        for number in 0..count {
            let key = TableKey::generate(TableId([number; 16])).unwrap();
            let wrapped = self.vault.wrap("main", &key).unwrap();
            let path = self.folder.path().join(format!("t{number}"));
            let record = TableRecord::begin(key.table(), format!("t{number}"), path, wrapped);
            self.register().insert(&self.vault, record).unwrap();
        }
    }

    fn versions(&self) -> Vec<String> {
        let keys = self.register().held_keys().unwrap();
        let of = |key: &HeldKey| self.vault.version_of(&key.context, &key.wrapped).unwrap();
        keys.iter().map(of).collect()
    }
}

fn options(to: Option<&str>) -> RewrapOptions {
    RewrapOptions {
        to: to.map(str::to_owned),
        threads: 3,
        again: false,
    }
}

/// How many were moved, were current, failed.
fn counts(register: &Register, vault: &Vault, to: Option<&str>) -> (usize, usize, usize) {
    let keys = register.held_keys().unwrap();
    let mut counts = (0, 0, 0);
    rewrap(register, vault, keys, &options(to), |_, done| match done {
        Rewrapped::Moved { .. } => counts.0 += 1,
        Rewrapped::Current(_) => counts.1 += 1,
        Rewrapped::Failed(_) => counts.2 += 1,
    })
    .unwrap();
    counts
}

#[test]
fn a_table_stays_open_and_its_key_the_same() {
    let owner = Owner::new();
    owner.table("t");
    let open = |vault: &Vault| {
        open_table(
            &owner.config_dir,
            vault,
            &owner.policy(),
            &Target::Name("t".into()),
        )
        .unwrap()
    };
    let running = owner.other();
    let before = open(&running);
    owner.vault.keyring().rotate("main").unwrap();
    assert_eq!(counts(&owner.register(), &owner.vault, None), (1, 0, 0));
    assert_eq!(counts(&owner.register(), &owner.vault, None), (0, 1, 0));
    let after = open(&running);
    assert_eq!(after.hash(), before.hash());
    let kek = |table: &crate::VerifiedManifest| {
        *table.keks(["a"]).unwrap().iter().next().unwrap().expose()
    };
    assert_eq!(kek(&after), kek(&before));
    // To another master, and the one before can go.
    owner.vault.keyring().add_master("other").unwrap();
    assert_eq!(
        counts(&owner.register(), &owner.vault, Some("other")),
        (1, 0, 0)
    );
    assert_eq!(open(&running).master(), "other");
    owner
        .register()
        .destroy_master(&owner.vault, "main", None, false)
        .unwrap();
    assert_eq!(open(&running).hash(), before.hash());
}

#[test]
fn links_are_rewrapped_too() {
    let owner = Owner::new();
    let key = LinkKey::generate(LinkId([1; 16])).unwrap();
    let wrapped = owner.vault.wrap_link("main", &key).unwrap();
    let register = owner.register();
    register
        .link(
            &owner.vault,
            ("l", "det", "int"),
            Some((key.link(), wrapped)),
        )
        .unwrap();
    owner.vault.keyring().rotate("main").unwrap();
    assert_eq!(counts(&register, &owner.vault, None), (1, 0, 0));
    assert_eq!(owner.versions(), ["2"]);
    register.links().unwrap()[0]
        .unwrap_key(&owner.vault)
        .unwrap();
}

#[test]
fn two_rotations_race_and_all_keys_end_under_a_version_that_is_there() {
    let owner = Owner::new();
    owner.records(60);
    let (one, two) = (owner.other(), owner.other());
    thread::scope(|scope| {
        for vault in [&one, &two] {
            scope.spawn(|| {
                let register = Register::of(&owner.config_dir, vault.keyring());
                for _ in 0..4 {
                    vault.keyring().rotate("main").unwrap();
                    let (_, _, failed) = counts(&register, vault, None);
                    assert_eq!(failed, 0);
                }
            });
        }
    });
    for table in owner.register().tables().unwrap() {
        table.unwrap_key(&owner.vault).unwrap();
    }
    // Whoever comes last brings them all to the newest.
    assert_eq!(counts(&owner.register(), &owner.vault, None).2, 0);
    assert_eq!(owner.versions(), vec!["9"; 60]);
    assert_eq!(
        owner
            .vault
            .keyring()
            .master_info("main")
            .unwrap()
            .versions
            .len(),
        9
    );
}

#[test]
fn killed_after_a_batch_it_goes_on_where_it_was() {
    let owner = Owner::new();
    owner.records(20);
    owner.vault.keyring().rotate("main").unwrap();
    let register = owner.register();
    // Dies after the first seven: what is told is done, whatever comes then.
    let keys = register.held_keys().unwrap();
    rewrap(
        &register,
        &owner.vault,
        keys[..7].to_vec(),
        &options(None),
        |_, _| (),
    )
    .unwrap();
    assert_eq!(
        owner
            .versions()
            .iter()
            .filter(|version| *version == "2")
            .count(),
        7
    );
    for table in register.tables().unwrap() {
        table.unwrap_key(&owner.vault).unwrap();
    }
    assert_eq!(counts(&register, &owner.vault, None), (13, 7, 0));
}

#[test]
fn a_key_that_changed_meanwhile_is_looked_at_again() {
    let owner = Owner::new();
    owner.records(1);
    let register = owner.register();
    let stale = register.held_keys().unwrap();
    owner.vault.keyring().rotate("main").unwrap();
    assert_eq!(counts(&register, &owner.vault, None), (1, 0, 0));
    owner.vault.keyring().rotate("main").unwrap();
    // From a snapshot of two rotations ago: it loses once, and then moves what is there.
    let mut outcomes = Vec::new();
    rewrap(&register, &owner.vault, stale, &options(None), |_, done| {
        outcomes.push(done)
    })
    .unwrap();
    assert!(
        matches!(&outcomes[..], [Rewrapped::Moved { from, to }] if from.version == "2"
            && to.version == "3")
    );
}

#[test]
fn what_is_needed_is_not_destroyed() {
    let owner = Owner::new();
    owner.table("orders");
    let register = owner.register();
    let destroy =
        |version, given_up| register.destroy_master(&owner.vault, "main", version, given_up);
    let refused = destroy(None, false).unwrap_err();
    assert!(refused.to_string().contains("`orders`"), "{refused}");
    owner.vault.keyring().rotate("main").unwrap();
    assert!(matches!(
        destroy(Some(1), false),
        Err(Error::MasterNeeded { .. })
    ));
    counts(&register, &owner.vault, None);
    assert_eq!(destroy(Some(1), false).unwrap().info.versions.len(), 1);
    let destroyed = destroy(None, true).unwrap();
    assert_eq!((destroyed.lost.len(), destroyed.files), (1, false));
    let opened = open_table(
        &owner.config_dir,
        &owner.vault,
        &owner.policy(),
        &Target::Name("orders".into()),
    );
    assert!(matches!(opened, Err(Error::Key { of, .. }) if of == "`orders`"));

    // A key that was wrapped before its master was destroyed does not come into the register after
    // it.
    owner.vault.keyring().add_master("short").unwrap();
    let key = TableKey::generate(TableId([9; 16])).unwrap();
    let wrapped = owner.vault.wrap("short", &key).unwrap();
    register
        .destroy_master(&owner.vault, "short", None, false)
        .unwrap();
    let record = TableRecord::begin(
        key.table(),
        "late".into(),
        owner.folder.path().join("late"),
        wrapped,
    );
    assert!(matches!(
        register.insert(&owner.vault, record),
        Err(Error::Keyring(_))
    ));
}

#[test]
fn a_disabled_master_fails_its_keys_and_no_others() {
    let owner = Owner::new();
    owner.records(2);
    owner.vault.keyring().add_master("other").unwrap();
    let register = owner.register();
    let keys = register.held_keys().unwrap();
    rewrap(
        &register,
        &owner.vault,
        keys[..1].to_vec(),
        &options(Some("other")),
        |_, _| (),
    )
    .unwrap();
    owner.vault.keyring().rotate("other").unwrap();
    owner.vault.keyring().rotate("main").unwrap();
    owner.vault.keyring().set_enabled("main", false).unwrap();
    assert_eq!(counts(&register, &owner.vault, None), (1, 0, 1));
}

/// A master outside of the keyring that counts what it wraps anew.
struct Counting(Arc<AtomicUsize>);

impl MasterKeys for Counting {
    fn describe(&self) -> String {
        "counting".to_owned()
    }

    fn wrap(&self, _: &KeyContext, secret: &Secret<32>) -> Result<Vec<u8>, MasterError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(secret.expose().to_vec())
    }

    fn unwrap(&self, context: &KeyContext, wrapped: &[u8]) -> Result<Secret<32>, MasterError> {
        Secret::from_slice(wrapped).map_err(|_| MasterError::Malformed(*context))
    }

    fn version_of(&self, _: &[u8]) -> Result<String, MasterError> {
        Ok("1".to_owned())
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        Ok(MasterState {
            version: "1".to_owned(),
            enabled: true,
            created: None,
        })
    }
}

/// A KMS may take a cent and a second for each key: none is asked for what cannot be kept.
#[test]
fn nothing_more_is_wrapped_when_the_register_cannot_be_written() {
    let owner = Owner::new();
    owner.records(1);
    let wrapped = Arc::new(AtomicUsize::new(0));
    let text = "[masters]\ncloud = \"aws-kms:alias/cloud?region=eu-west-1\"\n";
    let policy = crate::policy::replace(&owner.config_dir, owner.vault.keyring(), text).unwrap();
    let masters = Masters::of(&policy, |_| Box::new(Counting(Arc::clone(&wrapped))));
    let passphrase = Passphrase::new("correct horse").unwrap();
    let vault = Vault::new(
        Keyring::open(&owner.config_dir.keyring(), &passphrase).unwrap(),
        masters,
    );
    let keys = vec![owner.register().held_keys().unwrap().remove(0); 3 * BATCH];
    let put = |_: Vec<Wrapped<'_>>| Err(Error::RegisterContent("full".to_owned()));
    let failed = wrap_all(&vault, &keys, &options(Some("cloud")), &Newest::new(), put);
    assert!(matches!(failed, Err(Error::RegisterContent(_))));
    // A batch that failed, one that waited, and one in the hands of each thread.
    assert!(wrapped.load(Ordering::Relaxed) <= 2 * BATCH + 3);
}
