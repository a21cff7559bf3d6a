//! Spill files: frames without a preamble, under a key drawn for the file that never leaves the
//! process. A short file, one with frames moved, and a file of another key (a stale one, or a
//! neighbour's) do not open.

use crate::{
    DerivationKey, Error, FrameKey as Key, Secret,
    frame::{FrameOpener, FrameSealer, OpenedFrame},
};

/// Plaintext bytes of a chunk that suit a disk; writers may choose others, up to
/// [`crate::MAX_FRAME_LEN`].
pub const CHUNK_LEN: usize = 256 << 10;

/// The key of one spill file. Gives one writer, any number of readers.
pub struct SpillKey {
    secret: Secret<32>,
    written: bool,
}

impl SpillKey {
    /// A fresh key, for a new file.
    pub fn generate() -> Result<Self, Error> {
        Self::from_drawn(&Secret::generate()?)
    }

    /// The bytes are drawn above, always; only the making of test vectors gives them.
    pub(crate) fn from_drawn(drawn: &Secret<32>) -> Result<Self, Error> {
        let secret = DerivationKey::new("spill", drawn).derive("chunks", &[])?;
        Ok(Self {
            secret,
            written: false,
        })
    }

    /// The file's only writer.
    pub fn writer(&mut self) -> Result<SpillWriter, Error> {
        if self.written {
            return Err(Error::TargetTaken);
        }
        self.written = true;
        Ok(SpillWriter {
            frames: FrameSealer::new(Key::new(&self.secret)?),
        })
    }

    /// A reader, from the start of the file.
    pub fn reader(&self) -> Result<SpillReader, Error> {
        Ok(SpillReader {
            frames: FrameOpener::new(Key::new(&self.secret)?),
        })
    }
}

/// Seals a file's chunks in order.
pub struct SpillWriter {
    frames: FrameSealer,
}

impl SpillWriter {
    /// Appends a sealed chunk; `last` ends the file, and may go with an empty plaintext.
    pub fn seal(&mut self, plain: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        out.reserve(plain.len().saturating_add(crate::frame::OVERHEAD));
        self.frames.seal_with(last, out, |out| {
            out.extend_from_slice(plain);
            Ok(())
        })
    }

    /// Whether the last chunk was sealed.
    pub fn is_finished(&self) -> bool {
        self.frames.is_closed()
    }
}

/// Opens a file's chunks in order.
pub struct SpillReader {
    frames: FrameOpener,
}

impl SpillReader {
    /// Opens the next chunk in place; the buffer holds exactly one (see [`crate::StreamReader`]).
    pub fn open<B: AsMut<[u8]>>(&mut self, chunk: B) -> Result<OpenedFrame<B>, Error> {
        self.frames.open(chunk)
    }

    /// Whether the last chunk was opened.
    pub fn is_finished(&self) -> bool {
        self.frames.is_finished()
    }

    /// Chunks in all; an error unless the last one was opened.
    pub fn finish(self) -> Result<u64, Error> {
        self.frames.finish()
    }
}
