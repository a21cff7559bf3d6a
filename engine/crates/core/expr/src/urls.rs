//! `parse_url`: what `java.net.URI` takes for a URI (RFC 2396 with RFC 2732, and Java's
//! deviations), and its parts as they stand in the text.

use datafusion_common::ScalarValue;

use arrow::datatypes::DataType;

use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Nulls},
};

pub(crate) const FUNCTIONS: &[Entry] = &[entry("parse_url", Fallible::Ansi, parse_url)];

const UTF8: DataType = DataType::Utf8;

fn parse_url(call: &CallInfo<'_>) -> Result<Kernel, Unsupported> {
    if call.ret != &UTF8 || !matches!(call.types, [UTF8, UTF8] | [UTF8, UTF8, UTF8]) {
        return Err(call.bad_types());
    }
    let keyed = call.types.len() == 3;
    if keyed {
        match call.literal(2)? {
            ScalarValue::Utf8(Some(key)) if key.contains(SIGNS) => {
                return Err(call.unsupported("a key that is a regular expression"));
            }
            _ => {}
        }
    }
    let fails = call.ansi();
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let (Some(url), Some(part)) = (row.text(0), row.text(1)) else {
            return Ok(None);
        };
        if keyed && part != "QUERY" {
            return Ok(None);
        }
        let Some(uri) = Uri::parse(url) else {
            return match fails {
                true => Err(SparkError::new(
                    "INVALID_URL",
                    format!(
                        "The url is invalid: {url}. Use `try_parse_url` to tolerate invalid URL \
                         and return NULL instead."
                    ),
                )),
                false => Ok(None),
            };
        };
        let whole;
        let found = match part {
            "HOST" => uri.host,
            "PATH" => uri.path,
            "QUERY" => uri.query,
            "REF" => uri.fragment,
            "PROTOCOL" => uri.scheme,
            "AUTHORITY" => uri.authority,
            "USERINFO" => uri.user,
            "FILE" => match (uri.path, uri.query) {
                (Some(path), Some(query)) => {
                    whole = format!("{path}?{query}");
                    Some(whole.as_str())
                }
                (path, _) => path,
            },
            _ => None,
        };
        let found = match (found, keyed) {
            (Some(query), true) => row.text(2).and_then(|key| of_key(query, key)),
            (found, _) => found,
        };
        Ok(found.map(|text| out.push_str(text)))
    }))
}

/// What has a meaning in a regular expression of Java's.
const SIGNS: [char; 14] = [
    '\\', '.', '[', ']', '{', '}', '(', ')', '*', '+', '?', '^', '$', '|',
];

/// The first match of `(&|^)key=([^&]*)`.
fn of_key<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    let value = |at: usize| {
        let rest = query.get(at..)?.strip_prefix(key)?.strip_prefix('=')?;
        rest.split('&').next()
    };
    let first = query.starts_with('&').then(|| value(1)).flatten();
    first
        .or_else(|| value(0))
        .or_else(|| query.match_indices('&').find_map(|(at, _)| value(at + 1)))
}

#[derive(Default)]
struct Uri<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    user: Option<&'a str>,
    host: Option<&'a str>,
    path: Option<&'a str>,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

/// A set of characters: ASCII ones, and whether escapes and others may stand among them.
#[derive(Clone, Copy)]
struct Set {
    signs: &'static str,
    letters: bool,
    escapes: bool,
}

const fn set(signs: &'static str, letters: bool, escapes: bool) -> Set {
    Set {
        signs,
        letters,
        escapes,
    }
}

const ALPHANUM: Set = set("", true, false);
const LABEL: Set = set("-", true, false);
const SCHEME: Set = set("+-.", true, false);
const SCOPE: Set = set("_.", true, false);
const URIC: Set = set(";/?:@&=+$,[]-_.!~*'()", true, true);
const PATH: Set = set(":@&=+$,;/-_.!~*'()", true, true);
const USER: Set = set(";:&=+$,-_.!~*'()", true, true);
const REGISTRY: Set = set("$,;:@&=+-_.!~*'()", true, true);
const SERVER: Set = set(";:&=+$,-_.!~*'().@[]", true, true);
const SERVER_PERCENT: Set = set(";:&=+$,-_.!~*'().@[]%", true, true);

/// Java's exception.
struct Malformed;

type Parsed<T> = Result<T, Malformed>;

impl Set {
    fn has(self, byte: u8) -> bool {
        (self.letters && byte.is_ascii_alphanumeric()) || self.signs.as_bytes().contains(&byte)
    }

    /// How many bytes from the front are of the set.
    fn scan(self, text: &str) -> Parsed<usize> {
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            if u8::try_from(c).is_ok_and(|byte| byte.is_ascii() && self.has(byte)) {
                continue;
            }
            match c {
                '%' if self.escapes => {
                    let digits = text.as_bytes().get(at + 1..at + 3).unwrap_or_default();
                    if digits.len() < 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
                        return Err(Malformed);
                    }
                    chars.nth(1);
                }
                c if self.escapes && visible(c) => {}
                _ => return Ok(at),
            }
        }
        Ok(text.len())
    }

    fn all(self, text: &str) -> Parsed<&str> {
        match self.scan(text)? == text.len() {
            true => Ok(text),
            false => Err(Malformed),
        }
    }
}

/// Outside of ASCII, neither a control nor a space.
fn visible(c: char) -> bool {
    c > '\u{80}'
        && !matches!(
            c,
            '\u{81}'..='\u{a0}'
                | '\u{1680}'
                | '\u{2000}'..='\u{200a}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{3000}'
        )
}

/// Before the first of the signs, and from there on.
fn until<'a>(text: &'a str, signs: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.find(signs).unwrap_or(text.len()))
}

impl<'a> Uri<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut uri = Self::default();
        uri.read(text).ok().map(|()| uri)
    }

    fn read(&mut self, text: &'a str) -> Parsed<()> {
        let (before, behind) = until(text, &['/', '?', '#', ':']);
        let rest = match behind.strip_prefix(':') {
            Some(rest) => {
                if !before.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    return Err(Malformed);
                }
                self.scheme = Some(SCHEME.all(before)?);
                match rest.starts_with('/') {
                    true => self.hierarchical(rest)?,
                    false => {
                        let (opaque, rest) = until(rest, &['#']);
                        if opaque.is_empty() {
                            return Err(Malformed);
                        }
                        URIC.all(opaque)?;
                        rest
                    }
                }
            }
            None => self.hierarchical(text)?,
        };
        match rest.strip_prefix('#') {
            Some(fragment) => self.fragment = Some(URIC.all(fragment)?),
            None if rest.is_empty() => {}
            None => return Err(Malformed),
        }
        Ok(())
    }

    fn hierarchical(&mut self, text: &'a str) -> Parsed<&'a str> {
        let mut rest = text;
        if let Some(behind) = text.strip_prefix("//") {
            let (authority, path) = until(behind, &['/', '?', '#']);
            if authority.is_empty() && path.is_empty() {
                return Err(Malformed);
            }
            if !authority.is_empty() {
                self.authority(authority)?;
            }
            rest = path;
        }
        let (path, rest) = until(rest, &['?', '#']);
        self.path = Some(PATH.all(path)?);
        let Some(query) = rest.strip_prefix('?') else {
            return Ok(rest);
        };
        let (query, rest) = until(query, &['#']);
        self.query = Some(URIC.all(query)?);
        Ok(rest)
    }

    /// A server's, or else a registry's name.
    fn authority(&mut self, text: &'a str) -> Parsed<()> {
        let bracket = text.find(']').is_none_or(|at| at > 0);
        let server = match bracket {
            true => SERVER_PERCENT,
            false => SERVER,
        };
        let server = server.scan(text)? == text.len();
        let registry = REGISTRY.scan(text)? == text.len();
        if server && self.server(text).is_ok() {
            self.authority = Some(text);
            return Ok(());
        }
        (self.user, self.host) = (None, None);
        match registry {
            true => {
                self.authority = Some(text);
                Ok(())
            }
            false => Err(Malformed),
        }
    }

    fn server(&mut self, text: &'a str) -> Parsed<()> {
        let mut rest = text;
        if let Some((user, behind)) = text.split_once('@') {
            self.user = Some(USER.all(user)?);
            rest = behind;
        }
        let port = match rest.strip_prefix('[') {
            Some(inner) => {
                let (address, port) = inner.split_once(']').ok_or(Malformed)?;
                if address.is_empty() {
                    return Err(Malformed);
                }
                match address.split_once('%') {
                    Some((numbers, scope)) if !numbers.is_empty() => {
                        if scope.is_empty() {
                            return Err(Malformed);
                        }
                        six(numbers)?;
                        SCOPE.all(scope)?;
                    }
                    _ => six(address)?,
                }
                self.host = rest.get(..rest.len() - port.len());
                port
            }
            None => {
                let used = match four(rest, false) {
                    Some(used) if used == rest.len() || behind(rest, used).starts_with(':') => used,
                    _ => name(rest)?,
                };
                self.host = rest.get(..used);
                behind(rest, used)
            }
        };
        match port.strip_prefix(':') {
            None if port.is_empty() => Ok(()),
            None => Err(Malformed),
            Some("") => Ok(()),
            Some(digits) => {
                let all = digits.bytes().all(|byte| byte.is_ascii_digit());
                match all && digits.parse::<i32>().is_ok() {
                    true => Ok(()),
                    false => Err(Malformed),
                }
            }
        }
    }
}

fn behind(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

/// A host's name; what follows it, if anything does, is a port.
fn name(text: &str) -> Parsed<usize> {
    let (mut at, mut last) = (0, None);
    while at < text.len() {
        let letters = ALPHANUM.scan(behind(text, at))?;
        if letters == 0 {
            break;
        }
        last = Some(at);
        at += letters;
        let more = LABEL.scan(behind(text, at))?;
        if more > 0 {
            at += more;
            if text.get(..at).is_some_and(|label| label.ends_with('-')) {
                return Err(Malformed);
            }
        }
        if !behind(text, at).starts_with('.') {
            break;
        }
        at += 1;
    }
    let last = last.ok_or(Malformed)?;
    let rest = behind(text, at);
    if !(rest.is_empty() || rest.starts_with(':')) {
        return Err(Malformed);
    }
    let numeric = !behind(text, last).starts_with(|c: char| c.is_ascii_alphabetic());
    match last > 0 && numeric {
        true => Err(Malformed),
        false => Ok(at),
    }
}

/// An IPv4 address at the front, as long as its digits and points go.
fn four(text: &str, strict: bool) -> Option<usize> {
    let of_it = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !of_it(c)).unwrap_or(text.len());
    if strict && end != text.len() {
        return None;
    }
    let mut count = 0;
    for part in text.get(..end)?.split('.') {
        count += 1;
        // An integer of Java's, as digits.
        if part.is_empty() || part.parse::<i32>().is_ok_and(|byte| byte > 255) {
            return None;
        }
        part.parse::<i32>().ok()?;
    }
    (count == 4).then_some(end)
}

/// An IPv6 address, all of the text.
fn six(text: &str) -> Parsed<()> {
    let mut bytes = 0;
    let (rest, compressed) = match sequence(text, &mut bytes)? {
        Some(rest) => match (rest.strip_prefix("::"), rest.strip_prefix(':')) {
            (Some(rest), _) => (post(rest, &mut bytes)?, true),
            (None, Some(rest)) => (mapped(rest, &mut bytes)?, false),
            (None, None) => (rest, false),
        },
        None => match text.strip_prefix("::") {
            Some(rest) => (post(rest, &mut bytes)?, true),
            None => (text, false),
        },
    };
    let whole = rest.is_empty() && if compressed { bytes < 16 } else { bytes == 16 };
    if whole { Ok(()) } else { Err(Malformed) }
}

/// Behind the two colons.
fn post<'a>(text: &'a str, bytes: &mut usize) -> Parsed<&'a str> {
    if text.is_empty() {
        return Ok(text);
    }
    match sequence(text, bytes)? {
        Some(rest) => match rest.strip_prefix(':') {
            Some(rest) => mapped(rest, bytes),
            None => Ok(rest),
        },
        None => mapped(text, bytes),
    }
}

fn mapped<'a>(text: &'a str, bytes: &mut usize) -> Parsed<&'a str> {
    let used = four(text, true).ok_or(Malformed)?;
    *bytes += 4;
    Ok(behind(text, used))
}

/// Groups of hexadecimal digits with colons between; none where the first is of an IPv4 address.
fn sequence<'a>(text: &'a str, bytes: &mut usize) -> Parsed<Option<&'a str>> {
    let group = |text: &str| {
        text.find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(text.len())
    };
    let first = group(text);
    if first == 0 || behind(text, first).starts_with('.') {
        return Ok(None);
    }
    let mut at = first;
    let mut length = first;
    loop {
        if length > 4 {
            return Err(Malformed);
        }
        *bytes += 2;
        let rest = behind(text, at);
        if !rest.starts_with(':') || rest.starts_with("::") {
            return Ok(Some(rest));
        }
        length = group(behind(text, at + 1));
        if length == 0 {
            return Err(Malformed);
        }
        if behind(text, at + 1 + length).starts_with('.') {
            return Ok(Some(rest));
        }
        at += 1 + length;
    }
}
