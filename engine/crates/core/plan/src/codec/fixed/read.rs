//! Columns as they are read.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayData, ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, NullArray,
        StringArray, StructArray, make_array,
    },
    buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::DataType,
};

use super::{ABSENT, Number, PRESENT, STEPS, WHOLE};
use crate::codec::{CodecError, MAX_BODY, stated};

/// Takes the two parts of a payload apart. Memory is claimed for `room` bytes at most.
pub(in crate::codec) struct Reader<'a> {
    rows: usize,
    fixed: &'a [u8],
    text: &'a [u8],
    room: usize,
}

impl<'a> Reader<'a> {
    pub(in crate::codec) fn new(rows: usize, fixed: &'a [u8], text: &'a [u8], room: usize) -> Self {
        Self {
            rows,
            fixed,
            text,
            room,
        }
    }

    /// After the last column: nothing is left.
    pub(in crate::codec) fn end(self) -> Result<(), CodecError> {
        match self.fixed.is_empty() && self.text.is_empty() {
            true => Ok(()),
            false => Err(CodecError::Trailing),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self
            .fixed
            .split_at_checked(length)
            .ok_or(CodecError::Truncated)?;
        self.fixed = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self
            .fixed
            .split_first_chunk()
            .ok_or(CodecError::Truncated)?;
        self.fixed = rest;
        Ok(*taken)
    }

    /// Asks for `rows` times `width` bytes of memory, before they are taken.
    fn claim(&mut self, width: usize) -> Result<(), CodecError> {
        self.room = self
            .rows
            .checked_mul(width)
            .and_then(|bytes| self.room.checked_sub(bytes))
            .ok_or(CodecError::TooLarge)?;
        Ok(())
    }

    fn bits(&mut self) -> Result<BooleanBuffer, CodecError> {
        let bytes = self.take(self.rows.div_ceil(8))?;
        Ok(BooleanBuffer::new(Buffer::from(bytes), 0, self.rows))
    }

    fn validity(&mut self) -> Result<Option<NullBuffer>, CodecError> {
        match self.array()? {
            [ABSENT] => Ok(None),
            [PRESENT] => Ok(Some(NullBuffer::new(self.bits()?))),
            _ => Err(CodecError::Layout("validity")),
        }
    }

    fn numbers<T: Number>(&mut self) -> Result<Buffer, CodecError> {
        self.claim(size_of::<T>())?;
        let [encoding] = self.array()?;
        let (of, kind) = (encoding & 0xf0, encoding & 0x0f);
        if of != T::TYPE {
            return Err(CodecError::Layout("type"));
        }
        match kind {
            0 => Ok(Buffer::from_vec(vec![T::of(self.base()?); self.rows])),
            1 => self.offsets::<T, 1>(|byte| i64::from(u8::from_le_bytes(byte))),
            2 => self.offsets::<T, 2>(|bytes| i64::from(u16::from_le_bytes(bytes))),
            4 => self.offsets::<T, 4>(|bytes| i64::from(u32::from_le_bytes(bytes))),
            8 => self.each::<T, 8>(|bytes| T::of(i64::from_le_bytes(bytes))),
            WHOLE => Ok(Buffer::from(self.take(self.rows * size_of::<T>())?)),
            _ => match kind ^ STEPS {
                1 => self.steps::<T, 1>(|byte| i64::from(u8::from_le_bytes(byte))),
                2 => self.steps::<T, 2>(|bytes| i64::from(u16::from_le_bytes(bytes))),
                4 => self.steps::<T, 4>(|bytes| i64::from(u32::from_le_bytes(bytes))),
                _ => Err(CodecError::Layout("form")),
            },
        }
    }

    fn base(&mut self) -> Result<i64, CodecError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn offsets<T: Number, const N: usize>(
        &mut self,
        offset: impl Fn([u8; N]) -> i64,
    ) -> Result<Buffer, CodecError> {
        let base = self.base()?;
        self.each(|bytes| T::of(base.wrapping_add(offset(bytes))))
    }

    fn steps<T: Number, const N: usize>(
        &mut self,
        step: impl Fn([u8; N]) -> i64,
    ) -> Result<Buffer, CodecError> {
        let mut value = self.base()?;
        self.each(|bytes| {
            value = value.wrapping_add(step(bytes));
            T::of(value)
        })
    }

    fn each<T: Number, const N: usize>(
        &mut self,
        value: impl FnMut([u8; N]) -> T,
    ) -> Result<Buffer, CodecError> {
        let length = self.rows.checked_mul(N).ok_or(CodecError::TooLarge)?;
        let (chunks, _) = self.take(length)?.as_chunks();
        let values: Vec<T> = chunks.iter().copied().map(value).collect();
        Ok(Buffer::from_vec(values))
    }

    fn texts(&mut self) -> Result<(OffsetBuffer<i32>, Buffer), CodecError> {
        let length =
            usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| CodecError::TooLarge)?;
        let (bytes, rest) = self
            .text
            .split_at_checked(length)
            .ok_or(CodecError::Truncated)?;
        self.text = rest;
        let offsets = self.lengths(bytes.len())?;
        Ok((offsets, Buffer::from(bytes)))
    }

    /// One length for each row, which together are `total`.
    fn lengths(&mut self, total: usize) -> Result<OffsetBuffer<i32>, CodecError> {
        let lengths = ScalarBuffer::<i32>::from(self.numbers::<i32>()?);
        let mut offsets = Vec::with_capacity(lengths.len() + 1);
        let mut end = 0i32;
        offsets.push(end);
        for length in lengths.iter().copied() {
            end = u32::try_from(length)
                .ok()
                .and_then(|length| end.checked_add_unsigned(length))
                .ok_or(CodecError::Layout("length"))?;
            offsets.push(end);
        }
        match usize::try_from(end) == Ok(total) {
            true => Ok(OffsetBuffer::new(offsets.into())),
            false => Err(CodecError::Layout("length")),
        }
    }

    /// Where the rows' elements lie, and how many there are.
    fn lists(&mut self) -> Result<(OffsetBuffer<i32>, usize), CodecError> {
        let elements = stated(u32::from_le_bytes(self.array()?))?;
        if elements > MAX_BODY {
            return Err(CodecError::TooLarge);
        }
        Ok((self.lengths(elements)?, elements))
    }

    /// Reads with another number of rows: those of the elements.
    fn of_rows<T>(
        &mut self,
        rows: usize,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        let outer = std::mem::replace(&mut self.rows, rows);
        let made = read(self);
        self.rows = outer;
        made
    }
}

/// The next column of the payload, of this type.
pub(in crate::codec) fn read_column(
    reader: &mut Reader<'_>,
    data_type: &DataType,
) -> Result<ArrayRef, CodecError> {
    if data_type == &DataType::Null {
        return Ok(Arc::new(NullArray::new(reader.rows)));
    }
    let nulls = reader.validity()?;
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(reader.bits()?, nulls)),
        DataType::Utf8 => {
            let (offsets, bytes) = reader.texts()?;
            Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
        }
        DataType::Binary => {
            let (offsets, bytes) = reader.texts()?;
            Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
        }
        DataType::Struct(fields) => {
            let columns = fields
                .iter()
                .map(|field| read_column(reader, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let rows = reader.rows;
            Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                nulls,
                rows,
            )?)
        }
        DataType::List(element) => {
            let (offsets, elements) = reader.lists()?;
            let values = reader.of_rows(elements, |r| read_column(r, element.data_type()))?;
            Arc::new(ListArray::try_new(
                Arc::clone(element),
                offsets,
                values,
                nulls,
            )?)
        }
        DataType::Map(entries, ordered) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(CodecError::Layout("column type"));
            };
            let (offsets, pairs) = reader.lists()?;
            let sides = fields
                .iter()
                .map(|field| reader.of_rows(pairs, |r| read_column(r, field.data_type())));
            let sides = sides.collect::<Result<Vec<_>, _>>()?;
            let pairs = StructArray::try_new_with_length(fields.clone(), sides, None, pairs)?;
            let entries = Arc::clone(entries);
            Arc::new(MapArray::try_new(entries, offsets, pairs, nulls, *ordered)?)
        }
        other => {
            let values = match other.primitive_width() {
                Some(1) => reader.numbers::<i8>()?,
                Some(2) => reader.numbers::<i16>()?,
                Some(4) => reader.numbers::<i32>()?,
                Some(8) => reader.numbers::<i64>()?,
                Some(16) => reader.numbers::<i128>()?,
                _ => return Err(CodecError::Layout("column type")),
            };
            let data = ArrayData::builder(other.clone())
                .len(reader.rows)
                .nulls(nulls)
                .add_buffer(values)
                .build()?;
            make_array(data)
        }
    })
}
