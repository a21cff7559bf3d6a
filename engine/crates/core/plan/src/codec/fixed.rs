//! Columns in the fixed part of a payload.
//!
//! ```text
//! column   = [validity] values                       (a column of type NULL takes nothing)
//! validity = 0 | 1 ‖ bitmap                          (1 bits are values; ⌈rows/8⌉ bytes)
//! values   = bitmap                                  (BOOLEAN)
//!          | numbers                                 (any other fixed width of 1, 2, 4, 8, 16
//!                                                     bytes, by its bits)
//!          | text u32 LE ‖ numbers                   (STRING, BINARY: bytes in the text part; the
//!                                                     numbers are lengths)
//!          | elements u32 LE ‖ numbers ‖ column ...  (ARRAY, MAP: lengths, then the columns of
//!                                                     elements or of keys and values)
//!          | column ...                              (STRUCT: its fields)
//! numbers  = form u8 ‖ base i64 LE ‖ rows × n bytes  (n of 0, 1, 2, 4: what is added to base)
//!          | form u8 ‖ base i64 LE ‖ rows × n bytes  (n of 1, 2, 4: steps; what is added to the
//!                                                     value before)
//!          | form u8 ‖ rows × n bytes                (n of 8: 64-bit numbers of a type of 16
//!                                                     bytes; or the type's own)
//! form     = log₂ of the type's width (4 bits)
//!            ‖ 0, 1, 2, 4, 8: n | 9, 10, 12: steps of n = 1, 2, 4 | 15: the type's own
//! ```
//! Offsets from the least value are frame of reference (Goldstein, Ramakrishnan, Shaft,
//! "Compressing Relations and Indexes", ICDE 1998), here in whole bytes; steps are for ascending
//! values, as keys of a table in their order. What lies under a NULL travels as it is. Where
//! nothing is packed, a validity bitmap is always there and numbers are the type's own.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, BooleanBufferBuilder,
        ListArray, MapArray, NullArray, StringArray, StructArray, make_array,
    },
    buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{ArrowNativeType, DataType, ToByteSlice},
};

use super::{CodecError, Packing};

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const STEPS: u8 = 8;
const WHOLE: u8 = 15;

/// A value of a fixed width, seen as a number.
trait Number: ArrowNativeType {
    /// Its bytes in memory.
    const WIDTH: u8;
    /// The upper half of a form.
    const TYPE: u8;
    /// Whether 64 bits hold it.
    fn fits(self) -> bool;
    /// It, if 64 bits hold it; else its lower half.
    fn number(self) -> i64;
    fn of(number: i64) -> Self;
}

macro_rules! number {
    ($($native:ty: $width:literal, $log:literal;)*) => {$(
        impl Number for $native {
            const WIDTH: u8 = $width;
            const TYPE: u8 = $log << 4;
            #[inline(always)]
            fn fits(self) -> bool {
                true
            }
            #[inline(always)]
            fn number(self) -> i64 {
                i64::from(self)
            }
            #[inline(always)]
            fn of(number: i64) -> Self {
                // Only numbers that were in range are narrowed; others wrap, and mean nothing
                // anyway.
                number.to_le_bytes().first_chunk().map_or(0, |bytes|
                    <$native>::from_le_bytes(*bytes))
            }
        }
    )*};
}
number!(i8: 1, 0; i16: 2, 1; i32: 4, 2; i64: 8, 3;);

impl Number for i128 {
    const WIDTH: u8 = 16;
    const TYPE: u8 = 4 << 4;
    #[inline(always)]
    fn fits(self) -> bool {
        Self::from(self.number()) == self
    }
    #[inline(always)]
    fn number(self) -> i64 {
        self.to_le_bytes()
            .first_chunk()
            .map_or(0, |bytes| i64::from_le_bytes(*bytes))
    }
    #[inline(always)]
    fn of(number: i64) -> Self {
        Self::from(number)
    }
}

/// Appends a column that comes in parts, all of one type.
pub(super) fn write_column(
    parts: &[&dyn Array],
    packing: Packing,
    out: &mut Vec<u8>,
    text: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let Some(data_type) = parts.first().map(|part| part.data_type()) else {
        return Ok(());
    };
    if data_type == &DataType::Null {
        return Ok(());
    }
    write_validity(parts, packing, out);
    match data_type {
        DataType::Boolean => {
            let bits = parts.iter().map(|part| part.as_boolean().values().clone());
            write_bits(bits, out);
        }
        DataType::Utf8 => {
            let parts = parts.iter().map(|part| part.as_string::<i32>());
            write_texts(
                parts.map(|part| (part.offsets(), part.value_data())),
                packing,
                out,
                text,
            )?;
        }
        DataType::Binary => {
            let parts = parts.iter().map(|part| part.as_binary::<i32>());
            write_texts(
                parts.map(|part| (part.offsets(), part.value_data())),
                packing,
                out,
                text,
            )?;
        }
        DataType::Struct(fields) => {
            let columns = parts.iter().map(|part| part.as_struct().columns());
            let columns: Vec<&[ArrayRef]> = columns.collect();
            for field in 0..fields.len() {
                let parts: Vec<&dyn Array> = columns
                    .iter()
                    .filter_map(|columns| columns.get(field).map(AsRef::as_ref))
                    .collect();
                write_column(&parts, packing, out, text)?;
            }
        }
        DataType::List(_) => {
            let lists = parts.iter().map(|part| part.as_list::<i32>());
            let elements = lists
                .clone()
                .map(|list| inner(list.offsets(), list.values().as_ref()));
            let elements = elements.collect::<Result<Vec<_>, _>>()?;
            write_lengths(lists.map(ListArray::offsets), packing, out)?;
            let elements: Vec<&dyn Array> = elements.iter().map(AsRef::as_ref).collect();
            write_column(&elements, packing, out, text)?;
        }
        DataType::Map(..) => {
            let maps = parts.iter().map(|part| part.as_map());
            write_lengths(maps.clone().map(MapArray::offsets), packing, out)?;
            for side in [MapArray::keys, MapArray::values] {
                let sides = maps
                    .clone()
                    .map(|map| inner(map.offsets(), side(map).as_ref()));
                let sides = sides.collect::<Result<Vec<_>, _>>()?;
                let sides: Vec<&dyn Array> = sides.iter().map(AsRef::as_ref).collect();
                write_column(&sides, packing, out, text)?;
            }
        }
        other => match other.primitive_width() {
            Some(1) => write_primitives::<i8>(parts, packing, out),
            Some(2) => write_primitives::<i16>(parts, packing, out),
            Some(4) => write_primitives::<i32>(parts, packing, out),
            Some(8) => write_primitives::<i64>(parts, packing, out),
            Some(16) => write_primitives::<i128>(parts, packing, out),
            _ => return Err(CodecError::Layout("column type")),
        },
    }
    Ok(())
}

/// What the lists of an array hold, in one piece.
fn inner(offsets: &OffsetBuffer<i32>, values: &dyn Array) -> Result<ArrayRef, CodecError> {
    let at = |end: Option<&i32>| end.map_or(0, |end| end.as_usize());
    let (first, last) = (at(offsets.first()), at(offsets.last()));
    match first <= last && last <= values.len() {
        true => Ok(values.slice(first, last - first)),
        false => Err(CodecError::Layout("offsets")),
    }
}

fn write_lengths<'a>(
    parts: impl Iterator<Item = &'a OffsetBuffer<i32>>,
    packing: Packing,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let (mut lengths, mut total) = (Vec::new(), 0_usize);
    for length in parts.flat_map(OffsetBuffer::lengths) {
        total = total.saturating_add(length);
        lengths.push(i32::try_from(length).unwrap_or(i32::MAX));
    }
    out.extend_from_slice(&super::length(total)?.to_le_bytes());
    write_numbers(&[lengths.as_slice()], packing, out);
    Ok(())
}

fn write_validity(parts: &[&dyn Array], packing: Packing, out: &mut Vec<u8>) {
    if packing == Packing::Tight && parts.iter().all(|part| part.null_count() == 0) {
        out.push(ABSENT);
        return;
    }
    out.push(PRESENT);
    let bits = parts.iter().map(|part| match part.nulls() {
        Some(nulls) => nulls.inner().clone(),
        None => BooleanBuffer::new_set(part.len()),
    });
    write_bits(bits, out);
}

fn write_bits(parts: impl Iterator<Item = BooleanBuffer>, out: &mut Vec<u8>) {
    let mut bits = BooleanBufferBuilder::new(0);
    for part in parts {
        bits.append_buffer(&part);
    }
    let length = bits.len().div_ceil(8);
    out.extend(bits.finish().into_inner().iter().take(length));
}

fn write_texts<'a>(
    parts: impl Iterator<Item = (&'a OffsetBuffer<i32>, &'a [u8])>,
    packing: Packing,
    out: &mut Vec<u8>,
    text: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let before = text.len();
    let mut lengths = Vec::new();
    for (offsets, bytes) in parts {
        let (first, last) = (offsets.first().copied(), offsets.last().copied());
        let range =
            first.map_or(0, ArrowNativeType::as_usize)..last.map_or(0, ArrowNativeType::as_usize);
        text.extend_from_slice(bytes.get(range).ok_or(CodecError::Layout("offsets"))?);
        lengths.extend(
            offsets
                .lengths()
                .map(|length| i32::try_from(length).unwrap_or(i32::MAX)),
        );
    }
    out.extend_from_slice(&super::length(text.len() - before)?.to_le_bytes());
    write_numbers(&[lengths.as_slice()], packing, out);
    Ok(())
}

fn write_primitives<T: Number>(parts: &[&dyn Array], packing: Packing, out: &mut Vec<u8>) {
    let data: Vec<ArrayData> = parts.iter().map(|part| part.to_data()).collect();
    let values: Vec<&[T]> = data
        .iter()
        .map(|data| {
            let values = data.buffer::<T>(0);
            values.get(..data.len()).unwrap_or(values)
        })
        .collect();
    write_numbers(&values, packing, out);
}

/// What the values of a column have in common.
struct Range {
    first: i64,
    least: i64,
    /// From the least value to the greatest one.
    span: u64,
    /// From a value to the next one, at most; of values that never descend.
    step: Option<u64>,
}

impl Range {
    /// `None` if a value is no 64-bit number, or there are no values.
    fn of<T: Number>(parts: &[&[T]]) -> Option<Self> {
        let first = parts.iter().find_map(|part| part.first())?.number();
        let (mut least, mut most, mut fits) = (first, first, true);
        for part in parts {
            for value in *part {
                fits &= value.fits();
                least = least.min(value.number());
                most = most.max(value.number());
            }
        }
        let span = most.abs_diff(least);
        fits.then(|| Self {
            first,
            least,
            span,
            // Steps in place of offsets of one byte would gain nothing.
            step: (span > 0xff).then(|| greatest_step(first, parts)).flatten(),
        })
    }
}

/// `None` if the values descend anywhere: mostly seen at once.
fn greatest_step<T: Number>(first: i64, parts: &[&[T]]) -> Option<u64> {
    let (mut before, mut step) = (first, 0);
    for value in parts.iter().copied().flatten() {
        let number = value.number();
        if number < before {
            return None;
        }
        step = step.max(number.abs_diff(before));
        before = number;
    }
    Some(step)
}

fn write_numbers<T: Number>(parts: &[&[T]], packing: Packing, out: &mut Vec<u8>) {
    let range = match packing {
        Packing::Tight => Range::of(parts),
        Packing::None => None,
    };
    let Some(range) = range else {
        return write_whole(parts, out);
    };
    let bytes = bytes_for(range.span);
    let step_bytes = range.step.map_or(bytes, bytes_for);
    let mut encoding = |kind: u8, base: i64| {
        out.push(T::TYPE | kind);
        out.extend_from_slice(&base.to_le_bytes());
    };
    match (bytes, step_bytes) {
        (0, _) => encoding(0, range.least),
        (2 | 4 | 8, 1) if T::WIDTH > 1 => {
            encoding(STEPS | 1, range.first);
            write_steps::<T, 1>(parts, range.first, out);
        }
        (4 | 8, 2) if T::WIDTH > 2 => {
            encoding(STEPS | 2, range.first);
            write_steps::<T, 2>(parts, range.first, out);
        }
        (8, 4) if T::WIDTH > 4 => {
            encoding(STEPS | 4, range.first);
            write_steps::<T, 4>(parts, range.first, out);
        }
        (1, _) if T::WIDTH > 1 => {
            encoding(1, range.least);
            write_offsets::<T, 1>(parts, range.least, out);
        }
        (2, _) if T::WIDTH > 2 => {
            encoding(2, range.least);
            write_offsets::<T, 2>(parts, range.least, out);
        }
        (4, _) if T::WIDTH > 4 => {
            encoding(4, range.least);
            write_offsets::<T, 4>(parts, range.least, out);
        }
        (8, _) if T::WIDTH > 8 => {
            out.push(T::TYPE | 8);
            write_offsets::<T, 8>(parts, 0, out);
        }
        _ => write_whole(parts, out),
    }
}

fn write_whole<T: Number>(parts: &[&[T]], out: &mut Vec<u8>) {
    out.push(T::TYPE | WHOLE);
    for part in parts {
        out.extend_from_slice(part.to_byte_slice());
    }
}

/// Bytes that numbers up to this one need.
fn bytes_for(most: u64) -> u8 {
    match most {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

fn write_offsets<T: Number, const N: usize>(parts: &[&[T]], base: i64, out: &mut Vec<u8>) {
    for part in parts {
        for (position, value) in room::<N>(out, part.len()).iter_mut().zip(*part) {
            *position = low(value.number().wrapping_sub(base));
        }
    }
}

fn write_steps<T: Number, const N: usize>(parts: &[&[T]], first: i64, out: &mut Vec<u8>) {
    let mut before = first;
    for part in parts {
        for (position, value) in room::<N>(out, part.len()).iter_mut().zip(*part) {
            let number = value.number();
            *position = low(number.wrapping_sub(before));
            before = number;
        }
    }
}

/// `count` places of N bytes more at the end of `out`.
fn room<const N: usize>(out: &mut Vec<u8>, count: usize) -> &mut [[u8; N]] {
    let at = out.len();
    out.resize(at + count * N, 0);
    out.get_mut(at..).unwrap_or_default().as_chunks_mut().0
}

#[inline(always)]
fn low<const N: usize>(number: i64) -> [u8; N] {
    number
        .to_le_bytes()
        .first_chunk()
        .copied()
        .unwrap_or([0; N])
}

/// Takes the two parts of a payload apart. Memory is claimed for `room` bytes at most.
pub(super) struct Reader<'a> {
    rows: usize,
    fixed: &'a [u8],
    text: &'a [u8],
    room: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(rows: usize, fixed: &'a [u8], text: &'a [u8], room: usize) -> Self {
        Self {
            rows,
            fixed,
            text,
            room,
        }
    }

    /// After the last column: nothing is left.
    pub(super) fn end(self) -> Result<(), CodecError> {
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
        let elements = super::stated(u32::from_le_bytes(self.array()?))?;
        if elements > super::MAX_BODY {
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
pub(super) fn read_column(
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
