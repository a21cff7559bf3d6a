//! ListObjectsV2 over a folder.

use std::{fmt::Write, fs, io, path::Path};

use crate::{answer, request::Request};

/// As many keys as S3 gives at once.
const PAGE: usize = 1000;

/// The keys below the folder that a listing asks for, as XML.
pub(crate) fn of(folder: &Path, request: &Request) -> io::Result<String> {
    let prefix = request.asks("prefix").unwrap_or_default();
    let delimiter = request.asks("delimiter").filter(|text| !text.is_empty());
    let token = request.asks("continuation-token");
    let after = token.or(request.asks("start-after")).unwrap_or_default();
    let most = request.asks("max-keys").and_then(|text| text.parse().ok());
    let most = most.unwrap_or(PAGE).min(PAGE);
    let mut keys = Vec::new();
    walk(folder, "", &mut keys)?;
    keys.sort();
    let mut found = String::new();
    let mut count = 0;
    let mut last = String::new();
    let mut cut = false;
    for (key, size, modified) in keys.iter().filter(|(key, ..)| key.starts_with(prefix)) {
        let rest = key.get(prefix.len()..).unwrap_or_default();
        let common = delimiter
            .and_then(|delimiter| rest.find(delimiter).map(|at| at + delimiter.len()))
            .and_then(|end| rest.get(..end))
            .map(|part| format!("{prefix}{part}"));
        let name = common.as_deref().unwrap_or(key);
        if name <= after || name == last {
            continue;
        }
        if count == most {
            cut = true;
            break;
        }
        let xml = escaped(name);
        // Writing to a string does not fail.
        let _ = match common.is_some() {
            true => write!(
                found,
                "<CommonPrefixes><Prefix>{xml}</Prefix></CommonPrefixes>"
            ),
            false => write!(
                found,
                "<Contents><Key>{xml}</Key><LastModified>{}</LastModified><ETag>{}</ETag>\
                 <Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>",
                answer::date(*modified).iso,
                escaped(&answer::tag(*size, *modified)),
            ),
        };
        name.clone_into(&mut last);
        count += 1;
    }
    let next = match cut {
        true => format!(
            "<NextContinuationToken>{}</NextContinuationToken>",
            escaped(&last)
        ),
        false => String::new(),
    };
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Name>b</Name><Prefix>{}</Prefix><MaxKeys>{most}</MaxKeys><KeyCount>{count}</KeyCount>\
         <IsTruncated>{cut}</IsTruncated>{next}{found}</ListBucketResult>",
        escaped(prefix),
    ))
}

/// All files below, with their sizes and the seconds since 1970 of their last change.
fn walk(folder: &Path, inner: &str, keys: &mut Vec<(String, u64, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        let key = match inner {
            "" => name,
            _ => format!("{inner}/{name}"),
        };
        let found = fs::metadata(entry.path())?;
        if found.is_dir() {
            walk(&entry.path(), &key, keys)?;
        } else {
            keys.push((key, found.len(), answer::seconds(&found)));
        }
    }
    Ok(())
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(folder: &Path, query: &[(&str, &str)]) -> String {
        let query = query
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let request = Request {
            method: "GET".into(),
            path: "/b".into(),
            query: query.collect(),
            range: None,
            closes: false,
        };
        of(folder, &request).unwrap()
    }

    #[test]
    fn prefixes_and_pages() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("t/_coffer")).unwrap();
        for name in ["t/a", "t/b&c", "t/_coffer/m", "u"] {
            fs::write(at(name), b"abc").unwrap();
        }
        let of_table = list(folder.path(), &[("prefix", "t/"), ("delimiter", "/")]);
        assert!(of_table.contains("<KeyCount>3<"), "{of_table}");
        assert!(of_table.contains("<Prefix>t/_coffer/</Prefix>"));
        assert!(of_table.contains("<Key>t/b&amp;c</Key>") && !of_table.contains("<Key>u<"));
        let first = list(folder.path(), &[("max-keys", "2")]);
        assert!(first.contains("<IsTruncated>true<") && first.contains("<Key>t/a</Key>"));
        let rest = list(folder.path(), &[("continuation-token", "t/a")]);
        assert!(
            rest.contains("<KeyCount>2<") && rest.contains("<Key>u</Key>"),
            "{rest}"
        );
        assert!(list(folder.path(), &[("prefix", "x")]).contains("<KeyCount>0<"));
    }
}
