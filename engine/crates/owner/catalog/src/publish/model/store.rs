//! A table at a URL: a store over the host's folder, so that the host of the other runs is this
//! one's too. It may list what was there a question ago, and bring to pass later what it said had
//! failed.

use std::{ffi::OsStr, io, ops::Range, sync::Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use coffer_protocol::storage::Entry;

use super::*;

/// Below which its files lie.
pub(super) const URL: &str = "s3a://bucket";

/// A store that answers late and with old listings when it is told to.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parts: BTreeMap<PathBuf, Vec<u8>>,
    /// Questions until now.
    asked: usize,
    /// The put after so many others is said to have failed, and comes to pass so many questions
    /// later.
    late: Option<(usize, usize)>,
    coming: Vec<(usize, PathBuf, Vec<u8>)>,
    stale: bool,
    listed: BTreeMap<PathBuf, Vec<Entry>>,
}

impl State {
    /// What is due is there now, unless there is something of that name.
    fn arrive(&mut self) {
        self.asked += 1;
        let now = self.asked;
        let due = |coming: &mut (usize, PathBuf, Vec<u8>)| coming.0 <= now;
        for (_, path, bytes) in self.coming.extract_if(.., due) {
            let _ = put(&path, &bytes);
        }
    }

    /// Whether this put is the late one.
    fn is_late(&mut self, path: &Path, bytes: &[u8]) -> bool {
        match &mut self.late {
            Some((0, later)) => {
                let when = self.asked + *later;
                self.coming.push((when, path.to_owned(), bytes.to_vec()));
                self.late = None;
                true
            }
            Some((others, _)) => {
                *others -= 1;
                false
            }
            None => false,
        }
    }
}

impl Store {
    /// Over this folder.
    pub(super) fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            state: Mutex::default(),
        }
    }

    /// What it does from now on; see [`State`].
    pub(super) fn is(&self, late: Option<(usize, usize)>, stale: bool) {
        let mut state = self.state.lock().unwrap();
        (state.late, state.stale) = (late, stale);
    }

    /// All has come, and all is listed.
    pub(super) fn settle(&self) {
        let mut state = self.state.lock().unwrap();
        (state.late, state.stale) = (None, false);
        state.coming.iter_mut().for_each(|coming| coming.0 = 0);
        state.arrive();
    }

    fn at(&self, url: &str) -> PathBuf {
        let name = url.strip_prefix(URL).unwrap();
        self.folder.join(name.trim_start_matches('/'))
    }
}

/// Whether there was nothing of that name.
fn put(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    use std::io::Write;
    fs::create_dir_all(path.parent().unwrap())?;
    match fs::File::create_new(path) {
        Ok(mut file) => file.write_all(bytes).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[async_trait]
impl Storage for Store {
    async fn size(&self, path: &str) -> io::Result<Option<u64>> {
        self.state.lock().unwrap().arrive();
        match fs::metadata(self.at(path)) {
            Ok(found) if found.is_file() => Ok(Some(found.len())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn ranges(&self, path: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        self.state.lock().unwrap().arrive();
        let file = fs::read(self.at(path))?;
        let cut = |range: &Range<u64>| {
            let found = file.get(range.start as usize..range.end as usize);
            let found = found.ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok(Bytes::copy_from_slice(found))
        };
        ranges.iter().map(cut).collect()
    }

    async fn put(&self, path: &str, offset: u64, bytes: Bytes, last: bool) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.arrive();
        let path = self.at(path);
        let part = state.parts.entry(path.clone()).or_default();
        assert_eq!(part.len() as u64, offset);
        part.extend_from_slice(&bytes);
        if last {
            let whole = state.parts.remove(&path).unwrap();
            if state.is_late(&path, &whole) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            assert!(put(&path, &whole)?, "files are written once");
        }
        Ok(())
    }

    async fn put_if_absent(&self, path: &str, bytes: Bytes) -> io::Result<bool> {
        let mut state = self.state.lock().unwrap();
        state.arrive();
        let path = self.at(path);
        if state.is_late(&path, &bytes) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        put(&path, &bytes)
    }

    async fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut state = self.state.lock().unwrap();
        state.arrive();
        let folder = self.at(folder);
        let mut now = Vec::new();
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap().to_owned();
            now.push(Entry {
                name,
                folder: entry.file_type()?.is_dir(),
            });
        }
        now.sort_by(|a, b| a.name.cmp(&b.name));
        let before = state.listed.insert(folder, now.clone());
        Ok(before.filter(|_| state.stale).unwrap_or(now))
    }

    async fn delete(&self, path: &str, folder: bool) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.arrive();
        let path = self.at(path);
        state.parts.remove(&path);
        let removed = match folder {
            // Folders are in names alone.
            true => Ok(()),
            false => fs::remove_file(path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Each put of a write is said to have failed and comes later, sooner or later, while old listings
/// are shown; the writer tries again.
#[test]
fn each_put_comes_late() {
    let mut come = 0;
    for put in 0..3 {
        for later in [0, 1, 3, 8, 20, 1000] {
            for stale in [false, true] {
                for looks in [false, true] {
                    let context = || format!("put {put}, {later} later, stale {stale}, {looks}");
                    let mut world = World::at_url();
                    let store = Arc::clone(world.store.as_ref().unwrap());
                    store.is(Some((put, later)), stale);
                    world.write(What::Append(1), Faults::default());
                    come += usize::from(world.known[&1] != Known::Written);
                    if looks {
                        let _ = world.look(&context);
                    }
                    world.retry(1, &context);
                    assert_eq!(world.known[&1], Known::Written, "{}", context());
                    world.end(&context);
                }
            }
        }
    }
    // A file and a manifest; there is no third put.
    assert_eq!(come, 2 * 6 * 2 * 2);
}

/// Another program writes while a put is late, whose bytes then come to the name of a version that
/// counts.
#[test]
fn a_late_manifest_comes_after_anothers() {
    for later in 0..40 {
        let context = || format!("{later} later");
        let mut world = World::at_url();
        let store = Arc::clone(world.store.as_ref().unwrap());
        store.is(Some((1, later)), true);
        world.write(What::Append(1), Faults::default());
        world.write(What::Append(2), Faults::default());
        let _ = world.look(&context);
        world.end(&context);
    }
}

/// A manifest's name is what the store is asked for, as it is.
#[test]
fn names_are_those_of_the_folder() {
    let world = World::at_url();
    let host = world.host.borrow();
    let first = host.position(1);
    assert!(first.is_file());
    assert_eq!(first.file_name().unwrap(), OsStr::new(&manifest_name(1)));
    assert!(world.open().unwrap().folder().starts_with(URL));
}
