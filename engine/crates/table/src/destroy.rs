//! Destroying a master of the keyring, which nothing may need any more.

use coffer_keys::{KeyContext, MasterInfo, Vault};

use crate::{Error, HeldKey, Register, register::Locked};

impl Register {
    /// Destroys a master of the keyring, or one version of it that is not its newest. While tables or links need it that is an
    /// error which names them, unless they are `given_up`: they can then never be opened again.
    ///
    /// The register stays locked meanwhile, so that no table comes to need it in between.
    pub fn destroy_master(
        &self,
        vault: &Vault,
        master: &str,
        version: Option<u32>,
        given_up: bool,
    ) -> Result<(MasterInfo, Vec<HeldKey>), Error> {
        let locked = self.lock()?;
        let needed = needing(&locked, vault, master, version)?;
        if !needed.is_empty() && !given_up {
            let named = |wanted: fn(&KeyContext) -> bool| {
                let keys = needed.iter().filter(|key| wanted(&key.context));
                let mut names: Vec<String> = keys.map(|key| key.name.clone()).collect();
                names.dedup();
                names
            };
            return Err(Error::MasterNeeded {
                master: master.to_owned(),
                tables: named(|context| matches!(context, KeyContext::Table(_))),
                links: named(|context| matches!(context, KeyContext::Link(_))),
            });
        }
        let info = vault.keyring().destroy(master, version).map_err(Error::Keyring)?;
        Ok((info, needed))
    }
}

/// The keys that a master of the keyring wrapped, by whatever name the policy has for it.
fn needing(locked: &Locked<'_>, vault: &Vault, master: &str, version: Option<u32>) -> Result<Vec<HeldKey>, Error> {
    let mut needed = Vec::new();
    for key in locked.held_keys() {
        let by = vault.keyring_version(&key.wrapped)?;
        if by.is_some_and(|(name, number)| name == master && version.is_none_or(|version| version == number)) {
            needed.push(key);
        }
    }
    Ok(needed)
}
