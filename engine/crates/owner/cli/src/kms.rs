//! `coffer kms`: a line of JSON in, a line of JSON out, until the end of stdin. The KMS clients for
//! PyArrow and parquet-java start it and talk to it; so no key but those of files is ever in such a
//! program.
//!
//! ```text
//! {"wrap": "<base64 of the key>", "master": "main"}      → {"wrapped": "…"}
//! {"unwrap": "<wrapped>", "master": "main"}              → {"key": "<base64>"}
//! anything that fails                                    → {"error": "…", "hint": "…"}
//! ```

use std::{
    collections::HashSet,
    fs::File,
    io::{Read, Write},
    os::fd::AsFd,
    path::Path,
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_audit::{Event, Seldom, TableUse};
use coffer_catalog::{Error as TableError, Kms, Register};
use coffer_custody::{ConfigDir, PolicyDigest, Stamp, Vault};
use coffer_format::Digest;
use coffer_sealing::KekId;
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{audit, failure::Failure, site::Site};

/// How long the policy's files must have rested before what was read of them is believed without a
/// look into them.
const REST: Duration = Duration::from_secs(2);
/// Bytes of a line at most.
const MAX_LINE: usize = 64 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    master: String,
    /// A key in the clear: it stays in the line, so that no copy of it has to be zeroed. (Base64
    /// has nothing to be escaped.)
    #[serde(borrow)]
    wrap: Option<&'a str>,
    unwrap: Option<String>,
}

pub(crate) fn run(site: &Site) -> Result<(), Failure> {
    let (policy, vault) = site.open_config_dir()?;
    let vault = Arc::new(vault);
    let mut followed = Followed {
        config_dir: site.config_dir()?,
        digest: policy.digest(),
        stamps: None,
    };
    let kms = Kms::new(&site.config_dir()?, Arc::clone(&vault));
    let mut log = Log::new(site, &vault);
    let mut input = Lines::of_stdin()?;
    let mut output = std::io::stdout().lock();
    while let Some(line) = input.next()? {
        let answer = match parse(&line) {
            Ok((master, asked)) => {
                let followed = followed.follow(&vault);
                followed.and_then(|()| answer(&kms, &mut log, &master, asked))
            }
            Err(refusal) => Err(refusal),
        };
        let text =
            answer.unwrap_or_else(|(error, hint)| text(&json!({ "error": error, "hint": hint })));
        // Whole lines pass by the library's buffer.
        output
            .write_all(&text)
            .and_then(|()| output.flush())
            .map_err(|error| Failure::io("write", Path::new("stdout"), error))?;
    }
    Ok(())
}

/// The policy whose masters are asked. A client may stay for days.
struct Followed {
    config_dir: ConfigDir,
    digest: PolicyDigest,
    /// Of the files, once they rest.
    stamps: Option<[Stamp; 2]>,
}

impl Followed {
    fn follow(&mut self, vault: &Vault) -> Result<(), Refusal> {
        let stamps = [self.config_dir.policy(), self.config_dir.policy_signature()]
            .map(|path| Stamp::of(&path).ok());
        let stamps = match stamps {
            [Some(policy), Some(signature)] => Some([policy, signature]),
            _ => None,
        };
        if stamps.is_some() && stamps == self.stamps {
            return Ok(());
        }
        let opened = coffer_catalog::policy::open(&self.config_dir, vault.keyring());
        let policy = opened.map_err(|error| (error.to_string(), error.hint()))?;
        if policy.digest() != self.digest {
            vault.follow(coffer_kms::of(&policy));
            self.digest = policy.digest();
        }
        // What was changed a moment ago may change again, and keep its stamp.
        let rest = |stamps: &[Stamp; 2]| stamps.iter().all(|stamp| stamp.rests_since(REST));
        self.stamps = stamps.filter(rest);
        Ok(())
    }
}

/// stdin, line by line, in memory that is zeroed: the library's own buffer is not.
struct Lines {
    input: File,
    /// As long as a line may be. What was read is at its beginning.
    buffer: Zeroizing<Vec<u8>>,
    read: usize,
}

impl Lines {
    fn of_stdin() -> Result<Self, Failure> {
        let input = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(failed)?;
        Ok(Self {
            input: input.into(),
            buffer: Zeroizing::new(vec![0; MAX_LINE]),
            read: 0,
        })
    }

    /// The next line; none at the end.
    fn next(&mut self) -> Result<Option<Zeroizing<Vec<u8>>>, Failure> {
        let cut = || Failure::usage("a line on stdin is too long, or is cut");
        loop {
            let (held, room) = self
                .buffer
                .split_at_mut_checked(self.read)
                .ok_or_else(cut)?;
            let end = held.iter().position(|byte| *byte == b'\n');
            if let Some((line, rest)) =
                end.and_then(|end| held.split_at_checked(end.saturating_add(1)))
            {
                let (line, rest) = (Zeroizing::new(line.to_vec()), rest.len());
                self.buffer.copy_within(line.len()..self.read, 0);
                self.read = rest;
                return Ok(Some(line));
            }
            if room.is_empty() {
                return Err(cut());
            }
            match self.input.read(room) {
                Ok(0) if self.read == 0 => return Ok(None),
                Ok(0) => return Err(cut()),
                Ok(more) => self.read = self.read.saturating_add(more),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::io("read", Path::new("stdin"), error)
}

type Refusal = (String, Option<String>);

fn malformed() -> Refusal {
    (
        "this is no request of a KMS client of Coffer".to_owned(),
        None,
    )
}

/// What a client wants done with a master.
enum Asked {
    Wrap(Zeroizing<Vec<u8>>),
    Unwrap(String),
}

fn parse(line: &[u8]) -> Result<(String, Asked), Refusal> {
    let request: Request<'_> = serde_json::from_slice(line).map_err(|_| malformed())?;
    let asked = match (request.wrap, request.unwrap) {
        (Some(key), None) => {
            Asked::Wrap(Zeroizing::new(BASE64.decode(key).map_err(|_| malformed())?))
        }
        (None, Some(wrapped)) => Asked::Unwrap(wrapped),
        _ => return Err(malformed()),
    };
    Ok((request.master, asked))
}

fn answer(
    kms: &Kms,
    log: &mut Log<'_>,
    master: &str,
    asked: Asked,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let action = match asked {
        Asked::Wrap(_) => "kms wrap",
        Asked::Unwrap(_) => "kms unwrap",
    };
    let unrecorded = |failure: Failure| (failure.to_string(), None);
    log.asked(action, master).map_err(unrecorded)?;
    let answer = match asked {
        Asked::Wrap(key) => kms
            .wrap(master, &key)
            .map(|wrapped| text(&json!({ "wrapped": wrapped }))),
        Asked::Unwrap(wrapped) => kms.unwrap(master, &wrapped).map(|key| key_text(&key)),
    };
    match answer {
        Ok(text) => log
            .granted(action, master)
            .map(|()| text)
            .map_err(unrecorded),
        Err(error) => {
            log.refused(action, master, &error);
            Err((error.to_string(), error.hint()))
        }
    }
}

/// The audit log has each name that is used: a master's before it is asked for anything, a column
/// KEK's before a key goes out; once for each direction and run. Of what is refused it has as much
/// as a host that makes up names cannot turn into a flood.
struct Log<'a> {
    site: &'a Site,
    vault: &'a Vault,
    /// Only names that there are.
    granted: HashSet<(&'static str, String)>,
    refused: Seldom<(&'static str, Digest)>,
}

impl<'a> Log<'a> {
    fn new(site: &'a Site, vault: &'a Vault) -> Self {
        Self {
            site,
            vault,
            granted: HashSet::new(),
            refused: Seldom::default(),
        }
    }

    /// Before a master does something. Of a name that is no master's nothing is known yet.
    fn asked(&mut self, action: &'static str, master: &str) -> Result<(), Failure> {
        // The keyring is not looked into for what is noted already.
        let noted = self.granted.contains(&(action, master.to_owned()));
        if !noted && (self.vault.is_outside(master) || self.vault.keyring().has_master(master)?) {
            self.granted(action, master)?;
        }
        Ok(())
    }

    /// What the log cannot have goes no further.
    fn granted(&mut self, action: &'static str, master: &str) -> Result<(), Failure> {
        let name = (action, master.to_owned());
        if !self.granted.contains(&name) {
            self.note(master, Event::granted(action))?;
            self.granted.insert(name);
        }
        Ok(())
    }

    /// A refusal stays one if it cannot be logged.
    fn refused(&mut self, action: &'static str, master: &str, error: &TableError) {
        let event = Event::refused(action, code(error), error.to_string());
        let Some(event) = self
            .refused
            .record((action, Digest::of(master.as_bytes())), event)
        else {
            return;
        };
        if let Err(failure) = self.note(master, event) {
            eprintln!("warning: a refusal is not in the audit log: {failure}");
        }
    }

    fn note(&self, master: &str, mut event: Event) -> Result<(), Failure> {
        match master.parse::<KekId>() {
            Ok(id) => {
                let known = Register::of(&self.site.config_dir()?, self.vault.keyring())
                    .by_id(id.table())?;
                event = event.table(TableUse {
                    name: known.map_or_else(String::new, |record| record.name),
                    id: id.table().to_string(),
                    keys: vec![master.to_owned()],
                    ..TableUse::default()
                });
            }
            Err(_) => event = event.detail("master", master),
        }
        audit::note(self.site, self.vault.keyring(), event)
    }
}

/// A stable word for why a key is not wrapped or unwrapped.
fn code(error: &TableError) -> &'static str {
    match error {
        TableError::FileKey(error) => error.code(),
        TableError::Master(error) | TableError::Key { error, .. } => error.code(),
        TableError::UnknownTable(_) => "table_unknown",
        _ => "file_key",
    }
}

fn text(answer: &Value) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(format!("{answer}\n").into_bytes())
}

/// The answer with a key in it, made where it is zeroed.
fn key_text(key: &[u8]) -> Zeroizing<Vec<u8>> {
    let (begin, end) = (br#"{"key":""#, b"\"}\n");
    let length = base64::encoded_len(key.len(), true).unwrap_or(0);
    let mut encoded = Zeroizing::new(vec![0; length]);
    let mut text = Zeroizing::new(Vec::with_capacity(
        length.saturating_add(begin.len()).saturating_add(end.len()),
    ));
    text.extend_from_slice(begin);
    // It has the very length.
    if BASE64.encode_slice(key, &mut encoded).is_ok() {
        text.extend_from_slice(&encoded);
    }
    text.extend_from_slice(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_whole_and_one_after_the_other() {
        let lines = |text: &[u8]| {
            let mut input = tempfile::tempfile().unwrap();
            input.write_all(text).unwrap();
            std::io::Seek::rewind(&mut input).unwrap();
            Lines {
                input,
                buffer: Zeroizing::new(vec![0; 8]),
                read: 0,
            }
        };
        let mut whole = lines(b"a\n\n1234567\nbc\n");
        for want in ["a\n", "\n", "1234567\n", "bc\n"] {
            assert_eq!(*whole.next().unwrap().unwrap(), want.as_bytes());
        }
        assert!(whole.next().unwrap().is_none());
        assert!(lines(b"12345678\n").next().is_err(), "too long");
        let mut cut = lines(b"a\nb");
        cut.next().unwrap().unwrap();
        assert!(cut.next().is_err(), "cut");
    }

    #[test]
    fn the_text_of_a_key_is_its_json() {
        for length in [0, 1, 16, 24, 32, 100] {
            let key = vec![251; length];
            let want = format!("{}\n", json!({ "key": BASE64.encode(&key) }));
            assert_eq!(*key_text(&key), want.as_bytes());
        }
    }
}
