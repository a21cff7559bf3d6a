//! One frame of a stream or spill file: `header ‖ ciphertext ‖ tag`, the header being associated
//! data.
//!
//! ```text
//! 0  version u8 (1)   1  flags u8 (bit 0: last)   2  reserved u16 (0)   4  counter u64 LE
//! 12 sealed length u32 LE
//! ```
//! The sealed length counts ciphertext and tag. The nonce is the counter; the key is the stream's
//! own.

use std::ops::Range;

use crate::{Error, FrameKey as Key, aead::TAG_LEN, bytes::field};

/// Bytes of a header.
pub const HEADER_LEN: usize = 16;
/// Bytes that a frame is longer than its plaintext.
pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;
/// The longest frame, header and tag included. Checked before anything is allocated.
pub const MAX_FRAME_LEN: usize = 64 << 20;
/// Frames that one key may seal, enforced by sealers and openers alike.
///
/// NIST SP 800-38D allows 2³⁹ − 256 bits in one invocation (a frame has 2²⁹ at most) and, with
/// nonces that are counted and so never repeat, 2⁶⁴ invocations. What binds earlier is the birthday
/// bound of the block cipher: at the longest frame this is 2⁴⁶ blocks under one key, which lets
/// ciphertext be told from noise with a probability of about 2⁻³⁷.
pub const MAX_FRAMES: u64 = 1 << 24;

const VERSION: u8 = 1;
const FLAG_LAST: u8 = 1;

/// A header as it came: well-formed, not yet authenticated. Good for one thing, to know how many
/// bytes to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    counter: u64,
    last: bool,
    sealed_len: u32,
}

impl FrameHeader {
    /// Reads the first [`HEADER_LEN`] bytes of a frame.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let [version, flags, reserved_low, reserved_high] = field::<4>(bytes, 0)?;
        let counter = u64::from_le_bytes(field(bytes, 4)?);
        let sealed_len = u32::from_le_bytes(field(bytes, 12)?);
        if version != VERSION {
            return Err(Error::UnknownVersion(version));
        }
        if flags & !FLAG_LAST != 0 || reserved_low != 0 || reserved_high != 0 {
            return Err(Error::ReservedBits);
        }
        let header = Self {
            counter,
            last: flags & FLAG_LAST != 0,
            sealed_len,
        };
        let length = header.sealed_len()?;
        if !(TAG_LEN..=MAX_FRAME_LEN - HEADER_LEN).contains(&length) {
            return Err(Error::BadLength(u64::from(sealed_len)));
        }
        Ok(header)
    }

    /// Bytes of the whole frame, header included; at most [`MAX_FRAME_LEN`].
    pub(crate) fn frame_len(&self) -> Result<usize, Error> {
        Ok(HEADER_LEN + self.sealed_len()?)
    }

    /// Whether it says that the stream ends here.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    fn sealed_len(&self) -> Result<usize, Error> {
        usize::try_from(self.sealed_len).map_err(|_| Error::BadLength(u64::from(self.sealed_len)))
    }

    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let fields = [VERSION, if self.last { FLAG_LAST } else { 0 }, 0, 0]
            .into_iter()
            .chain(self.counter.to_le_bytes())
            .chain(self.sealed_len.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(fields) {
            *to = from;
        }
        bytes
    }
}

/// A frame whose tag, counter and place were checked; only an opener builds one.
///
/// `B` is the buffer the frame came in (`Vec<u8>`, `BytesMut`, `&mut [u8]`, …): the plaintext lies
/// inside it, uncopied.
pub struct OpenedFrame<B> {
    buffer: B,
    plain: Range<usize>,
    last: bool,
    counter: u64,
}

impl<B> OpenedFrame<B> {
    /// Whether the stream ends here.
    pub fn is_last(&self) -> bool {
        self.last
    }

    /// The frame's number in its stream, from 0.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// The buffer, and where in it the plaintext is: for slicing without a copy.
    pub fn into_parts(self) -> (B, Range<usize>) {
        (self.buffer, self.plain)
    }
}

impl<B: AsRef<[u8]>> OpenedFrame<B> {
    /// The plaintext.
    pub fn plain(&self) -> &[u8] {
        self.buffer
            .as_ref()
            .get(self.plain.clone())
            .unwrap_or_default()
    }
}

/// Seals the frames of one key in order; the counter is its own.
pub(crate) struct FrameSealer {
    key: Key,
    next: u64,
    closed: bool,
}

impl FrameSealer {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            key,
            next: 0,
            closed: false,
        }
    }

    pub(crate) fn frames(&self) -> u64 {
        self.next
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// As if so many frames had been sealed: their numbers are never used.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, frame: u64) {
        self.next = frame;
    }

    /// Appends one frame; `fill` appends its plaintext to the buffer, where it is sealed in place.
    /// On an error the buffer is as before, and the counter is not used again.
    pub(crate) fn seal_with<E: From<Error>>(
        &mut self,
        last: bool,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.closed {
            return Err(Error::SealedAfterLast.into());
        }
        if self.next >= MAX_FRAMES {
            return Err(Error::TooManyFrames.into());
        }
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        let sealed = match fill(out) {
            Ok(()) => self.seal_from(start, last, out).map_err(E::from),
            Err(error) => Err(error),
        };
        if sealed.is_err() {
            out.truncate(start);
        }
        sealed
    }

    fn seal_from(&mut self, start: usize, last: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        let length = out.len().saturating_sub(start).saturating_add(TAG_LEN);
        if length > MAX_FRAME_LEN {
            return Err(Error::TooLong { length });
        }
        let sealed_len = u32::try_from(length.saturating_sub(HEADER_LEN))
            .map_err(|_| Error::TooLong { length })?;
        let counter = self.next;
        let header = FrameHeader {
            counter,
            last,
            sealed_len,
        }
        .encode();
        let (head, body) = out
            .get_mut(start..)
            .and_then(|frame| frame.split_first_chunk_mut::<HEADER_LEN>())
            .ok_or(Error::BufferShortened)?;
        *head = header;
        self.next = counter.saturating_add(1);
        let tag = self.key.seal(counter, &header, body)?;
        out.extend_from_slice(tag.as_ref());
        self.closed = last;
        Ok(())
    }
}

/// Opens the frames of one key in order.
pub(crate) struct FrameOpener {
    key: Key,
    next: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Finished,
    Refused,
}

impl FrameOpener {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            key,
            next: 0,
            state: State::Open,
        }
    }

    pub(crate) fn frames(&self) -> u64 {
        self.next
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// As if so many frames had been opened.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, frame: u64) {
        self.next = frame;
    }

    /// Opens one whole frame in place. After an error nothing more opens.
    pub(crate) fn open<B: AsMut<[u8]>>(&mut self, mut buffer: B) -> Result<OpenedFrame<B>, Error> {
        let opened = self.open_next(buffer.as_mut());
        match opened {
            Ok(header) => {
                let plain = HEADER_LEN..HEADER_LEN + header.sealed_len()?.saturating_sub(TAG_LEN);
                Ok(OpenedFrame {
                    buffer,
                    plain,
                    last: header.last,
                    counter: header.counter,
                })
            }
            Err(error) => {
                self.state = State::Refused;
                Err(error)
            }
        }
    }

    fn open_next(&mut self, frame: &mut [u8]) -> Result<FrameHeader, Error> {
        match self.state {
            State::Open => {}
            State::Finished => return Err(Error::FrameAfterLast),
            State::Refused => return Err(Error::Refused),
        }
        let header = FrameHeader::parse(frame)?;
        let (need, got) = (header.frame_len()?, frame.len());
        if got < need {
            return Err(Error::Truncated { need, got });
        }
        if got > need {
            return Err(Error::Trailing { extra: got - need });
        }
        if header.counter != self.next || header.counter >= MAX_FRAMES {
            return Err(Error::WrongCounter {
                want: self.next,
                got: header.counter,
            });
        }
        let (_, body) = frame
            .split_first_chunk_mut::<HEADER_LEN>()
            .ok_or(Error::Truncated { need, got })?;
        self.key.open(header.counter, &header.encode(), body)?;
        self.next = self.next.saturating_add(1);
        if header.last {
            self.state = State::Finished;
        }
        Ok(header)
    }

    /// Errors unless the last frame was opened.
    pub(crate) fn finish(&self) -> Result<u64, Error> {
        match self.state {
            State::Finished => Ok(self.next),
            State::Refused => Err(Error::Refused),
            State::Open => Err(Error::Unfinished { frames: self.next }),
        }
    }
}
