//! `coffer policy compare`: what a policy that pins one release accepts, and one that pins another
//! does not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use coffer_custody::{File, Release};
use coffer_sealing::sha256;
use serde::Serialize;
use serde_json::json;

use crate::{
    args::PolicyCompare,
    failure::{Exit, Failure},
    output,
};

/// One thing that two releases say differently; none where one says nothing.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Change {
    /// Of which part of `release.json`.
    part: &'static str,
    name: String,
    old: Option<String>,
    new: Option<String>,
}

pub(super) fn run(args: &PolicyCompare) -> Result<(), Failure> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let changes = changes(&old.release, &new.release);
    if args.json {
        output::json(&json!({
            "old": old.sha256,
            "new": new.sha256,
            "changes": changes,
        }));
        return Ok(());
    }
    println!("old  {} has SHA-256 {}", old.path.display(), old.sha256);
    println!("new  {} has SHA-256 {}", new.path.display(), new.sha256);
    if changes.is_empty() {
        println!("Both say the same.");
    }
    let mut part = "";
    for change in &changes {
        if change.part != part {
            part = change.part;
            println!("{part}");
        }
        println!("  {}", change.name);
        for (sign, value) in [("-", &change.old), ("+", &change.new)] {
            if let Some(value) = value {
                println!("    {sign} {value}");
            }
        }
    }
    if !changes.iter().any(|change| change.part == MEASUREMENTS) {
        println!("A policy that pins either accepts the same engines in a TEE.");
    }
    Ok(())
}

const MEASUREMENTS: &str = "measurements";

struct Read {
    path: PathBuf,
    sha256: String,
    release: Release,
}

/// A release by its `release.json`, or by the folder that it lies in.
fn read(named: &Path) -> Result<Read, Failure> {
    let path = match named.is_dir() {
        true => named.join("release.json"),
        false => named.to_path_buf(),
    };
    let bytes = fs::read(&path).map_err(|error| Failure::io("read", &path, error))?;
    let release = Release::parse(&bytes)
        .map_err(|error| Failure::new(Exit::Check, format!("{}: {error}", path.display())))?;
    Ok(Read {
        sha256: hex::encode(sha256(&bytes)),
        path,
        release,
    })
}

/// In the order in which somebody reads them who has to accept the new one.
fn changes(old: &Release, new: &Release) -> Vec<Change> {
    let said = |release: &Release| -> [(&'static str, BTreeMap<String, String>); 5] {
        let files = |of: &BTreeMap<String, File>| {
            let text = |file: &File| format!("{} bytes, SHA-256 {}", file.size, file.sha256);
            of.iter()
                .map(|(name, file)| (name.clone(), text(file)))
                .collect()
        };
        let source = [
            ("version", &release.version),
            ("commit", &release.source.commit),
            ("tree", &release.source.tree),
        ];
        let measured = release.measurements.iter().flat_map(|(kind, values)| {
            let named =
                move |(name, value): (&String, &String)| (format!("{kind}.{name}"), value.clone());
            values.iter().map(named)
        });
        [
            (MEASUREMENTS, measured.collect()),
            (
                "source",
                source
                    .map(|(name, value)| (name.to_owned(), value.clone()))
                    .into(),
            ),
            ("toolchain", release.toolchain.clone()),
            ("programs", files(&release.programs)),
            ("files", files(&release.files)),
        ]
    };
    let mut changes = Vec::new();
    for ((part, before), (_, after)) in said(old).into_iter().zip(said(new)) {
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let (old, new) = (before.get(name).cloned(), after.get(name).cloned());
            if old != new {
                changes.push(Change {
                    part,
                    name: name.clone(),
                    old,
                    new,
                });
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        Release::parse(text.as_bytes()).unwrap()
    }

    const OLD: &str = r#"{"format": 1, "version": "0.1.0",
        "source": {"commit": "aa", "tree": "bb"}, "toolchain": {"rustc": "1.94"},
        "files": {"one.whl": {"size": 1, "sha256": "00"}, "gone": {"size": 2, "sha256": "01"}},
        "programs": {"coffer-engine": {"size": 3, "sha256": "02"}},
        "measurements": {"sev-snp": {"measurement": "03"}}}"#;

    #[test]
    fn equal_ones_have_no_changes() {
        assert_eq!(changes(&release(OLD), &release(OLD)), []);
    }

    #[test]
    fn each_part_is_compared_and_measurements_come_first() {
        let new = OLD
            .replace("0.1.0", "0.2.0")
            .replace("\"1.94\"", "\"1.95\"")
            .replace("gone", "new")
            .replace("\"02\"", "\"12\"")
            .replace(
                r#"{"measurement": "03"}"#,
                r#"{"measurement": "13"}, "tdx": {"mrtd": "14"}"#,
            );
        let found: Vec<_> = changes(&release(OLD), &release(&new))
            .into_iter()
            .map(|change| {
                (
                    change.part,
                    change.name,
                    change.old.is_some(),
                    change.new.is_some(),
                )
            })
            .collect();
        let of = |part, name: &str, old, new| (part, name.to_owned(), old, new);
        assert_eq!(
            found,
            [
                of("measurements", "sev-snp.measurement", true, true),
                of("measurements", "tdx.mrtd", false, true),
                of("source", "version", true, true),
                of("toolchain", "rustc", true, true),
                of("programs", "coffer-engine", true, true),
                of("files", "gone", true, false),
                of("files", "new", false, true),
            ]
        );
    }
}
