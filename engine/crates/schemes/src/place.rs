//! Where rows lie: the file that stores them and their numbers in it.

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray, Int64Array, types::Int32Type,
};
use arrow_schema::DataType;

use crate::SchemeError;

/// The random 16 bytes that name a written file, attempts included.
pub type FileId = [u8; 16];

/// Where the rows of an array lie.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// It does not matter: `plain`, `tee`, `det`, `ope`, `ore`, `paillier`.
    Anywhere,
    /// Rows `first_row`, `first_row + 1`, … of one file.
    File {
        /// Which file.
        file: FileId,
        /// Number of the array's first row in it.
        first_row: u64,
    },
    /// Rows that joins and filters have moved about: `#file` and `#row`, one for each row of the array.
    Scattered {
        /// Which files.
        files: &'a FileIds,
        /// Row numbers.
        rows: &'a Int64Array,
    },
}

impl Place<'_> {
    /// File and row number of row `i`; none if the place does not tell, or a NULL stands where it should.
    pub(crate) fn at(&self, i: usize) -> Option<(FileId, u64)> {
        match self {
            Self::Anywhere => None,
            Self::File { file, first_row } => Some((*file, first_row.checked_add(u64::try_from(i).ok()?)?)),
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
    /// Index into `distinct`; empty when there is one for each row.
    index: Vec<usize>,
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
                .map(|key| key.and_then(|key| usize::try_from(key).ok()).unwrap_or(null))
                .collect();
            return Ok(Self { distinct, index });
        }
        Ok(Self {
            distinct: ids(column)?,
            index: Vec::new(),
        })
    }

    /// Rows of the column.
    pub fn len(&self) -> usize {
        if self.index.is_empty() {
            self.distinct.len()
        } else {
            self.index.len()
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id at a row; none for NULL.
    pub fn at(&self, i: usize) -> Option<FileId> {
        let i = if self.index.is_empty() { i } else { *self.index.get(i)? };
        *self.distinct.get(i)?
    }
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
        .map(|bytes| FileId::try_from(bytes).map_err(|_| SchemeError::Malformed("a file id has 16 bytes")))
        .transpose()
}
