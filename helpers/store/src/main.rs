//! `coffer-store`: answers questions for files of object stores and of HDFS, one after the other,
//! from standard input to standard output. A message is `length: u32 LE ‖ protobuf`, StorageRequest
//! and StorageAnswer of `storage.proto`.
//!
//! It has the network and the environment's credentials, and no key of Coffer's: what passes
//! through it is ciphertext, and whoever asks believes none of its answers.

mod answers;
mod hdfs;
mod object;
mod profile;
mod services;
mod stores;

use std::io;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The protocol's messages.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)] // generated
mod port {
    include!(concat!(env!("OUT_DIR"), "/coffer.storage.rs"));
}

/// The longest question: a part of a file.
const LONGEST: u32 = 64 << 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let (mut read, mut write) = (tokio::io::stdin(), tokio::io::stdout());
    let mut stores = stores::Stores::default();
    loop {
        let length = match read.read_u32_le().await {
            Ok(length) if length <= LONGEST => usize::try_from(length).map_err(io::Error::other)?,
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            // Whoever asked has gone.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut question = vec![0; length];
        read.read_exact(&mut question).await?;
        let request = port::StorageRequest::decode(question.as_slice())?;
        let answer = stores.answer(request).await.encode_to_vec();
        write
            .write_u32_le(u32::try_from(answer.len()).map_err(io::Error::other)?)
            .await?;
        write.write_all(&answer).await?;
        write.flush().await?;
    }
}
