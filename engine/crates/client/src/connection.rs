//! The client protocol: a request, its answer, on each of several connections.

use std::{panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

use coffer_engine::{
    listen::{Listener, ReadHalf, WriteHalf},
    wire::{Message, put_message, put_raw, read_message_up_to},
};
use coffer_proto::wire::{ClientMessage, ResultEnd};
use tokio::io::AsyncWriteExt;

use crate::{
    ClientError, KeyService, Service,
    result::ResultRows,
    serve::Attached,
    service::{Reply, kind_byte},
};

/// The longest request: the JVM's longest array.
const MAX_REQUEST: usize = i32::MAX as usize;
/// The longest greeting.
const MAX_GREETING: usize = 64 << 10;
/// Bytes of an Arrow stream in one message.
const CHUNK: usize = 1 << 20;

/// How long accepting rests after it failed, so that a lack of file descriptors is no busy loop.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How often a key service looks for applications that are gone.
const TIDYING: Duration = Duration::from_secs(30);

/// Who answers.
#[derive(Clone)]
enum Door {
    One(Arc<Service>),
    Many(Arc<KeyService>),
}

/// Accepts connections of one application for ever, each served by a thread of its own.
pub async fn accept(service: Arc<Service>, listener: Listener) {
    accept_at(&Door::One(service), &listener).await;
}

/// The same for a key service: connections of many applications, each of an account that the kernel names.
pub async fn accept_users(keys: Arc<KeyService>, listener: Listener) {
    let tidying = async {
        loop {
            tokio::time::sleep(TIDYING).await;
            keys.forget_idle();
        }
    };
    let door = Door::Many(Arc::clone(&keys));
    tokio::select! {
        () = accept_at(&door, &listener) => {}
        () = tidying => {}
    }
}

async fn accept_at(door: &Door, listener: &Listener) {
    loop {
        let started = match listener.accept().await {
            Ok((read, write)) => {
                let door = door.clone();
                thread::Builder::new()
                    .name("connection".to_owned())
                    .spawn(move || on_own_thread(&door, read, write))
                    .map(|_| ())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = started {
            tracing::warn!(%error, "a connection was not accepted");
            tokio::time::sleep(ACCEPT_REST).await;
        }
    }
}

fn on_own_thread(door: &Door, read: ReadHalf, write: WriteHalf) {
    // The sockets belong to the accepting runtime; this one only waits for them, and runs the finish of results.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        tracing::error!("a connection has no runtime");
        return;
    };
    if let Err(error) = runtime.block_on(serve(door, read, write)) {
        tracing::warn!(%error, "a connection ended");
    }
}

async fn serve(door: &Door, mut read: ReadHalf, mut write: WriteHalf) -> Result<(), coffer_engine::wire::WireError> {
    let (attached, first) = match door {
        Door::One(service) => (Attached::only(Arc::clone(service)), None),
        Door::Many(keys) => {
            // Of an account that may be nobody's, no more is read than a greeting.
            let Some(first) = read_message_up_to(&mut read, MAX_GREETING).await? else {
                return Ok(());
            };
            match keys.attach(read.peer_uid(), &first) {
                Ok(attached) => (attached, Some(first)),
                Err(error) => return problem(&error, &mut write).await,
            }
        }
    };
    talk(&attached.service, first, read, write).await
}

async fn talk(
    service: &Service,
    first: Option<Message>,
    mut read: ReadHalf,
    mut write: WriteHalf,
) -> Result<(), coffer_engine::wire::WireError> {
    let mut greeted = false;
    let mut next = first;
    loop {
        let message = match next.take() {
            Some(message) => message,
            None => match read_message_up_to(&mut read, MAX_REQUEST).await? {
                Some(message) => message,
                None => return Ok(()),
            },
        };
        match guarded(service, &message, &mut greeted) {
            Ok(Reply::Message(bytes)) => write.write_all(&bytes).await?,
            Ok(Reply::Rows(rows)) => send_rows(rows, &mut write).await?,
            Ok(Reply::Keep(rows, session, most)) => keep(service, rows, &session, most, &mut write).await?,
            Err(error) => problem(&error, &mut write).await?,
        }
    }
}

/// Much of what is parsed comes from executors; a panic costs the request and no more.
fn guarded(service: &Service, message: &Message, greeted: &mut bool) -> Result<Reply, ClientError> {
    std::panic::catch_unwind(AssertUnwindSafe(|| service.handle(message, greeted)))
        .unwrap_or(Err(ClientError::Panicked))
}

async fn problem(error: &ClientError, write: &mut WriteHalf) -> Result<(), coffer_engine::wire::WireError> {
    tracing::info!(code = error.code(), "a request was refused");
    let mut out = Vec::new();
    put_message(&mut out, kind_byte(ClientMessage::Problem), &error.problem())?;
    write.write_all(&out).await?;
    Ok(())
}

/// The rows stay here; what goes out is their number.
async fn keep(
    service: &Service,
    rows: ResultRows,
    session: &[u8],
    most: u64,
    write: &mut WriteHalf,
) -> Result<(), coffer_engine::wire::WireError> {
    match service.keep_rows(session, rows, most).await {
        Ok(kept) => {
            let mut out = Vec::new();
            put_message(&mut out, kind_byte(ClientMessage::ResultKept), &kept)?;
            Ok(write.write_all(&out).await?)
        }
        Err(error) => problem(&error, write).await,
    }
}

/// Sends the rows as RESULT_ARROW messages, then RESULT_END; or PROBLEM, after which what was sent counts for nothing.
async fn send_rows(mut rows: ResultRows, write: &mut WriteHalf) -> Result<(), coffer_engine::wire::WireError> {
    let mut ipc = match rows.ipc() {
        Ok(ipc) => ipc,
        Err(error) => return problem(&error, write).await,
    };
    loop {
        let more = match rows.next().await {
            Ok(Some(batch)) => ipc.write(&batch).map(|()| true),
            Ok(None) => ipc.finish().map(|()| false),
            Err(error) => Err(error),
        };
        match more {
            Ok(true) if ipc.bytes().len() < CHUNK => {}
            Ok(more) => {
                let mut out = Vec::with_capacity(ipc.bytes().len() + 64);
                for chunk in ipc.bytes().chunks(CHUNK) {
                    put_raw(&mut out, kind_byte(ClientMessage::ResultArrow), &[chunk])?;
                }
                ipc.bytes().clear();
                if !more {
                    let end = ResultEnd { rows: ipc.rows };
                    put_message(&mut out, kind_byte(ClientMessage::ResultEnd), &end)?;
                }
                write.write_all(&out).await?;
                if !more {
                    return Ok(());
                }
            }
            Err(error) => return problem(&error, write).await,
        }
    }
}
