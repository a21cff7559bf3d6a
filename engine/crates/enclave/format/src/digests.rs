//! Digests of the column chunks that lie unencrypted in a file.

use std::{io::Read, path::Path};

use aws_lc_rs::digest::{Context, SHA256};
use parquet::file::metadata::ParquetMetaData;

use crate::{Digest, Error, StoredColumn, footer::leaf_places};

const BLOCK: usize = 1 << 20;

/// The digest of each unencrypted column chunk of a file, by row group and then by stored column.
/// `file` is read once, from its beginning, and must be the one of which every byte was written, by
/// `whole`: what storage made of it meanwhile is not pinned.
pub fn digest_chunks(
    file: &mut dyn Read,
    path: &Path,
    whole: Digest,
    metadata: &ParquetMetaData,
    stored: &[StoredColumn],
) -> Result<Vec<Vec<Digest>>, Error> {
    let mut digests = Vec::with_capacity(metadata.num_row_groups());
    let mut reading = Reading {
        file,
        path,
        all: Context::new(&SHA256),
        at: 0,
    };
    let places = leaf_places(metadata.file_metadata().schema_descr());
    for group in metadata.row_groups() {
        let mut of_group = Vec::new();
        // Column chunks lie in the order of the columns.
        for (chunk, place) in group.columns().iter().zip(&places) {
            let stored = stored.get(place.column);
            if !stored.is_some_and(|stored| stored.encoding.is_clear()) {
                continue;
            }
            let (start, length) = chunk.byte_range();
            reading.skip_to(start)?;
            of_group.push(reading.digest(length)?);
        }
        digests.push(of_group);
    }
    reading.skip_to(u64::MAX)?;
    let all = Digest::try_from(reading.all.finish().as_ref())?;
    if all == whole {
        Ok(digests)
    } else {
        Err(Error::ChangedWhileWriting(path.to_owned()))
    }
}

struct Reading<'a> {
    file: &'a mut dyn Read,
    path: &'a Path,
    all: Context,
    at: u64,
}

impl Reading<'_> {
    /// Reads up to a place, or to the end.
    fn skip_to(&mut self, start: u64) -> Result<(), Error> {
        let length = start
            .checked_sub(self.at)
            .ok_or_else(|| Error::Parquet("column chunks do not lie in order".into()))?;
        self.read(length, |_| ()).map(|_| ())
    }

    fn digest(&mut self, length: u64) -> Result<Digest, Error> {
        let mut context = Context::new(&SHA256);
        let read = self.read(length, |block| context.update(block))?;
        if read != length {
            return Err(Error::ChangedWhileWriting(self.path.to_owned()));
        }
        Digest::try_from(context.finish().as_ref())
    }

    fn read(&mut self, length: u64, mut see: impl FnMut(&[u8])) -> Result<u64, Error> {
        let mut block = vec![0; BLOCK];
        let mut left = length;
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            let read = self
                .file
                .read(block.get_mut(..wanted).unwrap_or_default())
                .map_err(Error::io("read", self.path))?;
            let Some(bytes) = block.get(..read).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            self.all.update(bytes);
            see(bytes);
            let read = u64::try_from(read).unwrap_or(u64::MAX);
            self.at = self.at.saturating_add(read);
            left = left.saturating_sub(read);
        }
        Ok(length.saturating_sub(left))
    }
}
