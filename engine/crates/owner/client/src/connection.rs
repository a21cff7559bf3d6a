//! The client protocol: a request, its answer, on each of several connections.

use std::{collections::VecDeque, io, panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

use coffer_audit::Who;
use coffer_process::listen::{Listener, ReadHalf, WriteHalf};
use coffer_protocol::{
    framing::{Message, WireError, put_message, put_raw, read_message_up_to},
    wire::{ClientMessage, ResultEnd},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};
use tracing::Instrument;

use crate::{
    ClientError, KeyService, Service,
    kinds::kind_byte,
    result::ResultRows,
    serve::Guest,
    service::{Reply, Talk},
};

/// The longest request: the JVM's longest array.
const MAX_REQUEST: usize = i32::MAX as usize;
/// The longest greeting.
const MAX_GREETING: usize = 64 << 10;
/// How long a key service waits for it.
const GREETING: Duration = Duration::from_secs(10);
/// Refused connections that are not closed yet: what their peers send goes nowhere, and they can
/// read why.
const REFUSED: usize = 16;
/// Connections that wait for the word on their account.
const ENTERING: usize = 16;
/// Bytes of an Arrow stream in one message.
const CHUNK: usize = 1 << 20;

/// How long accepting rests after it failed, so that a lack of file descriptors is no busy loop.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How often a key service looks for applications that are gone.
const TIDYING: Duration = Duration::from_secs(30);

/// How long who is turned away is given to read why.
const FAREWELL: Duration = Duration::from_secs(2);

/// Who was let in.
enum Visitor {
    Driver(Arc<Service>),
    Guest(Guest),
    /// The owner's relay, which has yet to say whom it brings.
    Relay(Arc<KeyService>),
}

/// Accepts connections of one application for ever, each served by a thread of its own.
pub async fn accept(service: Arc<Service>, listener: Listener) {
    accept_at(&listener, move |_| {
        Ok(Visitor::Driver(Arc::clone(&service)))
    })
    .await;
}

/// The same for a key service: connections of many applications, each of an account that the kernel
/// names.
pub async fn accept_users(keys: Arc<KeyService>, listener: Listener) {
    let tidied = Arc::clone(&keys);
    let tidying = async {
        loop {
            tokio::time::sleep(TIDYING).await;
            tidied.forget_idle();
        }
    };
    tokio::select! {
        () = accept_at(&listener, move |read| keys.enter(read.peer_uid()).map(Visitor::Guest)) => {}
        () = tidying => {}
    }
}

/// The same for connections that come by way of the owner's relay: of this process's own account,
/// as the kernel says, and of no other.
pub async fn accept_introduced(keys: Arc<KeyService>, listener: Listener) {
    let own = Who::owner().uid;
    accept_at(&listener, move |read| match read.peer_uid() {
        Some(uid) if uid == own => Ok(Visitor::Relay(Arc::clone(&keys))),
        Some(uid) => Err(ClientError::UnknownAccount(uid)),
        None => Err(ClientError::NoCredentials),
    })
    .await;
}

/// `enter` may take its time, with a directory service or the disk: up to [`ENTERING`] are let in
/// at the same time.
async fn accept_at<E>(listener: &Listener, enter: E)
where
    E: Fn(&ReadHalf) -> Result<Visitor, ClientError> + Send + Sync + 'static,
{
    let (enter, mut entering, mut refused) = (Arc::new(enter), JoinSet::new(), VecDeque::new());
    loop {
        let started = tokio::select! {
            accepted = listener.accept(),
                if entering.len() < ENTERING => accepted.map(|(read, write)| {
                let enter = Arc::clone(&enter);
                entering.spawn_blocking(move || (enter(&read), read, write));
            }),
            Some(entered) = entering.join_next() => match entered {
                Ok((Ok(visitor), read, write)) => thread::Builder::new()
                    .name("connection".to_owned())
                    .spawn(move || on_own_thread(visitor, read, write))
                    .map(|_| ()),
                Ok((Err(error), read, mut write)) => {
                    // A few hundred bytes into an empty socket: nobody is waited for.
                    let _ = problem(&error, &mut write).await;
                    refused.push_back(read);
                    refused.drain(..refused.len().saturating_sub(REFUSED));
                    Ok(())
                }
                Err(panicked) => Err(panicked.into()),
            },
        };
        if let Err(error) = started {
            tracing::warn!(%error, "a connection was not accepted");
            tokio::time::sleep(ACCEPT_REST).await;
        }
    }
}

fn on_own_thread(visitor: Visitor, read: ReadHalf, write: WriteHalf) {
    // The sockets belong to the accepting runtime; this one only waits for them, and runs the
    // finish of results.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        tracing::error!("a connection has no runtime");
        return;
    };
    if let Err(error) = runtime.block_on(serve(visitor, read, write)) {
        tracing::warn!(%error, "a connection ended");
    }
}

async fn serve(visitor: Visitor, mut read: ReadHalf, write: WriteHalf) -> Result<(), WireError> {
    match visitor {
        Visitor::Driver(service) => talk(&service, None, read, write).await,
        Visitor::Guest(guest) => attend(guest, read, write).await,
        Visitor::Relay(keys) => {
            let Some(first) = greeting(&mut read, GREETING).await? else {
                return Ok(());
            };
            match keys.enter_introduced(&first) {
                Ok(guest) => attend(guest, read, write).await,
                Err(error) => turn_away(&error, read, write).await,
            }
        }
    }
}

async fn attend(guest: Guest, mut read: ReadHalf, write: WriteHalf) -> Result<(), WireError> {
    let Some(first) = greeting(&mut read, GREETING).await? else {
        return Ok(());
    };
    match KeyService::attach(guest, &first) {
        Ok(attached) => talk(&attached.service, Some(first), read, write).await,
        Err(error) => turn_away(&error, read, write).await,
    }
}

/// Says why, and reads on for a moment: a connection that is closed with unread input is reset, and
/// what was said in it last may never be read.
async fn turn_away(
    error: &ClientError,
    mut read: ReadHalf,
    mut write: WriteHalf,
) -> Result<(), WireError> {
    problem(error, &mut write).await?;
    // Nobody is to send a second request in the hope of an answer.
    write.shutdown().await?;
    let mut unread = [0; 4096];
    let _ = tokio::time::timeout(FAREWELL, async {
        while read.read(&mut unread).await.is_ok_and(|length| length > 0) {}
    })
    .await;
    Ok(())
}

/// The first message of a connection, if it comes in time and is no longer than a greeting.
async fn greeting(read: &mut ReadHalf, most: Duration) -> Result<Option<Message>, WireError> {
    match tokio::time::timeout(most, read_message_up_to(read, MAX_GREETING)).await {
        Ok(read) => read,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

async fn talk(
    service: &Service,
    first: Option<Message>,
    mut read: ReadHalf,
    mut write: WriteHalf,
) -> Result<(), WireError> {
    let mut state = Talk::default();
    let mut next = first;
    loop {
        let message = match next.take() {
            Some(message) => message,
            None => match read_message_up_to(&mut read, MAX_REQUEST).await? {
                Some(message) => message,
                None => return Ok(()),
            },
        };
        if state.greeted && message.kind == kind_byte(ClientMessage::ServeStorage) {
            return service.storage.port().serve(read, write).await;
        }
        // Named as soon as it is known which query the request is about.
        let asked = tracing::info_span!("request", query = tracing::field::Empty);
        match asked.in_scope(|| guarded(service, &message, &mut state)) {
            Ok(Reply::Message(bytes)) => write.write_all(&bytes).await?,
            Ok(Reply::Rows(rows)) => send_rows(rows, &mut write).await?,
            Ok(Reply::Keep(rows, session, most)) => {
                keep(service, rows, &session, most, &mut write).await?
            }
            Err(error) => {
                problem(&error, &mut write).instrument(asked).await?;
                // Whose account is no user's any more knocks again, and is counted as a stranger.
                if error.is_stranger() {
                    return Ok(());
                }
            }
        }
    }
}

/// Much of what is parsed comes from executors; a panic costs the request and no more.
fn guarded(service: &Service, message: &Message, state: &mut Talk) -> Result<Reply, ClientError> {
    std::panic::catch_unwind(AssertUnwindSafe(|| service.handle(message, state)))
        .unwrap_or(Err(ClientError::Panicked))
}

async fn problem(error: &ClientError, write: &mut WriteHalf) -> Result<(), WireError> {
    tracing::info!(code = error.code(), "a request was refused");
    let mut out = Vec::new();
    put_message(
        &mut out,
        kind_byte(ClientMessage::Problem),
        &error.problem(),
    )?;
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
) -> Result<(), WireError> {
    match service.keep_rows(session, rows, most).await {
        Ok(kept) => {
            let mut out = Vec::new();
            put_message(&mut out, kind_byte(ClientMessage::ResultKept), &kept)?;
            Ok(write.write_all(&out).await?)
        }
        Err(error) => problem(&error, write).await,
    }
}

/// Sends the rows as RESULT_ARROW messages, then RESULT_END; or PROBLEM, after which what was sent
/// counts for nothing.
async fn send_rows(mut rows: ResultRows, write: &mut WriteHalf) -> Result<(), WireError> {
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    use coffer_process::{address::Address, listen::connect};

    use super::*;

    #[tokio::test]
    async fn who_says_nothing_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&Address::Unix(folder.path().join("s"))).unwrap();
        let (_read, mut write) = connect(listener.address()).await.unwrap();
        let (mut read, _write) = listener.accept().await.unwrap();
        // The beginning of a message that does not go on.
        write.write_all(&[0, 0]).await.unwrap();
        let ended = greeting(&mut read, Duration::from_millis(1)).await;
        assert!(
            matches!(ended, Err(WireError::Io(error)) if error.kind() == io::ErrorKind::TimedOut)
        );
    }

    #[tokio::test]
    async fn who_is_slow_to_enter_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&Address::Unix(folder.path().join("s"))).unwrap();
        let address = listener.address().clone();
        let (knocks, turn) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let (knocked, second) = (Arc::clone(&knocks), Arc::clone(&turn));
        let accepting = accept_at(&listener, move |_| {
            // The first waits for the second's word.
            match knocks.fetch_add(1, Ordering::SeqCst) {
                0 => second.wait().is_leader(),
                _ => true,
            };
            Err(ClientError::NoCredentials)
        });
        let visitors = async {
            let (mut first, _write) = connect(&address).await.unwrap();
            while knocked.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (mut other, _write) = connect(&address).await.unwrap();
            let known = |message: Option<Message>| {
                message.unwrap().kind == kind_byte(ClientMessage::Problem)
            };
            assert!(known(
                read_message_up_to(&mut other, MAX_GREETING).await.unwrap()
            ));
            tokio::task::spawn_blocking(move || turn.wait())
                .await
                .unwrap();
            assert!(known(
                read_message_up_to(&mut first, MAX_GREETING).await.unwrap()
            ));
        };
        tokio::select! {
            () = accepting => unreachable!(),
            ended = tokio::time::timeout(Duration::from_secs(60),
                visitors) => ended.expect("the second was told"),
        }
    }
}
