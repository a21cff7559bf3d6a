//! `coffer-client`: the client engine's process.

use std::{
    net::SocketAddr, os::unix::fs::PermissionsExt, path::PathBuf, process::ExitCode, sync::Arc,
};

use clap::{Parser, ValueEnum};
use coffer_client::{
    ClientError, KeyService, Service, connection,
    network::{Network, Relay},
};
use coffer_custody::{ConfigDir, ConfigDirError, Passphrase, PassphraseError};
use coffer_process::{address::Address, hardening, lifeline, listen::Listener};
use coffer_protocol::evidence::VERSION;

/// Holds the keys at the client site: admits engines, seals queries for them, opens results.
#[derive(Parser)]
#[command(name = "coffer-client", version = VERSION)]
struct Arguments {
    /// Where to listen: unix:PATH, or tcp:HOST:PORT on loopback
    #[arg(long, required_unless_present_any = ["serve", "serve_tls"])]
    #[arg(conflicts_with_all = ["serve", "serve_tls"])]
    listen: Option<Address>,
    /// Serve drivers of other accounts at this Unix socket, each with the rights of its user in the
    /// policy
    #[arg(long, value_name = "PATH", conflicts_with = "user")]
    serve: Option<PathBuf>,
    /// Serve drivers on other machines here too, over mutual TLS: each with the rights of the user
    /// whose certificate it shows
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "user")]
    #[arg(requires_all = ["tls_certificate", "tls_key", "tls_users"])]
    serve_tls: Option<SocketAddr>,
    /// File with the key service's certificate, and those between it and its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "serve_tls")]
    tls_certificate: Option<PathBuf>,
    /// File with the certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "serve_tls")]
    tls_key: Option<PathBuf>,
    /// File with the certificates of the authority that makes users' certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "serve_tls")]
    tls_users: Option<PathBuf>,
    /// Folder with keyring and policy (else COFFER_CONFIG_DIR, else ~/.coffer)
    #[arg(long, value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
    /// The name that it had before
    #[arg(
        long,
        value_name = "FOLDER",
        hide = true,
        conflicts_with = "config_dir"
    )]
    home: Option<PathBuf>,
    /// File with the keyring's passphrase (else the environment variable COFFER_PASSPHRASE)
    #[arg(long)]
    passphrase_file: Option<PathBuf>,
    /// Act for this user of the policy, with that user's rights only [default: the owner, who has
    /// all]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
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
    coffer_process::log::start();
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
    hardening::harden(hardening::Under::Kernel)?;
    let home = arguments.home.as_deref();
    let named = arguments.config_dir.as_deref().or(home);
    if let Some(old) = ConfigDir::old_name(named, home) {
        eprintln!("warning: {old}");
    }
    let config_dir = ConfigDir::locate(named)?;
    let passphrase = match &arguments.passphrase_file {
        Some(file) => Passphrase::from_file(file)?,
        None => Passphrase::from_env()?,
    };
    let serving = match arguments.serve.is_some() || arguments.serve_tls.is_some() {
        true => Serving::Users(Arc::new(KeyService::open(config_dir, &passphrase)?)),
        false => {
            let service = Service::open(config_dir, &passphrase)?;
            Serving::Driver(Arc::new(match &arguments.user {
                Some(user) => service.on_behalf_of(user)?,
                None => service,
            }))
        }
    };
    drop(passphrase);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("socket")
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let listener = listen(arguments)?;
        let relayed = relayed(arguments).await?;
        let asked = lifeline::asked_to_stop()?;
        let network = relayed
            .as_ref()
            .map(|(relay, _)| relay.address().to_owned());
        let local = listener
            .as_ref()
            .map(|listener| listener.address().to_string());
        lifeline::say_ready(&serde_json::json!({
            "listening": local.as_ref().or(network.as_ref()),
            "network": network,
            "version": VERSION,
        }))?;
        let lifeline = async {
            match arguments.lifeline {
                Some(LifelineArgument::Stdin) => lifeline::stdin_ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            error = serving.accept(listener, relayed) => Err(error.into()),
            () = lifeline => Ok(()),
            () = asked => Ok(()),
        }
    });
    // Threads of connections end with the process, whatever they are at.
    serving.end();
    runtime.shutdown_background();
    ended
}

/// Who is let in.
enum Serving {
    /// The driver that started this process.
    Driver(Arc<Service>),
    /// Accounts that the policy names.
    Users(Arc<KeyService>),
}

impl Serving {
    /// Accepts connections until the relay has ended, if there is one: who came that way would not
    /// be served any more, and nobody be told.
    async fn accept(
        &self,
        listener: Option<Listener>,
        relayed: Option<(Relay, Listener)>,
    ) -> std::io::Error {
        let own = async {
            match (self, listener) {
                (_, None) => {}
                (Self::Driver(service), Some(listener)) => {
                    connection::accept(Arc::clone(service), listener).await;
                }
                (Self::Users(keys), Some(listener)) => {
                    connection::accept_users(Arc::clone(keys), listener).await;
                }
            }
            std::future::pending().await
        };
        let brought = async {
            let (Self::Users(keys), Some((mut relay, listener))) = (self, relayed) else {
                return std::future::pending().await;
            };
            tokio::select! {
                () = connection::accept_introduced(Arc::clone(keys), listener) => {
                    std::future::pending().await
                }
                error = relay.ended() => error,
            }
        };
        tokio::select! {
            error = own => error,
            error = brought => error,
        }
    }

    fn end(&self) {
        match self {
            Self::Driver(service) => service.end(),
            Self::Users(keys) => keys.end(),
        }
    }
}

/// What brings users from the network, and where it brings them to.
async fn relayed(arguments: &Arguments) -> Result<Option<(Relay, Listener)>, Failure> {
    let given = (
        arguments.serve_tls,
        &arguments.tls_certificate,
        &arguments.tls_key,
        &arguments.tls_users,
    );
    let (Some(address), Some(certificate), Some(key), Some(users)) = given else {
        return Ok(None);
    };
    let network = Network {
        address,
        certificate: certificate.clone(),
        key: key.clone(),
        users_authority: users.clone(),
    };
    Ok(Some(Relay::start(&network).await.map_err(|error| {
        Failure {
            error: format!("cannot serve over the network: {error}"),
            hint: "see what coffer-relay said before; it is to lie beside coffer-client".to_owned(),
        }
    })?))
}

fn listen(arguments: &Arguments) -> Result<Option<Listener>, Failure> {
    let address = match (&arguments.serve, &arguments.listen) {
        (Some(path), _) => Address::Unix(path.clone()),
        (None, Some(address)) => address.clone(),
        (None, None) => return Ok(None),
    };
    let failed = |error: std::io::Error| Failure {
        error: format!("cannot listen on {address}: {error}"),
        hint: "is the folder there, and writable?".to_owned(),
    };
    let listener = Listener::bind(&address).map_err(failed)?;
    if let Some(path) = &arguments.serve {
        // Every account may knock: who it is the kernel says, and the policy who comes in.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    }
    Ok(Some(listener))
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self {
            error: error.to_string(),
            hint: String::new(),
        }
    }
}

impl From<ConfigDirError> for Failure {
    fn from(error: ConfigDirError) -> Self {
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
            hint: error.hint().unwrap_or_default(),
        }
    }
}
