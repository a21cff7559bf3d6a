//! Paths as names: how a path that somebody wrote is compared with those that were recorded.
//!
//! Nothing here looks at storage. A link there moves bytes; if it also moved names, whoever holds
//! the storage could say which table a path means.

use std::path::{Component, Path, PathBuf};

use coffer_custody::location::{self, Location};
use coffer_protocol::storage::url;

use crate::Error;

/// A path as it is written, absolute and without `.`, `..` and repeated slashes. `..` takes the
/// name before it away, as in a URL and in Spark, whatever a link of that name would lead to.
///
/// Of a URL the name by which its place is known ([`location`]).
pub fn normal(path: &Path) -> Result<PathBuf, Error> {
    if let Some(text) = url(path)
        && let Ok(Location::Remote(url)) = location::of(text)
    {
        return Ok(url.into());
    }
    let absolute = std::path::absolute(path).map_err(Error::io("name", path))?;
    let mut normal = PathBuf::from("/");
    for part in absolute.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            // Above the root there is the root.
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(normal)
}

/// The path in a text: a path, or a `file:` URL as Spark writes it. Nothing in it is an escape:
/// Spark's paths have none either.
pub(crate) fn of_text(text: &str) -> &str {
    let rest = text.strip_prefix("file:").unwrap_or(text);
    // `file://host/path` is no path of this machine.
    match rest.strip_prefix("//") {
        Some(path) if rest.len() < text.len() && path.starts_with('/') => path,
        Some(_) if rest.len() < text.len() => text,
        _ => rest,
    }
}

/// What an owner's command records of a folder: how it was written, how the shell calls it where
/// the working folder was reached by a link, and where it leads now.
pub(crate) fn of_owner(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut all = vec![normal(path)?];
    if url(path).is_some() {
        return Ok(all);
    }
    if path.is_relative()
        && let Some(folder) = working_folder()
    {
        all.push(normal(&folder.join(path))?);
    }
    let written = all.first().cloned().unwrap_or_default();
    all.push(std::fs::canonicalize(&written).map_err(Error::io("open", path))?);
    let mut seen = Vec::new();
    all.retain(|path| {
        let new = !seen.contains(path);
        seen.push(path.clone());
        new
    });
    Ok(all)
}

/// The working folder by the shell's name for it, if that is it.
fn working_folder() -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let named = PathBuf::from(std::env::var_os("PWD")?);
    let identity = |path: &Path| {
        std::fs::metadata(path)
            .ok()
            .map(|found| (found.dev(), found.ino()))
    };
    let same = named.is_absolute() && identity(&named)? == identity(Path::new("."))?;
    same.then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path() {
        let here = std::env::current_dir().unwrap();
        for (written, want) in [
            ("/data/t", "/data/t"),
            ("/data/t/", "/data/t"),
            ("/data/t//", "/data/t"),
            ("//data/t", "/data/t"),
            ("///data///t", "/data/t"),
            ("/data/./t", "/data/t"),
            ("/data/t/.", "/data/t"),
            ("/data/x/../t", "/data/t"),
            ("/data/t/x/..", "/data/t"),
            ("/data/x/y/../../t", "/data/t"),
            ("/../data/t", "/data/t"),
            ("/../../data/t", "/data/t"),
            ("file:/data/t", "/data/t"),
            ("file:///data/t", "/data/t"),
            ("file:////data/t", "/data/t"),
            ("file:///data/x/../t/", "/data/t"),
            // Others, however alike.
            ("/data/T", "/data/T"),
            ("/data/t ", "/data/t "),
            ("/data/%74", "/data/%74"),
            ("/data/a%20b", "/data/a%20b"),
            ("/data/a b", "/data/a b"),
            ("/data/t\\", "/data/t\\"),
            ("/data/...", "/data/..."),
            ("/data/tt/../t2", "/data/t2"),
            ("/data/e\u{301}", "/data/e\u{301}"),
            ("/data/\u{e9}", "/data/\u{e9}"),
            ("/", "/"),
            ("/..", "/"),
        ] {
            assert_eq!(
                normal(Path::new(of_text(written))).unwrap(),
                Path::new(want),
                "{written}"
            );
        }
        for (written, want) in [
            ("t", "t"),
            ("./t", "t"),
            ("a/../t", "t"),
            ("file:t", "t"),
            ("t/.", "t"),
        ] {
            assert_eq!(
                normal(Path::new(of_text(written))).unwrap(),
                here.join(want),
                "{written}"
            );
        }
        assert_eq!(normal(Path::new("..")).unwrap(), here.parent().unwrap());
        assert!(normal(Path::new("")).is_err());
        // No path of this machine: as it stands, which nothing is recorded under.
        assert_eq!(of_text("file://host/data/t"), "file://host/data/t");
        assert_eq!(of_text("FILE:/data/t"), "FILE:/data/t");
    }

    #[test]
    fn an_owner_records_where_a_path_leads() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir_all(root.join("disk/data/t")).unwrap();
        std::os::unix::fs::symlink(root.join("disk/data"), root.join("data")).unwrap();
        assert_eq!(
            of_owner(&root.join("data/./t/")).unwrap(),
            [root.join("data/t"), root.join("disk/data/t")]
        );
        assert_eq!(
            of_owner(&root.join("disk/data/t")).unwrap(),
            [root.join("disk/data/t")]
        );
        // `..` behind a link is the link's parent, not that of what it leads to.
        assert_eq!(
            of_owner(&root.join("data/../disk")).unwrap(),
            [root.join("disk")]
        );
        assert!(of_owner(&root.join("none")).is_err());
    }
}
