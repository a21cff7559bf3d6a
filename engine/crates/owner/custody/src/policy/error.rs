//! Why a policy is not usable.

use std::path::{Path, PathBuf};

use coffer_protocol::EvidenceKind;
use coffer_schemes::Setting;

use crate::{location::LocationError, master::UriError, policy::Protection};

/// One variant per cause.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// There is no file.
    #[error("there is no policy at {path}", path = _0.display())]
    NotFound(PathBuf),
    /// The file cannot be read or written.
    #[error("cannot use the policy {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, a key that does not exist, or a value of the wrong type.
    #[error("the policy {path} is not valid: {reason}", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Place and reason, several lines.
        reason: String,
    },
    /// A policy that nobody signed yet.
    #[error("the policy {path} was never signed:\n{difference}", path = path.display())]
    NotSigned {
        /// The file.
        path: PathBuf,
        /// All of it, as a difference.
        difference: String,
    },
    /// A policy that was changed since it was signed.
    #[error("the policy {path} was changed since it was signed:\n{difference}",
        path = path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Against what was signed.
        difference: String,
    },
    /// Another policy than the one that was shown lies there now.
    #[error("the policy {path} was changed while it was shown", path = _0.display())]
    ChangedMeanwhile(PathBuf),
    /// There was a signature.
    #[error("the policy's signature {path} is gone", path = _0.display())]
    SignatureGone(PathBuf),
    /// Not made with this keyring, or altered.
    #[error("{path} is no signature of this keyring, or was altered", path = _0.display())]
    Signature(PathBuf),
    /// Signed, and not what the register knows as the newest.
    #[error("the policy {path} is version {version}, and not version {newest}, which was signed \
        last", path = path.display())]
    NotNewest {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
        /// The register's; 0: it knows of none.
        newest: u64,
    },
    /// The MAC cannot be made.
    #[error("the policy cannot be signed")]
    NoMac,
    /// A protection that does not exist.
    #[error("{entry}: there is no protection {name:?}")]
    UnknownProtection {
        /// Table and column, or the defaults.
        entry: String,
        /// What was written.
        name: String,
    },
    /// A partition column whose values engines could not tell apart.
    #[error("{entry}: a partition column cannot be \"{protections}\"")]
    NotForPartitions {
        /// Table and column.
        entry: String,
        /// Its protections.
        protections: String,
    },
    /// One protection twice.
    #[error("{entry}: protection \"{protection}\" is given twice")]
    ProtectionTwice {
        /// Table and column, or the defaults.
        entry: String,
        /// The protection.
        protection: Protection,
    },
    /// A column in clear that is encrypted too.
    #[error("{entry}: a column that is \"plain\" has no other protection")]
    PlainWithOthers {
        /// Table and column, or the defaults.
        entry: String,
    },
    /// A setting of a column that none of its protections uses.
    #[error("{entry}: nothing uses `{setting}`")]
    UnusedSetting {
        /// Table and column.
        entry: String,
        /// Its key.
        setting: Setting,
    },
    /// A default domain of a type that has none.
    #[error("[defaults.domains]: there is no domain of {0:?}")]
    DomainType(String),
    /// A column with an empty list of protections.
    #[error("{entry}: no protection is given")]
    NoProtection {
        /// Table and column.
        entry: String,
    },
    /// An id that is not 32 hex digits.
    #[error("table {table:?}: {id:?} is not a table id")]
    BadId {
        /// The table.
        table: String,
        /// What was written.
        id: String,
    },
    /// A link's id that is not 32 hex digits.
    #[error("link {link:?}: {id:?} is not a link's id")]
    BadLinkId {
        /// The link.
        link: String,
        /// What was written.
        id: String,
    },
    /// The entry of a link says something else than what was to be recorded.
    #[error("link {link:?} has another {what} in the policy")]
    LinkConflict {
        /// The link.
        link: String,
        /// `"id"` or `"master"`.
        what: &'static str,
    },
    /// A table's or link's name that cannot be used.
    #[error("{0:?} is no name for a table or link")]
    BadName(String),
    /// A master's name that cannot be used.
    #[error("[masters]: {0:?} is no name for a master key")]
    BadMasterName(String),
    /// A master's URI that cannot be used.
    #[error("[masters] {name}: {source}")]
    Master {
        /// The master's name.
        name: String,
        /// What is wrong with it.
        source: UriError,
    },
    /// Two tables with the same id or the same path.
    #[error("tables {first:?} and {second:?} have the same {what}")]
    Twice {
        /// One table.
        first: String,
        /// The other.
        second: String,
        /// `"id"` or `"path"`.
        what: &'static str,
    },
    /// A path that is none of this machine's.
    #[error("{entry}: {source}")]
    Location {
        /// Where in the policy it stands.
        entry: String,
        /// What is wrong with it.
        source: LocationError,
    },
    /// A zone's path that means no folder by itself.
    #[error("zone {zone:?}: {path} cannot be a zone", path = path.display())]
    ZonePath {
        /// The zone.
        zone: String,
        /// Its path.
        path: PathBuf,
    },
    /// Two zones with the same path.
    #[error("zones {first:?} and {second:?} have the same path")]
    ZoneTwice {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// A table's entry names another master than its zone.
    #[error(
        "table {table:?} has the master {master:?} in the policy, and its zone {zone:?} has \
            {wanted:?}"
    )]
    ZoneMaster {
        /// The table.
        table: String,
        /// By its entry.
        master: String,
        /// The zone.
        zone: String,
        /// By the zone.
        wanted: String,
    },
    /// Something plain in a zone.
    #[error("{path} is in the zone {zone:?}, where nothing plain is made", path = path.display())]
    PlainInZone {
        /// What would be made.
        path: PathBuf,
        /// The zone.
        zone: String,
    },
    /// Whether a path lies in a zone cannot be said.
    #[error("where {path} leads, and so whether it is in a zone, cannot be found out: {source}",
        path = path.display())]
    PathUnknown {
        /// The path, or a zone's folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A path that is written in one zone and leads into another.
    #[error("{path} is written in the zone {written:?} and leads into the zone {leads:?}, which \
        has another master", path = path.display(), leads = zones[0], written = zones[1])]
    ZonesDiffer {
        /// The path.
        path: PathBuf,
        /// Where it leads, and where it is written.
        zones: [String; 2],
    },
    /// A kind of evidence that does not exist.
    #[error("[attestation] accept: there is no evidence kind {0:?}")]
    UnknownEvidence(String),
    /// A kind of evidence that an entry wants, and by which no engine is accepted.
    #[error("{entry}: wants {kind} evidence, which [attestation] does not accept")]
    WantedNotAccepted {
        /// Table and column, or the defaults.
        entry: String,
        /// The kind.
        kind: EvidenceKind,
    },
    /// A PCR that no TPM has.
    #[error("[attestation.tpm] pcrs: there is no PCR {0:?}")]
    NoPcr(String),
    /// Simulated evidence beside real.
    #[error("[attestation] accept: simulated evidence cannot stand beside another kind")]
    SimulatedWithOthers,
    /// A table that the policy does not name.
    #[error("the policy names no table {name:?}")]
    UnknownTable {
        /// The name.
        name: String,
        /// Those it names.
        known: Vec<String>,
    },
    /// A column that the data does not have.
    #[error("table {table:?}: the policy names column {column:?}, which the data does not have")]
    UnknownColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The data's columns.
        known: Vec<String>,
    },
    /// A user with a role that there is none of.
    #[error("user {user:?}: there is no role {role:?}")]
    UnknownRole {
        /// The user.
        user: String,
        /// The role.
        role: String,
        /// The roles that there are.
        known: Vec<String>,
    },
    /// Two users with one account of the operating system.
    #[error("users {first:?} and {second:?} have the same account, {account}")]
    AccountTwice {
        /// One user.
        first: String,
        /// The other.
        second: String,
        /// The account.
        account: String,
    },
    /// Two users with one certificate.
    #[error("users {first:?} and {second:?} have the same certificate")]
    CertificateTwice {
        /// One user.
        first: String,
        /// The other.
        second: String,
    },
    /// A root that cannot be compared with other paths.
    #[error("role {role:?}: {path} is no root to write below", path = path.display())]
    WriteRoot {
        /// The role.
        role: String,
        /// The path.
        path: PathBuf,
    },
    /// A user that the policy does not name.
    #[error("the policy names no user {name:?}")]
    UnknownUser {
        /// The name.
        name: String,
        /// Those it names.
        known: Vec<String>,
    },
    /// Keys of a log or its witnesses that cannot be used.
    #[error("[log]: {0}")]
    Log(coffer_log::LogError),
    /// A log that is asked for nothing.
    #[error("[log] demands nothing")]
    NothingLogged,
    /// The release must be in a log, and engines of other code are accepted.
    #[error("[log] demands the release, and [attestation] pins none, or other code beside it")]
    LooseMeasurements,
    /// The release that is pinned cannot be used.
    #[error("cannot use the release {path}: {reason}", path = path.display())]
    Release {
        /// Its file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The entry of a table says something else than what was to be recorded.
    #[error("table {table:?} has another {what} in the policy")]
    Conflict {
        /// The table.
        table: String,
        /// `"id"`, `"path"` or `"master"`.
        what: &'static str,
    },
}

const LOOK: &str = "look at the whole policy: somebody may have put other files there. If it is \
    right, run coffer policy sign";

coffer_sealing::error_table! {
    PolicyError: &'static str;
    Self::NotFound(_) => "policy_not_found",
        "make one with coffer init, or name its folder with --config-dir or COFFER_CONFIG_DIR";
    Self::Io { .. } => "policy_io", "check the file's permissions and the free space";
    Self::Syntax { .. } => "policy_syntax", "docs/reference/policy.md lists every key";
    Self::NotSigned { .. } => "policy_not_signed",
        "if that is what you want, run coffer policy sign";
    Self::Changed { .. } => "policy_changed", "if that is what you want, run coffer policy sign";
    Self::ChangedMeanwhile(_) => "policy_changed_meanwhile",
        "look at it again, with coffer policy sign";
    Self::SignatureGone(_) => "policy_signature", LOOK;
    Self::Signature(_) => "policy_signature", LOOK;
    Self::NotNewest { .. } => "policy_not_newest", LOOK;
    Self::NoMac => "policy_not_signable", "try again";
    Self::UnknownProtection { name, .. } => "unknown_protection", unknown_protection(name);
    Self::NotForPartitions { .. } => "protection_of_partition",
        "use \"tee\", or \"plain\", which puts its values into the files' paths";
    Self::ProtectionTwice { .. } => "protection_twice", "name each once";
    Self::PlainWithOthers { .. } => "plain_with_others",
        "everybody can read it: leave the others out, or \"plain\"";
    Self::UnusedSetting { setting, .. } => "unused_setting",
        {
            let users: Vec<&str> = setting.users().map(Protection::name).collect();
            format!("`{setting}` is for {}: add one of them, or remove it", users.join(", "))
        };
    Self::DomainType(_) => "domain_type",
        "types with domains are tinyint, smallint, int, bigint, decimal, date, timestamp and \
            timestamp_ntz";
    Self::NoProtection { .. } => "no_protection",
        "use \"tee\": encrypted, opened in attested enclaves only";
    Self::BadId { .. } => "bad_table_id",
        "coffer encrypt writes the id; it is 32 hex digits, or absent";
    Self::BadLinkId { .. } => "bad_link_id",
        "coffer encrypt writes the id; it is 32 hex digits, or absent";
    Self::LinkConflict { .. } => "link_conflict",
        "change or remove the link's entry in the policy, or use another name";
    Self::BadName(_) => "bad_table_name",
        "use letters, digits, '_', '-' and '.', at most 128 of them";
    Self::BadMasterName(_) => "bad_master_name",
        "use letters, digits, '-', '_' and '.', at most 64 of them";
    Self::Master { source, .. } => "master_uri", source.hint();
    Self::Twice { what, .. } => "table_twice",
        format!("each table has a {what} of its own; remove one of the two");
    Self::Location { source, .. } => source.code(), source.hint();
    Self::ZonePath { .. } => "zone_path", "give the zone a folder of its own, without `..`";
    Self::ZoneTwice { .. } => "zone_twice", "one folder has one master; remove one of the two";
    Self::ZoneMaster { .. } => "zone_master",
        "remove `master` from the table's entry, or choose another folder: the zone decides";
    Self::PlainInZone { .. } => "plain_in_zone",
        "make a sealed table there (USING coffer, coffer encrypt), or choose a folder outside of \
            the policy's zones";
    Self::PathUnknown { .. } => "path_unknown",
        "let the account that holds the keys look into the folders on the way, or remove a link \
            that leads in a circle";
    Self::ZonesDiffer { .. } => "zones_differ",
        "write the path without links, or make the table elsewhere";
    Self::WantedNotAccepted { .. } => "wanted_evidence",
        "list the kind under [attestation] accept too, or no engine ever gets the key";
    Self::UnknownEvidence(_) => "unknown_evidence",
        {
            let all: Vec<&str> = coffer_protocol::EvidenceKind::ALL
                .into_iter()
                .map(coffer_protocol::EvidenceKind::name)
                .collect();
            format!("kinds are {}", all.join(", "))
        };
    Self::NoPcr(_) => "no_pcr", "name PCRs by their numbers, \"0\" to \"23\"";
    Self::SimulatedWithOthers => "simulated_with_others",
        "simulated evidence proves nothing: accept it alone, for trials, or not at all";
    Self::UnknownTable { name, known } => "unknown_table",
        nearest(name, known)
            .unwrap_or_else(||
                "name the table's path, or add it to the policy under [tables]".into());
    Self::UnknownColumn { column, known, .. } => "unknown_column",
        nearest(column, known).unwrap_or_else(|| format!("the data has {}", known.join(", ")));
    Self::UnknownRole { role, known, .. } => "unknown_role",
        nearest(role, known)
            .unwrap_or_else(||
                "add the role to the policy under [roles], or take it from the user".into());
    Self::AccountTwice { .. } => "account_twice",
        "an account is one user: give that one the roles of both";
    Self::CertificateTwice { .. } => "certificate_twice",
        "a certificate is one user: give that one the roles of both";
    Self::WriteRoot { .. } => "write_root", "name a folder, without `..`";
    Self::UnknownUser { name, known } => "unknown_user",
        nearest(name, known).unwrap_or_else(|| "add the user to the policy under [users]".into());
    Self::Log(_) => "log_keys",
        "coffer-log prints public keys as NAME+ID+BASE64; name each witness once, and a quorum \
            of them";
    Self::NothingLogged => "log_demand",
        "set demand = [\"release\"], [\"policy\"] or both, or remove [log]";
    Self::LooseMeasurements => "loose_measurements",
        "pin the release under [attestation.release], and remove the lists of measurements and \
            signers";
    Self::Release { .. } => "policy_release",
        "put the release.json there whose SHA-256 the policy names";
    Self::Conflict { .. } => "policy_conflict",
        "change or remove the table's entry in the policy, or use another name";
}

impl PolicyError {
    pub(super) fn read(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::NotFound => PolicyError::NotFound(path.to_path_buf()),
            _ => PolicyError::Io {
                path: path.to_path_buf(),
                source,
            },
        }
    }
}

/// "did you mean" for a name that differs in case or in a few letters.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    let name = name.to_lowercase();
    let (distance, best) = known
        .iter()
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .min()?;
    (distance <= 2).then(|| format!("did you mean {best:?}?"))
}

/// Levenshtein's distance, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for ((y, above_left), above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or_default();
            next.push(
                (above_left + usize::from(x != *y))
                    .min(left + 1)
                    .min(above + 1),
            );
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// What there is instead of a protection that no table stores.
fn unknown_protection(name: &str) -> String {
    let all: Vec<&str> = Protection::ALL.into_iter().map(Protection::name).collect();
    let all = format!("protections are {}", all.join(", "));
    match name.to_ascii_lowercase().as_str() {
        "paillier" => format!(
            "use \"ashe\", which is added up unopened too, in a hundredth of the bytes; {all}"
        ),
        "splashe" => format!(
            "it spreads a column over many, which tables do not store; use \"det\" to group by \
                where frequencies may show, else \"tee\" or \"std\"; {all}"
        ),
        _ => all,
    }
}
