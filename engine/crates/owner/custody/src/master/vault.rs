//! The keyring of a config directory and the masters of its policy, as one thing.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, PoisonError, RwLock},
};

use coffer_sealing::{LinkId, Secret, TableId};

use crate::{
    Keyring, LinkKey, ParquetKeyId, Policy, TableKey, WrappedTableKey,
    master::{KeyContext, KeyringMaster, MasterError, MasterKeys, MasterUri, OutsideUri},
};

/// What a key that a master outside of the keyring wrapped begins with.
const OUTSIDE: &[u8; 4] = b"CFWX";

/// A wrapped table or link key, and the name of the master that wrapped it. Not secret; kept in the
/// register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// The master, by its name in the policy or in the keyring.
    pub master: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl WrappedKey {
    /// Whether a master of the keyring wrapped it: then no KMS is needed to open it.
    pub fn is_by_keyring(&self) -> bool {
        !self.bytes.starts_with(OUTSIDE)
    }
}

/// The masters that a policy names under `[masters]`.
#[derive(Default)]
pub struct Masters(BTreeMap<String, Named>);

enum Named {
    /// A master of the keyring, under another name.
    Keyring(String),
    Outside(Arc<dyn MasterKeys>),
}

impl Masters {
    /// Those of this policy. `open` makes each that is not in the keyring; it asks nobody yet, so
    /// that a master that is away hinders only what needs it.
    pub fn of(policy: &Policy, open: impl Fn(&OutsideUri) -> Box<dyn MasterKeys>) -> Self {
        let named = policy.masters().map(|(name, uri)| {
            let named = match uri {
                MasterUri::Keyring(target) => Named::Keyring(target.clone()),
                MasterUri::Outside(uri) => Named::Outside(open(uri).into()),
            };
            (name.to_owned(), named)
        });
        Self(named.collect())
    }
}

/// Wraps and unwraps table keys and link keys. The owner's key and the register's key stay the
/// keyring's own.
pub struct Vault {
    keyring: Keyring,
    masters: RwLock<Arc<Masters>>,
}

impl From<Keyring> for Vault {
    /// With the masters of the keyring alone.
    fn from(keyring: Keyring) -> Self {
        Self::new(keyring, Masters::default())
    }
}

impl Vault {
    /// Joins them.
    pub fn new(keyring: Keyring, masters: Masters) -> Self {
        Self {
            keyring,
            masters: RwLock::new(Arc::new(masters)),
        }
    }

    /// Takes other masters, of a policy that is newer: from now on no other is asked.
    pub fn follow(&self, masters: Masters) {
        *self.masters.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(masters);
    }

    fn masters(&self) -> Arc<Masters> {
        Arc::clone(&self.masters.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The keyring.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// The keyring, to be changed.
    pub fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    /// The names in `[masters]`.
    pub fn named(&self) -> Vec<String> {
        self.masters().0.keys().cloned().collect()
    }

    /// Whether a master of this name is outside of the keyring.
    pub fn is_outside(&self, name: &str) -> bool {
        matches!(self.masters().0.get(name), Some(Named::Outside(_)))
    }

    /// The master of a name: of `[masters]`, else of the keyring. Whether it exists shows when it
    /// is used.
    pub fn master(&self, name: &str) -> Master<'_> {
        match self.masters().0.get(name) {
            Some(Named::Outside(master)) => Master::Outside(Arc::clone(master)),
            Some(Named::Keyring(target)) => Master::Keyring(self.in_keyring(target.clone())),
            None => Master::Keyring(self.in_keyring(name.to_owned())),
        }
    }

    /// Wraps a table's key.
    pub fn wrap(&self, master: &str, key: &TableKey) -> Result<WrappedKey, MasterError> {
        self.wrap_secret(master, &KeyContext::Table(key.table()), key.secret())
    }

    /// The table key that [`Vault::wrap`] wrapped.
    pub fn unwrap(&self, table: TableId, wrapped: &WrappedKey) -> Result<TableKey, MasterError> {
        let secret = self.unwrap_secret(&KeyContext::Table(table), wrapped)?;
        Ok(TableKey::from_secret(table, secret))
    }

    /// Wraps a link's key.
    pub fn wrap_link(&self, master: &str, key: &LinkKey) -> Result<WrappedKey, MasterError> {
        self.wrap_secret(master, &KeyContext::Link(key.link()), key.secret())
    }

    /// The link key that [`Vault::wrap_link`] wrapped.
    pub fn unwrap_link(&self, link: LinkId, wrapped: &WrappedKey) -> Result<LinkKey, MasterError> {
        let secret = self.unwrap_secret(&KeyContext::Link(link), wrapped)?;
        Ok(LinkKey::from_secret(link, secret))
    }

    /// Wraps what seals keys of Parquet files.
    pub(crate) fn wrap_parquet(
        &self,
        master: &str,
        id: ParquetKeyId,
        secret: &Secret<32>,
    ) -> Result<WrappedKey, MasterError> {
        self.wrap_secret(master, &KeyContext::Parquet(id), secret)
    }

    /// What [`Vault::wrap_parquet`] wrapped.
    pub(crate) fn unwrap_parquet(
        &self,
        id: ParquetKeyId,
        wrapped: &WrappedKey,
    ) -> Result<Secret<32>, MasterError> {
        self.unwrap_secret(&KeyContext::Parquet(id), wrapped)
    }

    /// The same key under the newest version of a master, which may be another than wrapped it.
    pub fn rewrap(
        &self,
        context: &KeyContext,
        wrapped: &WrappedKey,
        to: &str,
    ) -> Result<WrappedKey, MasterError> {
        match (
            self.masters().0.get(to),
            wrapped.bytes.strip_prefix(OUTSIDE),
        ) {
            (Some(Named::Outside(master)), Some(body)) if wrapped.master == to => {
                Ok(outside(to, &master.rewrap(context, body)?))
            }
            _ => self.wrap_secret(to, context, &self.unwrap_secret(context, wrapped)?),
        }
    }

    /// The version of its master that a wrapped key needs. Asks nobody.
    pub fn version_of(
        &self,
        context: &KeyContext,
        wrapped: &WrappedKey,
    ) -> Result<String, MasterError> {
        match wrapped.bytes.strip_prefix(OUTSIDE) {
            Some(body) => self.outside(context, &wrapped.master)?.version_of(body),
            None => self
                .in_keyring(wrapped.master.clone())
                .version_of(&wrapped.bytes),
        }
    }

    /// The keyring's master that a wrapped key needs, and which version of it; none of a key that a
    /// master outside wrapped. Asks nobody.
    pub fn keyring_version(
        &self,
        wrapped: &WrappedKey,
    ) -> Result<Option<(String, u32)>, MasterError> {
        if !wrapped.is_by_keyring() {
            return Ok(None);
        }
        let wrapped = WrappedTableKey::from_bytes(&wrapped.bytes)?;
        Ok(Some((wrapped.master().to_owned(), wrapped.version())))
    }

    /// Whether a key that the keyring wrapped opens now; of any other it says nothing, since that
    /// would ask its master.
    pub fn check_by_keyring(
        &self,
        context: &KeyContext,
        wrapped: &WrappedKey,
    ) -> Result<(), MasterError> {
        if wrapped.is_by_keyring() {
            self.unwrap_secret(context, wrapped)?;
        }
        Ok(())
    }

    fn wrap_secret(
        &self,
        name: &str,
        context: &KeyContext,
        secret: &Secret<32>,
    ) -> Result<WrappedKey, MasterError> {
        let bytes = self.master(name).wrap(context, secret)?;
        if self.is_outside(name) {
            return Ok(outside(name, &bytes));
        }
        Ok(WrappedKey {
            master: name.to_owned(),
            bytes,
        })
    }

    /// The wrapped key says itself whether the keyring wrapped it: such a key opens even when the
    /// policy has given its master's name to a KMS since.
    fn unwrap_secret(
        &self,
        context: &KeyContext,
        wrapped: &WrappedKey,
    ) -> Result<Secret<32>, MasterError> {
        match wrapped.bytes.strip_prefix(OUTSIDE) {
            Some(body) => self
                .outside(context, &wrapped.master)?
                .unwrap(context, body),
            None => self
                .in_keyring(wrapped.master.clone())
                .unwrap(context, &wrapped.bytes),
        }
    }

    fn outside(
        &self,
        context: &KeyContext,
        name: &str,
    ) -> Result<Arc<dyn MasterKeys>, MasterError> {
        match self.masters().0.get(name) {
            Some(Named::Outside(master)) => Ok(Arc::clone(master)),
            _ => Err(MasterError::NotConfigured {
                context: *context,
                master: name.to_owned(),
            }),
        }
    }

    fn in_keyring(&self, name: String) -> KeyringMaster<'_> {
        KeyringMaster {
            keyring: &self.keyring,
            name,
        }
    }
}

fn outside(master: &str, body: &[u8]) -> WrappedKey {
    WrappedKey {
        master: master.to_owned(),
        bytes: [OUTSIDE.as_slice(), body].concat(),
    }
}

/// A master of either kind.
pub enum Master<'a> {
    /// Of the keyring.
    Keyring(KeyringMaster<'a>),
    /// Outside of it.
    Outside(Arc<dyn MasterKeys>),
}

impl<'a> Deref for Master<'a> {
    type Target = dyn MasterKeys + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Keyring(master) => master,
            Self::Outside(master) => master.as_ref(),
        }
    }
}
