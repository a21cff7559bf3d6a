//! What is answered: a file's bytes, a listing, or that there is none.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Component, Path, PathBuf},
    time::UNIX_EPOCH,
};

use crate::{list, request::Request};

/// Status, headers, and where the body comes from.
pub(crate) struct Answer {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

enum Body {
    Text(String),
    Part(File, Range<u64>),
}

impl Answer {
    /// A whole text.
    pub(crate) fn text(kind: &str, text: String) -> Self {
        Self {
            status: "200 OK",
            headers: vec![("content-type", kind.to_owned())],
            body: Body::Text(text),
        }
    }

    fn refusal(status: &'static str, code: &str) -> Self {
        let text = format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>");
        Self {
            status,
            ..Self::text("application/xml", text)
        }
    }

    /// Sends it; the bytes of the body that went out.
    pub(crate) fn send(self, to: &mut impl Write, head: bool) -> io::Result<u64> {
        let length = match &self.body {
            Body::Text(text) => text.len() as u64,
            Body::Part(_, range) => range.end - range.start,
        };
        write!(to, "HTTP/1.1 {}\r\n", self.status)?;
        for (name, value) in &self.headers {
            write!(to, "{name}: {value}\r\n")?;
        }
        write!(to, "content-length: {length}\r\n\r\n")?;
        if head {
            return Ok(0);
        }
        match self.body {
            Body::Text(text) => to.write_all(text.as_bytes())?,
            Body::Part(mut file, range) => {
                file.seek(SeekFrom::Start(range.start))?;
                let sent = io::copy(&mut file.take(length), to)?;
                if sent != length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
        Ok(length)
    }
}

/// `/BUCKET` or `/BUCKET/KEY`, whatever the bucket is called.
pub(crate) fn of(folder: &Path, request: &Request) -> io::Result<Answer> {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        let answer = Answer::refusal("405 Method Not Allowed", "MethodNotAllowed");
        return Ok(answer);
    }
    let path = request.path.trim_start_matches('/');
    let key = path.split_once('/').map_or("", |(_, key)| key);
    if key.is_empty() {
        return Ok(match request.method.as_str() {
            "HEAD" => Answer::text("application/xml", String::new()),
            _ => Answer::text("application/xml", list::of(folder, request)?),
        });
    }
    let none = || Answer::refusal("404 Not Found", "NoSuchKey");
    let Some(file) = below(folder, key) else {
        return Ok(none());
    };
    match fs::metadata(&file) {
        Ok(found) if found.is_file() => part(&file, &found, request),
        _ => Ok(none()),
    }
}

/// The file of a key; none for names that are no file's.
fn below(folder: &Path, key: &str) -> Option<PathBuf> {
    let inner = Path::new(key);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    (!key.ends_with('/') && inner.components().all(plain)).then(|| folder.join(inner))
}

fn part(file: &Path, found: &Metadata, request: &Request) -> io::Result<Answer> {
    let (size, modified) = (found.len(), seconds(found));
    let mut headers = vec![
        ("content-type", "binary/octet-stream".to_owned()),
        ("accept-ranges", "bytes".to_owned()),
        ("etag", tag(size, modified)),
        ("last-modified", date(modified).http),
    ];
    let range = match request.range {
        None => 0..size,
        Some((Some(first), _)) if first >= size => {
            let status = "416 Range Not Satisfiable";
            return Ok(Answer::refusal(status, "InvalidRange"));
        }
        Some((Some(first), last)) => {
            first..last.map_or(size, |last| last.saturating_add(1)).min(size)
        }
        // The last so many.
        Some((None, Some(last))) => size.saturating_sub(last)..size,
        Some((None, None)) => 0..size,
    };
    if range.start > range.end {
        let status = "416 Range Not Satisfiable";
        return Ok(Answer::refusal(status, "InvalidRange"));
    }
    let status = match request.range {
        None => "200 OK",
        Some(_) => {
            let last = range.end.saturating_sub(1);
            headers.push((
                "content-range",
                format!("bytes {}-{last}/{size}", range.start),
            ));
            "206 Partial Content"
        }
    };
    let body = Body::Part(File::open(file)?, range);
    Ok(Answer {
        status,
        headers,
        body,
    })
}

/// What tells one content of a file from another.
pub(crate) fn tag(size: u64, modified: u64) -> String {
    format!("\"{modified:x}-{size:x}\"")
}

/// Seconds from 1970 to a file's last change.
pub(crate) fn seconds(found: &Metadata) -> u64 {
    let since = found.modified().ok();
    let since = since.and_then(|when| when.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

/// A moment, as HTTP and as listings write it.
pub(crate) struct Date {
    pub(crate) http: String,
    pub(crate) iso: String,
}

/// Of seconds since 1970, by the civil calendar.
pub(crate) fn date(seconds: u64) -> Date {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    // Years that begin in March: Hinnant, "chrono-compatible low-level date algorithms".
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let name = |names: &[&'static str], at: u64| {
        let at = usize::try_from(at).unwrap_or_default();
        names.get(at).copied().unwrap_or_default()
    };
    Date {
        http: format!(
            "{}, {day:02} {} {year} {clock} GMT",
            name(&DAYS, days % 7),
            name(&MONTHS, month - 1)
        ),
        iso: format!("{year}-{month:02}-{day:02}T{clock}.000Z"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(folder: &Path, path: &str, range: Option<(Option<u64>, Option<u64>)>) -> String {
        let request = Request {
            method: "GET".into(),
            path: path.into(),
            query: Vec::new(),
            range,
            closes: false,
        };
        let mut sent = Vec::new();
        of(folder, &request)
            .unwrap()
            .send(&mut sent, false)
            .unwrap();
        String::from_utf8(sent).unwrap()
    }

    #[test]
    fn ranges_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), b"0123456789").unwrap();
        let read = |range| ask(folder.path(), "/b/f", range);
        assert!(read(None).starts_with("HTTP/1.1 200") && read(None).ends_with("\r\n0123456789"));
        let some = read(Some((Some(2), Some(4))));
        assert!(
            some.starts_with("HTTP/1.1 206") && some.ends_with("\r\n234"),
            "{some}"
        );
        assert!(some.contains("content-range: bytes 2-4/10"));
        assert!(read(Some((Some(8), Some(99)))).ends_with("\r\n89"));
        assert!(read(Some((Some(8), None))).ends_with("\r\n89"));
        assert!(read(Some((None, Some(3)))).ends_with("\r\n789"));
        for range in [(Some(10), None), (Some(5), Some(3))] {
            assert!(read(Some(range)).starts_with("HTTP/1.1 416"), "{range:?}");
        }
    }

    #[test]
    fn nothing_outside_of_the_folder() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("in");
        fs::create_dir_all(folder.join("d")).unwrap();
        fs::write(outer.path().join("secret"), b"x").unwrap();
        for path in [
            "/b/../secret",
            "/b/d",
            "/b/d/",
            "/b//secret",
            "/b/./x",
            "/b/none",
        ] {
            assert!(
                ask(&folder, path, None).starts_with("HTTP/1.1 404"),
                "{path}"
            );
        }
    }

    #[test]
    fn days_by_the_calendar() {
        assert_eq!(date(0).http, "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(951_782_399).iso, "2000-02-28T23:59:59.000Z");
        assert_eq!(date(951_782_400).http, "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(1_795_564_800).iso, "2026-11-25T00:00:00.000Z");
    }
}
