//! How a command fails: an exit code, an `error:` line and mostly a `hint:` line.

use std::{fmt::Display, path::Path, process::ExitCode};

use coffer_catalog::{AdoptError, Error as TableError};
use coffer_custody::{
    ConfigDirError, KeyringError, LocationError, MasterError, PassphraseError, PolicyError,
};
use coffer_format::Error as FormatError;

pub(crate) use crate::exit::Exit;

/// A command's end without success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn io(doing: &str, path: &Path, error: impl Display) -> Self {
        Self::new(
            Exit::Io,
            format!("cannot {doing} {}: {error}", path.display()),
        )
        .hint("check that the path is there, its permissions and the free space")
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn report(&self) -> ExitCode {
        let word = if self.exit == Exit::Warnings {
            "warning"
        } else {
            "error"
        };
        eprintln!("{word}: {}", self.message);
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.exit.code())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        TableError::from(error).into()
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        Self {
            exit: exit(&error),
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

fn exit(error: &TableError) -> Exit {
    match error {
        TableError::Adopt(AdoptError::File { source, .. }) => exit(source),
        TableError::Adopt(error) => exit_of_adoption(error),
        TableError::Keyring(_)
        | TableError::Master(_)
        | TableError::Key { .. }
        | TableError::Format(FormatError::Kek(_))
        | TableError::FileKey(_)
        | TableError::Format(FormatError::KekMissing(_))
        | TableError::Format(FormatError::ColumnKeyMissing(_))
        | TableError::ForeignTable { .. }
        | TableError::RegisterAltered(_)
        | TableError::ManifestKey => Exit::Keys,
        TableError::Policy(_)
        | TableError::PolicyId { .. }
        | TableError::PolicyHasId { .. }
        | TableError::PathTwice { .. }
        | TableError::Unfit { .. }
        | TableError::Domain { .. }
        | TableError::NotOpenable(_)
        | TableError::SumRange { .. }
        | TableError::SumRows { .. }
        | TableError::PartitionedStored
        | TableError::PolicyHasLink { .. }
        | TableError::PolicyLink { .. }
        | TableError::LinkShape { .. } => Exit::Policy,
        TableError::Format(FormatError::Io { .. }) | TableError::PublicationUnknown { .. } => {
            Exit::Io
        }
        TableError::NameTaken(_)
        | TableError::PathTaken { .. }
        | TableError::PathOrName { .. }
        | TableError::FolderTaken(_)
        | TableError::UnknownTable(_)
        | TableError::NotATable(_) => Exit::Usage,
        _ => Exit::Check,
    }
}

fn exit_of_adoption(error: &AdoptError) -> Exit {
    match error {
        AdoptError::Key { .. } => Exit::Keys,
        AdoptError::Protection { .. } | AdoptError::Master { .. } | AdoptError::Path { .. } => {
            Exit::Policy
        }
        AdoptError::Known => Exit::Usage,
        _ => Exit::Check,
    }
}

impl From<KeyringError> for Failure {
    fn from(error: KeyringError) -> Self {
        Self {
            exit: Exit::Keys,
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<MasterError> for Failure {
    fn from(error: MasterError) -> Self {
        Self {
            exit: Exit::Keys,
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<PassphraseError> for Failure {
    fn from(error: PassphraseError) -> Self {
        Self {
            exit: Exit::Keys,
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Self {
        Self {
            exit: Exit::Policy,
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl From<LocationError> for Failure {
    fn from(error: LocationError) -> Self {
        Self::usage(error.to_string()).hint(error.hint())
    }
}

impl From<ConfigDirError> for Failure {
    fn from(error: ConfigDirError) -> Self {
        Self {
            exit: match error {
                ConfigDirError::TwoNames => Exit::Usage,
                ConfigDirError::Unknown | ConfigDirError::Create { .. } => Exit::Io,
            },
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_file_to_be_adopted_fails_as_reading_any() {
        let failed = |source| {
            let source = Box::new(source);
            exit(&TableError::Adopt(AdoptError::File {
                file: "a.parquet".to_owned(),
                source,
            }))
        };
        let io = FormatError::Io {
            doing: "read",
            path: "a.parquet".into(),
            source: std::io::Error::other("gone"),
        };
        assert_eq!(failed(io.into()), Exit::Io);
        assert_eq!(failed(FormatError::ParquetPanic.into()), Exit::Check);
        assert_eq!(
            failed(FormatError::KekMissing("k".to_owned()).into()),
            Exit::Keys
        );
    }
}
