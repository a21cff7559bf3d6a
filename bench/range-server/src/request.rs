//! One request of HTTP/1.1, as far as readers of S3 make them.

use std::io::{self, BufRead, Read};

/// Longer lines are no request.
const LONGEST: u64 = 64 << 10;

/// What was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Decoded.
    pub(crate) path: String,
    /// Names and values, decoded.
    pub(crate) query: Vec<(String, String)>,
    /// First and last byte, as `bytes=FIRST-LAST` has them; each may be missing.
    pub(crate) range: Option<(Option<u64>, Option<u64>)>,
    /// Whether nothing follows on its connection.
    pub(crate) closes: bool,
}

impl Request {
    /// The next one; none where the connection ends.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let Some(first) = line(from)? else {
            return Ok(None);
        };
        let mut words = first.split(' ');
        let method = words.next().ok_or_else(bad)?.to_owned();
        let target = words.next().ok_or_else(bad)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method,
            path: decoded(path, false),
            query: query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decoded(name, true), decoded(value, true))
                })
                .collect(),
            range: None,
            closes: false,
        };
        let mut length = 0;
        while let Some(header) = line(from)?.filter(|header| !header.is_empty()) {
            let (name, value) = header.split_once(':').ok_or_else(bad)?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "range" => request.range = value.strip_prefix("bytes=").and_then(range),
                "connection" => request.closes = value.eq_ignore_ascii_case("close"),
                "content-length" => length = value.parse().map_err(|_| bad())?,
                _ => {}
            }
        }
        // No reader sends a body; what it holds is nothing here.
        io::copy(&mut from.take(length), &mut io::sink())?;
        Ok(Some(request))
    }

    /// The value of a name in the query.
    pub(crate) fn asks(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    from.take(LONGEST).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let text = line.strip_suffix(b"\n").ok_or(io::ErrorKind::InvalidData)?;
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let text = std::str::from_utf8(text).map_err(io::Error::other)?;
    Ok(Some(text.to_owned()))
}

fn range(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (first, last) = text.split_once('-')?;
    Some((first.parse().ok(), last.parse().ok()))
}

/// Without percent signs; in a query a plus is a space.
fn decoded(text: &str, query: bool) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let escaped = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None if query && *first == b'+' => bytes.push(b' '),
            None => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_one_after_the_other() {
        let text = "GET /b/a%20b?list-type=2&prefix=x%2Fy+z HTTP/1.1\r\nRange: bytes=5-9\r\n\
                    content-length: 2\r\n\r\nxxHEAD /b HTTP/1.1\r\nconnection: close\r\n\r\n";
        let mut from = text.as_bytes();
        let first = Request::read(&mut from).unwrap().unwrap();
        assert_eq!(
            (first.path.as_str(), first.method.as_str()),
            ("/b/a b", "GET")
        );
        assert_eq!(first.asks("prefix"), Some("x/y z"));
        assert_eq!(first.asks("list-type"), Some("2"));
        assert_eq!(first.range, Some((Some(5), Some(9))));
        assert!(!first.closes);
        let second = Request::read(&mut from).unwrap().unwrap();
        assert_eq!((second.path.as_str(), second.closes), ("/b", true));
        assert_eq!(second.range, None);
        assert_eq!(Request::read(&mut from).unwrap(), None);
    }

    #[test]
    fn what_is_no_request() {
        for text in [
            "GET\r\n\r\n",
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r\nnothing\r\n\r\n",
        ] {
            assert!(Request::read(&mut text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(decoded("%zz%4", false), "%zz%4");
        assert_eq!(decoded("a+%41", false), "a+A");
    }
}
