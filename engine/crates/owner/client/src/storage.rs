//! Storage as the driver reaches it: connections that the driver keeps for it, over which this
//! process asks. It has no network client and no credential of its own.

use std::{collections::VecDeque, fmt, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use coffer_process::listen::{ReadHalf, WriteHalf};
use coffer_protocol::{
    framing::{WireError, put_message, put_raw, read_message_up_to},
    port::{StorageAnswer, StorageRequest},
    storage::{ANSWER_MOST, Port, Remote, answer_most},
    wire::ClientMessage,
};
use futures::channel::oneshot;
use parking_lot::Mutex;
use tokio::{io::AsyncWriteExt, sync::Notify, time::timeout};

use crate::kinds::kind_byte;

/// The longest answer, with its type.
const MAX_ANSWER: usize = ANSWER_MOST + 1;
/// Until an answer has come. File systems try again for minutes by themselves; but who asks may
/// hold the register's lock.
const PATIENCE: Duration = Duration::from_secs(300);

struct Job {
    request: StorageRequest,
    answer: oneshot::Sender<io::Result<StorageAnswer>>,
}

/// The connections of one application. Each has one question at a time.
pub(crate) struct Connections {
    queue: Mutex<Queue>,
    queued: Notify,
    patience: Duration,
}

/// What waits to be asked: nothing without a connection.
#[derive(Default)]
struct Queue {
    attached: usize,
    jobs: VecDeque<Job>,
}

/// A new application's storage, which no connection serves yet.
pub(crate) fn new() -> Arc<Remote<Connections>> {
    Arc::new(Remote::new(Connections::waiting(PATIENCE)))
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

#[async_trait]
impl Port for Connections {
    async fn ask(&self, request: StorageRequest) -> io::Result<StorageAnswer> {
        // Not tokio's: this is waited for outside of its scheduler too.
        let (answer, answered) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            if queue.attached == 0 {
                return Err(not_served());
            }
            queue.jobs.push_back(Job { request, answer });
        }
        self.queued.notify_one();
        // Each connection answers in time or ends, and the last one drops what waits.
        answered.await.unwrap_or_else(|_| Err(not_served()))
    }
}

impl Connections {
    fn waiting(patience: Duration) -> Self {
        Self {
            queue: Mutex::default(),
            queued: Notify::new(),
            patience,
        }
    }

    /// Asks over a connection until it ends.
    pub(crate) async fn serve(
        &self,
        mut read: ReadHalf,
        mut write: WriteHalf,
    ) -> Result<(), WireError> {
        let mut bytes = Vec::new();
        put_raw(&mut bytes, kind_byte(ClientMessage::StorageServed), &[])?;
        let _attached = Attached::to(self);
        write.write_all(&bytes).await?;
        loop {
            let job = tokio::select! {
                job = self.next() => job,
                // Nothing is due: it closed, or breaks the protocol.
                ended = read_message_up_to(&mut read, MAX_ANSWER) => return ended.map(|_| ()),
            };
            let asked = exchange(&mut read, &mut write, &job.request);
            let answered = match timeout(self.patience, asked).await {
                Ok(answered) => answered,
                Err(_) => Err(WireError::Io(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "storage did not answer in time",
                ))),
            };
            match answered {
                Ok(answer) => drop(job.answer.send(Ok(answer))),
                Err(error) => {
                    // Whatever still comes belongs to no question.
                    let lost = io::Error::new(io::ErrorKind::ConnectionAborted, error.to_string());
                    let _ = job.answer.send(Err(lost));
                    return Err(error);
                }
            }
        }
    }

    async fn next(&self) -> Job {
        loop {
            let queued = self.queued.notified();
            {
                let mut queue = self.queue.lock();
                while let Some(job) = queue.jobs.pop_front() {
                    if !queue.jobs.is_empty() {
                        // Two may have come with one notice.
                        self.queued.notify_one();
                    }
                    if !job.answer.is_canceled() {
                        return job;
                    }
                }
            }
            queued.await;
        }
    }
}

/// A connection that serves, until it is dropped.
struct Attached<'a>(&'a Connections);

impl<'a> Attached<'a> {
    fn to(connections: &'a Connections) -> Self {
        connections.queue.lock().attached += 1;
        Self(connections)
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.attached = queue.attached.saturating_sub(1);
        if queue.attached == 0 {
            // Nobody is left to answer what waits.
            queue.jobs.clear();
        }
    }
}

async fn exchange(
    read: &mut ReadHalf,
    write: &mut WriteHalf,
    request: &StorageRequest,
) -> Result<StorageAnswer, WireError> {
    let mut bytes = Vec::new();
    put_message(&mut bytes, kind_byte(ClientMessage::ClientStorage), request)?;
    write.write_all(&bytes).await?;
    // With its type.
    let most = answer_most(request).saturating_add(1);
    let answer = read_message_up_to(read, most).await?;
    let answer = answer.filter(|answer| answer.kind == kind_byte(ClientMessage::ClientStored));
    answer.ok_or(WireError::Truncated)?.decode("STORED")
}

fn not_served() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "no driver serves storage to this process",
    )
}

#[cfg(test)]
mod tests {
    use coffer_protocol::{
        port::{storage_answer, storage_request},
        storage::Storage,
    };
    use tokio::net::UnixStream;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn pair() -> ((ReadHalf, WriteHalf), (ReadHalf, WriteHalf)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let halves = |stream: UnixStream| {
            let (read, write) = stream.into_split();
            (ReadHalf::Unix(read), WriteHalf::Unix(write))
        };
        (halves(ours), halves(theirs))
    }

    fn storage(patience: Duration) -> Arc<Remote<Connections>> {
        Arc::new(Remote::new(Connections::waiting(patience)))
    }

    /// A connection that serves, and what its driver has of it.
    async fn attach(
        storage: &Arc<Remote<Connections>>,
    ) -> (
        tokio::task::JoinHandle<Result<(), WireError>>,
        (ReadHalf, WriteHalf),
    ) {
        let ((read, write), mut driver) = pair();
        let served = Arc::clone(storage);
        let serving = tokio::spawn(async move { served.port().serve(read, write).await });
        let greeting = read_message_up_to(&mut driver.0, MAX_ANSWER).await;
        let greeting = greeting.unwrap().unwrap();
        assert_eq!(greeting.kind, kind_byte(ClientMessage::StorageServed));
        (serving, driver)
    }

    /// Answers one question for a size.
    async fn answer(driver: &mut (ReadHalf, WriteHalf), bytes: u64) {
        asked(driver).await;
        reply(driver, bytes).await;
    }

    async fn asked(driver: &mut (ReadHalf, WriteHalf)) {
        let asked = timeout(MINUTE, read_message_up_to(&mut driver.0, MAX_ANSWER)).await;
        let asked = asked.expect("a question comes").unwrap().unwrap();
        let asked: StorageRequest = asked.decode("STORAGE").unwrap();
        assert!(matches!(asked.of, Some(storage_request::Of::Size(_))));
    }

    async fn reply(driver: &mut (ReadHalf, WriteHalf), bytes: u64) {
        let size = storage_answer::Size { bytes: Some(bytes) };
        let answer = StorageAnswer {
            of: Some(storage_answer::Of::Size(size)),
        };
        let mut out = Vec::new();
        put_message(&mut out, kind_byte(ClientMessage::ClientStored), &answer).unwrap();
        driver.1.write_all(&out).await.unwrap();
    }

    /// As the catalog asks: outside of tokio's scheduler.
    fn ask(storage: &Arc<Remote<Connections>>) -> std::thread::JoinHandle<io::Result<Option<u64>>> {
        let storage = Arc::clone(storage);
        std::thread::spawn(move || futures::executor::block_on(storage.size("s3a://b/t")))
    }

    async fn joined(
        asked: std::thread::JoinHandle<io::Result<Option<u64>>>,
    ) -> io::Result<Option<u64>> {
        let joined = tokio::task::spawn_blocking(|| asked.join().unwrap());
        timeout(MINUTE, joined).await.expect("it ends").unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_that_never_answers_is_given_up() {
        let storage = storage(Duration::from_millis(200));
        let (serving, _silent) = attach(&storage).await;
        // The second waits behind the first, and nobody is left for it.
        let (first, second) = (ask(&storage), ask(&storage));
        assert!(joined(first).await.is_err());
        assert!(joined(second).await.is_err());
        let ended = timeout(MINUTE, serving).await.unwrap().unwrap();
        assert!(matches!(ended, Err(WireError::Io(error))
            if error.kind() == io::ErrorKind::TimedOut));
        let refused = joined(ask(&storage)).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);

        let (_serving, mut driver) = attach(&storage).await;
        let asked = ask(&storage);
        answer(&mut driver, 7).await;
        assert_eq!(joined(asked).await.unwrap(), Some(7));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_question_ends_however_connections_come_and_go() {
        let storage = storage(MINUTE);
        for round in 0..200 {
            let (serving, mut driver) = attach(&storage).await;
            let asked: Vec<_> = (0..4).map(|_| ask(&storage)).collect();
            if round % 2 == 0 {
                answer(&mut driver, 1).await;
            }
            drop(driver);
            for asked in asked {
                // An answer, or that nobody serves.
                let _ = joined(asked).await;
            }
            let _ = timeout(MINUTE, serving).await.unwrap().unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn questions_go_to_whichever_connection_is_free() {
        let storage = storage(MINUTE);
        let (_one, mut first) = attach(&storage).await;
        let (_two, mut second) = attach(&storage).await;
        let slow = ask(&storage);
        let (busy, free) = tokio::select! {
            () = asked(&mut first) => (&mut first, &mut second),
            () = asked(&mut second) => (&mut second, &mut first),
        };
        for _ in 0..5 {
            let quick = ask(&storage);
            answer(free, 3).await;
            assert_eq!(joined(quick).await.unwrap(), Some(3));
        }
        reply(busy, 4).await;
        assert_eq!(joined(slow).await.unwrap(), Some(4));
    }
}
