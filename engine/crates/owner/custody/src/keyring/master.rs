//! A master key: versions under one name, and whether they may be used.
//!
//! The newest version wraps; older ones only unwrap what they wrapped. A disabled master does
//! neither. A destroyed one has no keys any more; its name and version numbers are kept, so that
//! they never come to mean another key.

use std::time::{SystemTime, UNIX_EPOCH};

use coffer_sealing::{DerivationKey, Error as SealingError, Secret};

use crate::{keyring::KeyringError, table_key::check_value};

/// Whether a master may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MasterStatus {
    /// It wraps and unwraps.
    Enabled,
    /// It does neither, until it is enabled again.
    Disabled,
    /// Its keys are gone.
    Destroyed,
}

impl MasterStatus {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Enabled => 1,
            Self::Disabled => 2,
            Self::Destroyed => 3,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Enabled, Self::Disabled, Self::Destroyed]
            .into_iter()
            .find(|state| state.byte() == byte)
    }

    /// As in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Destroyed => "destroyed",
        }
    }
}

/// What may be shown of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterInfo {
    /// Its name, unique in the keyring.
    pub name: String,
    /// When its first version was made, in seconds since 1970.
    pub created: u64,
    /// Whether it may be used.
    pub status: MasterStatus,
    /// Ascending; the last one wraps. None of a destroyed master.
    pub versions: Vec<MasterVersionInfo>,
}

impl MasterInfo {
    /// The version that wraps, by its number; none of a destroyed master.
    pub fn newest(&self) -> Option<&MasterVersionInfo> {
        self.versions.last()
    }
}

/// What may be shown of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterVersionInfo {
    /// From 1, never used twice under one name.
    pub number: u32,
    /// 16 hex digits that tell it from other keys.
    pub fingerprint: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

#[derive(Clone)]
pub(super) struct Master {
    created: u64,
    status: MasterStatus,
    next: u32,
    /// Ascending by number; empty if and only if destroyed.
    versions: Vec<MasterVersion>,
}

#[derive(Clone)]
pub(super) struct MasterVersion {
    pub(super) number: u32,
    pub(super) created: u64,
    secret: Secret<32>,
}

impl MasterVersion {
    pub(super) fn new(number: u32, created: u64, secret: Secret<32>) -> Self {
        Self {
            number,
            created,
            secret,
        }
    }

    pub(super) fn secret(&self) -> &Secret<32> {
        &self.secret
    }

    pub(super) fn root(&self) -> DerivationKey {
        DerivationKey::new("master", &self.secret)
    }

    fn info(&self) -> Result<MasterVersionInfo, KeyringError> {
        let check = check_value(&self.root(), b"fingerprint")?;
        Ok(MasterVersionInfo {
            number: self.number,
            fingerprint: hex::encode(check.first_chunk::<8>().ok_or(SealingError::Crypto)?),
            created: self.created,
        })
    }
}

impl Master {
    pub(super) fn generate() -> Result<Self, SealingError> {
        let created = now();
        Ok(Self {
            created,
            status: MasterStatus::Enabled,
            next: 2,
            versions: vec![MasterVersion::new(1, created, Secret::generate()?)],
        })
    }

    /// None if the parts do not go together.
    pub(super) fn from_parts(
        created: u64,
        status: MasterStatus,
        next: u32,
        versions: Vec<MasterVersion>,
    ) -> Option<Self> {
        let ascending = versions.is_sorted_by(|a, b| a.number < b.number);
        let first = versions.first().is_none_or(|version| version.number > 0);
        let last = versions.last().is_none_or(|version| version.number < next);
        let empty = versions.is_empty() == (status == MasterStatus::Destroyed);
        (ascending && first && last && empty).then_some(Self {
            created,
            status,
            next,
            versions,
        })
    }

    pub(super) fn created(&self) -> u64 {
        self.created
    }

    pub(super) fn status(&self) -> MasterStatus {
        self.status
    }

    pub(super) fn next_version(&self) -> u32 {
        self.next
    }

    pub(super) fn versions(&self) -> &[MasterVersion] {
        &self.versions
    }

    pub(super) fn info(&self, name: &str) -> Result<MasterInfo, KeyringError> {
        Ok(MasterInfo {
            name: name.to_string(),
            created: self.created,
            status: self.status,
            versions: self
                .versions
                .iter()
                .map(MasterVersion::info)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The version that wraps.
    pub(super) fn newest(&self, name: &str) -> Result<&MasterVersion, KeyringError> {
        self.check_enabled(name)?;
        self.versions
            .last()
            .ok_or_else(|| KeyringError::Destroyed(name.to_string()))
    }

    /// The version of a number, to unwrap what it wrapped.
    pub(super) fn version(&self, name: &str, number: u32) -> Result<&MasterVersion, KeyringError> {
        self.check_enabled(name)?;
        self.versions
            .iter()
            .find(|version| version.number == number)
            .ok_or_else(|| KeyringError::NoVersion {
                master: name.to_string(),
                version: number,
                known: self.versions.iter().map(|version| version.number).collect(),
            })
    }

    fn check_enabled(&self, name: &str) -> Result<(), KeyringError> {
        match self.status {
            MasterStatus::Enabled => Ok(()),
            MasterStatus::Disabled => Err(KeyringError::Disabled(name.to_string())),
            MasterStatus::Destroyed => Err(KeyringError::Destroyed(name.to_string())),
        }
    }

    /// Adds a version with a fresh key.
    pub(super) fn rotate(&mut self, name: &str) -> Result<(), KeyringError> {
        self.check_enabled(name)?;
        let number = self.next;
        self.next = number.checked_add(1).ok_or(SealingError::Crypto)?;
        self.versions
            .push(MasterVersion::new(number, now(), Secret::generate()?));
        Ok(())
    }

    pub(super) fn set_enabled(&mut self, name: &str, enabled: bool) -> Result<(), KeyringError> {
        self.status = match (self.status, enabled) {
            (MasterStatus::Destroyed, _) => return Err(KeyringError::Destroyed(name.to_string())),
            (_, true) => MasterStatus::Enabled,
            (_, false) => MasterStatus::Disabled,
        };
        Ok(())
    }

    pub(super) fn destroy(&mut self) {
        self.status = MasterStatus::Destroyed;
        self.versions.clear();
    }

    /// Removes one version, which must not be the newest.
    pub(super) fn destroy_version(&mut self, name: &str, number: u32) -> Result<(), KeyringError> {
        let at = self
            .versions
            .iter()
            .position(|version| version.number == number);
        let Some(at) = at else {
            return Err(KeyringError::NoVersion {
                master: name.to_string(),
                version: number,
                known: self.versions.iter().map(|version| version.number).collect(),
            });
        };
        if at.checked_add(1) == Some(self.versions.len()) {
            return Err(KeyringError::NewestVersion {
                master: name.to_string(),
                version: number,
            });
        }
        self.versions.remove(at);
        Ok(())
    }

    /// Whether it holds the very keys of another, whatever their state.
    pub(super) fn same_keys(&self, other: &Self) -> bool {
        self.versions.len() == other.versions.len()
            && self
                .versions
                .iter()
                .zip(&other.versions)
                .all(|(own, other)| own.number == other.number && own.secret.ct_eq(&other.secret))
    }
}

/// A clock before 1970 is shown as 1970: the time is for people only.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_secs())
}
