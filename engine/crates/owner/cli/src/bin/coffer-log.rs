//! `coffer-log`: keeps a transparency log of one's own, in a folder, and signs those of others as a
//! witness.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

use clap::{Args, Parser, Subcommand};
use coffer_log::{
    Checkpoint, Entry, LogError, cosign,
    keeper::Tiles,
    note::{Note, PrivateKey, PublicKey, Signs},
    whole,
};
use coffer_sealing::sha256;

/// A transparency log of releases and policies, as a folder of files that any web server can show
/// (C2SP tlog-tiles).
///
/// Exit codes: 0 done; 1 a log, a key or a proof is not what it must be; 2 wrong usage; 5 a file
/// cannot be read or written.
#[derive(Parser)]
#[command(name = "coffer-log", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key: of a log, or with --witness of a witness. Its public key is printed
    Key {
        /// Its name: a URL without the scheme, such as example.org/log
        name: String,
        /// The file that takes the private key
        #[arg(long)]
        out: PathBuf,
        /// Of a witness
        #[arg(long)]
        witness: bool,
    },
    /// Make a log without entries in a folder
    Init {
        /// The log's folder
        folder: PathBuf,
        /// The log's private key
        #[arg(long)]
        key: PathBuf,
    },
    /// Add a release or a policy, and sign. What is there already is not added again
    Append {
        /// The log's folder
        folder: PathBuf,
        /// The log's private key
        #[arg(long)]
        key: PathBuf,
        #[command(flatten)]
        what: What,
    },
    /// Sign a log's state as a witness: only if its tree goes on from the one signed last
    Cosign {
        /// The log's folder
        folder: PathBuf,
        /// The witness's private key
        #[arg(long)]
        key: PathBuf,
        /// The log's public key
        #[arg(long)]
        log: PublicKey,
        /// The file in which the witness keeps what it signed last; made if it is not there
        #[arg(long)]
        state: PathBuf,
    },
    /// Write the proof that a release or a policy is in the log, under the log's newest state
    Prove {
        /// The log's folder
        folder: PathBuf,
        /// The log's public key
        #[arg(long)]
        log: PublicKey,
        /// The folder that takes the proof, as SHA256.tlog-proof
        #[arg(long)]
        out: PathBuf,
        #[command(flatten)]
        what: What,
    },
    /// Print a log's state and its entries, which are all read and checked
    Show {
        /// The log's folder
        folder: PathBuf,
        /// The log's public key
        #[arg(long)]
        log: PublicKey,
    },
}

#[derive(Args)]
#[group(required = true, multiple = true)]
struct What {
    /// A release's release.json
    #[arg(long)]
    release: Option<PathBuf>,
    /// A policy.toml, as its owner signed it
    #[arg(long)]
    policy: Option<PathBuf>,
}

impl What {
    fn entries(&self) -> Result<Vec<Entry>, LogError> {
        let release = self.release.as_deref().map(digest).transpose()?;
        let policy = self.policy.as_deref().map(digest).transpose()?;
        let entries = [release.map(Entry::Release), policy.map(Entry::Policy)];
        Ok(entries.into_iter().flatten().collect())
    }
}

fn main() -> ExitCode {
    if let Err(error) = coffer_process::memory::forbid_core_dumps() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(match error {
                LogError::Io { .. } | LogError::Exists(_) => 5,
                _ => 1,
            })
        }
    }
}

fn run(command: Command) -> Result<(), LogError> {
    match command {
        Command::Key { name, out, witness } => {
            let signs = match witness {
                true => Signs::Cosignatures,
                false => Signs::Notes,
            };
            let key = PrivateKey::generate(&name, signs)?;
            let mut options = fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(&out);
            file.and_then(|mut file| file.write_all(key.to_text().as_bytes()))
                .map_err(io(&out))?;
            println!("{}", key.public());
        }
        Command::Init { folder, key } => {
            Tiles::create(&folder, &private(&key)?)?;
        }
        Command::Append { folder, key, what } => {
            let entries = what.entries()?;
            let places = Tiles::at(&folder).append(&private(&key)?, &entries)?;
            for (entry, place) in entries.iter().zip(places) {
                println!("{place} {entry}");
            }
        }
        Command::Cosign {
            folder,
            key,
            log,
            state,
        } => {
            let tiles = Tiles::at(&folder);
            // Of two that sign at once, one would not see what the other has signed.
            let mut lock = state.clone().into_os_string();
            lock.push(".lock");
            let _turn = whole::hold(Path::new(&lock))?;
            let before = match fs::read_to_string(&state) {
                Ok(text) => Some(Checkpoint::open(&Note::parse(&text)?, &log)?),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(io(&state)(error)),
            };
            let now = SystemTime::now();
            let witness = private(&key)?;
            let (read, signed, found) = cosign(&tiles, &log, &witness, before.as_ref(), now)?;
            // First what is signed is remembered, and then it is shown.
            whole::replace(&state, signed.as_bytes(), 0o600)?;
            tiles.add_signature(&read, &signed)?;
            println!("{} entries", found.size);
        }
        Command::Prove {
            folder,
            log,
            out,
            what,
        } => {
            for entry in what.entries()? {
                let proof = Tiles::at(&folder).prove(&log, &entry)?;
                let path = out.join(format!("{}.tlog-proof", hex::encode(entry.digest())));
                whole::replace(&path, proof.to_text().as_bytes(), 0o644)?;
                println!("{}", path.display());
            }
        }
        Command::Show { folder, log } => {
            let tiles = Tiles::at(&folder);
            let state = tiles.state(&log)?;
            tiles.leaves(&state)?;
            println!("{} entries, root {}", state.size, hex::encode(state.root));
            for (place, entry) in tiles.entries(state.size)?.iter().enumerate() {
                print!("{place} {}", String::from_utf8_lossy(entry));
            }
        }
    }
    Ok(())
}

fn private(path: &Path) -> Result<PrivateKey, LogError> {
    PrivateKey::parse(&fs::read_to_string(path).map_err(io(path))?)
}

fn digest(path: &Path) -> Result<[u8; 32], LogError> {
    Ok(sha256(&fs::read(path).map_err(io(path))?))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError::Io { path, source }
}
