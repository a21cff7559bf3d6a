use std::sync::Arc;

use arrow_array::{BinaryArray, Decimal128Array, Int32Array};
use proptest::prelude::*;

use super::*;
use crate::{Domain, FileIds, testing};

const FILE: RowPositions<'_> = RowPositions::File {
    file: [1; 16],
    first_row: 0,
};

fn ashe(spec: &ColumnSpec) -> Ashe {
    Ashe::new(&SchemeKey::from_bytes(&[7; 32]), spec).unwrap()
}

fn ints() -> Ashe {
    ashe(&ColumnSpec::new(DataType::Int32))
}

fn positions(file: u8, first_row: u64) -> RowPositions<'static> {
    RowPositions::File {
        file: [file; 16],
        first_row,
    }
}

fn add_all(sum: &mut AsheSum, stored: &ArrayRef, file: u8, rows: impl IntoIterator<Item = usize>) {
    let stored = stored.as_primitive::<Int64Type>();
    for row in rows {
        if stored.is_valid(row) {
            sum.add(stored.value(row), &[file; 16], row as u64).unwrap();
        }
    }
}

#[test]
fn values_come_back() {
    for column in testing::integer_columns() {
        let spec = ColumnSpec::new(column.data_type().clone());
        let spec = match column.data_type() {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Decimal128(5, _) => spec,
            _ => continue,
        };
        testing::round_trip(&ashe(&spec), &column, positions(1, 7));
    }
    let wide = ColumnSpec::new(DataType::Int64)
        .with_domain(Domain::new(i128::from(i64::MAX) - 1_000, i64::MAX.into()).unwrap());
    let column: ArrayRef = Arc::new(Int64Array::from(vec![
        Some(i64::MAX),
        None,
        Some(i64::MAX - 1_000),
    ]));
    testing::round_trip(&ashe(&wide), &column, FILE);
    let long: ArrayRef = Arc::new(Int32Array::from_iter_values(-6_000..6_000));
    testing::round_trip(&ints(), &long, positions(1, 12_345));
}

#[test]
fn what_could_overflow_is_refused() {
    let refused = |spec: ColumnSpec| Ashe::new(&SchemeKey::from_bytes(&[7; 32]), &spec).is_err();
    assert!(refused(ColumnSpec::new(DataType::Int64)));
    assert!(refused(ColumnSpec::new(DataType::Decimal128(18, 2))));
    assert!(refused(ColumnSpec::new(DataType::Date32)));
    assert!(refused(ColumnSpec::new(DataType::Utf8)));
    let money =
        ColumnSpec::new(DataType::Decimal128(16, 2)).with_domain(Domain::new(0, 1 << 51).unwrap());
    let money = ashe(&money);
    assert_eq!(money.most_rows(), (1 << 13) - 1);
    let column = Decimal128Array::from(vec![5])
        .with_precision_and_scale(16, 2)
        .unwrap();
    assert!(money.encrypt(&column, positions(1, (1 << 13) - 2)).is_ok());
    assert!(matches!(
        money.encrypt(&column, positions(1, (1 << 13) - 1)),
        Err(SchemeError::SumTooLong {
            rows: 8_192,
            most: 8_191
        })
    ));
    // A sum may repeat rows: what no file could hold is refused when it is opened.
    let stored = money.encrypt(&column, FILE).unwrap();
    let mut sum = AsheSum::default();
    (0..8_191).for_each(|_| add_all(&mut sum, &stored, 1, [0]));
    assert_eq!(
        money.open_sum(&sum).unwrap(),
        Some(SumOpening {
            sum: 40_955,
            count: 8_191
        })
    );
    add_all(&mut sum, &stored, 1, [0]);
    assert!(matches!(
        money.open_sum(&sum),
        Err(SchemeError::SumTooLong { .. })
    ));
}

#[test]
fn values_outside_the_domain_are_named() {
    let scheme = ashe(&ColumnSpec::new(DataType::Int32).with_domain(Domain::new(0, 100).unwrap()));
    let mut values = vec![1; 5_000];
    values[4_500] = 101;
    let error = scheme.encrypt(&Int32Array::from(values), FILE).unwrap_err();
    assert!(
        matches!(error, SchemeError::OutsideDomain { row: 4_500, .. }),
        "{error}"
    );
}

#[test]
fn equal_values_differ_and_files_have_pads_of_their_own() {
    let column = Int32Array::from(vec![5; 100]);
    let stored = |positions| {
        ints()
            .encrypt(&column, positions)
            .unwrap()
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    let (one, other) = (stored(FILE), stored(positions(2, 0)));
    let mut all: Vec<i64> = one.into_iter().chain(other).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200);
    assert!(matches!(
        ints().encrypt(&column, RowPositions::Anywhere),
        Err(SchemeError::PositionNeeded { .. })
    ));
}

#[test]
fn moved_rows_open_by_their_numbers() {
    let column = Int32Array::from_iter_values(0..10_000);
    let stored: Vec<ArrayRef> = (0..2)
        .map(|file| ints().encrypt(&column, positions(file, 3)).unwrap())
        .collect();
    // Backwards, in order, and to and fro between two files.
    let orders: [Box<dyn Iterator<Item = (usize, usize)>>; 3] = [
        Box::new((0..10_000).rev().map(|row| (0, row))),
        Box::new((0..10_000).map(|row| (1, row))),
        Box::new((0..10_000).map(|row| (row / 3 % 2, row))),
    ];
    for order in orders {
        let order: Vec<(usize, usize)> = order.collect();
        let value =
            |(file, row): &(usize, usize)| stored[*file].as_primitive::<Int64Type>().value(*row);
        let moved = Int64Array::from_iter_values(order.iter().map(value));
        let files: ArrayRef = Arc::new(BinaryArray::from_iter_values(
            order.iter().map(|(file, _)| [*file as u8; 16]),
        ));
        let files = FileIds::resolve(&files).unwrap();
        let rows = Int64Array::from_iter_values(order.iter().map(|(_, row)| *row as i64 + 3));
        let positions = RowPositions::Scattered {
            files: &files,
            rows: &rows,
        };
        let opened = ints().decrypt(&moved, positions).unwrap();
        let expected = Int32Array::from_iter_values(order.iter().map(|(_, row)| *row as i32));
        assert_eq!(
            opened.as_primitive::<arrow_array::types::Int32Type>(),
            &expected
        );
    }
}

#[test]
fn nothing_lies_under_a_null() {
    let stored = ints()
        .encrypt(&Int32Array::from(vec![Some(1), None, Some(2)]), FILE)
        .unwrap();
    assert_eq!(stored.as_primitive::<Int64Type>().values()[1], 0);
}

#[test]
fn a_sum_of_many_scattered_rows_opens() {
    let column = Int32Array::from_iter_values(0..200_000);
    let stored = ints().encrypt(&column, FILE).unwrap();
    for step in [1, 2, 3, 1_000] {
        let mut sum = AsheSum::default();
        add_all(&mut sum, &stored, 1, (0..200_000).step_by(step));
        let rows: Vec<i128> = (0..200_000_i128).step_by(step).collect();
        let expected = SumOpening {
            sum: rows.iter().sum(),
            count: rows.len() as u64,
        };
        assert_eq!(
            ints().open_sum(&sum).unwrap(),
            Some(expected),
            "step {step}"
        );
        assert!(
            sum.encode().len() < 30_000,
            "step {step}: {}",
            sum.encode().len()
        );
    }
}

#[test]
fn malformed_sums_are_refused() {
    let stored = ints()
        .encrypt(&Int32Array::from(vec![1, 2, 3]), FILE)
        .unwrap();
    let mut sum = AsheSum::default();
    add_all(&mut sum, &stored, 1, [0, 2, 2]);
    let good = sum.encode();
    assert_eq!(
        ints().open_sum(&AsheSum::decode(&good).unwrap()).unwrap(),
        Some(SumOpening { sum: 7, count: 3 })
    );
    for end in 0..good.len() {
        assert!(AsheSum::decode(&good[..end]).is_err(), "{end}");
    }
    assert!(AsheSum::decode(&[&good[..], &[0]].concat()).is_err());
    let mut twice = good.clone();
    twice[1] = 2;
    twice.extend_from_slice(&good[2..]);
    assert!(AsheSum::decode(&twice).is_err(), "one file twice");
    assert_eq!(ints().open_sum(&AsheSum::default()).unwrap(), None);
}

proptest! {
    #[test]
    fn sums_over_files_groups_and_merges(
        values in prop::collection::vec(prop::option::weighted(0.9, any::<i32>()), 1..300),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..3, 0_usize..4), 0..300),
    ) {
        let scheme = ints();
        let column = Int32Array::from(values.clone());
        let stored: Vec<ArrayRef> = (0..3).map(|file|
            scheme.encrypt(&column, positions(file, 0)).unwrap()).collect();
        let mut parts = vec![AsheSum::default(); 4];
        let (mut expected, mut count) = (0_i128, 0);
        for (row, file, part) in picks {
            let row = row.index(values.len());
            add_all(&mut parts[part], &stored[usize::from(file)], file, [row]);
            if let Some(value) = values[row] {
                expected += i128::from(value);
                count += 1;
            }
        }
        let mut whole = AsheSum::default();
        for part in parts {
            let bytes = part.encode();
            prop_assert_eq!(AsheSum::decode(&bytes).unwrap().encode(), bytes);
            whole.merge(AsheSum::decode(&part.encode()).unwrap()).unwrap();
        }
        prop_assert_eq!(whole.count(), count);
        let opened = scheme.open_sum(&whole).unwrap();
        prop_assert_eq!(opened, (count > 0).then_some(SumOpening { sum: expected, count }));
    }

    #[test]
    fn batches_add_as_rows_do(values in prop::collection::vec(prop::option::of(any::<i32>()),
        0..100)) {
        let column = Int32Array::from(values.clone());
        let stored = ints().encrypt(&column, FILE).unwrap();
        let files: ArrayRef = Arc::new(BinaryArray::from_iter_values(values.iter().map(|_|
            [1; 16])));
        let rows = Int64Array::from_iter_values(0..values.len() as i64);
        let mut sum = AsheSum::default();
        sum.add_batch(stored.as_primitive(), &FileIds::resolve(&files).unwrap(), &rows).unwrap();
        let expected: i128 = values.iter().flatten().map(|v| i128::from(*v)).sum();
        prop_assert_eq!(ints().open_sum(&sum).unwrap().map_or(0, |opening| opening.sum), expected);
    }

    #[test]
    fn hostile_states_end_in_an_error_or_a_sum(mut bytes: Vec<u8>) {
        bytes.insert(0, VERSION_BYTE);
        if let Ok(sum) = AsheSum::decode(&bytes) {
            let _ = ints().open_sum(&sum);
        }
    }
}

const VERSION_BYTE: u8 = 1;
