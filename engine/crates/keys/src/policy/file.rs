//! From TOML to a [`Policy`].

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Policy, PolicyError, Protection, TablePolicy};
use crate::{evidence::EvidenceKind, keyring::FIRST_MASTER};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Document {
    unverified_inputs: Vec<PathBuf>,
    defaults: Defaults,
    attestation: Attestation,
    driver: Driver,
    tables: BTreeMap<String, Table>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Defaults {
    protection: Option<OneOrMore>,
    master: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Attestation {
    accept: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Driver {
    trust_cluster_deploy_mode: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Table {
    id: Option<String>,
    path: Option<PathBuf>,
    master: Option<String>,
    columns: BTreeMap<String, OneOrMore>,
}

/// `"tee"`, or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

pub(super) fn parse(text: &str, origin: &Path) -> Result<Policy, PolicyError> {
    let document: Document = toml::from_str(text).map_err(|error| PolicyError::Syntax {
        path: origin.to_path_buf(),
        reason: error.to_string(),
    })?;
    let folder = origin.parent().unwrap_or(Path::new(""));
    let protection = match &document.defaults.protection {
        Some(written) => protection("[defaults]", written, Protection::is_supported)?,
        None => Protection::Tee,
    };
    let master = document.defaults.master.unwrap_or_else(|| FIRST_MASTER.to_string());
    let tables = document
        .tables
        .into_iter()
        .map(|(name, written)| Ok((name.clone(), table(name, written, folder, protection, &master)?)))
        .collect::<Result<BTreeMap<_, _>, PolicyError>>()?;
    refuse_twice(&tables)?;
    Ok(Policy {
        tables,
        protection,
        master,
        evidence: evidence(&document.attestation.accept)?,
        trust_cluster_deploy_mode: document.driver.trust_cluster_deploy_mode,
        unverified_inputs: document
            .unverified_inputs
            .iter()
            .map(|path| folder.join(path))
            .collect(),
    })
}

fn table(
    name: String,
    written: Table,
    folder: &Path,
    default: Protection,
    master: &str,
) -> Result<TablePolicy, PolicyError> {
    check_name(&name)?;
    let id = match written.id {
        None => None,
        Some(id) => Some(id.parse().map_err(|_| PolicyError::BadId {
            table: name.clone(),
            id,
        })?),
    };
    let columns = written
        .columns
        .iter()
        .map(|(column, written)| {
            Ok((
                column.clone(),
                // Whether it is a partition column, the data will say.
                protection(
                    &format!("table {name:?}, column {column:?}"),
                    written,
                    Protection::is_for_partitions,
                )?,
            ))
        })
        .collect::<Result<_, PolicyError>>()?;
    Ok(TablePolicy {
        id,
        path: written.path.map(|path| folder.join(path)),
        master: written.master.unwrap_or_else(|| master.to_string()),
        columns,
        default,
        name,
    })
}

/// Names reach SQL, files and messages.
pub(super) fn check_name(name: &str) -> Result<(), PolicyError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        return Err(PolicyError::BadName(name.chars().take(160).collect()));
    }
    Ok(())
}

fn protection(place: &str, written: &OneOrMore, usable: fn(Protection) -> bool) -> Result<Protection, PolicyError> {
    let names = match written {
        OneOrMore::One(name) => std::slice::from_ref(name),
        OneOrMore::More(names) => names.as_slice(),
    };
    let mut found = None;
    for name in names {
        let protection = Protection::from_name(name).ok_or_else(|| PolicyError::UnknownProtection {
            place: place.to_string(),
            name: name.clone(),
        })?;
        if !usable(protection) {
            return Err(PolicyError::NotYet {
                place: place.to_string(),
                protection,
            });
        }
        found = Some(protection);
    }
    found.ok_or_else(|| PolicyError::NoProtection {
        place: place.to_string(),
    })
}

fn evidence(accept: &[String]) -> Result<Vec<EvidenceKind>, PolicyError> {
    let mut kinds = Vec::new();
    for name in accept {
        let kind = EvidenceKind::from_name(name).ok_or_else(|| PolicyError::UnknownEvidence(name.clone()))?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.contains(&EvidenceKind::Simulated) && kinds.len() > 1 {
        return Err(PolicyError::SimulatedWithOthers);
    }
    match kinds.iter().find(|kind| !kind.is_supported()) {
        Some(kind) => Err(PolicyError::EvidenceNotYet(kind.name().to_string())),
        None => Ok(kinds),
    }
}

fn refuse_twice(tables: &BTreeMap<String, TablePolicy>) -> Result<(), PolicyError> {
    let (mut ids, mut paths) = (BTreeMap::new(), BTreeMap::new());
    for (name, table) in tables {
        let twice = |first: &String, what| PolicyError::Twice {
            first: first.clone(),
            second: name.clone(),
            what,
        };
        if let Some(first) = table.id.and_then(|id| ids.insert(id, name)) {
            return Err(twice(first, "id"));
        }
        if let Some(first) = table.path.as_ref().and_then(|path| paths.insert(path, name)) {
            return Err(twice(first, "path"));
        }
    }
    Ok(())
}
