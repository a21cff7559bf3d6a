//! What `ashe` shows when a sum is taken, played by a host that has the bytes of the sum: the rows,
//! and nothing of the values.

use std::collections::BTreeSet;

use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};
use arrow_schema::DataType;
use coffer_schemes::{Ashe, AsheSum, ColumnSpec, Domain, RowPositions, Scheme, SchemeKey};

const FILES: [[u8; 16]; 2] = [[1; 16], [2; 16]];
const ROWS: u64 = 5_000;

fn spec() -> ColumnSpec {
    ColumnSpec::new(DataType::Int64).with_domain(Domain::new(0, 1 << 40).unwrap())
}

fn stored(key: &SchemeKey, file: [u8; 16], values: &Int64Array) -> Int64Array {
    let positions = RowPositions::File { file, first_row: 0 };
    let column = Ashe::new(key, &spec())
        .unwrap()
        .encrypt(values, positions)
        .unwrap();
    column.as_primitive::<Int64Type>().clone()
}

/// Which rows are chosen: as unpredictable as data is.
fn chosen(row: u64, file: u64) -> bool {
    (row.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ file)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        >> 62
        == 0
}

#[test]
fn the_rows_of_a_sum_are_recovered_from_its_bytes() {
    let key = SchemeKey::generate().unwrap();
    let values = Int64Array::from_iter_values(0..i64::try_from(ROWS).unwrap());
    let mut sum = AsheSum::default();
    let mut wanted = BTreeSet::new();
    for (number, file) in (0..).zip(FILES) {
        let column = stored(&key, file, &values);
        for row in (0..ROWS).filter(|row| chosen(*row, number)) {
            sum.add(column.value(usize::try_from(row).unwrap()), &file, row)
                .unwrap();
            wanted.insert((file, row));
        }
    }
    let mut found = BTreeSet::new();
    for part in AsheSum::decode(&sum.encode()).unwrap().files() {
        for layer in part.rows() {
            layer.runs(|first, last| found.extend((first..=last).map(|row| (*part.file(), row))));
        }
    }
    assert!(wanted.len() > 1_000);
    assert_eq!(found, wanted);
}

#[test]
fn the_number_of_a_sum_tells_nothing_of_the_values() {
    const KEYS: u32 = 2_000;
    let small = Int64Array::from(vec![1; 20]);
    let large = Int64Array::from(vec![1 << 39; 20]);
    let mut ones = [[0_u32; 64]; 2];
    let mut seen = BTreeSet::new();
    for _ in 0..KEYS {
        let key = SchemeKey::generate().unwrap();
        for (values, ones) in [&small, &large].into_iter().zip(&mut ones) {
            let column = stored(&key, FILES[0], values);
            let mut sum = AsheSum::default();
            for row in 3..17 {
                sum.add(column.value(row), &FILES[0], u64::try_from(row).unwrap())
                    .unwrap();
            }
            let number = sum.files()[0].sum();
            seen.insert(number);
            for (bit, ones) in ones.iter_mut().enumerate() {
                *ones += u32::try_from(number >> bit & 1).unwrap();
            }
        }
    }
    // Equal sums under other keys differ, and each bit is one as often as not: to within six
    // standard deviations.
    assert_eq!(seen.len(), 2 * usize::try_from(KEYS).unwrap());
    let sigma = f64::from(KEYS).sqrt() / 2.0;
    for count in ones.iter().flatten() {
        assert!(
            (f64::from(*count) - f64::from(KEYS) / 2.0).abs() < 6.0 * sigma,
            "{count} of {KEYS}"
        );
    }
}
