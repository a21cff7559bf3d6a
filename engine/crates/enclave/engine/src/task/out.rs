//! What leaves a task: bytes of streams, packed into OUT messages of up to a megabyte, and several
//! messages into one write.

use std::sync::Arc;

use coffer_protocol::{
    framing::{begin_message, end_message},
    wire::TaskMessage,
};

use crate::task::link::{Link, LinkError, kind_byte};

/// Bytes of streams in one message.
const MESSAGE: usize = 1 << 20;
/// Bytes of one write.
const WRITE: usize = 1 << 20;

/// The task's outgoing bytes. Frames are sealed straight into it.
pub(crate) struct Out {
    link: Arc<Link>,
    buffer: Vec<u8>,
    /// The message that is being filled: its target, and where it starts.
    open: Option<(u32, usize)>,
    messages: u64,
}

impl Out {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            buffer: Vec::new(),
            open: None,
            messages: 0,
        }
    }

    /// Lets `fill` append bytes of this target's stream.
    pub(crate) fn append<E>(
        &mut self,
        target: u32,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.open {
            Some((open, start)) if open == target && self.buffer.len() - start < MESSAGE => {}
            _ => {
                self.close();
                let start = begin_message(&mut self.buffer, kind_byte(TaskMessage::Out));
                self.open = Some((target, start));
                self.buffer.extend_from_slice(&target.to_le_bytes());
            }
        }
        fill(&mut self.buffer)
    }

    /// Writes, if enough has come together.
    pub(crate) async fn relieve(&mut self) -> Result<(), LinkError> {
        if self.buffer.len() >= WRITE {
            self.flush().await?;
        }
        Ok(())
    }

    /// Writes all there is.
    pub(crate) async fn flush(&mut self) -> Result<(), LinkError> {
        self.close();
        let messages = std::mem::take(&mut self.messages);
        self.link.send(&mut self.buffer, messages).await
    }

    fn close(&mut self) {
        let Some((_, start)) = self.open.take() else {
            return;
        };
        // A frame is at most 64 MiB and is begun below MESSAGE, so this is far below u32's end;
        // what is over the protocol's limit the executor refuses.
        end_message(&mut self.buffer, start);
        self.messages += 1;
    }
}
