//! Results that are gathered: which element of which array comes next.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ListArray, MapArray, StructArray, UInt64Array, new_empty_array,
        new_null_array,
    },
    buffer::{BooleanBuffer, NullBuffer, OffsetBuffer},
    compute::{interleave, take},
    datatypes::DataType,
};
use datafusion_common::{Result, internal_err};

use crate::types::{element_field, map_entries};

/// Picks values out of arrays of one type.
pub(super) struct Gather {
    sources: Vec<ArrayRef>,
    picks: Picks,
    data_type: DataType,
    nulls: bool,
}

/// Which values, and of several sources out of which; of NULLs one that none has.
enum Picks {
    OfOne(Vec<u64>),
    OfMany(Vec<(usize, usize)>),
}

impl Gather {
    pub(super) fn new(data_type: &DataType, sources: impl IntoIterator<Item = ArrayRef>) -> Self {
        let sources: Vec<ArrayRef> = sources.into_iter().collect();
        Self {
            picks: match sources.len() {
                1 => Picks::OfOne(Vec::new()),
                _ => Picks::OfMany(Vec::new()),
            },
            sources,
            data_type: data_type.clone(),
            nulls: false,
        }
    }

    /// Value `index` of source `source`, counted from 0.
    pub(super) fn pick(&mut self, source: usize, index: usize) {
        match &mut self.picks {
            Picks::OfOne(picks) => picks.push(index as u64),
            Picks::OfMany(picks) => picks.push((source, index)),
        }
    }

    pub(super) fn null(&mut self) {
        self.nulls = true;
        match &mut self.picks {
            Picks::OfOne(picks) => picks.push(u64::MAX),
            // The source behind the last, which `finish` adds.
            Picks::OfMany(picks) => picks.push((self.sources.len(), 0)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.picks {
            Picks::OfOne(picks) => picks.len(),
            Picks::OfMany(picks) => picks.len(),
        }
    }

    pub(super) fn finish(self) -> Result<ArrayRef> {
        if self.len() == 0 {
            return Ok(new_empty_array(&self.data_type));
        }
        match (self.picks, self.sources.as_slice()) {
            (Picks::OfOne(mut picks), [values]) => {
                let nulls = self.nulls.then(|| {
                    let valid = |at: usize| picks.get(at) != Some(&u64::MAX);
                    NullBuffer::new(BooleanBuffer::collect_bool(picks.len(), valid))
                });
                if self.nulls {
                    for pick in &mut picks {
                        *pick = if *pick == u64::MAX { 0 } else { *pick };
                    }
                }
                Ok(take(values, &UInt64Array::new(picks.into(), nulls), None)?)
            }
            (Picks::OfMany(picks), sources) => {
                let null = self.nulls.then(|| new_null_array(&self.data_type, 1));
                let sources: Vec<&dyn Array> =
                    sources.iter().chain(&null).map(AsRef::as_ref).collect();
                Ok(interleave(&sources, &picks)?)
            }
            (Picks::OfOne(_), _) => internal_err!("values are picked of one array"),
        }
    }
}

/// Where rows end among the elements of all rows, and which rows are NULL.
pub(super) struct Ends {
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl Ends {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            offsets,
            valid: Vec::with_capacity(rows),
        }
    }

    /// The row ends after so many elements of all rows.
    pub(super) fn row(&mut self, end: usize) -> Result<()> {
        self.push(end, true)
    }

    pub(super) fn null(&mut self, end: usize) -> Result<()> {
        self.push(end, false)
    }

    fn push(&mut self, end: usize, valid: bool) -> Result<()> {
        let Ok(end) = i32::try_from(end) else {
            return internal_err!("a batch has more than 2^31 elements of arrays");
        };
        self.offsets.push(end);
        self.valid.push(valid);
        Ok(())
    }

    fn finish(self) -> (OffsetBuffer<i32>, Option<NullBuffer>) {
        let nulls = self
            .valid
            .contains(&false)
            .then(|| NullBuffer::from(self.valid));
        (OffsetBuffer::new(self.offsets.into()), nulls)
    }

    pub(super) fn list(self, values: ArrayRef) -> Result<ArrayRef> {
        let (offsets, nulls) = self.finish();
        let field = element_field(values.data_type().clone());
        Ok(Arc::new(ListArray::try_new(field, offsets, values, nulls)?))
    }

    pub(super) fn map(self, keys: ArrayRef, values: ArrayRef) -> Result<ArrayRef> {
        let (offsets, nulls) = self.finish();
        let (entries, fields) = map_entries(keys.data_type().clone(), values.data_type().clone());
        let pairs = StructArray::try_new(fields, vec![keys, values], None)?;
        let map = MapArray::try_new(entries, offsets, pairs, nulls, false)?;
        Ok(Arc::new(map))
    }
}

/// A column of Spark's arrays, whose elements are picked.
pub(super) struct ListBuilder {
    pub(super) elements: Gather,
    ends: Ends,
}

impl ListBuilder {
    pub(super) fn new(
        element: &DataType,
        sources: impl IntoIterator<Item = ArrayRef>,
        rows: usize,
    ) -> Self {
        Self {
            elements: Gather::new(element, sources),
            ends: Ends::with_capacity(rows),
        }
    }

    pub(super) fn row(&mut self) -> Result<()> {
        self.ends.row(self.elements.len())
    }

    pub(super) fn null_row(&mut self) -> Result<()> {
        self.ends.null(self.elements.len())
    }

    pub(super) fn finish(self) -> Result<ArrayRef> {
        self.ends.list(self.elements.finish()?)
    }
}
