//! The passphrase that opens a keyring. Asking a person for it is the CLI's part.

use std::{
    fs::File,
    io::Read,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

/// The environment variable that `Passphrase::from_env` reads.
pub(crate) const ENV: &str = "COFFER_PASSPHRASE";
const MAX_LEN: u64 = 64 << 10;

/// A passphrase; zeroed on drop, no `Debug`.
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// As typed. One line break at the end is not part of it.
    pub fn new(typed: impl Into<Vec<u8>>) -> Result<Self, PassphraseError> {
        let mut bytes = Zeroizing::new(typed.into());
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        if bytes.is_empty() {
            return Err(PassphraseError::Empty);
        }
        Ok(Self(bytes))
    }

    /// The file's content, without one line break at its end.
    pub fn from_file(path: &Path) -> Result<Self, PassphraseError> {
        let failed = |source| PassphraseError::File {
            path: path.to_path_buf(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        // Room for all of it at once, so that no grown-out-of copy is left in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(MAX_LEN).unwrap_or(0)));
        file.take(MAX_LEN).read_to_end(&mut bytes).map_err(failed)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length >= MAX_LEN) {
            return Err(PassphraseError::TooLong(path.to_path_buf()));
        }
        Self::new(std::mem::take(&mut *bytes))
    }

    /// From the environment variable `COFFER_PASSPHRASE`.
    pub fn from_env() -> Result<Self, PassphraseError> {
        Self::new(
            std::env::var_os(ENV)
                .ok_or(PassphraseError::NotSet)?
                .into_vec(),
        )
    }

    /// The bytes, for key derivation.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

/// Why there is no passphrase.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    /// Nothing was typed, or the file or variable is empty.
    #[error("the passphrase is empty")]
    Empty,
    /// The environment has none.
    #[error("no passphrase: {ENV} is not set")]
    NotSet,
    /// The file cannot be read.
    #[error("cannot read the passphrase file {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No passphrase is that long: probably the wrong file.
    #[error("{path} is too long to be a passphrase", path = _0.display())]
    TooLong(PathBuf),
}

impl PassphraseError {
    /// A stable word for the cause.
    pub fn code(&self) -> &'static str {
        match self {
            PassphraseError::Empty => "passphrase_empty",
            PassphraseError::NotSet => "passphrase_not_set",
            PassphraseError::File { .. } => "passphrase_file",
            PassphraseError::TooLong(_) => "passphrase_too_long",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            PassphraseError::Empty => {
                "give a passphrase of at least one character; better, of several words"
            }
            PassphraseError::NotSet => {
                "set COFFER_PASSPHRASE, or name a file with --passphrase-file"
            }
            PassphraseError::File { .. } => "check the path and its permissions",
            PassphraseError::TooLong(_) => "name a file that holds the passphrase and nothing else",
        };
        Some(text.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_break_is_cut() {
        for (typed, want) in [
            ("a b", "a b"),
            ("a b\n", "a b"),
            ("a b\r\n", "a b"),
            ("a b\n\n", "a b\n"),
            (" a ", " a "),
        ] {
            assert_eq!(
                Passphrase::new(typed).unwrap().expose(),
                want.as_bytes(),
                "{typed:?}"
            );
        }
    }

    #[test]
    fn empty_is_refused() {
        assert!(matches!(Passphrase::new(""), Err(PassphraseError::Empty)));
        assert!(matches!(Passphrase::new("\n"), Err(PassphraseError::Empty)));
    }

    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        assert!(matches!(
            Passphrase::from_file(&path),
            Err(PassphraseError::File { .. })
        ));
        std::fs::write(&path, "correct horse\n").unwrap();
        assert_eq!(
            Passphrase::from_file(&path).unwrap().expose(),
            b"correct horse"
        );
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        assert!(matches!(
            Passphrase::from_file(&path),
            Err(PassphraseError::TooLong(_))
        ));
    }
}
