//! The directions: from the network to the key service's socket, from a driver's socket to the
//! network, and from an executor's socket into a virtual machine.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use coffer_process::address::Address;
use coffer_protocol::{
    framing::put_message,
    wire::{ClientMessage, Problem},
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::names::introduce;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that have not yet shown who they are.
const STRANGERS: usize = 1024;
/// Connections in all.
const CONNECTIONS: usize = 4096;
/// Bytes of one direction at a time.
const BUFFER: usize = 64 << 10;
/// How long accepting rests after it failed, so that a lack of file descriptors is no busy loop.
const REST: Duration = Duration::from_millis(50);

/// The network's side of a key service.
pub struct Server {
    acceptor: TlsAcceptor,
    to: PathBuf,
    strangers: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl Server {
    /// Brings who shows a certificate to the socket at `to`.
    pub fn new(acceptor: TlsAcceptor, to: PathBuf) -> Self {
        Self {
            acceptor,
            to,
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            all: Arc::new(Semaphore::new(CONNECTIONS)),
        }
    }

    /// Accepts connections for ever.
    pub async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            // Who waits to be let in waits in the system's queue.
            let held = tokio::join!(
                Arc::clone(&self.all).acquire_owned(),
                Arc::clone(&self.strangers).acquire_owned()
            );
            let (Ok(place), Ok(stranger)) = held else {
                return;
            };
            match listener.accept().await {
                Ok((stream, from)) => {
                    let server = Arc::clone(&self);
                    tokio::spawn(async move {
                        let admitted = timeout(HANDSHAKE, server.admit(stream)).await;
                        drop(stranger);
                        let ended = match admitted {
                            Ok(Ok((mut near, mut far))) => carry(&mut near, &mut far).await,
                            Ok(Err(error)) => Err(error),
                            Err(_) => Err(io::ErrorKind::TimedOut.into()),
                        };
                        drop(place);
                        if let Err(error) = ended {
                            eprintln!("info: a connection from {from} ended: {error}");
                        }
                    });
                }
                Err(error) => {
                    eprintln!("warning: a connection was not accepted: {error}");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    async fn admit(
        &self,
        stream: TcpStream,
    ) -> io::Result<(tokio_rustls::server::TlsStream<TcpStream>, UnixStream)> {
        stream.set_nodelay(true)?;
        let stream = self.acceptor.accept(stream).await?;
        let (_, tls) = stream.get_ref();
        let shown = tls.peer_certificates().and_then(<[_]>::first);
        let whom = shown
            .and_then(|certificate| introduce(certificate))
            .ok_or_else(|| io::Error::other("no certificate that can be read was shown"))?;
        let mut far = UnixStream::connect(&self.to).await?;
        let mut message = Vec::new();
        put_message(&mut message, kind(ClientMessage::Introduce), &whom)
            .map_err(io::Error::other)?;
        far.write_all(&message).await?;
        Ok((stream, far))
    }
}

/// A connection to the key service, with the certificate that it shows verified.
pub async fn connect_once(connector: &TlsConnector, to: &str) -> io::Result<TlsStream<TcpStream>> {
    let host = to.rsplit_once(':').map_or(to, |(host, _)| host);
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let connecting = async {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        connector.connect(name, stream).await
    };
    timeout(HANDSHAKE, connecting)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Brings who connects to a driver's socket to the key service, for ever.
pub async fn forward(listener: UnixListener, connector: TlsConnector, to: String) {
    let to: Arc<str> = to.into();
    each(listener, |mut near| {
        let (connector, to) = (connector.clone(), Arc::clone(&to));
        async move {
            let ended = match connect_once(&connector, &to).await {
                Ok(mut far) => carry(&mut near, &mut far).await,
                Err(error) => refuse(&mut near, &to, &error).await,
            };
            if let Err(error) = ended {
                eprintln!("info: a connection to {to} ended: {error}");
            }
        }
    })
    .await;
}

/// Brings who connects to an executor's socket to an engine in a virtual machine, for ever. One
/// that cannot be reached is a connection that ends.
pub async fn forward_to_engine(listener: UnixListener, engine: Address) {
    each(listener, |mut near| {
        let engine = engine.clone();
        async move {
            let ended = match coffer_process::listen::connect(&engine).await {
                Ok((read, write)) => carry(&mut near, &mut tokio::io::join(read, write)).await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                eprintln!("info: a connection to {engine} ended: {error}");
            }
        }
    })
    .await;
}

async fn each<F: Future<Output = ()> + Send + 'static>(
    listener: UnixListener,
    bring: impl Fn(UnixStream) -> F,
) {
    loop {
        match listener.accept().await {
            Ok((near, _)) => {
                tokio::spawn(bring(near));
            }
            Err(error) => {
                eprintln!("warning: a connection was not accepted: {error}");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// Tells the driver why there is no key service, in the key service's own way.
async fn refuse(near: &mut UnixStream, to: &str, error: &io::Error) -> io::Result<()> {
    let problem = Problem {
        code: "network".to_owned(),
        message: format!("the key service at {to} cannot be reached: {error}"),
        hint: "is it running, and are address, certificate and authority right?".to_owned(),
    };
    let mut message = Vec::new();
    put_message(&mut message, kind(ClientMessage::Problem), &problem).map_err(io::Error::other)?;
    near.write_all(&message).await
}

async fn carry<A, B>(near: &mut A, far: &mut B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    match copy_bidirectional_with_sizes(near, far, BUFFER, BUFFER).await {
        // A peer that just closes its socket, as one that cancels does, is no news.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            ) =>
        {
            Ok(())
        }
        ended => ended.map(|_| ()),
    }
}

fn kind(message: ClientMessage) -> u8 {
    u8::try_from(i32::from(message)).unwrap_or_default()
}

/// A socket that this account alone can connect to.
pub fn own_socket(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
