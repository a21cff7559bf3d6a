//! Columns as they are written.

use arrow::{
    array::{Array, ArrayData, ArrayRef, AsArray, BooleanBufferBuilder, ListArray, MapArray},
    buffer::{BooleanBuffer, OffsetBuffer},
    datatypes::{ArrowNativeType, DataType, ToByteSlice},
};

use super::{ABSENT, Number, PRESENT, STEPS, WHOLE};
use crate::codec::{CodecError, Packing, length};

/// Appends a column that comes in parts, all of one type.
pub(in crate::codec) fn write_column(
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
    out.extend_from_slice(&length(total)?.to_le_bytes());
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
    out.extend_from_slice(&length(text.len() - before)?.to_le_bytes());
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
