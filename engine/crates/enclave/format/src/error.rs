//! What can go wrong with a table's files, and whose doing it is.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

/// Linux's number for a link that leads to itself; std has no stable name for it.
const ELOOP: i32 = 40;
/// What the Parquet reader's cipher says of a module whose tag does not fit; its errors reach us as
/// text.
const TAG: &str = "ring::error::Unspecified";

/// What a host put under a file's name: a pipe, a device, a folder. Goes inside of an
/// [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("under its name lies something else than a file")]
pub struct NotAFile;

/// Who is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The caller: an argument, a policy, a missing key.
    Caller,
    /// Whoever holds the storage: bytes are not what was written.
    Host,
    /// The machine: disk full, permissions.
    System,
    /// Us.
    Internal,
}

/// One variant per cause. Texts name files and columns, never values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing failed.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// A verb: "read", "write".
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that the manifest names is not there.
    #[error("the table's file {0} is missing")]
    FileMissing(String),
    /// A file ends before bytes that the manifest says it has.
    #[error("the file {file} has {got} bytes, and what lies before byte {end} was to be read")]
    FileShort {
        /// Its path.
        file: String,
        /// Where the bytes end that were asked for.
        end: u64,
        /// As found.
        got: u64,
    },
    /// The footer's length is not the pinned one.
    #[error("a Parquet footer has {got} bytes where {want} were written")]
    FooterLength {
        /// As pinned.
        want: u64,
        /// As found.
        got: u64,
    },
    /// The file does not end in the magic of a file with encrypted footer: a plaintext Parquet
    /// file, or none.
    #[error("the file does not end as an encrypted Parquet file does")]
    FooterMagic,
    /// The footer's bytes are not those that were written.
    #[error("a Parquet footer does not have the pinned SHA-256")]
    FooterDigest,
    /// The footer says something else than the pin, though its digest fits.
    #[error("a Parquet footer has {got} rows where {want} were written")]
    FooterRows {
        /// As pinned.
        want: u64,
        /// As found.
        got: u64,
    },
    /// An unverified input that is no plain Parquet file.
    #[error("the file does not end as a plain Parquet file does")]
    PlainMagic,
    /// An unverified input that is another now. (Nobody says that what it was before was right.)
    #[error("a file of an unverified input is not what it was when the query first read it")]
    PlainChanged,
    /// An unverified input whose footer is longer than any that is read.
    #[error("the file says that its footer has {0} bytes, more than is read of a plain file")]
    PlainFooter(u64),
    /// A column that must be encrypted is not, or not with a key of its own.
    #[error("column `{0}` is not encrypted with a key of its own in the file")]
    ColumnNotEncrypted(String),
    /// A column is encrypted under a key of another table or column.
    #[error("column `{0}` is encrypted under the key of something else")]
    ColumnForeignKey(String),
    /// The key of a column that is to be read is not held.
    #[error("the key of column `{0}` is not held")]
    ColumnKeyMissing(String),
    /// A column that the caller wants is not in the file.
    #[error("there is no column `{0}` in the file")]
    NoSuchColumn(String),
    /// The Parquet reader refused the bytes.
    #[error("the Parquet reader refused the file: {0}")]
    Parquet(String),
    /// A length or count in a Parquet file is not possible: found before the Parquet reader could
    /// believe it.
    #[error("the Parquet file is malformed: {0}")]
    ParquetLength(&'static str),
    /// The Parquet reader panicked over the bytes.
    #[error("the Parquet reader gave up on malformed bytes")]
    ParquetPanic,
    /// Arrow refused.
    #[error("{0}")]
    Arrow(String),
    /// Key metadata in a file is not of the key tools' form.
    #[error("key metadata is not in the form of the PME key tools: {0}")]
    KeyMetadata(&'static str),
    /// A wrapped data key does not open under its KEK.
    #[error("a data key does not open under the key `{0}`")]
    DataKey(String),
    /// A KEK that a file names is not held.
    #[error("the key `{0}` is not held")]
    KekMissing(String),
    /// Two columns, or parts of nested ones, have one name in files.
    #[error("two columns, or parts of them, are called `{0}` in files: rename one")]
    SameLeaf(String),
    /// A type that no partition column can have.
    #[error("a table cannot be partitioned by `{0}`: equality of its type is not plain")]
    PartitionType(String),
    /// A column chunk that lies unencrypted is not the one that was written.
    #[error("a column chunk does not have the pinned SHA-256")]
    ChunkDigest,
    /// A file that was just written is another when it is read.
    #[error("the storage changed {0} while it was written")]
    ChangedWhileWriting(PathBuf),
    /// A scheme refused values.
    #[error("column `{column}`: {source}")]
    Scheme {
        /// The column.
        column: String,
        /// Why.
        source: coffer_schemes::SchemeError,
    },
    /// A column's type cannot be stored.
    #[error(transparent)]
    Type(#[from] crate::UnsupportedType),
    /// A value does not fit the column's type without loss.
    #[error("column `{column}`: {reason}")]
    Lossy {
        /// Which column.
        column: String,
        /// Why.
        reason: String,
    },
    /// A batch is not of the table's schema.
    #[error("rows of another schema than the table's: column `{0}`")]
    BatchSchema(String),
    /// A KEK is not held, or does not open what it should.
    #[error(transparent)]
    Kek(#[from] coffer_sealing::KekError),
    /// Sealing refused.
    #[error(transparent)]
    Sealing(#[from] coffer_sealing::Error),
    /// A limit of the format.
    #[error("a table's {0} is beyond the format's limit")]
    Limit(&'static str),
    /// A digest of another length than a SHA-256 has.
    #[error("the manifest's envelope is malformed: a digest has 32 bytes")]
    DigestLength,
}

const NOT_AS_WRITTEN: &str = "the table is not what was written; coffer verify lists every such \
    file; restore them from a copy";

coffer_sealing::error_table! {
    Error: &'static str, Fault;
    Self::Io { source, .. } => io_code(source), Fault::System,
        "check that the path is there, its permissions and the free space";
    Self::FileMissing(_) => "file_missing", Fault::Host, NOT_AS_WRITTEN;
    Self::FileShort { .. } => "file_length", Fault::Host, NOT_AS_WRITTEN;
    Self::FooterLength { .. } => "file_length", Fault::Host, NOT_AS_WRITTEN;
    Self::FooterMagic => "file_magic", Fault::Host, NOT_AS_WRITTEN;
    Self::FooterDigest => "file_digest", Fault::Host, NOT_AS_WRITTEN;
    Self::FooterRows { .. } => "file_rows", Fault::Host, NOT_AS_WRITTEN;
    Self::PlainMagic => "file_magic", Fault::Caller,
        "unverified inputs are plain Parquet files; encrypted ones are read as sealed tables";
    Self::PlainChanged => "input_changed", Fault::Host,
        "run the query again once nothing writes to the input's files; coffer adopt or encrypt \
            pins them for good";
    Self::PlainFooter(_) => "table", Fault::Caller,
        "rewrite the files with Spark, or seal them with coffer encrypt";
    Self::ColumnNotEncrypted(_) => "file_not_encrypted", Fault::Host, NOT_AS_WRITTEN;
    Self::ColumnForeignKey(_) => "file_key_foreign", Fault::Host, NOT_AS_WRITTEN;
    Self::ColumnKeyMissing(_) => "table", Fault::Caller, "export the KEKs of these columns too";
    Self::NoSuchColumn(_) => "table", Fault::Caller;
    Self::Parquet(text) => parquet_code(text), Fault::Host, "the file is damaged or was altered";
    Self::ParquetLength(_) => "file_format", Fault::Host, "the file is damaged or was altered";
    Self::ParquetPanic => "file_format", Fault::Host, "the file is damaged or was altered";
    Self::Arrow(_) => "table", Fault::Internal;
    Self::KeyMetadata(_) => "file_key_foreign", Fault::Host;
    Self::DataKey(_) => "file_key_foreign", Fault::Host;
    Self::KekMissing(_) => "table", Fault::Caller, "export the KEKs of these columns too";
    Self::SameLeaf(_) => "table", Fault::Caller;
    Self::PartitionType(_) => "table", Fault::Caller,
        "use booleans, whole numbers, decimals, strings, dates or timestamps";
    Self::ChunkDigest => "file_digest", Fault::Host,
        "the table is not what was written; coffer verify --deep lists every such file; restore \
            them from a copy";
    Self::ChangedWhileWriting(_) => "file_changed", Fault::Host,
        "somebody else writes there: encrypt to another place";
    Self::Scheme { .. } => "table", Fault::Caller,
        "the policy says how the column is stored, and within which domain";
    Self::Type(_) => "table", Fault::Caller;
    Self::Lossy { .. } => "table", Fault::Caller;
    Self::BatchSchema(_) => "table", Fault::Caller;
    Self::Kek(error) => "table", Fault::Caller, error.hint();
    Self::Sealing(_) => "table", Fault::Internal;
    Self::Limit(_) => "manifest_length", Fault::Caller;
    Self::DigestLength => "manifest_format", Fault::Host;
}

impl Error {
    /// Reading or writing failed there.
    pub fn io(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::Arrow(error.to_string())
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Parquet(error.to_string())
    }
}

/// What an error of the file system says of a file: that it is not there, is no file, or does not
/// fit on the disk; else only that reading or writing failed.
pub fn io_code(error: &io::Error) -> &'static str {
    if error.get_ref().is_some_and(|inner| inner.is::<NotAFile>())
        || error.raw_os_error() == Some(ELOOP)
    {
        return "file_kind";
    }
    match error.kind() {
        ErrorKind::NotFound => "file_missing",
        ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::NotSeekable => "file_kind",
        ErrorKind::UnexpectedEof => "file_length",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => "disk_full",
        _ => "storage",
    }
}

/// What the Parquet reader's text says: that a module's tag did not fit, or only that it could not
/// read the bytes.
pub fn parquet_code(text: &str) -> &'static str {
    if text.contains(TAG) {
        "file_tag"
    } else {
        "file_format"
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_full_disk_is_no_check() {
        let failed = |kind: ErrorKind| Error::io("write", Path::new("/t"))(kind.into()).code();
        assert_eq!(failed(ErrorKind::StorageFull), "disk_full");
        assert_eq!(failed(ErrorKind::PermissionDenied), "storage");
        assert_eq!(failed(ErrorKind::NotFound), "file_missing");
        let full = io::Error::from_raw_os_error(28);
        assert_eq!(io_code(&full), "disk_full", "ENOSPC");
        assert_eq!(
            io_code(&io::Error::from_raw_os_error(122)),
            "disk_full",
            "EDQUOT"
        );
    }

    #[test]
    fn what_is_no_file_has_a_code_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            io_code(&crate::files::open(folder.path()).unwrap_err()),
            "file_kind"
        );
        let itself = folder.path().join("itself");
        std::os::unix::fs::symlink(&itself, &itself).unwrap();
        assert_eq!(
            io_code(&crate::files::open(&itself).unwrap_err()),
            "file_kind"
        );
    }

    #[test]
    fn length_digest_and_tag_have_codes_of_their_own() {
        let length = Error::FooterLength { want: 2, got: 1 };
        let codes = [
            length.code(),
            Error::FooterDigest.code(),
            Error::Parquet(format!("External: {TAG}")).code(),
            Error::Parquet("EOF".to_owned()).code(),
        ];
        assert_eq!(
            codes,
            ["file_length", "file_digest", "file_tag", "file_format"]
        );
    }
}
