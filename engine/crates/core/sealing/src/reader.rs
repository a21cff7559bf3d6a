//! Cutting bytes into the parts of a stream: the only place that reads a preamble or a frame's
//! header.
//!
//! [`StreamReader`] takes bytes as they arrive, in any pieces, and gives whole frames, not opened
//! yet. [`OpenedStream`] is for a stream that is there whole: it reads, checks and opens it to the
//! end, and takes nothing behind it.

use bytes::BytesMut;

use crate::{
    Error, OpenedFrame, SessionKey, StreamIdentity, StreamOpener, StreamPreamble,
    frame::{FrameHeader, HEADER_LEN},
    stream::PREAMBLE_LEN,
};

/// How much of a frame is allocated ahead of its arrival.
const AHEAD: usize = 1 << 20;

/// A whole frame as it came: well-formed, its tag not checked.
pub struct SealedFrame {
    bytes: BytesMut,
    last: bool,
}

impl SealedFrame {
    /// Whether it says that its stream ends here. Good for one thing, to know where the next stream
    /// begins: whether it is true, opening the frame says.
    pub fn claims_last(&self) -> bool {
        self.last
    }

    /// The frame, to be opened ([`StreamOpener::open`]) or kept.
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }
}

/// Takes bytes off a connection or a file, and gives preambles and frames.
#[derive(Default)]
pub struct StreamReader {
    buffer: BytesMut,
}

impl From<BytesMut> for StreamReader {
    fn from(buffer: BytesMut) -> Self {
        Self { buffer }
    }
}

impl StreamReader {
    /// With no bytes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Room for so many more bytes, which the caller fills: those that [`Self::missing`] asks for.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        let start = self.buffer.len();
        self.buffer.resize(start.saturating_add(length), 0);
        self.buffer.get_mut(start..).unwrap_or_default()
    }

    /// Bytes that came and are no part of what was given yet.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// How many bytes the frame that comes next still lacks, as far as is known: first those of its
    /// header. 0: it is whole.
    pub fn missing(&self) -> Result<usize, Error> {
        let whole = match self.buffer.get(..HEADER_LEN) {
            None => HEADER_LEN,
            Some(head) => FrameHeader::parse(head)?.frame_len()?,
        };
        Ok(whole.saturating_sub(self.buffer.len()))
    }

    /// What a stream begins with; none when not enough bytes are there.
    pub fn preamble(&mut self) -> Result<Option<StreamPreamble>, Error> {
        if self.buffer.len() < PREAMBLE_LEN {
            return Ok(None);
        }
        StreamPreamble::parse(&self.buffer.split_to(PREAMBLE_LEN)).map(Some)
    }

    /// The next frame, without a copy; none when not enough bytes are there.
    pub fn frame(&mut self) -> Result<Option<SealedFrame>, Error> {
        let Some(head) = self.buffer.get(..HEADER_LEN) else {
            return Ok(None);
        };
        let header = FrameHeader::parse(head)?;
        let length = header.frame_len()?;
        let missing = length.saturating_sub(self.buffer.len());
        if missing > 0 {
            // Room grows with what has come: a header that claims a long frame costs nothing.
            self.buffer.reserve(missing.min(AHEAD));
            return Ok(None);
        }
        Ok(Some(SealedFrame {
            bytes: self.buffer.split_to(length),
            last: header.is_last(),
        }))
    }

    /// That the bytes end inside a preamble or a frame.
    fn cut(&self, missing: usize) -> Error {
        let got = self.buffer.len();
        Error::Truncated {
            need: got.saturating_add(missing),
            got,
        }
    }
}

/// Opens one stream that is there whole: from its preamble to its last frame, with nothing behind
/// it.
pub struct OpenedStream {
    reader: StreamReader,
    opener: StreamOpener,
}

impl OpenedStream {
    /// `identity` is the reader's own: the bytes must be of that stream.
    pub fn new(key: &SessionKey, identity: StreamIdentity, bytes: BytesMut) -> Result<Self, Error> {
        let mut reader = StreamReader::from(bytes);
        let short = reader.cut(PREAMBLE_LEN.saturating_sub(reader.len()));
        reader.preamble()?.ok_or(short)?.check(&identity)?;
        Ok(Self {
            reader,
            opener: StreamOpener::new(key, identity)?,
        })
    }

    /// The next frame, in order; none after the last one, when nothing follows it. What came before
    /// that counts for nothing until then.
    pub fn next_frame(&mut self) -> Result<Option<OpenedFrame<BytesMut>>, Error> {
        if self.opener.is_finished() {
            return match self.reader.is_empty() {
                true => Ok(None),
                false => Err(Error::FrameAfterLast),
            };
        }
        // Asked first, so that no room is made for what does not come.
        let missing = self.reader.missing()?;
        if missing > 0 {
            return Err(self.reader.cut(missing));
        }
        match self.reader.frame()? {
            Some(frame) => self.opener.open(frame.into_bytes()).map(Some),
            None => Err(self.reader.cut(missing)),
        }
    }

    /// Frames opened so far.
    pub fn frames(&self) -> u64 {
        self.opener.frames()
    }
}
