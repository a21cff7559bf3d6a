use std::{fs, ops::Range, os::unix::fs::symlink};

use bytes::Bytes;
use coffer_protocol::storage::Entry;

use super::*;

#[test]
fn nothing_below_is_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("theirs"), b"theirs").unwrap();
    let own = tempfile::tempdir().unwrap();
    let folder = Folder::<Direct>::open(own.path()).unwrap();
    symlink(outside.path(), own.path().join("inner")).unwrap();
    symlink(outside.path().join("theirs"), own.path().join("link")).unwrap();
    let at = |path: &str| PathBuf::from(path);
    assert!(folder.create(&at("inner/new")).is_err());
    assert!(folder.make_folders(&at("inner/deep")).is_err());
    assert!(folder.make_folders(&at("inner")).is_err());
    assert!(folder.put_if_absent(&at("inner/new"), b"x", 10).is_err());
    assert!(folder.read(&at("inner/theirs"), 10).is_err());
    assert!(folder.read(&at("link"), 10).is_err());
    assert_eq!(folder.length(&at("link")).unwrap(), None);
    assert_eq!(folder.length(&at("inner/theirs")).unwrap(), None);
    folder.remove(&at("inner/theirs")).unwrap();
    folder.remove_folder(&at("inner"));
    assert_eq!(folder.walk().unwrap(), [at("inner"), at("link")]);
    folder.remove(&at("link")).unwrap();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read(outside.path().join("theirs")).unwrap(), b"theirs");
    for outside in ["../x", "/x", "a/../../x", ""] {
        assert!(folder.create(&at(outside)).is_err(), "{outside}");
    }
}

/// Each folder holds two more, and none a file.
#[derive(Debug, Default)]
struct EmptyFolders(std::sync::atomic::AtomicUsize);

#[async_trait::async_trait]
impl Storage for EmptyFolders {
    async fn list(&self, _: &str) -> io::Result<Vec<Entry>> {
        let asked = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(asked < 10_000, "asked for ever");
        let folder = |name: &str| Entry {
            name: name.to_owned(),
            folder: true,
        };
        Ok(vec![folder("a"), folder("b")])
    }
    async fn size(&self, _: &str) -> io::Result<Option<u64>> {
        Ok(None)
    }
    async fn ranges(&self, _: &str, _: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    async fn put(&self, _: &str, _: u64, _: Bytes, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    async fn put_if_absent(&self, _: &str, _: Bytes) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
    async fn delete(&self, _: &str, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_tree_of_empty_folders_has_an_end() {
    let storage: Arc<dyn Storage> = Arc::new(EmptyFolders::default());
    let folder = Folder::<Direct>::at(Path::new("s3a://b/t"), Some(&storage)).unwrap();
    for (entries, bytes) in [(1000, usize::MAX), (usize::MAX, 10_000)] {
        let refused = folder.walk_within(entries, bytes).unwrap_err();
        assert!(
            matches!(&refused, Error::Io { source, .. }
                if source.kind() == io::ErrorKind::InvalidData),
            "{refused}"
        );
    }
}

#[test]
fn it_stays_the_folder_that_it_was() {
    let parent = tempfile::tempdir().unwrap();
    let (here, there) = (parent.path().join("here"), parent.path().join("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    let folder = Folder::<Direct>::open(&here).unwrap();
    fs::rename(&here, parent.path().join("moved")).unwrap();
    symlink(&there, &here).unwrap();
    assert_eq!(
        folder.put_if_absent(Path::new("file"), b"x", 10).unwrap(),
        Put::Done
    );
    assert_eq!(
        folder.put_if_absent(Path::new("file"), b"y", 10).unwrap(),
        Put::Taken(Some(Digest::of(b"x")))
    );
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    assert_eq!(
        fs::read_dir(parent.path().join("moved")).unwrap().count(),
        1
    );
    let moved = std::fs::canonicalize(parent.path()).unwrap().join("moved");
    assert_eq!(
        (folder.path(), folder.real().unwrap()),
        (here.as_path(), moved)
    );
    folder.make_folders(Path::new("a/b")).unwrap();
    folder.make_folders(Path::new("a/b")).unwrap();
    folder.create(Path::new("a/b/c")).unwrap();
    assert_eq!(folder.length(Path::new("a/b/c")).unwrap(), Some(0));
    assert_eq!(
        folder.walk().unwrap(),
        [PathBuf::from("a/b/c"), PathBuf::from("file")]
    );
}
