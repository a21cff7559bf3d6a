//! `coffer-store`: answers questions for files of object stores and of HDFS, any number at the same
//! time, from standard input to standard output. A message is `length: u32 LE ‖ number: u64 LE ‖
//! protobuf`, StorageRequest and StorageAnswer of `storage.proto`; an answer has its question's
//! number.
//!
//! It has the network and the environment's credentials, and no key of Coffer's: what passes
//! through it is ciphertext, and whoever asks believes none of its answers.

mod answers;
mod hdfs;
mod object;
mod profile;
mod services;
mod stores;

use std::{io, rc::Rc};

use bytes::Bytes;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::{LocalSet, spawn_local},
};

/// The protocol's messages.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)] // generated
mod port {
    include!(concat!(env!("OUT_DIR"), "/coffer.storage.rs"));
}

/// The longest question: a part of a file.
const LONGEST: u32 = 64 << 20;

/// Answers that wait to be written.
const WAITING: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let local = LocalSet::new();
    local.run_until(serve()).await
}

async fn serve() -> io::Result<()> {
    let mut read = tokio::io::stdin();
    let stores = Rc::new(stores::Stores::default());
    let (answers, answered) = mpsc::channel(WAITING);
    let writing = spawn_local(write(answered));
    loop {
        let length = match read.read_u32_le().await {
            Ok(length) if length <= LONGEST => usize::try_from(length).map_err(io::Error::other)?,
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            // Whoever asked has gone.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let number = read.read_u64_le().await?;
        let mut question = vec![0; length];
        read.read_exact(&mut question).await?;
        let request = port::StorageRequest::decode(Bytes::from(question))?;
        if writing.is_finished() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let (stores, answers) = (Rc::clone(&stores), answers.clone());
        spawn_local(async move {
            let answer = stores.answer(request).await;
            // Nobody reads them any more.
            let _ = answers.send((number, answer)).await;
        });
    }
}

async fn write(mut answered: mpsc::Receiver<(u64, port::StorageAnswer)>) -> io::Result<()> {
    let mut write = tokio::io::stdout();
    while let Some((number, answer)) = answered.recv().await {
        let answer = answer.encode_to_vec();
        let length = u32::try_from(answer.len()).map_err(io::Error::other)?;
        write.write_u32_le(length).await?;
        write.write_u64_le(number).await?;
        write.write_all(&answer).await?;
        write.flush().await?;
    }
    Ok(())
}
