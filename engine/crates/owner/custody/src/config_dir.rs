//! The owner's folder: `keyring.coffer`, `policy.toml` with `policy.sig`, `register.coffer`,
//! `audit/`.

use std::{
    ffi::OsString,
    fmt,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use coffer_protocol::storage::{Reach, Storage};

/// The environment variable that names the folder.
pub(crate) const ENV: &str = "COFFER_CONFIG_DIR";

/// What that variable was called before. It still works, with a warning.
const OLD_ENV: &str = "COFFER_HOME";

/// A name of before that named the folder. It works, and its user is told of the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldName {
    /// The option `--home`.
    Option,
    /// The environment variable `COFFER_HOME`.
    Variable,
}

impl fmt::Display for OldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option => f.write_str("--home is an old name: use --config-dir instead"),
            Self::Variable => write!(f, "{OLD_ENV} is an old name: set {ENV} instead"),
        }
    }
}

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

    /// `folder` if given, else `$COFFER_CONFIG_DIR`, else `~/.coffer`.
    pub fn locate(folder: Option<&Path>) -> Result<Self, ConfigDirError> {
        if let Some(folder) = folder {
            return Ok(Self::at(folder));
        }
        match one_of(variable(ENV), variable(OLD_ENV))? {
            Some(named) => Ok(Self::at(named)),
            None => Ok(Self::at(
                std::env::home_dir()
                    .ok_or(ConfigDirError::Unknown)?
                    .join(".coffer"),
            )),
        }
    }

    /// The old name by which [`ConfigDir::locate`] finds it, if any: `home` is what the option
    /// `--home` has, and `folder` either option.
    pub fn old_name(folder: Option<&Path>, home: Option<&Path>) -> Option<OldName> {
        if home.is_some() {
            return Some(OldName::Option);
        }
        (folder.is_none() && variable(OLD_ENV).is_some()).then_some(OldName::Variable)
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

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// What the variable is, by either name. Two names with two values are an error: nobody can know
/// which is meant.
fn one_of(
    now: Option<OsString>,
    old: Option<OsString>,
) -> Result<Option<OsString>, ConfigDirError> {
    match (now, old) {
        (Some(now), Some(old)) if now != old => Err(ConfigDirError::TwoNames),
        (now, old) => Ok(now.or(old)),
    }
}

/// Why there is no config directory.
#[derive(Debug, thiserror::Error)]
pub enum ConfigDirError {
    /// Neither an argument nor the environment says where.
    #[error("no config directory is known")]
    Unknown,
    /// The variable and its old name say two different things.
    #[error("{ENV} and {OLD_ENV}, its old name, name two folders")]
    TwoNames,
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
            ConfigDirError::TwoNames => "config_dir_two_names",
            ConfigDirError::Create { .. } => "config_dir_create",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TwoNames => format!("unset {OLD_ENV}"),
            Self::Unknown | Self::Create { .. } => {
                "name a folder with --config-dir or COFFER_CONFIG_DIR that you may write to"
                    .to_owned()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn two_names_of_the_variable_say_one_thing() {
        let named = |name: &str| Some(OsString::from(name));
        assert_eq!(one_of(None, None).unwrap(), None);
        assert_eq!(one_of(named("/new"), None).unwrap(), named("/new"));
        assert_eq!(one_of(None, named("/old")).unwrap(), named("/old"));
        assert_eq!(one_of(named("/a"), named("/a")).unwrap(), named("/a"));
        let refused = one_of(named("/a"), named("/b")).unwrap_err();
        assert_eq!(refused.code(), "config_dir_two_names");
        assert_eq!(refused.hint().unwrap(), "unset COFFER_HOME");
    }

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
