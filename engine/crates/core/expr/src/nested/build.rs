//! Results that are gathered: which element of which array comes next.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ListArray, MapArray, StructArray, UInt64Array, new_empty_array,
        new_null_array,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{interleave, take},
    datatypes::DataType,
};
use datafusion_common::{Result, internal_err};

use crate::types::{element_field, map_entries};

/// Picks values out of arrays of one type.
pub(super) struct Gather {
    /// The last is one NULL.
    sources: Vec<ArrayRef>,
    picks: Vec<(usize, usize)>,
    data_type: DataType,
    nulls: bool,
}

impl Gather {
    pub(super) fn new(data_type: &DataType, sources: impl IntoIterator<Item = ArrayRef>) -> Self {
        let null = new_null_array(data_type, 1);
        Self {
            sources: sources.into_iter().chain([null]).collect(),
            picks: Vec::new(),
            data_type: data_type.clone(),
            nulls: false,
        }
    }

    /// Value `index` of source `source`, counted from 0.
    pub(super) fn pick(&mut self, source: usize, index: usize) {
        self.picks.push((source, index));
    }

    pub(super) fn null(&mut self) {
        self.picks.push((self.sources.len() - 1, 0));
        self.nulls = true;
    }

    pub(super) fn len(&self) -> usize {
        self.picks.len()
    }

    pub(super) fn finish(self) -> Result<ArrayRef> {
        if self.picks.is_empty() {
            return Ok(new_empty_array(&self.data_type));
        }
        if let [values, _] = self.sources.as_slice() {
            let picks: UInt64Array = match self.nulls {
                true => {
                    let picks = self.picks.iter();
                    picks
                        .map(|(source, i)| (*source == 0).then_some(*i as u64))
                        .collect()
                }
                false => self.picks.iter().map(|(_, i)| *i as u64).collect(),
            };
            return Ok(take(values, &picks, None)?);
        }
        // Without a NULL, the array of it is left out: keys have none.
        let sources = self.sources.len() - usize::from(!self.nulls);
        let sources: Vec<&dyn Array> = self
            .sources
            .iter()
            .take(sources)
            .map(AsRef::as_ref)
            .collect();
        Ok(interleave(&sources, &self.picks)?)
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
