//! `coffer-client`: the client engine's process.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Parser, ValueEnum};
use coffer_client::{ClientError, Service, connection};
use coffer_engine::{address::Address, hardening, lifeline, listen::Listener};
use coffer_keys::{Home, HomeError, Passphrase, PassphraseError, evidence::VERSION};

/// Holds the keys on the trusted site: admits engines, seals queries for them, opens results.
#[derive(Parser)]
#[command(name = "coffer-client", version = VERSION)]
struct Arguments {
    /// Where to listen: unix:PATH, or tcp:HOST:PORT on loopback
    #[arg(long)]
    listen: Address,
    /// Folder with keyring and policy (else COFFER_HOME, else ~/.coffer)
    #[arg(long)]
    home: Option<PathBuf>,
    /// File with the keyring's passphrase (else the environment variable COFFER_PASSPHRASE)
    #[arg(long)]
    passphrase_file: Option<PathBuf>,
    /// End when this ends
    #[arg(long)]
    lifeline: Option<LifelineArgument>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LifelineArgument {
    /// Standard input
    Stdin,
}

/// Why the process does not start, for a person to read.
struct Failure {
    error: String,
    hint: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(warning) = coffer_sealing::UNSEALED_WARNING {
        eprintln!("warning: {warning}");
    }
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_env("COFFER_LOG").unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    hardening::silence_panic_messages();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.error);
            if !failure.hint.is_empty() {
                eprintln!("hint: {}", failure.hint);
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    hardening::harden()?;
    let home = Home::locate(arguments.home.as_deref())?;
    let passphrase = match &arguments.passphrase_file {
        Some(file) => Passphrase::from_file(file)?,
        None => Passphrase::from_env()?,
    };
    let service = Arc::new(Service::open(home, &passphrase)?);
    drop(passphrase);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("socket")
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let listener = Listener::bind(&arguments.listen).map_err(|error| Failure {
            error: format!("cannot listen on {}: {error}", arguments.listen),
            hint: "is the folder there, and writable?".to_owned(),
        })?;
        let asked = lifeline::asked_to_stop()?;
        lifeline::say_ready(&serde_json::json!({
            "listening": listener.address().to_string(),
            "version": VERSION,
        }))?;
        let lifeline = async {
            match arguments.lifeline {
                Some(LifelineArgument::Stdin) => lifeline::stdin_ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = connection::accept(service, listener) => Ok(()),
            () = lifeline => Ok(()),
            () = asked => Ok(()),
        }
    });
    runtime.shutdown_background();
    ended
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self {
            error: error.to_string(),
            hint: String::new(),
        }
    }
}

impl From<HomeError> for Failure {
    fn from(error: HomeError) -> Self {
        Self {
            error: error.to_string(),
            hint: error.hint().unwrap_or_default(),
        }
    }
}

impl From<PassphraseError> for Failure {
    fn from(error: PassphraseError) -> Self {
        Self {
            error: error.to_string(),
            hint: error.hint().unwrap_or_default(),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self {
            error: error.to_string(),
            hint: error.hint(),
        }
    }
}
