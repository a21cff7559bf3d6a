//! JSON as Jackson's reader takes it, with what Spark lets it take more: single quotes, and control
//! characters in strings. A token is checked when it is reached, and nothing behind the last one
//! asked for is looked at.

use std::borrow::Cow;

use crate::SparkError;

/// Why reading ends: the text is no JSON, or it is more than the engine takes.
#[derive(Debug)]
pub(crate) enum Stop {
    Bad,
    Error(SparkError),
}

pub(crate) type Read<T> = Result<T, Stop>;

/// What Jackson's `StreamReadConstraints` bound.
pub(crate) const DEEPEST: usize = 1000;
const LONGEST_NUMBER: usize = 1000;
const LONGEST_NAME: usize = 50_000;
const LONGEST_STRING: usize = 20_000_000;
/// How many characters Jackson has at once.
const BUFFER: usize = 4000;

fn too_long() -> Stop {
    Stop::Error(SparkError::new(
        "UNSUPPORTED_JSON_LENGTH",
        "a name, a string or a number of JSON is longer than the engine takes",
    ))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    StartObject,
    EndObject,
    StartArray,
    EndArray,
    Name,
    String,
    Int,
    Float,
    True,
    False,
    Null,
}

impl Token {
    pub(crate) fn starts(self) -> bool {
        matches!(self, Self::StartObject | Self::StartArray)
    }

    pub(crate) fn ends(self) -> bool {
        matches!(self, Self::EndObject | Self::EndArray)
    }
}

#[derive(Debug, Clone, Copy)]
struct Scope {
    object: bool,
    begun: bool,
}

/// A piece of the source: of a string without its quotes.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    start: usize,
    end: usize,
    escaped: bool,
}

/// What of JSON's grammar is taken more or less strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Control characters in strings. For functions that look into a text.
    OfFunctions,
    /// `NaN`, `Infinity` and their kin as numbers. For `from_json`.
    OfRecords,
}

/// Where a reader stood when it failed: what Jackson's reader gives when it is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Behind a name, at no string: nothing more.
    Named,
    /// In a string's middle, which Jackson finds only when the string is asked for: whatever stands
    /// there.
    InString,
    /// At a sign that has no place there: whatever stands behind it.
    AtSign,
    Elsewhere,
}

/// A reader, token by token. Texts are UTF-8 in which surrogates that are no pair stand in three
/// bytes each (WTF-8), as Java's strings may hold those.
pub(crate) struct Reader<'a> {
    source: &'a [u8],
    at: usize,
    scopes: Vec<Scope>,
    token: Option<Token>,
    /// The value of the name that was read last; Jackson looks at both at once.
    value: Option<Token>,
    name: Piece,
    piece: Piece,
    dialect: Dialect,
    failure: Failure,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self::of(source, Dialect::OfFunctions)
    }

    pub(crate) fn of(source: &'a str, dialect: Dialect) -> Self {
        Self {
            dialect,
            failure: Failure::Elsewhere,
            source: source.as_bytes(),
            at: 0,
            scopes: Vec::new(),
            token: None,
            value: None,
            name: Piece::default(),
            piece: Piece::default(),
        }
    }

    /// Of a reader that failed: where. It may go on from there, as Jackson's does.
    pub(crate) fn failure(&mut self) -> Failure {
        std::mem::replace(&mut self.failure, Failure::Elsewhere)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.source.len()
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.token
    }

    /// The next token; none behind the last.
    pub(crate) fn next(&mut self) -> Read<Option<Token>> {
        self.token = self.step()?;
        Ok(self.token)
    }

    fn step(&mut self) -> Read<Option<Token>> {
        if let Some(value) = self.value.take() {
            return self.entered(value).map(Some);
        }
        let Some(mut byte) = self.past_space()? else {
            return match self.scopes.is_empty() {
                true => Ok(None),
                false => Err(Stop::Bad),
            };
        };
        if matches!(byte, b']' | b'}') {
            let ended = match (byte, self.scopes.last().map(|scope| scope.object)) {
                (b']', Some(false)) => Token::EndArray,
                (b'}', Some(true)) => Token::EndObject,
                _ => return Err(self.bad_sign()),
            };
            self.scopes.pop();
            return Ok(Some(ended));
        }
        let mut inside = None;
        if let Some(scope) = self.scopes.last_mut() {
            inside = Some(scope.object);
            let begun = std::mem::replace(&mut scope.begun, true);
            if begun {
                if byte != b',' {
                    return Err(self.bad_sign());
                }
                byte = self.past_space()?.ok_or(Stop::Bad)?;
            }
        }
        if inside != Some(true) {
            let value = self.scalar(byte)?;
            return self.entered(value).map(Some);
        }
        if !matches!(byte, b'"' | b'\'') {
            return Err(self.bad_sign());
        }
        self.name = self.string(byte, LONGEST_NAME)?;
        self.failure = Failure::Named;
        if self.past_space()? != Some(b':') {
            return Err(Stop::Bad);
        }
        let byte = self.past_space()?.ok_or(Stop::Bad)?;
        self.value = Some(self.scalar(byte)?);
        self.failure = Failure::Elsewhere;
        Ok(Some(Token::Name))
    }

    fn bad_sign(&mut self) -> Stop {
        self.failure = Failure::AtSign;
        Stop::Bad
    }

    fn entered(&mut self, token: Token) -> Read<Token> {
        if token.starts() {
            self.scopes.push(Scope {
                object: token == Token::StartObject,
                begun: false,
            });
            if self.scopes.len() > DEEPEST {
                return Err(Stop::Bad);
            }
        }
        Ok(token)
    }

    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    /// The next byte that is no white space, and the place behind it.
    fn past_space(&mut self) -> Read<Option<u8>> {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => {}
                0..=b' ' => return Err(Stop::Bad),
                byte => return Ok(Some(byte)),
            }
        }
        Ok(None)
    }

    /// A value that begins with this byte, which has been read.
    fn scalar(&mut self, byte: u8) -> Read<Token> {
        match byte {
            b'"' | b'\'' => {
                // Jackson reads strings in single quotes at once, others when they are asked for.
                if byte == b'"' {
                    self.failure = Failure::InString;
                }
                self.piece = self.string(byte, LONGEST_STRING)?;
                self.failure = Failure::Elsewhere;
                Ok(Token::String)
            }
            b'[' => Ok(Token::StartArray),
            b'{' => Ok(Token::StartObject),
            b't' => self.word("rue", Token::True),
            b'f' => self.word("alse", Token::False),
            b'n' => self.word("ull", Token::Null),
            b'-' | b'+' | b'N' | b'I' if self.unnumbered(byte) => Ok(Token::Float),
            b'-' | b'0'..=b'9' => self.number(byte),
            _ => Err(Stop::Bad),
        }
    }

    fn word(&mut self, rest: &str, token: Token) -> Read<Token> {
        let source = self.source.get(self.at..).unwrap_or_default();
        let behind = source.strip_prefix(rest.as_bytes()).ok_or(Stop::Bad)?;
        self.at += rest.len();
        let behind = std::str::from_utf8(behind)
            .unwrap_or_default()
            .chars()
            .next();
        match behind.is_some_and(identifies) {
            true => Err(Stop::Bad),
            false => Ok(token),
        }
    }

    /// Takes `NaN`, `Infinity`, `-INF` and so on, where those are numbers.
    fn unnumbered(&mut self, first: u8) -> bool {
        let start = self.at - 1;
        let words: &[&str] = match first {
            b'N' => &["NaN"],
            b'I' => &["Infinity"],
            b'-' => &["-INF", "-Infinity"],
            _ => &["+INF", "+Infinity"],
        };
        let rest = self.source.get(start..).unwrap_or_default();
        let found = words.iter().find(|word| rest.starts_with(word.as_bytes()));
        let Some(word) = found.filter(|_| self.dialect == Dialect::OfRecords) else {
            return false;
        };
        let end = start + word.len();
        let behind = self.source.get(end..).unwrap_or_default();
        let behind = std::str::from_utf8(behind)
            .unwrap_or_default()
            .chars()
            .next();
        if behind.is_some_and(identifies) {
            return false;
        }
        self.at = end;
        self.piece = Piece {
            start,
            end,
            escaped: false,
        };
        true
    }

    fn digits(&mut self) -> usize {
        let rest = self.source.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn number(&mut self, first: u8) -> Read<Token> {
        let start = self.at - 1;
        if first != b'-' {
            self.at -= 1;
        }
        let zero = self.peek() == Some(b'0');
        let mut length = self.digits();
        if length == 0 || (zero && length > 1) {
            return Err(Stop::Bad);
        }
        let mut token = Token::Int;
        if self.peek() == Some(b'.') {
            self.at += 1;
            token = Token::Float;
            let fraction = self.digits();
            if fraction == 0 {
                return Err(Stop::Bad);
            }
            length += fraction;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            token = Token::Float;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            let exponent = self.digits();
            if exponent == 0 {
                return Err(Stop::Bad);
            }
            length += exponent;
        }
        // A number that is all of the text ends with it, or with white space.
        let alone = matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b'\r'));
        if self.scopes.is_empty() && !alone {
            return Err(Stop::Bad);
        }
        // Of a fraction Jackson counts no zero before the point, and no first digit at all where
        // the number goes over the end of its buffer.
        length -= usize::from(zero && token == Token::Float);
        if length > LONGEST_NUMBER {
            let over = token == Token::Float && self.at >= BUFFER;
            return Err(match over && length == LONGEST_NUMBER + 1 {
                true => too_long(),
                false => Stop::Bad,
            });
        }
        self.piece = Piece {
            start,
            end: self.at,
            escaped: false,
        };
        Ok(token)
    }

    /// A string behind its opening quote.
    fn string(&mut self, quote: u8, longest: usize) -> Read<Piece> {
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.source.get(self.at..).unwrap_or_default();
            let found = memchr::memchr2(quote, b'\\', rest);
            if self.dialect == Dialect::OfRecords {
                let plain = rest.get(..found.unwrap_or(rest.len())).unwrap_or_default();
                if let Some(control) = plain.iter().position(|byte| *byte < b' ') {
                    self.at += control + 1;
                    return Err(Stop::Bad);
                }
            }
            let Some(found) = found else {
                self.at = self.source.len();
                return Err(Stop::Bad);
            };
            self.at += found + 1;
            if rest.get(found) == Some(&quote) {
                break;
            }
            escaped = true;
            let byte = self.peek().ok_or(Stop::Bad)?;
            self.at += 1;
            match byte {
                b'b' | b't' | b'n' | b'f' | b'r' | b'"' | b'/' | b'\\' | b'\'' => {}
                b'u' => {
                    let rest = self.source.get(self.at..).unwrap_or_default();
                    let Some((_, used)) = unit(rest) else {
                        self.at += wrong_digit(rest);
                        return Err(Stop::Bad);
                    };
                    self.at += used;
                }
                _ => return Err(Stop::Bad),
            }
        }
        let end = self.at - 1;
        match end - start > longest {
            true => Err(too_long()),
            false => Ok(Piece {
                start,
                end,
                escaped,
            }),
        }
    }

    fn text(&self, piece: Piece) -> Cow<'a, [u8]> {
        let raw = self.source.get(piece.start..piece.end).unwrap_or_default();
        if piece.escaped {
            Cow::Owned(unescaped(raw))
        } else {
            Cow::Borrowed(raw)
        }
    }

    /// The name of the field that the reader is at.
    pub(crate) fn name(&self) -> Cow<'a, [u8]> {
        self.text(self.name)
    }

    /// The value of a string, or the text of a number.
    pub(crate) fn value(&self) -> Cow<'a, [u8]> {
        self.text(self.piece)
    }

    /// Of a number: its text.
    pub(crate) fn number_text(&self) -> &'a str {
        let raw = self.source.get(self.piece.start..self.piece.end);
        std::str::from_utf8(raw.unwrap_or_default()).unwrap_or_default()
    }

    /// To the end of the array or object that the reader is at the start of; else nothing.
    pub(crate) fn skip_children(&mut self) -> Read<()> {
        let mut open = match self.token {
            Some(token) if token.starts() => 1,
            _ => return Ok(()),
        };
        while open > 0 {
            match self.next()?.ok_or(Stop::Bad)? {
                token if token.starts() => open += 1,
                token if token.ends() => open -= 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// `Character.isJavaIdentifierPart`, nearly: behind a word only what is no separator stands.
fn identifies(c: char) -> bool {
    match c {
        c if c.is_ascii() => {
            c.is_ascii_alphanumeric()
                || matches!(c, '$' | '_' | '\0'..='\u{8}' | '\u{e}'..='\u{1b}' | '\u{7f}')
        }
        c => c.is_alphanumeric() || ('\u{80}'..='\u{9f}').contains(&c),
    }
}

/// The UTF-16 unit of four hexadecimal digits, and how many bytes those are. Jackson looks at the
/// low eight bits of each digit only.
fn unit(text: &[u8]) -> Option<(u16, usize)> {
    let (mut value, mut units, mut used) = (0u16, 0, 0);
    let valid = match std::str::from_utf8(text.get(..text.len().min(16))?) {
        Ok(valid) => valid,
        Err(e) => std::str::from_utf8(text.get(..e.valid_up_to())?).ok()?,
    };
    for c in valid.chars() {
        for code in c.encode_utf16(&mut [0; 2]) {
            let digit = char::from(u8::try_from(*code & 0xff).ok()?).to_digit(16)?;
            value = value << 4 | u16::try_from(digit).ok()?;
            units += 1;
        }
        used += c.len_utf8();
        if units >= 4 {
            return (units == 4).then_some((value, used));
        }
    }
    None
}

/// Up to and with the first of four characters that is no hexadecimal digit to Jackson.
fn wrong_digit(text: &[u8]) -> usize {
    let valid = std::str::from_utf8(text).unwrap_or_default();
    let digit = |c: char| {
        let low = |unit: &u16| u8::try_from(*unit & 0xff).map(char::from);
        let mut units = [0; 2];
        let mut units = c.encode_utf16(&mut units).iter();
        units.all(|unit| low(unit).is_ok_and(|c| c.is_ascii_hexdigit()))
    };
    let wrong = valid.char_indices().find(|(_, c)| !digit(*c));
    wrong.map_or(text.len(), |(at, c)| at + c.len_utf8())
}

/// Escapes undone; they have been checked.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    let mut high = None;
    while let Some(found) = memchr::memchr(b'\\', rest) {
        let (before, behind) = rest.split_at(found);
        if !before.is_empty() {
            high = None;
        }
        out.extend(before);
        let Some((escape, behind)) = behind.get(1..).and_then(<[u8]>::split_first) else {
            return out;
        };
        rest = behind;
        let plain = match escape {
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            b'u' => {
                let (code, used) = unit(rest).unwrap_or_default();
                rest = rest.get(used..).unwrap_or_default();
                high = push_unit(code, high, &mut out);
                continue;
            }
            other => *other,
        };
        high = None;
        out.push(plain);
    }
    out.extend(rest);
    out
}

/// Appends a UTF-16 unit, joined with a high surrogate before it; gives the one that it is.
fn push_unit(code: u16, high: Option<u16>, out: &mut Vec<u8>) -> Option<u16> {
    if let (0xdc00..=0xdfff, Some(high)) = (code, high) {
        out.truncate(out.len().saturating_sub(3));
        let pair = char::decode_utf16([high, code]).next();
        let c = pair.and_then(Result::ok).unwrap_or_default();
        out.extend(c.encode_utf8(&mut [0; 4]).bytes());
        return None;
    }
    match char::from_u32(code.into()) {
        Some(c) => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        None => {
            let [first, second] = code.to_be_bytes();
            out.push(0xe0 | first >> 4);
            out.push(0x80 | (first & 0xf) << 2 | second >> 6);
            out.push(0x80 | second & 0x3f);
        }
    }
    (0xd800..0xdc00).contains(&code).then_some(code)
}
