//! `coffer-engine`: the enclave's process.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use coffer_engine::{
    address::Address,
    connection,
    enclave::{Enclave, Settings},
    hardening, lifeline,
    listen::Listener,
    size::MemorySize,
};
use coffer_keys::evidence::{EvidenceKind, VERSION};

/// Runs plan fragments over sealed data, with keys that the data's owner releases to it.
#[derive(Parser)]
#[command(name = "coffer-engine", version = VERSION)]
struct Arguments {
    /// Where to listen: unix:PATH, tcp:HOST:PORT (loopback; port 0 lets the system choose) or vsock:CID:PORT
    #[arg(long)]
    listen: Address,
    /// Memory for the tasks' data, for example 512MiB or 2GiB
    #[arg(long, default_value = "2GiB")]
    memory: MemorySize,
    /// Folder for sealed spill files; the engine makes its own in it
    #[arg(long)]
    spill_dir: PathBuf,
    /// What the engine proves its identity with
    #[arg(long)]
    evidence: EvidenceArgument,
    /// End when this ends
    #[arg(long)]
    lifeline: Option<LifelineArgument>,
}

#[derive(Clone, Copy, ValueEnum)]
enum EvidenceArgument {
    /// None at all: for development, and refused by every policy that does not name it
    #[value(name = EvidenceKind::Simulated.name())]
    Simulated,
}

#[derive(Clone, Copy, ValueEnum)]
enum LifelineArgument {
    /// Standard input
    Stdin,
}

/// How often idle leases are looked at.
const LEASE_CHECK: Duration = Duration::from_secs(15);

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
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    hardening::forbid_core_dumps()?;
    let enclave = Enclave::start(&Settings {
        memory: arguments.memory.bytes(),
        spill_folder: arguments.spill_dir.clone(),
    })?;
    // Sockets only; tasks have threads of their own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(512)
        .thread_name("socket")
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let listener = Listener::bind(&arguments.listen)
            .map_err(|error| format!("cannot listen on {}: {error}", arguments.listen))?;
        let EvidenceArgument::Simulated = arguments.evidence;
        lifeline::say_ready(&serde_json::json!({
            "listening": listener.address().to_string(),
            "engine_id": enclave.id(),
            "evidence": EvidenceKind::Simulated.name(),
            "version": VERSION,
        }))?;
        let accepting = connection::accept(enclave.clone(), listener);
        tokio::pin!(accepting);
        let lifeline = async {
            match arguments.lifeline {
                Some(LifelineArgument::Stdin) => lifeline::stdin_ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(lifeline);
        let stop = async {
            lifeline::asked_to_stop().await?;
            tracing::info!(running = enclave.running(), "draining");
            enclave.drain().await;
            Ok::<_, std::io::Error>(())
        };
        tokio::pin!(stop);
        let mut leases = tokio::time::interval(LEASE_CHECK);
        loop {
            tokio::select! {
                () = &mut accepting => return Ok(()),
                () = &mut lifeline => return Ok(()),
                stopped = &mut stop => return stopped.map_err(Into::into),
                _ = leases.tick() => enclave.sessions().expire(Instant::now()),
            }
        }
    });
    // Tasks that still run belong to a process that is gone; nobody waits for them.
    runtime.shutdown_background();
    ended
}
