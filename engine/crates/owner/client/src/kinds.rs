//! Types of messages as they lie on the wire.

use coffer_protocol::wire::ClientMessage;

/// A message type as it lies on the wire.
pub(crate) fn kind_byte(kind: ClientMessage) -> u8 {
    // All types are far below 256; 0 is refused by every receiver.
    u8::try_from(i32::from(kind)).unwrap_or(0)
}
