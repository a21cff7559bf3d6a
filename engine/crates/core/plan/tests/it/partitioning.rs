//! Partitioners: every row goes to one target, equal keys to the same, and always so.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    },
    datatypes::{Int64Type, Schema},
};
use coffer_expr::CompileContext;
use coffer_plan::partitioner::{PartitionContext, Partitioner};
use coffer_protocol::{
    plan::{Partitioning, TypeId, literal::Value, partitioning, values::Row},
    wire::Bounds,
};
use proptest::prelude::*;

use crate::support::{batch, column, data_type, key, schema};

fn hash(partitions: u32, columns: u32) -> Partitioning {
    let exprs = (0..columns).map(column).collect();
    Partitioning {
        kind: Some(partitioning::Kind::Hash(partitioning::Hash {
            exprs,
            partitions,
        })),
    }
}

fn range(partitions: u32, descending: bool, nulls_first: bool) -> Partitioning {
    let keys = vec![key(column(0), descending, nulls_first)];
    Partitioning {
        kind: Some(partitioning::Kind::Range(partitioning::Range {
            keys,
            partitions,
            bounds_id: 5,
        })),
    }
}

fn bounds(values: &[Option<i64>]) -> Bounds {
    let long = data_type(TypeId::Long);
    let rows = values
        .iter()
        .map(|value| Row {
            values: vec![coffer_protocol::plan::Literal {
                r#type: Some(long.clone()),
                value: value.map(Value::Int),
            }],
        })
        .collect();
    Bounds {
        id: 5,
        schema: Some(schema(&[("k", long)])),
        rows,
    }
}

fn partitioner(
    partitioning: &Partitioning,
    rows: &RecordBatch,
    secret: u8,
    bounds: Option<&Bounds>,
) -> Result<Partitioner, coffer_plan::Unsupported> {
    let expressions = CompileContext::default();
    let context = PartitionContext {
        key: &[secret; 32],
        partition: 3,
        bounds,
        expressions: &expressions,
    };
    Partitioner::new(partitioning, &rows.schema(), &context)
}

fn longs(values: Vec<Option<i64>>) -> RecordBatch {
    batch(
        &schema(&[("k", data_type(TypeId::Long))]),
        vec![Arc::new(Int64Array::from(values))],
    )
}

/// Target → values, in order.
fn spread(partitioner: &mut Partitioner, rows: &RecordBatch) -> BTreeMap<u32, Vec<Option<i64>>> {
    let portions = partitioner.split(rows).unwrap();
    assert!(portions.is_sorted_by(|a, b| a.target < b.target));
    portions
        .into_iter()
        .map(|p| {
            (
                p.target,
                p.rows
                    .column(0)
                    .as_primitive::<Int64Type>()
                    .iter()
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn equal_keys_meet_whatever_their_form() {
    let s = schema(&[
        ("d", data_type(TypeId::Double)),
        ("s", data_type(TypeId::String)),
    ]);
    let make = |d: Vec<Option<f64>>, t: Vec<Option<&str>>| {
        batch(
            &s,
            vec![
                Arc::new(Float64Array::from(d)) as ArrayRef,
                Arc::new(StringArray::from(t)),
            ],
        )
    };
    let nan = f64::from_bits(0xfff8_0000_0000_0007);
    let rows = make(
        vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(nan), None, None],
        vec![Some("x"); 6],
    );
    let mut p = partitioner(&hash(64, 2), &rows, 1, None).unwrap();
    let portions = p.split(&rows).unwrap();
    assert!(
        portions.iter().all(|p| p.rows.num_rows() == 2),
        "three keys, two rows each"
    );
    // The same keys in another batch, among others: the same targets.
    let target =
        |p: &mut Partitioner, rows: RecordBatch| p.split(&rows).unwrap().first().unwrap().target;
    let zero = target(&mut p, make(vec![Some(0.0)], vec![Some("x")]));
    assert_eq!(
        zero,
        target(
            &mut partitioner(&hash(64, 2), &rows, 1, None).unwrap(),
            make(vec![Some(-0.0)], vec![Some("x")])
        )
    );
}

#[test]
fn another_key_spreads_differently() {
    let rows = longs((0..100).map(Some).collect());
    let one = spread(
        &mut partitioner(&hash(16, 1), &rows, 1, None).unwrap(),
        &rows,
    );
    let two = spread(
        &mut partitioner(&hash(16, 1), &rows, 2, None).unwrap(),
        &rows,
    );
    assert_ne!(one, two);
    assert!(one.len() > 10, "100 keys over 16 targets: {}", one.len());
    // NULLs, too, lie elsewhere under another key.
    let null = longs(vec![None]);
    let targets: std::collections::BTreeSet<u32> = (0..20)
        .map(|secret| {
            partitioner(&hash(1000, 1), &null, secret, None)
                .unwrap()
                .split(&null)
                .unwrap()[0]
                .target
        })
        .collect();
    assert!(targets.len() > 10);
}

#[test]
fn one_target_takes_the_batch_as_it_is() {
    let rows = longs(vec![Some(1), Some(2)]);
    let single = Partitioning {
        kind: Some(partitioning::Kind::Single(partitioning::Single {})),
    };
    for partitioning in [single, hash(1, 1)] {
        let portions = partitioner(&partitioning, &rows, 1, None)
            .unwrap()
            .split(&rows)
            .unwrap();
        assert_eq!(portions.len(), 1);
        assert!(
            Arc::ptr_eq(portions[0].rows.column(0), rows.column(0)),
            "not copied"
        );
    }
}

#[test]
fn round_robin_goes_on_over_batches() {
    let rows = longs((0..5).map(Some).collect());
    let robin = Partitioning {
        kind: Some(partitioning::Kind::RoundRobin(partitioning::RoundRobin {
            partitions: 3,
        })),
    };
    let mut p = partitioner(&robin, &rows, 1, None).unwrap();
    let mut counts = [0; 3];
    for _ in 0..3 {
        for (target, rows) in spread(&mut p, &rows) {
            counts[target as usize] += rows.len();
        }
    }
    assert_eq!(counts, [5, 5, 5]);
}

#[test]
fn rows_without_columns_are_dealt_out_too() {
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let rows =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let robin = Partitioning {
        kind: Some(partitioning::Kind::RoundRobin(partitioning::RoundRobin {
            partitions: 3,
        })),
    };
    let portions = partitioner(&robin, &rows, 1, None)
        .unwrap()
        .split(&rows)
        .unwrap();
    let mut counts: Vec<usize> = portions.iter().map(|p| p.rows.num_rows()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [2, 2, 3]);
}

#[test]
fn a_bound_belongs_to_the_left() {
    let rows = longs(vec![Some(5), Some(10), Some(11), Some(20), Some(21), None]);
    let b = bounds(&[Some(10), Some(20)]);
    let mut ascending = partitioner(&range(3, false, true), &rows, 1, Some(&b)).unwrap();
    assert_eq!(
        spread(&mut ascending, &rows)
            .into_values()
            .collect::<Vec<_>>(),
        [
            vec![Some(5), Some(10), None],
            vec![Some(11), Some(20)],
            vec![Some(21)]
        ]
    );
    let b = bounds(&[Some(20), Some(10)]);
    let mut descending = partitioner(&range(3, true, false), &rows, 1, Some(&b)).unwrap();
    assert_eq!(
        spread(&mut descending, &rows)
            .into_values()
            .collect::<Vec<_>>(),
        [
            vec![Some(20), Some(21)],
            vec![Some(10), Some(11)],
            vec![Some(5), None]
        ]
    );
}

#[test]
fn foreign_bounds_are_refused() {
    let rows = longs(vec![Some(1)]);
    let refused = |b: Option<&Bounds>| partitioner(&range(3, false, true), &rows, 1, b).is_err();
    assert!(refused(None));
    assert!(
        refused(Some(&bounds(&[Some(1), Some(2), Some(3)]))),
        "too many"
    );
    assert!(refused(Some(&bounds(&[Some(2), Some(1)]))), "not ascending");
    assert!(
        refused(Some(&Bounds {
            id: 6,
            ..bounds(&[Some(1)])
        })),
        "of another exchange"
    );
    assert!(!refused(Some(&bounds(&[Some(1)]))));
    assert!(!refused(Some(&bounds(&[]))));
    assert!(
        partitioner(&hash(0, 1), &rows, 1, None).is_err(),
        "no targets"
    );
    assert!(partitioner(&hash(3, 0), &rows, 1, None).is_err(), "no keys");
}

proptest! {
    #[test]
    fn every_row_arrives_once_in_order(values in prop::collection::vec(any::<Option<i8>>(),
        0..300), targets in 1u32..40) {
        let rows = longs(values.iter().map(|v| v.map(i64::from)).collect());
        let mut p = partitioner(&hash(targets, 1), &rows, 9, None).unwrap();
        let spread = spread(&mut p, &rows);
        let mut of_value: BTreeMap<Option<i64>, u32> = BTreeMap::new();
        let mut arrived = 0;
        for (target, rows) in &spread {
            prop_assert!(*target < targets && !rows.is_empty());
            arrived += rows.len();
            for row in rows {
                prop_assert_eq!(*of_value.entry(*row).or_insert(*target), *target);
            }
        }
        prop_assert_eq!(arrived, values.len());
    }

    #[test]
    fn ranges_agree_with_a_plain_search(values in prop::collection::vec(any::<Option<i8>>(),
        0..200), mut cuts in prop::collection::btree_set(any::<i8>(), 0..200)) {
        let rows = longs(values.iter().map(|v| v.map(i64::from)).collect());
        cuts.remove(&i8::MIN);
        let sorted: Vec<Option<i64>> = cuts.iter().map(|v| Some(i64::from(*v))).collect();
        let b = bounds(&sorted);
        let mut p = partitioner(&range(500, false, true), &rows, 1, Some(&b)).unwrap();
        for (target, rows) in spread(&mut p, &rows) {
            for row in rows {
                prop_assert_eq!(target as usize,
                    sorted.iter().filter(|bound| **bound < row).count());
            }
        }
    }
}
