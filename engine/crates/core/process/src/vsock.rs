//! Sockets between a virtual machine and its host (vsock(7)).
//!
//! A connected one is a stream socket as a Unix one is, of which nothing is asked here that depends
//! on its family: so it is held as one.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix,
    },
    path::Path,
    time::Duration,
};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::{
    net::UnixStream,
    sync::{Mutex, mpsc},
};

use crate::address::Address;

/// Connections that may wait to be accepted.
const WAITING: i32 = 1024;
/// What a hypervisor answers is one short line.
const LINE: usize = 64;
/// How long it may take a hypervisor: the machine is on this host.
const ANSWER: Duration = Duration::from_secs(10);

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
        let accepted = accepted.ok_or(io::ErrorKind::BrokenPipe)??;
        held(OwnedFd::from(accepted).into())
    }
}

/// Connects to an engine in a virtual machine; `None` for an address of another kind. Not from an
/// asynchronous task: it waits.
pub fn open(address: &Address) -> Option<io::Result<unix::net::UnixStream>> {
    match address {
        Address::Vsock { cid, port } => Some(to(*cid, *port)),
        Address::Hypervisor { socket, port } => Some(through(socket, *port)),
        Address::Unix(_) | Address::Tcp(_) => None,
    }
}

/// The same, for asynchronous tasks.
pub(crate) async fn connect(address: &Address) -> io::Result<UnixStream> {
    let address = address.clone();
    let opened = tokio::task::spawn_blocking(move || open(&address));
    match opened.await.map_err(io::Error::other)? {
        Some(stream) => held(stream?),
        None => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The kernel waits for two seconds at most for a machine that does not answer.
fn to(cid: u32, port: u32) -> io::Result<unix::net::UnixStream> {
    let socket = Socket::new(Domain::VSOCK, Type::STREAM.cloexec(), None)?;
    socket.connect(&SockAddr::vsock(cid, port))?;
    Ok(OwnedFd::from(socket).into())
}

/// The hypervisor is asked `CONNECT PORT`, and answers `OK` and a number (Firecracker,
/// docs/vsock.md).
fn through(socket: &Path, port: u32) -> io::Result<unix::net::UnixStream> {
    let mut stream = unix::net::UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(format!("CONNECT {port}\n").as_bytes())?;
    let mut line = Vec::new();
    // Byte by byte: what comes after the line is the engine's.
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        match byte {
            [b'\n'] => break,
            _ if line.len() < LINE => line.extend(byte),
            _ => return Err(io::Error::other("the hypervisor's answer is no line")),
        }
    }
    if !line.starts_with(b"OK ") {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    stream.set_read_timeout(None)?;
    Ok(stream)
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

fn held(stream: unix::net::UnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;

    fn asked(answer: &'static [u8]) -> io::Result<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let hypervisor = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 13];
            stream.read_exact(&mut question).unwrap();
            assert_eq!(&question, b"CONNECT 5000\n");
            stream.write_all(answer).unwrap();
        });
        let connected = through(&path, 5000);
        hypervisor.join().unwrap();
        let mut rest = Vec::new();
        connected?.read_to_end(&mut rest)?;
        Ok(rest)
    }

    #[test]
    fn a_hypervisor_is_asked_for_a_port() {
        assert_eq!(asked(b"OK 1024\nhello").unwrap(), b"hello");
        assert!(asked(b"").is_err());
        assert!(asked(b"NO\n").is_err());
        assert!(asked(&[b'O'; 100]).is_err());
    }
}
