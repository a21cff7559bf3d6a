//! What can go wrong with a sealed table, and whose doing it is.

mod table;

use std::{io, path::PathBuf};

use coffer_format::Error as FormatError;
use coffer_sealing::TableId;

/// One variant per cause. Texts name tables, files and columns, never values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of the files.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Files of another program are not adopted.
    #[error(transparent)]
    Adopt(#[from] crate::AdoptError),
    /// A key of such a file.
    #[error(transparent)]
    FileKey(#[from] coffer_custody::FileKeyError),
    /// A file has another length than the manifest says.
    #[error("the file {file} has {got} bytes where {want} were written")]
    FileSize {
        /// Relative path.
        file: String,
        /// As pinned.
        want: u64,
        /// As found.
        got: u64,
    },
    /// A path inside a manifest or descriptor that is not a plain file name.
    #[error("the table names a file outside its folder")]
    FilePath,
    /// An unverified input of which one file is unlike the others.
    #[error("the columns or types of {0} differ from those of the input's first file")]
    PlainColumns(PathBuf),
    /// An unverified input with times of before the Gregorian calendar as Spark 2 wrote them.
    #[error(
        "dates or times of {0} are in Spark's legacy calendar: rewrite it with Spark 3 or later, \
            rebase mode CORRECTED"
    )]
    PlainCalendar(PathBuf),
    /// An unverified input with a type that Spark does not read.
    #[error("column `{0}` has times in nanoseconds, and Spark's have microseconds")]
    PlainNanos(String),
    /// There is no manifest in the folder.
    #[error("{0} is not a sealed table: it has no manifest")]
    NotATable(PathBuf),
    /// The manifest's envelope is malformed.
    #[error("the manifest's envelope is malformed: {0}")]
    Envelope(&'static str),
    /// The manifest was made by a later version of Coffer.
    #[error("the manifest has format {0}, which this version does not know")]
    ManifestFormat(u16),
    /// The manifest's key-check does not fit.
    #[error("the manifest is sealed under another key")]
    ManifestKey,
    /// The manifest does not open.
    #[error("the manifest was altered")]
    ManifestAltered,
    /// The manifest opens, but its text is not a manifest.
    #[error("the manifest's content is malformed: {0}")]
    ManifestContent(String),
    /// The manifest names another table than expected.
    #[error("the manifest belongs to table {got}, not to {want}")]
    ManifestForeign {
        /// Table id expected.
        want: TableId,
        /// Table id found.
        got: TableId,
    },
    /// The manifest of the newest version is not in the folder.
    #[error("the manifest of version {want} is missing; the folder's newest is {newest:?}")]
    VersionMissing {
        /// What the register says.
        want: u64,
        /// What the folder has.
        newest: Option<u64>,
    },
    /// The manifest of the newest version is another than the register knows.
    #[error("the manifest of version {version} is not the one that was published")]
    VersionReplaced {
        /// Which.
        version: u64,
    },
    /// The folder holds a version newer than the register knows.
    #[error("the folder has a manifest of version {got}, newer than the register's {want}")]
    VersionUnknown {
        /// What the register says.
        want: u64,
        /// What the folder has.
        got: u64,
    },
    /// The chain of manifests is broken.
    #[error("the manifest of version {version} does not follow from version {parent}")]
    ChainBroken {
        /// The child.
        version: u64,
        /// The parent.
        parent: u64,
    },
    /// The folder was put in another's place, or another in its place, while the table was being
    /// written or cleaned.
    #[error("the folder {0} is not the one any more in which the table was opened")]
    FolderChanged(PathBuf),
    /// By links a path leads to a table, and is none of its recorded spellings.
    #[error(
        "{path} leads to where the table `{table}` lies, and nobody recorded it as a path of that \
            table"
    )]
    PathNotRecorded {
        /// As it was written.
        path: PathBuf,
        /// What storage shows there.
        table: String,
    },
    /// A path that is to be recorded is another table's.
    #[error("{path} is the path of the table `{table}`")]
    PathTaken {
        /// Which.
        path: PathBuf,
        /// The other table.
        table: String,
    },
    /// Two tables of the policy have one path.
    #[error("the policy gives the path {path} to two tables, `{}` and `{}`", tables[0], tables[1])]
    PathTwice {
        /// The path.
        path: PathBuf,
        /// Their names.
        tables: [String; 2],
    },
    /// A word that is one table's name and another's folder.
    #[error("`{text}` is a table's name, and here also the folder of the table `{there}`")]
    PathOrName {
        /// As typed.
        text: String,
        /// The name of the one whose folder it is.
        there: String,
    },
    /// The register could not be stored so that it is known what it says by now.
    #[error("whether version {version} of `{table}` counts is not known: {source}")]
    PublicationUnknown {
        /// The table's name.
        table: String,
        /// The version.
        version: u64,
        /// Why.
        source: Box<Error>,
    },
    /// The register was made by a later version of Coffer.
    #[error("the register has format {0}, which this version does not know")]
    RegisterFormat(u16),
    /// The table was never finished.
    #[error("the table `{0}` was never finished: its writing was interrupted")]
    Unfinished(String),
    /// The register does not know the table.
    #[error("the register knows no table `{0}`")]
    UnknownTable(String),
    /// The folder's table is not in this config directory's register.
    #[error("the table {id} at {path} is not in this config directory's register")]
    ForeignTable {
        /// From the envelope, unverified.
        id: TableId,
        /// Where.
        path: PathBuf,
    },
    /// The policy pins another id for the name.
    #[error("the policy says that table `{name}` has the id {want}; the register says {got}")]
    PolicyId {
        /// The table's name.
        name: String,
        /// By the policy.
        want: TableId,
        /// By the register.
        got: TableId,
    },
    /// A name is taken.
    #[error("there is already a table named `{0}`")]
    NameTaken(String),
    /// A folder is taken.
    #[error("{0} exists and is not empty")]
    FolderTaken(PathBuf),
    /// Somebody put a manifest of that version into the folder, of which the register knows
    /// nothing.
    #[error("version {0} of the table exists already")]
    VersionTaken(u64),
    /// Another writer published a version meanwhile.
    #[error(
        "another writer changed the table `{table}`: this write began from version {base}, and by \
            now version {newest} is the newest"
    )]
    Conflict {
        /// The table's name.
        table: String,
        /// That the write began from; 0: there was no table.
        base: u64,
        /// That the register has; 0: there is no table any more.
        newest: u64,
    },
    /// A wrapped key that others changed each time that it was to be changed.
    #[error("the key of `{0}` was rewrapped by others each time")]
    RewrapRaced(String),
    /// A version that was to have the same rows as the one before.
    #[error("{got} rows were written of the table's {want}")]
    RowsLost {
        /// Of the version before.
        want: u64,
        /// Written.
        got: u64,
    },
    /// A master that is needed cannot be destroyed.
    #[error("the master key {master:?} is needed by {}", needed(tables, links, *files))]
    MasterNeeded {
        /// The master.
        master: String,
        /// Tables whose keys it wrapped.
        tables: Vec<String>,
        /// Links whose keys it wrapped.
        links: Vec<String>,
        /// It wrapped keys of files that other programs wrote.
        files: bool,
    },
    /// A table that is being written cannot be cleared away.
    #[error("the table `{0}` is being written by a running program")]
    BeingWritten(String),
    /// A dropped table's files are still there.
    #[error("the table at {0} is still there")]
    StillThere(PathBuf),
    /// The policy wants another protection than the stored one.
    #[error("column `{column}` is stored as \"{stored}\", and the policy says \"{policy}\"")]
    ProtectionChanged {
        /// The column.
        column: String,
        /// In the manifest.
        stored: String,
        /// In the policy.
        policy: String,
    },
    /// All columns are partition columns.
    #[error("a table needs a column that it is not partitioned by")]
    OnlyPartitions,
    /// A column that was taken for a partition column.
    #[error("the table is not partitioned by `{0}`")]
    NotAPartition(String),
    /// A column is stored in several ways, and one of them holds other values.
    #[error("column `{column}`: what is stored as \"{encoding}\" holds other values than the rest")]
    Stale {
        /// The column.
        column: String,
        /// Which.
        encoding: coffer_format::StoredEncoding,
    },
    /// A protection that a column cannot have.
    #[error("column `{column}`: {source}")]
    Unfit {
        /// The column.
        column: String,
        /// Why.
        source: coffer_schemes::SchemeError,
    },
    /// A domain in the policy that is none of the column's type.
    #[error("column `{column}`: its domain is not usable: {reason}")]
    Domain {
        /// The column.
        column: String,
        /// Why.
        reason: String,
    },
    /// A column that could be encrypted but not opened again.
    #[error(
        "column `{0}` could not be opened again: what is stored of it has only a prefix of each \
            value"
    )]
    NotOpenable(String),
    /// Schemes take single values.
    #[error(
        "the policy wants column `{column}` as {protection}, and an array, struct or map is \
            always tee"
    )]
    NestedProtection {
        /// The column.
        column: String,
        /// By the policy.
        protection: String,
    },
    /// A sum of a whole number's column is no BIGINT.
    #[error("a sum of column `{0}` is beyond BIGINT")]
    SumOverflow(String),
    /// Sums of a column could overflow.
    #[error("column `{column}`: sums of {rows} values could leave 64 bits")]
    SumRange {
        /// The column.
        column: String,
        /// By the policy.
        rows: u64,
    },
    /// A table has more rows than the policy allows for its sums.
    #[error("column `{column}`: the policy allows {most} rows, and the table has {rows}")]
    SumRows {
        /// The column.
        column: String,
        /// Of the table.
        rows: u64,
        /// By the policy.
        most: u64,
    },
    /// A partitioned table of other protections.
    #[error(
        "a partitioned table has only columns that are \"tee\", and partition columns that are \
         \"plain\""
    )]
    PartitionedStored,
    /// The register does not know the link of a column.
    #[error("the register knows no link {0}")]
    LinkUnknown(coffer_sealing::LinkId),
    /// The policy gives an id to a link that the register does not know.
    #[error(
        "the policy already has a link `{name}` with the id {id}, which this config directory's \
            register does not know"
    )]
    PolicyHasLink {
        /// The link's name.
        name: String,
        /// By the policy.
        id: coffer_sealing::LinkId,
    },
    /// The policy pins another id for a link.
    #[error("the policy says that link `{name}` has the id {want}; the register says {got}")]
    PolicyLink {
        /// The link's name.
        name: String,
        /// By the policy.
        want: coffer_sealing::LinkId,
        /// By the register.
        got: coffer_sealing::LinkId,
    },
    /// Columns of a link whose ciphertexts would not be comparable.
    #[error(
        "link `{link}` is of columns that are stored as \"{encoding}\" of {want}, and this one is \
            {got}"
    )]
    LinkShape {
        /// The link's name.
        link: String,
        /// As which they are stored.
        encoding: String,
        /// Of the link.
        want: String,
        /// Of the column.
        got: String,
    },
    /// The register does not open under this keyring.
    #[error("the register at {0} was altered, or belongs to another keyring")]
    RegisterAltered(PathBuf),
    /// The register opens, but its text is not a register.
    #[error("the register's content is malformed: {0}")]
    RegisterContent(String),
    /// Two columns have one name.
    #[error("two columns are named `{0}` (upper and lower case count as one)")]
    DuplicateColumn(String),
    /// A table without columns.
    #[error("a table needs at least one column")]
    NoColumns,
    /// The keyring refused.
    #[error(transparent)]
    Keyring(#[from] coffer_custody::KeyringError),
    /// A master outside of the keyring refused, or could not be asked.
    #[error(transparent)]
    Master(coffer_custody::MasterError),
    /// A table's or link's key cannot be had from its master.
    #[error("the key of {of} cannot be had: {error}")]
    Key {
        /// Whose.
        of: String,
        /// Why.
        error: coffer_custody::MasterError,
    },
    /// The policy refused.
    #[error(transparent)]
    Policy(#[from] coffer_custody::PolicyError),
    /// The policy gives an id to a table that is to be made.
    #[error(
        "the policy already has a table `{name}` with the id {id}, which this config directory's \
            register does not know"
    )]
    PolicyHasId {
        /// The table's name.
        name: String,
        /// By the policy.
        id: TableId,
    },
}

impl Error {
    pub(crate) fn key_of(of: String, error: coffer_custody::MasterError) -> Self {
        Self::Key { of, error }
    }

    pub(crate) fn io(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let failed = FormatError::io(doing, path);
        move |source| failed(source).into()
    }
}

/// "the tables `a`, `b` and the links `c` and Parquet files that other programs wrote"
fn needed(tables: &[String], links: &[String], files: bool) -> String {
    let list = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what} `{}`", names.join("`, `")))
    };
    let files = files.then(|| "Parquet files that other programs wrote".to_owned());
    let lists = [list("the tables", tables), list("the links", links), files];
    lists
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" and ")
}

impl From<coffer_custody::MasterError> for Error {
    fn from(error: coffer_custody::MasterError) -> Self {
        match error {
            coffer_custody::MasterError::Keyring(error) => Self::Keyring(error),
            error => Self::Master(error),
        }
    }
}

/// Errors of the files' format, by whatever they are made from.
macro_rules! of_the_format {
    ($($source:ty),* $(,)?) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::Format(error.into())
            }
        })*
    };
}

of_the_format!(
    arrow::error::ArrowError,
    parquet::errors::ParquetError,
    coffer_format::UnsupportedType,
    coffer_sealing::KekError,
    coffer_sealing::Error,
);
