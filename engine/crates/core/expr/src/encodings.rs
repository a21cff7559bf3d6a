//! Bytes as text and texts as bytes: base 64, hexadecimal, character sets, URLs, other bases.

use std::fmt::Write;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;

use crate::{
    SparkError, Unsupported,
    format::{UPPER, hex_digits},
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Nulls},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("base64", Fallible::Never, base64),
    entry("un_base64", Fallible::Always, un_base64),
    entry("hex", Fallible::Never, hex),
    entry("unhex", Fallible::Ansi, unhex),
    entry("bin", Fallible::Never, bin),
    entry("conv", Fallible::Ansi, conv),
    entry("encode", Fallible::Always, encode),
    entry("decode", Fallible::Always, decode),
    entry("url_encode", Fallible::Never, url_encode),
    entry("url_decode", Fallible::Ansi, url_decode),
    entry("is_valid_utf8", Fallible::Never, is_valid_utf8),
];

type Built = Result<Kernel, Unsupported>;

const UTF8: DataType = DataType::Utf8;
const BINARY: DataType = DataType::Binary;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Java's MIME encoder; the second argument says whether a line ends after 76 characters.
fn base64(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[BINARY, DataType::Boolean], &UTF8)?;
    let lines = match call.literal(1)? {
        ScalarValue::Boolean(Some(lines)) => *lines,
        _ => return Err(call.unsupported("whether lines end must be a literal")),
    };
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let Some(bytes) = row.bytes(0) else {
            return Ok(None);
        };
        base64_lines(bytes, lines, out);
        Ok(Some(()))
    }))
}

/// Base 64 (RFC 4648) with padding, in one line.
pub(crate) fn base64_text(bytes: &[u8], out: &mut String) {
    base64_lines(bytes, false, out);
}

fn base64_lines(bytes: &[u8], lines: bool, out: &mut String) {
    for (place, group) in bytes.chunks(3).enumerate() {
        if lines && place > 0 && place % 19 == 0 {
            out.push_str("\r\n");
        }
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let code = (bits >> (18 - 6 * digit) & 63) as usize;
            let letter = LETTERS.get(code).copied().unwrap_or(b'=');
            let there = digit as usize <= group.len();
            out.push(if there { char::from(letter) } else { '=' });
        }
    }
}

/// Java's MIME decoder: what is no letter of base 64 is passed over. In the mode that fails
/// (`to_binary`) a text must be of RFC 4648's form first.
fn un_base64(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &BINARY)?;
    let strict = call.ansi();
    Ok(rows::bytes(Nulls::GiveNull, move |row, out| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        let bad = |why: &str| SparkError::new("CONVERSION_INVALID_INPUT", why);
        if strict && !is_base64(text) {
            return Err(bad(
                "The value cannot be converted to BINARY because it is malformed.",
            ));
        }
        let mut source = text.bytes();
        let (mut bits, mut shift) = (0u32, 18i32);
        while let Some(byte) = source.next() {
            let code = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' => {
                    if shift == 18 || (shift == 6 && source.next() != Some(b'=')) {
                        return Err(bad("Input byte array has wrong 4-byte ending unit"));
                    }
                    break;
                }
                _ => continue,
            };
            bits |= u32::from(code) << shift;
            shift -= 6;
            if shift < 0 {
                out.extend(bits.to_be_bytes().iter().skip(1));
                (bits, shift) = (0, 18);
            }
        }
        let [_, first, second, _] = bits.to_be_bytes();
        match shift {
            6 => out.push(first),
            0 => out.extend([first, second]),
            12 => return Err(bad("Last unit does not have enough valid bits")),
            _ => {}
        }
        let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        match source.any(letter) {
            true => Err(bad("Input byte array has incorrect ending byte")),
            false => Ok(Some(())),
        }
    }))
}

/// Groups of four letters with white space between; the last one has two at least, and padding for
/// all of those that it lacks, or none. Nothing is behind the padding.
fn is_base64(text: &str) -> bool {
    let (mut letters, mut padding) = (0usize, 0usize);
    for c in text.chars() {
        match c {
            '=' => {
                padding += 1;
                if padding > 2 || letters % 4 < 2 {
                    return false;
                }
            }
            c if padding == 0 && (c.is_ascii_alphanumeric() || matches!(c, '+' | '/')) => {
                letters += 1;
            }
            c if padding == 0 && java_white_space(c) => {}
            _ => return false,
        }
    }
    match padding {
        0 => letters % 4 != 1,
        _ => (letters + padding) % 4 == 0,
    }
}

/// `Character.isWhitespace`: without what keeps words together, with four control characters.
fn java_white_space(c: char) -> bool {
    match c {
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        '\u{1c}'..='\u{1f}' => true,
        c => c.is_whitespace(),
    }
}

fn hex(call: &CallInfo<'_>) -> Built {
    match (call.types, call.ret) {
        ([DataType::Int64], DataType::Utf8) => Ok(rows::text(Nulls::GiveNull, |row, out| {
            Ok(row.long(0).map(|value| {
                let _ = write!(out, "{value:X}");
            }))
        })),
        ([DataType::Utf8 | DataType::Binary], DataType::Utf8) => {
            Ok(rows::text(Nulls::GiveNull, |row, out| {
                Ok(row.bytes(0).map(|bytes| hex_digits(bytes, UPPER, out)))
            }))
        }
        _ => Err(call.bad_types()),
    }
}

fn unhex(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &BINARY)?;
    let ansi = call.ansi();
    Ok(rows::bytes(Nulls::GiveNull, move |row, out| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        let digits: Option<Vec<u8>> = text
            .bytes()
            .map(|byte| {
                char::from(byte)
                    .to_digit(16)
                    .and_then(|d| u8::try_from(d).ok())
            })
            .collect();
        let Some(digits) = digits else {
            return match ansi {
                true => Err(SparkError::new(
                    "CONVERSION_INVALID_INPUT",
                    "The value cannot be converted to BINARY because it is malformed.",
                )),
                false => Ok(None),
            };
        };
        let mut rest = digits.as_slice();
        if digits.len() % 2 == 1
            && let Some((first, others)) = digits.split_first()
        {
            out.push(*first);
            rest = others;
        }
        out.extend(
            rest.as_chunks::<2>()
                .0
                .iter()
                .map(|[high, low]| high << 4 | low),
        );
        Ok(Some(()))
    }))
}

fn bin(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Int64], &UTF8)?;
    Ok(rows::text(Nulls::GiveNull, |row, out| {
        Ok(row.long(0).map(|value| {
            let _ = write!(out, "{value:b}");
        }))
    }))
}

/// Hive's: through an unsigned number of 64 bits; what follows the first wrong digit does not
/// count.
fn conv(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8, DataType::Int32, DataType::Int32], &UTF8)?;
    let ansi = call.ansi();
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let (Some(text), Some(from), Some(to)) = (row.text(0), row.long(1), row.long(2)) else {
            return Ok(None);
        };
        let text = text.trim_matches(' ');
        let bases = 2..=36;
        let radix = u32::try_from(from).ok().filter(|_| bases.contains(&from));
        let target = u64::try_from(to.abs())
            .ok()
            .filter(|_| bases.contains(&to.abs()));
        let (Some(radix), Some(target), false) = (radix, target, text.is_empty()) else {
            return Ok(None);
        };
        let (digits, mut negative) = match text.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let digits = digits
            .bytes()
            .map_while(|byte| char::from(byte).to_digit(radix));
        let mut value = Some(0u64);
        for digit in digits {
            let times = value.and_then(|value| value.checked_mul(radix.into()));
            value = times.and_then(|value| value.checked_add(digit.into()));
        }
        let mut value = match value {
            Some(value) => value,
            None if ansi => {
                return Err(SparkError::new(
                    "ARITHMETIC_OVERFLOW",
                    "Overflow in function conv().",
                ));
            }
            None => u64::MAX,
        };
        let high = |value: u64| value.cast_signed() < 0;
        if negative && to > 0 {
            value = if high(value) {
                u64::MAX
            } else {
                value.wrapping_neg()
            };
        }
        if to < 0 && high(value) {
            value = value.wrapping_neg();
            negative = true;
        }
        let mut reversed = Vec::new();
        while value > 0 || reversed.is_empty() {
            let digit = u32::try_from(value % target).unwrap_or(0);
            reversed.extend(char::from_digit(digit, 36).map(|c| c.to_ascii_uppercase()));
            value /= target;
        }
        if negative && to < 0 {
            out.push('-');
        }
        out.extend(reversed.iter().rev());
        Ok(Some(()))
    }))
}

#[derive(Debug, Clone, Copy)]
enum Charset {
    Utf8,
    Ascii,
    Latin1,
    /// Bytes of a unit, whether the high one comes first, whether a mark says which.
    Wide {
        bytes: usize,
        big: bool,
        marked: bool,
    },
}

fn charset(name: &str) -> Option<Charset> {
    let wide = |bytes, big, marked| Charset::Wide { bytes, big, marked };
    Some(match name.to_uppercase().as_str() {
        "UTF-8" => Charset::Utf8,
        "US-ASCII" => Charset::Ascii,
        "ISO-8859-1" => Charset::Latin1,
        "UTF-16BE" => wide(2, true, false),
        "UTF-16LE" => wide(2, false, false),
        "UTF-16" => wide(2, true, true),
        "UTF-32" => wide(4, true, true),
        _ => return None,
    })
}

/// The charset, of a call's arguments (value, charset, old charsets, old errors): a literal.
fn charset_of(call: &CallInfo<'_>) -> Result<Option<Charset>, Unsupported> {
    let off = |index| {
        Ok(matches!(
            call.literal(index)?,
            ScalarValue::Boolean(Some(false))
        ))
    };
    if !(off(2)? && off(3)?) {
        return Err(call.unsupported("Spark's legacy settings of character sets"));
    }
    match call.literal(1)? {
        ScalarValue::Utf8(Some(name)) => match charset(name) {
            Some(charset) => Ok(Some(charset)),
            None => Err(call.unsupported(format!("the character set {name:?}"))),
        },
        _ => Ok(None),
    }
}

fn encode(call: &CallInfo<'_>) -> Built {
    let types = [UTF8, UTF8, DataType::Boolean, DataType::Boolean];
    rows::takes(call, &types, &BINARY)?;
    let charset = charset_of(call)?;
    Ok(rows::bytes(Nulls::GiveNull, move |row, out| {
        let (Some(text), Some(charset)) = (row.text(0), charset) else {
            return Ok(None);
        };
        let limit = match charset {
            Charset::Utf8 => {
                out.extend(text.as_bytes());
                return Ok(Some(()));
            }
            Charset::Ascii => 0x80,
            Charset::Latin1 => 0x100,
            Charset::Wide { bytes, big, marked } => {
                if marked && bytes == 2 && !text.is_empty() {
                    out.extend([0xfe, 0xff]);
                }
                if bytes == 4 {
                    text.chars()
                        .for_each(|c| out.extend(u32::from(c).to_be_bytes()));
                } else {
                    text.encode_utf16().for_each(|unit| {
                        out.extend(if big {
                            unit.to_be_bytes()
                        } else {
                            unit.to_le_bytes()
                        });
                    });
                }
                return Ok(Some(()));
            }
        };
        for c in text.chars() {
            match u8::try_from(u32::from(c)) {
                Ok(byte) if u32::from(c) < limit => out.push(byte),
                _ => return Err(malformed("encode")),
            }
        }
        Ok(Some(()))
    }))
}

fn malformed(function: &str) -> SparkError {
    SparkError::new(
        "MALFORMED_CHARACTER_CODING",
        format!("Invalid value found when performing `{function}`"),
    )
}

fn decode(call: &CallInfo<'_>) -> Built {
    let types = [BINARY, UTF8, DataType::Boolean, DataType::Boolean];
    rows::takes(call, &types, &UTF8)?;
    let charset = charset_of(call)?;
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let (Some(bytes), Some(charset)) = (row.bytes(0), charset) else {
            return Ok(None);
        };
        let bad = || malformed("decode");
        match charset {
            Charset::Utf8 => out.push_str(std::str::from_utf8(bytes).map_err(|_| bad())?),
            Charset::Ascii if !bytes.is_ascii() => return Err(bad()),
            Charset::Ascii | Charset::Latin1 => out.extend(bytes.iter().map(|b| char::from(*b))),
            Charset::Wide {
                bytes: 2,
                mut big,
                marked,
            } => {
                let (mut units, rest) = bytes.as_chunks::<2>();
                if !rest.is_empty() {
                    return Err(bad());
                }
                if marked && let Some((first, others)) = units.split_first() {
                    match first {
                        [0xfe, 0xff] => units = others,
                        [0xff, 0xfe] => (units, big) = (others, false),
                        _ => {}
                    }
                }
                let units = units.iter().map(|unit| match big {
                    true => u16::from_be_bytes(*unit),
                    false => u16::from_le_bytes(*unit),
                });
                for c in char::decode_utf16(units) {
                    out.push(c.map_err(|_| bad())?);
                }
            }
            Charset::Wide { .. } => {
                let (mut units, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(bad());
                }
                let mut big = true;
                if let Some((first, others)) = units.split_first() {
                    match first {
                        [0, 0, 0xfe, 0xff] => units = others,
                        [0xff, 0xfe, 0, 0] => (units, big) = (others, false),
                        _ => {}
                    }
                }
                for unit in units {
                    let code = match big {
                        true => u32::from_be_bytes(*unit),
                        false => u32::from_le_bytes(*unit),
                    };
                    out.push(char::from_u32(code).ok_or_else(bad)?);
                }
            }
        }
        Ok(Some(()))
    }))
}

/// Java's URLEncoder.
fn url_encode(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &UTF8)?;
    Ok(rows::text(Nulls::GiveNull, |row, out| {
        Ok(row.text(0).map(|text| {
            for byte in text.bytes() {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                        out.push(byte.into());
                    }
                    b' ' => out.push('+'),
                    _ => {
                        out.push('%');
                        hex_digits(&[byte], UPPER, out);
                    }
                }
            }
        }))
    }))
}

/// Java's URLDecoder; the mode says what becomes of what is none.
fn url_decode(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &UTF8)?;
    let ansi = call.ansi();
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        match unescaped(text.as_bytes()) {
            Some(bytes) => {
                out.push_str(&String::from_utf8_lossy(&bytes));
                Ok(Some(()))
            }
            None if ansi => Err(SparkError::new(
                "CANNOT_DECODE_URL",
                "The provided URL cannot be decoded.",
            )),
            None => Ok(None),
        }
    }))
}

fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => out.push(b' '),
            b'%' => {
                let (code, tail) = rest.split_first_chunk::<2>()?;
                let hex = |byte: u8| char::from(byte).to_digit(16);
                // `Integer.parseInt` takes a sign.
                let value = match code {
                    [b'+', low] => hex(*low)?,
                    [b'-', b'0'] => 0,
                    [high, low] => hex(*high)? << 4 | hex(*low)?,
                };
                out.push(u8::try_from(value).ok()?);
                rest = tail;
            }
            other => out.push(*other),
        }
    }
    Some(out)
}

/// Of a string always true: the engine has no other ones.
fn is_valid_utf8(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[UTF8], &DataType::Boolean)?;
    Ok(rows::truth(Nulls::GiveNull, |_| Ok(Some(true))))
}
