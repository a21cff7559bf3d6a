//! One frame's payload: an Arrow record batch without its schema, which both ends know from the fragment.
//!
//! ```text
//! codec u8 (0 plain, 1 LZ4 block) ‖ 0 0 0 ‖ metadata length u32 LE ‖ body length u64 LE (unpacked) ‖ metadata ‖ body
//! ```
//! `metadata` is the flatbuffer of an Arrow IPC RecordBatch message, `body` its buffers. The body is packed as one
//! LZ4 block rather than by Arrow's own per-buffer LZ4 frames: the unpacked length is then known and enforced before
//! anything is allocated, and one block costs less than many frames. Dictionaries and views never occur: what crosses a
//! fragment's edge has the IR's types.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    buffer::Buffer,
    compute::cast,
    datatypes::{DataType, SchemaRef},
    error::ArrowError,
    ipc::{
        MetadataVersion,
        reader::RecordBatchDecoder,
        root_as_message,
        writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions},
    },
};
use bytes::Bytes;

const HEADER: usize = 16;
const PLAIN: u8 = 0;
const LZ4: u8 = 1;
/// Unpacked bodies above this are refused by both ends: a frame holds 64 MiB at most, and packs to a 255th at best.
pub const MAX_BODY: usize = 1 << 30;
/// Bodies below this are not worth a call into the compressor.
const PACK_FROM: usize = 512;
const MAX_ROWS: i64 = 0x7fff_ffff;

/// Why a payload is refused.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Fewer bytes than the header says.
    #[error("frame payload is truncated")]
    Truncated,
    /// More bytes than the header says.
    #[error("frame payload has trailing bytes")]
    Trailing,
    /// An unknown codec, or reserved bytes that are set.
    #[error("frame payload has an unknown header")]
    Header,
    /// The body is larger than [`MAX_BODY`] or than its packed form could hold.
    #[error("frame payload's body is too large")]
    TooLarge,
    /// The LZ4 block does not unpack to the stated length.
    #[error("frame payload does not unpack")]
    Unpack,
    /// The metadata is no flatbuffer of a plain record batch.
    #[error("frame payload's metadata is malformed: {0}")]
    Metadata(&'static str),
    /// The metadata disagrees with the schema or with the body.
    #[error("frame payload does not fit its schema: {0}")]
    Layout(&'static str),
    /// Arrow refuses the arrays.
    #[error("frame payload's arrays are invalid: {0}")]
    Arrow(#[from] ArrowError),
}

/// Encodes batches; keeps its buffers between calls.
pub struct Encoder {
    generator: IpcDataGenerator,
    options: IpcWriteOptions,
    context: IpcWriteContext,
    dictionaries: DictionaryTracker,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            generator: IpcDataGenerator::default(),
            options: IpcWriteOptions::default(),
            context: IpcWriteContext::default(),
            dictionaries: DictionaryTracker::new(true),
        }
    }
}

impl Encoder {
    /// Appends one payload to `out`.
    pub fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let plain = without_dictionaries(batch)?;
        let batch = plain.as_ref().unwrap_or(batch);
        let (_, data) = self
            .generator
            .encode(batch, &mut self.dictionaries, &self.options, &mut self.context)?;
        let (metadata, body) = (&data.ipc_message, &data.arrow_data);
        if body.len() > MAX_BODY {
            return Err(CodecError::TooLarge);
        }
        let metadata_length = u32::try_from(metadata.len()).map_err(|_| CodecError::TooLarge)?;
        let body_length = u64::try_from(body.len()).map_err(|_| CodecError::TooLarge)?;

        let start = out.len();
        out.extend_from_slice(&[PLAIN, 0, 0, 0]);
        out.extend_from_slice(&metadata_length.to_le_bytes());
        out.extend_from_slice(&body_length.to_le_bytes());
        out.extend_from_slice(metadata);
        if body.len() >= PACK_FROM {
            let at = out.len();
            out.resize(at + lz4_flex::block::get_maximum_output_size(body.len()), 0);
            let packed = out
                .get_mut(at..)
                .and_then(|space| lz4_flex::block::compress_into(body, space).ok());
            if let Some(packed) = packed.filter(|packed| *packed < body.len() - body.len() / 8) {
                out.truncate(at + packed);
                if let Some(codec) = out.get_mut(start) {
                    *codec = LZ4;
                }
                return Ok(());
            }
            out.truncate(at);
        }
        out.extend_from_slice(body);
        Ok(())
    }
}

/// Appends one payload to `out`. A caller with many batches keeps an [`Encoder`].
pub fn encode_batch(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), CodecError> {
    Encoder::default().encode(batch, out)
}

/// Decodes one whole payload. Every length is checked against the bytes at hand, or against the stated bound, before
/// anything of that size is allocated.
pub fn decode_batch(schema: &SchemaRef, payload: Bytes) -> Result<RecordBatch, CodecError> {
    let header = payload.get(..HEADER).ok_or(CodecError::Truncated)?;
    let (codec, metadata_length, body_length) = match *header {
        [codec, 0, 0, 0, a, b, c, d, e, f, g, h, i, j, k, l] => (
            codec,
            u32::from_le_bytes([a, b, c, d]),
            u64::from_le_bytes([e, f, g, h, i, j, k, l]),
        ),
        _ => return Err(CodecError::Header),
    };
    let body_length = usize::try_from(body_length)
        .ok()
        .filter(|n| *n <= MAX_BODY)
        .ok_or(CodecError::TooLarge)?;
    let body_at = usize::try_from(metadata_length)
        .ok()
        .and_then(|n| n.checked_add(HEADER))
        .filter(|at| *at <= payload.len())
        .ok_or(CodecError::Truncated)?;
    let metadata = payload.slice(HEADER..body_at);
    let stored = payload.slice(body_at..);
    let body = match codec {
        PLAIN if stored.len() < body_length => return Err(CodecError::Truncated),
        PLAIN if stored.len() > body_length => return Err(CodecError::Trailing),
        PLAIN => Buffer::from(stored),
        // An LZ4 sequence of n bytes unpacks to less than 256 n.
        LZ4 if body_length / 256 > stored.len() => return Err(CodecError::TooLarge),
        LZ4 => {
            let mut body = vec![0u8; body_length];
            match lz4_flex::block::decompress_into(&stored, &mut body) {
                Ok(n) if n == body_length => Buffer::from_vec(body),
                _ => return Err(CodecError::Unpack),
            }
        }
        _ => return Err(CodecError::Header),
    };

    let message = root_as_message(&metadata).map_err(|_| CodecError::Metadata("not a flatbuffer"))?;
    if message.version() != MetadataVersion::V5 {
        return Err(CodecError::Metadata("version"));
    }
    let batch = message
        .header_as_record_batch()
        .ok_or(CodecError::Metadata("not a record batch"))?;
    check_layout(schema, &batch, body.len())?;
    let none = HashMap::new();
    Ok(
        RecordBatchDecoder::try_new(&body, batch, Arc::clone(schema), &none, &MetadataVersion::V5)?
            .read_record_batch()?,
    )
}

/// Arrow's decoder slices the body without looking; so every node and buffer is held against schema and body first.
fn check_layout(schema: &SchemaRef, batch: &arrow::ipc::RecordBatch<'_>, body: usize) -> Result<(), CodecError> {
    if batch.compression().is_some() || batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return Err(CodecError::Metadata("compressed or variadic"));
    }
    let rows = batch.length();
    if !(0..=MAX_ROWS).contains(&rows) {
        return Err(CodecError::Layout("row count"));
    }
    let nodes = batch.nodes().ok_or(CodecError::Metadata("no nodes"))?;
    let buffers = batch.buffers().ok_or(CodecError::Metadata("no buffers"))?;
    if nodes.len() != schema.fields().len() {
        return Err(CodecError::Layout("column count"));
    }
    let mut buffers = buffers.iter();
    for (field, node) in schema.fields().iter().zip(nodes.iter()) {
        if node.length() != rows || !(0..=rows).contains(&node.null_count()) {
            return Err(CodecError::Layout("column length"));
        }
        for part in parts_of(field.data_type()).ok_or(CodecError::Layout("column type"))? {
            let buffer = buffers.next().ok_or(CodecError::Layout("buffer count"))?;
            let inside = buffer
                .offset()
                .checked_add(buffer.length())
                .and_then(|end| usize::try_from(end).ok());
            if buffer.offset() < 0 || buffer.offset() % 8 != 0 || inside.is_none_or(|end| end > body) {
                return Err(CodecError::Layout("buffer outside of the body"));
            }
            if !part.holds(buffer.length(), rows, node.null_count()) {
                return Err(CodecError::Layout("buffer length"));
            }
        }
    }
    match buffers.next() {
        None => Ok(()),
        Some(_) => Err(CodecError::Layout("buffer count")),
    }
}

/// What one buffer of a column holds.
#[derive(Clone, Copy)]
enum Part {
    Validity,
    Bits,
    /// Values of so many bytes.
    Fixed(i64),
    Offsets,
    Bytes,
}

impl Part {
    /// Whether so many bytes are enough for `rows`, and whole values. Arrow panics at parts of one.
    fn holds(self, length: i64, rows: i64, nulls: i64) -> bool {
        match self {
            Self::Validity if nulls == 0 => length >= 0,
            Self::Validity | Self::Bits => length >= (rows + 7) / 8,
            Self::Fixed(width) => length >= rows * width && length % width == 0,
            Self::Offsets if rows == 0 => length >= 0 && length % 4 == 0,
            Self::Offsets => length >= (rows + 1) * 4 && length % 4 == 0,
            Self::Bytes => length >= 0,
        }
    }
}

/// Buffers of a column of this type in IPC; `None` for types that never cross a fragment's edge.
fn parts_of(data_type: &DataType) -> Option<&'static [Part]> {
    Some(match data_type {
        DataType::Null => &[],
        DataType::Utf8 | DataType::Binary => &[Part::Validity, Part::Offsets, Part::Bytes],
        DataType::Boolean => &[Part::Validity, Part::Bits],
        other => match other.primitive_width()? {
            1 => &[Part::Validity, Part::Fixed(1)],
            2 => &[Part::Validity, Part::Fixed(2)],
            4 => &[Part::Validity, Part::Fixed(4)],
            8 => &[Part::Validity, Part::Fixed(8)],
            16 => &[Part::Validity, Part::Fixed(16)],
            _ => return None,
        },
    })
}

/// Dictionary, run-end and view columns as plain ones; `None` when there are none.
fn without_dictionaries(batch: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
    let schema = batch.schema_ref();
    let plain = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, value) => Some(value.as_ref().clone()),
        DataType::RunEndEncoded(_, value) => Some(value.data_type().clone()),
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    };
    if schema.fields().iter().all(|field| plain(field.data_type()).is_none()) {
        return Ok(None);
    }
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let mut column = Arc::clone(column);
        while let Some(target) = plain(column.data_type()) {
            column = cast(&column, &target)?;
        }
        fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
        columns.push(column);
    }
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options).map(Some)
}
