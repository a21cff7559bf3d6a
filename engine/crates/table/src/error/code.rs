//! Which check refused, as one word.

use std::io::{self, ErrorKind};

use super::Error;

/// Linux's number for a link that leads to itself; std has no stable name for it.
const ELOOP: i32 = 40;
/// What the Parquet reader's cipher says of a module whose tag does not fit; its errors reach us as text.
const TAG: &str = "ring::error::Unspecified";

/// What a host put under a file's name: a pipe, a device, a folder. Goes inside of an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("under its name lies something else than a file")]
pub struct NotAFile;

impl Error {
    /// The check that refused: a code of `docs/reference/errors.md`. Engines say the same word as `COFFER_` in capitals. One
    /// word for each of length, digest, tag, key and format; a full disk and a failing one have words of their own, which say
    /// that nothing was checked.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Io { source, .. } => io_code(source),
            Error::FileMissing(_) => "file_missing",
            Error::FileSize { .. } | Error::FileShort { .. } | Error::FooterLength { .. } => "file_length",
            Error::FooterMagic | Error::PlainMagic => "file_magic",
            Error::FooterDigest | Error::ChunkDigest => "file_digest",
            Error::FooterRows { .. } | Error::RowsLost { .. } => "file_rows",
            Error::ColumnNotEncrypted(_) => "file_not_encrypted",
            Error::ColumnForeignKey(_) | Error::DataKey(_) | Error::KeyMetadata(_) => "file_key_foreign",
            Error::Parquet(text) => parquet_code(text),
            Error::ParquetLength(_) | Error::ParquetPanic | Error::FilePath => "file_format",
            Error::Stale { .. } => "file_stale",
            Error::ChangedWhileWriting(_) => "file_changed",
            Error::Envelope(_) | Error::ManifestContent(_) => "manifest_format",
            Error::ManifestFormat(_) => "manifest_version",
            Error::ManifestKey => "manifest_key",
            Error::ManifestAltered => "manifest_tag",
            Error::ManifestForeign { .. } => "other_table",
            Error::ForeignTable { .. } => "manifest_foreign",
            Error::NotATable(_) => "manifest_missing",
            Error::Limit(_) => "manifest_length",
            Error::VersionMissing { .. } => "version_missing",
            Error::VersionReplaced { .. } => "version_digest",
            Error::VersionUnknown { .. } => "version_unknown",
            Error::ChainBroken { .. } => "version_chain",
            Error::VersionTaken(_) => "version_taken",
            Error::Conflict { .. } => "write_conflict",
            Error::PublicationUnknown { .. } => "write_unsettled",
            Error::PathNotRecorded { .. } => "path_not_recorded",
            Error::FolderChanged(_) => "folder_changed",
            Error::PlainChanged => "input_changed",
            Error::Unfinished(_) => "table_unfinished",
            Error::RegisterAltered(_) | Error::RegisterContent(_) => "register",
            Error::Master(error) | Error::Key { error, .. } => error.code(),
            _ => "table",
        }
    }
}

/// What an error of the file system says of a file: that it is not there, is no file, or does not fit on the disk; else only
/// that reading or writing failed.
pub fn io_code(error: &io::Error) -> &'static str {
    if error.get_ref().is_some_and(|inner| inner.is::<NotAFile>()) || error.raw_os_error() == Some(ELOOP) {
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

/// What the Parquet reader's text says: that a module's tag did not fit, or only that it could not read the bytes.
pub fn parquet_code(text: &str) -> &'static str {
    if text.contains(TAG) { "file_tag" } else { "file_format" }
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
        assert_eq!(io_code(&io::Error::from_raw_os_error(122)), "disk_full", "EDQUOT");
    }

    #[test]
    fn what_is_no_file_has_a_code_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(io_code(&crate::disk::open(folder.path()).unwrap_err()), "file_kind");
        let itself = folder.path().join("itself");
        std::os::unix::fs::symlink(&itself, &itself).unwrap();
        assert_eq!(io_code(&crate::disk::open(&itself).unwrap_err()), "file_kind");
    }

    #[test]
    fn length_digest_and_tag_have_codes_of_their_own() {
        let length = Error::FileSize {
            file: "f".to_owned(),
            want: 2,
            got: 1,
        };
        let codes = [
            length.code(),
            Error::FooterDigest.code(),
            Error::Parquet(format!("External: {TAG}")).code(),
            Error::Parquet("EOF".to_owned()).code(),
        ];
        assert_eq!(codes, ["file_length", "file_digest", "file_tag", "file_format"]);
    }
}
