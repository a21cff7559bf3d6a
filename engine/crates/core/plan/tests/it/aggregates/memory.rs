//! Where memory is short.

use super::*;

/// With little memory, nodes that must give each group once spill, and still do.
#[tokio::test]
async fn groups_stay_whole_when_memory_is_short() {
    let groups = 20_000i64;
    let buffers = schema(&[
        ("k", long()),
        ("s", long()),
        ("e", data_type(TypeId::String)),
        ("x", boolean()),
    ]);
    let make = |from: i64, to: i64| {
        batch(
            &buffers,
            vec![
                Arc::new(Int64Array::from_iter_values((from..to).map(|i| i % groups))),
                Arc::new(Int64Array::from_iter_values(from..to)),
                Arc::new(StringArray::from_iter_values(
                    (from..to).map(|i| format!("a string of row {i}")),
                )),
                Arc::new(BooleanArray::from_iter((from..to).map(|_| Some(true)))),
            ],
        )
    };
    let batches: Vec<RecordBatch> = (0..40).map(|i| make(i * 1000, (i + 1) * 1000)).collect();
    let sum = function("sum", &[long()], &[long()], long());
    let first = function(
        "first",
        &[data_type(TypeId::String)],
        &[data_type(TypeId::String), boolean()],
        data_type(TypeId::String),
    );
    let calls = vec![
        sum.buffers(AggMode::PartialMerge, 1),
        first.buffers(AggMode::PartialMerge, 2),
    ];
    let root = aggregate(2, input(1, &buffers), vec![named("k", column(0))], calls);
    let plan = plan(&fragment(root, buffers.clone()), 1).unwrap();
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(3 << 20, 1.0)
        .build_arc()
        .unwrap();
    let task = context_in(MemoryIo::default().input(1, vec![batches]), 1000, runtime);
    let result = datafusion_physical_plan::common::collect(plan.execute(0, task).unwrap())
        .await
        .unwrap();
    let mut sums: Vec<(i64, i64, String)> = vec![];
    for batch in result {
        let (k, s) = (
            batch.column(0).as_primitive::<Int64Type>(),
            batch.column(1).as_primitive::<Int64Type>(),
        );
        let e = batch.column(2).as_string::<i32>();
        sums.extend((0..batch.num_rows()).map(|i| (k.value(i), s.value(i), e.value(i).to_owned())));
    }
    sums.sort();
    let expected: Vec<(i64, i64)> = (0..groups).map(|k| (k, k + k + groups)).collect();
    assert_eq!(
        sums.iter().map(|(k, s, _)| (*k, *s)).collect::<Vec<_>>(),
        expected
    );
    assert!(
        sums.iter()
            .all(|(k, _, e)| e == &format!("a string of row {k}")
                || e == &format!("a string of row {}", k + groups))
    );
    assert!(
        plan.metrics(0).iter().any(|m| m.node == 2 && m.spilled > 0),
        "it did not spill"
    );
}

/// Sums that two doubles do not hold go to disk and come back as they were.
#[tokio::test]
async fn sums_stay_exact_when_memory_is_short() {
    let groups = 10_000i64;
    let s = schema(&[("k", long()), ("v", double())]);
    let value = |row: i64| [1e300, 0.1, 1e-300, -1e300][usize::try_from(row / groups).unwrap() % 4];
    let batches: Vec<RecordBatch> = (0..40)
        .map(|i| {
            let rows = i * 1000..(i + 1) * 1000;
            let keys = Int64Array::from_iter_values(rows.clone().map(|row| row % groups));
            let values = Float64Array::from_iter_values(rows.map(value));
            batch(&s, vec![Arc::new(keys), Arc::new(values)])
        })
        .collect();
    let sum = function("sum", &[double()], &[binary()], double());
    let root = aggregate(
        2,
        input(1, &s),
        vec![named("k", column(0))],
        vec![sum.rows(AggMode::Complete, 1)],
    );
    let plan = plan(&fragment(root, s.clone()), 1).unwrap();
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(2 << 20, 1.0)
        .build_arc()
        .unwrap();
    let task = context_in(MemoryIo::default().input(1, vec![batches]), 1000, runtime);
    let result = datafusion_physical_plan::common::collect(plan.execute(0, task).unwrap())
        .await
        .unwrap();
    let sums: Vec<f64> = result
        .iter()
        .flat_map(|batch| {
            batch
                .column(1)
                .as_primitive::<arrow::datatypes::Float64Type>()
                .values()
                .to_vec()
        })
        .collect();
    assert_eq!(sums.len(), usize::try_from(groups).unwrap());
    assert!(sums.iter().all(|sum| *sum == 0.1));
    assert!(
        plan.metrics(0).iter().any(|m| m.node == 2 && m.spilled > 0),
        "it did not spill"
    );
}
