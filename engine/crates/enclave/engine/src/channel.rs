//! The receiving side of a connection: one small task that reads messages ahead and watches for the
//! peer's going.
//!
//! A task computes on a thread of its own and may not look at its socket for long. So somebody else
//! does: the pump reads messages into a bounded channel, and raises `closed` the moment the peer
//! closes, also when messages still wait to be taken. That flag is what cancels a task.
//!
//! What waits is bounded by what was asked ([`Due`]): a peer that sends more breaks the protocol,
//! before it is read.

use std::{sync::Arc, time::Duration};

use coffer_process::listen::ReadHalf;
use coffer_protocol::framing::{MAX_MESSAGE, Message, WireError, read_message_within};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

/// Messages that may wait. More than a task ever asks for at once (see `task::link`), so that a
/// peer which answers is never kept from reading.
const WAITING: usize = 16;

/// How often a pump whose channel is full looks whether the peer is still there.
const CLOSE_CHECK: Duration = Duration::from_millis(50);

/// Bytes that a peer may have sent and nobody has taken: of one message as tasks begin with, and of
/// the answers that are outstanding.
#[derive(Debug, Default)]
pub(crate) struct Due(Mutex<Bytes>);

#[derive(Debug, Default)]
struct Bytes {
    asked: usize,
    waiting: usize,
}

impl Due {
    /// An answer of at most so many bytes is asked for. To be said before the question is sent: the
    /// answer may be there before who sent it goes on.
    pub(crate) fn ask(&self, bytes: usize) {
        let mut due = self.0.lock();
        due.asked = due.asked.saturating_add(bytes);
    }

    /// It came, and was taken.
    pub(crate) fn answered(&self, bytes: usize) {
        let mut due = self.0.lock();
        due.asked = due.asked.saturating_sub(bytes);
    }

    /// Nothing is outstanding.
    pub(crate) fn settled(&self) {
        self.0.lock().asked = 0;
    }

    /// The longest message that may come now.
    fn longest(&self) -> usize {
        let due = self.0.lock();
        let room = MAX_MESSAGE.saturating_add(due.asked);
        room.saturating_sub(due.waiting).min(MAX_MESSAGE)
    }

    fn came(&self, message: &Message) {
        let mut due = self.0.lock();
        due.waiting = due.waiting.saturating_add(message.payload.len());
    }

    fn taken(&self, message: &Message) {
        let mut due = self.0.lock();
        due.waiting = due.waiting.saturating_sub(message.payload.len());
    }
}

/// The messages of one connection.
pub(crate) struct Receiver {
    messages: mpsc::Receiver<Result<Message, WireError>>,
    closed: watch::Receiver<bool>,
    due: Arc<Due>,
}

impl Receiver {
    /// The next message; `None` when the peer closed.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, WireError> {
        let message = self.messages.recv().await.transpose()?;
        if let Some(message) = &message {
            self.due.taken(message);
        }
        Ok(message)
    }

    /// What its peer may send.
    pub(crate) fn due(&self) -> Arc<Due> {
        Arc::clone(&self.due)
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
    let due = Arc::<Due>::default();
    let of_pump = Arc::clone(&due);
    tokio::spawn(async move {
        pump(read, sender, &of_pump).await;
        raise.send_replace(true);
    });
    Receiver {
        messages,
        closed,
        due,
    }
}

async fn pump(mut read: ReadHalf, sender: mpsc::Sender<Result<Message, WireError>>, due: &Due) {
    loop {
        let message = tokio::select! {
            message = next(&mut read, due) => message,
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

/// What may come is looked at once something comes.
async fn next(read: &mut ReadHalf, due: &Due) -> Result<Option<Message>, WireError> {
    let message = read_message_within(read, || due.longest()).await?;
    if let Some(message) = &message {
        due.came(message);
    }
    Ok(message)
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
    async fn more_than_was_asked_for_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&Address::Unix(folder.path().join("s"))).unwrap();
        let (_read, mut write) = connect(listener.address()).await.unwrap();
        let mut receiver = start(listener.accept().await.unwrap().0);
        let due = receiver.due();
        // One as tasks begin with, and one that was asked for; of the third the length is enough.
        let long = vec![0; MAX_MESSAGE - 1];
        due.ask(long.len());
        let mut head = Vec::new();
        put_raw(&mut head, 9, &[&long]).unwrap();
        let sending = tokio::spawn(async move {
            write.write_all(&head).await.unwrap();
            write.write_all(&head).await.unwrap();
            // What is not read may be refused.
            let _ = write.write_all(&head).await;
        });
        let mut closed = receiver.closed();
        raised(&mut closed).await;
        for _ in 0..2 {
            let message = receiver.next().await.unwrap().unwrap();
            assert_eq!(message.payload.len(), long.len());
        }
        assert!(matches!(receiver.next().await, Err(WireError::TooLong(_))));
        assert_eq!(due.longest(), MAX_MESSAGE);
        due.answered(long.len());
        assert_eq!(due.longest(), MAX_MESSAGE);
        drop(receiver);
        let _ = sending.await;
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
