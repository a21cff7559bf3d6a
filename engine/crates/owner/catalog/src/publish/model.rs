//! Publications on disks that fail, by processes that die, before a host that keeps every byte it
//! ever saw and puts any of them back at any time.
//!
//! The code under test is the real one: every step that it takes on a disk is judged by [`fault`],
//! and the host acts between any two. What is checked: the rows of a write are there exactly once
//! after its writer was told that they are; never after it was told that it failed; and of a writer
//! who was told nothing (it died, or the register's disk left it open) at most once, and whoever
//! has looked once has the last word. So a retry after a failure, or after a look that showed
//! nothing, never doubles rows.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch},
    datatypes::Int64Type,
};
use coffer_custody::{ConfigDir, Keyring, Passphrase, Policy, Vault};
use coffer_format::{Digest, Error as FormatError, FilePin, SparkType, WriteOptions};

use coffer_protocol::storage::Storage;
use store::Store;

use crate::{
    Change, Envelope, Error, FileReader, MANIFEST_FOLDER, NewColumns, Reencryption, Register,
    TableWrite, TableWriter, Target, VerifiedManifest, clean,
    disk::{
        Op,
        fault::{self, Fate},
    },
    manifest_name, open_table, verify,
};

mod runs;
mod store;

/// One keyring for all: making one takes long by intent.
fn vault() -> &'static Vault {
    static VAULT: OnceLock<(tempfile::TempDir, Vault)> = OnceLock::new();
    let (_, vault) = VAULT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keyring.coffer");
        let keyring = Keyring::create(&file, &Passphrase::new("correct horse").unwrap()).unwrap();
        (folder, Vault::from(keyring))
    });
    vault
}

/// What a host does to the table's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Takes all manifests but the first away.
    HideManifests,
    /// Takes all away that came after the first version.
    Hide,
    /// Puts all files back that it ever saw, and as each version's manifest this one of those it
    /// saw, half-made ones too.
    Restore(usize),
    /// Puts something of its own where the next manifest belongs.
    Plant,
}

const ACTS: [Act; 5] = [
    Act::HideManifests,
    Act::Hide,
    Act::Restore(0),
    Act::Restore(1),
    Act::Plant,
];

struct Host {
    folder: PathBuf,
    files: BTreeMap<PathBuf, Vec<u8>>,
    manifests: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Host {
    fn position(&self, version: u64) -> PathBuf {
        self.folder
            .join(MANIFEST_FOLDER)
            .join(manifest_name(version))
    }

    fn watch(&mut self) {
        for folder in [self.folder.clone(), self.folder.join(MANIFEST_FOLDER)] {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let Ok(bytes) = fs::read(&path) else { continue };
                if let Ok((envelope, _)) = Envelope::parse(&bytes) {
                    let seen = self.manifests.entry(envelope.version).or_default();
                    if !seen.contains(&bytes) {
                        seen.push(bytes);
                    }
                } else if path.extension().is_some_and(|kind| kind == "parquet")
                    && !bytes.is_empty()
                {
                    self.files.insert(path, bytes);
                }
            }
        }
    }

    fn act(&mut self, act: Act) {
        self.watch();
        let _ = fs::create_dir(self.folder.join(MANIFEST_FOLDER));
        let newest = self.manifests.keys().max().copied().unwrap_or(1);
        match act {
            Act::HideManifests | Act::Hide => {
                // Also what it planted itself.
                let manifests = self.folder.join(MANIFEST_FOLDER);
                let there = crate::versions::versions(&None, &manifests).unwrap();
                for version in there.into_iter().filter(|version| *version > 1) {
                    self.take(&self.position(version));
                }
                if act == Act::Hide {
                    let first =
                        |path: &Path| path.extension().is_some_and(|kind| kind == "parquet");
                    for path in self.files.keys().filter(|path| first(path)).skip(1) {
                        let _ = fs::remove_file(path);
                    }
                }
            }
            Act::Restore(which) => {
                self.restore_files();
                for version in 2..=newest {
                    self.take(&self.position(version));
                    if let Some(seen) = self.manifests.get(&version) {
                        fs::write(self.position(version), &seen[which % seen.len()]).unwrap();
                    }
                }
            }
            Act::Plant => {
                let free = (2..).find(|version| !self.position(*version).exists());
                fs::write(self.position(free.unwrap()), b"planted").unwrap();
            }
        }
    }

    /// Takes a manifest away and keeps it, in one step: another may have come there just now.
    fn take(&mut self, path: &Path) -> Option<Vec<u8>> {
        let kept = self.folder.with_extension("kept");
        fs::rename(path, &kept).ok()?;
        let bytes = fs::read(&kept).unwrap();
        if let Ok((envelope, _)) = Envelope::parse(&bytes) {
            let seen = self.manifests.entry(envelope.version).or_default();
            if !seen.contains(&bytes) {
                seen.push(bytes.clone());
            }
        }
        Some(bytes)
    }

    fn restore_files(&self) {
        for (path, bytes) in &self.files {
            fs::write(path, bytes).unwrap();
        }
    }

    /// All as it was written, by the versions that the owner knows.
    fn honest(&mut self, versions: &BTreeMap<u64, Digest>) {
        self.act(Act::HideManifests);
        self.restore_files();
        for (version, hash) in versions {
            let bytes = self.manifests[version]
                .iter()
                .find(|bytes| Digest::of(bytes) == *hash);
            fs::write(self.position(*version), bytes.unwrap()).unwrap();
        }
    }
}

/// What is known of a value that somebody wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Written,
    Not,
    /// Its writer was told nothing.
    Open,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// A row of this value.
    Append(i64),
    /// All rows under a fresh key.
    Reencrypt,
}

/// From this step on, or at it, this happens.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    fate: Option<(usize, Fate)>,
    /// It is not that step alone: the disk is full from there on.
    lasting: bool,
    host: Option<(usize, Act)>,
}

struct World {
    folder: tempfile::TempDir,
    /// Where the table lies, as its owner names it.
    table: PathBuf,
    /// Through what it is reached, if that is a URL.
    store: Option<Arc<Store>>,
    config_dir: ConfigDir,
    policy: Policy,
    host: Rc<RefCell<Host>>,
    known: BTreeMap<i64, Known>,
    versions: BTreeMap<u64, Digest>,
}

impl World {
    /// A table with one row, 0, in a folder.
    fn new() -> Self {
        Self::with(false)
    }

    /// The same at a URL.
    fn at_url() -> Self {
        Self::with(true)
    }

    fn with(at_url: bool) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let folder = folder.unwrap();
        let mut config_dir = ConfigDir::at(folder.path().join("config"));
        config_dir.create().unwrap();
        let policy = crate::policy::replace(&config_dir, vault().keyring(), "").unwrap();
        let host_folder = folder.path().join("t");
        let store = at_url.then(|| Arc::new(Store::of(folder.path())));
        if let Some(store) = &store {
            config_dir = config_dir.reaching(Arc::clone(store) as Arc<dyn Storage>);
        }
        let mut world = Self {
            table: match at_url {
                true => PathBuf::from(store::URL).join("t"),
                false => host_folder.clone(),
            },
            store,
            versions: BTreeMap::new(),
            host: Rc::new(RefCell::new(Host {
                folder: host_folder,
                files: BTreeMap::new(),
                manifests: BTreeMap::new(),
            })),
            folder,
            config_dir,
            policy,
            known: BTreeMap::from([(0, Known::Written)]),
        };
        let write = world.create().unwrap();
        let pin = file(&write, 0).unwrap();
        write.publish(vec![pin]).unwrap();
        world.host.borrow_mut().watch();
        world.note();
        world
    }

    /// What the owner knows by now to be the newest version.
    fn note(&mut self) {
        let committed = self
            .register()
            .by_name("t")
            .unwrap()
            .unwrap()
            .committed
            .unwrap();
        self.versions
            .insert(committed.version, committed.hash.unwrap());
    }

    fn create(&self) -> Result<TableWrite, Error> {
        let new = NewColumns {
            columns: vec![("a".into(), SparkType::Long, true)],
            ..NewColumns::default()
        };
        let table = &self.table;
        TableWrite::create(&self.config_dir, vault(), &self.policy, "t", table, new)
    }

    fn open(&self) -> Result<VerifiedManifest, Error> {
        open_table(
            &self.config_dir,
            vault(),
            &self.policy,
            &Target::Name("t".into()),
        )
    }

    fn register(&self) -> Register {
        Register::of(&self.config_dir, vault().keyring())
    }

    /// One process that opens the table and writes. Gives how many steps it took.
    fn write(&mut self, what: What, faults: Faults) -> usize {
        let steps = Rc::new(RefCell::new(0));
        let (count, host) = (Rc::clone(&steps), Rc::clone(&self.host));
        let table = self.table.clone();
        fault::begin(move |_, path| {
            let at = count.replace_with(|at| *at + 1);
            if path.starts_with(&table) {
                host.borrow_mut().watch();
            }
            if let Some((_, act)) = faults.host.filter(|(step, _)| *step == at) {
                host.borrow_mut().act(act);
            }
            match faults.fate {
                Some((step, fate)) if step == at || (faults.lasting && at > step) => fate,
                _ => Fate::Done,
            }
        });
        let shown = self.attempt(what);
        let died = fault::end();
        self.host.borrow_mut().watch();
        self.note();
        if let What::Append(value) = what {
            let known = match shown {
                _ if died => Known::Open,
                Ok(()) => Known::Written,
                Err(Error::PublicationUnknown { .. }) => Known::Open,
                Err(_) => Known::Not,
            };
            self.known.insert(value, known);
        }
        steps.take()
    }

    fn attempt(&self, what: What) -> Result<(), Error> {
        let table = self.open()?;
        match what {
            What::Append(value) => {
                let write = TableWrite::next(
                    &self.config_dir,
                    vault(),
                    &self.policy,
                    &table,
                    Change::Append,
                )?;
                let pin = match file(&write, value) {
                    Ok(pin) => pin,
                    Err(error) => {
                        let _ = write.abandon();
                        return Err(error);
                    }
                };
                write.publish(vec![pin]).map(|_| ())
            }
            What::Reencrypt => {
                let work = Reencryption::begin(
                    &self.config_dir,
                    vault(),
                    &self.policy,
                    &table,
                    table.master(),
                )?;
                let writer = work.writer(WriteOptions::default())?;
                let mut pins = Vec::new();
                for pin in &table.manifest().files {
                    let batches: Result<Vec<_>, Error> = FileReader::open(&table, pin)?.collect();
                    pins.push(written(&writer, &batches?)?);
                }
                work.publish(vault(), pins).map(|_| ())
            }
        }
    }

    /// Whoever opens the table sees what was promised. Where the host shows too little, that is an
    /// error.
    fn look(&mut self, context: &dyn Fn() -> String) -> Result<(), Error> {
        let table = self.open()?;
        let record = self.register().by_name("t").unwrap().unwrap();
        assert!(
            record.pending.is_none(),
            "settled once it is opened: {}",
            context()
        );
        let rows = values(&table)?;
        for (value, known) in &mut self.known {
            let times = rows.iter().filter(|row| *row == value).count();
            let right = match known {
                Known::Written => times == 1,
                Known::Not => times == 0,
                Known::Open => times <= 1,
            };
            assert!(
                right,
                "{value} is there {times} times, and was {known:?}: {}",
                context()
            );
            // From now on whoever looked has the last word.
            *known = if times == 1 {
                Known::Written
            } else {
                Known::Not
            };
        }
        Ok(())
    }

    /// The same where the host shows all as it was written: then it opens.
    fn honest_look(&mut self, context: &dyn Fn() -> String) {
        self.host.borrow_mut().honest(&self.versions);
        let looked = self.look(context);
        assert!(looked.is_ok(), "{looked:?}: {}", context());
    }

    fn act(&self, act: Option<Act>) {
        if let Some(act) = act {
            self.host.borrow_mut().act(act);
        }
    }

    /// A writer who was told of a failure, or who looked and found nothing, writes the same again.
    fn retry(&mut self, value: i64, context: &dyn Fn() -> String) {
        if self.known[&value] == Known::Open && self.look(context).is_err() {
            self.honest_look(context);
        }
        if self.known[&value] == Known::Not {
            self.write(What::Append(value), Faults::default());
        }
    }

    /// The host tries all that it has, then shows what is.
    fn end(&mut self, context: &dyn Fn() -> String) {
        if let Some(store) = &self.store {
            store.settle();
        }
        for act in ACTS {
            self.act(Some(act));
            let _ = self.look(context);
        }
        self.honest_look(context);
        // Nobody is hindered, and nothing that failed is left.
        self.write(What::Append(99), Faults::default());
        assert_eq!(self.known[&99], Known::Written, "{}", context());
        let table = self.open().unwrap();
        clean::clean(&self.config_dir, &table).unwrap();
        let report = verify::verify(&self.open().unwrap(), true, |_| ()).unwrap();
        assert!(
            report.findings.is_empty() && report.extra.is_empty(),
            "{report:?}: {}",
            context()
        );
        self.honest_look(context);
    }
}

fn file(write: &TableWrite, value: i64) -> Result<FilePin, Error> {
    let writer = write.writer(WriteOptions::default())?;
    let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
    let batch = RecordBatch::try_new(Arc::clone(writer.schema()), vec![column])?;
    written(&writer, &[batch])
}

fn written(writer: &TableWriter, batches: &[RecordBatch]) -> Result<FilePin, Error> {
    let mut file = writer.file()?;
    for batch in batches {
        file.write(batch)?;
    }
    Ok(file.finish()?.pin)
}

fn values(table: &VerifiedManifest) -> Result<Vec<i64>, Error> {
    let mut rows = Vec::new();
    for pin in &table.manifest().files {
        for batch in FileReader::open(table, pin)? {
            rows.extend(batch?.column(0).as_primitive::<Int64Type>().values());
        }
    }
    Ok(rows)
}

const FATES: [Fate; 4] = [
    Fate::Fails,
    Fate::DoneButFails,
    Fate::DiesBefore,
    Fate::DiesAfter,
];

/// The steps of a write that nothing happens to.
fn steps_of(world: fn() -> World, what: What) -> usize {
    let steps = world().write(what, Faults::default());
    // Two stores of the register, a manifest, a file: it would be a defect of the test if it saw
    // less.
    assert!(steps > 18, "{steps}");
    steps
}
