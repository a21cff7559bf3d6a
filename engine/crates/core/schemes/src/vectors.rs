//! Vectors of ours: the same key and place give the same stored values for ever, or stored tables
//! could not be read. (`ope` has its own, beside its tree.)

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int32Array, StringArray, cast::AsArray, types::Int64Type};
use arrow_schema::DataType;

use crate::{Ashe, ColumnSpec, Det, Ore, RowPositions, Scheme, SchemeKey, Standard};

const PLACE: RowPositions<'_> = RowPositions::File {
    file: [1; 16],
    first_row: 5,
};

fn key() -> SchemeKey {
    SchemeKey::from_bytes(&[7; 32])
}

fn ints() -> (ArrayRef, ColumnSpec) {
    let column = Int32Array::from(vec![i32::MIN, 0, 1, i32::MAX]);
    (
        Arc::new(column),
        ColumnSpec::new(DataType::Int32).in_link_group("g"),
    )
}

fn check(scheme: &dyn Scheme, column: &ArrayRef, expected: &[&str]) {
    let stored = scheme.encrypt(column, PLACE).unwrap();
    let found: Vec<String> = match stored.data_type() {
        DataType::Binary => stored
            .as_binary::<i32>()
            .iter()
            .flatten()
            .map(hex::encode)
            .collect(),
        _ => stored
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .map(i64::to_string)
            .collect(),
    };
    assert_eq!(found, expected);
    assert_eq!(&scheme.decrypt(&stored, PLACE).unwrap(), column);
}

#[test]
fn det() {
    let (column, spec) = ints();
    check(
        &Det::new(&key(), &spec).unwrap(),
        &column,
        &[
            "54fbb7ad70de0bd62e42ddc1f128e248bab15268",
            "c0620f8b42795a7eb87c30c38963fba922f0dd2f",
            "24ac802830b28689b980fcc13ae85f345c4853cf",
            "42048b578a297c93ed7195a2ba2768fb5181baff",
        ],
    );
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["", "Coffer", "sixteen bytes ok"]));
    let spec = ColumnSpec::new(DataType::Utf8).in_link_group("g");
    check(
        &Det::new(&key(), &spec).unwrap(),
        &texts,
        &[
            "31675ca40faeaa9a9c2b488df46145b1",
            "b8b31b749f1fb26e234c64359c39702983a679a53e0c",
            "1621aa15e53a1d676e819499ad97704dbb622129e36366136dd80493fb4e2e2d",
        ],
    );
}

#[test]
fn standard() {
    let (column, spec) = ints();
    check(
        &Standard::new(&key(), &spec).unwrap(),
        &column,
        &[
            "b52ae75980cbe6253c02fc2436e059ca90a6012d",
            "8b316255c4d60b7c374530a429f16c2851b1da28",
            "ef790606c38acbdd56a61b42c4581d7ebb37f704",
            "ee6e13b575613b982a424d8253d96b0cc5250c25",
        ],
    );
}

#[test]
fn ore() {
    let (column, spec) = ints();
    check(
        &Ore::new(&key(), &spec).unwrap(),
        &column,
        &[
            "95a299851a91194a",
            "0405968051111001",
            "0405968051111002",
            "10529aa8a2a0a822",
        ],
    );
}

#[test]
fn ashe() {
    let (column, spec) = ints();
    check(
        &Ashe::new(&key(), &spec).unwrap(),
        &column,
        &[
            "-5188104738444853190",
            "3703483137789020648",
            "-7484996566987384990",
            "-4335051086090021156",
        ],
    );
}
