//! Which check refused, as one word.

use crate::error::Error;

impl Error {
    /// The check that refused: a code of `docs/reference/errors.md`. Engines say the same word as `COFFER_` in capitals. One
    /// word for each of length, digest, tag, key and format; a full disk and a failing one have words of their own, which say
    /// that nothing was checked.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Format(error) => error.code(),
            Error::FileSize { .. } => "file_length",
            Error::RowsLost { .. } => "file_rows",
            Error::FilePath => "file_format",
            Error::Stale { .. } => "file_stale",
            Error::Envelope(_) | Error::ManifestContent(_) => "manifest_format",
            Error::ManifestFormat(_) => "manifest_version",
            Error::ManifestKey => "manifest_key",
            Error::ManifestAltered => "manifest_tag",
            Error::ManifestForeign { .. } => "other_table",
            Error::ForeignTable { .. } => "manifest_foreign",
            Error::NotATable(_) => "manifest_missing",
            Error::VersionMissing { .. } => "version_missing",
            Error::VersionReplaced { .. } => "version_digest",
            Error::VersionUnknown { .. } => "version_unknown",
            Error::ChainBroken { .. } => "version_chain",
            Error::VersionTaken(_) => "version_taken",
            Error::Conflict { .. } => "write_conflict",
            Error::PublicationUnknown { .. } => "write_unsettled",
            Error::PathNotRecorded { .. } => "path_not_recorded",
            Error::FolderChanged(_) => "folder_changed",
            Error::Unfinished(_) => "table_unfinished",
            Error::RegisterAltered(_) | Error::RegisterContent(_) => "register",
            Error::Master(error) | Error::Key { error, .. } => error.code(),
            _ => "table",
        }
    }
}
