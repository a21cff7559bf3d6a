//! A frame's payload, as it is after the frame opened. The first byte picks the schema that the
//! reader expects.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Int16Array, NullArray,
        RecordBatch,
    },
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use bytes::Bytes;

use super::{cut, seed, with};
use crate::{Outcome, Seed, Target, fixture, variant};

#[cfg(feature = "engine")]
use coffer_plan::codec::{MAX_BODY, decode_batch, encode_batch, pad};
#[cfg(not(feature = "engine"))]
use payload::{MAX_BODY, decode_batch, encode_batch, pad};
// The crate's own file: the crate brings DataFusion, which this build does without.
#[cfg(not(feature = "engine"))]
#[path = "../../../../engine/crates/core/plan/src/codec/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod payload;

pub(super) const TARGET: Target = Target {
    name: "codec",
    about: "payloads of frames (Arrow batches)",
    // A column of equal values takes no bytes at all, so what a batch takes is bounded by a limit
    // and not by its payload; half as much again while a column is made.
    memory: |input| MAX_BODY + MAX_BODY / 2 + 300 * input,
    smoke: 10_000,
    run,
    seeds,
};

fn schema(which: u8) -> SchemaRef {
    let fields = match which {
        0 => fixture::columns()
            .iter()
            .map(coffer_format::Column::field)
            .collect(),
        1 => vec![
            Field::new("n", DataType::Null, true),
            Field::new("b", DataType::Boolean, true),
            Field::new("h", DataType::Int16, false),
            Field::new("d", DataType::Decimal128(12, 2), true),
            Field::new("x", DataType::Binary, true),
            Field::new("t", DataType::Date32, true),
        ],
        _ => vec![],
    };
    Arc::new(Schema::new(fields))
}

fn run(input: &[u8]) -> Outcome {
    let Some((which, payload)) = input.split_first() else {
        return "Nothing".to_owned();
    };
    let schema = schema(*which);
    match decode_batch(&schema, Bytes::copy_from_slice(payload)) {
        Ok(None) => "NoBatch".to_owned(),
        Ok(Some(batch)) => {
            // What is accepted must be sound to its last offset and byte: later code relies on it
            // without looking.
            for column in batch.columns() {
                column
                    .to_data()
                    .validate_full()
                    .expect("a decoded column is valid");
            }
            assert_eq!(batch.schema(), schema);
            "ok".to_owned()
        }
        Err(error) => variant(&error),
    }
}

fn encoded(which: u8, batch: &RecordBatch) -> Vec<u8> {
    let mut out = vec![which];
    encode_batch(batch, &mut out).unwrap();
    out
}

fn seeds() -> Vec<Seed> {
    let small = encoded(0, &fixture::rows(schema(0), 5));
    let packed = encoded(0, &fixture::rows(schema(0), 300));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(3)),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int16Array::from(vec![1, 2, 3])),
        Arc::new(
            Decimal128Array::from(vec![Some(1), None, Some(-7)])
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(BinaryArray::from(vec![
            Some(&b"ab"[..]),
            None,
            Some(&[0, 255][..]),
        ])),
        Arc::new(Date32Array::from(vec![None, Some(5), Some(-9)])),
    ];
    let kinds = encoded(1, &RecordBatch::try_new(schema(1), columns).unwrap());
    let counted = RecordBatch::try_new_with_options(
        schema(2),
        vec![],
        &arrow::array::RecordBatchOptions::new().with_row_count(Some(1000)),
    );
    let counted = encoded(2, &counted.unwrap());
    let set = |of: &[u8], at: usize, number: u32| with(of, at + 1, &number.to_le_bytes());
    let (rows, fixed, text, stored) = (4, 8, 12, 16);
    let padded = {
        let mut out = small.clone();
        pad(&mut out, 1, 700);
        out
    };
    let padding = {
        let mut out = vec![0];
        pad(&mut out, 1, 300);
        out
    };
    vec![
        seed("two_columns", small.clone()),
        seed("packed", packed.clone()),
        seed("all_kinds", kinds.clone()),
        seed("rows_without_columns", counted.clone()),
        seed("padded", padded.clone()),
        seed("padding_alone", padding),
        seed("empty", [0]),
        seed("nothing", []),
        seed("header_cut", &small[..12]),
        seed("another_schema", with(&small, 0, &[1])),
        seed("no_columns_expected", with(&small, 0, &[2])),
        seed("columns_expected", with(&counted, 0, &[0])),
        seed("codec_unknown", with(&small, 1, &[3])),
        seed("codec_of_no_batch", with(&small, 1, &[2])),
        seed("padded_not_a_flag", with(&small, 2, &[2])),
        seed("padding_not_declared", with(&padded, 2, &[0])),
        seed("reserved_set", with(&small, 3, &[1])),
        seed("rows_over_the_limit", set(&small, rows, u32::MAX)),
        seed("rows_at_the_limit", set(&small, rows, u32::MAX / 2)),
        seed("rows_one_more", set(&small, rows, 6)),
        seed("rows_one_fewer", set(&small, rows, 4)),
        seed("fixed_beyond_the_end", set(&small, fixed, u32::MAX)),
        seed("fixed_empty", set(&small, fixed, 0)),
        seed("text_over_the_limit", set(&small, text, u32::MAX)),
        seed("text_longer_than_stored", set(&small, text, 1 << 20)),
        seed("stored_beyond_the_end", set(&small, stored, u32::MAX)),
        seed("stored_empty", set(&small, stored, 0)),
        seed(
            "packed_text_longer_than_it_can_be",
            set(&packed, text, 1 << 30),
        ),
        seed("packed_text_a_little_longer", set(&packed, text, 1 << 12)),
        seed("packed_text_a_little_shorter", set(&packed, text, 64)),
        seed("plain_marked_as_packed", with(&small, 1, &[1])),
        seed("columns_garbage", with(&kinds, 21, &[0xff; 24])),
        seed("forms_zero", with(&small, 21, &[0; 12])),
        seed("cut", cut(&small, 8)),
        seed("trailing", [&small[..], &[0; 8]].concat()),
        seed("kinds_cut", cut(&kinds, 1)),
    ]
}
