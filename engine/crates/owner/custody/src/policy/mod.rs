//! The policy: what the owner allows, in one TOML file that people edit.
//!
//! An unknown key, protection or evidence kind is an error, never ignored; so is what this version
//! cannot do yet. An empty list allows nothing.

//!
//! Reading the file gives a [`Draft`], which decides nothing. What decides is a [`Policy`]: a draft
//! whose bytes the owner signed, in the version that the register knows as the newest ([`signed`]).

mod access;
pub mod attestation;
mod column;
mod difference;
pub mod edit;
mod error;
mod file;
mod log;
mod pinned;
pub mod signed;
mod zone;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use coffer_protocol::{
    evidence::{EvidenceKind, EvidenceKinds},
    storage::url,
};
use coffer_sealing::{LinkId, TableId};

use crate::master::MasterUri;

pub use access::Rights;
pub use attestation::Attestation;
pub use column::{ColumnPolicy, Domain};
pub use error::PolicyError;
pub use log::LogPolicy;
pub(crate) use log::Logged;
pub use pinned::PinnedRelease;
pub use signed::{Policy, PolicyDigest, PolicyHead, PolicyHeads, PolicyKey, PolicyLock, Review};
pub use zone::Zone;

pub use coffer_schemes::Protection;

/// What a new config directory gets: every setting, with its meaning.
pub const TEMPLATE: &str = include_str!("template.toml");

/// What a policy file says, read and checked; whether its owner said it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    tables: BTreeMap<String, TablePolicy>,
    links: BTreeMap<String, LinkPolicy>,
    masters: BTreeMap<String, MasterUri>,
    zones: Vec<Zone>,
    access: access::Access,
    protection: Vec<Protection>,
    domains: BTreeMap<String, Domain>,
    master: String,
    host_results: bool,
    evidence: Vec<EvidenceKind>,
    /// Of all tables.
    wanted: EvidenceKinds,
    attestation: Attestation,
    log: Option<log::LogPolicy>,
    trust_cluster_deploy_mode: bool,
    trust_executors: bool,
    unverified_inputs: Vec<PathBuf>,
    literals_per_day: u32,
}

/// What the policy says of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePolicy {
    name: String,
    id: Option<TableId>,
    path: Option<PathBuf>,
    master: String,
    own_master: Option<String>,
    evidence: EvidenceKinds,
    columns: BTreeMap<String, ColumnPolicy>,
    default: ColumnPolicy,
    domains: BTreeMap<String, Domain>,
}

/// What the policy says of a group of columns with comparable ciphertexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPolicy {
    id: Option<LinkId>,
    master: String,
}

impl LinkPolicy {
    /// Its id, once a table that uses it is encrypted.
    pub fn id(&self) -> Option<LinkId> {
        self.id
    }

    /// The master that wraps its key.
    pub fn master(&self) -> &str {
        &self.master
    }
}

impl Draft {
    /// Reads a policy file. Relative paths in it count from its folder.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        Self::parse(signed::text(&signed::read_policy(path)?, path)?, path)
    }

    /// Reads a policy's text; `origin` is named in errors, and relative paths count from its
    /// folder.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, PolicyError> {
        file::parse(text, origin)
    }

    /// Errors when a table cannot have this name.
    pub fn check_name(name: &str) -> Result<(), PolicyError> {
        file::check_name(name)
    }

    /// All tables, in order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &TablePolicy> {
        self.tables.values()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Result<&TablePolicy, PolicyError> {
        self.tables
            .get(name)
            .ok_or_else(|| PolicyError::UnknownTable {
                name: name.to_string(),
                known: self.tables.keys().cloned().collect(),
            })
    }

    /// The table at this path, if the policy names one; paths are compared as written, so give the
    /// canonical one.
    pub fn table_at(&self, path: &Path) -> Option<&TablePolicy> {
        self.tables
            .values()
            .find(|table| table.path.as_deref() == Some(path))
    }

    /// The table with this id, if the policy names one.
    pub fn table_of(&self, id: TableId) -> Option<&TablePolicy> {
        self.tables.values().find(|table| table.id == Some(id))
    }

    /// What holds for a table that the policy does not name.
    pub fn unnamed_table(&self, name: &str) -> TablePolicy {
        TablePolicy {
            evidence: self.wanted.clone(),
            ..TablePolicy::of_defaults(name, &self.protection, &self.master, &self.domains)
        }
    }

    /// What is said of a link; one that the policy does not name has the default master.
    pub fn link(&self, name: &str) -> LinkPolicy {
        self.links.get(name).cloned().unwrap_or_else(|| LinkPolicy {
            id: None,
            master: self.master.clone(),
        })
    }

    /// The links that it names, in order.
    pub fn links(&self) -> impl Iterator<Item = (&str, &LinkPolicy)> {
        self.links.iter().map(|(name, link)| (name.as_str(), link))
    }

    /// The masters outside of the keyring, and other names for some in it, in order of their names.
    pub fn masters(&self) -> impl Iterator<Item = (&str, &MasterUri)> {
        self.masters.iter().map(|(name, uri)| (name.as_str(), uri))
    }

    /// The zones, in order of their names.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The innermost zone that holds a path, as it is written or by where it leads; it need not be
    /// there yet. Errors where it cannot be said where the path leads, and where the two are in
    /// zones of two masters.
    pub fn zone_of(&self, path: &Path) -> Result<Option<&Zone>, PolicyError> {
        zone::Found::of(&self.zones)?.innermost(path)
    }

    /// The zones that hold a path: more than one where it is written in one and leads into another.
    pub fn zones_of(&self, path: &Path) -> Result<Vec<&Zone>, PolicyError> {
        zone::Found::of(&self.zones)?.all(path)
    }

    /// The master of a new table at a folder: its zone's, else its entry's, else the default. An
    /// entry that names another than its zone does is an error.
    pub fn master_at(&self, table: &TablePolicy, folder: &Path) -> Result<String, PolicyError> {
        match (self.zone_of(folder)?, table.own_master()) {
            (None, _) => Ok(table.master().to_owned()),
            (Some(zone), own) if own.is_none_or(|own| own == zone.master()) => {
                Ok(zone.master().to_owned())
            }
            (Some(zone), own) => Err(PolicyError::ZoneMaster {
                table: table.name.clone(),
                master: own.unwrap_or_default().to_owned(),
                zone: zone.name().to_owned(),
                wanted: zone.master().to_owned(),
            }),
        }
    }

    /// Errors when something plain would be made in a zone, by any of these paths of the local file
    /// system.
    pub fn check_plain<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), PolicyError> {
        let zones = zone::Found::of(&self.zones)?;
        for path in paths {
            if let Some(zone) = zones.all(path)?.first() {
                return Err(PolicyError::PlainInZone {
                    path: path.to_path_buf(),
                    zone: zone.name().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The users that it names, in order.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.access.users()
    }

    /// What a user may do.
    pub fn rights(&self, user: &str) -> Result<Rights, PolicyError> {
        self.access.rights(user)
    }

    /// What a role allows by itself, by name.
    pub fn roles(&self) -> impl Iterator<Item = (&str, Rights)> {
        self.access.roles()
    }

    /// Whether somebody with these rights may make a table of this name at a folder: where the
    /// owner wrote that it lies, or below a root of a role, by the path as it is written and by
    /// where it leads. A path with `..` is neither.
    pub fn may_make(
        &self,
        rights: &Rights,
        table: &str,
        folder: &Path,
    ) -> Result<bool, PolicyError> {
        if rights.is_owner() {
            return Ok(true);
        }
        let whole = folder.is_absolute() || url(folder).is_some();
        if !whole || zone::climbs(folder) {
            return Ok(false);
        }
        if self.table(table).ok().and_then(TablePolicy::path) == Some(folder) {
            return Ok(true);
        }
        let below = |root: &Path| {
            Ok(folder.starts_with(root) && zone::real(folder)?.starts_with(zone::real(root)?))
        };
        for root in rights.write_roots() {
            if below(root)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many different literals a user may have encrypted in a day, for a column or link.
    pub fn literals_per_day(&self) -> u32 {
        self.literals_per_day
    }

    /// The user that an account of the operating system is: by its number, or by its name. Errors
    /// when it is one by each.
    pub fn user_of(&self, uid: u32, account: Option<&str>) -> Result<Option<&str>, PolicyError> {
        self.access.user_of(uid, account)
    }

    /// The user whose certificate has these names. Errors when it is more than one's.
    pub fn user_of_certificate(&self, names: &[String]) -> Result<Option<&str>, PolicyError> {
        self.access.user_of_certificate(names)
    }

    /// Whether results of engines that prove nothing are accepted: no value is read there, but the
    /// answer may be wrong.
    pub fn accepts_host_results(&self) -> bool {
        self.host_results
    }

    /// The master of tables that name none.
    pub fn default_master(&self) -> &str {
        &self.master
    }

    /// The protections of columns that name none.
    pub fn default_protection(&self) -> &[Protection] {
        &self.protection
    }

    /// The kinds of evidence that are accepted; maybe none.
    pub fn accepted_evidence(&self) -> &[EvidenceKind] {
        &self.evidence
    }

    /// What evidence must show, by kind.
    pub fn attestation(&self) -> &Attestation {
        &self.attestation
    }

    /// Whether the driver may run on the host, because the owner trusts that site.
    pub fn trusts_cluster_deploy_mode(&self) -> bool {
        self.trust_cluster_deploy_mode
    }

    /// Whether executors are on a site that the owner trusts with data that is not sealed yet.
    pub fn trusts_executors(&self) -> bool {
        self.trust_executors
    }

    /// Plain Parquet that may be read beside sealed tables.
    pub fn unverified_inputs(&self) -> &[PathBuf] {
        &self.unverified_inputs
    }

    /// Whether `path` is one of [`Draft::unverified_inputs`], or lies below one. A path with `..`
    /// never is.
    pub fn allows_unverified(&self, path: &Path) -> bool {
        let climbs = path
            .components()
            .any(|part| part == std::path::Component::ParentDir);
        !climbs
            && self
                .unverified_inputs
                .iter()
                .any(|allowed| path.starts_with(allowed))
    }
}

impl TablePolicy {
    fn of_defaults(
        name: &str,
        protection: &[Protection],
        master: &str,
        domains: &BTreeMap<String, Domain>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            id: None,
            path: None,
            master: master.to_owned(),
            own_master: None,
            evidence: EvidenceKinds::default(),
            columns: BTreeMap::new(),
            default: ColumnPolicy::of(protection.to_vec()),
            domains: domains.clone(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its id, once it is encrypted.
    pub fn id(&self) -> Option<TableId> {
        self.id
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The master that wraps its key, unless it is in a zone.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// The master that its own entry names.
    pub fn own_master(&self) -> Option<&str> {
        self.own_master.as_deref()
    }

    /// The kinds of evidence that an engine must all have shown to get keys of a query that uses
    /// it, with those of these columns.
    pub fn evidence<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> EvidenceKinds {
        let mut kinds = self.evidence.clone();
        for column in columns {
            kinds.extend(self.column(column).evidence());
        }
        kinds
    }

    /// The columns it names, in order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &ColumnPolicy)> {
        self.columns
            .iter()
            .map(|(name, column)| (name.as_str(), column))
    }

    /// What holds for a column.
    pub fn column(&self, column: &str) -> &ColumnPolicy {
        self.columns.get(column).unwrap_or(&self.default)
    }

    /// The values that columns of a type may have, by its name in DDL without arguments, where the
    /// column itself says nothing.
    pub fn default_domain(&self, kind: &str) -> Option<&Domain> {
        self.domains.get(kind)
    }

    /// The one protection of a partition column.
    pub fn partition_protection(&self, column: &str) -> Result<Protection, PolicyError> {
        match self.column(column).protections() {
            [protection] if protection.is_for_partitions() => Ok(*protection),
            _ => Err(PolicyError::NotForPartitions {
                entry: format!("table {:?}, column {column:?}", self.name),
                protections: self.column(column).text(),
            }),
        }
    }

    /// Errors when the policy names a column that the data does not have: a misspelt column would
    /// else silently get the default protection.
    pub fn check_columns<'a>(
        &self,
        data: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), PolicyError> {
        let data: Vec<&str> = data.into_iter().collect();
        match self
            .columns
            .keys()
            .find(|named| !data.contains(&named.as_str()))
        {
            None => Ok(()),
            Some(column) => Err(PolicyError::UnknownColumn {
                table: self.name.clone(),
                column: column.clone(),
                known: data.into_iter().map(str::to_string).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
