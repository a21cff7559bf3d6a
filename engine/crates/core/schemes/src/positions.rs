//! Where rows lie: the file that stores them and their numbers in it.

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray,
    Int64Array, types::Int32Type,
};
use arrow_schema::DataType;

use crate::{SchemeError, codec};

/// The random 16 bytes that name a written file, attempts included.
pub type FileId = [u8; 16];

/// Where the rows of an array lie.
#[derive(Clone, Copy)]
pub enum RowPositions<'a> {
    /// It does not matter: `plain`, `tee`, `det`, `ope`, `ore`.
    Anywhere,
    /// Rows `first_row`, `first_row + 1`, … of one file.
    File {
        /// Which file.
        file: FileId,
        /// Number of the array's first row in it.
        first_row: u64,
    },
    /// Rows that joins and filters have moved about: `#file` and `#row`, one for each row of the
    /// array.
    Scattered {
        /// Which files.
        files: &'a FileIds,
        /// Row numbers.
        rows: &'a Int64Array,
    },
}

impl RowPositions<'_> {
    /// File and row number of row `i`; none if the place does not tell, or a NULL stands where it
    /// should.
    pub(crate) fn at(&self, i: usize) -> Option<(FileId, u64)> {
        match self {
            Self::Anywhere => None,
            Self::File { file, first_row } => {
                Some((*file, first_row.checked_add(u64::try_from(i).ok()?)?))
            }
            Self::Scattered { files, rows } => {
                let row = rows.is_valid(i).then(|| rows.values().get(i).copied())??;
                Some((files.at(i)?, u64::try_from(row).ok()?))
            }
        }
    }

    /// Refuses arrays that are not equally long.
    pub(crate) fn check_len(&self, len: usize) -> Result<(), SchemeError> {
        if let Self::Scattered { files, rows } = self {
            for right in [files.len(), rows.len()] {
                if right != len {
                    return Err(SchemeError::WrongLength { left: len, right });
                }
            }
        }
        Ok(())
    }
}

/// A `#file` column, resolved: distinct ids, and which of them each row has.
pub struct FileIds {
    distinct: Vec<Option<FileId>>,
    index: Index,
}

/// Which of the distinct ids a row has.
enum Index {
    /// Of so many rows, all the first.
    One(usize),
    /// Each its own.
    Each,
    /// As listed.
    Listed(Vec<usize>),
}

impl FileIds {
    /// From a column of binary values of 16 bytes, dictionary-encoded or not.
    pub fn resolve(column: &ArrayRef) -> Result<Self, SchemeError> {
        if let Some(dictionary) = column.as_any().downcast_ref::<DictionaryArray<Int32Type>>() {
            let mut distinct = ids(dictionary.values())?;
            distinct.push(None);
            let null = distinct.len().saturating_sub(1);
            let index = dictionary
                .keys()
                .iter()
                .map(|key| {
                    key.and_then(|key| usize::try_from(key).ok())
                        .unwrap_or(null)
                })
                .collect();
            return Ok(Self {
                distinct,
                index: Index::Listed(index),
            });
        }
        if let Some(one) = column
            .as_any()
            .downcast_ref::<BinaryArray>()
            .and_then(one_id)
        {
            return Ok(Self {
                distinct: vec![Some(one)],
                index: Index::One(column.len()),
            });
        }
        Ok(Self {
            distinct: ids(column)?,
            index: Index::Each,
        })
    }

    /// Rows of the column.
    pub fn len(&self) -> usize {
        match &self.index {
            Index::One(rows) => *rows,
            Index::Each => self.distinct.len(),
            Index::Listed(index) => index.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id at a row; none for NULL.
    pub fn at(&self, i: usize) -> Option<FileId> {
        let positions = match &self.index {
            Index::One(rows) => (i < *rows).then_some(0)?,
            Index::Each => i,
            Index::Listed(index) => *index.get(i)?,
        };
        *self.distinct.get(positions)?
    }
}

/// The id that all rows have: so it is where rows come as a scan reads them.
fn one_id(column: &BinaryArray) -> Option<FileId> {
    let rows = column.len();
    if rows == 0 || column.null_count() > 0 {
        return None;
    }
    let id = FileId::try_from(column.value(0)).ok()?;
    let width = i32::try_from(id.len()).ok()?;
    let offsets = column.value_offsets();
    let even = offsets
        .iter()
        .zip(offsets.iter().skip(1))
        .all(|(start, end)| end.checked_sub(*start) == Some(width));
    let data = codec::span(offsets, column.value_data());
    (even && data.as_chunks::<16>().0.iter().all(|other| *other == id)).then_some(id)
}

fn ids(column: &ArrayRef) -> Result<Vec<Option<FileId>>, SchemeError> {
    let any = column.as_any();
    if let Some(array) = any.downcast_ref::<BinaryArray>() {
        array.iter().map(id).collect()
    } else if let Some(array) = any.downcast_ref::<FixedSizeBinaryArray>() {
        array.iter().map(id).collect()
    } else if let Some(array) = any.downcast_ref::<BinaryViewArray>() {
        array.iter().map(id).collect()
    } else {
        Err(SchemeError::WrongType {
            wanted: DataType::FixedSizeBinary(16),
            found: column.data_type().clone(),
        })
    }
}

fn id(bytes: Option<&[u8]>) -> Result<Option<FileId>, SchemeError> {
    bytes
        .map(|bytes| {
            FileId::try_from(bytes).map_err(|_| SchemeError::Malformed("a file id has 16 bytes"))
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int32Array;

    use super::*;

    #[test]
    fn ids_are_found_in_every_form() {
        let (a, b) = ([1_u8; 16], [2_u8; 16]);
        let views: BinaryViewArray = [Some(&a[..]), None, Some(&b[..])].into_iter().collect();
        let fixed = FixedSizeBinaryArray::try_from_iter([a, b].into_iter()).unwrap();
        let keys = Int32Array::from(vec![Some(1), None, Some(0)]);
        let same = BinaryArray::from_iter_values([a; 5]).slice(2, 2);
        let cases: [(ArrayRef, Vec<Option<FileId>>); 6] = [
            (
                Arc::new(BinaryArray::from_iter_values([a, b])),
                vec![Some(a), Some(b)],
            ),
            (Arc::new(same), vec![Some(a), Some(a)]),
            (Arc::new(BinaryArray::from(Vec::<&[u8]>::new())), vec![]),
            (Arc::new(views), vec![Some(a), None, Some(b)]),
            (Arc::new(fixed.clone()), vec![Some(a), Some(b)]),
            (
                Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(fixed))),
                vec![Some(b), None, Some(a)],
            ),
        ];
        for (column, expected) in cases {
            let ids = FileIds::resolve(&column).unwrap();
            assert_eq!(ids.len(), expected.len());
            assert_eq!(
                (0..ids.len()).map(|i| ids.at(i)).collect::<Vec<_>>(),
                expected
            );
            assert_eq!(ids.at(ids.len()), None);
        }
        let short: ArrayRef = Arc::new(BinaryArray::from(vec![&[1_u8; 15][..]]));
        assert!(FileIds::resolve(&short).is_err());
        assert!(FileIds::resolve(&(Arc::new(Int64Array::from(vec![1])) as ArrayRef)).is_err());
    }
}
