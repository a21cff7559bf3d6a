//! A running task's side of its connection: it asks for inputs, and sends what it made.
//!
//! The engine drives. Each NEED is answered by one IN or IN_END, each NEED_KEYS by a RELEASE, each
//! STORAGE by a STORED, in the order asked; a few are asked ahead, never more than the receiving
//! channel holds, so the peer is never kept from writing and nothing can deadlock. Everything here
//! runs on the task's one thread; the locks are for DataFusion, which may poll two inputs in turn,
//! and for who renews the lease meanwhile. Questions to storage alone go on while the task
//! computes, on the thread that reads the connection ([`Link::storage`]): some are asked long
//! before anybody looks at the answer.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, Bytes};
use coffer_process::listen::WriteHalf;
use coffer_protocol::{
    framing::{Message, WireError, put_message},
    port::{StorageAnswer, StorageRequest},
    storage::answer_most,
    wire::{Need, NeedKeys, Release, TaskMessage},
};
use parking_lot::Mutex as Short;
use thiserror::Error;
use tokio::{
    io::AsyncWriteExt,
    runtime::Handle,
    sync::{Mutex, MutexGuard, oneshot, watch},
    task::JoinSet,
};

use crate::channel::{Due, Receiver};

/// Answers that may be outstanding for one input.
const AHEAD: usize = 2;
/// Answers that may be outstanding in all; below what the channel holds.
const AHEAD_IN_ALL: usize = 8;
/// How long a peer is waited for where no session's lease says it: before a task has its keys, and
/// when it is over.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Why the conversation failed; the host's fault, all of it.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The peer closed: the task is cancelled.
    #[error("the executor closed the connection")]
    Closed,
    /// Not the message that the protocol asks for at this point.
    #[error("message type {got} came where {want} was due")]
    Unexpected {
        /// Its type.
        got: u8,
        /// What was due.
        want: &'static str,
    },
    /// An answer for another input than the one asked for.
    #[error("input {got} came where input {want} was due")]
    WrongInput {
        /// As it came.
        got: u32,
        /// As it was asked for.
        want: u32,
    },
    /// The peer does not answer.
    #[error("the executor does not answer")]
    Silent,
    /// The session's lease ran out, and the client site's word that would renew it did not come.
    #[error("the session's lease has run out")]
    Lease,
    /// Not a message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// What crossed the connection.
#[derive(Default)]
pub(crate) struct Crossed {
    pub(crate) messages: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

pub(crate) struct Link {
    outgoing: Mutex<WriteHalf>,
    incoming: Mutex<Incoming>,
    closed: watch::Receiver<bool>,
    /// A write was begun and given up: what lies on the wire now is no whole message.
    torn: AtomicBool,
    due: Arc<Due>,
    stored: Stored,
    /// Of the connection, not of the task.
    runtime: Handle,
    /// Questions that go on there.
    apart: Short<JoinSet<()>>,
    pub(crate) crossed: Crossed,
}

/// What an answer is due to.
enum Asked {
    Input(u32),
    Keys,
    /// The number of the question, and bytes of its answer at most.
    Storage(u64, usize),
}

/// Answers of storage, by the number of the question: those that somebody waits for.
#[derive(Default)]
struct Stored(Short<HashMap<u64, Option<StorageAnswer>>>);

impl Stored {
    fn came(&self, question: u64, answer: StorageAnswer) {
        if let Some(waiting) = self.0.lock().get_mut(&question) {
            *waiting = Some(answer);
        }
    }
}

/// Who waits for an answer. One that gives up has nothing kept for it.
struct Wanted<'a> {
    stored: &'a Stored,
    question: u64,
}

impl<'a> Wanted<'a> {
    fn new(stored: &'a Stored, question: u64) -> Self {
        stored.0.lock().insert(question, None);
        Self { stored, question }
    }

    fn take(&self) -> Option<StorageAnswer> {
        self.stored.0.lock().get_mut(&self.question)?.take()
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.stored.0.lock().remove(&self.question);
    }
}

struct Incoming {
    receiver: Receiver,
    /// In order, not answered yet.
    asked: VecDeque<Asked>,
    inputs: HashMap<u32, Waiting>,
    /// The newest answer to a NEED_KEYS, until it is taken.
    released: Option<Release>,
    questions: u64,
}

#[derive(Default)]
struct Waiting {
    chunks: VecDeque<Bytes>,
    asked: usize,
    ended: bool,
}

impl Link {
    /// To be made where the connection's runtime is the current one.
    pub(crate) fn new(receiver: Receiver, write: WriteHalf) -> Arc<Self> {
        Arc::new(Self {
            closed: receiver.closed(),
            due: receiver.due(),
            outgoing: Mutex::new(write),
            incoming: Mutex::new(Incoming {
                receiver,
                asked: VecDeque::new(),
                inputs: HashMap::new(),
                released: None,
                questions: 0,
            }),
            torn: AtomicBool::new(false),
            stored: Stored::default(),
            runtime: Handle::current(),
            apart: Short::default(),
            crossed: Crossed::default(),
        })
    }

    /// The connection back, once nobody else holds the link.
    pub(crate) fn into_parts(self: Arc<Self>) -> Option<(Receiver, WriteHalf)> {
        // After a task that broke off.
        self.apart.lock().abort_all();
        let link = Arc::into_inner(self)?;
        Some((
            link.incoming.into_inner().receiver,
            link.outgoing.into_inner(),
        ))
    }

    pub(crate) fn closed(&self) -> watch::Receiver<bool> {
        self.closed.clone()
    }

    /// Whether the peer is gone. For leaves to look at between batches.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Sends messages that `put_*` of [`coffer_protocol::framing`] appended to `bytes`, and empties
    /// it.
    pub(crate) async fn send(&self, bytes: &mut Vec<u8>, messages: u64) -> Result<(), LinkError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut outgoing = self.outgoing.lock().await;
        if self.torn.swap(true, Ordering::Relaxed) {
            return Err(LinkError::Closed);
        }
        outgoing
            .write_all(bytes)
            .await
            .map_err(|_| LinkError::Closed)?;
        self.torn.store(false, Ordering::Relaxed);
        drop(outgoing);
        self.crossed.messages.fetch_add(messages, Ordering::Relaxed);
        self.crossed
            .bytes_out
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        bytes.clear();
        Ok(())
    }

    /// Sends one protobuf message.
    pub(crate) async fn tell<M: prost::Message>(
        &self,
        kind: TaskMessage,
        message: &M,
    ) -> Result<(), LinkError> {
        let mut bytes = Vec::new();
        put_message(&mut bytes, kind_byte(kind), message)?;
        self.send(&mut bytes, 1).await
    }

    /// Asks for a session's keys, at any time of a task, and gives what comes.
    pub(crate) async fn keys(&self, session: &[u8]) -> Result<Release, LinkError> {
        let need = NeedKeys {
            session: session.to_vec().into(),
        };
        let mut incoming = self.incoming.lock().await;
        self.tell(TaskMessage::NeedKeys, &need).await?;
        incoming.asked.push_back(Asked::Keys);
        loop {
            self.take_answer(&mut incoming).await?;
            if let Some(release) = incoming.released.take() {
                return Ok(release);
            }
        }
    }

    /// Asks for something of storage that the executor reaches. A few at the same time. It goes on
    /// whether or not anybody looks at it meanwhile, and holds nothing that others wait for. What
    /// nobody waits for any more is not asked.
    pub(crate) async fn storage(
        self: &Arc<Self>,
        request: StorageRequest,
    ) -> Result<StorageAnswer, LinkError> {
        let (mut answer, answered) = oneshot::channel();
        let link = Arc::clone(self);
        let asking = async move {
            let turn = tokio::select! {
                biased;
                () = answer.closed() => return,
                turn = link.turn() => turn,
            };
            // Whoever gives up here would leave half a question.
            let wanted = match turn {
                Ok(turn) => link.question(turn, &request).await,
                Err(error) => Err(error),
            };
            let stored = match wanted {
                Ok(wanted) => tokio::select! {
                    () = answer.closed() => return,
                    stored = link.stored(&wanted) => stored,
                },
                Err(error) => Err(error),
            };
            let _ = answer.send(stored);
        };
        {
            let mut apart = self.apart.lock();
            while apart.try_join_next().is_some() {}
            apart.spawn_on(asking, &self.runtime);
        }
        answered.await.unwrap_or(Err(LinkError::Closed))
    }

    /// When one more question may be asked.
    async fn turn(&self) -> Result<MutexGuard<'_, Incoming>, LinkError> {
        let mut incoming = self.incoming.lock().await;
        while incoming.asked.len() >= AHEAD_IN_ALL {
            self.take_answer(&mut incoming).await?;
        }
        Ok(incoming)
    }

    async fn question(
        &self,
        mut incoming: MutexGuard<'_, Incoming>,
        request: &StorageRequest,
    ) -> Result<Wanted<'_>, LinkError> {
        incoming.questions += 1;
        let wanted = Wanted::new(&self.stored, incoming.questions);
        let most = answer_most(request);
        self.due.ask(most);
        self.tell(TaskMessage::Storage, request).await?;
        let asked = Asked::Storage(wanted.question, most);
        incoming.asked.push_back(asked);
        Ok(wanted)
    }

    async fn stored(&self, wanted: &Wanted<'_>) -> Result<StorageAnswer, LinkError> {
        // Others that ask meanwhile take answers too, and leave this one here.
        loop {
            let mut incoming = self.incoming.lock().await;
            if let Some(answer) = wanted.take() {
                return Ok(answer);
            }
            self.take_answer(&mut incoming).await?;
        }
    }

    /// More bytes of an input, or `None` at its end.
    pub(crate) async fn input(&self, id: u32) -> Result<Option<Bytes>, LinkError> {
        let mut incoming = self.incoming.lock().await;
        loop {
            self.ask_ahead(&mut incoming, id).await?;
            let waiting = incoming.inputs.entry(id).or_default();
            if let Some(chunk) = waiting.chunks.pop_front() {
                self.ask_ahead(&mut incoming, id).await?;
                return Ok(Some(chunk));
            }
            if waiting.ended {
                return Ok(None);
            }
            self.take_answer(&mut incoming).await?;
        }
    }

    /// Takes the answers that are still outstanding, so that the connection is clean for what comes
    /// next. One on which half a question lies never is.
    pub(crate) async fn settle(&self) -> Result<(), LinkError> {
        let mut apart = std::mem::take(&mut *self.apart.lock());
        while apart.join_next().await.is_some() {}
        let mut incoming = self.incoming.lock().await;
        // Whoever writes now has ended.
        drop(self.outgoing.lock().await);
        if self.torn.load(Ordering::Relaxed) {
            return Err(LinkError::Closed);
        }
        incoming
            .inputs
            .values_mut()
            .for_each(|waiting| waiting.chunks.clear());
        while !incoming.asked.is_empty() {
            self.take_answer(&mut incoming).await?;
            incoming
                .inputs
                .values_mut()
                .for_each(|waiting| waiting.chunks.clear());
        }
        incoming.inputs.clear();
        self.due.settled();
        Ok(())
    }

    async fn ask_ahead(&self, incoming: &mut Incoming, id: u32) -> Result<(), LinkError> {
        loop {
            let waiting = incoming.inputs.entry(id).or_default();
            let must = waiting.asked == 0 && waiting.chunks.is_empty();
            let may =
                waiting.asked + waiting.chunks.len() < AHEAD && incoming.asked.len() < AHEAD_IN_ALL;
            if waiting.ended || !(must || may) {
                return Ok(());
            }
            // What is noted was sent: who is dropped meanwhile must leave no answer without a
            // question.
            self.tell(TaskMessage::Need, &Need { input_id: id }).await?;
            incoming.inputs.entry(id).or_default().asked += 1;
            incoming.asked.push_back(Asked::Input(id));
        }
    }

    async fn take_answer(&self, incoming: &mut Incoming) -> Result<(), LinkError> {
        let message = self.receive(incoming).await?;
        let unexpected = |want| LinkError::Unexpected {
            got: message.kind,
            want,
        };
        match incoming.asked.pop_front() {
            None => Err(unexpected("nothing")),
            Some(Asked::Keys) if message.kind == kind_byte(TaskMessage::Release) => {
                incoming.released = Some(message.decode("RELEASE")?);
                Ok(())
            }
            Some(Asked::Keys) => Err(unexpected("RELEASE")),
            Some(Asked::Storage(question, most))
                if message.kind == kind_byte(TaskMessage::Stored) =>
            {
                self.due.answered(most);
                let length = message.payload.len();
                if length > most {
                    return Err(WireError::TooLong(length as u64).into());
                }
                self.stored.came(question, message.decode("STORED")?);
                Ok(())
            }
            Some(Asked::Storage(..)) => Err(unexpected("STORED")),
            Some(Asked::Input(want)) => {
                let ended = match message.kind {
                    kind if kind == kind_byte(TaskMessage::In) => false,
                    kind if kind == kind_byte(TaskMessage::InEnd) => true,
                    _ => return Err(unexpected("IN")),
                };
                take_input(incoming, want, message, ended)
            }
        }
    }

    async fn receive(&self, incoming: &mut Incoming) -> Result<Message, LinkError> {
        let message = incoming.receiver.next().await?.ok_or(LinkError::Closed)?;
        self.crossed.messages.fetch_add(1, Ordering::Relaxed);
        self.crossed
            .bytes_in
            .fetch_add(message.payload.len() as u64 + 5, Ordering::Relaxed);
        Ok(message)
    }
}

fn take_input(
    incoming: &mut Incoming,
    want: u32,
    message: Message,
    ended: bool,
) -> Result<(), LinkError> {
    let mut payload = message.payload;
    if payload.len() < 4 {
        return Err(WireError::Malformed("IN").into());
    }
    let got = payload.get_u32_le();
    if got != want {
        return Err(LinkError::WrongInput { got, want });
    }
    let waiting = incoming.inputs.entry(want).or_default();
    waiting.asked = waiting.asked.saturating_sub(1);
    if ended {
        waiting.ended = true;
    } else if waiting.ended {
        return Err(LinkError::Unexpected {
            got: message.kind,
            want: "nothing after IN_END",
        });
    } else if !payload.is_empty() {
        waiting.chunks.push_back(payload);
    }
    Ok(())
}

/// What is waited for at a peer's mercy, if it comes in time.
pub(crate) async fn in_time<T>(
    patience: Duration,
    answer: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    tokio::time::timeout(patience, answer)
        .await
        .unwrap_or(Err(LinkError::Silent))
}

/// A message type as it lies on the wire.
#[must_use]
pub fn kind_byte(kind: TaskMessage) -> u8 {
    // The types of both protocols are far below 256; 0 is refused by every receiver.
    u8::try_from(i32::from(kind)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
