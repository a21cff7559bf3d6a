//! A running sum over `ashe` values: what an engine without keys keeps for each group, and what it
//! hands on.
//!
//! ```text
//! sum   = version (1) varint(number of files) file*
//! file  = id (16 bytes) sum (u64 LE) varint(number of layers) row set*
//! ```
//! A row that a join repeats is in as many layers as it was added; a sum has one layer as a rule.

use std::collections::HashSet;

use arrow_array::Int64Array;

use super::rows::{RowSet, put, take};
use crate::{FileId, FileIds, SchemeError};

const VERSION: u8 = 1;

/// A sum of `ashe` values modulo 2^64 for each file, and the rows it is of.
#[derive(Debug, Clone, Default)]
pub struct AsheSum {
    files: Vec<FileSum>,
    /// Where the last value went.
    last: usize,
}

/// The part of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSum {
    file: FileId,
    sum: u64,
    rows: Vec<RowSet>,
}

impl FileSum {
    /// Which file.
    pub fn file(&self) -> &FileId {
        &self.file
    }

    /// The sum of its ciphertexts modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The rows that were added; a row that was added n times is in n of the sets.
    pub fn rows(&self) -> &[RowSet] {
        &self.rows
    }

    fn add(&mut self, row: u64) -> Result<(), SchemeError> {
        for rows in &mut self.rows {
            if rows.insert(row)? {
                return Ok(());
            }
        }
        let mut rows = RowSet::default();
        rows.insert(row)?;
        self.rows.push(rows);
        Ok(())
    }
}

impl AsheSum {
    /// Adds one stored value, not NULL.
    pub fn add(&mut self, value: i64, file: &FileId, row: u64) -> Result<(), SchemeError> {
        let part = self.file(file);
        let part = part.ok_or(SchemeError::Internal("ashe sum"))?;
        part.sum = part.sum.wrapping_add(value.cast_unsigned());
        part.add(row)
    }

    /// Adds a stored column with its rows' files and numbers; NULLs are left out.
    pub fn add_batch(
        &mut self,
        values: &Int64Array,
        files: &FileIds,
        rows: &Int64Array,
    ) -> Result<(), SchemeError> {
        for right in [files.len(), rows.len()] {
            if right != values.len() {
                return Err(SchemeError::WrongLength {
                    left: values.len(),
                    right,
                });
            }
        }
        for (i, (value, row)) in values.iter().zip(rows).enumerate() {
            let Some(value) = value else { continue };
            let row = row.and_then(|row| u64::try_from(row).ok());
            let (file, row) = files
                .at(i)
                .zip(row)
                .ok_or(SchemeError::PositionNeeded { scheme: "ashe" })?;
            self.add(value, &file, row)?;
        }
        Ok(())
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Self) -> Result<(), SchemeError> {
        for theirs in other.files {
            let part = self
                .file(&theirs.file)
                .ok_or(SchemeError::Internal("ashe sum"))?;
            part.sum = part.sum.wrapping_add(theirs.sum);
            for mut rows in theirs.rows {
                for mine in &mut part.rows {
                    mine.absorb(&mut rows)?;
                }
                if !rows.is_empty() {
                    part.rows.push(rows);
                }
            }
        }
        Ok(())
    }

    /// The parts, by file.
    pub fn files(&self) -> &[FileSum] {
        &self.files
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        let rows = self.files.iter().flat_map(|file| &file.rows);
        rows.map(RowSet::count).fold(0, u64::saturating_add)
    }

    /// Bytes that the state takes in memory, about: for a pool's accounting.
    pub fn memory(&self) -> usize {
        let sets = self.files.iter().flat_map(|file| &file.rows);
        sets.map(RowSet::memory).fold(
            self.files
                .len()
                .saturating_mul(std::mem::size_of::<FileSum>()),
            usize::saturating_add,
        )
    }

    /// The state as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put(&mut out, u64::try_from(self.files.len()).unwrap_or(0));
        for file in &self.files {
            out.extend_from_slice(&file.file);
            out.extend_from_slice(&file.sum.to_le_bytes());
            put(&mut out, u64::try_from(file.rows.len()).unwrap_or(0));
            file.rows.iter().for_each(|rows| rows.encode(&mut out));
        }
        out
    }

    /// A state from bytes, which a host may have made.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, SchemeError> {
        let bad = SchemeError::Malformed("an ashe sum");
        let bytes = &mut bytes;
        if *take_bytes::<1>(bytes).ok_or(bad.clone())? != [VERSION] {
            return Err(bad);
        }
        let mut sum = Self::default();
        let mut seen = HashSet::new();
        for _ in 0..take(bytes)? {
            let file = *take_bytes::<16>(bytes).ok_or(bad.clone())?;
            let number = u64::from_le_bytes(*take_bytes::<8>(bytes).ok_or(bad.clone())?);
            let mut rows = Vec::new();
            for _ in 0..take(bytes)? {
                rows.push(RowSet::decode(bytes)?);
            }
            if !seen.insert(file) {
                return Err(bad);
            }
            sum.files.push(FileSum {
                file,
                sum: number,
                rows,
            });
        }
        if bytes.is_empty() { Ok(sum) } else { Err(bad) }
    }

    /// The part of a file, made if need be.
    fn file(&mut self, file: &FileId) -> Option<&mut FileSum> {
        if self
            .files
            .get(self.last)
            .is_none_or(|part| part.file != *file)
        {
            self.last = self
                .files
                .iter()
                .position(|part| part.file == *file)
                .unwrap_or_else(|| {
                    self.files.push(FileSum {
                        file: *file,
                        ..FileSum::default()
                    });
                    self.files.len().saturating_sub(1)
                });
        }
        self.files.get_mut(self.last)
    }
}

fn take_bytes<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(head)
}
