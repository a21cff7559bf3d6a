//! A running application's own REST API, over plain HTTP. A UI that wants a login or TLS is read by
//! other means: `--environment`.

use std::{
    io::{Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use regex::Regex;
use serde::Deserialize;

use super::posture::{Posture, Running};
use crate::failure::{Exit, Failure};

const PATIENCE: Duration = Duration::from_secs(10);
/// The most that is read of one answer.
const LARGEST: u64 = 64 << 20;

#[derive(Deserialize)]
struct Application {
    id: String,
    #[serde(default)]
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    completed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Environment {
    spark_properties: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Query {
    #[serde(default)]
    plan_description: String,
}

/// The settings of the application whose UI is at `url`, and what its queries read.
pub(crate) fn ask(url: &str) -> Result<Posture, Failure> {
    let server = Server::parse(url)?;
    let applications: Vec<Application> = server.json("/api/v1/applications")?;
    let running = |application: &&Application| {
        application
            .attempts
            .iter()
            .any(|attempt| !attempt.completed)
    };
    let Some(application) = applications.iter().find(running).or(applications.first()) else {
        return Err(server.failure("it knows of no application"));
    };
    let of = format!("/api/v1/applications/{}", application.id);
    let environment: Environment = server.json(&format!("{of}/environment"))?;
    let mut posture = Posture::new(environment.spark_properties);
    // An application without SQL has no such page.
    let queries: Vec<Query> = server
        .json(&format!(
            "{of}/sql?details=false&planDescription=true&offset=0&length=1000"
        ))
        .unwrap_or_default();
    let plain = queries
        .iter()
        .filter(|query| reads_plain(&query.plan_description))
        .count();
    posture.running = Some(Running {
        queries: queries.len(),
        plain,
    });
    Ok(posture)
}

/// The settings in the text of such an answer.
pub(crate) fn environment(text: &str) -> Result<Posture, String> {
    serde_json::from_str::<Environment>(text)
        .map(|environment| Posture::new(environment.spark_properties))
        .map_err(|error| {
            format!("this is not what /api/v1/applications/ID/environment answers: {error}")
        })
}

/// Whether a plan, as Spark's UI has it, reads files of a format of Spark's own.
fn reads_plain(plan: &str) -> bool {
    Regex::new(r"(?i)\b(file|batch)?scan (parquet|orc|csv|json|text|avro|hive)\b")
        .is_ok_and(|scan| scan.is_match(plan))
}

struct Server {
    url: String,
    authority: String,
    prefix: String,
}

impl Server {
    fn parse(url: &str) -> Result<Self, Failure> {
        if url.starts_with("https://") {
            return Err(
                Failure::usage(format!("{url}: only plain HTTP is spoken here")).hint(
                    "save the answer of /api/v1/applications/ID/environment and give it with \
                    --environment",
                ),
            );
        }
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| Failure::usage(format!("{url} is no URL such as http://driver:4040")))?;
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty()
            || authority.contains(['@', '?', '#', ' '])
            || prefix.contains(['?', '#', ' '])
        {
            return Err(Failure::usage(format!(
                "{url} is no URL such as http://driver:4040"
            )));
        }
        let prefix = prefix.trim_end_matches('/');
        Ok(Self {
            url: url.to_owned(),
            authority: authority.to_owned(),
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("/{prefix}")
            },
        })
    }

    fn json<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, Failure> {
        let answer = self
            .get(path)
            .map_err(|error| self.failure(&error.to_string()))?;
        let body = body(&answer).map_err(|reason| self.failure(&reason))?;
        serde_json::from_slice(body)
            .map_err(|error| self.failure(&format!("{path}: no answer of Spark's: {error}")))
    }

    fn failure(&self, reason: &str) -> Failure {
        Failure::new(Exit::Io, format!("{}: {reason}", self.url)).hint(
            "name the web UI of a running driver; if it wants a login, save the answer of \
            /api/v1/applications/ID/environment and give it with --environment",
        )
    }

    /// Version 1.0 of HTTP: one answer, not in chunks, and then the connection ends.
    fn get(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (prefix, authority) = (&self.prefix, &self.authority);
        write!(
            stream,
            "GET {prefix}{path} HTTP/1.0\r\nHost: {authority}\r\nAccept: \
                application/json\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = Vec::new();
        stream.take(LARGEST).read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let bare = !self
            .authority
            .rsplit(']')
            .next()
            .is_some_and(|end| end.contains(':'));
        let authority = if bare {
            format!("{}:80", self.authority)
        } else {
            self.authority.clone()
        };
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
        for address in authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// What comes after the head of an answer with status 200.
fn body(answer: &[u8]) -> Result<&[u8], String> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = end
        .and_then(|end| Some((answer.get(..end)?, answer.get(end + 4..)?)))
        .ok_or("this is no HTTP")?;
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => {}
        Some("401" | "403") => return Err(format!("it wants a login ({status})")),
        _ => return Err(format!("it answers {status}")),
    }
    let chunked = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("transfer-encoding:") && line.contains("chunked")
    };
    if lines.any(chunked) {
        return Err("it answers in chunks, which HTTP 1.0 has not".to_owned());
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(
            body(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n[1]\r\n\r\n").unwrap(),
            b"[1]\r\n\r\n"
        );
        assert!(
            body(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                .unwrap_err()
                .contains("login")
        );
        assert!(
            body(b"HTTP/1.1 302 Found\r\nLocation: x\r\n\r\n")
                .unwrap_err()
                .contains("302")
        );
        assert!(body(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        for broken in [
            &b""[..],
            b"\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n",
            b"HTTP/1.1 200 OK\r\n",
        ] {
            assert!(body(broken).is_err());
        }
    }

    #[test]
    fn urls() {
        for bad in [
            "driver:4040",
            "https://driver",
            "http://",
            "http://user@driver",
            "http://driver?x",
            "http://a b",
        ] {
            assert!(Server::parse(bad).is_err(), "{bad}");
        }
        let server = Server::parse("http://driver:4040/proxy/app/").unwrap_or_else(|_| panic!());
        assert_eq!(
            (server.authority.as_str(), server.prefix.as_str()),
            ("driver:4040", "/proxy/app")
        );
    }

    #[test]
    fn plain_scans_by_their_names() {
        for plan in [
            "(1) Scan parquet \nOutput",
            "+- FileScan csv [a#0]",
            "BatchScan json file:/x",
        ] {
            assert!(reads_plain(plan), "{plan}");
        }
        for plan in [
            "CofferScan t",
            "scan of parquet",
            "LocalTableScan [a]",
            "BatchScan coffer",
        ] {
            assert!(!reads_plain(plan), "{plan}");
        }
    }
}
