//! What can be typed after `coffer keys`.

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use coffer_custody::recovery::Scheme;

use crate::local_path::LocalPath;

#[derive(Args)]
pub(crate) struct Keys {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// Show the masters of keyring and policy, and the tables and links of the register
    List {
        /// Report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a master: in the keyring, or where [masters] of the policy says
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "the help text names a table of TOML"
    )]
    Create(Named),
    /// Give a master a new version, which wraps from now on; `rewrap` then moves the keys that it
    /// wrapped before
    Rotate(Named),
    /// Move wrapped keys to the newest version of their master, or to another master; no data file
    /// is touched
    Rewrap(Rewrap),
    /// Let a master of the keyring neither wrap nor unwrap. Running programs notice at their next
    /// use of it
    Disable(Named),
    /// Let a disabled master be used again
    Enable(Named),
    /// Remove a master's keys from the keyring, for ever
    Destroy(Destroy),
    /// Write masters, or the whole keyring, to a file under a passphrase of its own; or split the
    /// keyring into shares
    Export(Export),
    /// Take exported masters in; where there is no keyring, make the one that was exported whole
    Import(Import),
    /// Make a keyring from shares of one
    Recover {
        /// Files of shares, as many as are needed or more
        #[arg(required = true, value_name = "FILE")]
        shares: Vec<LocalPath>,
    },
    /// Show the policy's zones, and the tables in each. Needs the passphrase for the tables only
    Zones {
        /// Ask for the passphrase if none is given
        #[arg(long)]
        unlock: bool,
        /// Report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Prove for each table that every key it needs can be had today
    Verify(VerifyKeys),
    /// Write column KEKs as JSON, for PyArrow and parquet-java. Whoever has them reads these
    /// columns, for ever
    ExportKeks {
        /// The table's name or folder
        #[arg(long, value_name = "NAME")]
        table: String,
        /// These columns only [default: all]
        #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
        columns: Vec<String>,
        /// Write here instead of stdout; only its owner can read the file
        #[arg(long, value_name = "FILE")]
        output: Option<LocalPath>,
    },
    /// Put the keyring under another passphrase
    Passwd {
        /// File that holds the new passphrase [default: $COFFER_NEW_PASSPHRASE, else a prompt]
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: Option<LocalPath>,
    },
    /// Serve drivers of other accounts and on other machines, each with the rights of its user in
    /// the policy
    Serve(Serve),
    /// Forget a table, and with it the key that opens its files
    Forget {
        /// The table's name
        table: String,
        /// Do it though its files can then never be read again
        #[arg(long)]
        yes: bool,
    },
}

/// Where a key service listens.
#[derive(Args)]
pub(crate) struct Serve {
    /// The Unix socket for this machine's accounts; made, and open to every one of them: who
    /// connects the kernel says
    #[arg(long, value_name = "PATH", required_unless_present = "listen")]
    pub(crate) socket: Option<LocalPath>,
    /// Serve drivers on other machines here, over mutual TLS: who connects a certificate says
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[arg(requires_all = ["certificate", "key", "users"])]
    pub(crate) listen: Option<SocketAddr>,
    /// File with the key service's certificate, and those between it and its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) certificate: Option<LocalPath>,
    /// File with the certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) key: Option<LocalPath>,
    /// File with the certificates of the authority that makes users' certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) users: Option<LocalPath>,
}

#[derive(Args)]
pub(crate) struct Named {
    /// The master's name
    pub(crate) name: String,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Rewrap {
    /// Names of tables; `link:NAME` is a link
    #[arg(value_name = "TABLE", required_unless_present = "all")]
    pub(crate) tables: Vec<String>,
    /// The keys of all tables and links
    #[arg(long, conflicts_with_all = ["tables", "data"])]
    pub(crate) all: bool,
    /// To this master [default: each key's own]
    #[arg(long, value_name = "MASTER")]
    pub(crate) to: Option<String>,
    /// Re-encrypt the table's data under a fresh key. After a compromise only this helps: whoever
    /// kept an old master and an old wrapped key can open what that key opens, however often it is
    /// rewrapped. Old files stay until `coffer verify --clean`; copies that somebody has stay open
    /// to them
    #[arg(long)]
    pub(crate) data: bool,
    /// Rewrap also keys that seem to be under the newest version: for a KMS that does not tell its
    /// versions apart
    #[arg(long, conflicts_with = "data")]
    pub(crate) again: bool,
    /// Keys that are rewrapped at once; --data: threads [default: 16; --data: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) threads: Option<u16>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Destroy {
    /// The master's name
    pub(crate) name: String,
    /// This version only, which must not be the newest
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
    /// Do it though tables or links need it, which can then never be opened again; the name once
    /// more
    #[arg(long, value_name = "NAME", requires = "yes")]
    pub(crate) really: Option<String>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Export {
    /// Masters [default: the whole keyring, owner's key and register's key too]
    #[arg(value_name = "MASTER", conflicts_with = "shares")]
    pub(crate) masters: Vec<String>,
    /// Write here: a new file, or with --shares a folder, of which each file is one share
    #[arg(long, value_name = "PATH")]
    pub(crate) output: LocalPath,
    /// Split the whole keyring into shares, as in 3-of-5: five, any three of which give it back,
    /// without a passphrase
    #[arg(long, value_name = "K-of-N", value_parser = parse_scheme)]
    pub(crate) shares: Option<Scheme>,
    /// File that holds the export's own passphrase [default: $COFFER_EXPORT_PASSPHRASE, else a
    /// prompt]
    #[arg(long, value_name = "FILE", conflicts_with = "shares")]
    pub(crate) export_passphrase_file: Option<LocalPath>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Import {
    /// A file that `coffer keys export` made
    pub(crate) file: LocalPath,
    /// The only master in it gets this name
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) rename: Option<String>,
    /// File that holds the export's own passphrase [default: $COFFER_EXPORT_PASSPHRASE, else a
    /// prompt]
    #[arg(long, value_name = "FILE")]
    pub(crate) export_passphrase_file: Option<LocalPath>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct VerifyKeys {
    /// Tables at this folder and below it [default: all of the register]
    pub(crate) path: Option<LocalPath>,
    /// Tables that are looked at, at once
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) threads: u16,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_scheme(text: &str) -> Result<Scheme, String> {
    text.parse()
        .map_err(|error: coffer_custody::recovery::RecoveryError| error.to_string())
}
