//! Listening and the two halves of an accepted connection, over Unix sockets, TCP and a virtual
//! machine's sockets alike.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpListener, TcpStream, UnixListener, UnixStream, tcp, unix},
};

use crate::{address::Address, vsock};

/// A bound listener. A Unix socket's file is removed when this is dropped.
pub struct Listener {
    kind: Kind,
    address: Address,
    remove: Option<PathBuf>,
}

enum Kind {
    Unix(UnixListener),
    Tcp(TcpListener),
    Vsock(vsock::Listener),
}

impl Listener {
    /// Binds. Must be called inside a tokio runtime. A socket file left by a process that is gone
    /// is replaced; one that still answers is not.
    pub fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                if path.exists() {
                    if std::os::unix::net::UnixStream::connect(path).is_ok() {
                        return Err(io::Error::new(
                            io::ErrorKind::AddrInUse,
                            "another process listens there",
                        ));
                    }
                    std::fs::remove_file(path)?;
                }
                Ok(Self {
                    kind: Kind::Unix(UnixListener::bind(path)?),
                    address: address.clone(),
                    remove: Some(path.clone()),
                })
            }
            Address::Tcp(wanted) => {
                let listener = std::net::TcpListener::bind(wanted)?;
                listener.set_nonblocking(true)?;
                let bound = listener.local_addr()?;
                Ok(Self {
                    kind: Kind::Tcp(TcpListener::from_std(listener)?),
                    address: Address::Tcp(bound),
                    remove: None,
                })
            }
            Address::Vsock { cid, port } => Ok(Self {
                kind: Kind::Vsock(vsock::Listener::bind(*cid, *port)?),
                address: address.clone(),
                remove: None,
            }),
            Address::Hypervisor { .. } => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the socket of a hypervisor is one to connect to; listen at vsock:any:PORT",
            )),
        }
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<(ReadHalf, WriteHalf)> {
        match &self.kind {
            Kind::Unix(listener) => Ok(split_unix(listener.accept().await?.0)),
            Kind::Tcp(listener) => split_tcp(listener.accept().await?.0),
            Kind::Vsock(listener) => Ok(split_unix(listener.accept().await?)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.remove {
            // Nothing can be done about a failure here; the next bind replaces a dead socket file.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Connects to an engine, for tools and the relay.
pub async fn connect(address: &Address) -> io::Result<(ReadHalf, WriteHalf)> {
    match address {
        Address::Unix(path) => Ok(split_unix(UnixStream::connect(path).await?)),
        Address::Tcp(to) => split_tcp(TcpStream::connect(to).await?),
        Address::Vsock { .. } | Address::Hypervisor { .. } => {
            Ok(split_unix(vsock::connect(address).await?))
        }
    }
}

fn split_unix(stream: UnixStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    (ReadHalf::Unix(read), WriteHalf::Unix(write))
}

fn split_tcp(stream: TcpStream) -> io::Result<(ReadHalf, WriteHalf)> {
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    Ok((ReadHalf::Tcp(read), WriteHalf::Tcp(write)))
}

/// The reading half of a connection.
pub enum ReadHalf {
    /// Of a Unix socket, or of a virtual machine's.
    Unix(unix::OwnedReadHalf),
    /// Of a TCP connection.
    Tcp(tcp::OwnedReadHalf),
}

impl ReadHalf {
    /// The account of the process at the other end when it connected, by the kernel's word
    /// (SO_PEERCRED); none over TCP.
    pub fn peer_uid(&self) -> Option<u32> {
        match self {
            Self::Unix(half) => half.as_ref().peer_cred().ok().map(|found| found.uid()),
            Self::Tcp(_) => None,
        }
    }

    /// Whether the peer has closed its side, also when bytes that it sent before are still unread.
    pub async fn peer_closed(&self) -> bool {
        let ready = match self {
            Self::Unix(half) => half.ready(Interest::READABLE).await,
            Self::Tcp(half) => half.ready(Interest::READABLE).await,
        };
        ready.map_or(true, |ready| ready.is_read_closed())
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_read(cx, buf),
            Self::Tcp(half) => Pin::new(half).poll_read(cx, buf),
        }
    }
}

/// The writing half of a connection; dropping it closes the connection's writing side.
pub enum WriteHalf {
    /// Of a Unix socket, or of a virtual machine's.
    Unix(unix::OwnedWriteHalf),
    /// Of a TCP connection.
    Tcp(tcp::OwnedWriteHalf),
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_write(cx, buf),
            Self::Tcp(half) => Pin::new(half).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_flush(cx),
            Self::Tcp(half) => Pin::new(half).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_shutdown(cx),
            Self::Tcp(half) => Pin::new(half).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn round_trip(address: Address) {
        let listener = Listener::bind(&address).unwrap();
        let (mut read, mut write) = connect(listener.address()).await.unwrap();
        let (mut far_read, mut far_write) = listener.accept().await.unwrap();
        write.write_all(b"ping").await.unwrap();
        let mut got = [0; 4];
        far_read.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"ping");
        far_write.write_all(b"pong").await.unwrap();
        read.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"pong");

        // Closing is seen although unread bytes lie before it.
        write.write_all(b"unread").await.unwrap();
        assert!(!far_read.peer_closed().await);
        drop((read, write));
        while !far_read.peer_closed().await {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn unix_and_tcp_carry_bytes_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        round_trip(Address::Unix(folder.path().join("s"))).await;
        round_trip("tcp:127.0.0.1:0".parse().unwrap()).await;
    }

    #[tokio::test]
    async fn a_dead_socket_file_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = Listener::bind(&Address::Unix(path.clone())).unwrap();
        assert!(Listener::bind(&Address::Unix(path.clone())).is_err());
        drop(first);
        assert!(!path.exists());
    }

    /// Nobody has this context id, and some machines have no such sockets at all.
    #[tokio::test]
    async fn a_machine_that_is_not_there_is_no_connection() {
        let nobody = Address::Vsock { cid: 77, port: 1 };
        assert!(connect(&nobody).await.is_err());
        let elsewhere: Address = "vsock:/run/vm:1".parse().unwrap();
        let error = Listener::bind(&elsewhere).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
