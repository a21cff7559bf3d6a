//! Sums over `ashe` values: states that engines without keys hand on, so any host may have made
//! them.

use coffer_schemes::{AsheSum, SchemeError};

use super::{cut, seed, with};
use crate::{Outcome, Seed, Target, outcome};

pub(super) const TARGET: Target = Target {
    name: "ashe_sum",
    about: "sums over ashe values, with their rows",
    // A layer without rows takes one byte and a set of 32.
    memory: |input| 256 * input + (64 << 10),
    smoke: 20_000,
    run,
    seeds,
};

fn run(input: &[u8]) -> Outcome {
    outcome(read(input))
}

fn read(input: &[u8]) -> Result<u64, SchemeError> {
    let sum = AsheSum::decode(input)?;
    // What is accepted must mean the same when it is handed on.
    let again = AsheSum::decode(&sum.encode())?;
    assert_eq!(sum.count(), again.count());
    assert_eq!(sum.files(), again.files());
    Ok(sum.count())
}

fn seeds() -> Vec<Seed> {
    let of = |rows: &mut dyn Iterator<Item = u64>| {
        let mut sum = AsheSum::default();
        rows.for_each(|row| sum.add(5, &[1; 16], row).unwrap());
        sum.encode()
    };
    let one = of(&mut [7].into_iter());
    let mut two_files = AsheSum::decode(&one).unwrap();
    two_files.add(5, &[2; 16], 9).unwrap();
    let mut file_twice = two_files.encode();
    let second = file_twice
        .iter()
        .position(|byte| *byte == 2)
        .map_or(0, |at| at + 1);
    let second = second
        + file_twice[second..]
            .iter()
            .position(|byte| *byte == 2)
            .unwrap();
    file_twice = with(&file_twice, second, &[1; 16]);
    vec![
        seed("one_row", one.clone()),
        seed("no_row", AsheSum::default().encode()),
        seed("consecutive_rows", of(&mut (0..200_000))),
        seed("every_third_row", of(&mut (0..30_000).step_by(3))),
        seed("row_repeated", of(&mut [3, 3, 3, 4].into_iter())),
        seed("two_files", two_files.encode()),
        seed("nothing", []),
        seed("version_unknown", with(&one, 0, &[2])),
        seed("rows_cut", cut(&one, 1)),
        seed("file_cut", cut(&one, 20)),
        seed("bytes_behind", [&one[..], &[0]].concat()),
        seed("file_twice", file_twice),
        seed("more_files_than_bytes", with(&one, 1, &[0xff])),
        seed("bitmap_cut", cut(&of(&mut (0..30_000).step_by(3)), 100)),
        seed("layers_past_the_end", with(&one, 26, &[9])),
    ]
}
