//! Zones: path prefixes bound to a master, as HDFS has them. A table that is made under one takes its master, and
//! nothing plain is written there by `coffer decrypt` and by Spark.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;

use super::{PolicyError, file::check_name};

/// A zone of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    path: PathBuf,
    master: String,
}

impl Zone {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder, as the policy has it; relative to nothing.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The master of tables below the folder.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// Whether a path is the zone's folder or lies below it, whatever links lead there.
    pub fn holds(&self, path: &Path) -> bool {
        real(path).starts_with(real(&self.path))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenZone {
    path: PathBuf,
    master: String,
}

pub(super) fn zones(written: BTreeMap<String, WrittenZone>, folder: &Path) -> Result<Vec<Zone>, PolicyError> {
    let mut zones: Vec<Zone> = Vec::new();
    for (name, written) in written {
        check_name(&name)?;
        let path = folder.join(&written.path);
        if path.components().any(|part| part == Component::ParentDir) || path.parent().is_none() {
            return Err(PolicyError::ZonePath { zone: name, path });
        }
        if let Some(first) = zones.iter().find(|zone| zone.path == path) {
            return Err(PolicyError::ZoneTwice {
                first: first.name.clone(),
                second: name,
            });
        }
        let master = written.master;
        zones.push(Zone { name, path, master });
    }
    Ok(zones)
}

/// The innermost zone that holds a path.
pub(super) fn innermost<'a>(zones: &'a [Zone], path: &Path) -> Option<&'a Zone> {
    let path = real(path);
    zones
        .iter()
        .map(|zone| (real(&zone.path), zone))
        .filter(|(folder, _)| path.starts_with(folder))
        .max_by_key(|(folder, _)| folder.components().count())
        .map(|(_, zone)| zone)
}

/// Links that lead nowhere yet are followed so many times.
const LINKS: usize = 40;

/// Where a path leads, of which the last parts need not be there yet: links are followed, also those whose end is still to be made, and `..`
/// behind them goes up as it would once the folders are made.
fn real(path: &Path) -> PathBuf {
    let mut known = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut missing: Vec<OsString> = Vec::new();
    let mut links = 0;
    let mut found = loop {
        if let Ok(found) = std::fs::canonicalize(&known) {
            break found;
        }
        let parent = known.parent().map(Path::to_path_buf).unwrap_or_default();
        if let (true, Ok(end)) = (links < LINKS, std::fs::read_link(&known)) {
            links += 1;
            known = parent.join(end);
            continue;
        }
        match known.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name.to_os_string()),
            Some(Component::ParentDir) => missing.push("..".into()),
            _ => break known,
        }
        known = parent;
    };
    for name in missing.into_iter().rev() {
        if name == ".." {
            found.pop();
        } else {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn policy(text: &str, home: &Path) -> Result<Policy, PolicyError> {
        Policy::parse(text, &home.join("policy.toml"))
    }

    #[test]
    fn the_innermost_zone_counts_wherever_a_path_comes_from() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("data/pay/open")).unwrap();
        std::os::unix::fs::symlink(at("data/pay"), at("link")).unwrap();
        let text = "[zones]\nall = { path = \"data\", master = \"main\" }\n\
            pay = { path = \"data/pay\", master = \"payroll\" }\n\
            later = { path = \"later\", master = \"main\" }\n";
        let policy = policy(text, folder.path()).unwrap();
        let zone = |path: &str| policy.zone_of(&at(path)).map(|zone| zone.name().to_owned());
        assert_eq!(zone("data/t").as_deref(), Some("all"));
        assert_eq!(zone("data/pay").as_deref(), Some("pay"));
        assert_eq!(zone("data/pay/open/new/t").as_deref(), Some("pay"));
        assert_eq!(zone("link/t").as_deref(), Some("pay"));
        assert_eq!(zone("link/../other/t").as_deref(), Some("all"));
        assert_eq!(zone("data/pay/none/../../t").as_deref(), Some("all"));
        assert_eq!(zone("later/t").as_deref(), Some("later"));
        // A name that only begins alike is elsewhere.
        assert_eq!((zone("data2/t"), zone("elsewhere")), (None, None));
        // Links to what is not there yet, and to themselves.
        std::os::unix::fs::symlink("data/pay/soon", at("ahead")).unwrap();
        std::os::unix::fs::symlink(at("ahead/../made"), at("further")).unwrap();
        std::os::unix::fs::symlink("round", at("round")).unwrap();
        assert_eq!(zone("ahead").as_deref(), Some("pay"));
        assert_eq!(zone("ahead/t").as_deref(), Some("pay"));
        assert_eq!(zone("further/t").as_deref(), Some("pay"));
        assert_eq!(zone("round/t"), None);
        let names: Vec<&str> = policy.zones().iter().map(Zone::master).collect();
        assert_eq!(names, ["main", "main", "payroll"]);
    }

    #[test]
    fn what_makes_no_zone() {
        let here = Path::new("/home");
        let twice = "[zones]\na = { path = \"/x\", master = \"m\" }\nb = { path = \"/x\", master = \"m\" }";
        assert!(matches!(policy(twice, here), Err(PolicyError::ZoneTwice { .. })));
        for path in ["../x", "/x/../y", "/"] {
            let text = format!("[zones]\na = {{ path = \"{path}\", master = \"m\" }}");
            assert!(
                matches!(policy(&text, here), Err(PolicyError::ZonePath { .. })),
                "{path}"
            );
        }
        for text in [
            "[zones]\na = { path = \"/x\" }",
            "[zones]\na = { path = \"/x\", master = \"m\", plain = true }",
            "[zones]\na = \"m\"",
        ] {
            assert!(matches!(policy(text, here), Err(PolicyError::Syntax { .. })), "{text}");
        }
    }
}
