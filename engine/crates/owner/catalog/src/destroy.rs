//! Destroying a master of the keyring, which nothing may need any more.

use coffer_custody::{KeyContext, MasterInfo, Vault};

use crate::{Error, HeldKey, Register, register::Locked};

/// A master that is gone, and what went with it.
#[derive(Debug)]
pub struct Destroyed {
    /// The master as it is now.
    pub info: MasterInfo,
    /// Tables and links that can never be opened again.
    pub lost: Vec<HeldKey>,
    /// And files of other programs, wherever they are.
    pub files: bool,
}

impl Register {
    /// Destroys a master of the keyring, or one version of it that is not its newest. While tables,
    /// links, or files that other programs wrote need it that is an error which says so, unless
    /// they are `given_up`: they can then never be opened again.
    ///
    /// The register stays locked meanwhile, so that nothing comes to need it in between.
    pub fn destroy_master(
        &self,
        vault: &Vault,
        master: &str,
        version: Option<u32>,
        given_up: bool,
    ) -> Result<Destroyed, Error> {
        let locked = self.lock()?;
        let lost = needing(&locked, vault, master, version)?;
        let files = locked.is_needed_by_files(master, version);
        if (!lost.is_empty() || files) && !given_up {
            let named = |wanted: fn(&KeyContext) -> bool| {
                let keys = lost.iter().filter(|key| wanted(&key.context));
                let mut names: Vec<String> = keys.map(|key| key.name.clone()).collect();
                names.dedup();
                names
            };
            return Err(Error::MasterNeeded {
                master: master.to_owned(),
                tables: named(|context| matches!(context, KeyContext::Table(_))),
                links: named(|context| matches!(context, KeyContext::Link(_))),
                files,
            });
        }
        let info = vault
            .keyring()
            .destroy(master, version)
            .map_err(Error::Keyring)?;
        Ok(Destroyed { info, lost, files })
    }
}

/// The keys that a master of the keyring wrapped, by whatever name the policy has for it.
fn needing(
    locked: &Locked<'_>,
    vault: &Vault,
    master: &str,
    version: Option<u32>,
) -> Result<Vec<HeldKey>, Error> {
    let mut needed = Vec::new();
    for key in locked.held_keys() {
        let by = vault.keyring_version(&key.wrapped)?;
        if by.is_some_and(|(name, number)| {
            name == master && version.is_none_or(|version| version == number)
        }) {
            needed.push(key);
        }
    }
    Ok(needed)
}
