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
use coffer_audit::{Event, TableUse};
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
    let mut noted = HashSet::new();
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
        let answer = parse(&line)
            .and_then(|request| {
                let name = (request.wrap.is_some(), request.master.clone());
                if !noted.contains(&name) {
                    note(site, &vault, &request)?;
                    noted.insert(name);
                }
                answer(&kms, request)
            })
            .unwrap_or_else(|(error, hint)| json!({ "error": error, "hint": hint }));
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

fn parse(line: &[u8]) -> Result<Request, Refusal> {
    serde_json::from_slice(line).map_err(|_| malformed())
}

/// The audit log has each name that is used, once for each direction and run; a run that it cannot have goes no further.
fn note(site: &Site, vault: &Vault, request: &Request) -> Result<(), Refusal> {
    let refused = |failure: Failure| (failure.to_string(), None);
    let mut event = Event::granted(if request.wrap.is_some() {
        "kms wrap"
    } else {
        "kms unwrap"
    });
    match request.master.parse::<KekId>() {
        Ok(id) => {
            let home = site.home().map_err(refused)?;
            let known = Register::of(&home, vault.keyring()).by_id(id.table());
            let known = known.map_err(|error| refused(error.into()))?;
            event = event.table(TableUse {
                name: known.map_or_else(String::new, |record| record.name),
                id: id.table().to_string(),
                keys: vec![request.master.clone()],
                ..TableUse::default()
            });
        }
        Err(_) => event = event.detail("master", &request.master),
    }
    audit::note(site, vault.keyring(), event).map_err(refused)
}

fn answer(kms: &Kms, request: Request) -> Result<Value, Refusal> {
    let failed = |error: TableError| (error.to_string(), error.hint());
    match (request.wrap, request.unwrap) {
        (Some(key), None) => {
            let key = Zeroizing::new(key);
            let key = Zeroizing::new(BASE64.decode(key.as_bytes()).map_err(|_| malformed())?);
            Ok(json!({ "wrapped": kms.wrap(&request.master, &key).map_err(failed)? }))
        }
        (None, Some(wrapped)) => {
            let key = kms.unwrap(&request.master, &wrapped).map_err(failed)?;
            Ok(json!({ "key": BASE64.encode(key.as_slice()) }))
        }
        _ => Err(malformed()),
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
