//! Adopting: files that PyArrow or Spark encrypted under the owner's masters become a table, and
//! stay as they are.
//!
//! What adoption vouches for: that every file was encrypted whole by one who had the masters'
//! leave, that every page of it is authentic under its keys, and from then on that these are the
//! files. Whether files were missing, old or swapped for others of the same masters before, nobody
//! can tell: nothing pinned them.

mod error;
mod look;

use std::{path::Path, sync::Arc};

use coffer_custody::{ConfigDir, Policy, TablePolicy, Vault};
use coffer_sealing::KekSet;

pub use error::AdoptError;
pub use look::Adoption;
use look::{ForeignFile, in_file};

use crate::{
    Error, FileReader, NewColumns, TableWrite, VerifiedManifest, disk::Folder, is_absent, spelling,
    write::rules,
};
use coffer_format::{Adopted, AdoptedKey, FilePin};
use coffer_schemes::Protection;

/// How a table is made of an [`Adoption`].
pub struct AdoptAs<'a> {
    /// Its name in policy and register.
    pub name: &'a str,
    /// What wraps its key; none: as the policy has it.
    pub master: Option<&'a str>,
}

impl Adoption {
    /// Makes the table: its key, its files' keys under it, and, after every page was opened, its
    /// first version. `step` is called after each file with its size. Where it fails nothing is
    /// registered, and the files are as they were.
    pub fn publish(
        self,
        (config_dir, vault, policy): (&ConfigDir, &Vault, &Policy),
        table: &AdoptAs<'_>,
        mut step: impl FnMut(u64),
    ) -> Result<VerifiedManifest, Error> {
        for spelling in &self.spellings {
            if !is_absent(config_dir, vault.keyring(), policy, spelling)? {
                return Err(AdoptError::Known.into());
            }
        }
        let rules = rules(policy, table.name);
        // One with an id is another table, and said to be that when this one begins.
        let mut spellings = self.spellings;
        if let Some(path) = rules.path()
            && rules.id().is_none()
        {
            // The owner's own, as the command's argument is.
            let by_policy = spelling::of_owner(path).unwrap_or_default();
            if !by_policy.iter().any(|path| spellings.contains(path)) {
                return Err(AdoptError::Path {
                    folder: self.folder,
                    wanted: path.to_owned(),
                }
                .into());
            }
            spellings.extend(by_policy.into_iter().filter(|path| *path != self.folder));
        }
        for (name, _, _) in &self.columns {
            let wanted = rules.column(name);
            if wanted.protections() != [Protection::Tee] {
                let (column, wanted) = (name.clone(), wanted.text());
                return Err(AdoptError::Protection { column, wanted }.into());
            }
        }
        let master = master(policy, &rules, &self.folder, table.master)?;
        let columns = NewColumns {
            columns: self.columns,
            ..NewColumns::default()
        };
        let root = Folder::at(&self.folder, config_dir.reach().as_ref())?;
        let folder = (root, spellings);
        let write = TableWrite::adopt(
            config_dir,
            vault,
            policy,
            (table.name, &master),
            folder,
            columns,
        )?;
        let pins = self
            .files
            .into_iter()
            .map(|file| {
                let pin = pinned(&write, file)?;
                read_through(&write, &pin).map_err(|error| in_file(&pin.path, error))?;
                step(pin.size);
                Ok(pin)
            })
            .collect::<Result<Vec<_>, Error>>();
        match pins {
            Ok(pins) => write.publish(pins),
            Err(error) => {
                // The first failure is what counts; what is left in the register, `verify --clean`
                // removes.
                let _ = write.abandon();
                Err(error)
            }
        }
    }
}

fn master(
    policy: &Policy,
    rules: &TablePolicy,
    folder: &Path,
    given: Option<&str>,
) -> Result<String, Error> {
    let by_policy = policy.master_at(rules, folder)?;
    let bound = rules.own_master().is_some() || policy.zone_of(folder)?.is_some();
    match given {
        Some(given) if bound && given != by_policy => Err(AdoptError::Master {
            given: given.to_owned(),
            wanted: by_policy,
        }
        .into()),
        Some(given) => Ok(given.to_owned()),
        None => Ok(by_policy),
    }
}

/// The file with its data keys under the table's KEKs.
fn pinned(write: &TableWrite, file: ForeignFile) -> Result<FilePin, Error> {
    let mut keys = Vec::with_capacity(file.keys.len());
    for key in file.keys {
        let column = match key.column {
            Some(at) => write.columns().get(at).map_or(0, |column| column.id),
            None => 0,
        };
        let mut adopted = AdoptedKey {
            column,
            metadata: key.metadata,
            wrapped: String::new(),
        };
        adopted.wrapped = write
            .keks()
            .get(&adopted.kek(write.table()))?
            .wrap(&key.dek)?;
        keys.push(adopted);
    }
    Ok(FilePin {
        adopted: Some(Adopted {
            clear_footer: file.clear_footer,
            keys,
        }),
        ..file.pin
    })
}

/// Opens every page with the keys that engines will get.
fn read_through(write: &TableWrite, pin: &FilePin) -> Result<(), Error> {
    let keks: &Arc<KekSet> = write.keks();
    for batch in FileReader::of_adopted(write, pin, keks)? {
        batch?;
    }
    Ok(())
}
