//! JSON as Jackson's generators write it: the one of bytes, which escapes what is outside of the
//! first plane, and the one of characters, which does not.

use std::fmt::Write;

use coffer_protocol::plan::FloatText;

use super::reader::{DEEPEST, Read, Reader, Stop, Token};
use crate::{SparkError, format};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generator {
    OfBytes,
    OfChars,
}

#[derive(Debug, Clone, Copy)]
struct Scope {
    object: bool,
    index: usize,
}

/// What is written, in WTF-8 until it is taken.
pub(crate) struct Writer {
    pub(crate) out: Vec<u8>,
    generator: Generator,
    floats: FloatText,
    scopes: Vec<Scope>,
    root: usize,
    named: bool,
}

impl Writer {
    pub(crate) fn new(generator: Generator, floats: FloatText) -> Self {
        Self {
            out: Vec::new(),
            generator,
            floats,
            scopes: Vec::new(),
            root: 0,
            named: false,
        }
    }

    /// Nothing is written.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.scopes.clear();
        self.root = 0;
        self.named = false;
    }

    /// The text; Jackson fails on surrogates that are no pair.
    pub(crate) fn text(&self) -> Read<&str> {
        std::str::from_utf8(&self.out).map_err(|_| lone(&self.out))
    }

    /// What stands before a value.
    fn before(&mut self) {
        if std::mem::take(&mut self.named) {
            return;
        }
        let separator = match self.scopes.last_mut() {
            None => {
                self.root += 1;
                (self.root > 1).then_some(b' ')
            }
            Some(scope) => {
                scope.index += 1;
                (scope.index > 1).then_some(b',')
            }
        };
        self.out.extend(separator);
    }

    pub(crate) fn start(&mut self, object: bool) -> Read<()> {
        self.before();
        self.scopes.push(Scope { object, index: 0 });
        if self.scopes.len() > DEEPEST {
            return Err(Stop::Bad);
        }
        self.out.push(if object { b'{' } else { b'[' });
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        let object = self.scopes.pop().is_some_and(|scope| scope.object);
        self.out.push(if object { b'}' } else { b']' });
    }

    pub(crate) fn name(&mut self, name: &[u8]) {
        self.before();
        self.quoted(name);
        self.out.push(b':');
        self.named = true;
    }

    pub(crate) fn string(&mut self, text: &[u8]) {
        self.before();
        self.quoted(text);
    }

    /// As it is, whatever stands before.
    pub(crate) fn raw(&mut self, text: &[u8]) {
        self.out.extend(text);
    }

    /// A value as it is.
    pub(crate) fn raw_value(&mut self, text: &[u8]) {
        self.before();
        self.out.extend(text);
    }

    pub(crate) fn double(&mut self, value: f64) {
        let mut text = String::new();
        format::double(value, self.floats, &mut text);
        if value.is_finite() {
            self.raw_value(text.as_bytes());
        } else {
            self.string(text.as_bytes());
        }
    }

    fn quoted(&mut self, text: &[u8]) {
        self.out.push(b'"');
        let mut rest = text;
        let escapes = |byte: &u8| {
            *byte < 0x20
                || matches!(byte, b'"' | b'\\')
                || (self.generator == Generator::OfBytes && *byte >= 0xed)
        };
        while let Some(found) = rest.iter().position(escapes) {
            let (plain, behind) = rest.split_at(found);
            self.out.extend(plain);
            let used = escaped(behind, &mut self.out);
            rest = behind.get(used..).unwrap_or_default();
        }
        self.out.extend(rest);
        self.out.push(b'"');
    }

    /// The value that the reader is at, all of it.
    pub(crate) fn copy(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        let mut open = 0usize;
        loop {
            match reader.token().ok_or(Stop::Bad)? {
                Token::Name if open == 0 => return Err(Stop::Bad),
                Token::Name => self.name(&reader.name()),
                token if token.starts() => {
                    self.start(token == Token::StartObject)?;
                    open += 1;
                }
                token if token.ends() => {
                    open = open.checked_sub(1).ok_or(Stop::Bad)?;
                    self.end();
                }
                Token::String => self.string(&reader.value()),
                Token::Int => match reader.number_text() {
                    "-0" => self.raw_value(b"0"),
                    digits => self.raw_value(digits.as_bytes()),
                },
                Token::Float => self.double(float(reader.number_text()).ok_or(Stop::Bad)?),
                Token::True => self.raw_value(b"true"),
                Token::False => self.raw_value(b"false"),
                _ => self.raw_value(b"null"),
            }
            if open == 0 {
                return Ok(());
            }
            reader.next()?;
        }
    }
}

/// The value of a number's text.
pub(crate) fn float(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+INF" | "+Infinity" => Some(f64::INFINITY),
        "-INF" | "-Infinity" => Some(f64::NEG_INFINITY),
        digits => digits.parse().ok(),
    }
}

/// Appends the escape of what stands first, and says how many bytes that is.
fn escaped(text: &[u8], out: &mut Vec<u8>) -> usize {
    let Some(first) = text.first().copied() else {
        return 0;
    };
    let mut unit = |code: u16| {
        let mut hex = String::new();
        let _ = write!(hex, "\\u{code:04X}");
        out.extend(hex.bytes());
    };
    match first {
        0xf0.. => {
            let bytes = text.get(..4).unwrap_or_default();
            let whole = std::str::from_utf8(bytes).unwrap_or_default();
            for code in whole.encode_utf16() {
                unit(code);
            }
            4
        }
        0xed.. => {
            let bytes = text.get(..3).unwrap_or_default();
            match (std::str::from_utf8(bytes), bytes) {
                (Err(_), [_, second, third]) => {
                    unit(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f));
                }
                _ => out.extend(bytes),
            }
            3
        }
        first => {
            let short = match first {
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                12 => b'f',
                b'\r' => b'r',
                b'"' | b'\\' => first,
                _ => {
                    unit(first.into());
                    return 1;
                }
            };
            out.extend([b'\\', short]);
            1
        }
    }
}

/// What Jackson does about a text with a surrogate that is no pair: it fails, but for two low ones
/// together, which it writes as bytes that are no UTF-8.
fn lone(text: &[u8]) -> Stop {
    let low =
        |at: usize| matches!(text.get(at..at + 3), Some([0xed, second, _]) if *second >= 0xb0);
    let mut at = 0;
    while at < text.len() {
        match text.get(at).copied().unwrap_or_default() {
            0xed if text.get(at + 1).is_some_and(|second| *second >= 0xa0) => {
                return match low(at) && low(at + 3) {
                    true => Stop::Error(SparkError::new(
                        "UNSUPPORTED_SURROGATES",
                        "surrogates of UTF-16 that are no pair",
                    )),
                    false => Stop::Bad,
                };
            }
            0..=0x7f => at += 1,
            0x80..=0xdf => at += 2,
            0xe0..=0xef => at += 3,
            0xf0.. => at += 4,
        }
    }
    Stop::Bad
}
