//! The receiving side of a connection: one small task that reads messages ahead and watches for the
//! peer's going.
//!
//! A task computes on a thread of its own and may not look at its socket for long. So somebody else
//! does: the pump reads messages into a bounded channel, and raises `closed` the moment the peer
//! closes, also when messages still wait to be taken. That flag is what cancels a task.

use std::time::Duration;

use coffer_process::listen::ReadHalf;
use coffer_protocol::framing::{Message, WireError, read_message};
use tokio::sync::{mpsc, watch};

/// Messages that may wait. More than a task ever asks for at once (see `task::link`), so that a
/// peer which answers is never kept from reading.
const WAITING: usize = 16;

/// How often a pump whose channel is full looks whether the peer is still there.
const CLOSE_CHECK: Duration = Duration::from_millis(50);

/// The messages of one connection.
pub(crate) struct Receiver {
    messages: mpsc::Receiver<Result<Message, WireError>>,
    closed: watch::Receiver<bool>,
}

impl Receiver {
    /// The next message; `None` when the peer closed.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, WireError> {
        self.messages.recv().await.transpose()
    }

    /// Turns true when the peer is gone.
    pub(crate) fn closed(&self) -> watch::Receiver<bool> {
        self.closed.clone()
    }
}

/// Resolves when the flag is raised.
pub(crate) async fn raised(flag: &mut watch::Receiver<bool>) {
    // A dropped sender means that the pump is gone, and with it the connection.
    let _ = flag.wait_for(|raised| *raised).await;
}

/// Starts reading a connection on the current runtime.
pub(crate) fn start(read: ReadHalf) -> Receiver {
    let (sender, messages) = mpsc::channel(WAITING);
    let (raise, closed) = watch::channel(false);
    tokio::spawn(async move {
        pump(read, sender).await;
        raise.send_replace(true);
    });
    Receiver { messages, closed }
}

async fn pump(mut read: ReadHalf, sender: mpsc::Sender<Result<Message, WireError>>) {
    loop {
        let message = tokio::select! {
            message = read_message(&mut read) => message,
            () = sender.closed() => return,
        };
        let (message, ended) = match message {
            Ok(None) => return,
            Ok(Some(message)) => (Ok(message), false),
            Err(error) => (Err(error), true),
        };
        let permit = loop {
            tokio::select! {
                permit = sender.reserve() => break permit,
                () = tokio::time::sleep(CLOSE_CHECK) => {
                    if read.peer_closed().await {
                        return;
                    }
                }
            }
        };
        match permit {
            Ok(permit) => permit.send(message),
            Err(_) => return,
        }
        if ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use coffer_process::{
        address::Address,
        listen::{Listener, connect},
    };
    use coffer_protocol::framing::put_raw;

    #[tokio::test]
    async fn closing_raises_the_flag_behind_messages_that_nobody_takes() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&Address::Unix(folder.path().join("s"))).unwrap();
        let (read, mut write) = connect(listener.address()).await.unwrap();
        let receiver = start(listener.accept().await.unwrap().0);
        let mut bytes = Vec::new();
        for _ in 0..WAITING * 2 {
            put_raw(&mut bytes, 9, &[b"unasked"]).unwrap();
        }
        write.write_all(&bytes).await.unwrap();
        let mut closed = receiver.closed();
        assert!(!*closed.borrow());
        drop((read, write));
        raised(&mut closed).await;
        assert!(*closed.borrow());
    }

    #[tokio::test]
    async fn a_cut_message_is_an_error_and_then_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&Address::Unix(folder.path().join("s"))).unwrap();
        let (read, mut write) = connect(listener.address()).await.unwrap();
        let mut receiver = start(listener.accept().await.unwrap().0);
        write.write_all(&[9, 0, 0, 0, 1, 2]).await.unwrap();
        drop((read, write));
        assert!(matches!(receiver.next().await, Err(WireError::Truncated)));
        assert!(matches!(receiver.next().await, Ok(None)));
    }
}
