//! Partial aggregation where the rows of a group follow each other, and where they do not.

use std::collections::HashMap;

use super::*;

/// Groups, how often each is handed on, and the sum of their values, of a PARTIAL sum over rows
/// (key of the row, row); with next to no memory.
async fn partial(rows: i64, key: impl Fn(i64) -> i64) -> HashMap<i64, (usize, i64)> {
    let s = schema(&[("k", long()), ("v", long())]);
    let batches: Vec<RecordBatch> = (0..rows)
        .step_by(1000)
        .map(|from| {
            let of_batch = from..(from + 1000).min(rows);
            let keys = Int64Array::from_iter_values(of_batch.clone().map(&key));
            let values = Int64Array::from_iter_values(of_batch);
            batch(&s, vec![Arc::new(keys), Arc::new(values)])
        })
        .collect();
    let sum = function("sum", &[long()], &[long()], long());
    let grouping = vec![named("k", column(0))];
    let calls = vec![sum.rows(AggMode::Partial, 1)];
    let root = aggregate(2, input(1, &s), grouping, calls);
    let plan = plan(&fragment(root, buffer_schema(&sum, true)), 1).unwrap();
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(1 << 10, 1.0)
        .build_arc()
        .unwrap();
    let task = context_in(MemoryIo::default().input(1, vec![batches]), 1000, runtime);
    let found = datafusion_physical_plan::common::collect(plan.execute(0, task).unwrap());
    let mut groups = HashMap::<i64, (usize, i64)>::new();
    let mut given = 0;
    for batch in found.await.unwrap() {
        let (keys, sums) = (batch.column(0), batch.column(1));
        let keys = keys.as_primitive::<Int64Type>().values();
        for (key, sum) in keys.iter().zip(sums.as_primitive::<Int64Type>().values()) {
            let group = groups.entry(*key).or_default();
            *group = (group.0 + 1, group.1 + sum);
            given += 1;
        }
    }
    let metrics = plan.metrics(0);
    let counted = metrics.iter().find(|m| m.node == 2).unwrap().rows;
    assert_eq!(counted, given, "rows are counted once");
    groups
}

fn sums(rows: i64, key: impl Fn(i64) -> i64) -> HashMap<i64, i64> {
    let mut sums = HashMap::new();
    for row in 0..rows {
        *sums.entry(key(row)).or_default() += row;
    }
    sums
}

/// In no order, and the first hundred groups once more at the end.
#[tokio::test]
async fn a_group_is_handed_on_for_each_run() {
    let key = |row: i64| (row / 4 % 20_000) * 7919 % 20_011;
    let found = partial(80_400, key).await;
    let twice = found.values().filter(|(times, _)| *times == 2).count();
    assert_eq!((twice, found.len()), (100, 20_000));
    let found: HashMap<i64, i64> = found
        .into_iter()
        .map(|(key, (_, sum))| (key, sum))
        .collect();
    assert_eq!(found, sums(80_400, key));
}

/// Two rows of a group that lie apart, few groups in runs, and too few rows: by a table, which
/// gives up where memory is short.
#[tokio::test]
async fn rows_that_lie_apart_are_summed_all_the_same() {
    let apart = |row: i64| row % 20_000;
    let few = |row: i64| row / 4 % 50;
    for (rows, key) in [
        (80_000, &apart as &dyn Fn(i64) -> i64),
        (80_000, &few),
        (3, &few),
    ] {
        let found = partial(rows, key).await;
        let found: HashMap<i64, i64> = found
            .into_iter()
            .map(|(key, (_, sum))| (key, sum))
            .collect();
        assert_eq!(found, sums(rows, key));
    }
}
