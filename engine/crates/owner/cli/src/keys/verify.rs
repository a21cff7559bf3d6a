//! `coffer keys verify`: for each table that its keys can be had today, by having them.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use coffer_catalog::{
    Error as TableError, MANIFEST_FOLDER, Register, TableRecord, Target, open_table, spelling,
};
use coffer_custody::{ConfigDir, KeyContext, Policy, Vault};
use serde_json::{Value, json};

use super::args::VerifyKeys;
use crate::{
    failure::{Exit, Failure},
    output, pieces,
    site::Site,
};

/// Folders below each other at most.
const DEPTH: usize = 32;

pub(super) fn run(site: &Site, args: &VerifyKeys) -> Result<(), Failure> {
    let (policy, vault) = site.open_config_dir()?;
    let config_dir = site.config_dir()?;
    let register = Register::of(&config_dir, vault.keyring());
    let mut tables = register.tables()?;
    let mut strangers = Vec::new();
    if let Some(path) = &args.path {
        let leads = fs::canonicalize(path).map_err(|error| Failure::io("read", path, error))?;
        let below = [spelling::normal(path)?, leads];
        let of = |table: &TableRecord| folders(&policy, table);
        // A table of which a path lies there is looked at, wherever links lead by now.
        tables.retain(|table| {
            of(table)
                .iter()
                .any(|folder| below.iter().any(|path| folder.starts_with(path)))
        });
        let known: HashSet<PathBuf> = tables.iter().flat_map(of).collect();
        let [_, leads] = below;
        strangers = sealed_below(&leads)?;
        strangers.retain(|folder| !known.contains(folder));
    }
    let looks = pieces::each(tables.len(), usize::from(args.threads), |at, _| {
        Ok(tables
            .get(at)
            .map(|table| look(&config_dir, &vault, &policy, table)))
    })?;
    let bad = looks.iter().filter(|look| look.error.is_some()).count();
    if args.json {
        let strangers = strangers.iter().map(|path| {
            json!({ "path": path, "ok": false, "error": "not in this config \
                directory's register" })
        });
        output::json(&json!({
            "ok": bad == 0 && strangers.len() == 0,
            "tables": looks.iter().map(Look::json).chain(strangers).collect::<Vec<_>>(),
        }));
    } else {
        for look in &looks {
            look.print();
        }
        for folder in &strangers {
            println!(
                "missing  {}: it is not in this config directory's register",
                folder.display()
            );
        }
    }
    let bad = bad.saturating_add(strangers.len());
    let all = looks.len().saturating_add(strangers.len());
    if bad == 0 {
        if !args.json {
            println!("every key of {all} tables can be had");
        }
        return Ok(());
    }
    Err(Failure::new(
        Exit::Check,
        format!("keys of {bad} of {all} tables cannot be had"),
    )
    .hint(
        "each line says why; what is missing today, a backup of keyring, register or \
                KMS may still have",
    ))
}

/// What was found of one table.
struct Look<'a> {
    table: &'a TableRecord,
    version: String,
    keks: usize,
    error: Option<(String, Option<String>)>,
}

impl Look<'_> {
    fn json(&self) -> Value {
        json!({
            "name": self.table.name, "id": self.table.id.to_string(), "path": self.table.path,
            "master": self.table.master, "master_version": self.version, "keys": self.keks,
            "ok": self.error.is_none(), "error": self.error.as_ref().map(|(error, _)| error),
        })
    }

    fn print(&self) {
        let (name, master) = (&self.table.name, &self.table.master);
        match &self.error {
            None => println!(
                "ok       {name}: {} keys, by {master} version {}",
                self.keks, self.version
            ),
            Some((error, hint)) => {
                println!("missing  {name}: {error}");
                if let Some(hint) = hint {
                    println!("         {hint}");
                }
            }
        }
    }
}

/// Unwraps the table's key, compares key checks, opens the manifest, and derives what its columns
/// need.
fn look<'a>(
    config_dir: &ConfigDir,
    vault: &Vault,
    policy: &Policy,
    table: &'a TableRecord,
) -> Look<'a> {
    let found = open_table(config_dir, vault, policy, &Target::Name(table.name.clone())).and_then(
        |opened| {
            let keks = opened.all_keks()?.len();
            let schemes = opened
                .manifest()
                .stored
                .iter()
                .filter(|stored| stored.encoding.is_clear())
                .count();
            // Derives the keys of schemes, those of links too.
            opened.codec()?;
            Ok(keks.saturating_add(schemes))
        },
    );
    let version = vault.version_of(&KeyContext::Table(table.id), &table.wrapped());
    let (keks, error) = match found {
        Ok(keks) => (keks, None),
        // It never had a version: there is nothing to open.
        Err(TableError::Unfinished(_)) => (0, None),
        Err(error) => (0, Some((error.to_string(), error.hint()))),
    };
    Look {
        table,
        version: version.unwrap_or_else(|_| "?".to_owned()),
        keks,
        error,
    }
}

/// Where a table is, by the policy if that says so: as it is written, and where that leads.
fn folders(policy: &Policy, table: &TableRecord) -> Vec<PathBuf> {
    let named = policy
        .table(&table.name)
        .ok()
        .and_then(|table| table.path());
    let written: Vec<&Path> = named.map_or_else(|| table.spellings().collect(), |path| vec![path]);
    let both = |path: &Path| {
        let normal = spelling::normal(path).unwrap_or_else(|_| path.to_path_buf());
        let leads = fs::canonicalize(&normal).ok();
        std::iter::once(normal).chain(leads).collect::<Vec<_>>()
    };
    written.into_iter().flat_map(both).collect()
}

/// Folders with a manifest at a path and below it; links are not followed.
fn sealed_below(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![(path.to_path_buf(), 0_usize)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| Failure::io("read", &folder, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| Failure::io("read", &folder, error))?;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name() == MANIFEST_FOLDER {
                found.push(folder.clone());
            } else if depth < DEPTH {
                folders.push((entry.path(), depth.saturating_add(1)));
            }
        }
    }
    found.sort();
    Ok(found)
}
