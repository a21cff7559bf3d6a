//! `ashe`: the additively symmetric homomorphic encryption of Seabed (Papadimitriou et al., "Big
//! Data Analytics over Encrypted Datasets with Seabed", OSDI 2016, section 4.1).
//!
//! Row i of a file holds c_i = m_i + F(i) − F(i − 1) mod 2^64, where m_i is the value's distance
//! from the smallest of the column's domain. Adding ciphertexts adds values; the pads of
//! consecutive rows cancel but for the first and the last, so that opening a sum costs two
//! evaluations of F for each run of rows. The key is one for each file and column: a pad is used
//! once.
//!
//! A sum is a number modulo 2^64 for each file, so rows of one file × the width of the domain must
//! fit 64 bits: longer files are refused when they are written, and longer sums (a join may repeat
//! rows) when they are opened. Nothing is authenticated: a host that adds other rows, or a
//! constant, is not found out (the row sets say what it claims).

mod rows;
mod sum;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use coffer_sealing::DerivationKey;

use crate::aes::{BLOCK, Keystream};
use crate::domain::Ordinals;
use crate::scheme::check_type;
use crate::{ColumnSpec, FileId, RowPositions, Scheme, SchemeError, SchemeKey};

pub use rows::{MAX_ROW, RowSet};
pub use sum::{AsheSum, FileSum};

const NAME: &str = "ashe";
/// Values encrypted at once.
const BATCH: usize = 4_096;
/// Files' keys kept at hand.
const KEPT_FILES: usize = 1_024;
/// A domain that allows fewer rows in a file than this is of no use.
const FEWEST_ROWS: u64 = 1_024;
/// A set of rows with more runs than this has its pads made in one go.
const RUNS_ONE_BY_ONE: usize = 64;

/// Additively homomorphic encryption of a column.
pub struct Ashe {
    ordinals: Ordinals,
    most_rows: u64,
    root: DerivationKey,
    files: Mutex<HashMap<FileId, Arc<Pads>>>,
}

/// What a sum is, opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumOpening {
    /// The sum, in the column's units (unscaled for decimals).
    pub sum: i128,
    /// How many values it is of, repeated ones counted as often.
    pub count: u64,
}

impl Ashe {
    /// With the column's key, from which each file's is derived. Integers and decimals only; their
    /// domain bounds the rows that a file may have.
    pub fn new(key: &SchemeKey, column: &ColumnSpec) -> Result<Self, SchemeError> {
        let refuse = |reason| SchemeError::Unsupported {
            scheme: NAME,
            data_type: column.data_type.clone(),
            reason,
        };
        if !matches!(
            column.data_type,
            DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Decimal128(..)
        ) {
            return Err(refuse("only integers and decimals are summed"));
        }
        let ordinals = Ordinals::new(NAME, column)?;
        let most_rows = most_rows(ordinals.size());
        if most_rows < FEWEST_ROWS {
            return Err(refuse(
                "a sum of so large values could overflow 64 bits; name a narrower domain in the \
                    policy",
            ));
        }
        Ok(Self {
            ordinals,
            most_rows,
            root: key.root(NAME)?,
            files: Mutex::default(),
        })
    }

    /// How many rows a file may have.
    pub fn most_rows(&self) -> u64 {
        self.most_rows
    }

    /// Opens a sum that engines made; none if it is of no row, as `SUM` of nothing is NULL.
    pub fn open_sum(&self, sum: &AsheSum) -> Result<Option<SumOpening>, SchemeError> {
        let mut opening = SumOpening { sum: 0, count: 0 };
        let overflow = || SchemeError::Malformed("a sum of impossibly many rows");
        for file in sum.files() {
            let pads = self.pads(file.file())?;
            let mut distances = file.sum();
            let mut count = 0_u64;
            for rows in file.rows() {
                distances = distances.wrapping_sub(pads.of_rows(rows)?);
                count = count.checked_add(rows.count()).ok_or_else(overflow)?;
            }
            if count > self.most_rows {
                return Err(SchemeError::SumTooLong {
                    rows: count,
                    most: self.most_rows,
                });
            }
            let start = i128::from(count)
                .checked_mul(self.ordinals.min())
                .ok_or_else(overflow)?;
            let part = start
                .checked_add(i128::from(distances))
                .ok_or_else(overflow)?;
            opening.sum = opening.sum.checked_add(part).ok_or_else(overflow)?;
            opening.count = opening.count.checked_add(count).ok_or_else(overflow)?;
        }
        Ok((opening.count > 0).then_some(opening))
    }

    fn pads(&self, file: &FileId) -> Result<Arc<Pads>, SchemeError> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pads) = files.get(file) {
            return Ok(Arc::clone(pads));
        }
        let secret = self.root.derive("file", &[file])?;
        let pads = Arc::new(Pads(Keystream::new(secret.expose())?));
        if files.len() >= KEPT_FILES {
            files.clear();
        }
        files.insert(*file, Arc::clone(&pads));
        Ok(pads)
    }
}

/// How many values below `size` a sum of 64 bits holds.
fn most_rows(size: u128) -> u64 {
    let greatest = size.saturating_sub(1).max(1);
    let most = u128::from(u64::MAX).checked_div(greatest).unwrap_or(0);
    u64::try_from(most).unwrap_or(u64::MAX).min(MAX_ROW)
}

impl Scheme for Ashe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stored_type(&self) -> DataType {
        DataType::Int64
    }

    fn encrypt(
        &self,
        column: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        let RowPositions::File { file, first_row } = positions else {
            return Err(SchemeError::PositionNeeded { scheme: NAME });
        };
        let rows = u64::try_from(column.len())
            .ok()
            .and_then(|len| first_row.checked_add(len))
            .unwrap_or(u64::MAX);
        if rows > self.most_rows {
            return Err(SchemeError::SumTooLong {
                rows,
                most: self.most_rows,
            });
        }
        let pads = self.pads(&file)?;
        let mut out: Vec<i64> = Vec::with_capacity(column.len());
        let mut stream = Vec::new();
        let mut first = first_row;
        for start in (0..column.len()).step_by(BATCH) {
            let part = column.slice(start, BATCH.min(column.len().saturating_sub(start)));
            let distances = self
                .ordinals
                .of(&part)
                .map_err(|error| error.below(start))?;
            let pads = pads.stream(first, part.len().saturating_add(1), &mut stream)?;
            let each = distances.iter().zip(pads.iter().zip(pads.iter().skip(1)));
            out.extend(each.map(|(distance, (before, here))| {
                let distance = u64::try_from(*distance).unwrap_or(0);
                let pad = u64::from_be_bytes(*here).wrapping_sub(u64::from_be_bytes(*before));
                distance.wrapping_add(pad).cast_signed()
            }));
            first = first.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        }
        if column.null_count() > 0 {
            // Under a NULL there would be the pad itself, which the neighbours' ciphertexts share.
            for (row, value) in out.iter_mut().enumerate() {
                if column.is_null(row) {
                    *value = 0;
                }
            }
        }
        Ok(Arc::new(Int64Array::new(
            ScalarBuffer::from(out),
            column.nulls().cloned(),
        )))
    }

    fn decrypt(
        &self,
        stored: &dyn Array,
        positions: RowPositions<'_>,
    ) -> Result<ArrayRef, SchemeError> {
        check_type(stored, &DataType::Int64)?;
        positions.check_len(stored.len())?;
        let array = stored.as_primitive::<Int64Type>();
        let mut out = Vec::with_capacity(array.len());
        let mut last: Option<(FileId, Arc<Pads>)> = None;
        let mut window = Window::default();
        for (row, sealed) in array.iter().enumerate() {
            let Some(sealed) = sealed else {
                out.push(0);
                continue;
            };
            let (file, number) = positions
                .at(row)
                .ok_or(SchemeError::PositionNeeded { scheme: NAME })?;
            let pads = match &last {
                Some((of, pads)) if *of == file => Arc::clone(pads),
                _ => {
                    window.clear();
                    let pads = self.pads(&file)?;
                    last = Some((file, Arc::clone(&pads)));
                    pads
                }
            };
            let distance = u128::from(
                sealed
                    .cast_unsigned()
                    .wrapping_sub(window.pad(&pads, number)?),
            );
            if distance >= self.ordinals.size() {
                return Err(SchemeError::Unauthentic { row });
            }
            out.push(distance);
        }
        self.ordinals
            .restore(out.into_iter(), array.nulls().cloned())
    }

    fn open_sum_state(&self, state: &[u8]) -> Result<Option<SumOpening>, SchemeError> {
        self.open_sum(&AsheSum::decode(state)?)
    }
}

/// The pads of one file: F(i − 1) is number i of the keystream, in 64-bit words.
struct Pads(Keystream);

impl Pads {
    /// F(first − 1), F(first), …: `count` of them.
    fn stream<'a>(
        &self,
        first: u64,
        count: usize,
        bytes: &'a mut Vec<u8>,
    ) -> Result<&'a [[u8; 8]], SchemeError> {
        let odd = usize::from(first & 1 == 1);
        let words = count.saturating_add(odd);
        bytes.clear();
        bytes.resize(words.div_ceil(2).saturating_mul(BLOCK), 0);
        self.0.apply(u128::from(first >> 1).to_be_bytes(), bytes)?;
        bytes
            .as_chunks::<8>()
            .0
            .get(odd..words)
            .ok_or(SchemeError::Internal("pads"))
    }

    /// The sum of the pads of some rows.
    fn of_rows(&self, rows: &RowSet) -> Result<u64, SchemeError> {
        let mut sum = 0_u64;
        let mut bytes = Vec::new();
        for chunk in rows.chunks() {
            let mut runs = Vec::new();
            chunk.runs(|first, last| runs.push((first, last)));
            let ends = runs
                .first()
                .zip(runs.last())
                .map(|(first, last)| (first.0, last.1));
            match ends {
                Some((start, end)) if runs.len() > RUNS_ONE_BY_ONE => {
                    let count = usize::try_from(end.saturating_sub(start))
                        .unwrap_or(0)
                        .saturating_add(2);
                    let pads = self.stream(start, count, &mut bytes)?;
                    let pad = |row: u64| {
                        let positions = usize::try_from(row.saturating_sub(start)).ok()?;
                        pads.get(positions).map(|pad| u64::from_be_bytes(*pad))
                    };
                    for (first, last) in runs {
                        let (before, here) = (pad(first), pad(last.saturating_add(1)));
                        let run = here
                            .zip(before)
                            .map(|(here, before)| here.wrapping_sub(before));
                        sum = sum.wrapping_add(run.ok_or(SchemeError::Internal("pads"))?);
                    }
                }
                _ => {
                    for (first, last) in runs {
                        let here = self.one(last.saturating_add(1))?;
                        sum = sum.wrapping_add(here.wrapping_sub(self.one(first)?));
                    }
                }
            }
        }
        Ok(sum)
    }

    fn one(&self, number: u64) -> Result<u64, SchemeError> {
        let mut block = [0; BLOCK];
        self.0
            .apply(u128::from(number >> 1).to_be_bytes(), &mut block)?;
        let words = u128::from_be_bytes(block);
        let word = if number & 1 == 0 {
            words >> 64
        } else {
            words & u128::from(u64::MAX)
        };
        u64::try_from(word).map_err(|_| SchemeError::Internal("pad"))
    }
}

/// Pads of consecutive rows of one file, made ahead while rows come in order.
#[derive(Default)]
struct Window {
    first: u64,
    pads: Vec<u64>,
    next: Option<u64>,
    bytes: Vec<u8>,
}

impl Window {
    fn clear(&mut self) {
        self.pads.clear();
        self.next = None;
    }

    /// F(row) − F(row − 1).
    fn pad(&mut self, pads: &Pads, row: u64) -> Result<u64, SchemeError> {
        if row >= MAX_ROW {
            return Err(SchemeError::Malformed("a row number"));
        }
        if let Some(pad) = self.kept(row) {
            return Ok(pad);
        }
        // Only rows in order are worth making more than the one.
        let ahead = if self.next == Some(row) { BATCH } else { 1 };
        let made = pads.stream(row, ahead.saturating_add(1), &mut self.bytes)?;
        self.pads.clear();
        self.pads
            .extend(made.iter().map(|pad| u64::from_be_bytes(*pad)));
        self.first = row;
        self.next = row.checked_add(u64::try_from(ahead).unwrap_or(1));
        self.kept(row).ok_or(SchemeError::Internal("pads"))
    }

    fn kept(&self, row: u64) -> Option<u64> {
        let positions = usize::try_from(row.checked_sub(self.first)?).ok()?;
        let here = self.pads.get(positions.checked_add(1)?)?;
        Some(here.wrapping_sub(*self.pads.get(positions)?))
    }
}

#[cfg(test)]
mod tests;
