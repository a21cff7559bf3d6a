//! Scans of a real engine (see [`super::tasks`]): pages of files that their host changed, or made.

use std::fs;

use coffer_catalog::{ChunkPins, PlainTable};
use coffer_format::Digest;
use coffer_protocol::{
    plan::{Scan, Schema, node::Op},
    wire::{FileSlice, ScanTask, Start, file_slice::ClearColumn},
};
use coffer_sealing::KekSet;
use parquet::file::properties::WriterVersion;
use prost::Message;

use super::{
    cut,
    footer::cut_tail,
    fragment, plain, seed,
    tasks::{FOLDER, descriptor, own_fault, start, task},
    with,
};
use crate::{
    Outcome, Seed, Target,
    fixture::{self, FILE, TABLE_KEY, footer_of, keks},
    variant,
};

pub(super) const SEALED: Target = Target {
    name: "scan_sealed",
    about: "pages of a sealed file that its host changed",
    memory: |_| 64 << 20,
    smoke: 2_400,
    run: sealed,
    seeds: sealed_seeds,
};

pub(super) const PLAIN: Target = Target {
    name: "scan_plain",
    about: "plain Parquet files, read by an engine",
    // Two columns, a page of each, and the page it was packed in.
    memory: |input| 3 * coffer_format::lengths::MAX_PAGE + 4096 * input,
    smoke: 2_400,
    run: unverified,
    seeds: unverified_seeds,
};

/// A scan of both columns, with a condition, so that page indexes are read.
fn scanning(slices: Vec<FileSlice>, schema: Schema, keys: &KekSet) -> Start {
    let scan = Scan {
        scan_id: 0,
        schema: Some(schema.clone()),
        pushed: vec![fragment::call(
            "greater_than_or_equal",
            vec![fragment::column(0), fragment::long(10)],
            coffer_protocol::plan::TypeId::Boolean,
        )],
    };
    let fragment = fragment::result(fragment::node(1, Op::Scan(scan)), schema);
    let mut descriptor = descriptor(&fragment);
    descriptor.inputs.clear();
    descriptor.scans = vec![ScanTask { scan_id: 0, slices }];
    descriptor.keks = keys.iter().map(|kek| kek.id().to_string()).collect();
    start(&fragment, &descriptor.encode_to_vec(), &[])
}

/// Changes to the fixture's file: (place u16 LE, count, bytes)…; a count of 0 cuts the file there.
fn patched(mut input: &[u8]) -> Vec<u8> {
    let mut file = FILE.bytes.clone();
    while let Some(([low, high, count], rest)) = input.split_first_chunk::<3>() {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % file.len().max(1);
        let (bytes, rest) = rest.split_at(usize::from(*count).min(rest.len()));
        if *count == 0 {
            file.truncate(at);
        }
        file.iter_mut()
            .skip(at)
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        input = rest;
    }
    file
}

fn sealed(input: &[u8]) -> Outcome {
    let path = FOLDER.path().join("sealed.parquet");
    fs::write(&path, patched(input)).unwrap();
    let footer = cut_tail(footer_of(&FILE.bytes));
    let slice = FileSlice {
        path: path.to_str().unwrap().to_owned(),
        size: FILE.bytes.len() as u64,
        rows: FILE.rows,
        aad_prefix: FILE.aad_prefix.clone().into(),
        footer_length: footer.len() as u64,
        footer_sha256: Digest::of(footer).as_bytes().to_vec().into(),
        first_row_group: 0,
        end_row_group: 2,
        table: TABLE_KEY.table().as_bytes().to_vec().into(),
        ..FileSlice::default()
    };
    own_fault(task(
        &scanning(vec![slice], fragment::schema(), &keks()),
        &[],
    ))
}

/// The client engine opens and pins the file as it is; then an engine reads all of it. The
/// `parquet` crate may panic over pages that are not verified: the engine contains that.
fn unverified(input: &[u8]) -> Outcome {
    let path = FOLDER.path().join("plain.parquet");
    fs::write(&path, input).unwrap();
    let table = match PlainTable::open(std::slice::from_ref(&path), &None) {
        Ok(table) => table,
        Err(error) => return variant(&error),
    };
    let Some(file) = table.files.first() else {
        return "NoFile".to_owned();
    };
    let groups = file.row_groups.len();
    let columns: Vec<String> = fragment::schema()
        .fields
        .iter()
        .map(|field| field.name.clone())
        .collect();
    let mut pins = ChunkPins::default();
    if let Err(error) = pins.pin(&table, &columns, &None) {
        return variant(&error);
    }
    let pinned = |name: String| {
        let chunks = pins.of(&table, file, 0..groups, &name)?;
        Some(ClearColumn {
            name,
            chunks: chunks
                .iter()
                .map(|chunk| chunk.as_bytes().to_vec().into())
                .collect(),
        })
    };
    let slice = FileSlice {
        path: path.to_str().unwrap().to_owned(),
        size: file.pin.size,
        rows: file.pin.rows,
        footer_length: file.pin.footer_length,
        footer_sha256: file.pin.footer_sha256.as_bytes().to_vec().into(),
        first_row_group: 0,
        end_row_group: u32::try_from(groups).unwrap(),
        plain: true,
        // A column that the file lacks is not pinned, and the engine is to find that out.
        clear_columns: columns.into_iter().filter_map(pinned).collect(),
        ..FileSlice::default()
    };
    task(
        &scanning(vec![slice], fragment::schema(), &KekSet::new()),
        &[],
    )
}

// ---- seeds ----

fn sealed_seeds() -> Vec<Seed> {
    let size = FILE.bytes.len();
    let at = |position: usize, bytes: &[u8]| {
        let position = u16::try_from(position).unwrap().to_le_bytes();
        [&position[..], &[u8::try_from(bytes.len()).unwrap()], bytes].concat()
    };
    vec![
        seed("whole", []),
        seed("first_module_length_huge", at(4, &[0xff; 4])),
        seed("first_module_length_zero", at(4, &[0; 4])),
        seed("first_module_length_fifteen", at(4, &[15, 0, 0, 0])),
        seed("first_module_flipped", at(30, &[0x55])),
        seed("magic_changed", at(0, b"PAR1")),
        seed("tail_changed", at(size - 4, b"PAR1")),
        seed("footer_flipped", at(size - 60, &[0x55, 0xaa])),
        seed("zeroed_in_the_middle", at(size / 3, &[0; 200])),
        seed("cut_to_nothing", at(0, &[])),
        seed("cut_by_one", at(size - 1, &[])),
        seed("cut_in_half", at(size / 2, &[])),
        seed(
            "indexes_zeroed",
            at(size - footer_of(&FILE.bytes).len() - 192, &[0; 150]),
        ),
    ]
}

fn unverified_seeds() -> Vec<Seed> {
    let whole = fixture::PLAIN.clone();
    let second = fixture::plain(WriterVersion::PARQUET_2_0, false);
    let footer = whole.len() - footer_of(&whole).len();
    vec![
        seed("version_1", whole.clone()),
        seed("version_2", second.clone()),
        seed(
            "version_2_dictionary",
            fixture::plain(WriterVersion::PARQUET_2_0, true),
        ),
        seed("nothing", []),
        seed("cut", cut(&whole, 3)),
        seed("page_header_garbage", with(&whole, 4, &[0xff; 12])),
        seed("page_header_zero", with(&whole, 4, &[0; 12])),
        seed(
            "page_unpacked_size_huge",
            with(&whole, 6, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        ),
        seed("page_body_garbage", with(&whole, 24, &[0xff; 40])),
        seed("page_body_zero", with(&second, 40, &[0; 40])),
        seed("indexes_garbage", with(&whole, footer - 60, &[0xff; 50])),
        seed(
            "schema_goes_down_for_ever",
            plain::file(&plain::deep_schema(5000)),
        ),
    ]
}
