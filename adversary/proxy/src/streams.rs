//! Sealed streams taken apart, as a host can: where one ends and the next begins lies in the clear.

use coffer_sealing::{StreamPreamble, StreamReader, stream::PREAMBLE_LEN};

/// One stream: its preamble, and its frames, headers included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// `PREAMBLE_LEN` bytes.
    pub preamble: Vec<u8>,
    /// In order.
    pub frames: Vec<Vec<u8>>,
}

impl Stream {
    /// The attempt that wrote it, by its own word.
    #[must_use]
    pub fn attempt(&self) -> &[u8] {
        self.preamble.get(4..20).unwrap_or_default()
    }

    /// The map partition and the target, by its own word.
    #[must_use]
    pub fn position(&self) -> Option<(u32, u32)> {
        let preamble = StreamPreamble::parse(&self.preamble).ok()?;
        Some((preamble.partition.0, preamble.target))
    }

    /// As it lies on the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.preamble.clone();
        self.frames
            .iter()
            .for_each(|frame| out.extend_from_slice(frame));
        out
    }
}

/// The streams that these bytes are; none if they are anything else.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Vec<Stream>> {
    let mut streams = Vec::new();
    let mut reader = StreamReader::new();
    reader.push(bytes);
    while !reader.is_empty() {
        let start = bytes.len().checked_sub(reader.len())?;
        let preamble = bytes.get(start..)?.get(..PREAMBLE_LEN)?.to_vec();
        reader.preamble().ok()??;
        let mut frames = Vec::new();
        loop {
            let frame = reader.frame().ok()??;
            let last = frame.claims_last();
            frames.push(frame.into_bytes().to_vec());
            if last {
                break;
            }
        }
        streams.push(Stream { preamble, frames });
    }
    Some(streams)
}

/// The bytes of these streams, one after the other.
#[must_use]
pub fn join(streams: &[Stream]) -> Vec<u8> {
    streams.iter().flat_map(Stream::bytes).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A stream with well-formed frames that nobody sealed.
    pub(crate) fn stream(map: u32, target: u32, frames: u64) -> Stream {
        let mut preamble = b"CFS1".to_vec();
        preamble.extend([7; 16]);
        preamble.extend(map.to_le_bytes());
        preamble.extend(target.to_le_bytes());
        let frame = |counter: u64| {
            let mut frame = vec![1, u8::from(counter + 1 == frames), 0, 0];
            frame.extend(counter.to_le_bytes());
            frame.extend(20u32.to_le_bytes());
            frame.extend([u8::try_from(map * 16 + target).unwrap(); 20]);
            frame
        };
        Stream {
            preamble,
            frames: (0..frames).map(frame).collect(),
        }
    }

    #[test]
    fn streams_come_apart_and_together() {
        let streams = vec![stream(0, 1, 1), stream(2, 3, 4)];
        let bytes = join(&streams);
        assert_eq!(parse(&bytes), Some(streams));
        assert_eq!(parse(&[]), Some(vec![]));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), None);
        assert_eq!(stream(2, 3, 1).position(), Some((2, 3)));
    }
}
