use arrow_array::{BooleanArray, Date32Array, Int32Array, StringArray};
use proptest::prelude::*;

use super::*;
use crate::{Domain, Side, testing};

fn ope(spec: &ColumnSpec) -> Ope {
    Ope::new(&SchemeKey::from_bytes(&[7; 32]), spec).unwrap()
}

#[test]
fn every_type_comes_back_in_order() {
    for column in testing::integer_columns()
        .iter()
        .chain(&testing::float_columns())
    {
        let scheme = ope(&ColumnSpec::new(column.data_type().clone()));
        testing::round_trip(&scheme, column, RowPositions::Anywhere);
        // Again, out of what is remembered.
        testing::round_trip(&scheme, column, RowPositions::Anywhere);
    }
}

#[test]
fn widths() {
    let len = |spec: ColumnSpec| (ope(&spec).stored_type(), ope(&spec).stored_len());
    assert_eq!(
        len(ColumnSpec::new(DataType::Boolean)),
        (DataType::Int64, 8)
    );
    assert_eq!(len(ColumnSpec::new(DataType::Int32)), (DataType::Int64, 8));
    assert_eq!(
        len(ColumnSpec::new(DataType::Int64)),
        (DataType::Binary, 16)
    );
    let small = ColumnSpec::new(DataType::Int64)
        .with_domain(Domain::new(-5, i128::from(u32::MAX) - 5).unwrap());
    assert_eq!(len(small), (DataType::Int64, 8));
    assert_eq!(
        len(ColumnSpec::new(DataType::Decimal128(38, 4))),
        (DataType::Binary, 32)
    );
    assert_eq!(len(ColumnSpec::new(DataType::Utf8)), (DataType::Binary, 17));
}

#[test]
fn values_outside_the_domain_are_named() {
    let days = ColumnSpec::new(DataType::Date32).with_domain(Domain::new(0, 20_000).unwrap());
    let scheme = ope(&days);
    for (value, side) in [(-1, Side::Below), (20_001, Side::Above)] {
        let mut values = vec![Some(5); 10_000];
        values[3] = None;
        values[9_000] = Some(value);
        let error = scheme
            .encrypt(&Date32Array::from(values), RowPositions::Anywhere)
            .unwrap_err();
        assert!(
            matches!(error, SchemeError::OutsideDomain { row: 9_000, side: found }
                if found == side),
            "{error}"
        );
    }
    let wide = ColumnSpec::new(DataType::Int32).with_domain(Domain::new(0, 1 << 40).unwrap());
    assert!(Ope::new(&SchemeKey::from_bytes(&[7; 32]), &wide).is_err());
    assert!(Domain::new(2, 1).is_err());
    for prefix in [0, 16] {
        let spec = ColumnSpec::new(DataType::Utf8).with_prefix(prefix);
        assert!(Ope::new(&SchemeKey::from_bytes(&[7; 32]), &spec).is_err());
    }
}

#[test]
fn foreign_values_are_named() {
    let scheme = ope(&ColumnSpec::new(DataType::Int32));
    let column = Int32Array::from_iter_values(0..100);
    let stored = scheme.encrypt(&column, RowPositions::Anywhere).unwrap();
    for wrong in [-1, 0, 1, i64::MAX] {
        let mut values = stored.as_primitive::<Int64Type>().values().to_vec();
        values[42] = wrong;
        let error = scheme
            .decrypt(&Int64Array::from(values), RowPositions::Anywhere)
            .unwrap_err();
        assert!(
            matches!(error, SchemeError::Unauthentic { row: 42 }),
            "{wrong}: {error}"
        );
    }
    let other = Ope::new(
        &SchemeKey::from_bytes(&[8; 32]),
        &ColumnSpec::new(DataType::Int32),
    )
    .unwrap();
    assert!(matches!(
        other.decrypt(&stored, RowPositions::Anywhere),
        Err(SchemeError::Unauthentic { row: 0 })
    ));
}

#[test]
fn nothing_lies_under_a_null() {
    let scheme = ope(&ColumnSpec::new(DataType::Boolean));
    let stored = scheme
        .encrypt(
            &BooleanArray::from(vec![None, Some(true)]),
            RowPositions::Anywhere,
        )
        .unwrap();
    assert_eq!(stored.as_primitive::<Int64Type>().values()[0], 0);
}

/// A vector of ours: the same key gives the same ciphertexts for ever, or stored tables could not
/// be read.
#[test]
fn ciphertexts_do_not_change() {
    let narrow = ope(&ColumnSpec::new(DataType::Int32))
        .encrypt(
            &Int32Array::from(vec![i32::MIN, -1, 0, 1, 2, i32::MAX]),
            RowPositions::Anywhere,
        )
        .unwrap();
    assert_eq!(
        narrow.as_primitive::<Int64Type>().values(),
        &[
            1_491_557_005,
            4_611_685_198_296_922_417,
            4_611_685_200_117_671_089,
            4_611_685_201_232_989_501,
            4_611_685_204_189_057_300,
            9_223_372_036_074_146_002,
        ]
    );
    let wide = ope(&ColumnSpec::new(DataType::Utf8))
        .encrypt(
            &StringArray::from(vec!["", "Coffer"]),
            RowPositions::Anywhere,
        )
        .unwrap();
    let wide: Vec<String> = wide
        .as_binary::<i32>()
        .iter()
        .flatten()
        .map(hex::encode)
        .collect();
    assert_eq!(
        wide,
        [
            "0000000000000000f64e80444f87506263",
            "442bcb3dfd6324fa5e9381b481a90f06c1"
        ]
    );
}

proptest! {
    #[test]
    fn integers_keep_their_order(mut values: Vec<i64>) {
        let scheme = ope(&ColumnSpec::new(DataType::Int64));
        values.sort_unstable();
        let stored = scheme.encrypt(&Int64Array::from(values.clone()),
            RowPositions::Anywhere).unwrap();
        let stored: Vec<&[u8]> = stored.as_binary::<i32>().iter().flatten().collect();
        for (values, sealed) in values.windows(2).zip(stored.windows(2)) {
            prop_assert_eq!(values[0].cmp(&values[1]), sealed[0].cmp(sealed[1]));
        }
    }

    #[test]
    fn doubles_keep_their_order(values: Vec<f64>) {
        let scheme = ope(&ColumnSpec::new(DataType::Float64));
        let stored = scheme.encrypt(&arrow_array::Float64Array::from(values.clone()),
            RowPositions::Anywhere).unwrap();
        let stored: Vec<&[u8]> = stored.as_binary::<i32>().iter().flatten().collect();
        for (values, sealed) in values.windows(2).zip(stored.windows(2)) {
            // Spark's order: −0.0 = 0.0, NaN greatest.
            let order = values[0].partial_cmp(&values[1]).unwrap_or_else(||
                values[0].is_nan().cmp(&values[1].is_nan()));
            prop_assert_eq!(order, sealed[0].cmp(sealed[1]));
        }
    }

    #[test]
    fn strings_keep_the_order_of_their_prefix(a in "\\PC{0,4}", b in "\\PC{0,4}",
        prefix in 1_usize..=15) {
        let scheme = ope(&ColumnSpec::new(DataType::Utf8).with_prefix(prefix));
        let stored = scheme.encrypt(&StringArray::from(vec![a.as_str(), b.as_str()]),
            RowPositions::Anywhere).unwrap();
        let sealed = stored.as_binary::<i32>();
        let cut = |text: &str| text.bytes().take(prefix).collect::<Vec<_>>();
        prop_assert_eq!(cut(&a).cmp(&cut(&b)), sealed.value(0).cmp(sealed.value(1)));
        prop_assert_eq!(scheme.decrypt(&stored, RowPositions::Anywhere).is_err(), true);
    }
}
