//! `coffer kms`: a line of JSON in, a line of JSON out, until the end of stdin. The KMS clients for PyArrow and parquet-java start it and
//! talk to it; so no key but those of files is ever in such a program.
//!
//! ```text
//! {"wrap": "<base64 of the key>", "master": "main"}      → {"wrapped": "…"}
//! {"unwrap": "<wrapped>", "master": "main"}              → {"key": "<base64>"}
//! anything that fails                                    → {"error": "…", "hint": "…"}
//! ```

use std::{
    collections::HashSet,
    io::{BufRead, Read, Write},
    path::Path,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_audit::{Event, Outcome, TableUse};
use coffer_keys::{KekId, Vault};
use coffer_table::{Error as TableError, Kms, Register};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::{Zeroize, Zeroizing};

use crate::{audit, failure::Failure, site::Site};

/// Bytes of a line at most.
const MAX_LINE: u64 = 64 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    master: String,
    wrap: Option<String>,
    unwrap: Option<String>,
}

pub(crate) fn run(site: &Site) -> Result<(), Failure> {
    let policy = site.policy()?;
    let vault = Arc::new(site.vault(&policy)?);
    let kms = Kms::new(&site.home()?, Arc::clone(&vault));
    let mut log = Log::new(site, &vault);
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    loop {
        let mut line = Zeroizing::new(Vec::new());
        let read = (&mut input).take(MAX_LINE).read_until(b'\n', &mut line);
        match read.map_err(|error| Failure::io("read", Path::new("stdin"), error))? {
            0 => return Ok(()),
            _ if line.last() != Some(&b'\n') => {
                return Err(Failure::usage("a line on stdin is too long, or is cut"));
            }
            _ => {}
        }
        let answer = match parse(&line) {
            Ok((master, asked)) => answer(&kms, &mut log, &master, asked),
            Err(refusal) => Err(refusal),
        };
        let answer = answer.unwrap_or_else(|(error, hint)| json!({ "error": error, "hint": hint }));
        let mut text = Zeroizing::new(answer.to_string());
        text.push('\n');
        forget(answer);
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush())
            .map_err(|error| Failure::io("write", Path::new("stdout"), error))?;
    }
}

type Refusal = (String, Option<String>);

fn malformed() -> Refusal {
    ("this is no request of a KMS client of Coffer".to_owned(), None)
}

/// What a client wants done with a master.
enum Asked {
    Wrap(Zeroizing<Vec<u8>>),
    Unwrap(String),
}

fn parse(line: &[u8]) -> Result<(String, Asked), Refusal> {
    let request: Request = serde_json::from_slice(line).map_err(|_| malformed())?;
    let asked = match (request.wrap, request.unwrap) {
        (Some(key), None) => {
            let key = Zeroizing::new(key);
            Asked::Wrap(Zeroizing::new(BASE64.decode(key.as_bytes()).map_err(|_| malformed())?))
        }
        (None, Some(wrapped)) => Asked::Unwrap(wrapped),
        _ => return Err(malformed()),
    };
    Ok((request.master, asked))
}

fn answer(kms: &Kms, log: &mut Log<'_>, master: &str, asked: Asked) -> Result<Value, Refusal> {
    let action = match asked {
        Asked::Wrap(_) => "kms wrap",
        Asked::Unwrap(_) => "kms unwrap",
    };
    log.granted(action, master)
        .map_err(|failure| (failure.to_string(), None))?;
    let answer = match asked {
        Asked::Wrap(key) => kms.wrap(master, &key).map(|wrapped| json!({ "wrapped": wrapped })),
        Asked::Unwrap(wrapped) => kms
            .unwrap(master, &wrapped)
            .map(|key| json!({ "key": BASE64.encode(key.as_slice()) })),
    };
    answer.map_err(|error| {
        log.refused(action, master, &error);
        (error.to_string(), error.hint())
    })
}

/// The audit log has each name that is used, before it is used, and each that was refused: once for each direction and run.
struct Log<'a> {
    site: &'a Site,
    vault: &'a Vault,
    noted: HashSet<(Outcome, &'static str, String)>,
}

impl<'a> Log<'a> {
    fn new(site: &'a Site, vault: &'a Vault) -> Self {
        Self {
            site,
            vault,
            noted: HashSet::new(),
        }
    }

    /// What the log cannot have goes no further.
    fn granted(&mut self, action: &'static str, master: &str) -> Result<(), Failure> {
        self.note(action, master, Event::granted(action))
    }

    /// A refusal stays one if it cannot be logged.
    fn refused(&mut self, action: &'static str, master: &str, error: &TableError) {
        let event = Event::refused(action, code(error), error.to_string());
        if let Err(failure) = self.note(action, master, event) {
            eprintln!("warning: a refusal is not in the audit log: {failure}");
        }
    }

    fn note(&mut self, action: &'static str, master: &str, mut event: Event) -> Result<(), Failure> {
        let name = (event.outcome, action, master.to_owned());
        if self.noted.contains(&name) {
            return Ok(());
        }
        match master.parse::<KekId>() {
            Ok(id) => {
                let known = Register::of(&self.site.home()?, self.vault.keyring()).by_id(id.table())?;
                event = event.table(TableUse {
                    name: known.map_or_else(String::new, |record| record.name),
                    id: id.table().to_string(),
                    keys: vec![master.to_owned()],
                    ..TableUse::default()
                });
            }
            Err(_) => event = event.detail("master", master),
        }
        audit::note(self.site, self.vault.keyring(), event)?;
        self.noted.insert(name);
        Ok(())
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

/// A key was in it.
fn forget(answer: Value) {
    if let Value::Object(fields) = answer {
        for (_, value) in fields {
            if let Value::String(mut text) = value {
                text.zeroize();
            }
        }
    }
}
