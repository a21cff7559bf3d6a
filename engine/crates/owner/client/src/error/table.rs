//! What is said of each refusal: its stable code, one of `docs/reference/errors.md`, and what to do
//! about it.

use super::ClientError;

const ALTERED: &str = "the host lost, changed or mixed up data; run the query again, and look at \
    storage and network if it recurs";
const RELEASES: &str = "use the plugin and the client engine of the same Coffer release";

coffer_sealing::error_table! {
    ClientError: &str;
    Self::UnknownMessage(_) => "protocol", RELEASES;
    Self::Malformed(_) => "protocol", RELEASES;
    Self::NotGreeted => "protocol", RELEASES;
    Self::Version(_) => "version", RELEASES;
    Self::OtherApplication => "other_application", "start a client engine for each application";
    Self::ClusterDeployMode => "cluster_deploy_mode",
        "use --deploy-mode client, or set trust_cluster_deploy_mode = true under [driver] in the \
            policy if that site is yours";
    Self::Keyring(error) => "keyring", error.hint();
    Self::Policy(error) => "policy", error.hint();
    Self::PolicyOfOwner(_) => "policy", "ask the owner of the data";
    Self::Table(coffer_catalog::Error::Master(error) | coffer_catalog::Error::Key { error,
        .. }) => error.code(),
        error.hint();
    Self::Table(error @ coffer_catalog::Error::Format(coffer_format::Error::PlainChanged)) =>
        error.code(), error.hint();
    Self::Table(error) => error.code(), table_hint(error);
    Self::Location(error) => error.code(), error.hint();
    Self::Unlisted(_) => "unverified_input",
        "a host could plant guesses in a plain table and read hits from sizes; if that is \
            acceptable here, add its folder to unverified_inputs in the policy; else seal it with \
            coffer encrypt";
    Self::PlainAtClient => "unverified_input", RELEASES;
    Self::PlainElsewhere(_) => "plain_elsewhere",
        "name the folder itself, or its URL at a remote storage; docs/guides/keys.md has the \
            schemes that are known";
    Self::Revoked(crate::Revoked::Age) => "session_revoked",
        "run the query again; its engines prove themselves again before it begins";
    Self::Revoked(_) => "session_revoked",
        "the owner changed the policy while the query ran; what it allows now, a new query may do";
    Self::MoreEvidence { .. } => "more_evidence",
        "have every engine of the application show them: spark.coffer.engine.evidence on \
            executors, as tdx+tpm; the policy's entries of table and columns say what is wanted";
    Self::TooManyLiterals { .. } => "too_many_literals",
        "an encrypted literal is a guess that can be compared with what is stored; the owner sets \
            literals_per_day under [limits] in the policy";
    Self::SecretInSettings { .. } => "COFFER_SECRET_IN_CONF",
        "remove it: the passphrase belongs into the driver's environment (COFFER_PASSPHRASE) or \
            into a file named by spark.coffer.passphraseFile, other secrets where \
            docs/reference/masters.md says. Executors were not given it yet if the application \
            did not start; else change the secret";
    Self::DeniedFolder { .. } => "denied_folder",
        "the owner names where a role may make tables: write_roots under [roles], or the table \
            with its path under [tables]";
    Self::ChallengeExpired => "challenge_expired",
        "ask for a new challenge; if this recurs, is the executor's clock or network stuck?";
    Self::Evidence(error) => error.code(), error.hint();
    Self::Release(error) => error.code(), error.hint();
    Self::EngineUnknown(_) => "engine_unknown";
    Self::HandleUnknown(_) => "handle_unknown";
    Self::SessionUnknown => "session", "the query's session has ended: run the query again";
    Self::CacheUnknown(_) => "cache_unknown",
        "cached rows are found in the application that cached them, until they are dropped: run \
            the query again";
    Self::Unsupported(_) => "unsupported",
        "rewrite the query without it; nothing of it has been run";
    Self::Stage { .. } => "stage";
    Self::StageTaken(_) => "stage_taken";
    Self::StageUnknown(_) => "stage_unknown";
    Self::BroadcastTaken(_) => "broadcast_taken";
    Self::Coverage { .. } => "coverage";
    Self::Column { .. } => "column";
    Self::AttemptsMissing { .. } => "attempts_missing";
    Self::ObjectUnknown { .. } => "object_unknown";
    Self::ObjectTaken(_) => "object_taken";
    Self::CommitCount { .. } => "commit_count";
    Self::CommitOpening { source, .. } => by_check!("commit_opening", source), ALTERED;
    Self::CommitIdentity { .. } => "commit_identity", ALTERED;
    Self::CommitRepeated { .. } => "commit_repeated", ALTERED;
    Self::Mixed { .. } => "mixed",
        "executors or shuffle files were lost, and with them rows that come out otherwise each \
            time they are made (a limit over rows in no order, first, last); run the query again";
    Self::ResultPartition { .. } => "result_partition", ALTERED;
    Self::Stream { source, .. } => by_check!("stream", source), ALTERED;
    Self::StreamCount { .. } => "stream_count", ALTERED;
    Self::Payload { .. } => "payload";
    Self::Finish(_) => "finish";
    Self::Spark { class, .. } => class;
    Self::ForHosts(_) => "for_hosts",
        "run with enclaves (spark.coffer.enclave=required), or give the columns a protection that \
            hosts can work on";
    Self::KeptUnknown(_) => "kept_unknown";
    Self::TooMuchAtClient(_) => "too_much_at_client",
        "filter or aggregate on columns whose protection allows it, give the columns a protection \
            that does (coffer policy advise), or raise spark.coffer.client.maxBytes";
    Self::TooMuchRead { .. } => "too_much_at_client",
        "engines without keys can do more where columns that are compared, joined or grouped by \
            are det or ope, those that are summed ashe, others std (coffer policy advise); or run \
            with enclaves, filter more, or raise spark.coffer.client.maxBytes";
    Self::ClientMemory(_) => "too_much_at_client",
        "joins are done at the client where the protections of their columns do not let engines \
            do them (coffer explain, coffer policy advise); filter more, let them, or raise \
            spark.coffer.client.maxBytes";
    Self::ClientColumn(_) => "column";
    Self::Opening(error) => by_check!("opening", error), ALTERED;
    Self::Sealing(_) => "sealing";
    Self::WriteUnknown(_) => "write_unknown", "run the command again";
    Self::Rows(_) => "rows", RELEASES;
    Self::RowStreams { .. } => "row_streams", "nothing was written; run the command again";
    Self::PlainSources(_) => "plain_source",
        "seal the files with coffer encrypt, or read and write them under a local master; if the \
            executors' site is yours, set trust_executors = true under [driver] in the policy";
    Self::ExecutorsInClear(_) => "executors_in_clear",
        "set spark.authenticate and spark.network.crypto.enabled to true, or use a local master";
    Self::ColumnType(_) => "column_type",
        "cast it to another type: a table holds no intervals, times of day, variants or VOID";
    Self::HostReadable(_) => "COFFER_HOST_READABLE_WRITE",
        "write the rows to plain Parquet at the client and seal them with coffer encrypt; or let \
            the policy store these columns as \"tee\"";
    Self::Denied { .. } => "denied_column",
        "leave them out, or read them as NULL (spark.coffer.deniedColumns=null); the owner gives \
            columns to roles, in the policy";
    Self::NoUsers => "no_users", "name them under [users] in the policy, each with its account";
    Self::NoCredentials => "no_credentials", "connect over the Unix socket of the key service";
    Self::UnknownAccount(_) => "unknown_account",
        "the owner adds the account to a user in the policy: `account` under [users]";
    Self::UnknownCertificate(_) => "unknown_certificate",
        "the owner adds one of its subject alternative names to a user in the policy: \
            `certificate` under [users]";
    Self::NotIntroduced => "not_introduced", "use coffer-client and coffer-relay of one build";
    Self::TooManyConnections(_) => "too_many_connections",
        "run fewer applications and queries at a time";
    Self::TooManyApplications(_) => "too_many_applications",
        "stop some; one that is gone counts for another minute";
    Self::Audit(error) => "audit", error.hint();
    Self::DeniedWrite { .. } => "denied_write",
        "the owner gives tables to roles: `write` under [roles] in the policy";
    Self::Literal { .. } => "literal";
    Self::OtherTable { .. } => "other_table",
        "another table was made there meanwhile, or a catalog gives the name of one table to the \
            path of another: correct the catalog, or load the path; `coffer keys list` has the \
            names that tables have";
    Self::WrittenFile(_) => "written_file";
    Self::NoReceipt | Self::Receipt(_) | Self::Digest(_) => "receipt",
        "run the query without spark.coffer.receipts, or see what the message names";
    Self::AnswerTooLong => "answer_too_long", "read the result in parts, or write it to a table";
    Self::Panicked => "internal";
}

fn table_hint(error: &coffer_catalog::Error) -> &'static str {
    use coffer_catalog::Error;
    use coffer_format::{Error as FormatError, Fault};
    match error {
        Error::Conflict { .. } => return "nothing was written; run it again",
        Error::VersionTaken(_) => {
            return "nothing was written; look at what put a manifest into the table's _coffer \
                folder";
        }
        Error::PublicationUnknown { .. } => {
            return "look before anything is written again: load the table, or coffer inspect; \
                check the disk of the owner's register";
        }
        Error::FolderChanged(_) => {
            return "nothing was written; look at who moves folders or links there, then run it \
                again";
        }
        Error::ManifestForeign { .. } => {
            return "a link or a folder was put in the table's place: restore it; coffer verify \
                says what is there";
        }
        Error::PathNotRecorded { .. } => {
            return "write the path as it was written when the table was made (coffer keys list); \
                if this one is yours and means that table: coffer verify TABLE --record-path PATH";
        }
        Error::PathTwice { .. } => return "remove or correct one `path` in the policy",
        Error::NameTaken(_) => {
            return "drop the table or choose another name; coffer keys forget removes one whose \
                files are gone";
        }
        Error::FolderTaken(_) => return "choose another folder, or empty this one",
        Error::Unfinished(_) => {
            return "coffer verify --clean removes what is left of it; then run this again";
        }
        Error::ProtectionChanged { .. } => {
            return "put the policy back, or make the table anew (CREATE OR REPLACE TABLE … AS \
                SELECT)";
        }
        Error::Format(FormatError::PartitionType(_)) => {
            return "use booleans, whole numbers, decimals, strings, dates or timestamps";
        }
        Error::Format(FormatError::FileMissing(_)) | Error::FileSize { .. } => {
            return "engines, driver and readers must see the same storage at the same path; if \
                they do, run coffer verify";
        }
        Error::Domain { .. }
        | Error::LinkShape { .. }
        | Error::NotOpenable(_)
        | Error::PartitionedStored => {
            return "the policy says how columns are stored; docs/reference/policy.md has what \
                each protection takes";
        }
        Error::PolicyHasId { .. } => {
            return "take it out of the policy and sign that (coffer policy sign), or take another \
                name";
        }
        Error::Format(FormatError::Scheme { .. }) | Error::Stale { .. } => {
            return "coffer verify --deep tells whether the stored values are those that were \
                written";
        }
        _ => {}
    }
    match error.fault() {
        Fault::Caller => {
            "check the path or name, and that this config directory's keyring made the table \
                (coffer inspect)"
        }
        Fault::Host => {
            "the table's files were altered, lost or rolled back; run coffer verify, and restore \
                them"
        }
        Fault::System => "check the path, its permissions and the disk",
        Fault::Internal => "",
    }
}
