//! Columns of what follows from a row's place, against what Spark drew for the same rows
//! (`tests/golden/places.txt`, written by `PlacesGoldenSuite` of the plugin).

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray},
    datatypes::{DataType as ArrowType, Field as ArrowField, Float64Type, Int32Type, Int64Type},
};
use coffer_plan::Unsupported;
use coffer_protocol::plan::{
    DataType, Expr, Field, Node, Placed, Schema, TypeId,
    expr::Kind as ExprKind,
    node::Op,
    placed::{Column, Kind},
};

use crate::support::{MemoryIo, batch, data_type, fragment, input, node, plan, run_on, schema};

fn arrays() -> DataType {
    let element = Field {
        name: "element".to_owned(),
        r#type: Some(data_type(TypeId::Long)),
        nullable: true,
        ..Default::default()
    };
    DataType {
        id: TypeId::Array.into(),
        children: vec![element],
        ..DataType::default()
    }
}

fn read() -> Schema {
    schema(&[("items", arrays())])
}

fn placed(kind: Kind, seed: i64, column: Column) -> (Node, Schema) {
    let of = match kind {
        Kind::Uniform | Kind::Normal => data_type(TypeId::Double),
        Kind::Text | Kind::Uuid => data_type(TypeId::String),
        Kind::Id => data_type(TypeId::Long),
        Kind::Partition => data_type(TypeId::Int),
        _ => arrays(),
    };
    let column = Column {
        name: "made".to_owned(),
        kind: kind.into(),
        seed,
        ..column
    };
    let placed = Placed {
        child: Some(Box::new(input(1, &read()))),
        columns: vec![column],
    };
    let output = schema(&[("items", arrays()), ("made", of)]);
    (node(2, Op::Placed(Box::new(placed))), output)
}

fn column(kind: Kind) -> Column {
    let first = Expr {
        kind: Some(ExprKind::Column(0)),
    };
    Column {
        length: if kind == Kind::Text { 7 } else { 0 },
        input: (kind == Kind::Shuffled).then_some(first),
        ..Column::default()
    }
}

/// 700 rows of arrays, in batches of several lengths; every fifth is NULL.
fn io() -> MemoryIo {
    let field = Arc::new(ArrowField::new("element", ArrowType::Int64, true));
    let lists = (0..700i64).map(|row| (row % 5 != 4).then(|| (0..row % 9).map(Some)));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
    let (_, offsets, values, nulls) = lists.into_parts();
    let lists: ArrayRef = Arc::new(ListArray::new(field, offsets, values, nulls));
    let parts = [0..1, 1..64, 64..320, 320..700];
    let batches = parts.map(|part| batch(&read(), vec![lists.slice(part.start, part.len())]));
    MemoryIo::default().input(1, vec![batches.to_vec()])
}

fn text_of(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    match array.data_type() {
        ArrowType::Float64 => {
            let bits = array.as_primitive::<Float64Type>().value(row).to_bits();
            format!("{bits:016x}")
        }
        ArrowType::Utf8 => format!("\"{}\"", array.as_string::<i32>().value(row)),
        ArrowType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        ArrowType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        _ => {
            let items = array.as_list::<i32>().value(row);
            let items: Vec<String> = (0..items.len()).map(|i| text_of(&items, i)).collect();
            format!("[{}]", items.join(","))
        }
    }
}

#[tokio::test]
async fn every_value_is_sparks() {
    let golden = include_str!("../golden/places.txt");
    assert_eq!(golden.lines().count(), 7 * 7 * 3);
    for line in golden.lines() {
        let mut parts = line.splitn(5, ' ');
        let kind = Kind::from_str_name(parts.next().unwrap()).unwrap();
        let seed = parts.next().unwrap().parse().unwrap();
        let partition: usize = parts.next().unwrap().parse().unwrap();
        let (sum, first) = (parts.next().unwrap(), parts.next().unwrap());
        let (root, output) = placed(kind, seed, column(kind));
        let plan = plan(&fragment(root, output), 8).unwrap();
        let found = run_on(&plan, partition, io()).await.unwrap();
        let found: Vec<String> = (0..700).map(|row| text_of(found.column(1), row)).collect();
        assert_eq!(found[..12].join(" "), first, "{kind:?} {seed} {partition}");
        let hash = found
            .join(" ")
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        assert_eq!(format!("{hash:016x}"), sum, "{kind:?} {seed} {partition}");
    }
}

#[test]
fn what_is_no_column_is_refused() {
    for (kind, made) in [
        (Kind::Unspecified, Column::default()),
        (Kind::Shuffled, Column::default()),
        (Kind::Uuid, column(Kind::Shuffled)),
        (
            Kind::Text,
            Column {
                length: 1 << 20,
                ..Column::default()
            },
        ),
    ] {
        let (root, output) = placed(kind, 1, made);
        let refused = plan(&fragment(root, output), 1).unwrap_err();
        assert!(
            matches!(refused, Unsupported::Malformed { .. }),
            "{kind:?}: {refused}"
        );
    }
}
