//! One frame's payload: a record batch without its schema, which both ends know from the fragment.
//!
//! ```text
//! codec u8 (0 plain, 1 LZ4 block, 2 no batch, 3 kept) ‖ padded u8 ‖ 0 0 ‖ rows u32 LE ‖
//! fixed u32 LE ‖ text u32 LE (unpacked) ‖ stored u32 LE ‖ fixed part ‖
//! text part (`stored` bytes) ‖ zeros, if padded
//! ```
//! The fixed part has, column after column, what `fixed` describes: a validity bitmap if there are
//! NULLs, then bits, numbers in as few bytes as their range needs, or the lengths of strings. The
//! text part has the bytes of all strings, column after column, as one LZ4 block where that pays.
//! Numbers are not given to LZ4: what it finds in them is mostly the high bytes that narrowing has
//! left out already, at a small part of the cost.
//!
//! Where the host may have chosen some of the bytes nothing is packed ([`Packing::None`]): the same
//! layout, in which a payload's length follows from its number of rows and the lengths of its texts
//! alone.
//!
//! A payload of codec 3 ([`put_kept`]) stands for so many rows that did not leave the engine; the
//! other lengths are 0. It is no batch to [`decode_batch`].
//!
//! All lengths follow from the header, and are checked before memory is taken. Dictionaries and
//! views never occur: what crosses a fragment's edge has the IR's types.

mod fixed;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, Schema, SchemaRef},
    error::ArrowError,
};
use bytes::Bytes;

use self::fixed::{Reader, read_column, write_column};

/// Bytes of a payload's header, and so of the shortest padded one.
pub const HEADER: usize = 20;
const PLAIN: u8 = 0;
const LZ4: u8 = 1;
const NOTHING: u8 = 2;
const KEPT: u8 = 3;
/// Batches that take more than this in memory are refused by both ends: a frame holds 64 MiB at
/// most.
pub const MAX_BODY: usize = 1 << 30;
/// Texts below this are not worth a call into the compressor.
const PACK_FROM: usize = 512;
const MAX_ROWS: usize = 0x7fff_ffff;

/// Why a payload is refused.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Fewer bytes than the header says.
    #[error("frame payload is truncated")]
    Truncated,
    /// More bytes than the header says, or than the columns take.
    #[error("frame payload has trailing bytes")]
    Trailing,
    /// An unknown codec, or reserved bytes that are set.
    #[error("frame payload has an unknown header")]
    Header,
    /// The batch is larger than [`MAX_BODY`], or its text than its packed form could hold.
    #[error("frame payload's batch is too large")]
    TooLarge,
    /// The LZ4 block does not unpack to the stated length.
    #[error("frame payload does not unpack")]
    Unpack,
    /// The columns are not what the schema says.
    #[error("frame payload does not fit its schema: {0}")]
    Layout(&'static str),
    /// Arrow refuses the arrays.
    #[error("frame payload's arrays are invalid: {0}")]
    Arrow(#[from] ArrowError),
}

/// What may show in a payload's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// How well its values pack: texts that repeat, numbers that lie close together, columns
    /// without NULLs.
    #[default]
    Tight,
    /// Nothing of its values but the sum of its texts' lengths. For rows that hold, or were picked
    /// by, what the host chose: it could plant guesses, and read from lengths whether they go
    /// together with what is secret (as CRIME did).
    None,
}

/// Encodes batches; keeps its buffers between calls.
#[derive(Default)]
pub struct Encoder {
    text: Vec<u8>,
    packing: Packing,
}

impl Encoder {
    /// Packs so.
    #[must_use]
    pub fn new(packing: Packing) -> Self {
        Self {
            text: Vec::new(),
            packing,
        }
    }

    /// Appends one payload to `out`, with the rows of all batches, which have one schema.
    pub fn encode(&mut self, batches: &[RecordBatch], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let plain = without_dictionaries(batches)?;
        let batches = plain.as_deref().unwrap_or(batches);
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > MAX_ROWS {
            return Err(CodecError::TooLarge);
        }
        let columns = batches.first().map_or(0, RecordBatch::num_columns);

        self.text.clear();
        let start = out.len();
        out.resize(start + HEADER, 0);
        for column in 0..columns {
            let parts: Vec<&dyn Array> = batches
                .iter()
                .filter_map(|batch| batch.columns().get(column).map(AsRef::as_ref))
                .collect();
            write_column(&parts, self.packing, out, &mut self.text)?;
        }
        let fixed = length(out.len() - start - HEADER)?;
        let text = length(self.text.len())?;
        let at = out.len();
        let codec = self.append_text(out);
        let stored = length(out.len() - at)?;

        let lengths = [length(rows)?, fixed, text, stored].map(u32::to_le_bytes);
        if let Some((head, rest)) = out
            .get_mut(start..)
            .and_then(|payload| payload.split_first_chunk_mut::<4>())
        {
            *head = [codec, 0, 0, 0];
            for (position, length) in rest.as_chunks_mut::<4>().0.iter_mut().zip(lengths) {
                *position = length;
            }
        }
        Ok(())
    }

    fn append_text(&self, out: &mut Vec<u8>) -> u8 {
        if self.packing == Packing::Tight && self.text.len() >= PACK_FROM {
            let at = out.len();
            out.resize(
                at + lz4_flex::block::get_maximum_output_size(self.text.len()),
                0,
            );
            let packed = out
                .get_mut(at..)
                .and_then(|space| lz4_flex::block::compress_into(&self.text, space).ok());
            if let Some(packed) =
                packed.filter(|packed| *packed < self.text.len() - self.text.len() / 8)
            {
                out.truncate(at + packed);
                return LZ4;
            }
            out.truncate(at);
        }
        out.extend_from_slice(&self.text);
        PLAIN
    }
}

/// Appends one payload to `out`. A caller with many batches keeps an [`Encoder`].
pub fn encode_batch(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), CodecError> {
    Encoder::default().encode(std::slice::from_ref(batch), out)
}

/// Makes the payload that begins at `start` of `out` so long, if it is shorter. One without any
/// bytes becomes one without a batch.
pub fn pad(out: &mut Vec<u8>, start: usize, length: usize) {
    if out.len() == start {
        out.push(NOTHING);
        out.resize(start + HEADER, 0);
    }
    if let Some(padded) = out.get_mut(start + 1) {
        *padded = 1;
    }
    out.resize(out.len().max(start + length), 0);
}

/// Appends the payload that stands for `rows` rows which stay in the engine.
pub fn put_kept(rows: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let rows = u32::try_from(rows).map_err(|_| CodecError::TooLarge)?;
    out.extend_from_slice(&[KEPT, 0, 0, 0]);
    out.extend_from_slice(&rows.to_le_bytes());
    out.extend_from_slice(&[0; HEADER - 8]);
    Ok(())
}

/// For how many rows a payload of [`put_kept`] stands; `None` for any other payload.
pub fn kept_rows(payload: &[u8]) -> Option<u32> {
    match payload.split_first_chunk::<8>() {
        Some(([KEPT, 0, 0, 0, a, b, c, d], rest))
            if rest.len() == HEADER - 8 && rest.iter().all(|byte| *byte == 0) =>
        {
            Some(u32::from_le_bytes([*a, *b, *c, *d]))
        }
        _ => None,
    }
}

/// A batch as it would come out of its payload: without dictionaries, runs and views, under the
/// boundary's schema.
pub fn as_decoded(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, CodecError> {
    let plain = without_dictionaries(std::slice::from_ref(batch))?.and_then(|mut one| one.pop());
    let batch = plain.as_ref().unwrap_or(batch);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// Decodes one whole payload: a batch, or none. Every length is checked against the bytes at hand,
/// or against the stated bound, before anything of that size is allocated.
pub fn decode_batch(schema: &SchemaRef, payload: Bytes) -> Result<Option<RecordBatch>, CodecError> {
    if payload.is_empty() {
        return Ok(None);
    }
    let Some((header, rest)) = payload.split_first_chunk::<HEADER>() else {
        return Err(CodecError::Truncated);
    };
    let [
        codec,
        padded @ (0 | 1),
        0,
        0,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        i,
        j,
        k,
        l,
        m,
        n,
        o,
        p,
    ] = *header
    else {
        return Err(CodecError::Header);
    };
    let rows = stated(u32::from_le_bytes([a, b, c, d]))?;
    let fixed = stated(u32::from_le_bytes([e, f, g, h]))?;
    let text_length = stated(u32::from_le_bytes([i, j, k, l]))?;
    let stored = stated(u32::from_le_bytes([m, n, o, p]))?;
    if rows > MAX_ROWS || text_length > MAX_BODY {
        return Err(CodecError::TooLarge);
    }
    let (fixed, rest) = rest.split_at_checked(fixed).ok_or(CodecError::Truncated)?;
    let (stored, padding) = rest.split_at_checked(stored).ok_or(CodecError::Truncated)?;
    if padded == 0 && !padding.is_empty() {
        return Err(CodecError::Trailing);
    }
    let unpacked;
    let text = match codec {
        NOTHING if fixed.is_empty() && stored.is_empty() => return Ok(None),
        PLAIN if stored.len() == text_length => stored,
        // An LZ4 sequence of n bytes unpacks to less than 256 n.
        LZ4 if text_length / 256 > stored.len() => return Err(CodecError::TooLarge),
        LZ4 => {
            let mut space = vec![0u8; text_length];
            match lz4_flex::block::decompress_into(stored, &mut space) {
                Ok(n) if n == text_length => {}
                _ => return Err(CodecError::Unpack),
            }
            unpacked = space;
            &unpacked
        }
        _ => return Err(CodecError::Header),
    };

    let mut reader = Reader::new(rows, fixed, text, MAX_BODY);
    let columns = schema
        .fields()
        .iter()
        .map(|field| read_column(&mut reader, field.data_type()))
        .collect::<Result<Vec<ArrayRef>, CodecError>>()?;
    reader.end()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
    Ok(Some(batch))
}

fn length(length: usize) -> Result<u32, CodecError> {
    match length {
        0..=MAX_BODY => u32::try_from(length).map_err(|_| CodecError::TooLarge),
        _ => Err(CodecError::TooLarge),
    }
}

fn stated(length: u32) -> Result<usize, CodecError> {
    usize::try_from(length).map_err(|_| CodecError::TooLarge)
}

/// Dictionary, run-end and view columns as plain ones; `None` when there are none.
fn without_dictionaries(batches: &[RecordBatch]) -> Result<Option<Vec<RecordBatch>>, ArrowError> {
    let Some(first) = batches.first() else {
        return Ok(None);
    };
    let fields = first.schema_ref().fields();
    if fields
        .iter()
        .all(|field| plain(field.data_type()).is_none())
    {
        return Ok(None);
    }
    batches
        .iter()
        .map(without_dictionary)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn plain(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Dictionary(_, value) => Some(value.as_ref().clone()),
        DataType::RunEndEncoded(_, value) => Some(value.data_type().clone()),
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    }
}

fn without_dictionary(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let mut column = Arc::clone(column);
        while let Some(target) = plain(column.data_type()) {
            column = cast(&column, &target)?;
        }
        fields.push(
            field
                .as_ref()
                .clone()
                .with_data_type(column.data_type().clone()),
        );
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}
