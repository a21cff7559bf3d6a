//! Why files of other programs are not adopted.

use std::path::PathBuf;

use coffer_custody::FileKeyError;

/// One variant per cause. Files and columns are named, never values.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// Nothing to adopt.
    #[error("there is no Parquet file in the folder")]
    Empty,
    /// Only files right in the folder can be a table's.
    #[error("{0} is a folder, and a table that is adopted has its files in one folder")]
    Folder(String),
    /// Neither magic of Parquet.
    #[error("{0} is no Parquet file")]
    NotParquet(String),
    /// Its footer does not say what its keys are.
    #[error("{0} is plain: nothing in it is encrypted")]
    Plain(String),
    /// Anybody who has the storage could read and change it.
    #[error("column `{column}` of {file} is not encrypted")]
    ClearColumn {
        /// By its name.
        file: String,
        /// By its name.
        column: String,
    },
    /// A key that does not open.
    #[error("{file}: {source}")]
    Key {
        /// By its name.
        file: String,
        /// Why.
        source: FileKeyError,
    },
    /// Keys are told apart by their metadata, and each belongs to one column.
    #[error("column `{column}` of {file} shares its key, or has several")]
    SharedKey {
        /// By its name.
        file: String,
        /// By its name.
        column: String,
    },
    /// The footer's key is not to be told.
    #[error("{0} does not have one key for its footer")]
    FooterKey(String),
    /// Files of one table have the same columns.
    #[error("the columns or types of {0} differ from those of the first file")]
    Columns(String),
    /// It would be taken for a leftover of our own writers.
    #[error("{0} has a name as Coffer gives to its own files")]
    Name(String),
    /// The footer is longer than any that is read.
    #[error("{file} says that its footer has {length} bytes, more than is read")]
    Footer {
        /// By its name.
        file: String,
        /// In bytes.
        length: u64,
    },
    /// Reading it through failed.
    #[error("{file}: {source}")]
    File {
        /// By its name.
        file: String,
        /// What.
        source: Box<crate::Error>,
    },
    /// The files hold each column as itself, encrypted.
    #[error("the policy wants column `{column}` as {wanted}, and the files have it as tee")]
    Protection {
        /// By its name.
        column: String,
        /// By the policy.
        wanted: String,
    },
    /// The table's entry or zone says otherwise.
    #[error(
        "the policy gives a table of this name at this folder the master {wanted:?}, not {given:?}"
    )]
    Master {
        /// By the caller.
        given: String,
        /// By the policy.
        wanted: String,
    },
    /// The policy has a table of the name elsewhere.
    #[error("the policy has a table of this name at {}, not at {}", wanted.display(),
        folder.display())]
    Path {
        /// That of the files.
        folder: PathBuf,
        /// By the policy.
        wanted: PathBuf,
    },
    /// There is one already.
    #[error("the folder is a sealed table already, or the policy has one there")]
    Known,
}

impl AdoptError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Empty => "name the folder that holds the files",
            Self::Folder(_) => {
                "move it elsewhere, or name the folder that holds the files; partitioned data is \
                    brought in with coffer decrypt and encrypt"
            }
            Self::NotParquet(_) => {
                "move it elsewhere; names that begin with . or _ are passed over"
            }
            Self::Plain(_) => "seal it with coffer encrypt",
            Self::ClearColumn { .. } => {
                "have it written with a key for every column (uniform encryption, or all columns \
                    named), or seal it with coffer encrypt"
            }
            Self::Key { source, .. } => return source.hint(),
            Self::SharedKey { .. } | Self::FooterKey(_) => {
                "files by the key tools of PyArrow or parquet-java have a key for each column"
            }
            Self::Columns(_) => "give files of other columns a folder, and a table, of their own",
            Self::Name(_) => "rename it, if it is not one",
            Self::Footer { .. } => return None,
            Self::File { source, .. } => return source.hint(),
            Self::Protection { .. } => {
                "leave the column \"tee\" in the policy, or seal the rows with coffer encrypt"
            }
            Self::Master { .. } => "leave --master out, or change the policy",
            Self::Path { .. } => "give it another name with --name, or change the policy",
            Self::Known => "coffer verify checks it; another name is given to it in the policy",
        };
        Some(text.to_owned())
    }
}
