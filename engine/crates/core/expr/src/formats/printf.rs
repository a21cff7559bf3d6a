//! `format_string`: the conversions of `java.util.Formatter` in common use, for Locale.US.

use arrow::datatypes::DataType;
use coffer_protocol::plan::FloatText;

use super::{Built, UTF8, literal_text};
use crate::{
    format,
    function::CallInfo,
    rows::{self, Nulls, Row},
};

/// The widest that a value is made.
const WIDEST: usize = 1000;

#[derive(Debug)]
enum Piece {
    Plain(String),
    Value(Spec),
}

#[derive(Debug)]
struct Spec {
    /// From 1: the place of the argument behind the format.
    argument: usize,
    flags: Vec<char>,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

impl Spec {
    fn has(&self, flag: char) -> bool {
        self.flags.contains(&flag)
    }
}

pub(super) fn format_string(call: &CallInfo<'_>) -> Built {
    let ([UTF8, types @ ..], &UTF8) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    let refused = || call.unsupported("this format");
    let pieces = match literal_text(call, 0)? {
        Some(text) => Some(pieces(text).ok_or_else(refused)?),
        None => None,
    };
    for piece in pieces.iter().flatten() {
        let Piece::Value(spec) = piece else { continue };
        let of = spec.argument.checked_sub(1).and_then(|at| types.get(at));
        let whole = of.is_some_and(|of| {
            of.is_integer() || matches!(of, DataType::Date32 | DataType::Timestamp(..))
        });
        let takes = match (spec.conversion, of) {
            (_, None) => false,
            ('s' | 'b', Some(of)) => {
                whole || of.is_floating() || matches!(*of, UTF8 | DataType::Boolean)
            }
            ('d' | 'x' | 'X' | 'o', _) => whole,
            (_, Some(of)) => of.is_floating(),
        };
        if !takes {
            return Err(refused());
        }
    }
    let (types, floats) = (types.to_vec(), call.float_text);
    Ok(rows::text(Nulls::AreGiven, move |row, out| {
        let (Some(pieces), Some(_)) = (&pieces, row.text(0)) else {
            return Ok(None);
        };
        for piece in pieces {
            match piece {
                Piece::Plain(text) => out.push_str(text),
                Piece::Value(spec) => {
                    let of = types.get(spec.argument - 1).unwrap_or(&UTF8);
                    value(spec, of, row, floats, out);
                }
            }
        }
        Ok(Some(()))
    }))
}

/// The format's parts; `None` if there is one that is not done here.
fn pieces(text: &str) -> Option<Vec<Piece>> {
    let (mut pieces, mut rest, mut next) = (Vec::new(), text, 1);
    while let Some((before, behind)) = rest.split_once('%') {
        pieces.push(Piece::Plain(before.to_owned()));
        rest = behind;
        let number = |text: &str| {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, behind) = text.split_at(digits);
            (digits.to_owned(), behind.len())
        };
        let behind_of = |left: usize| rest.get(rest.len() - left..);
        let mut argument = None;
        let (digits, left) = number(rest);
        if let Some(behind) = behind_of(left).and_then(|behind| behind.strip_prefix('$')) {
            argument = Some(digits.parse().ok().filter(|index| *index > 0)?);
            rest = behind;
        }
        let flags = rest.len()
            - rest
                .trim_start_matches(['-', '#', '+', ' ', '0', ',', '('])
                .len();
        let (flags, behind) = rest.split_at(flags);
        let flags: Vec<char> = flags.chars().collect();
        rest = behind;
        let (digits, left) = number(rest);
        let width: usize = match digits.as_str() {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        rest = rest.get(rest.len() - left..)?;
        let mut precision = None;
        if let Some(behind) = rest.strip_prefix('.') {
            let (digits, left) = number(behind);
            precision = Some(digits.parse().ok()?);
            rest = behind.get(behind.len() - left..)?;
        }
        let conversion = rest.chars().next()?;
        rest = rest.get(conversion.len_utf8()..)?;
        if matches!(conversion, 'n' | '%') {
            if argument.is_some() || !flags.is_empty() || width > 0 || precision.is_some() {
                return None;
            }
            let plain = if conversion == 'n' { "\n" } else { "%" };
            pieces.push(Piece::Plain(plain.to_owned()));
            continue;
        }
        let spec = Spec {
            argument: argument.unwrap_or(next),
            flags,
            width,
            precision,
            conversion,
        };
        if argument.is_none() {
            next += 1;
        }
        if !is_done(&spec) {
            return None;
        }
        pieces.push(Piece::Value(spec));
    }
    pieces.push(Piece::Plain(rest.to_owned()));
    Some(pieces)
}

/// Whether Java takes it, and so do we.
fn is_done(spec: &Spec) -> bool {
    let allowed: &[char] = match spec.conversion {
        's' | 'b' => &['-'],
        'd' | 'f' => &['-', '+', ' ', '0', ',', '('],
        'x' | 'X' | 'o' => &['-', '0', '#'],
        _ => return false,
    };
    let once = spec.flags.iter().enumerate().all(|(at, flag)| {
        let earlier = spec.flags.get(..at).unwrap_or_default();
        allowed.contains(flag) && !earlier.contains(flag)
    });
    let padded = spec.has('-') || spec.has('0');
    let precise = spec.precision.is_none() || matches!(spec.conversion, 's' | 'b' | 'f');
    once && precise
        && !(spec.has('-') && spec.has('0'))
        && !(spec.has('+') && spec.has(' '))
        && !(padded && spec.width == 0)
        && spec.width <= WIDEST
        && spec.precision.is_none_or(|precision| precision <= WIDEST)
}

fn value(spec: &Spec, of: &DataType, row: &Row<'_>, floats: FloatText, out: &mut String) {
    let index = spec.argument;
    let mut text = String::new();
    if row.at(index).is_none() {
        let null = match spec.conversion {
            'b' => "false",
            'X' => "NULL",
            _ => "null",
        };
        return justified(spec, cut(null, spec.precision), out);
    }
    match spec.conversion {
        'd' => number(spec, row.long(index).unwrap_or(0), &mut text),
        'x' | 'X' | 'o' => bits(spec, of, row.long(index).unwrap_or(0), &mut text),
        'f' => float(spec, row.double(index).unwrap_or(0.0), floats, &mut text),
        kind => {
            match (of, kind) {
                (DataType::Boolean, _) => {
                    text.push_str(&row.truth(index).unwrap_or(false).to_string());
                }
                (_, 'b') => text.push_str("true"),
                (DataType::Float64, _) => {
                    format::double(row.double(index).unwrap_or(0.0), floats, &mut text);
                }
                (DataType::Float32, _) => {
                    let value = row.double(index).unwrap_or(0.0);
                    #[expect(clippy::cast_possible_truncation, reason = "it was a float")]
                    format::float(value as f32, floats, &mut text);
                }
                (&UTF8, _) => text.push_str(row.text(index).unwrap_or_default()),
                _ => text.push_str(&row.long(index).unwrap_or(0).to_string()),
            }
            return justified(spec, cut(&text, spec.precision), out);
        }
    }
    justified(spec, text, out);
}

fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// So many units of UTF-16; half a pair becomes a question mark.
fn cut(text: &str, most: Option<usize>) -> String {
    let mut left = most.unwrap_or(usize::MAX);
    let mut out = String::new();
    for c in text.chars() {
        match left.checked_sub(c.len_utf16()) {
            Some(rest) => {
                out.push(c);
                left = rest;
            }
            None => {
                out.extend((left > 0).then_some('?'));
                break;
            }
        }
    }
    out
}

fn justified(spec: &Spec, text: String, out: &mut String) {
    let spaces = spec.width.saturating_sub(units(&text));
    if spec.has('-') {
        out.push_str(&text);
    }
    out.extend(std::iter::repeat_n(' ', spaces));
    if !spec.has('-') {
        out.push_str(&text);
    }
}

/// A magnitude with its sign, groups and zeros.
fn signed(spec: &Spec, negative: bool, magnitude: &str, out: &mut String) {
    let enclosed = negative && spec.has('(');
    match (negative, enclosed) {
        (true, true) => out.push('('),
        (true, false) => out.push('-'),
        (false, _) if spec.has('+') => out.push('+'),
        (false, _) if spec.has(' ') => out.push(' '),
        (false, _) => {}
    }
    let (whole, fraction) = magnitude.split_at(magnitude.find('.').unwrap_or(magnitude.len()));
    let mut body = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if spec.has(',') && at > 0 && (whole.len() - at) % 3 == 0 {
            body.push(',');
        }
        body.push(digit);
    }
    body.push_str(fraction);
    let width = spec.width - usize::from(enclosed && spec.width > 0);
    if spec.has('0') {
        let zeros = width.saturating_sub(out.len() + body.len());
        out.extend(std::iter::repeat_n('0', zeros));
    }
    out.push_str(&body);
    out.extend(enclosed.then_some(')'));
}

fn number(spec: &Spec, value: i64, out: &mut String) {
    signed(spec, value < 0, &value.unsigned_abs().to_string(), out);
}

/// Of a negative number: the bits of its type.
fn bits(spec: &Spec, of: &DataType, value: i64, out: &mut String) {
    let width = match of {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        DataType::Int32 | DataType::Date32 => 32,
        _ => 64,
    };
    let value = value.cast_unsigned() & (u64::MAX >> (64 - width));
    let (prefix, digits) = match spec.conversion {
        'o' => ("0", format!("{value:o}")),
        'x' => ("0x", format!("{value:x}")),
        _ => ("0X", format!("{value:X}")),
    };
    if spec.has('#') {
        out.push_str(prefix);
    }
    if spec.has('0') {
        let zeros = spec.width.saturating_sub(out.len() + digits.len());
        out.extend(std::iter::repeat_n('0', zeros));
    }
    out.push_str(&digits);
}

fn float(spec: &Spec, value: f64, floats: FloatText, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        let bare = Spec {
            flags: spec
                .flags
                .iter()
                .copied()
                .filter(|flag| !"0,".contains(*flag))
                .collect(),
            ..*spec
        };
        signed(&bare, value < 0.0, "Infinity", out);
    } else {
        let magnitude = format::half_up(value.abs(), spec.precision.unwrap_or(6), floats);
        signed(spec, value.is_sign_negative(), &magnitude, out);
    }
}
