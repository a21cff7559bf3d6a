//! What a keyring holds, in memory and as the bytes that are sealed.
//!
//! ```text
//! owner's private key 32 ‖ register's key 32 ‖ masters
//! masters: count u32 LE ‖ for each, by name:
//!   name (length u32 LE, bytes) ‖ created u64 LE ‖ state u8 ‖ next version u32 LE ‖
//!   versions u32 LE ‖ for each, ascending:
//!     version u32 LE ‖ created u64 LE ‖ key 32
//! ```
//! Files of format 1 held masters without state and versions: `name ‖ created ‖ key`, each of which
//! is version 1.

use std::collections::BTreeMap;

use coffer_sealing::{
    Error as SealingError, Secret,
    fields::{Malformed, Reader, Writer},
};
use zeroize::Zeroizing;

use crate::{
    OwnerKey,
    keyring::{
        KeyringError,
        master::{Master, MasterStatus, MasterVersion},
    },
};

const MAX_NAME: usize = 64;
const VERSION_LEN: usize = 4 + 8 + 32;

#[derive(Clone)]
pub(super) struct Contents {
    pub(super) owner: OwnerKey,
    pub(super) register: Secret<32>,
    pub(super) masters: BTreeMap<String, Master>,
}

impl Contents {
    pub(super) fn generate(first_master: &str) -> Result<Self, SealingError> {
        Ok(Self {
            owner: OwnerKey::generate()?,
            register: Secret::generate()?,
            masters: BTreeMap::from([(first_master.to_string(), Master::generate()?)]),
        })
    }

    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::with_capacity(64 + masters_capacity(&self.masters));
        writer
            .raw(self.owner.pair().secret.expose())
            .raw(self.register.expose());
        encode_masters(&mut writer, &self.masters);
        writer.finish()
    }

    /// Of the newest format.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::decode_with(bytes, decode_masters)
    }

    /// Of format 1.
    pub(super) fn decode_first(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::decode_with(bytes, decode_first_masters)
    }

    fn decode_with(
        bytes: &[u8],
        masters: fn(&mut Reader<'_>) -> Result<BTreeMap<String, Master>, Malformed>,
    ) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let contents = Self {
            owner: OwnerKey::from_secret(secret(&mut reader)?).map_err(|_| Malformed)?,
            register: secret(&mut reader)?,
            masters: masters(&mut reader)?,
        };
        reader.end()?;
        Ok(contents)
    }
}

/// Room for all of it at once, so that no grown-out-of copy is left in memory.
pub(super) fn masters_capacity(masters: &BTreeMap<String, Master>) -> usize {
    let one =
        |master: &Master| 4 + MAX_NAME + 8 + 1 + 4 + 4 + master.versions().len() * VERSION_LEN;
    4 + masters.values().map(one).sum::<usize>()
}

pub(super) fn encode_masters(writer: &mut Writer, masters: &BTreeMap<String, Master>) {
    writer.u32(u32::try_from(masters.len()).unwrap_or(u32::MAX));
    for (name, master) in masters {
        writer
            .string(name.as_bytes())
            .u64(master.created())
            .raw(&[master.status().byte()])
            .u32(master.next_version())
            .u32(u32::try_from(master.versions().len()).unwrap_or(u32::MAX));
        for version in master.versions() {
            writer
                .u32(version.number)
                .u64(version.created)
                .raw(version.secret().expose());
        }
    }
}

pub(super) fn decode_masters(
    reader: &mut Reader<'_>,
) -> Result<BTreeMap<String, Master>, Malformed> {
    let mut masters = BTreeMap::new();
    for _ in 0..reader.u32()? {
        let name = reader.text()?.to_string();
        check_name(&name).map_err(|_| Malformed)?;
        let created = reader.u64()?;
        let [state] = reader.array()?;
        let state = MasterStatus::from_byte(state).ok_or(Malformed)?;
        let next = reader.u32()?;
        let mut versions = Vec::new();
        for _ in 0..reader.u32()? {
            versions.push(MasterVersion::new(
                reader.u32()?,
                reader.u64()?,
                secret(reader)?,
            ));
        }
        let master = Master::from_parts(created, state, next, versions).ok_or(Malformed)?;
        if masters.insert(name, master).is_some() {
            return Err(Malformed);
        }
    }
    Ok(masters)
}

fn decode_first_masters(reader: &mut Reader<'_>) -> Result<BTreeMap<String, Master>, Malformed> {
    let mut masters = BTreeMap::new();
    for _ in 0..reader.u32()? {
        let name = reader.text()?.to_string();
        let created = reader.u64()?;
        let only = MasterVersion::new(1, created, secret(reader)?);
        let master =
            Master::from_parts(created, MasterStatus::Enabled, 2, vec![only]).ok_or(Malformed)?;
        if masters.insert(name, master).is_some() {
            return Err(Malformed);
        }
    }
    Ok(masters)
}

fn secret(reader: &mut Reader<'_>) -> Result<Secret<32>, Malformed> {
    Secret::from_slice(reader.raw(32)?).map_err(|_| Malformed)
}

/// Names go into files and messages: keep them plain.
pub(crate) fn check_name(name: &str) -> Result<(), KeyringError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        return Err(KeyringError::BadName(name.chars().take(80).collect()));
    }
    Ok(())
}
