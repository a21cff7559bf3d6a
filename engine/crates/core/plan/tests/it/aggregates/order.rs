//! What does not depend on the order of rows.

use super::*;

#[tokio::test]
async fn results_do_not_depend_on_the_order_of_rows() {
    let most = 10i128.pow(38) - 1;
    let doubles: Vec<ArrayRef> = [
        vec![1e16, 1.0, -1e16, 0.1, 1e300, -1e300, 3.0],
        vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
        vec![f64::MAX, f64::MAX, -f64::MAX, 1.0, 2.0, -f64::MAX, 5e-324],
        vec![
            0.0,
            -0.0,
            f64::NAN,
            1.0,
            f64::from_bits(0xfff8_0000_0000_0001),
            -0.0,
            0.0,
        ],
        vec![-0.0, 0.0, 0.0, -0.0, 0.0, 0.0, -0.0],
    ]
    .into_iter()
    .map(|values| Arc::new(Float64Array::from(values)) as ArrayRef)
    .collect();
    let of_doubles = |name, buffer: &[DataType]| {
        (
            function(name, &[double()], buffer, double()),
            doubles.clone(),
        )
    };
    let moments = [double(), binary(), binary()];
    let overflow = |values: Vec<i128>| decimals(values.into_iter().map(Some).collect(), 38, 0);
    let of_decimals = vec![
        overflow(vec![most, most, -most, 5, -most, 1, 0]),
        overflow(vec![most, 1, 0, 0, 0, 0, 0]),
    ];
    let of_longs: ArrayRef = Arc::new(Int64Array::from(vec![
        i64::MAX,
        i64::MAX,
        i64::MIN,
        5,
        i64::MIN,
        2,
        0,
    ]));
    let cases = [
        of_doubles("sum", &[binary()]),
        of_doubles("avg", &[binary(), long()]),
        of_doubles("min", &[double()]),
        of_doubles("max", &[double()]),
        of_doubles("variance_samp", &moments),
        of_doubles("variance_pop", &moments),
        of_doubles("stddev_samp", &moments),
        of_doubles("stddev_pop", &moments),
        (
            function(
                "sum",
                &[decimal(38, 0)],
                &[binary(), boolean()],
                decimal(38, 0),
            ),
            of_decimals.clone(),
        ),
        (
            function(
                "avg",
                &[decimal(38, 0)],
                &[binary(), long()],
                decimal(38, 4),
            ),
            of_decimals,
        ),
        (
            function("sum", &[long()], &[binary(), boolean()], long()).eval(EvalMode::Try),
            vec![of_longs],
        ),
    ];
    for (function, columns) in cases {
        for values in columns {
            let mut results = vec![];
            for turn in 0..values.len() {
                let turned: Vec<usize> = (0..values.len())
                    .map(|row| (row + turn) % values.len())
                    .collect();
                for order in [turned.clone(), turned.into_iter().rev().collect()] {
                    let order = arrow::array::UInt64Array::from_iter_values(
                        order.iter().map(|row| *row as u64),
                    );
                    let values = arrow::compute::take(&values, &order, None).unwrap();
                    let (s, b) = rows(
                        function.inputs[0].clone(),
                        vec![Some(1); values.len()],
                        values,
                    );
                    let found = grouped(&function, &s, b.clone()).await.unwrap();
                    assert_eq!(
                        found[0].trim_start_matches("1 "),
                        whole(&function, &s, b).await.unwrap()[0]
                    );
                    results.push(found);
                }
            }
            results.dedup();
            assert_eq!(results.len(), 1, "{}: {results:?}", function.name);
        }
    }
}

#[tokio::test]
async fn sums_that_come_back_into_their_type_are_in_it() {
    let most = 10i128.pow(38) - 1;
    let values = decimals(vec![Some(most), Some(most), Some(-most), Some(3)], 38, 0);
    let (s, b) = rows(decimal(38, 0), vec![Some(1); 4], values);
    let sum = function(
        "sum",
        &[decimal(38, 0)],
        &[binary(), boolean()],
        decimal(38, 0),
    );
    assert_eq!(whole(&sum, &s, b).await.unwrap(), [""]);
    let values = decimals(vec![Some(most), Some(most), Some(-most), Some(-3)], 38, 0);
    let (s, b) = rows(decimal(38, 0), vec![Some(1); 4], values);
    assert_eq!(whole(&sum, &s, b).await.unwrap(), [(most - 3).to_string()]);
    let values = Arc::new(Int64Array::from(vec![i64::MAX, i64::MAX, i64::MIN]));
    let (s, b) = rows(long(), vec![Some(1); 3], values);
    let tried = function("sum", &[long()], &[binary(), boolean()], long()).eval(EvalMode::Try);
    assert_eq!(
        whole(&tried, &s, b).await.unwrap(),
        [(i64::MAX - 1).to_string()]
    );
}

#[tokio::test]
async fn nan_and_zero_keys_are_one_group() {
    let s = schema(&[("k", double())]);
    let other_nan = f64::from_bits(0xfff8_0000_0000_0001);
    let keys = Float64Array::from(vec![0.0, -0.0, f64::NAN, other_nan]);
    let b = batch(&s, vec![Arc::new(keys)]);
    let count = function("count", &[], &[long()], long());
    let root = aggregate(
        2,
        input(1, &s),
        vec![named("k", column(0))],
        vec![count.rows(AggMode::Complete, 0)],
    );
    let out = schema(&[("k", double()), ("n", long())]);
    let result = run(
        &fragment(root, out),
        MemoryIo::default().input(1, vec![vec![b]]),
    )
    .await
    .unwrap();
    assert_eq!(sorted(&result), ["0.0 2", "NaN 2"]);
}

/// count(distinct v), sum(v) by k, as Spark plans it: (1) partial sum by k, v; (2) merged by k, v;
/// (3) merged sum and partial count by k; (4) both final.
#[tokio::test]
async fn modes_mix_as_in_plans_for_distinct() {
    let values = Arc::new(Int64Array::from(vec![
        Some(7),
        Some(7),
        Some(8),
        None,
        Some(7),
        Some(1),
    ]));
    let (s, b) = rows(
        long(),
        vec![Some(1), Some(1), Some(1), Some(1), Some(2), Some(2)],
        values,
    );
    let sum = function("sum", &[long()], &[long()], long());
    let count = function("count", &[long()], &[long()], long());
    let both = || vec![named("k", column(0)), named("v", column(1))];
    let by_k = || vec![named("k", column(0))];
    let one = aggregate(2, input(1, &s), both(), vec![sum.rows(AggMode::Partial, 1)]);
    let two = aggregate(3, one, both(), vec![sum.buffers(AggMode::PartialMerge, 2)]);
    let three = aggregate(
        4,
        two,
        by_k(),
        vec![
            sum.buffers(AggMode::PartialMerge, 2),
            count.rows(AggMode::Partial, 1),
        ],
    );
    let four = aggregate(
        5,
        three,
        by_k(),
        vec![
            sum.buffers(AggMode::Final, 1),
            count.buffers(AggMode::Final, 2),
        ],
    );
    let out = schema(&[("k", long()), ("s", long()), ("n", long())]);
    let result = run(
        &fragment(four, out),
        MemoryIo::default().input(1, vec![b.clone()]),
    )
    .await
    .unwrap();
    assert_eq!(sorted(&result), ["1 22 2", "2 8 2"]);

    // FINAL beside COMPLETE, as when the last two steps are one.
    let one = aggregate(2, input(1, &s), both(), vec![sum.rows(AggMode::Partial, 1)]);
    let two = aggregate(3, one, both(), vec![sum.buffers(AggMode::PartialMerge, 2)]);
    let last = aggregate(
        4,
        two,
        by_k(),
        vec![
            sum.buffers(AggMode::Final, 2),
            count.rows(AggMode::Complete, 1),
        ],
    );
    let out = schema(&[("k", long()), ("s", long()), ("n", long())]);
    let result = run(&fragment(last, out), MemoryIo::default().input(1, vec![b]))
        .await
        .unwrap();
    assert_eq!(sorted(&result), ["1 22 2", "2 8 2"]);
}
