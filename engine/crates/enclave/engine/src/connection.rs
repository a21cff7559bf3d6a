//! One connection of the task protocol: attestation, key releases, and tasks one after the other.

use std::{sync::Arc, thread, time::Duration};

use coffer_process::{
    listen::{Listener, ReadHalf, WriteHalf},
    log,
};
use coffer_protocol::{
    framing::{Message, put_message},
    wire::{Attest, Failed, Refused, Release, Released, RunQuery, Start, TaskMessage},
};
use tokio::io::AsyncWriteExt;
use tracing::{Instrument, Span};

use crate::{
    channel::{self, Receiver},
    enclave::Enclave,
    task::{
        self, Outcome, kind_byte,
        link::{Link, PATIENCE, in_time},
    },
};

/// How long accepting rests after it failed, so that a lack of file descriptors is no busy loop.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How long a peer that broke the protocol, or is gone, is given to read why.
const FAREWELL: Duration = Duration::from_secs(5);

/// Accepts connections for ever. Must run on a multi-threaded runtime.
pub async fn accept(enclave: Arc<Enclave>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((read, write)) => {
                tokio::spawn(serve(Arc::clone(&enclave), read, write));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

async fn serve(enclave: Arc<Enclave>, read: ReadHalf, mut write: WriteHalf) {
    let mut receiver = channel::start(read);
    loop {
        let message = match receiver.next().await {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "a connection broke the protocol");
                let _ = write
                    .write_all(&refused("protocol", "the message could not be read"))
                    .await;
                return;
            }
        };
        let answer = match message.kind {
            kind if kind == kind_byte(TaskMessage::Attest) => attest(&enclave, message).await,
            kind if kind == kind_byte(TaskMessage::Release) => release(&enclave, &message),
            kind if [TaskMessage::Start, TaskMessage::RunQuery]
                .map(kind_byte)
                .contains(&kind) =>
            {
                match run_task(&enclave, &message, receiver, write).await {
                    Some(connection) => {
                        (receiver, write) = connection;
                        continue;
                    }
                    None => return,
                }
            }
            _ => {
                let hint = "this message has no place between tasks";
                let _ = write.write_all(&refused("protocol", hint)).await;
                return;
            }
        };
        if write.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn attest(enclave: &Arc<Enclave>, message: Message) -> Vec<u8> {
    let Ok(attest) = message.decode::<Attest>("ATTEST") else {
        return refused("protocol", "ATTEST could not be read");
    };
    // Hardware may take its time.
    let enclave = Arc::clone(enclave);
    let Ok(made) = tokio::task::spawn_blocking(move || enclave.attest(&attest)).await else {
        return refused("attestation", "no evidence was made");
    };
    match made {
        Ok(evidence) => encoded(TaskMessage::Evidence, &evidence),
        Err(error) => {
            tracing::warn!(%error, "attestation refused");
            refused(error.code(), &error.to_string())
        }
    }
}

fn release(enclave: &Enclave, message: &Message) -> Vec<u8> {
    let Ok(release) = message.decode::<Release>("RELEASE") else {
        return refused("protocol", "RELEASE could not be read");
    };
    match enclave.accept_release(&release) {
        Ok(()) => encoded(TaskMessage::Released, &Released {}),
        Err(error) => {
            tracing::warn!(%error, "a key release was refused");
            refused("release", &error.to_string())
        }
    }
}

/// What is run in one conversation.
enum Asked {
    Task(Start),
    Query(RunQuery),
}

impl Asked {
    fn of(message: &Message) -> Option<Self> {
        if message.kind == kind_byte(TaskMessage::Start) {
            return message.decode("START").ok().map(Self::Task);
        }
        message.decode("RUN_QUERY").ok().map(Self::Query)
    }

    /// What lines of the log are about meanwhile, by the host's word.
    fn span(&self) -> Span {
        match self {
            Self::Task(start) => tracing::info_span!(
                "task",
                query = %log::query(&start.session),
                stage = start.stage,
                partition = start.partition
            ),
            Self::Query(run) => tracing::info_span!("query", query = %log::query(&run.session)),
        }
    }
}

/// Runs one task or query on a thread of its own, and gives the connection back if it can be used
/// again.
async fn run_task(
    enclave: &Arc<Enclave>,
    message: &Message,
    receiver: Receiver,
    mut write: WriteHalf,
) -> Option<(Receiver, WriteHalf)> {
    let Some(asked) = Asked::of(message) else {
        let _ = write.write_all(&failed("protocol")).await;
        return None;
    };
    let Some(running) = enclave.admit_task() else {
        return match write.write_all(&failed("draining")).await {
            Ok(()) => Some((receiver, write)),
            Err(_) => None,
        };
    };
    let enclave = Arc::clone(enclave);
    let task = tokio::task::spawn_blocking(move || {
        let connection = on_own_thread(&enclave, &asked, receiver, write);
        drop(running);
        connection
    });
    // A panic outside of what `task::run` contains costs this connection and nothing else.
    task.await.ok().flatten()
}

fn on_own_thread(
    enclave: &Arc<Enclave>,
    asked: &Asked,
    receiver: Receiver,
    write: WriteHalf,
) -> Option<(Receiver, WriteHalf)> {
    let link = Link::new(receiver, write);
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("task-io")
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, thread = ?thread::current().id(), "a task has no runtime");
            return None;
        }
    };
    let conversation = async {
        match asked {
            Asked::Task(start) => {
                let outcome = task::run(enclave, start, &link).await;
                said(&link, TaskMessage::Done, outcome).await
            }
            Asked::Query(query) => {
                let outcome = task::run_query(enclave, query, &link).await;
                said(&link, TaskMessage::QueryDone, outcome).await
            }
        }
    };
    let reusable = runtime.block_on(conversation.instrument(asked.span()));
    // Whatever DataFusion spawned ends here, and with it the last hold on the connection. A read
    // that storage does not answer is not waited for: it holds a path and no key.
    runtime.shutdown_background();
    Link::into_parts(link).filter(|_| reusable)
}

/// Tells the executor how it ended. False where the connection cannot be used again.
async fn said<D: prost::Message>(link: &Arc<Link>, kind: TaskMessage, outcome: Outcome<D>) -> bool {
    match outcome {
        Outcome::Done(done) => in_time(PATIENCE, link.tell(kind, &done)).await.is_ok(),
        Outcome::Failed(failure) => in_time(PATIENCE, link.tell(TaskMessage::Failed, &failure))
            .await
            .is_ok(),
        Outcome::Broken(code) => {
            tracing::info!(code, "a task's connection ended before the task");
            let mut bytes = failed(code);
            let _ = in_time(FAREWELL, link.send(&mut bytes, 1)).await;
            false
        }
    }
}

fn failed(code: &str) -> Vec<u8> {
    encoded(
        TaskMessage::Failed,
        &Failed {
            code: code.to_owned(),
            ..Failed::default()
        },
    )
}

fn refused(code: &str, hint: &str) -> Vec<u8> {
    encoded(
        TaskMessage::Refused,
        &Refused {
            code: code.to_owned(),
            hint: hint.to_owned(),
        },
    )
}

fn encoded<M: prost::Message>(kind: TaskMessage, message: &M) -> Vec<u8> {
    let mut bytes = Vec::new();
    // These messages are small; one that were not could not be read by the peer either.
    let _ = put_message(&mut bytes, kind_byte(kind), message);
    bytes
}
