//! What a writer knows of a file by having written it: its length, its footer, its digest. Nothing
//! of it is read back: storage may give other bytes than it was given, and a pin of those would
//! make them the table's.

use std::io::{self, Write};

use aws_lc_rs::digest::{Context, SHA256};

use crate::{Digest, Error, footer::TAIL_LEN};

/// Passes bytes on.
pub(crate) struct OwnBytes<W> {
    to: W,
    length: u64,
    seen: Option<Context>,
    kept: Option<Vec<u8>>,
}

impl<W: Write> OwnBytes<W> {
    /// The digest of all bytes costs time; without `hashing` there is none.
    pub(crate) fn new(to: W, hashing: bool) -> Self {
        Self {
            to,
            length: 0,
            seen: hashing.then(|| Context::new(&SHA256)),
            kept: None,
        }
    }

    /// What is written from now on is remembered: the end of the file.
    pub(crate) fn keep(&mut self) {
        self.kept = Some(Vec::new());
    }

    pub(crate) fn inner_mut(&mut self) -> &mut W {
        &mut self.to
    }

    /// Of all that was written so far.
    pub(crate) fn digest(&self) -> Option<Digest> {
        let seen = self.seen.clone()?;
        Digest::try_from(seen.finish().as_ref()).ok()
    }

    /// The length of the file, and its footer without the length and magic behind it. It must have
    /// been kept.
    pub(crate) fn footer(&self) -> Result<(u64, &[u8]), Error> {
        let none = || Error::Parquet("the writer made no footer".to_owned());
        let kept = self.kept.as_deref().ok_or_else(none)?;
        let tail = usize::try_from(TAIL_LEN).map_err(|_| none())?;
        let (before, tail) = kept
            .split_at_checked(kept.len().saturating_sub(tail))
            .ok_or_else(none)?;
        let length = u32::from_le_bytes(*tail.first_chunk().ok_or_else(none)?);
        let length = usize::try_from(length).map_err(|_| none())?;
        let start = before.len().checked_sub(length).ok_or_else(none)?;
        Ok((self.length, before.get(start..).ok_or_else(none)?))
    }
}

impl<W: Write> Write for OwnBytes<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        if let Some(bytes) = bytes.get(..written) {
            self.length = self
                .length
                .saturating_add(u64::try_from(written).unwrap_or(0));
            if let Some(seen) = &mut self.seen {
                seen.update(bytes);
            }
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(bytes);
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_is_the_one_that_was_written() {
        let mut own = OwnBytes::new(Vec::new(), true);
        own.write_all(b"pages").unwrap();
        assert!(own.footer().is_err(), "nothing is kept");
        own.keep();
        own.write_all(b"index").unwrap();
        own.write_all(b"footer").unwrap();
        own.write_all(&6_u32.to_le_bytes()).unwrap();
        own.write_all(b"PARE").unwrap();
        assert_eq!(own.footer().unwrap(), (24, b"footer".as_slice()));
        assert_eq!(own.digest().unwrap(), Digest::of(own.inner_mut()));
    }

    #[test]
    fn a_footer_longer_than_what_was_kept_is_none() {
        let mut own = OwnBytes::new(Vec::new(), false);
        own.write_all(b"footer").unwrap();
        own.keep();
        assert!(own.footer().is_err());
        own.write_all(&6_u32.to_le_bytes()).unwrap();
        own.write_all(b"PARE").unwrap();
        assert!(own.footer().is_err());
    }
}
