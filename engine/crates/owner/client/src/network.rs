//! Users who come over the network: `coffer-relay`, a program of its own beside this one, speaks TLS
//! with them, asks for their certificates, and brings their connections to a socket that is this
//! account's alone.
//!
//! TLS and certificates need large libraries, and meet bytes of anybody. In a process of its own
//! they meet no key.

use std::{
    fs::Permissions,
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use coffer_process::{address::Address, helper, listen::Listener};

/// The relay's program.
const PROGRAM: &str = "coffer-relay";
/// How long a relay that is to end may take for it.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// A running relay. It ends with this, and with this process.
pub struct Relay {
    child: Child,
    address: String,
    /// Of the socket that it brings connections to.
    _folder: tempfile::TempDir,
}

impl Relay {
    /// Starts it, and gives the listener that it brings connections to. Inside of a runtime.
    pub fn start(network: &Network) -> io::Result<(Self, Listener)> {
        let folder = tempfile::Builder::new()
            .prefix("coffer-relay-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let socket = folder.path().join("s");
        let listener = Listener::bind(&Address::Unix(socket.clone()))?;
        let child = command(network, &socket).spawn()?;
        let mut relay = Self {
            child,
            address: String::new(),
            _folder: folder,
        };
        relay.address = relay.ready()?;
        Ok((relay, listener))
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it says when it listens; if it does not, its words are on standard error.
    fn ready(&mut self) -> io::Result<String> {
        let failed = || io::Error::other("coffer-relay did not start");
        let stdout = self.child.stdout.take().ok_or_else(failed)?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let said: serde_json::Value = serde_json::from_str(&line).map_err(|_| failed())?;
        let address = said.get("listening").and_then(serde_json::Value::as_str);
        Ok(address.ok_or_else(failed)?.to_owned())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.child.stdin.take());
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(10)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        .stdout(Stdio::piped());
    command
}
