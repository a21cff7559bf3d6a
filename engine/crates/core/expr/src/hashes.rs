//! Digests and checksums of bytes, and Spark's two hashes of any value: Murmur3 (x86, 32 bits) and
//! xxHash (64 bits), to the bit.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, Int64Array},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    },
};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use crate::{
    Unsupported,
    format::{LOWER, hex_digits},
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Nulls},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("md5", Fallible::Never, |call| {
        digest(call, |bytes, out| hex(&Md5::digest(bytes), out))
    }),
    entry("sha1", Fallible::Never, |call| {
        digest(call, |bytes, out| hex(&Sha1::digest(bytes), out))
    }),
    entry("sha2", Fallible::Never, sha2_of_length),
    entry("crc32", Fallible::Never, crc32),
    entry("murmur3_hash", Fallible::Never, |call| {
        seeded::<Murmur3>(call, &DataType::Int32)
    }),
    entry("xx_hash64", Fallible::Never, |call| {
        seeded::<XxHash64>(call, &DataType::Int64)
    }),
];

type Built = std::result::Result<Kernel, Unsupported>;

fn hex(bytes: &[u8], out: &mut String) {
    hex_digits(bytes, LOWER, out);
}

fn digest(call: &CallInfo<'_>, f: fn(&[u8], &mut String)) -> Built {
    rows::takes(call, &[DataType::Binary], &DataType::Utf8)?;
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        Ok(row.bytes(0).map(|bytes| f(bytes, out)))
    }))
}

fn sha2_of_length(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Binary, DataType::Int32], &DataType::Utf8)?;
    Ok(rows::text(Nulls::GiveNull, |row, out| {
        let (Some(bytes), Some(length)) = (row.bytes(0), row.long(1)) else {
            return Ok(None);
        };
        match length {
            224 => hex(&Sha224::digest(bytes), out),
            0 | 256 => hex(&Sha256::digest(bytes), out),
            384 => hex(&Sha384::digest(bytes), out),
            512 => hex(&Sha512::digest(bytes), out),
            _ => return Ok(None),
        }
        Ok(Some(()))
    }))
}

/// CRC-32 of IEEE 802.3, reflected: `java.util.zip.CRC32`.
const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (0xedb8_8320 & (value & 1).wrapping_neg());
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

fn crc32(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Binary], &DataType::Int64)?;
    Ok(rows::number::<Int64Type>(
        call.ret,
        Nulls::GiveNull,
        |row| {
            Ok(row.bytes(0).map(|bytes| {
                let rest = bytes.iter().fold(u32::MAX, |crc, byte| {
                    let low = crc.to_le_bytes()[0] ^ byte;
                    (crc >> 8) ^ CRC.get(usize::from(low)).copied().unwrap_or_default()
                });
                i64::from(!rest)
            }))
        },
    ))
}

/// A hash whose state is the hash so far.
trait Hash {
    fn int(value: i32, seed: i64) -> i64;
    fn long(value: i64, seed: i64) -> i64;
    fn bytes(value: &[u8], seed: i64) -> i64;
}

struct Murmur3;

impl Murmur3 {
    fn mix(state: u32, word: u32) -> u32 {
        let word = word
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        (state ^ word)
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64)
    }

    fn finish(state: u32, length: usize) -> i64 {
        let mut hash = state ^ length as u32;
        hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
        (hash ^ (hash >> 16)).cast_signed().into()
    }
}

impl Hash for Murmur3 {
    fn int(value: i32, seed: i64) -> i64 {
        Self::finish(Self::mix(seed as u32, value.cast_unsigned()), 4)
    }

    fn long(value: i64, seed: i64) -> i64 {
        let low = Self::mix(seed as u32, value as u32);
        Self::finish(Self::mix(low, (value >> 32) as u32), 8)
    }

    /// Spark's own variant: each byte after the last whole word is mixed as a word.
    fn bytes(value: &[u8], seed: i64) -> i64 {
        let (words, rest) = value.as_chunks::<4>();
        let mut state = seed as u32;
        for word in words {
            state = Self::mix(state, u32::from_le_bytes(*word));
        }
        for byte in rest {
            state = Self::mix(state, i32::from(byte.cast_signed()).cast_unsigned());
        }
        Self::finish(state, value.len())
    }
}

struct XxHash64;

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

impl XxHash64 {
    fn finish(hash: u64) -> i64 {
        let hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
        let hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
        (hash ^ (hash >> 32)).cast_signed()
    }

    fn round(state: u64, word: u64) -> u64 {
        state
            .wrapping_add(word.wrapping_mul(P2))
            .rotate_left(31)
            .wrapping_mul(P1)
    }

    fn word(hash: u64, word: u64) -> u64 {
        (hash ^ Self::round(0, word))
            .rotate_left(27)
            .wrapping_mul(P1)
            .wrapping_add(P4)
    }

    fn half(hash: u64, word: u32) -> u64 {
        (hash ^ u64::from(word).wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3)
    }
}

impl Hash for XxHash64 {
    fn int(value: i32, seed: i64) -> i64 {
        let start = seed.cast_unsigned().wrapping_add(P5).wrapping_add(4);
        Self::finish(Self::half(start, value.cast_unsigned()))
    }

    fn long(value: i64, seed: i64) -> i64 {
        let start = seed.cast_unsigned().wrapping_add(P5).wrapping_add(8);
        Self::finish(Self::word(start, value.cast_unsigned()))
    }

    fn bytes(value: &[u8], seed: i64) -> i64 {
        let seed = seed.cast_unsigned();
        let (stripes, rest) = value.as_chunks::<32>();
        let mut hash = if stripes.is_empty() {
            seed.wrapping_add(P5)
        } else {
            let mut lanes = [
                seed.wrapping_add(P1).wrapping_add(P2),
                seed.wrapping_add(P2),
                seed,
                seed.wrapping_sub(P1),
            ];
            for stripe in stripes {
                for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                    *lane = Self::round(*lane, u64::from_le_bytes(*word));
                }
            }
            let turned = lanes
                .iter()
                .zip([1, 7, 12, 18])
                .map(|(lane, by)| lane.rotate_left(by));
            let start = turned.fold(0u64, u64::wrapping_add);
            lanes.iter().fold(start, |hash, lane| {
                (hash ^ Self::round(0, *lane))
                    .wrapping_mul(P1)
                    .wrapping_add(P4)
            })
        };
        hash = hash.wrapping_add(value.len() as u64);
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            hash = Self::word(hash, u64::from_le_bytes(*word));
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for half in halves {
            hash = Self::half(hash, u32::from_le_bytes(*half));
        }
        for byte in rest {
            hash = (hash ^ u64::from(*byte).wrapping_mul(P5))
                .rotate_left(11)
                .wrapping_mul(P1);
        }
        Self::finish(hash)
    }
}

/// The last argument is the seed, a literal. NULL leaves the hash as it is.
fn seeded<H: Hash + 'static>(call: &CallInfo<'_>, ret: &DataType) -> Built {
    let last = call.types.len().saturating_sub(1);
    let seed = match call.literal(last)? {
        ScalarValue::Int64(Some(seed)) => *seed,
        ScalarValue::Int32(Some(seed)) => i64::from(*seed),
        _ => return Err(call.unsupported("the seed must be a literal")),
    };
    if call.ret != ret || !call.types.iter().all(hashed) {
        return Err(call.bad_types());
    }
    let hashes = move |args: &[ColumnarValue], rows: usize| -> Result<Vec<i64>> {
        let mut hashes = vec![seed; rows];
        for arg in args.iter().take(last) {
            let values = arg.to_array(rows)?;
            let hash = hasher::<H>(&values);
            for (row, so_far) in hashes.iter_mut().enumerate() {
                *so_far = hash(row, *so_far);
            }
        }
        Ok(hashes)
    };
    Ok(match ret {
        DataType::Int32 => Arc::new(move |args, rows| {
            let all = hashes(args, rows)?.into_iter().map(|hash| hash as i32);
            Ok(Arc::new(Int32Array::from_iter_values(all)))
        }),
        _ => Arc::new(move |args, rows| Ok(Arc::new(Int64Array::from(hashes(args, rows)?)))),
    })
}

/// The hash of a row's value and of a hash so far.
type Hasher<'a> = Box<dyn Fn(usize, i64) -> i64 + 'a>;

/// What hashes values, whose type is looked up once for all rows.
fn hasher<'a, H: Hash + 'a>(values: &'a ArrayRef) -> Hasher<'a> {
    match values.data_type() {
        DataType::Boolean => {
            let truths = values.as_boolean();
            each(truths, |row, seed| H::int(truths.value(row).into(), seed))
        }
        DataType::Int8 => numbers::<Int8Type>(values, |v, seed| H::int(v.into(), seed)),
        DataType::Int16 => numbers::<Int16Type>(values, |v, seed| H::int(v.into(), seed)),
        DataType::Int32 => numbers::<Int32Type>(values, H::int),
        DataType::Date32 => numbers::<Date32Type>(values, H::int),
        DataType::Int64 => numbers::<Int64Type>(values, H::long),
        DataType::Timestamp(..) => numbers::<TimestampMicrosecondType>(values, H::long),
        // In nanoseconds, as Spark holds them.
        DataType::Time64(_) => {
            numbers::<Time64MicrosecondType>(values, |v, seed| H::long(v.wrapping_mul(1_000), seed))
        }
        DataType::Float32 => numbers::<Float32Type>(values, |v, seed| {
            H::int(normal(v, f32::NAN).to_bits().cast_signed(), seed)
        }),
        DataType::Float64 => numbers::<Float64Type>(values, |v, seed| {
            H::long(normal(v, f64::NAN).to_bits().cast_signed(), seed)
        }),
        DataType::Decimal128(0..=18, _) => {
            numbers::<Decimal128Type>(values, |v, seed| H::long(v as i64, seed))
        }
        DataType::Decimal128(..) => {
            numbers::<Decimal128Type>(values, |v, seed| H::bytes(shortest(&v.to_be_bytes()), seed))
        }
        DataType::Utf8 => {
            let texts = values.as_string::<i32>();
            each(texts, |row, seed| {
                H::bytes(texts.value(row).as_bytes(), seed)
            })
        }
        DataType::Binary => {
            let bytes = values.as_binary::<i32>();
            each(bytes, |row, seed| H::bytes(bytes.value(row), seed))
        }
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            let item = hasher::<H>(list.values());
            each(list, move |row, seed| {
                range(list.value_offsets(), row).fold(seed, |hash, at| item(at, hash))
            })
        }
        DataType::Struct(_) => {
            let record = values.as_struct();
            let fields: Vec<_> = record.columns().iter().map(hasher::<H>).collect();
            each(record, move |row, seed| {
                fields.iter().fold(seed, |hash, field| field(row, hash))
            })
        }
        DataType::Map(..) => {
            let map = values.as_map();
            let sides: Vec<_> = map.entries().columns().iter().map(hasher::<H>).collect();
            each(map, move |row, seed| {
                range(map.value_offsets(), row).fold(seed, |hash, at| {
                    sides.iter().fold(hash, |h, side| side(at, h))
                })
            })
        }
        // NULL's type; `hashed` let no other one in.
        _ => Box::new(|_, seed| seed),
    }
}

/// A hasher that leaves the hash as it is where there is no value.
fn each<'a>(values: &'a impl Array, hash: impl Fn(usize, i64) -> i64 + 'a) -> Hasher<'a> {
    match values.nulls() {
        Some(nulls) => Box::new(move |row, seed| match nulls.is_valid(row) {
            true => hash(row, seed),
            false => seed,
        }),
        None => Box::new(hash),
    }
}

fn numbers<'a, T: ArrowPrimitiveType>(
    values: &'a ArrayRef,
    hash: impl Fn(T::Native, i64) -> i64 + 'a,
) -> Hasher<'a> {
    let numbers = values.as_primitive::<T>();
    each(numbers, move |row, seed| hash(numbers.value(row), seed))
}

/// Where a row's items lie among all items.
fn range(offsets: &[i32], row: usize) -> Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

/// Whether there is a hash of a type's values.
fn hashed(of: &DataType) -> bool {
    match of {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Date32
        | DataType::Timestamp(TimeUnit::Microsecond, _)
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Utf8
        | DataType::Binary => true,
        DataType::List(item) | DataType::Map(item, _) => hashed(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| hashed(field.data_type())),
        _ => false,
    }
}

/// Spark's 64-bit hash of each row's value. That of NULL is the seed.
pub fn xx_hash64(values: &ArrayRef, seed: i64) -> impl Fn(usize) -> i64 {
    let hash = hasher::<XxHash64>(values);
    move |row| hash(row, seed)
}

/// Spark's 32-bit hash of bytes.
#[must_use]
pub fn murmur3(bytes: &[u8], seed: i32) -> i32 {
    Murmur3::bytes(bytes, seed.into()) as i32
}

/// Whether [`xx_hash64`] has a hash of a type's values.
#[must_use]
pub fn is_hashed(of: &DataType) -> bool {
    hashed(of)
}

/// One NaN, and no negative zero.
fn normal<T: PartialOrd + Default>(value: T, nan: T) -> T {
    if value.partial_cmp(&value).is_none() {
        nan
    } else if value == T::default() {
        T::default()
    } else {
        value
    }
}

/// `BigInteger.toByteArray`: two's complement without needless leading bytes.
fn shortest(bytes: &[u8; 16]) -> &[u8] {
    let mut rest: &[u8] = bytes;
    while let [first, tail @ ..] = rest {
        let needless = match tail.first() {
            Some(next) => (*first == 0 && *next < 0x80) || (*first == 0xff && *next >= 0x80),
            None => false,
        };
        if !needless {
            break;
        }
        rest = tail;
    }
    rest
}
