//! From TOML to a [`Draft`].

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use coffer_protocol::{evidence::EvidenceKind, storage::url};
use serde::Deserialize;

use crate::{
    keyring::{FIRST_MASTER, check_master_name},
    location::path_of,
    master::MasterUri,
    policy::{
        Attestation, ColumnPolicy, Domain, Draft, LinkPolicy, PolicyError, Protection, TablePolicy,
        access::{Access, Role, User},
        column::{Names, Written, WrittenDomain, column, protections, wanted},
        log::{LogPolicy, WrittenLog},
        zone::{self, WrittenZone},
    },
};

/// The types that a domain can be given for, as in DDL.
const DOMAIN_TYPES: [&str; 8] = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "decimal",
    "date",
    "timestamp",
    "timestamp_ntz",
];

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Document {
    unverified_inputs: Vec<PathBuf>,
    host_results: HostResults,
    defaults: Defaults,
    attestation: Attestation,
    driver: Driver,
    zones: BTreeMap<String, WrittenZone>,
    tables: BTreeMap<String, Table>,
    links: BTreeMap<String, Link>,
    masters: BTreeMap<String, String>,
    limits: Limits,
    log: Option<WrittenLog>,
    roles: BTreeMap<String, Role>,
    users: BTreeMap<String, User>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum HostResults {
    #[default]
    Refuse,
    Accept,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Defaults {
    protection: Option<Names>,
    master: Option<String>,
    evidence: Vec<String>,
    domains: BTreeMap<String, WrittenDomain>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Driver {
    trust_cluster_deploy_mode: bool,
    trust_executors: bool,
}

/// What users may do in a day.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    literals_per_day: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            literals_per_day: 10_000,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Table {
    id: Option<String>,
    path: Option<PathBuf>,
    master: Option<String>,
    evidence: Vec<String>,
    columns: BTreeMap<String, Written>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Link {
    id: Option<String>,
    master: Option<String>,
}

pub(super) fn parse(text: &str, origin: &Path) -> Result<Draft, PolicyError> {
    let document: Document = toml::from_str(text).map_err(|error| PolicyError::Syntax {
        path: origin.to_path_buf(),
        reason: error.to_string(),
    })?;
    let folder = origin.parent().unwrap_or(Path::new(""));
    let protection = match &document.defaults.protection {
        Some(Names(names)) => protections("[defaults]", names)?,
        None => vec![Protection::Tee],
    };
    let domains = domains(document.defaults.domains)?;
    let master = document
        .defaults
        .master
        .unwrap_or_else(|| FIRST_MASTER.to_string());
    let accepted = evidence(&document.attestation.accept)?;
    let wanted_of_all = wanted("[defaults]", &document.defaults.evidence, &accepted)?;
    let tables = document
        .tables
        .into_iter()
        .map(|(name, written)| {
            let defaults = TablePolicy {
                evidence: wanted_of_all.clone(),
                ..TablePolicy::of_defaults(&name, &protection, &master, &domains)
            };
            Ok((name, table(defaults, written, folder, &accepted)?))
        })
        .collect::<Result<BTreeMap<_, _>, PolicyError>>()?;
    refuse_twice(&tables)?;
    let links = document
        .links
        .into_iter()
        .map(|(name, written)| Ok((name.clone(), link(&name, written, &master)?)))
        .collect::<Result<BTreeMap<_, _>, PolicyError>>()?;
    let (attestation, alone) = attestation(document.attestation, folder)?.with_release(folder)?;
    let release = attestation.release.as_ref().map(|pinned| pinned.sha256.0);
    let log = document
        .log
        .map(|written| LogPolicy::read(written, folder, release, alone))
        .transpose()?;
    Ok(Draft {
        access: Access::new(document.roles, document.users, folder)?,
        literals_per_day: document.limits.literals_per_day,
        tables,
        links,
        masters: masters(document.masters, folder)?,
        protection,
        domains,
        master,
        host_results: document.host_results == HostResults::Accept,
        evidence: accepted,
        wanted: wanted_of_all,
        attestation,
        log,
        zones: zone::zones(document.zones, folder)?,
        trust_cluster_deploy_mode: document.driver.trust_cluster_deploy_mode,
        trust_executors: document.driver.trust_executors,
        unverified_inputs: document
            .unverified_inputs
            .iter()
            .map(|path| at("unverified_inputs", path, folder))
            .collect::<Result<_, PolicyError>>()?,
    })
}

fn table(
    defaults: TablePolicy,
    written: Table,
    folder: &Path,
    accepted: &[EvidenceKind],
) -> Result<TablePolicy, PolicyError> {
    let name = &defaults.name;
    check_name(name)?;
    let id = match written.id {
        None => None,
        Some(id) => Some(id.parse().map_err(|_| PolicyError::BadId {
            table: name.clone(),
            id,
        })?),
    };
    let columns = written
        .columns
        .into_iter()
        .map(|(of, written)| {
            let entry = format!("table {name:?}, column {of:?}");
            Ok((
                of,
                column(&entry, written, &defaults.default.protections, accepted)?,
            ))
        })
        .collect::<Result<BTreeMap<String, ColumnPolicy>, PolicyError>>()?;
    let mut evidence = wanted(&format!("table {name:?}"), &written.evidence, accepted)?;
    evidence.extend(&defaults.evidence);
    Ok(TablePolicy {
        id,
        evidence,
        path: written
            .path
            .map(|path| at(&format!("table {name:?}"), &path, folder))
            .transpose()?,
        columns,
        master: written
            .master
            .clone()
            .unwrap_or_else(|| defaults.master.clone()),
        own_master: written.master,
        ..defaults
    })
}

/// A path or URL of the policy; relative ones count from its folder.
pub(super) fn at(entry: &str, path: &Path, folder: &Path) -> Result<PathBuf, PolicyError> {
    match path_of(path) {
        Ok(path) if url(&path).is_some() => Ok(path),
        Ok(path) => Ok(folder.join(path)),
        Err(source) => Err(PolicyError::Location {
            entry: entry.to_owned(),
            source,
        }),
    }
}

fn link(name: &str, written: Link, master: &str) -> Result<LinkPolicy, PolicyError> {
    check_name(name)?;
    let id = match written.id {
        None => None,
        Some(id) => Some(id.parse().map_err(|_| PolicyError::BadLinkId {
            link: name.to_owned(),
            id,
        })?),
    };
    Ok(LinkPolicy {
        id,
        master: written.master.unwrap_or_else(|| master.to_owned()),
    })
}

/// A name is the keyring's kind of name, so that a table's record can hold either.
fn masters(
    written: BTreeMap<String, String>,
    folder: &Path,
) -> Result<BTreeMap<String, MasterUri>, PolicyError> {
    written
        .into_iter()
        .map(|(name, uri)| {
            check_master_name(&name)
                .map_err(|_| PolicyError::BadMasterName(name.chars().take(80).collect()))?;
            match MasterUri::parse(&uri, folder) {
                Ok(uri) => Ok((name, uri)),
                Err(source) => Err(PolicyError::Master { name, source }),
            }
        })
        .collect()
}

fn domains(
    written: BTreeMap<String, WrittenDomain>,
) -> Result<BTreeMap<String, Domain>, PolicyError> {
    written
        .into_iter()
        .map(|(of, domain)| {
            if DOMAIN_TYPES.contains(&of.as_str()) {
                Ok((of, domain.into()))
            } else {
                Err(PolicyError::DomainType(of))
            }
        })
        .collect()
}

/// Names reach SQL, files and messages.
pub(super) fn check_name(name: &str) -> Result<(), PolicyError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        return Err(PolicyError::BadName(name.chars().take(160).collect()));
    }
    Ok(())
}

fn evidence(accept: &[String]) -> Result<Vec<EvidenceKind>, PolicyError> {
    let mut kinds = Vec::new();
    for name in accept {
        let kind = EvidenceKind::from_name(name)
            .ok_or_else(|| PolicyError::UnknownEvidence(name.clone()))?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.contains(&EvidenceKind::Simulated) && kinds.len() > 1 {
        return Err(PolicyError::SimulatedWithOthers);
    }
    Ok(kinds)
}

/// Relative paths count from the policy's folder; a TPM has 24 PCRs.
fn attestation(written: Attestation, folder: &Path) -> Result<Attestation, PolicyError> {
    let is_pcr = |name: &String| {
        let number = name.parse::<u8>().ok();
        number.is_some_and(|number| number < 24 && number.to_string() == *name)
    };
    if let Some(other) = written.tpm.pcrs.keys().find(|name| !is_pcr(name)) {
        return Err(PolicyError::NoPcr(other.clone()));
    }
    Ok(Attestation {
        collateral: written.collateral.map(|path| folder.join(path)),
        ..written
    })
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
        if let Some(first) = table
            .path
            .as_ref()
            .and_then(|path| paths.insert(path, name))
        {
            return Err(twice(first, "path"));
        }
    }
    Ok(())
}
