//! `vectors/spills.json`. The file's key is drawn as 32 times the byte `key`.

use serde::{Deserialize, Serialize};

use super::{Case, check_vectors, flipped};
use crate::{Error, Secret, SpillKey, frame::FrameHeader};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    key: u8,
}

fn file_key(byte: u8) -> SpillKey {
    SpillKey::from_drawn(&Secret::from_bytes([byte; 32])).unwrap()
}

/// The chunks of a file, sealed.
fn chunks(byte: u8, plains: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut writer = file_key(byte).writer().unwrap();
    let seal = |(number, plain): (usize, &&[u8])| {
        let mut out = Vec::new();
        writer
            .seal(plain, number + 1 == plains.len(), &mut out)
            .unwrap();
        out
    };
    plains.iter().enumerate().map(seal).collect()
}

fn open(case: &Case<Context>) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = case.bytes();
    let mut reader = file_key(case.context.key).reader()?;
    let (mut rest, mut plains) = (bytes.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(FrameHeader::parse(rest)?.frame_len()?.min(rest.len()));
        plains.push(reader.open(chunk.to_vec())?.plain().to_vec());
        rest = behind;
    }
    reader.finish()?;
    Ok(plains)
}

#[test]
fn spills() {
    let here = Context { key: 1 };
    let plains: [&[u8]; 3] = [b"alpha", b"bravo", b"charlie"];
    let [a, b, c] = chunks(1, &plains).try_into().unwrap();
    let stale = chunks(2, &plains);
    let fails =
        |name: &str, parts: &[&[u8]], code: &str| Case::fails(name, here, &parts.concat(), code);
    let cases = vec![
        Case::opens(
            "spill_whole",
            here,
            &[a.as_slice(), &b, &c].concat(),
            &plains,
        ),
        fails("spill_empty", &[], "unfinished"),
        fails("spill_short", &[&a, &b], "unfinished"),
        fails("spill_cut", &[&a, &b, &c[..c.len() - 1]], "truncated"),
        fails("spill_swapped", &[&b, &a, &c], "wrong_counter"),
        fails("spill_repeated", &[&a, &a, &b, &c], "wrong_counter"),
        fails("spill_longer", &[&a, &b, &c, &c], "frame_after_last"),
        fails(
            "spill_chunk_flipped",
            &[&flipped(&a, 16, 1), &b, &c],
            "unauthentic",
        ),
        fails(
            "spill_last_flag_flipped",
            &[&flipped(&a, 1, 1)],
            "unauthentic",
        ),
        fails(
            "spill_of_other_file",
            &[&stale[0], &stale[1], &stale[2]],
            "unauthentic",
        ),
        fails(
            "spill_with_chunk_of_other_file",
            &[&a, &stale[1], &c],
            "unauthentic",
        ),
    ];
    check_vectors("spills.json", cases, open);
}

#[test]
fn a_file_has_one_writer() {
    let mut key = SpillKey::generate().unwrap();
    assert!(key.writer().is_ok());
    assert_eq!(key.writer().err(), Some(Error::TargetTaken));
    assert!(key.reader().is_ok() && key.reader().is_ok());
}
