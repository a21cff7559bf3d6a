//! The owner's folder: `keyring.coffer`, `policy.toml` with `policy.sig`, `register.coffer`,
//! `audit/`.

use std::{
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use coffer_protocol::storage::{Reach, Storage};

/// The environment variable that names the folder.
pub(crate) const ENV: &str = "COFFER_HOME";

/// The owner's folder at the client site, and how tables are reached that lie elsewhere than on
/// local disks. Names paths; opens nothing.
#[derive(Debug, Clone)]
pub struct ConfigDir {
    folder: PathBuf,
    reach: Reach,
}

impl ConfigDir {
    /// This very folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            reach: None,
        }
    }

    /// The same, with a way to storage.
    #[must_use]
    pub fn reaching(self, storage: Arc<dyn Storage>) -> Self {
        Self {
            reach: Some(storage),
            ..self
        }
    }

    /// How tables are reached whose folders are URLs.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// `folder` if given, else `$COFFER_HOME`, else `~/.coffer`.
    pub fn locate(folder: Option<&Path>) -> Result<Self, ConfigDirError> {
        if let Some(folder) = folder {
            return Ok(Self::at(folder));
        }
        match std::env::var_os(ENV) {
            Some(named) if !named.is_empty() => Ok(Self::at(named)),
            _ => Ok(Self::at(
                std::env::home_dir()
                    .ok_or(ConfigDirError::Unknown)?
                    .join(".coffer"),
            )),
        }
    }

    /// Makes the folder, closed to others (mode 0700), unless it is there.
    pub fn create(&self) -> Result<(), ConfigDirError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|source| ConfigDirError::Create {
                path: self.folder.clone(),
                source,
            })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The keyring file.
    pub fn keyring(&self) -> PathBuf {
        self.folder.join("keyring.coffer")
    }

    /// The policy file.
    pub fn policy(&self) -> PathBuf {
        self.folder.join("policy.toml")
    }

    /// What says that the policy is the owner's.
    pub fn policy_signature(&self) -> PathBuf {
        self.folder.join("policy.sig")
    }

    /// The folder of the audit log.
    pub fn audit(&self) -> PathBuf {
        self.folder.join("audit")
    }

    /// The register of table versions.
    pub fn register(&self) -> PathBuf {
        self.folder.join("register.coffer")
    }
}

/// Why there is no config directory.
#[derive(Debug, thiserror::Error)]
pub enum ConfigDirError {
    /// Neither an argument nor the environment says where.
    #[error("no config directory is known")]
    Unknown,
    /// The folder cannot be made.
    #[error("cannot make the folder {path}: {source}", path = path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl ConfigDirError {
    /// A stable word for the cause.
    pub fn code(&self) -> &'static str {
        match self {
            ConfigDirError::Unknown => "config_dir_unknown",
            ConfigDirError::Create { .. } => "config_dir_create",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some("name a folder with --home or COFFER_HOME that you may write to".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn made_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let config_dir = ConfigDir::at(folder.path().join("a/b"));
        config_dir.create().unwrap();
        config_dir.create().unwrap();
        assert_eq!(
            std::fs::metadata(config_dir.path())
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
    }
}
