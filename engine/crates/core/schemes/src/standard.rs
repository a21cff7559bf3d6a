//! `std`: AES-256-GCM for each value, so that it can be carried through filters, joins and
//! exchanges and opened at the end.
//!
//! The key is one for each file and column, the nonce the row's number in that file, so a value
//! opens only as what stood there: it cannot be altered or moved. A file id must therefore be drawn
//! anew whenever a file is written, retries included; a row encrypted twice under one id and number
//! would show the difference of its two values, and worse.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use coffer_sealing::{DerivationKey, InsecureNumberedKey};

use crate::codec::{self, Cells};
use crate::scheme::check_type;
use crate::{ColumnSpec, FileId, RowPositions, Scheme, SchemeError, SchemeKey};

const NAME: &str = "std";
/// Bytes that a stored value is longer than its plaintext.
const TAG_LEN: usize = 16;
/// File keys kept at hand.
const KEPT_FILES: usize = 1_024;

/// Encryption of each value of a column for itself.
pub struct Standard {
    data_type: DataType,
    width: Option<usize>,
    root: DerivationKey,
    files: Mutex<HashMap<FileId, Arc<InsecureNumberedKey>>>,
}

impl Standard {
    /// With the column's key, from which each file's is derived.
    pub fn new(key: &SchemeKey, column: &ColumnSpec) -> Result<Self, SchemeError> {
        Ok(Self {
            width: codec::width(NAME, &column.data_type)?,
            data_type: column.data_type.clone(),
            root: key.root(NAME)?,
            files: Mutex::default(),
        })
    }

    fn file_key(&self, file: &FileId) -> Result<Arc<InsecureNumberedKey>, SchemeError> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = files.get(file) {
            return Ok(Arc::clone(key));
        }
        let secret = self.root.derive("file", &[file])?;
        let key = Arc::new(InsecureNumberedKey::new(&secret)?);
        if files.len() >= KEPT_FILES {
            files.clear();
        }
        files.insert(*file, Arc::clone(&key));
        Ok(key)
    }

    /// The key and the number of each valid row, in order; keys are looked up when the file
    /// changes.
    fn locate<'a>(
        &'a self,
        positions: RowPositions<'a>,
    ) -> impl FnMut(usize) -> Result<(Arc<InsecureNumberedKey>, u64), SchemeError> + 'a {
        let mut last: Option<(FileId, Arc<InsecureNumberedKey>)> = None;
        move |i| {
            let (file, row) = positions
                .at(i)
                .ok_or(SchemeError::PositionNeeded { scheme: NAME })?;
            let key = match &last {
                Some((of, key)) if *of == file => Arc::clone(key),
                _ => {
                    let key = self.file_key(&file)?;
                    last = Some((file, Arc::clone(&key)));
                    key
                }
            };
            Ok((key, row))
        }
    }

    fn seal_all<'v>(
        &self,
        values: impl Iterator<Item = &'v [u8]>,
        column: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        let mut locate = self.locate(positions);
        let mut out = Vec::new();
        let mut lengths = Vec::with_capacity(column.len());
        for (row, value) in values.enumerate() {
            let start = out.len();
            if column.is_valid(row) {
                let (key, number) = locate(row)?;
                out.extend_from_slice(value);
                let tag = key.seal(number, out.get_mut(start..).unwrap_or_default())?;
                out.extend_from_slice(&tag);
            }
            lengths.push(out.len().saturating_sub(start));
        }
        codec::binary(lengths, out, column.nulls().cloned())
    }
}

impl Scheme for Standard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stored_type(&self) -> DataType {
        DataType::Binary
    }

    fn encrypt(
        &self,
        column: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        // Scattered rows would let a caller encrypt one row twice: a column is written file by
        // file.
        if !matches!(positions, RowPositions::File { .. }) {
            return Err(SchemeError::PositionNeeded { scheme: NAME });
        }
        match codec::encode(NAME, column, &self.data_type)? {
            Cells::Fixed { width, bytes } => {
                self.seal_all(bytes.chunks_exact(width), column, positions)
            }
            Cells::Variable { offsets, data } => {
                self.seal_all(codec::values(offsets, data), column, positions)
            }
        }
    }

    fn decrypt(
        &self,
        stored: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        check_type(stored, &DataType::Binary)?;
        positions.check_len(stored.len())?;
        let array = stored.as_binary::<i32>();
        let mut locate = self.locate(positions);
        let mut out = Vec::with_capacity(array.value_data().len());
        let mut lengths = Vec::with_capacity(array.len());
        for (row, sealed) in array.iter().enumerate() {
            let start = out.len();
            if let Some(sealed) = sealed {
                let (key, number) = locate(row)?;
                out.extend_from_slice(sealed);
                let body = out.get_mut(start..).unwrap_or_default();
                let opened = key
                    .open(number, body)
                    .map_err(|_| SchemeError::Unauthentic { row })?;
                if self.width.is_some_and(|width| width != opened) {
                    return Err(SchemeError::Unauthentic { row });
                }
                out.truncate(start.saturating_add(opened));
            } else if let Some(width) = self.width {
                out.resize(start.saturating_add(width), 0);
            }
            lengths.push(out.len().saturating_sub(start));
        }
        match self.width {
            Some(_) => codec::decode_fixed(NAME, &self.data_type, &out, array.nulls().cloned()),
            None => {
                codec::decode_variable(NAME, &self.data_type, lengths, out, array.nulls().cloned())
            }
        }
    }
}

/// Bytes of a stored value beyond the plaintext's.
pub const OVERHEAD: usize = TAG_LEN;

#[cfg(test)]
mod tests {
    use arrow_array::{
        DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, StringArray,
        types::Int32Type,
    };

    use super::*;
    use crate::{FileIds, testing};

    const FILE: RowPositions<'_> = RowPositions::File {
        file: [3; 16],
        first_row: 100,
    };

    fn standard(data_type: DataType) -> Standard {
        Standard::new(
            &SchemeKey::from_bytes(&[7; 32]),
            &ColumnSpec::new(data_type),
        )
        .unwrap()
    }

    #[test]
    fn every_type_comes_back() {
        for column in testing::columns() {
            testing::round_trip(&standard(column.data_type().clone()), &column, FILE);
        }
    }

    #[test]
    fn equal_values_differ_and_have_a_tag() {
        let stored = standard(DataType::Utf8)
            .encrypt(&StringArray::from(vec!["ab", "ab"]), FILE)
            .unwrap();
        let stored = stored.as_binary::<i32>();
        assert_ne!(stored.value(0), stored.value(1));
        assert_eq!(stored.value(0).len(), 2 + OVERHEAD);
    }

    #[test]
    fn rows_of_many_files_open_where_they_are_moved() {
        let scheme = standard(DataType::Int64);
        let in_file = |file: u8, first_row, values: Vec<i64>| {
            let positions = RowPositions::File {
                file: [file; 16],
                first_row,
            };
            scheme
                .encrypt(&Int64Array::from(values), positions)
                .unwrap()
        };
        let (a, b) = (in_file(1, 0, vec![10, 11]), in_file(2, 7, vec![20, 21]));
        let mixed = [b.as_binary::<i32>().value(1), a.as_binary::<i32>().value(0)];
        let mixed = arrow_array::BinaryArray::from_iter_values(mixed);
        let distinct =
            FixedSizeBinaryArray::try_from_iter([[1_u8; 16], [2; 16]].into_iter()).unwrap();
        let files: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(
            Int32Array::from(vec![1, 0]),
            Arc::new(distinct),
        ));
        let files = FileIds::resolve(&files).unwrap();
        let opened = |rows: Vec<i64>| {
            let rows = Int64Array::from(rows);
            let positions = RowPositions::Scattered {
                files: &files,
                rows: &rows,
            };
            scheme.decrypt(&mixed, positions)
        };
        assert_eq!(
            opened(vec![8, 0])
                .unwrap()
                .as_primitive::<arrow_array::types::Int64Type>()
                .values(),
            &[21, 10]
        );
        assert!(matches!(
            opened(vec![8, 1]),
            Err(SchemeError::Unauthentic { row: 1 })
        ));
        assert!(matches!(
            opened(vec![8]),
            Err(SchemeError::WrongLength { .. })
        ));
        assert!(matches!(
            opened(vec![8, -1]),
            Err(SchemeError::PositionNeeded { .. })
        ));
    }

    #[test]
    fn an_altered_value_is_named() {
        let scheme = standard(DataType::Utf8);
        let stored = scheme
            .encrypt(&StringArray::from(vec!["a", "b", "c"]), FILE)
            .unwrap();
        let altered = testing::flip(&stored, 1, 3);
        assert!(matches!(
            scheme.decrypt(&altered, FILE),
            Err(SchemeError::Unauthentic { row: 1 })
        ));
        assert!(matches!(
            scheme.decrypt(&stored, RowPositions::Anywhere),
            Err(SchemeError::PositionNeeded { .. })
        ));
    }
}
