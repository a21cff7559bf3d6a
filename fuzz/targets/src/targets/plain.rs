//! A plain Parquet file that the policy lists as an unverified input: its footer, as the client
//! engine reads it. Nothing vouches for any byte of it.

use std::{fs, sync::LazyLock};

use coffer_catalog::PlainTable;
use parquet::file::properties::WriterVersion;

use super::{cut, seed, with};
use crate::{
    Outcome, Seed, Target,
    fixture::{self, PLAIN, footer_of},
    outcome,
};

pub(super) const TARGET: Target = Target {
    name: "plain",
    about: "plain Parquet files, as the client engine opens them",
    memory: |input| 2048 * input + (1 << 20),
    smoke: 15_000,
    run,
    seeds,
};

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(fixture::scratch);

fn run(input: &[u8]) -> Outcome {
    let path = FOLDER.path().join("input.parquet");
    fs::write(&path, input).unwrap();
    outcome(PlainTable::open(&[path], &None))
}

/// A file whose footer is this FileMetaData.
pub(super) fn file(metadata: &[u8]) -> Vec<u8> {
    let length = u32::try_from(metadata.len()).unwrap().to_le_bytes();
    [&b"PAR1"[..], metadata, &length, b"PAR1"].concat()
}

/// A footer whose schema goes down so many levels.
pub(super) fn deep_schema(levels: usize) -> Vec<u8> {
    // SchemaElement { 4: name = "g", 5: num_children = 1 }
    let group = [0x48, 1, b'g', 0x15, 2, 0];
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    let mut count = levels;
    while count >= 0x80 {
        footer.push(u8::try_from(count & 0x7f).unwrap() | 0x80);
        count >>= 7;
    }
    footer.push(u8::try_from(count).unwrap());
    (0..levels).for_each(|_| footer.extend_from_slice(&group));
    footer.push(0);
    footer
}

fn seeds() -> Vec<Seed> {
    let whole = PLAIN.clone();
    let footer = footer_of(&whole).to_vec();
    let metadata = &footer[..footer.len() - 8];
    let end = whole.len();
    // FileMetaData { 1: version, 2: schema of nought, 3: rows, 4: 2³¹ − 1 row groups }
    let groups = [
        0x15, 2, 0x19, 0x1c, 0x48, 1, b'r', 0, 0x16, 0, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7, 0,
    ];
    // A root that says it has 2³¹ − 1 children.
    let children = [
        0x15, 2, 0x19, 0x1c, 0x48, 1, b'r', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0,
    ];
    // The same number, in a field that says it is a double.
    let disguised = [
        0x15, 2, 0x19, 0x1c, 0x48, 1, b'r', 0x17, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0,
    ];
    vec![
        seed("version_1", whole.clone()),
        seed(
            "version_2",
            fixture::plain(WriterVersion::PARQUET_2_0, false),
        ),
        seed("footer_alone", file(metadata)),
        seed("nothing", []),
        seed("magic_alone", *b"PAR1"),
        seed("tail_alone", *b"\0\0\0\0PAR1"),
        seed("magic_of_a_sealed_file", with(&whole, end - 4, b"PARE")),
        seed("footer_length_huge", with(&whole, end - 8, &[0xff; 4])),
        seed(
            "footer_length_one_more",
            with(&whole, end - 8, &[whole[end - 8] + 1]),
        ),
        seed("cut", cut(&whole, 1)),
        seed("metadata_cut", file(&metadata[..metadata.len() / 2])),
        seed("metadata_garbage", file(&[0xff; 40])),
        seed("metadata_nested_deep", file(&[0x1c; 4000])),
        seed("row_groups_more_than_bytes", file(&groups)),
        seed("children_more_than_elements", file(&children)),
        seed("children_disguised", file(&disguised)),
        seed("schema_goes_down_for_ever", file(&deep_schema(5000))),
    ]
}
