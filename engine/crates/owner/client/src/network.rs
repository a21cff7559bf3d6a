//! Users who come over the network: `coffer-relay`, a program of its own beside this one, speaks
//! TLS with them, asks for their certificates, and brings their connections to a socket that is
//! this account's alone.
//!
//! TLS and certificates need large libraries, and meet bytes of anybody. In a process of its own
//! they meet no key.

use std::{
    fs::Permissions,
    io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use coffer_process::{address::Address, helper, listen::Listener};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    time::timeout,
};

/// The relay's program.
const PROGRAM: &str = "coffer-relay";
/// How long a relay may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where users come in, and how they and this service know each other.
pub struct Network {
    /// Where it listens.
    pub address: SocketAddr,
    /// File with this service's certificate, PEM, with those that lead to its authority.
    pub certificate: PathBuf,
    /// File with its key, PEM.
    pub key: PathBuf,
    /// File with the certificates of the authority that makes users' certificates, PEM.
    pub users_authority: PathBuf,
}

/// A running relay. It ends with this, and with this process: then its standard input ends.
pub struct Relay {
    child: Child,
    address: String,
    _lifeline: Option<ChildStdin>,
    /// Of the socket that it brings connections to.
    _folder: tempfile::TempDir,
}

impl Relay {
    /// Starts it, and gives the listener that it brings connections to. Inside of a runtime.
    pub async fn start(network: &Network) -> io::Result<(Self, Listener)> {
        let folder = tempfile::Builder::new()
            .prefix("coffer-relay-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let socket = folder.path().join("s");
        let listener = Listener::bind(&Address::Unix(socket.clone()))?;
        let mut child = command(network, &socket).spawn()?;
        // Waiting for a child would close it.
        let lifeline = child.stdin.take();
        let address = timeout(PATIENCE, ready(&mut child))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let relay = Self {
            child,
            address,
            _lifeline: lifeline,
            _folder: folder,
        };
        Ok((relay, listener))
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Resolves when it has ended, which it does not of itself.
    pub async fn ended(&mut self) -> io::Error {
        match self.child.wait().await {
            Ok(status) => io::Error::other(format!("coffer-relay ended ({status})")),
            Err(error) => error,
        }
    }
}

/// What it says when it listens; if it does not, its words are on standard error.
async fn ready(child: &mut Child) -> io::Result<String> {
    let failed = || io::Error::other("coffer-relay did not start");
    let stdout = child.stdout.take().ok_or_else(failed)?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    let said: serde_json::Value = serde_json::from_str(&line).map_err(|_| failed())?;
    let address = said.get("listening").and_then(serde_json::Value::as_str);
    Ok(address.ok_or_else(failed)?.to_owned())
}

fn command(network: &Network, socket: &Path) -> Command {
    let mut command = Command::new(helper::beside(PROGRAM));
    command
        .arg("--listen")
        .arg(format!("tcp:{}", network.address))
        .arg("--to")
        .arg(socket)
        .arg("--certificate")
        .arg(&network.certificate)
        .arg("--key")
        .arg(&network.key)
        .arg("--authority")
        .arg(&network.users_authority)
        .args(["--lifeline", "stdin"])
        // The passphrase, and whatever else is this service's.
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}
