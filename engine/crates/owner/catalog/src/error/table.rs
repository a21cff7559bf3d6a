//! What is said of each error: its code, one of `docs/reference/errors.md`, which engines say too,
//! as `COFFER_` in capitals; who is at fault; and what to do about it. One code for each of length,
//! digest, tag, key and format; a full disk and a failing one have codes of their own, which say
//! that nothing was checked.

use coffer_format::Fault;

use super::Error;

const NOT_AS_WRITTEN: &str = "the table is not what was written; coffer verify lists every such \
    file; restore them from a copy";

coffer_sealing::error_table! {
    Error: &'static str, Fault;
    Self::Format(error) => error.code(), error.fault(), error.hint();
    Self::Adopt(error) => "table", Fault::Caller, error.hint();
    Self::FileKey(error) => "table", Fault::Caller, error.hint();
    Self::FileSize { .. } => "file_length", Fault::Host, NOT_AS_WRITTEN;
    Self::FilePath => "file_format", Fault::Host;
    Self::PlainColumns(_) => "table", Fault::Caller,
        "rewrite the files with Spark, or seal them with coffer encrypt";
    Self::PlainCalendar(_) => "table", Fault::Caller;
    Self::PlainNanos(_) => "table", Fault::Caller,
        "rewrite the files with Spark, or seal them with coffer encrypt";
    Self::NotATable(_) => "manifest_missing", Fault::Caller,
        "name a folder that coffer encrypt made";
    Self::Envelope(_) => "manifest_format", Fault::Host;
    Self::ManifestFormat(_) => "manifest_version", Fault::Caller, "use a newer version of Coffer";
    Self::ManifestKey => "manifest_key", Fault::Caller,
        "the manifest was put there by someone else, or the config directory is not this table's";
    Self::ManifestAltered => "manifest_tag", Fault::Host, NOT_AS_WRITTEN;
    Self::ManifestContent(_) => "manifest_format", Fault::Host, NOT_AS_WRITTEN;
    Self::ManifestForeign { .. } => "other_table", Fault::Host,
        "the folder holds another table than it should: restore it from a copy";
    Self::VersionMissing { .. } => "version_missing", Fault::Host,
        "the storage shows an old or another state of the table (a rollback); restore the newest";
    Self::VersionReplaced { .. } => "version_digest", Fault::Host,
        "the storage shows an old or another state of the table (a rollback); restore the newest";
    Self::VersionUnknown { .. } => "version_unknown", Fault::Host,
        "someone else published it, or the register was restored from an old copy";
    Self::ChainBroken { .. } => "version_chain", Fault::Host,
        "an older manifest was altered or replaced";
    Self::FolderChanged(_) => "folder_changed", Fault::Host,
        "nothing was written; look at who moves folders or links there, then run it again";
    Self::PathNotRecorded { table, .. } => "path_not_recorded", Fault::Host,
        Some(format!(
                "write the path as `coffer keys list` has it; if this one is yours and means the \
                    same table: coffer verify {table} --record-path PATH"
            ));
    Self::PathTaken { .. } => "table", Fault::Caller,
        "a path means one table: record another, or use that table's name";
    Self::PathTwice { .. } => "table", Fault::Caller, "remove or correct one `path` in the policy";
    Self::PathOrName { text, .. } => "table", Fault::Caller,
        Some(format!("write ./{text} for the folder, or use the tables' full paths"));
    Self::PublicationUnknown { .. } => "write_unsettled", Fault::System,
        "look before anything is written again: coffer inspect shows the newest version; check \
            the disk of the register";
    Self::RegisterFormat(_) => "table", Fault::Caller, "use a newer version of Coffer";
    Self::Unfinished(_) => "table_unfinished", Fault::Caller,
        "coffer verify --clean removes what is left; then encrypt again";
    Self::UnknownTable(_) => "table", Fault::Caller,
        "coffer keys list shows the tables of this config directory";
    Self::ForeignTable { .. } => "manifest_foreign", Fault::Caller,
        "use the config directory that encrypted it; if the folder was moved, set `path` of the \
            table in the policy";
    Self::PolicyId { .. } => "table", Fault::Caller,
        "the policy decides; remove or correct the table's `id` there";
    Self::NameTaken(_) => "table", Fault::Caller,
        "choose another name with --table; coffer keys forget removes one whose files are gone";
    Self::FolderTaken(_) => "table", Fault::Caller,
        "choose another folder; if an encrypt was interrupted, coffer verify --clean clears it";
    Self::VersionTaken(_) => "version_taken", Fault::Caller,
        "nothing was written; look at what put a manifest into the table's _coffer folder";
    Self::Conflict { .. } => "write_conflict", Fault::Caller, "nothing was written; run it again";
    Self::RewrapRaced(_) => "table", Fault::Caller, "run it again; nothing is lost";
    Self::RowsLost { .. } => "file_rows", Fault::Caller,
        "nothing was published, and the table is as it was; run it again";
    Self::MasterNeeded { tables, links, files, .. } => "table", Fault::Caller,
        match (files, tables.is_empty() && links.is_empty()) {
            (false, _) => "coffer keys rewrap --all --to OTHER moves them",
            (true, true) => "the files need it where PyArrow and Spark read them, not in a table \
                that adopted them",
            (true, false) => {
                "coffer keys rewrap --all --to OTHER moves tables and links; the files need it \
                    where PyArrow and Spark read them, not in a table that adopted them"
            }
        };
    Self::BeingWritten(_) => "table", Fault::Caller, "wait for it to end, then clean again";
    Self::StillThere(_) => "table", Fault::Caller, "delete its folder, or keep the table";
    Self::ProtectionChanged { .. } => "table", Fault::Caller,
        "put the policy back, or make the table anew (CREATE OR REPLACE TABLE … AS SELECT)";
    Self::OnlyPartitions => "table", Fault::Caller;
    Self::NotAPartition(_) => "table", Fault::Caller;
    Self::Stale { .. } => "file_stale", Fault::Host,
        "the table is not what was written; coffer verify --deep lists every such file; restore \
            them from a copy";
    Self::Unfit { .. } => "table", Fault::Caller,
        "give it another protection, or a `domain`: docs/reference/policy.md has what each takes";
    Self::Domain { .. } => "table", Fault::Caller,
        "write it as values of the column: [0, 150], [\"0.00\", \"0.10\"], \
         [\"1992-01-01\", \"1998-12-31\"]";
    Self::NestedProtection { .. } => "table", Fault::Caller,
        "leave the column \"tee\" in the policy, or flatten it";
    Self::NotOpenable(_) => "table", Fault::Caller,
        "give it another protection beside: [\"tee\", \"ope\"] or [\"det\", \"ope\"]";
    Self::SumOverflow(_) => "table", Fault::Caller;
    Self::SumRange { .. } => "table", Fault::Caller,
        "give the column a `domain`, or fewer `rows`, in the policy";
    Self::SumRows { .. } => "table", Fault::Caller,
        "raise `rows` in the policy, with a `domain` so small that sums still fit";
    Self::PartitionedStored => "table", Fault::Caller,
        "leave the partitions out, or make its columns \"tee\"";
    Self::LinkUnknown(_) => "table", Fault::Caller, "restore the register from a backup";
    Self::PolicyHasLink { .. } => "table", Fault::Caller,
        "remove or correct the link's `id` in the policy, or use another name";
    Self::PolicyLink { .. } => "table", Fault::Caller,
        "remove or correct the link's `id` in the policy, or use another name";
    Self::LinkShape { .. } => "table", Fault::Caller,
        "columns of a link have one type, domain and prefix; use another link";
    Self::RegisterAltered(_) => "register", Fault::Caller, "restore the register from a backup";
    Self::RegisterContent(_) => "register", Fault::Caller, "restore the register from a backup";
    Self::DuplicateColumn(_) => "table", Fault::Caller, "rename one of them";
    Self::NoColumns => "table", Fault::Caller;
    Self::Keyring(error) => "table", Fault::Caller, error.hint();
    Self::Master(error) => error.code(), Fault::Caller, error.hint();
    Self::Key { error, .. } => error.code(), Fault::Caller, error.hint();
    Self::Policy(error) => "table", Fault::Caller, error.hint();
    Self::PolicyHasId { .. } => "table", Fault::Caller,
        "use another name, or remove the table's `id` and `path` from the policy";
}
