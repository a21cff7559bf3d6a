//! What to do about each error.

use crate::error::Error;

impl Error {
    /// What to do about it, if there is something.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Error::Format(error) => return error.hint(),
            Error::Keyring(error) => return error.hint(),
            Error::Master(error) | Error::Key { error, .. } => return error.hint(),
            Error::Policy(error) => return error.hint(),
            Error::Adopt(error) => return error.hint(),
            Error::FileKey(error) => return error.hint(),
            Error::FileSize { .. } | Error::ManifestAltered | Error::ManifestContent(_) => {
                "the table is not what was written; coffer verify lists every such file; restore them from a copy"
            }
            Error::Stale { .. } => {
                "the table is not what was written; coffer verify --deep lists every such file; restore them from a copy"
            }
            Error::Unfit { .. } => {
                "give it another protection, or a `domain`: docs/reference/policy.md has what each takes"
            }
            Error::Domain { .. } => {
                "write it as values of the column: [0, 150], [\"0.00\", \"0.10\"], [\"1992-01-01\", \"1998-12-31\"]"
            }
            Error::NotOpenable(_) => "give it another protection beside: [\"tee\", \"ope\"] or [\"det\", \"ope\"]",
            Error::SumRange { .. } => "give the column a `domain`, or fewer `rows`, in the policy",
            Error::SumRows { .. } => "raise `rows` in the policy, with a `domain` so small that sums still fit",
            Error::PartitionedStored => "leave the partitions out, or make its columns \"tee\"",
            Error::LinkUnknown(_) => "restore the register from a backup",
            Error::PolicyHasLink { .. } | Error::PolicyLink { .. } => {
                "remove or correct the link's `id` in the policy, or use another name"
            }
            Error::LinkShape { .. } => "columns of a link have one type, domain and prefix; use another link",
            Error::PlainColumns(_) | Error::PlainNanos(_) => {
                "rewrite the files with Spark, or seal them with coffer encrypt"
            }
            Error::NotATable(_) => "name a folder that coffer encrypt made",
            Error::ManifestFormat(_) => "use a newer version of Coffer",
            Error::ManifestKey => "the manifest was put there by someone else, or the home is not this table's",
            Error::ManifestForeign { .. } => "the folder holds another table than it should: restore it from a copy",
            Error::VersionMissing { .. } | Error::VersionReplaced { .. } => {
                "the storage shows an old or another state of the table (a rollback); restore the newest"
            }
            Error::VersionUnknown { .. } => "someone else published it, or the register was restored from an old copy",
            Error::ChainBroken { .. } => "an older manifest was altered or replaced",
            Error::Unfinished(_) => "coffer verify --clean removes what is left; then encrypt again",
            Error::FolderChanged(_) => {
                "nothing was written; look at who moves folders or links there, then run it again"
            }
            Error::PathNotRecorded { table, .. } => {
                return Some(format!(
                    "write the path as `coffer keys list` has it; if this one is yours and means the same table: coffer verify {table} --record-path PATH"
                ));
            }
            Error::PathTaken { .. } => "a path means one table: record another, or use that table's name",
            Error::PathTwice { .. } => "remove or correct one `path` in the policy",
            Error::PathOrName { text, .. } => {
                return Some(format!("write ./{text} for the folder, or use the tables' full paths"));
            }
            Error::PublicationUnknown { .. } => {
                "look before anything is written again: coffer inspect shows the newest version; check the disk of the register"
            }
            Error::RegisterFormat(_) => "use a newer version of Coffer",
            Error::UnknownTable(_) => "coffer keys list shows the tables of this home",
            Error::ForeignTable { .. } => {
                "use the home that encrypted it; if the folder was moved, set `path` of the table in the policy"
            }
            Error::PolicyId { .. } => "the policy decides; remove or correct the table's `id` there",
            Error::PolicyHasId { .. } => "use another name, or remove the table's `id` and `path` from the policy",
            Error::NameTaken(_) => {
                "choose another name with --table; coffer keys forget removes one whose files are gone"
            }
            Error::FolderTaken(_) => {
                "choose another folder; if an encrypt was interrupted, coffer verify --clean clears it"
            }
            Error::RegisterAltered(_) | Error::RegisterContent(_) => "restore the register from a backup",
            Error::VersionTaken(_) => {
                "nothing was written; look at what put a manifest into the table's _coffer folder"
            }
            Error::Conflict { .. } => "nothing was written; run it again",
            Error::RewrapRaced(_) => "run it again; nothing is lost",
            Error::MasterNeeded {
                tables, links, files, ..
            } => match (files, tables.is_empty() && links.is_empty()) {
                (false, _) => "coffer keys rewrap --all --to OTHER moves them",
                (true, true) => "the files need it where PyArrow and Spark read them, not in a table that adopted them",
                (true, false) => {
                    "coffer keys rewrap --all --to OTHER moves tables and links; the files need it where PyArrow and Spark read them, not in a table that adopted them"
                }
            },
            Error::RowsLost { .. } => "nothing was published, and the table is as it was; run it again",
            Error::BeingWritten(_) => "wait for it to end, then clean again",
            Error::StillThere(_) => "delete its folder, or keep the table",
            Error::ProtectionChanged { .. } => {
                "put the policy back, or make the table anew (CREATE OR REPLACE TABLE … AS SELECT)"
            }
            Error::DuplicateColumn(_) => "rename one of them",
            _ => return None,
        };
        Some(text.to_owned())
    }
}
