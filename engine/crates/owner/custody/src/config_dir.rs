//! The owner's folder: `keyring.coffer`, `policy.toml` with `policy.sig`, `register.coffer`,
//! `audit/`.

use std::{
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// The environment variable that names the folder.
pub(crate) const ENV: &str = "COFFER_HOME";

/// The owner's folder at the client site. Names paths; opens nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDir(PathBuf);

impl ConfigDir {
    /// This very folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
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
            .create(&self.0)
            .map_err(|source| ConfigDirError::Create {
                path: self.0.clone(),
                source,
            })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The keyring file.
    pub fn keyring(&self) -> PathBuf {
        self.0.join("keyring.coffer")
    }

    /// The policy file.
    pub fn policy(&self) -> PathBuf {
        self.0.join("policy.toml")
    }

    /// What says that the policy is the owner's.
    pub fn policy_signature(&self) -> PathBuf {
        self.0.join("policy.sig")
    }

    /// The folder of the audit log.
    pub fn audit(&self) -> PathBuf {
        self.0.join("audit")
    }

    /// The register of table versions.
    pub fn register(&self) -> PathBuf {
        self.0.join("register.coffer")
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
