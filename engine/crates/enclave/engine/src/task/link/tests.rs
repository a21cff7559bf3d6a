use coffer_process::{
    address::Address,
    listen::{Listener, ReadHalf, connect},
};
use coffer_protocol::{
    framing::{put_raw, read_message},
    port::{storage_answer, storage_request},
};

use super::*;
use crate::channel;

const MINUTE: Duration = Duration::from_secs(60);

/// An engine's link, and its executor's end.
async fn linked() -> (Arc<Link>, ReadHalf, WriteHalf) {
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&Address::Unix(folder.path().join("s"))).unwrap();
    let (read, write) = connect(listener.address()).await.unwrap();
    let (own_read, own_write) = listener.accept().await.unwrap();
    let link = Link::new(channel::start(own_read), own_write);
    (link, read, write)
}

fn size(path: &str) -> StorageRequest {
    let path = path.to_owned();
    StorageRequest {
        of: Some(storage_request::Of::Size(storage_request::Size { path })),
    }
}

/// The path of the next question, which must be for a size.
async fn asked(read: &mut ReadHalf) -> String {
    let asked = tokio::time::timeout(MINUTE, read_message(read)).await;
    let asked: StorageRequest = asked.unwrap().unwrap().unwrap().decode("STORAGE").unwrap();
    match asked.of {
        Some(storage_request::Of::Size(asked)) => asked.path,
        of => panic!("another question: {of:?}"),
    }
}

/// The path's length is its answer.
async fn answer(write: &mut WriteHalf, path: &str) {
    let bytes = Some(path.len() as u64);
    let answer = StorageAnswer {
        of: Some(storage_answer::Of::Size(storage_answer::Size { bytes })),
    };
    let mut out = Vec::new();
    put_message(&mut out, kind_byte(TaskMessage::Stored), &answer).unwrap();
    write.write_all(&out).await.unwrap();
}

fn bytes(answer: &StorageAnswer) -> Option<u64> {
    match &answer.of {
        Some(storage_answer::Of::Size(size)) => size.bytes,
        _ => None,
    }
}

#[tokio::test]
async fn a_question_that_was_given_up_takes_nobody_s_answer() {
    let (link, mut read, mut write) = linked().await;
    // One whose question went out, and whose answer comes to nobody.
    let asker = Arc::clone(&link);
    let waiting = tokio::spawn(async move { asker.storage(size("s3a://b/long")).await });
    let first = asked(&mut read).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    // One that waited to write behind a message that is longer than what the socket holds.
    let mut long = Vec::new();
    put_raw(&mut long, kind_byte(TaskMessage::Out), &[&vec![0; 8 << 20]]).unwrap();
    let sender = Arc::clone(&link);
    let sending = tokio::spawn(async move { sender.send(&mut long, 1).await });
    while link.outgoing.try_lock().is_ok() {
        tokio::task::yield_now().await;
    }
    let longer = size("s3a://b/longer");
    tokio::select! {
        biased;
        _ = link.storage(longer) => panic!("nobody answered"),
        () = std::future::ready(()) => {}
    }
    // The next gets its own.
    answer(&mut write, &first).await;
    let out = read_message(&mut read).await.unwrap().unwrap();
    assert_eq!(out.kind, kind_byte(TaskMessage::Out));
    sending.await.unwrap().unwrap();
    let question = size("s3a://b");
    let answering = async {
        let path = asked(&mut read).await;
        answer(&mut write, &path).await;
    };
    let (got, ()) = tokio::join!(link.storage(question), answering);
    assert_eq!(bytes(&got.unwrap()), Some(7));
    assert!(link.stored.0.lock().is_empty());
    link.settle().await.unwrap();
}

#[tokio::test]
async fn a_question_goes_on_while_nobody_looks_at_it() {
    let (link, mut read, mut write) = linked().await;
    let mut early = Box::pin(link.storage(size("s3a://b/early")));
    assert!(futures::poll!(&mut early).is_pending());
    // It is asked and answered, and whoever asks next does not wait for it.
    let path = asked(&mut read).await;
    assert_eq!(path, "s3a://b/early");
    answer(&mut write, &path).await;
    let answering = async {
        let path = asked(&mut read).await;
        answer(&mut write, &path).await;
    };
    let (got, ()) = tokio::join!(link.storage(size("s3a://b")), answering);
    assert_eq!(bytes(&got.unwrap()), Some(7));
    assert_eq!(bytes(&early.await.unwrap()), Some(13));
    link.settle().await.unwrap();
    assert!(link.stored.0.lock().is_empty());
}

#[tokio::test]
async fn a_connection_with_half_a_question_is_not_used_again() {
    let (link, _read, _write) = linked().await;
    let mut long = Vec::new();
    put_raw(&mut long, kind_byte(TaskMessage::Out), &[&vec![0; 8 << 20]]).unwrap();
    let cut = tokio::time::timeout(Duration::from_millis(50), link.send(&mut long, 1)).await;
    assert!(cut.is_err());
    assert!(matches!(link.settle().await, Err(LinkError::Closed)));
    let refused = link.storage(size("s3a://b")).await;
    assert!(matches!(refused, Err(LinkError::Closed)));
}

#[tokio::test]
async fn an_answer_longer_than_what_was_asked_for_is_refused() {
    let (link, mut read, mut write) = linked().await;
    let question = size("s3a://b");
    let answering = async {
        read_message(&mut read).await.unwrap().unwrap();
        let mut out = Vec::new();
        let long = vec![0; 100 << 10];
        put_raw(&mut out, kind_byte(TaskMessage::Stored), &[&long]).unwrap();
        write.write_all(&out).await.unwrap();
    };
    let (got, ()) = tokio::join!(link.storage(question), answering);
    assert!(matches!(got, Err(LinkError::Wire(WireError::TooLong(_)))));
}
