//! The frame payload: round trips, and payloads that must be refused.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
        Float64Array, Int8Array, Int32Array, Int64Array, NullArray, RecordBatch,
        RecordBatchOptions, StringArray, StringViewArray, TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field, Int32Type, Schema, SchemaRef},
};
use bytes::Bytes;
use coffer_plan::codec::{self, CodecError, Encoder, HEADER, MAX_BODY, Packing, encode_batch, pad};
use proptest::prelude::*;

/// A payload that has a batch.
fn decode_batch(schema: &SchemaRef, payload: Bytes) -> Result<RecordBatch, CodecError> {
    codec::decode_batch(schema, payload).map(|batch| batch.expect("the payload has a batch"))
}

fn encode(batch: &RecordBatch) -> Vec<u8> {
    let mut out = vec![];
    encode_batch(batch, &mut out).unwrap();
    out
}

fn of(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

fn numbers(rows: i64) -> RecordBatch {
    of(vec![
        ("a", Arc::new(Int64Array::from_iter_values(0..rows))),
        (
            "b",
            Arc::new(StringArray::from_iter_values(
                (0..rows).map(|i| format!("row {i}")),
            )),
        ),
    ])
}

fn every_type() -> RecordBatch {
    of(vec![
        ("null", Arc::new(NullArray::new(3))),
        (
            "boolean",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        (
            "byte",
            Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(1)])),
        ),
        (
            "double",
            Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(-0.0)])),
        ),
        (
            "decimal",
            Arc::new(
                Decimal128Array::from(vec![Some(-1), None, Some(10i128.pow(37))])
                    .with_precision_and_scale(38, 5)
                    .unwrap(),
            ),
        ),
        (
            "string",
            Arc::new(StringArray::from(vec![Some(""), None, Some("ä€😀")])),
        ),
        (
            "binary",
            Arc::new(BinaryArray::from(vec![
                Some(&b"\xff\x00"[..]),
                None,
                Some(b""),
            ])),
        ),
        (
            "date",
            Arc::new(Date32Array::from(vec![Some(-1), None, Some(i32::MAX)])),
        ),
        (
            "timestamp",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1), None, Some(-1)]).with_timezone("UTC"),
            ),
        ),
        (
            "ntz",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(1),
                None,
                Some(-1),
            ])),
        ),
    ])
}

fn round_trip(batch: &RecordBatch) {
    let decoded = decode_batch(&batch.schema(), Bytes::from(encode(batch))).unwrap();
    assert_eq!(&decoded, batch);
}

#[test]
fn every_type_comes_back() {
    round_trip(&every_type());
    round_trip(&RecordBatch::new_empty(every_type().schema()));
    round_trip(&numbers(5000));
}

#[test]
fn rows_without_columns_keep_their_number() {
    let options = RecordBatchOptions::new().with_row_count(Some(42));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let decoded = decode_batch(&batch.schema(), Bytes::from(encode(&batch))).unwrap();
    assert_eq!(decoded.num_rows(), 42);
}

#[test]
fn slices_are_trimmed() {
    let whole = numbers(10_000);
    let slice = whole.slice(5_001, 3);
    assert!(encode(&slice).len() < 1000);
    round_trip(&slice);
    round_trip(&every_type().slice(1, 2));
}

fn column(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    of(vec![("a", Arc::new(Int64Array::from_iter_values(values)))])
}

#[test]
fn numbers_take_the_bytes_that_their_range_needs() {
    const ROWS: i64 = 1000;
    for (base, range, bytes) in [
        (i64::MIN, 0, 0),
        (-7, 0xff, 1),
        (i64::MAX - 0x100, 0x100, 2),
        (i64::MIN, 0xffff, 2),
        (-1, 0x1_0000, 4),
        (i64::MIN, 0xffff_ffff, 4),
        (0, 0x1_0000_0000, 8),
        (i64::MIN, i64::MAX, 8),
    ] {
        let batch = column((0..ROWS).map(|row| if row % 2 == 0 { base } else { base + range }));
        let size = encode(&batch).len();
        assert!(
            (1000 * bytes..1000 * bytes + 40).contains(&size),
            "{base} and {range}: {size}"
        );
        round_trip(&batch);
    }
    // The whole range of the type, whose width no 64-bit difference holds.
    round_trip(&column([i64::MIN, i64::MAX, 0, -1]));
}

#[test]
fn ascending_numbers_take_the_bytes_that_their_steps_need() {
    for (base, step, bytes) in [
        (i64::MIN, 0xff, 1),
        (-5, 0x100, 2),
        (i64::MIN, 0xffff, 2),
        (0, 0x10_0000, 4),
    ] {
        let batch = column((0..1000).map(|row| base + row * step));
        let size = encode(&batch).len();
        assert!(
            (1000 * bytes..1000 * bytes + 40).contains(&size),
            "{base} and {step}: {size}"
        );
        round_trip(&batch);
    }
    // One step down, and they are offsets.
    let batch = column((0..1000).map(|row| if row == 999 { 0 } else { row * 100 }));
    assert!(encode(&batch).len() > 4000);
    round_trip(&batch);
    round_trip(&of(vec![(
        "a",
        Arc::new(Date32Array::from_iter_values((0..1000).map(|day| day * 9))),
    )]));
}

#[test]
fn decimals_are_narrowed_as_far_as_they_are_numbers_of_64_bits() {
    let decimals = |values: Vec<i128>| {
        let array = Decimal128Array::from(values)
            .with_precision_and_scale(38, 2)
            .unwrap();
        of(vec![("d", Arc::new(array))])
    };
    for (greatest, bytes) in [
        (99, 1),
        (i128::from(i64::MAX), 8),
        (i128::from(i64::MAX) + 1, 16),
        (i128::MAX, 16),
    ] {
        let batch = decimals(
            (0..1000)
                .map(|row| if row % 3 == 0 { 0 } else { greatest })
                .collect(),
        );
        let size = encode(&batch).len();
        assert!(
            (1000 * bytes..1000 * bytes + 40).contains(&size),
            "{greatest}: {size}"
        );
        round_trip(&batch);
    }
    round_trip(&decimals(vec![i128::MIN, -1, i128::from(i64::MIN)]));
}

#[test]
fn texts_are_packed_where_that_pays() {
    let same = of(vec![(
        "a",
        Arc::new(StringArray::from(vec!["AUTOMOBILE"; 10_000])),
    )]);
    assert!(encode(&same).len() < 1_000);
    assert_eq!(encode(&same).first(), Some(&1));
    round_trip(&same);
    let mut rng = fastrand::Rng::with_seed(1);
    let noise = BinaryArray::from_iter_values((0..10_000).map(|_| rng.u64(..).to_le_bytes()));
    let noise = of(vec![("a", Arc::new(noise))]);
    assert_eq!(encode(&noise).first(), Some(&0));
    round_trip(&noise);
}

#[test]
fn rows_of_many_batches_are_one_payload() {
    let (one, two) = (numbers(300), every_type());
    for whole in [one, two] {
        let middle = whole.num_rows() / 3;
        let parts = [
            whole.slice(0, middle),
            whole.slice(middle, 0),
            whole.slice(middle, whole.num_rows() - middle),
        ];
        let mut out = vec![];
        Encoder::default().encode(&parts, &mut out).unwrap();
        assert_eq!(
            decode_batch(&whole.schema(), Bytes::from(out)).unwrap(),
            whole
        );
    }
}

#[test]
fn every_type_comes_back_without_packing() {
    let batch = every_type();
    let mut payload = vec![];
    Encoder::new(Packing::None)
        .encode(std::slice::from_ref(&batch), &mut payload)
        .unwrap();
    assert!(payload.len() > encode(&batch).len());
    assert_eq!(
        decode_batch(&batch.schema(), Bytes::from(payload)).unwrap(),
        batch
    );
}

#[test]
fn dictionaries_and_views_travel_as_plain_columns() {
    let words: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("a")].into_iter().collect();
    let views = StringViewArray::from(vec![
        Some("long enough to lie in a buffer"),
        None,
        Some("x"),
    ]);
    let batch = of(vec![("d", Arc::new(words)), ("v", Arc::new(views))]);
    let fields = vec![
        Field::new("d", DataType::Utf8, true),
        Field::new("v", DataType::Utf8, true),
    ];
    let decoded =
        decode_batch(&Arc::new(Schema::new(fields)), Bytes::from(encode(&batch))).unwrap();
    assert_eq!(
        decoded.column(0).as_ref(),
        &StringArray::from(vec![Some("a"), None, Some("a")]) as &dyn Array
    );
    assert_eq!(decoded.column(1).len(), 3);
}

type Case = (&'static str, fn(&mut Vec<u8>), fn(&CodecError) -> bool);

#[test]
fn payloads_that_must_be_refused() {
    let plain = of(vec![
        (
            "a",
            Arc::new(Int32Array::from(vec![Some(1), None, Some(300)])),
        ),
        ("b", Arc::new(StringArray::from(vec!["x", "yz", ""]))),
    ]);
    // The header; column a: flag, bitmap, width, base, 3 × 2; column b: flag, length, width, base,
    // 3 × 1; text.
    assert_eq!(encode(&plain).len(), HEADER + 17 + 17 + 3);
    let cases: [Case; 18] = [
        (
            "header_cut",
            |p| p.truncate(19),
            |e| matches!(e, CodecError::Truncated),
        ),
        (
            "codec_unknown",
            |p| p[0] = 2,
            |e| matches!(e, CodecError::Header),
        ),
        (
            "reserved_set",
            |p| p[2] = 1,
            |e| matches!(e, CodecError::Header),
        ),
        (
            "padded_unknown",
            |p| p[1] = 2,
            |e| matches!(e, CodecError::Header),
        ),
        (
            "stored_shorter",
            |p| p[16] -= 1,
            |e| matches!(e, CodecError::Trailing),
        ),
        (
            "rows_more",
            |p| p[4] += 1,
            |e| matches!(e, CodecError::Truncated),
        ),
        (
            "rows_fewer",
            |p| p[4] -= 1,
            |e| matches!(e, CodecError::Layout(_) | CodecError::Trailing),
        ),
        (
            "rows_huge",
            |p| p[4..8].fill(0x7f),
            |e| matches!(e, CodecError::Truncated),
        ),
        (
            "rows_above_the_limit",
            |p| p[4..8].fill(0xff),
            |e| matches!(e, CodecError::TooLarge),
        ),
        (
            "fixed_beyond_end",
            |p| p[8..12].fill(0xff),
            |e| matches!(e, CodecError::Truncated),
        ),
        (
            "fixed_shorter",
            |p| p[8] -= 1,
            |e| matches!(e, CodecError::Trailing),
        ),
        (
            "text_huge",
            |p| p[12..16].fill(0xff),
            |e| matches!(e, CodecError::TooLarge),
        ),
        (
            "validity_unknown",
            |p| p[20] = 2,
            |e| matches!(e, CodecError::Layout("validity")),
        ),
        (
            "form_unknown",
            |p| p[22] = 0x23,
            |e| matches!(e, CodecError::Layout("form")),
        ),
        (
            "type_wider",
            |p| p[22] = 0x32,
            |e| matches!(e, CodecError::Layout("type")),
        ),
        (
            "text_length_wrong",
            |p| p[38] = 2,
            |e| matches!(e, CodecError::Layout("length")),
        ),
        (
            "cut",
            |p| p.truncate(p.len() - 1),
            |e| matches!(e, CodecError::Truncated),
        ),
        (
            "trailing",
            |p| p.push(0),
            |e| matches!(e, CodecError::Trailing),
        ),
    ];
    for (name, spoil, expected) in cases {
        let mut payload = encode(&plain);
        spoil(&mut payload);
        let error = decode_batch(&plain.schema(), Bytes::from(payload)).expect_err(name);
        assert!(expected(&error), "{name}: {error}");
    }
}

#[test]
fn a_negative_length_of_a_text_is_refused() {
    let texts = of(vec![("b", Arc::new(StringArray::from(vec!["x", "yz"])))]);
    let mut payload = encode(&texts);
    // Flag, length, width, then the base of the lengths.
    payload[HEADER + 6..HEADER + 14].copy_from_slice(&(-1i64).to_le_bytes());
    let error = decode_batch(&texts.schema(), Bytes::from(payload)).unwrap_err();
    assert!(matches!(error, CodecError::Layout("length")), "{error}");
}

#[test]
fn few_bytes_claim_no_memory() {
    // Columns of one value take next to nothing, however many rows there are.
    let same = of((0..64)
        .map(|_| ("a", Arc::new(Int64Array::from(vec![7; 8])) as ArrayRef))
        .collect());
    let mut payload = encode(&same);
    payload[4..8].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let error = decode_batch(&same.schema(), Bytes::from(payload)).unwrap_err();
    assert!(matches!(error, CodecError::TooLarge), "{error}");
}

#[test]
fn packed_payloads_that_must_be_refused() {
    let same = of(vec![(
        "a",
        Arc::new(StringArray::from(vec!["AUTOMOBILE"; 10_000])),
    )]);
    let spoil = |length: u32| {
        let mut payload = encode(&same);
        assert_eq!(payload[0], 1);
        payload[12..16].copy_from_slice(&length.to_le_bytes());
        decode_batch(&same.schema(), Bytes::from(payload)).unwrap_err()
    };
    let text = u32::from_le_bytes(encode(&same)[12..16].try_into().unwrap());
    let limit = u32::try_from(MAX_BODY).unwrap();
    assert!(
        matches!(spoil(text - 1), CodecError::Unpack),
        "lz4_longer_than_stated"
    );
    assert!(
        matches!(spoil(text + 1), CodecError::Unpack),
        "lz4_shorter_than_stated"
    );
    assert!(
        matches!(spoil(limit), CodecError::TooLarge),
        "lz4_more_than_it_can_hold"
    );
    assert!(
        matches!(spoil(limit + 1), CodecError::TooLarge),
        "lz4_above_the_limit"
    );
}

#[test]
fn padded_payloads_are_as_long_as_asked_and_mean_the_same() {
    let schema = numbers(1).schema();
    for length in [0, 1, 1000, 1 << 16] {
        for batch in [numbers(3), numbers(5000)] {
            let mut out = b"before".to_vec();
            encode_batch(&batch, &mut out).unwrap();
            let bare = out.len() - 6;
            pad(&mut out, 6, length);
            assert_eq!(out.len() - 6, length.max(bare));
            assert_eq!(
                decode_batch(&schema, Bytes::from(out.split_off(6))).unwrap(),
                batch
            );
        }
        let mut nothing = Vec::new();
        pad(&mut nothing, 0, length);
        assert_eq!(nothing.len(), length.max(HEADER));
        assert!(
            codec::decode_batch(&schema, Bytes::from(nothing))
                .unwrap()
                .is_none()
        );
    }
    assert!(
        codec::decode_batch(&schema, Bytes::new())
            .unwrap()
            .is_none()
    );
}

#[test]
fn another_schema_is_refused() {
    let payload = encode(&numbers(3));
    let of = |types: &[DataType]| -> SchemaRef {
        Arc::new(Schema::new(
            types
                .iter()
                .map(|t| Field::new("x", t.clone(), true))
                .collect::<Vec<_>>(),
        ))
    };
    for types in [
        vec![],
        vec![DataType::Int64],
        vec![DataType::Int64, DataType::Int64],
        vec![DataType::Utf8, DataType::Int64],
        vec![DataType::Int64, DataType::Utf8View],
        vec![DataType::Int64, DataType::Utf8, DataType::Int64],
        vec![DataType::Decimal128(38, 0), DataType::Utf8],
    ] {
        assert!(
            decode_batch(&of(&types), Bytes::from(payload.clone())).is_err(),
            "{types:?}"
        );
    }
}

#[test]
fn null_in_a_column_without_nulls_is_refused() {
    let batch = of(vec![("a", Arc::new(Int64Array::from(vec![Some(1), None])))]);
    let strict: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    assert!(decode_batch(&strict, Bytes::from(encode(&batch))).is_err());
}

proptest! {
    #[test]
    fn batches_come_back(rows in prop::collection::vec((any::<Option<i64>>(),
        any::<Option<String>>(), any::<Option<bool>>()), 0..200), from in 0usize..50) {
        let batch = of(vec![
            ("a", Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>())),
            ("b", Arc::new(rows.iter().map(|r| r.1.as_deref()).collect::<StringArray>())),
            ("c", Arc::new(rows.iter().map(|r| r.2).collect::<BooleanArray>())),
        ]);
        let from = from.min(batch.num_rows());
        let batch = batch.slice(from, batch.num_rows() - from);
        let decoded = decode_batch(&batch.schema(), Bytes::from(encode(&batch))).unwrap();
        prop_assert_eq!(decoded, batch);
    }

    /// What the host may have chosen is not packed: a payload's length then tells of its rows and
    /// of the sum of its texts' lengths, and of no value.
    #[test]
    fn lengths_of_what_is_not_packed_do_not_depend_on_values(
        rows in prop::collection::vec(
            (any::<Option<i64>>(), any::<Option<bool>>(), any::<Option<i128>>(), "[ab]{0,9}"),
            1..200,
        ),
    ) {
        let batch = |change: bool| {
            let numbers = rows.iter().map(|r|
                if change { Some(7) } else { r.0 }).collect::<Int64Array>();
            let bits = rows.iter().map(|r|
                if change { None } else { r.1 }).collect::<BooleanArray>();
            let wide = rows.iter().map(|r| r.2.filter(|_| !change)).collect::<Decimal128Array>();
            let texts = rows.iter().map(|r|
                if change { "c".repeat(r.3.len()) } else { r.3.clone() });
            of(vec![
                ("a", Arc::new(numbers)),
                ("b", Arc::new(bits)),
                ("c", Arc::new(wide)),
                ("d", Arc::new(texts.map(Some).collect::<StringArray>())),
            ])
        };
        let mut lengths = vec![];
        for batch in [batch(false), batch(true)] {
            let mut payload = vec![];
            Encoder::new(Packing::None).encode(std::slice::from_ref(&batch), &mut payload).unwrap();
            lengths.push(payload.len());
            prop_assert_eq!(decode_batch(&batch.schema(), Bytes::from(payload)).unwrap(), batch);
        }
        let texts: usize = rows.iter().map(|r| r.3.len()).sum();
        let bitmap = rows.len().div_ceil(8);
        let fixed = (1 + bitmap + 1 + 8 * rows.len())
            + (1 + 2 * bitmap)
            + (1 + bitmap + 1 + 16 * rows.len())
            + (1 + bitmap + 4 + 1 + 4 * rows.len());
        prop_assert_eq!(lengths, vec![HEADER + fixed + texts; 2]);
    }

    #[test]
    fn altered_payloads_never_panic(at in any::<prop::sample::Index>(), value in any::<u8>(),
        cut in any::<prop::sample::Index>(), rows in 1i64..60) {
        let batch = if rows % 2 == 0 { every_type() } else { numbers(rows) };
        let mut payload = encode(&batch);
        let index = at.index(payload.len());
        payload[index] = value;
        let _ = codec::decode_batch(&batch.schema(), Bytes::from(payload.clone()));
        payload.truncate(cut.index(payload.len() + 1));
        let _ = codec::decode_batch(&batch.schema(), Bytes::from(payload));
    }

    #[test]
    fn noise_never_panics(payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = codec::decode_batch(&numbers(1).schema(), Bytes::from(payload));
    }
}
