//! Footers that passed every check, kept for the tasks of one session; and the bytes of those that
//! lie on storage that is asked through a port, kept for all sessions of a process.

use std::{fmt, ops::Range, path::Path, sync::Arc};

use arrow::datatypes::Schema;
use bytes::Bytes;
use coffer_format::{Digest, FooterPin, OpenedFooter, PlainPin, footer, plain};
use coffer_protocol::storage::url;
use coffer_sealing::KekSet;
use datafusion_common::Result;
use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;

use crate::{
    files::{check_types, external},
    recent::Recent,
};

/// Bytes of the opened footers of one session.
const OPENED_MOST: usize = 64 << 20;
/// Bytes of footers as they lie on storage, of one process.
const RAW_MOST: usize = 32 << 20;

/// Opened footers of one session, by pin: those that were used last. DataFusion's own cache knows
/// nothing of keys and keeps no encrypted footers.
///
/// One cache must never serve two sessions: what a footer shows depends on the keys that opened it.
pub struct FooterCache {
    opened: Mutex<Recent<Key, Arc<Footer>>>,
    raw: Arc<RawFooters>,
}

/// Bytes of footers as they lie on storage, whose digests were the pinned ones: those that were
/// used last. What they show nobody knows without keys, so sessions share them; whoever opens them
/// checks them anew.
///
/// Of local files none is kept, which are read in place.
pub struct RawFooters(Mutex<Recent<RawKey, Bytes>>);

#[derive(PartialEq, Eq, Hash)]
struct RawKey {
    digest: Digest,
    length: u64,
    plain: bool,
}

impl Default for FooterCache {
    fn default() -> Self {
        Self::sharing(Arc::default())
    }
}

impl Default for RawFooters {
    fn default() -> Self {
        Self::of(RAW_MOST)
    }
}

impl RawFooters {
    fn of(most: usize) -> Self {
        Self(Mutex::new(Recent::of(most)))
    }
}

/// What must be known of a file before its footer is read. The sealed descriptor says which kind it
/// is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Pin {
    Sealed(FooterPin),
    /// An unverified input.
    Plain(PlainPin),
}

impl Pin {
    /// Which bytes of the file to read.
    pub(crate) fn range(&self) -> Result<Range<u64>> {
        match self {
            Self::Sealed(pin) => pin.range(),
            Self::Plain(pin) => pin.range(),
        }
        .map_err(external)
    }

    fn raw(&self) -> RawKey {
        let (digest, length, plain) = match self {
            Self::Sealed(pin) => (pin.footer_sha256, pin.footer_length, false),
            Self::Plain(pin) => (pin.footer_sha256, pin.footer_length, true),
        };
        RawKey {
            digest,
            length,
            plain,
        }
    }

    /// What of it is not of fixed size.
    fn heap(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Sealed(pin) => {
                let keys = pin.adopted.iter().flat_map(|adopted| &adopted.keys);
                let keys: usize = keys.map(|key| size_of_val(key) + key.wrapped.len()).sum();
                pin.aad_prefix.len().saturating_add(keys)
            }
        }
    }

    /// Whether another program wrote the file.
    fn is_by_others(&self) -> bool {
        match self {
            Self::Sealed(pin) => pin.adopted.is_some(),
            Self::Plain(_) => true,
        }
    }
}

/// The checks depend on the columns that are read and on the keys that were held.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    pin: Pin,
    columns: Vec<(String, String)>,
    keys: usize,
}

impl Key {
    fn size(&self) -> usize {
        let columns = self
            .columns
            .iter()
            .map(|(name, kind)| name.len() + kind.len());
        size_of::<Self>() + self.pin.heap() + columns.sum::<usize>()
    }
}

pub(crate) struct Footer(OpenedFooter);

impl Footer {
    pub(crate) fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.0.metadata()
    }

    pub(crate) fn all_keys(&self) -> bool {
        self.0.all_keys()
    }
}

impl fmt::Debug for FooterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FooterCache").finish_non_exhaustive()
    }
}

impl fmt::Debug for RawFooters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawFooters").finish_non_exhaustive()
    }
}

impl FooterCache {
    /// One session's, over the bytes that all sessions of the process share.
    pub fn sharing(raw: Arc<RawFooters>) -> Self {
        Self {
            opened: Mutex::new(Recent::of(OPENED_MOST)),
            raw,
        }
    }

    pub(crate) fn get(&self, pin: &Pin, schema: &Schema, keys: &KekSet) -> Option<Arc<Footer>> {
        self.opened.lock().get(&key(pin.clone(), schema, keys))
    }

    /// The bytes of a footer, if they were read before, by whatever session.
    pub(crate) fn raw(&self, path: &str, pin: &Pin) -> Option<Bytes> {
        url(Path::new(path))?;
        self.raw.0.lock().get(&pin.raw())
    }

    fn keep_raw(&self, path: &str, pin: &Pin, bytes: &Bytes) {
        if url(Path::new(path)).is_some() {
            // On their own: they may be a part of more that was read.
            let bytes = Bytes::copy_from_slice(bytes);
            let size = bytes.len().saturating_add(size_of::<RawKey>());
            self.raw.0.lock().keep(pin.raw(), bytes, size);
        }
    }

    /// Opens a footer and keeps it. Two tasks may open the same one at the same time; that costs
    /// only time.
    pub(crate) fn open(
        &self,
        path: &str,
        bytes: Bytes,
        pin: Pin,
        schema: &Schema,
        keys: &Arc<KekSet>,
    ) -> Result<Arc<Footer>> {
        let columns: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let opened = match &pin {
            Pin::Sealed(pin) => footer::open(bytes.clone(), pin, keys, &columns),
            Pin::Plain(pin) => plain::open_footer(bytes.clone(), pin),
        }
        .map_err(external)?;
        check_types(opened.metadata(), schema, pin.is_by_others())?;
        self.keep_raw(path, &pin, &bytes);
        let footer = Arc::new(Footer(opened));
        let key = key(pin, schema, keys);
        let size = footer.metadata().memory_size().saturating_add(key.size());
        self.opened.lock().keep(key, Arc::clone(&footer), size);
        Ok(footer)
    }
}

fn key(pin: Pin, schema: &Schema, keys: &KekSet) -> Key {
    let columns = schema
        .fields()
        .iter()
        .map(|field| (field.name().clone(), field.data_type().to_string()))
        .collect();
    Key {
        pin,
        columns,
        keys: keys.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(of: u8, plain: bool) -> Pin {
        let (size, rows, footer_length) = (1000, 1, 100);
        let footer_sha256 = Digest::of(&[of]);
        if plain {
            return Pin::Plain(PlainPin {
                size,
                rows,
                footer_length,
                footer_sha256,
            });
        }
        Pin::Sealed(FooterPin {
            table: coffer_sealing::TableId::from_slice(&[1; 16]).unwrap(),
            size,
            rows,
            aad_prefix: vec![],
            footer_length,
            footer_sha256,
            clear: false,
            adopted: None,
        })
    }

    #[test]
    fn bytes_of_footers_are_shared_and_bounded() {
        let raw = Arc::new(RawFooters::of(1000));
        let [first, second] = [0, 1].map(|_| FooterCache::sharing(Arc::clone(&raw)));
        let bytes = Bytes::from(vec![7; 300]);
        first.keep_raw("s3a://b/f", &pin(1, false), &bytes);
        // The digest says what they are, and not the place.
        assert_eq!(
            second.raw("hdfs://n/g", &pin(1, false)),
            Some(bytes.clone())
        );
        assert_eq!(second.raw("hdfs://n/g", &pin(1, true)), None);
        assert_eq!(second.raw("hdfs://n/g", &pin(2, false)), None);
        // Local files are read in place.
        assert_eq!(second.raw("/data/f", &pin(1, false)), None);
        first.keep_raw("/data/f", &pin(2, false), &bytes);
        assert_eq!(second.raw("s3a://b/f", &pin(2, false)), None);
        for of in 2..6 {
            assert!(first.raw("s3a://b/f", &pin(1, false)).is_some());
            first.keep_raw("s3a://b/f", &pin(of, false), &bytes);
        }
        let there = (1..6).filter(|of| second.raw("s3a://b/f", &pin(*of, false)).is_some());
        assert_eq!(there.collect::<Vec<_>>(), [1, 5]);
    }
}
