//! Sockets between a virtual machine and its host (vsock(7)).
//!
//! A connected one is a stream socket as a Unix one is, of which nothing is asked here that depends
//! on its family: so it is held as one.

use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix,
    },
    path::Path,
    time::Duration,
};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::{Mutex, mpsc},
    time::timeout,
};

/// Connections that may wait to be accepted.
const WAITING: i32 = 1024;
/// What a hypervisor answers is one short line.
const LINE: usize = 64;
/// How long connecting may take: the machine is on this host.
const CONNECTING: Duration = Duration::from_secs(10);

/// A bound listener. A thread of its own accepts: no family of sockets that tokio has accepts here.
pub(crate) struct Listener(Mutex<mpsc::Receiver<io::Result<Socket>>>);

impl Listener {
    pub(crate) fn bind(cid: u32, port: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::VSOCK, Type::STREAM.cloexec(), None)?;
        make_room(&socket)?;
        socket.bind(&SockAddr::vsock(cid, port))?;
        socket.listen(WAITING)?;
        let (sender, receiver) = mpsc::channel(1);
        std::thread::Builder::new()
            .name("vsock".to_owned())
            .spawn(move || {
                while sender
                    .blocking_send(socket.accept().map(|(accepted, _)| accepted))
                    .is_ok()
                {}
            })?;
        Ok(Self(Mutex::new(receiver)))
    }

    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        let accepted = self.0.lock().await.recv().await;
        held(accepted.ok_or(io::ErrorKind::BrokenPipe)??)
    }
}

/// To a port of the machine with this context id.
pub(crate) async fn connect(cid: u32, port: u32) -> io::Result<UnixStream> {
    // The kernel waits for two seconds at most for a machine that does not answer.
    let connecting = tokio::task::spawn_blocking(move || {
        let socket = Socket::new(Domain::VSOCK, Type::STREAM.cloexec(), None)?;
        socket.connect(&SockAddr::vsock(cid, port))?;
        io::Result::Ok(socket)
    });
    held(connecting.await.map_err(io::Error::other)??)
}

/// To a port of the machine whose hypervisor has this socket. It is asked `CONNECT PORT`, and
/// answers `OK` and a number (Firecracker, docs/vsock.md).
pub(crate) async fn connect_through(socket: &Path, port: u32) -> io::Result<UnixStream> {
    let asking = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream
            .write_all(format!("CONNECT {port}\n").as_bytes())
            .await?;
        let mut line = Vec::new();
        // Byte by byte: what comes after the line is the engine's.
        loop {
            match stream.read_u8().await? {
                b'\n' => break,
                byte if line.len() < LINE => line.push(byte),
                _ => return Err(io::Error::other("the hypervisor's answer is no line")),
            }
        }
        match line.strip_prefix(b"OK ") {
            Some(_) => Ok(stream),
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    };
    timeout(CONNECTING, asking)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// How much may be on its way to a connection of this listener: an answer of storage is some
/// megabytes, and of the kernel's 256 KB it would need many round trips.
const ROOM: u64 = 64 << 20;
/// `SO_VM_SOCKETS_BUFFER_SIZE` and `SO_VM_SOCKETS_BUFFER_MAX_SIZE` (linux/vm_sockets.h).
const BUFFER_SIZE: libc::c_int = 0;
const BUFFER_MAX_SIZE: libc::c_int = 2;

fn make_room(socket: &Socket) -> io::Result<()> {
    let room = ROOM;
    for option in [BUFFER_MAX_SIZE, BUFFER_SIZE] {
        // SAFETY: the value is read during the call, and its length is given. No crate here has
        // these options.
        #[allow(unsafe_code)]
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::AF_VSOCK,
                option,
                (&raw const room).cast(),
                u32::try_from(size_of::<u64>()).unwrap_or_default(),
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn held(socket: Socket) -> io::Result<UnixStream> {
    socket.set_nonblocking(true)?;
    UnixStream::from_std(unix::net::UnixStream::from(OwnedFd::from(socket)))
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    async fn asked(answer: &'static [u8]) -> io::Result<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let hypervisor = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = [0; 13];
            stream.read_exact(&mut question).await.unwrap();
            assert_eq!(&question, b"CONNECT 5000\n");
            stream.write_all(answer).await.unwrap();
        });
        let connected = connect_through(&path, 5000).await;
        hypervisor.await.unwrap();
        let mut rest = Vec::new();
        connected?.read_to_end(&mut rest).await?;
        Ok(rest)
    }

    #[tokio::test]
    async fn a_hypervisor_is_asked_for_a_port() {
        assert_eq!(asked(b"OK 1024\nhello").await.unwrap(), b"hello");
        assert!(asked(b"").await.is_err());
        assert!(asked(b"NO\n").await.is_err());
        assert!(asked(&[b'O'; 100]).await.is_err());
    }
}
