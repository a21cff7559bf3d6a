//! What can be typed. Help texts are the reference: `docs/reference/cli.md` is made from them.

use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    keys::args::Keys,
    local_path::{LocalPath, TablePath},
};

/// Seals tables, and opens, shows and checks sealed ones, at the client site.
#[derive(Parser)]
#[command(name = "coffer", version = coffer_protocol::evidence::VERSION, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args)]
pub(crate) struct Global {
    /// Folder of keyring, policy and register [default: $COFFER_CONFIG_DIR, else ~/.coffer]
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) config_dir: Option<LocalPath>,
    /// The name that it had before
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        hide = true,
        conflicts_with = "config_dir"
    )]
    pub(crate) home: Option<LocalPath>,
    /// File that holds the keyring's passphrase [default: $COFFER_PASSPHRASE, else a prompt]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) passphrase_file: Option<LocalPath>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a config directory: a keyring under a passphrase, and a commented policy
    Init(Init),
    /// Seal Parquet, CSV or text as a table
    Encrypt(Encrypt),
    /// Make a table of files that PyArrow or Spark encrypted under masters of this config
    /// directory; the files stay as they are
    Adopt(Adopt),
    /// Open a sealed table, or a single encrypted Parquet file, into plain files
    Decrypt(Decrypt),
    /// Show what a sealed table is; without a passphrase, what needs no key
    Inspect(Inspect),
    /// The life of keys: masters, rewrapping, zones, recovery, and keys for other readers
    Keys(Keys),
    /// Answer the KMS clients for PyArrow and parquet-java, over stdin and stdout; they start it
    /// themselves
    Kms,
    /// Check a sealed table: manifest, register and every file; or an engine: what it proves of
    /// itself
    Verify(Verify),
    /// What the policy's words come to
    Policy(Policy),
    /// The log of what keys were released for, and of what was refused
    Audit(Audit),
    /// Say what of Spark's own security is off or weak for what Coffer does not cover
    Doctor(Doctor),
    /// Run the engine of a host (coffer-engine); arguments are passed on
    Engine(Passed),
    /// Open Spark's SQL shell on sealed tables
    Sql(Sql),
    /// Say where each part of a query would run, and what its columns show there; nothing is run
    Explain(Explain),
    /// Print this reference as Markdown
    #[command(hide = true)]
    Reference(Reference),
}

#[derive(Args)]
pub(crate) struct Reference {
    /// Instead: the protections of columns, what each shows and allows, and what it costs
    #[arg(long)]
    pub(crate) protections: bool,
    /// These as JSON
    #[arg(long, requires = "protections")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Init {
    /// Only the policy's absence is made good; an existing keyring is left alone
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Parquet,
    Csv,
    Text,
}

#[derive(Args)]
pub(crate) struct Encrypt {
    /// A Parquet, CSV or text file, or a folder of such
    pub(crate) src: LocalPath,
    /// The table's folder; made, or empty. With --append a sealed table's folder or name
    pub(crate) dst: TablePath,
    /// The table's name in policy and register [default: the name of DST]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Add the rows to the table at DST, whose columns they must have
    #[arg(long, conflicts_with = "table")]
    pub(crate) append: bool,
    /// What SRC holds; each line of text is a row, in the column `value` [default: by the file
    /// names]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// CSV: the first record names the columns
    #[arg(long, overrides_with = "no_header")]
    pub(crate) header: bool,
    /// CSV: there is no such record; columns are _c0, _c1, …
    #[arg(long, overrides_with = "header")]
    pub(crate) no_header: bool,
    /// CSV: between fields
    #[arg(long, value_name = "CHAR", default_value = ",")]
    pub(crate) delimiter: String,
    /// CSV: around fields
    #[arg(long, value_name = "CHAR", default_value = "\"")]
    pub(crate) quote: String,
    /// CSV: the text that stands for NULL
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) null_value: String,
    /// CSV: columns and types as Spark DDL, 'a INT, b DECIMAL(12,2)' [default: inferred from all
    /// rows]
    #[arg(long, value_name = "DDL")]
    pub(crate) schema: Option<String>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) threads: Option<u16>,
    /// Memory for row groups that are being written, over all threads
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pub(crate) memory: u64,
    /// Mix the rows of each row group, so that their order tells nothing
    #[arg(long)]
    pub(crate) shuffle_rows: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Adopt {
    /// The folder of the files. Every column of every file must be encrypted, by a writer that used
    /// Coffer's KMS client
    pub(crate) path: TablePath,
    /// The table's name in policy and register [default: the name of PATH]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The master that wraps the table's key [default: the zone's, else the policy's]. The files'
    /// own keys open by the masters that they name
    #[arg(long, value_name = "MASTER")]
    pub(crate) master: Option<String>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Decrypt {
    /// A sealed table's folder or name, or with --kek-file a single encrypted Parquet file
    pub(crate) src: TablePath,
    /// A new folder of Parquet files, or a file named *.parquet or *.csv; `-` writes CSV to stdout.
    /// As CSV, NULL and the empty string are the same
    pub(crate) dst: LocalPath,
    /// KEKs of a single file, as `coffer keys export-keks` writes them
    #[arg(long, value_name = "FILE")]
    pub(crate) kek_file: Option<LocalPath>,
}

#[derive(Args)]
pub(crate) struct Inspect {
    /// A sealed table's folder or name
    pub(crate) table: TablePath,
    /// Ask for the passphrase if none is given
    #[arg(long)]
    pub(crate) unlock: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Verify {
    /// A sealed table's folder or name
    #[arg(required_unless_present_any = ["engine", "receipt", "release"])]
    pub(crate) table: Option<TablePath>,
    /// An engine instead, at unix:PATH, tcp:HOST:PORT, vsock:CID:PORT or vsock:SOCKET:PORT: it is
    /// given a fresh challenge, and its evidence is held against the policy, check by check. The
    /// engine then serves this owner only
    #[arg(long, value_name = "ADDRESS",
        conflicts_with_all = ["table", "deep", "clean", "record_path"])]
    pub(crate) engine: Option<String>,
    /// A query's receipt instead: its signature is checked, and what it says is held against audit
    /// log and tables
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["table", "engine", "release", "deep", "clean", "record_path"])]
    pub(crate) receipt: Option<LocalPath>,
    /// Rows that are said to be the query's result: a Parquet or Arrow IPC file
    #[arg(long, value_name = "FILE", requires = "receipt")]
    pub(crate) result: Vec<LocalPath>,
    /// A release instead, in this folder: its files, and the programs beside this one, are held
    /// against release.json. Needs no config directory
    #[arg(long, value_name = "FOLDER",
        conflicts_with_all = ["table", "engine", "deep", "clean", "record_path"])]
    pub(crate) release: Option<LocalPath>,
    /// The key that must have signed the release. Or that must have signed the receipt, where its
    /// owner's config directory is not at hand: signature and results are checked then
    #[arg(long, value_name = "HEX", conflicts_with_all = ["table", "engine"])]
    pub(crate) signer: Option<Signer>,
    /// The key of a log that the release must be in, by the proof `release.tlog-proof` beside it
    #[arg(long, value_name = "KEY", requires = "release")]
    pub(crate) log: Option<coffer_log::note::PublicKey>,
    /// A witness of the log, by its key
    #[arg(long, value_name = "KEY", requires = "log")]
    pub(crate) witness: Vec<coffer_log::note::PublicKey>,
    /// So many of the witnesses must have signed the log's state
    #[arg(long, value_name = "N", requires = "log", default_value_t = 1)]
    pub(crate) quorum: usize,
    /// Signatures of witnesses that are older do not count
    #[arg(long, value_name = "HOURS", requires = "log", default_value_t = 168)]
    pub(crate) max_age_hours: u32,
    /// A new folder for what was seen: challenge, evidence and checks
    #[arg(long, value_name = "FOLDER", requires = "engine")]
    pub(crate) out: Option<LocalPath>,
    /// Also decrypt every page and count the rows
    #[arg(long)]
    pub(crate) deep: bool,
    /// Remove files that interrupted writers left and files that only older versions name, unless a
    /// running program writes the table or has it open
    #[arg(long)]
    pub(crate) clean: bool,
    /// First record that this path means the table too: it leads there by a link of yours. A table
    /// is else found by the paths that its owner wrote when it was made, and by where these led
    /// then
    #[arg(long, value_name = "PATH")]
    pub(crate) record_path: Option<TablePath>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A public key: 32 bytes, in hexadecimal.
#[derive(Clone, Copy)]
pub(crate) struct Signer(pub(crate) [u8; 32]);

impl FromStr for Signer {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut key = [0; 32];
        hex::decode_to_slice(text, &mut key)?;
        Ok(Self(key))
    }
}

#[derive(Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Show records, each checked before it is shown; queries are opened
    Show(AuditShow),
    /// Check every record, their chain, and its end against the register
    Verify {
        /// Report as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct AuditShow {
    /// From this time on: 2026-11-22, or 2026-11-22T13:45:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// About this table
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Of this user of the policy, or of "(owner)" or "(nobody)"
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Refusals only
    #[arg(long)]
    pub(crate) refusals: bool,
    /// One JSON object for each record
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what each column shows and to whom, and warn of what is known to break
    Check(PolicyCheck),
    /// Sign the policy, after what is new against what was signed last is shown: nothing uses one
    /// that is not signed
    Sign(PolicySign),
    /// Print the policy, if its owner signed it
    Show,
    /// Say what changed between two releases: what a policy accepts of engines that pins the new
    /// one in the place of the old one
    Compare(PolicyCompare),
    /// Propose the policy that shows least and runs a workload, with enclaves and without; nothing
    /// is run
    Advise(PolicyAdvise),
}

#[derive(Args)]
pub(crate) struct PolicyCheck {
    /// Names of tables [default: all that the policy names]. With the passphrase, types and numbers
    /// of values are read from the sealed tables
    #[arg(value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    /// Warnings that are known and accepted; they are not reported
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) accept: Vec<String>,
    /// Ask for the passphrase if none is given
    #[arg(long)]
    pub(crate) unlock: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PolicySign {
    /// Make this file's text the policy, and sign it: nothing sees a change before it is signed
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<LocalPath>,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub(crate) struct PolicyCompare {
    /// A release.json, or the folder of a release
    pub(crate) old: LocalPath,
    /// The same of the other
    pub(crate) new: LocalPath,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PolicyAdvise {
    /// SQL statements in a file, with `;` between them, or a folder of .sql files
    pub(crate) queries: LocalPath,
    /// Plain Parquet or CSV (a file, a table's folder as NAME=FOLDER, or a folder of tables),
    /// CREATE TABLE statements in a .sql file, or names of sealed tables. NAME=PATH names a table
    #[arg(required = true)]
    pub(crate) tables: Vec<String>,
    /// Without enclaves: how much more a statement may bring to the client where a column then
    /// shows less
    #[arg(long, value_name = "SIZE", value_parser = parse_size, alias = "bring-home")]
    pub(crate) bring_to_client: Option<u64>,
    /// Write the policy for enclaves to this file, with a comment for each column
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<LocalPath>,
    /// Write the one for engines without keys instead
    #[arg(long)]
    pub(crate) without_enclaves: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Doctor {
    /// A configuration as spark-submit reads it [default: spark-defaults.conf in $SPARK_CONF_DIR,
    /// else in $SPARK_HOME/conf]
    #[arg(long, value_name = "FILE")]
    pub(crate) properties_file: Option<LocalPath>,
    /// A setting, as spark-submit takes it; wins over the file
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub(crate) conf: Vec<(String, String)>,
    /// The master, as spark-submit takes it
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// The deploy mode, as spark-submit takes it
    #[arg(long, value_name = "MODE", value_parser = ["client", "cluster"])]
    pub(crate) deploy_mode: Option<String>,
    /// Ask a running application's web UI instead, as http://driver:4040
    #[arg(long, value_name = "URL",
        conflicts_with_all = ["properties_file", "conf", "master", "deploy_mode", "environment"])]
    pub(crate) url: Option<String>,
    /// Read what /api/v1/applications/ID/environment of such a UI answered, for a UI that wants a
    /// login or TLS; `-` is stdin
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["properties_file", "conf", "master", "deploy_mode"])]
    pub(crate) environment: Option<LocalPath>,
    /// Findings that are known and accepted; they are not reported
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) accept: Vec<String>,
    /// Show all checks, and run none
    #[arg(long, conflicts_with_all = ["json", "accept"])]
    pub(crate) list: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Passed {
    /// Arguments of coffer-engine
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Sql {
    /// Run this query and end
    #[arg(short = 'e', value_name = "QUERY", conflicts_with = "file")]
    pub(crate) query: Option<String>,
    /// Run the queries of this file and end
    #[arg(short = 'f', value_name = "FILE")]
    pub(crate) file: Option<LocalPath>,
    /// Further arguments for spark-sql
    #[arg(last = true)]
    pub(crate) arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Explain {
    /// The query, over tables by their names in the policy
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) query: Option<String>,
    /// The query is in this file
    #[arg(short = 'f', value_name = "FILE")]
    pub(crate) file: Option<LocalPath>,
    /// As where no enclave is used (spark.coffer.enclave=none)
    #[arg(long)]
    pub(crate) without_enclaves: bool,
    /// One JSON object: query, runs, plan (lines), refusal
    #[arg(long)]
    pub(crate) json: bool,
}

/// "spark.key=value"
fn parse_setting(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| "a setting as in spark.authenticate=true".to_owned())
}

/// "512MiB", "2GiB", "1000000".
fn parse_size(text: &str) -> Result<u64, String> {
    let units = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
    ];
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|number| (number, *unit)))
        .unwrap_or((text, 1_u64));
    let size = number
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    size.filter(|size| *size >= 1 << 20)
        .ok_or_else(|| "a size of at least 1MiB, as in 512MiB or 2GiB".to_owned())
}
