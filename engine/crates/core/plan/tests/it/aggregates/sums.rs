//! Sums and averages.

use super::*;

#[tokio::test]
async fn sum_of_longs_wraps_or_fails_or_is_null() {
    let values = || {
        Arc::new(Int64Array::from(vec![
            Some(i64::MAX),
            Some(1),
            None,
            Some(5),
            None,
        ]))
    };
    let keys = vec![Some(1), Some(1), Some(1), Some(2), Some(3)];
    let (s, b) = rows(long(), keys, values());
    let sum = function("sum", &[long()], &[long()], long());
    assert_eq!(
        grouped(&sum, &s, b.clone()).await.unwrap(),
        ["1 -9223372036854775808", "2 5", "3 "]
    );
    let ansi = sum.clone().eval(EvalMode::Ansi);
    assert_eq!(
        class(&grouped(&ansi, &s, b.clone()).await.unwrap_err()),
        "ARITHMETIC_OVERFLOW"
    );
    assert_eq!(
        class(&whole(&ansi, &s, b.clone()).await.unwrap_err()),
        "ARITHMETIC_OVERFLOW"
    );
    let tried = function("sum", &[long()], &[binary(), boolean()], long()).eval(EvalMode::Try);
    assert_eq!(
        grouped(&tried, &s, b.clone()).await.unwrap(),
        ["1 ", "2 5", "3 "]
    );
    assert_eq!(whole(&tried, &s, b).await.unwrap(), [""]);
}

#[tokio::test]
async fn sum_of_small_integers_is_a_long() {
    let (s, b) = rows(
        data_type(TypeId::Int),
        vec![Some(1), Some(1)],
        Arc::new(Int32Array::from(vec![i32::MAX, i32::MAX])),
    );
    let sum = function("sum", &[data_type(TypeId::Int)], &[long()], long());
    assert_eq!(whole(&sum, &s, b).await.unwrap(), ["4294967294"]);
}

#[tokio::test]
async fn sum_of_decimals_overflows_to_null_or_fails() {
    let most = 10i128.pow(38) - 1;
    let values = decimals(vec![Some(most), Some(1), Some(-5), None, Some(250)], 38, 2);
    let (s, b) = rows(
        decimal(38, 2),
        vec![Some(1), Some(1), Some(2), Some(3), Some(2)],
        values,
    );
    let sum = function(
        "sum",
        &[decimal(38, 2)],
        &[binary(), boolean()],
        decimal(38, 2),
    );
    assert_eq!(
        grouped(&sum, &s, b.clone()).await.unwrap(),
        ["1 ", "2 2.45", "3 "]
    );
    let ansi = sum.eval(EvalMode::Ansi);
    assert_eq!(
        class(&grouped(&ansi, &s, b).await.unwrap_err()),
        "ARITHMETIC_OVERFLOW"
    );
}

#[tokio::test]
async fn sum_of_decimals_gains_ten_digits() {
    let values = decimals(vec![Some(99_999), Some(1), None], 5, 2);
    let (s, b) = rows(decimal(5, 2), vec![Some(1), Some(1), Some(1)], values);
    let sum = function(
        "sum",
        &[decimal(5, 2)],
        &[decimal(15, 2), boolean()],
        decimal(15, 2),
    );
    assert_eq!(whole(&sum, &s, b.clone()).await.unwrap(), ["1000.00"]);
    // An empty buffer is (0, true), as Spark's.
    assert_eq!(body(&buffers_of(&sum, &s).await), ["0.00 true"]);
}

#[tokio::test]
async fn averages() {
    let (s, b) = rows(
        double(),
        vec![Some(1), Some(1), Some(2), Some(2)],
        Arc::new(Float64Array::from(vec![Some(1.0), Some(2.0), None, None])),
    );
    let avg = function("avg", &[double()], &[binary(), long()], double());
    assert_eq!(grouped(&avg, &s, b.clone()).await.unwrap(), ["1 1.5", "2 "]);
    assert_eq!(whole(&avg, &s, b).await.unwrap(), ["1.5"]);

    let values = decimals(vec![Some(1), Some(1), Some(2), None, Some(-7)], 10, 2);
    let (s, b) = rows(
        decimal(10, 2),
        vec![Some(1), Some(1), Some(1), Some(2), Some(3)],
        values,
    );
    let avg = function(
        "avg",
        &[decimal(10, 2)],
        &[decimal(20, 2), long()],
        decimal(14, 6),
    );
    assert_eq!(
        grouped(&avg, &s, b).await.unwrap(),
        ["1 0.013333", "2 ", "3 -0.070000"]
    );

    let most = 10i128.pow(38) - 1;
    let (s, b) = rows(
        decimal(38, 0),
        vec![Some(1), Some(1)],
        decimals(vec![Some(most), Some(most)], 38, 0),
    );
    let avg = function(
        "avg",
        &[decimal(38, 0)],
        &[binary(), long()],
        decimal(38, 4),
    );
    assert_eq!(whole(&avg, &s, b.clone()).await.unwrap(), [""]);
    assert_eq!(
        class(&whole(&avg.eval(EvalMode::Ansi), &s, b).await.unwrap_err()),
        "ARITHMETIC_OVERFLOW"
    );
}
