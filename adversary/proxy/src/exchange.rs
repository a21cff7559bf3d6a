//! Two engines' answers to tasks of one stage, exchanged: each proxy leaves its own in the common
//! folder, and takes another's that is there, or comes soon.

use std::{
    fs,
    path::Path,
    process,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use coffer_protocol::wire::Done;
use prost::Message as _;

use crate::{
    past::{End, Outcome},
    relay::Exchange,
};

/// How long the other may take. Not every stage has tasks on both engines.
const PATIENCE: Duration = Duration::from_millis(200);

/// Through files of this folder.
#[must_use]
pub fn through(folder: &Path) -> Arc<Exchange> {
    let folder = folder.to_owned();
    Arc::new(move |start, mine| {
        let name = |pid: u32| {
            let session: String = start
                .session
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("{session}-{}-{pid}.answer", start.stage)
        };
        let own = folder.join(name(process::id()));
        let unfinished = own.with_extension("unfinished");
        fs::write(&unfinished, encode(mine)).ok()?;
        fs::rename(&unfinished, &own).ok()?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            for path in fs::read_dir(&folder)
                .ok()?
                .flatten()
                .map(|entry| entry.path())
            {
                let other = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default()
                    .to_owned();
                let prefix = name(0);
                let prefix = prefix.trim_end_matches("0.answer");
                if path != own && other.starts_with(prefix) && other.ends_with(".answer") {
                    let theirs = decode(&fs::read(&path).ok()?)?;
                    return Some((other, theirs));
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    })
}

/// Length-prefixed parts: DONE, then each target's number and bytes.
fn encode(outcome: &Outcome) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |bytes: &[u8]| {
        out.extend_from_slice(&u64::try_from(bytes.len()).unwrap_or_default().to_le_bytes());
        out.extend_from_slice(bytes);
    };
    put(&outcome.done().map(Done::encode_to_vec).unwrap_or_default());
    for (target, bytes) in &outcome.outs {
        put(&target.to_le_bytes());
        put(bytes);
    }
    out
}

fn decode(mut bytes: &[u8]) -> Option<Outcome> {
    let mut take = || {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (part, rest) =
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        bytes = rest;
        Some(part)
    };
    let end = End::Done(Done::decode(take()?).ok()?);
    let mut outs = Vec::new();
    while let Some(target) = take() {
        outs.push((u32::from_le_bytes(*target.first_chunk()?), take()?.to_vec()));
    }
    Some(Outcome { outs, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back() {
        let done = Done {
            sealed_commit: vec![1, 2].into(),
            ..Done::default()
        };
        let outcome = Outcome {
            outs: vec![(0, vec![]), (7, vec![1, 2, 3])],
            end: End::Done(done),
        };
        assert_eq!(decode(&encode(&outcome)), Some(outcome));
        assert_eq!(decode(&[1, 2]), None);
    }
}
