//! The framing of both socket protocols: `length: u32 LE ‖ type: u8 ‖ payload`.
//!
//! The length counts type and payload and is compared with [`MAX_MESSAGE`] before a byte is
//! allocated; a payload's buffer grows with what has really arrived, so a peer that only claims a
//! long message costs nothing.

use std::io::{self, Read};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest message, type and payload together.
pub const MAX_MESSAGE: usize = 64 << 20;

/// How much of a payload is allocated ahead of its arrival.
const READ_AHEAD: usize = 1 << 20;

/// Why bytes from a peer are not a message. All of these are the peer's fault or the network's.
#[derive(Debug, Error)]
pub enum WireError {
    /// The connection ended inside a message.
    #[error("the connection ended inside a message")]
    Truncated,
    /// Longer than the limit, [`MAX_MESSAGE`] as a rule.
    #[error("a message of {0} bytes is over the limit")]
    TooLong(u64),
    /// A length of nought leaves no room for the type.
    #[error("a message of no bytes has no type")]
    Empty,
    /// The payload is not the protobuf message that its type names.
    #[error("the payload of a {0} message cannot be decoded")]
    Malformed(&'static str),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
}

/// One message, its payload not yet decoded.
#[derive(Debug, Clone)]
pub struct Message {
    /// A value of `TaskMessage` or `ClientMessage`.
    pub kind: u8,
    /// What follows the type.
    pub payload: Bytes,
}

impl Message {
    /// Decodes the payload; `name` is for the error.
    pub fn decode<M: prost::Message + Default>(&self, name: &'static str) -> Result<M, WireError> {
        M::decode(self.payload.clone()).map_err(|_| WireError::Malformed(name))
    }
}

/// Reads one message; `None` when the peer closed between two messages.
pub async fn read_message<R: AsyncRead + Unpin>(
    reader: &mut R,
) -> Result<Option<Message>, WireError> {
    read_message_up_to(reader, MAX_MESSAGE).await
}

/// As [`read_message`], with another limit: the client engine takes whole results from its driver.
pub async fn read_message_up_to<R: AsyncRead + Unpin>(
    reader: &mut R,
    limit: usize,
) -> Result<Option<Message>, WireError> {
    read_message_within(reader, || limit).await
}

/// As [`read_message_up_to`], with a limit that is asked for once a message's length is here.
pub async fn read_message_within<R: AsyncRead + Unpin>(
    reader: &mut R,
    limit: impl FnOnce() -> usize,
) -> Result<Option<Message>, WireError> {
    let mut head = BytesMut::with_capacity(5);
    while head.len() < 4 {
        let mut limited = (&mut *reader).take(4 - head.len() as u64);
        if limited.read_buf(&mut head).await? == 0 {
            return if head.is_empty() {
                Ok(None)
            } else {
                Err(WireError::Truncated)
            };
        }
    }
    let length = body_length(head.get_u32_le(), limit())?;
    let mut body = BytesMut::with_capacity(length.min(READ_AHEAD));
    while body.len() < length {
        let mut limited = (&mut *reader).take((length - body.len()) as u64);
        if limited.read_buf(&mut body).await? == 0 {
            return Err(WireError::Truncated);
        }
    }
    let kind = body.get_u8();
    Ok(Some(Message {
        kind,
        payload: body.freeze(),
    }))
}

/// As [`read_message_up_to`], blocking.
pub fn read_message_blocking<R: Read>(
    reader: &mut R,
    limit: usize,
) -> Result<Option<Message>, WireError> {
    let mut head = Vec::with_capacity(4);
    reader.take(4).read_to_end(&mut head)?;
    let Ok(head) = <[u8; 4]>::try_from(head.as_slice()) else {
        return if head.is_empty() {
            Ok(None)
        } else {
            Err(WireError::Truncated)
        };
    };
    let length = body_length(u32::from_le_bytes(head), limit)?;
    // It grows with what has arrived.
    let mut body = Vec::new();
    reader.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(WireError::Truncated);
    }
    let mut body = Bytes::from(body);
    let kind = body.get_u8();
    Ok(Some(Message {
        kind,
        payload: body,
    }))
}

fn body_length(claimed: u32, limit: usize) -> Result<usize, WireError> {
    let length = claimed as usize;
    if length == 0 {
        return Err(WireError::Empty);
    }
    if length > limit {
        return Err(WireError::TooLong(length as u64));
    }
    Ok(length)
}

/// Appends a protobuf message to `out`.
pub fn put_message<M: prost::Message>(
    out: &mut Vec<u8>,
    kind: u8,
    message: &M,
) -> Result<(), WireError> {
    put_header(out, kind, message.encoded_len())?;
    message
        .encode(out)
        .map_err(|_| WireError::Malformed("outgoing"))
}

/// Appends a message of raw bytes, given in parts.
pub fn put_raw(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) -> Result<(), WireError> {
    put_header(out, kind, parts.iter().map(|part| part.len()).sum())?;
    for part in parts {
        out.put_slice(part);
    }
    Ok(())
}

/// Begins a message of raw bytes whose length is not known yet. What it is given back is for
/// [`end_message`], after whatever was appended.
pub fn begin_message(out: &mut Vec<u8>, kind: u8) -> usize {
    let start = out.len();
    out.put_u32_le(0);
    out.put_u8(kind);
    start
}

/// Fills in the length of the message that was begun at `start` and ends with `out`. It is the
/// caller's to end it in time: one over the limit is refused by whoever reads it.
pub fn end_message(out: &mut [u8], start: usize) {
    let length = out.len().saturating_sub(start).saturating_sub(4);
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(position) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *position = length.to_le_bytes();
    }
}

fn put_header(out: &mut Vec<u8>, kind: u8, payload: usize) -> Result<(), WireError> {
    let length = payload.saturating_add(1);
    if length > MAX_MESSAGE {
        return Err(WireError::TooLong(length as u64));
    }
    let length = u32::try_from(length).map_err(|_| WireError::TooLong(length as u64))?;
    out.put_u32_le(length);
    out.put_u8(kind);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(mut bytes: &[u8]) -> Result<Vec<Message>, WireError> {
        let mut messages = Vec::new();
        while let Some(message) = read_message(&mut bytes).await? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[tokio::test]
    async fn messages_come_back_as_they_were_put() {
        let mut out = Vec::new();
        put_raw(&mut out, 9, &[b"ab", b"", b"c"]).unwrap();
        put_raw(&mut out, 10, &[]).unwrap();
        let messages = read_all(&out).await.unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!(
            (messages[0].kind, messages[0].payload.as_ref()),
            (9, &b"abc"[..])
        );
        assert_eq!((messages[1].kind, messages[1].payload.len()), (10, 0));
    }

    #[tokio::test]
    async fn a_message_ended_later_is_as_one_that_was_put() {
        let mut out = Vec::new();
        put_raw(&mut out, 9, &[b"abc"]).unwrap();
        let start = begin_message(&mut out, 10);
        out.extend_from_slice(b"de");
        end_message(&mut out, start);
        let messages = read_all(&out).await.unwrap();
        assert_eq!(
            (messages[1].kind, messages[1].payload.as_ref()),
            (10, &b"de"[..])
        );
    }

    #[tokio::test]
    async fn blocking_or_not_messages_read_alike() {
        let mut out = Vec::new();
        put_raw(&mut out, 9, &[b"abc"]).unwrap();
        put_raw(&mut out, 10, &[]).unwrap();
        for cut in 0..=out.len() {
            let mut bytes = &out[..cut];
            let mut messages = Vec::new();
            let ended = loop {
                match read_message_blocking(&mut bytes, MAX_MESSAGE) {
                    Ok(Some(message)) => messages.push((message.kind, message.payload)),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error.to_string()),
                }
            };
            let wanted = read_all(&out[..cut]).await;
            assert_eq!(ended.is_ok(), wanted.is_ok(), "cut at {cut}");
            for wanted in wanted.into_iter().flatten().zip(messages) {
                assert_eq!((wanted.0.kind, wanted.0.payload), wanted.1);
            }
        }
        for wrong in [[0; 4], [255; 4]] {
            assert!(read_message_blocking(&mut &wrong[..], MAX_MESSAGE).is_err());
        }
    }

    #[tokio::test]
    async fn every_cut_inside_a_message_is_an_error() {
        let mut out = Vec::new();
        put_raw(&mut out, 9, &[b"abc"]).unwrap();
        for cut in 1..out.len() {
            assert!(
                matches!(read_all(&out[..cut]).await, Err(WireError::Truncated)),
                "cut at {cut}"
            );
        }
    }

    #[tokio::test]
    async fn lengths_out_of_bounds_are_refused_before_the_payload() {
        assert!(matches!(
            read_all(&[0, 0, 0, 0]).await,
            Err(WireError::Empty)
        ));
        let over = u32::try_from(MAX_MESSAGE + 1).unwrap().to_le_bytes();
        assert!(matches!(read_all(&over).await, Err(WireError::TooLong(_))));
        assert!(matches!(
            read_all(&[255; 4]).await,
            Err(WireError::TooLong(_))
        ));
    }
}
