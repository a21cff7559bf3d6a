//! An owner with a config directory, a keyring and a policy, whose tables lie beside the config
//! directory.

#![allow(unreachable_pub, dead_code)] // each test binary uses its part

use std::{fs, path::PathBuf, sync::Arc};

use arrow::array::RecordBatch;
use coffer_catalog::{
    Error, FileReader, NewColumns, TableWrite, Target, VerifiedManifest, open_table, policy,
};
use coffer_custody::{ConfigDir, Keyring, Passphrase, Policy, Vault};
use coffer_format::parse_ddl;

pub struct Owner {
    _folder: tempfile::TempDir,
    pub root: PathBuf,
    pub config_dir: ConfigDir,
    pub vault: Vault,
    pub policy: Policy,
}

impl Owner {
    pub fn new(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let config_dir = ConfigDir::at(root.join("config"));
        config_dir.create().unwrap();
        let vault = Vault::from(
            Keyring::create(
                &config_dir.keyring(),
                &Passphrase::new("correct horse").unwrap(),
            )
            .unwrap(),
        );
        let policy = policy::replace(&config_dir, vault.keyring(), policy).unwrap();
        Self {
            _folder: folder,
            root,
            config_dir,
            vault,
            policy,
        }
    }

    /// The policy of this text.
    pub fn policy_of(&self, text: &str) -> Policy {
        policy::replace(&self.config_dir, self.vault.keyring(), text).unwrap()
    }

    pub fn create(
        &self,
        name: &str,
        ddl: &str,
        partitioned_by: &[&str],
    ) -> Result<TableWrite, Error> {
        let new = columns(ddl, partitioned_by);
        TableWrite::create(
            &self.config_dir,
            &self.vault,
            &self.policy,
            name,
            &self.root.join(name),
            new,
        )
    }

    pub fn open(&self, name: &str) -> Result<VerifiedManifest, Error> {
        open_table(
            &self.config_dir,
            &self.vault,
            &self.policy,
            &Target::Name(name.into()),
        )
    }
}

pub fn columns(ddl: &str, partitioned_by: &[&str]) -> NewColumns {
    NewColumns {
        columns: parse_ddl(ddl).unwrap(),
        partitioned_by: partitioned_by.iter().map(ToString::to_string).collect(),
    }
}

/// All rows of a table.
pub fn read(table: &VerifiedManifest) -> Result<RecordBatch, Error> {
    let mut batches = Vec::new();
    for pin in &table.manifest().files {
        for batch in FileReader::open(table, pin)? {
            batches.push(batch?);
        }
    }
    Ok(arrow::compute::concat_batches(&Arc::new(table.manifest().schema()), &batches).unwrap())
}
