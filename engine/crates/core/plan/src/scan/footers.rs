//! Footers that passed every check, kept for the tasks of one session.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use arrow::datatypes::Schema;
use bytes::Bytes;
use coffer_format::{FooterPin, OpenedFooter, PlainPin, footer, plain};
use coffer_sealing::KekSet;
use datafusion_common::Result;
use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;

use super::files::{check_types, external};

/// Opened footers of one session, by pin. DataFusion's own cache knows nothing of keys and keeps no
/// encrypted footers.
///
/// One cache must never serve two sessions: what a footer shows depends on the keys that opened it.
#[derive(Default)]
pub struct FooterCache(Mutex<HashMap<Key, Arc<Footer>>>);

/// What must be known of a file before its footer is read. The sealed descriptor says which kind it
/// is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Pin {
    Sealed(FooterPin),
    /// An unverified input.
    Plain(PlainPin),
}

impl Pin {
    /// Which bytes of the file to read.
    pub(super) fn range(&self) -> Result<Range<u64>> {
        match self {
            Self::Sealed(pin) => pin.range(),
            Self::Plain(pin) => pin.range(),
        }
        .map_err(external)
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

pub(super) struct Footer(OpenedFooter);

impl Footer {
    pub(super) fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.0.metadata()
    }

    pub(super) fn all_keys(&self) -> bool {
        self.0.all_keys()
    }
}

impl fmt::Debug for FooterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FooterCache").finish_non_exhaustive()
    }
}

impl FooterCache {
    pub(super) fn get(&self, pin: &Pin, schema: &Schema, keys: &KekSet) -> Option<Arc<Footer>> {
        self.0
            .lock()
            .get(&key(pin.clone(), schema, keys))
            .map(Arc::clone)
    }

    /// Opens a footer and keeps it. Two tasks may open the same one at the same time; that costs
    /// only time.
    pub(super) fn open(
        &self,
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
            Pin::Sealed(pin) => footer::open(bytes, pin, keys, &columns),
            Pin::Plain(pin) => plain::open_footer(bytes, pin),
        }
        .map_err(external)?;
        check_types(opened.metadata(), schema, pin.is_by_others())?;
        let footer = Arc::new(Footer(opened));
        self.0
            .lock()
            .insert(key(pin, schema, keys), Arc::clone(&footer));
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
