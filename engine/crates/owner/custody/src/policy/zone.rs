//! Zones: path prefixes bound to a master, as HDFS has them. A table that is made under one takes
//! its master, and nothing plain is written there by `coffer decrypt` and by Spark.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
};

use coffer_protocol::storage::url;
use serde::Deserialize;

use crate::policy::{
    PolicyError,
    file::{at, check_name},
};

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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenZone {
    path: PathBuf,
    master: String,
}

pub(super) fn zones(
    written: BTreeMap<String, WrittenZone>,
    folder: &Path,
) -> Result<Vec<Zone>, PolicyError> {
    let mut zones: Vec<Zone> = Vec::new();
    for (name, written) in written {
        check_name(&name)?;
        let path = at(&format!("zone {name:?}"), &written.path, folder)?;
        if climbs(&path) || path.parent().is_none() {
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

/// Whether a path has a `..`.
pub(super) fn climbs(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// The zones with their folders, as they are written and as they lead now: found once, for all
/// paths that are asked about.
///
/// Both bind. By the written path a zone stays one whatever a host makes of the links on it; by
/// where it leads, a link elsewhere is no way into it.
pub(super) struct Found<'a>(Vec<([PathBuf; 2], &'a Zone)>);

impl<'a> Found<'a> {
    pub(super) fn of(zones: &'a [Zone]) -> Result<Self, PolicyError> {
        let folders = zones
            .iter()
            .map(|zone| Ok(([real(&zone.path)?, written(&zone.path)?], zone)));
        folders.collect::<Result<_, _>>().map(Self)
    }

    /// The innermost zone that holds a path. Errors where the path as it is written and where it
    /// leads are in zones of two masters.
    pub(super) fn innermost(&self, path: &Path) -> Result<Option<&'a Zone>, PolicyError> {
        let zones = self.all(path)?;
        let first = zones.first().copied();
        match zones
            .iter()
            .find(|zone| first.is_some_and(|first| first.master != zone.master))
        {
            Some(other) => Err(PolicyError::ZonesDiffer {
                path: path.to_path_buf(),
                zones: [
                    first.map(|zone| zone.name.clone()).unwrap_or_default(),
                    other.name.clone(),
                ],
            }),
            None => Ok(first),
        }
    }

    /// The innermost zones that hold a path: by where it leads, and as it is written.
    pub(super) fn all(&self, path: &Path) -> Result<Vec<&'a Zone>, PolicyError> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let written = written(path)?;
        // Where `..` follows a link, storage goes up from where that leads, and a table's path from
        // the link.
        let spellings = [real(path)?, real(&written)?, written];
        let mut zones: Vec<&Zone> = Vec::new();
        for zone in spellings
            .iter()
            .filter_map(|spelling| self.of_spelling(spelling))
        {
            if !zones.contains(&zone) {
                zones.push(zone);
            }
        }
        Ok(zones)
    }

    fn of_spelling(&self, path: &Path) -> Option<&'a Zone> {
        let depth = |folders: &[PathBuf; 2]| {
            let holding = folders.iter().filter(|folder| path.starts_with(folder));
            holding.map(|folder| folder.components().count()).max()
        };
        let holding = self
            .0
            .iter()
            .filter_map(|(folders, zone)| Some((depth(folders)?, *zone)));
        holding
            .max_by_key(|(depth, _)| *depth)
            .map(|(_, zone)| zone)
    }
}

/// Absolute, and without `.` and `..`: as tables' paths are compared.
fn written(path: &Path) -> Result<PathBuf, PolicyError> {
    if url(path).is_some() {
        return Ok(path.to_path_buf());
    }
    let absolute = std::path::absolute(path).map_err(|source| PolicyError::PathUnknown {
        path: path.to_path_buf(),
        source,
    })?;
    let mut written = PathBuf::from("/");
    for part in absolute.components() {
        match part {
            Component::Normal(name) => written.push(name),
            Component::ParentDir => drop(written.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(written)
}

/// Links that lead nowhere yet are followed so many times.
const LINKS: usize = 40;

/// Where a path leads, of which the last parts need not be there yet: links are followed, also
/// those whose end is still to be made, and `..` behind them goes up as it would once the folders
/// are made. Errors where that cannot be said: behind a folder that this process may not look into
/// another may find a link, and where that leads nobody here knows.
///
/// A URL leads nowhere else.
pub(super) fn real(path: &Path) -> Result<PathBuf, PolicyError> {
    if url(path).is_some() {
        return Ok(path.to_path_buf());
    }
    let unknown = |source| PolicyError::PathUnknown {
        path: path.to_path_buf(),
        source,
    };
    let mut known = std::path::absolute(path).map_err(unknown)?;
    let mut missing: Vec<OsString> = Vec::new();
    let mut links = 0;
    let mut found = loop {
        // Without a slash at the end, which would hide a link that leads nowhere yet.
        known = known.components().collect();
        if let Some(found) = if_there(std::fs::canonicalize(&known)).map_err(unknown)? {
            break found;
        }
        let parent = known.parent().map(Path::to_path_buf).unwrap_or_default();
        if let Some(end) = if_there(std::fs::read_link(&known)).map_err(unknown)? {
            links += 1;
            if links > LINKS {
                return Err(unknown(io::Error::other(
                    "too many links that lead nowhere",
                )));
            }
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
    Ok(found)
}

/// Nothing where a path, or a folder on its way, is not there; what else fails leaves open whether
/// it is.
fn if_there(found: io::Result<PathBuf>) -> io::Result<Option<PathBuf>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::policy::Draft;

    fn policy(text: &str, config_dir: &Path) -> Result<Draft, PolicyError> {
        Draft::parse(text, &config_dir.join("policy.toml"))
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
        let zone = |path: &str| {
            policy
                .zone_of(&at(path))
                .unwrap()
                .map(|zone| zone.name().to_owned())
        };
        assert_eq!(zone("data/t").as_deref(), Some("all"));
        assert_eq!(zone("data/pay").as_deref(), Some("pay"));
        assert_eq!(zone("data/pay/open/new/t").as_deref(), Some("pay"));
        assert_eq!(zone("link/t").as_deref(), Some("pay"));
        assert_eq!(zone("link/../other/t").as_deref(), Some("all"));
        assert_eq!(zone("data/pay/none/../../t").as_deref(), Some("all"));
        assert_eq!(zone("later/t").as_deref(), Some("later"));
        // A name that only begins alike is elsewhere.
        assert_eq!((zone("data2/t"), zone("elsewhere")), (None, None));
        // Links to what is not there yet.
        std::os::unix::fs::symlink("data/pay/soon", at("ahead")).unwrap();
        std::os::unix::fs::symlink(at("ahead/../made"), at("further")).unwrap();
        assert_eq!(zone("ahead").as_deref(), Some("pay"));
        assert_eq!(zone("ahead/t").as_deref(), Some("pay"));
        assert_eq!(zone("further/t").as_deref(), Some("pay"));
        std::os::unix::fs::symlink("data/pay/soon/", at("onward")).unwrap();
        for path in ["ahead/", "ahead/.", "onward", "onward//"] {
            assert_eq!(zone(path).as_deref(), Some("pay"), "{path}");
        }
        // Through a file nothing is there.
        std::fs::write(at("data/file"), "").unwrap();
        assert_eq!(zone("data/file/t").as_deref(), Some("all"));
        let names: Vec<&str> = policy.zones().iter().map(Zone::master).collect();
        assert_eq!(names, ["main", "main", "payroll"]);
    }

    #[test]
    fn the_written_and_the_resolved_path_bind() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let at = |path: &str| root.join(path);
        for path in ["data/pay", "data/open", "disk/pay", "elsewhere/inner"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        let link = |from: &str, to: &str| std::os::unix::fs::symlink(at(to), at(from)).unwrap();
        link("data/out", "elsewhere");
        link("elsewhere/in", "data/pay");
        link("linked", "disk/pay");
        link("data/open/up", "elsewhere/inner");
        let text = "[zones]\nall = { path = \"data\", master = \"main\" }\n\
            pay = { path = \"data/pay\", master = \"payroll\" }\n\
            linked = { path = \"linked\", master = \"payroll\" }\n";
        let policy = policy(text, &root).unwrap();
        let zone = |path: &str| match policy.zone_of(&at(path)) {
            Ok(zone) => zone.map_or("", |zone| match zone.name() {
                "all" => "all",
                "pay" => "pay",
                _ => "linked",
            }),
            Err(error) => error.code(),
        };
        let plain = |path: &str| {
            policy
                .check_plain([at(path).as_path()])
                .err()
                .map_or("", |error| error.code())
        };
        for (path, want) in [
            // A link out of a zone leads nowhere out of it, and one into it is in it.
            ("data/out/t", "all"),
            ("data/out", "all"),
            ("elsewhere/in/t", "pay"),
            ("elsewhere/t", ""),
            // A zone by its link, and by where that led.
            ("linked/t", "linked"),
            ("disk/pay/t", "linked"),
            // As written in one, by links in another: neither decides.
            ("data/out/in/t", "zones_differ"),
            // Up from the link, and up from where it leads: `data/open/t` and `elsewhere/t`.
            ("data/open/up/../t", "all"),
            ("data/pay/../open/t", "all"),
            ("elsewhere/in/../t", "all"),
        ] {
            assert_eq!(zone(path), want, "{path}");
            let refused = if want.is_empty() { "" } else { "plain_in_zone" };
            assert_eq!(plain(path), refused, "{path}");
        }
        // The host puts another folder in a link's place.
        std::fs::remove_file(at("linked")).unwrap();
        link("linked", "elsewhere");
        assert_eq!(
            (zone("linked/t"), zone("elsewhere/t")),
            ("linked", "linked")
        );
    }

    #[test]
    fn where_it_cannot_be_said_nothing_plain_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("zone")).unwrap();
        std::fs::create_dir_all(at("closed/inner")).unwrap();
        std::os::unix::fs::symlink("round", at("round")).unwrap();
        std::os::unix::fs::symlink(at("zone"), at("closed/inner/link")).unwrap();
        let with = |zone: &str| {
            let text = format!("[zones]\nz = {{ path = \"{zone}\", master = \"main\" }}\n");
            policy(&text, folder.path()).unwrap()
        };
        let code = |zone: &str, path: &str| {
            let path = at(path);
            let checked = with(zone).check_plain([path.as_path()]);
            checked.err().map_or("", |error| {
                assert!(error.hint().is_some());
                error.code()
            })
        };
        assert_eq!(
            (code("zone", "t"), code("zone", "zone/t")),
            ("", "plain_in_zone")
        );
        // A link that leads in a circle, on the path or as the zone; a name that no file has.
        assert_eq!(code("zone", "round/t"), "path_unknown");
        assert_eq!(code("round", "t"), "path_unknown");
        let long = "x".repeat(300);
        assert_eq!(code("zone", &long), "path_unknown");
        assert!(with("zone").zone_of(&at("round")).is_err());
        // A folder that this process may not look into; the superuser looks into every one.
        let mode = |mode| {
            std::fs::set_permissions(at("closed"), std::fs::Permissions::from_mode(mode)).unwrap()
        };
        mode(0o000);
        let closed = std::fs::read_dir(at("closed")).is_err();
        let answer = code("zone", "closed/inner/link/t");
        mode(0o755);
        assert_eq!(
            answer,
            if closed {
                "path_unknown"
            } else {
                "plain_in_zone"
            }
        );
        // Without zones nobody asks.
        assert!(
            policy("", folder.path())
                .unwrap()
                .check_plain([at("round/t").as_path()])
                .is_ok()
        );
    }

    #[test]
    fn what_makes_no_zone() {
        let here = Path::new("/home");
        let twice =
            "[zones]\na = { path = \"/x\", master = \"m\" }\nb = { path = \"/x\", master = \"m\" }";
        assert!(matches!(
            policy(twice, here),
            Err(PolicyError::ZoneTwice { .. })
        ));
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
            assert!(
                matches!(policy(text, here), Err(PolicyError::Syntax { .. })),
                "{text}"
            );
        }
    }
}
