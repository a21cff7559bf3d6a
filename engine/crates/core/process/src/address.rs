//! Addresses of engines: `unix:PATH`, `tcp:HOST:PORT`, `vsock:CID:PORT`, `vsock:PATH:PORT`.
//!
//! TCP is loopback only: the task protocol has no transport security of its own. What crosses it is
//! sealed, but who may connect is not checked, so it must not be offered to a network. A virtual
//! machine's socket joins it and its host, and nobody else.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use thiserror::Error;

/// Where an engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket at this path.
    Unix(PathBuf),
    /// A loopback TCP port; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// A context id and port of a virtual machine's socket.
    Vsock {
        /// The context id. [`ANY_CID`] is that of the machine in which one listens.
        cid: u32,
        /// The port.
        port: u32,
    },
    /// The same where the hypervisor and not the kernel has the host's side, as Firecracker, Cloud
    /// Hypervisor and `vhost-device-vsock` do: to connect only.
    Hypervisor {
        /// The hypervisor's Unix socket. It is asked for a port in words.
        socket: PathBuf,
        /// The port.
        port: u32,
    },
}

/// `VMADDR_CID_ANY`, written `any`.
pub const ANY_CID: u32 = u32::MAX;

/// Why a text is no [`Address`].
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    /// Neither `unix:`, `tcp:` nor `vsock:`.
    #[error("an address starts with unix:, tcp: or vsock:")]
    Scheme,
    /// `unix:` with nothing after it.
    #[error("unix: needs a path")]
    EmptyPath,
    /// Not `HOST:PORT`.
    #[error("tcp: needs HOST:PORT")]
    HostPort,
    /// A host that is no loopback address.
    #[error("tcp: listens on loopback only (127.0.0.1, [::1] or localhost)")]
    NotLoopback,
    /// Not `CID:PORT`.
    #[error("vsock: needs CID:PORT, both numbers, or the absolute path of a socket for CID")]
    CidPort,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once(':').ok_or(AddressError::Scheme)?;
        match scheme {
            "unix" if rest.is_empty() => Err(AddressError::EmptyPath),
            "unix" => Ok(Self::Unix(PathBuf::from(rest))),
            "tcp" => tcp(rest),
            "vsock" => vsock(rest),
            _ => Err(AddressError::Scheme),
        }
    }
}

fn tcp(rest: &str) -> Result<Address, AddressError> {
    let (host, port) = rest.rsplit_once(':').ok_or(AddressError::HostPort)?;
    let port: u16 = port.parse().map_err(|_| AddressError::HostPort)?;
    let bare = host
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    let ip = match (host, bare) {
        ("localhost", _) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        (_, Some(inner)) => IpAddr::V6(inner.parse().map_err(|_| AddressError::HostPort)?),
        // A name other than localhost would have to be resolved, by a resolver that the host owns.
        _ => IpAddr::V4(host.parse().map_err(|_| AddressError::NotLoopback)?),
    };
    if ip.is_loopback() {
        Ok(Address::Tcp(SocketAddr::new(ip, port)))
    } else {
        Err(AddressError::NotLoopback)
    }
}

fn vsock(rest: &str) -> Result<Address, AddressError> {
    let (whose, port) = rest.rsplit_once(':').ok_or(AddressError::CidPort)?;
    let port = port.parse().map_err(|_| AddressError::CidPort)?;
    if whose.starts_with('/') {
        let socket = PathBuf::from(whose);
        return Ok(Address::Hypervisor { socket, port });
    }
    let cid = match whose {
        "any" => ANY_CID,
        number => number.parse().map_err(|_| AddressError::CidPort)?,
    };
    Ok(Address::Vsock { cid, port })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Vsock { cid: ANY_CID, port } => write!(f, "vsock:any:{port}"),
            Self::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Self::Hypervisor { socket, port } => write!(f, "vsock:{}:{port}", socket.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written_back() {
        for text in [
            "unix:/run/engine.sock",
            "tcp:127.0.0.1:0",
            "tcp:[::1]:4321",
            "vsock:3:5000",
            "vsock:any:5000",
            "vsock:/run/vm:1/socket:5000",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!(
            "tcp:localhost:7".parse::<Address>().unwrap().to_string(),
            "tcp:127.0.0.1:7"
        );
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, error) in [
            ("", AddressError::Scheme),
            ("/run/engine.sock", AddressError::Scheme),
            ("http:x", AddressError::Scheme),
            ("unix:", AddressError::EmptyPath),
            ("tcp:127.0.0.1", AddressError::HostPort),
            ("tcp:127.0.0.1:70000", AddressError::HostPort),
            ("tcp:0.0.0.0:1", AddressError::NotLoopback),
            ("tcp:10.0.0.1:1", AddressError::NotLoopback),
            ("tcp:example.org:1", AddressError::NotLoopback),
            ("tcp:[::]:1", AddressError::NotLoopback),
            ("vsock:3", AddressError::CidPort),
            ("vsock:a:1", AddressError::CidPort),
            ("vsock:socket:1", AddressError::CidPort),
            ("vsock:/socket", AddressError::CidPort),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
    }
}
