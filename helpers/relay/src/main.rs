//! `coffer-relay`: see the crate's README. It says where it listens in one line of JSON on standard
//! output, as engines do, and ends with its standard input or by a signal.

use std::{io, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{ArgGroup, Parser, ValueEnum};
use coffer_process::{address::Address, lifeline, memory};
use coffer_protocol::evidence::VERSION;
use coffer_relay::{Files, Server, connect_once, forward, forward_to_engine, own_socket};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// How long a key service may take to refuse a certificate, beside the handshake.
const REFUSAL: Duration = Duration::from_millis(500);

/// Brings drivers and the key service together over mutual TLS 1.3, and executors and engines in
/// virtual machines
#[derive(Parser)]
#[command(name = "coffer-relay", version = VERSION)]
#[command(group(ArgGroup::new("far").required(true)))]
struct Arguments {
    /// Where to listen: tcp:ADDRESS:PORT for users, unix:PATH for a driver or an executor
    #[arg(long)]
    listen: String,
    /// The key service's socket that connections of users are brought to
    #[arg(long, value_name = "PATH", group = "far")]
    to: Option<PathBuf>,
    /// The key service that a driver's connections are brought to
    #[arg(long, value_name = "HOST:PORT", group = "far")]
    connect: Option<String>,
    /// The engine in a virtual machine that an executor's connections are brought to:
    /// vsock:CID:PORT, or vsock:PATH:PORT where the hypervisor has a Unix socket for it. Without
    /// TLS: an engine proves itself by evidence, and what it is told is sealed
    #[arg(long, value_name = "ADDRESS", group = "far")]
    engine: Option<Address>,
    /// File with this side's certificate, and those between it and its authority (PEM)
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// File with the certificate's key (PEM)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// File with the certificates of the other side's authority (PEM)
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// End when this ends
    #[arg(long)]
    lifeline: Option<LifelineArgument>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LifelineArgument {
    /// Standard input
    Stdin,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            eprintln!(
                "hint: certificates, keys and authorities are files in PEM form; the key \
                service must be running, and its certificate have the name it is called by"
            );
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    memory::forbid_core_dumps()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let asked = lifeline::asked_to_stop()?;
        let lifeline = async {
            match arguments.lifeline {
                Some(LifelineArgument::Stdin) => lifeline::stdin_ended().await,
                None => std::future::pending().await,
            }
        };
        let work = work(arguments);
        tokio::select! {
            ended = work => ended,
            () = lifeline => Ok(()),
            () = asked => Ok(()),
        }
    })
}

async fn work(arguments: &Arguments) -> io::Result<()> {
    let listen = arguments.listen.split_once(':');
    if let (Some(("unix", path)), Some(engine)) = (listen, &arguments.engine) {
        let listener = own_socket(path.as_ref())?;
        // What is wrong is said now, and not with the first task.
        let connected = coffer_process::listen::connect(engine).await;
        connected.map_err(|error| {
            io::Error::other(format!("the engine at {engine} cannot be reached: {error}"))
        })?;
        ready(&arguments.listen)?;
        forward_to_engine(listener, engine.clone()).await;
        return Ok(());
    }
    let file = |given: &'static str, file: &Option<PathBuf>| {
        let missing = || io::Error::other(format!("a key service needs {given}"));
        file.clone().ok_or_else(missing)
    };
    let (certificate, key, authority) = (
        file("--certificate", &arguments.certificate)?,
        file("--key", &arguments.key)?,
        file("--authority", &arguments.authority)?,
    );
    let files = Files {
        certificate: &certificate,
        key: &key,
        authority: &authority,
    };
    match (listen, &arguments.to, &arguments.connect) {
        (Some(("tcp", address)), Some(to), _) => {
            let config = files.server().map_err(io::Error::other)?;
            let address: SocketAddr = address.parse().map_err(io::Error::other)?;
            let listener = TcpListener::bind(address).await?;
            let server = Server::new(TlsAcceptor::from(Arc::new(config)), to.clone());
            ready(&listener.local_addr()?.to_string())?;
            Arc::new(server).accept(listener).await;
        }
        (Some(("unix", path)), _, Some(to)) => {
            let config = files.client().map_err(io::Error::other)?;
            let connector = TlsConnector::from(Arc::new(config));
            // What is wrong is said now, and not with the first query.
            try_out(&connector, to).await.map_err(|error| {
                io::Error::other(format!(
                    "the key service at {to} cannot be reached: {error}"
                ))
            })?;
            let listener = own_socket(path.as_ref())?;
            ready(&arguments.listen)?;
            forward(listener, connector, to.clone()).await;
        }
        _ => {
            return Err(io::Error::other(
                "it listens at tcp:ADDRESS:PORT with --to, and at unix:PATH with the others",
            ));
        }
    }
    Ok(())
}

/// In TLS 1.3 the other side looks at this side's certificate after the handshake: if it is not
/// taken, that is the first thing that comes.
async fn try_out(connector: &TlsConnector, to: &str) -> io::Result<()> {
    let mut stream = connect_once(connector, to).await?;
    match timeout(REFUSAL, stream.read_u8()).await {
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) | Err(_) => stream.shutdown().await,
    }
}

fn ready(listening: &str) -> io::Result<()> {
    lifeline::say_ready(&serde_json::json!({
        "listening": listening,
        "version": VERSION,
    }))
}
