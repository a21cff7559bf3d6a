//! `coffer-engine`: the enclave's process.

mod arguments;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use arguments::{Arguments, Request};
use coffer_engine::{
    connection,
    enclave::{Enclave, Settings},
};
use coffer_process::{
    address::Address,
    hardening::{self, Under},
    lifeline,
    listen::Listener,
};
use coffer_protocol::{EvidenceKind, EvidenceKinds, evidence::VERSION};
use coffer_release::issue::{self, Interfaces};

/// How often idle leases are looked at.
const LEASE_CHECK: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(Request::Run(arguments)) => arguments,
        Ok(Request::Help) => {
            println!("{}", arguments::USAGE);
            return ExitCode::SUCCESS;
        }
        Ok(Request::Version) => {
            println!("coffer-engine {VERSION}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: coffer-engine --help");
            return ExitCode::from(2);
        }
    };
    if let Some(warning) = coffer_sealing::UNSEALED_WARNING {
        eprintln!("warning: {warning}");
    }
    coffer_process::log::start();
    hardening::silence_panic_messages();
    let code = match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    };
    lifeline::turn_off();
    code
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let issuers = issue::issuers(arguments.evidence.as_ref(), &Interfaces::default())?;
    let mut kinds = EvidenceKinds::default();
    for issuer in &issuers {
        kinds.insert(issuer.kind());
    }
    // What it is without hardware is shown by simulated evidence.
    let libraries = [EvidenceKind::Sgx, EvidenceKind::Simulated];
    hardening::harden(match libraries.iter().any(|kind| kinds.contains(*kind)) {
        true => Under::EnclaveLibrary,
        false => Under::Kernel,
    })?;
    for kind in kinds.iter() {
        match kind {
            EvidenceKind::Simulated => {
                tracing::warn!("simulated evidence: nothing proves what this engine is")
            }
            EvidenceKind::Tpm => {
                tracing::info!("tpm evidence: measured boot, which keeps no memory secret")
            }
            kind => tracing::info!("{kind} evidence"),
        }
    }
    let settings = Settings {
        memory: arguments.memory,
        spill_folder: arguments.spill_dir.clone(),
        executors_files: arguments.executors_files,
    };
    let enclave = Enclave::start_as(&settings, issuers)?;
    // Sockets only; tasks have threads of their own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(512)
        .thread_name("socket")
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let bind = |address: &Address| {
            Listener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))
        };
        let listener = bind(&arguments.listen)?;
        let stop_at = arguments.stop_at.as_ref().map(bind).transpose()?;
        let asked = lifeline::asked_to_stop()?;
        lifeline::say_ready(&serde_json::json!({
            "listening": listener.address().to_string(),
            "engine_id": enclave.id(),
            "evidence": kinds.to_string(),
            "version": VERSION,
        }))?;
        let accepting = connection::accept(enclave.clone(), listener);
        tokio::pin!(accepting);
        let lifeline = async {
            if arguments.lifeline {
                lifeline::stdin_ended().await;
            } else {
                std::future::pending().await
            }
        };
        tokio::pin!(lifeline);
        let stop = async {
            let connected = async {
                match &stop_at {
                    Some(listener) => lifeline::asked_at(listener).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = asked => {}
                () = connected => {}
            }
            tracing::info!(running = enclave.running(), "draining");
            enclave.drain().await;
        };
        tokio::pin!(stop);
        let mut leases = tokio::time::interval(LEASE_CHECK);
        loop {
            tokio::select! {
                () = &mut accepting => return Ok(()),
                () = &mut lifeline => return Ok(()),
                () = &mut stop => return Ok(()),
                _ = leases.tick() => enclave.sessions().expire(Instant::now()),
            }
        }
    });
    // Tasks that still run belong to a process that is gone; nobody waits for them.
    runtime.shutdown_background();
    enclave.spill().remove();
    ended
}
