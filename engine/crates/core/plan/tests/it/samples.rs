//! Samples of keys and the bounds picked from them.

use std::sync::Arc;

use arrow::{
    array::{AsArray, Float64Array, Int64Array, RecordBatch},
    datatypes::{Float64Type, Int64Type},
};
use coffer_expr::CompileContext;
use coffer_plan::sample::{Sampler, pick_bounds};
use coffer_protocol::plan::{TypeId, literal::Value, sink, values::Row};

use crate::support::{batch, column, data_type, key, schema};

fn rows(range: std::ops::Range<i64>) -> RecordBatch {
    batch(
        &schema(&[("k", data_type(TypeId::Long))]),
        vec![Arc::new(Int64Array::from_iter_values(range))],
    )
}

fn sample(batches: &[RecordBatch], partition: u32, size: u32) -> RecordBatch {
    let sample = sink::Sample {
        keys: vec![key(column(0), false, true)],
        size,
        seed: 42,
    };
    let mut sampler = Sampler::new(
        &sample,
        &rows(0..0).schema(),
        partition,
        &CompileContext::default(),
    )
    .unwrap();
    for batch in batches {
        sampler.push(batch).unwrap();
    }
    sampler.finish().unwrap()
}

fn keys(sample: &RecordBatch) -> Vec<i64> {
    sample
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn a_reservoir_is_of_fixed_size_and_the_same_when_repeated() {
    let batches: Vec<RecordBatch> = (0..20).map(|i| rows(i * 500..(i + 1) * 500)).collect();
    let one = sample(&batches, 1, 100);
    assert_eq!(one.num_rows(), 100);
    assert_eq!(one, sample(&batches, 1, 100));
    assert_ne!(keys(&one), keys(&sample(&batches, 2, 100)));
    let weights = one.column(1).as_primitive::<Float64Type>();
    assert!(weights.values().iter().all(|w| *w == 100.0));
    // Uniform: the mean of 0..10000 within a few standard errors (2887 / √100 = 289).
    let mean = keys(&one).iter().sum::<i64>() / 100;
    assert!((3600..6400).contains(&mean), "{mean}");
    // Cut differently, the same rows are drawn.
    let whole = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(one, sample(&[whole], 1, 100));
}

#[test]
fn few_rows_are_all_sampled() {
    assert_eq!(keys(&sample(&[rows(0..3)], 0, 10)), [0, 1, 2]);
    assert_eq!(sample(&[], 0, 10).num_rows(), 0);
}

fn weighted(keys: Vec<Option<i64>>, weight: f64) -> RecordBatch {
    let s = schema(&[
        ("k", data_type(TypeId::Long)),
        ("w", data_type(TypeId::Double)),
    ]);
    let weights = vec![weight; keys.len()];
    batch(
        &s,
        vec![
            Arc::new(Int64Array::from(keys)),
            Arc::new(Float64Array::from(weights)),
        ],
    )
}

fn bounds(samples: &[RecordBatch], descending: bool, partitions: usize) -> Vec<Option<i64>> {
    let keys = [key(column(0), descending, !descending)];
    let rows: Vec<Row> =
        pick_bounds(samples, &keys, partitions, &CompileContext::default()).unwrap();
    rows.into_iter()
        .map(|row| match row.values.first().unwrap().value {
            Some(Value::Int(value)) => Some(value),
            None => None,
            _ => panic!("not a long"),
        })
        .collect()
}

#[test]
fn bounds_part_the_weight_evenly() {
    let samples = [
        weighted((0..50).map(Some).collect(), 1.0),
        weighted((50..100).map(Some).collect(), 1.0),
    ];
    assert_eq!(bounds(&samples, false, 4), [Some(24), Some(49), Some(74)]);
    assert_eq!(bounds(&samples, true, 4), [Some(75), Some(50), Some(25)]);
    // Heavier keys take more of the range.
    let skewed = [
        weighted((0..10).map(Some).collect(), 9.0),
        weighted((10..20).map(Some).collect(), 1.0),
    ];
    assert_eq!(bounds(&skewed, false, 2), [Some(5)]);
}

#[test]
fn bounds_are_distinct_and_at_most_one_fewer_than_partitions() {
    assert_eq!(
        bounds(&[weighted(vec![Some(7); 100], 1.0)], false, 10),
        [Some(7)]
    );
    assert_eq!(
        bounds(
            &[weighted(vec![None, None, Some(1), Some(2)], 1.0)],
            false,
            4
        ),
        [None, Some(1), Some(2)]
    );
    assert_eq!(
        bounds(&[weighted(vec![Some(1), Some(2)], 1.0)], false, 100),
        [Some(1)]
    );
    assert_eq!(bounds(&[weighted(vec![], 1.0)], false, 3), []);
    assert_eq!(bounds(&[], false, 3), []);
    assert_eq!(
        bounds(&[weighted(vec![Some(1), Some(2)], 1.0)], false, 1),
        []
    );
}
