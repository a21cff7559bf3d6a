//! Messages of the task protocol, blocking, well-formed or not.

use std::io::{self, Read, Write};

use coffer_protocol::{
    framing::{MAX_MESSAGE, WireError, read_message_blocking},
    wire::TaskMessage,
};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// A value of `TaskMessage`, or what was made up.
    pub kind: u8,
    /// What follows the type.
    pub payload: Vec<u8>,
}

impl Message {
    /// A message of that type.
    #[must_use]
    pub fn of(kind: TaskMessage, payload: Vec<u8>) -> Self {
        Self {
            kind: byte(kind),
            payload,
        }
    }

    /// Whether it is of that type.
    #[must_use]
    pub fn is(&self, kind: TaskMessage) -> bool {
        self.kind == byte(kind)
    }

    /// As it lies on the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len() + 1).unwrap_or(u32::MAX);
        let mut out = Vec::with_capacity(self.payload.len() + 5);
        out.extend_from_slice(&length.to_le_bytes());
        out.push(self.kind);
        out.extend_from_slice(&self.payload);
        out
    }
}

/// A message type as it lies on the wire.
#[must_use]
pub fn byte(kind: TaskMessage) -> u8 {
    u8::try_from(i32::from(kind)).unwrap_or(0)
}

/// The next message; none when the peer closed between two.
pub fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
    let message = read_message_blocking(from, MAX_MESSAGE).map_err(|error| match error {
        WireError::Io(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
    })?;
    Ok(message.map(|message| Message {
        kind: message.kind,
        payload: message.payload.to_vec(),
    }))
}

/// Sends one message.
pub fn write(to: &mut impl Write, message: &Message) -> io::Result<()> {
    to.write_all(&message.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let message = Message::of(TaskMessage::In, vec![1, 2, 3]);
        let bytes = message.bytes();
        assert_eq!(read(&mut bytes.as_slice()).unwrap(), Some(message));
        assert_eq!(read(&mut [].as_slice()).unwrap(), None);
        assert!(read(&mut [0; 4].as_slice()).is_err());
    }
}
