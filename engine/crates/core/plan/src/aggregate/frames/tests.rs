//! Every function over every frame is what the same function makes of the frame's rows alone.

use std::slice;

use arrow::{
    array::{BinaryArray, BooleanArray, Decimal128Array, Float64Array, StringArray},
    compute::concat,
    datatypes::{Field, Schema},
};
use coffer_protocol::plan::{AggCall, EvalMode};
use datafusion_physical_expr::expressions::Column;
use fastrand::Rng;

use super::*;

const ROWS: usize = 67;

fn over(name: &str, values: &ArrayRef, eval: EvalMode, ignore_nulls: bool) -> OverFrames {
    let inputs = [values.data_type().clone()];
    let call = AggCall {
        name: name.to_owned(),
        eval: eval.into(),
        ignore_nulls,
        ..AggCall::default()
    };
    OverFrames {
        function: Function::resolve(&call, &inputs).unwrap(),
        arguments: vec![Arc::new(Column::new("v", 0))],
    }
}

fn batch(values: &ArrayRef) -> RecordBatch {
    let field = Field::new("v", values.data_type().clone(), true);
    RecordBatch::try_new(
        Arc::new(Schema::new(vec![field])),
        vec![ArrayRef::clone(values)],
    )
    .unwrap()
}

/// A group of the frame's rows and no others.
fn alone(function: &OverFrames, values: &ArrayRef, frame: &Range<usize>) -> Result<ArrayRef> {
    let mut state = function.function.state()?;
    state.resize(1);
    let rows = values.slice(frame.start, frame.len());
    state.update(&[rows], &vec![0; frame.len()], None)?;
    state.evaluate(EmitTo::All)
}

fn columns(draw: &mut Rng) -> Vec<(&'static [&'static str], ArrayRef)> {
    let some = |draw: &mut Rng| draw.u8(..5) > 0;
    let mut longs = vec![];
    let mut doubles = vec![];
    let mut decimals = vec![];
    let mut strings = vec![];
    let mut booleans = vec![];
    for _ in 0..ROWS {
        longs.push(some(draw).then(|| draw.i64(-1000..1000)));
        let special = [f64::NAN, -0.0, 0.0, 1e300, 0.1, -7.25];
        doubles.push(some(draw).then(|| special[draw.usize(..special.len())]));
        decimals.push(some(draw).then(|| draw.i128(-1_000_000..1_000_000)));
        strings.push(some(draw).then(|| draw.u16(..).to_string()));
        booleans.push(some(draw).then(|| draw.bool()));
    }
    let decimals = |precision, scale| -> ArrayRef {
        Arc::new(
            Decimal128Array::from(decimals.clone())
                .with_precision_and_scale(precision, scale)
                .unwrap(),
        )
    };
    let any: &[&str] = &["count", "min", "max", "first", "last"];
    let numbers: &[&str] = &["count", "min", "max", "first", "last", "sum", "avg"];
    let bytes: BinaryArray = strings.iter().map(Option::as_ref).collect();
    vec![
        (numbers, Arc::new(Int64Array::from(longs))),
        (
            &[
                "count",
                "min",
                "max",
                "first",
                "last",
                "sum",
                "avg",
                "stddev_samp",
                "stddev_pop",
                "variance_samp",
                "variance_pop",
            ],
            Arc::new(Float64Array::from(doubles)),
        ),
        (numbers, decimals(12, 2)),
        (numbers, decimals(38, 10)),
        (any, Arc::new(bytes)),
        (any, Arc::new(StringArray::from(strings))),
        (
            &["count", "min", "max", "bool_and", "bool_or"],
            Arc::new(BooleanArray::from(booleans)),
        ),
    ]
}

fn frames(draw: &mut Rng) -> Vec<Vec<Range<usize>>> {
    let of = |frame: fn(usize) -> Range<usize>| {
        (0..ROWS)
            .map(|row| {
                let frame = frame(row);
                frame.start.min(frame.end).min(ROWS)..frame.end.min(ROWS)
            })
            .collect()
    };
    vec![
        of(|row| 0..row + 1),
        of(|row| row..ROWS),
        of(|row| row.saturating_sub(3)..row + 4),
        of(|row| row + 2..row + 9),
        of(|row| row..row),
        of(|row| 10 * (row / 10)..10 * (row / 10) + 10),
        (0..ROWS)
            .map(|_| {
                let (one, other) = (draw.usize(..=ROWS), draw.usize(..=ROWS));
                one.min(other)..one.max(other)
            })
            .collect(),
    ]
}

#[test]
fn a_frame_has_the_result_of_its_rows_alone() {
    let mut draw = Rng::with_seed(7);
    for (names, values) in columns(&mut draw) {
        for frames in frames(&mut draw) {
            for name in names {
                for ignore_nulls in [false, true] {
                    let function = over(name, &values, EvalMode::Ansi, ignore_nulls);
                    let found = function.each(&batch(&values), &frames).unwrap();
                    let expected = frames
                        .iter()
                        .map(|frame| alone(&function, &values, frame).unwrap())
                        .collect::<Vec<_>>();
                    let expected: Vec<&dyn Array> =
                        expected.iter().map(|one| one.as_ref()).collect();
                    let expected = concat(&expected).unwrap();
                    assert_eq!(
                        found.to_data(),
                        expected.to_data(),
                        "{name} of {} over {frames:?}",
                        values.data_type()
                    );
                }
            }
        }
    }
}

#[test]
fn partial_results_of_rows_that_are_gone_count_as_they_would() {
    let mut draw = Rng::with_seed(11);
    for (names, values) in columns(&mut draw) {
        for name in names {
            for ignore_nulls in [false, true] {
                let function = over(name, &values, EvalMode::Ansi, ignore_nulls);
                let part = |rows: Range<usize>| {
                    let rows = batch(&values.slice(rows.start, rows.len()));
                    function.partial(&rows).unwrap()
                };
                let (one, two) = (draw.usize(1..20), draw.usize(20..40));
                let rows = batch(&values.slice(two, 20));
                let before = function.joined(&part(0..one), &part(one..two)).unwrap();
                let after = function.joined(&part(two + 20..ROWS - 2), &part(ROWS - 2..ROWS));
                let after = after.unwrap();
                for at in [0, 1, 7, 20] {
                    let own = |frame: Range<usize>, before, after| {
                        function.beside(&rows, slice::from_ref(&frame), before, after)
                    };
                    let grown = own(0..at, Some(&before), None).unwrap();
                    let expected = alone(&function, &values, &(0..two + at)).unwrap();
                    assert_eq!(grown.to_data(), expected.to_data(), "{name} up to {at}");
                    let shrunk = own(at..20, None, Some(&after)).unwrap();
                    let expected = alone(&function, &values, &(two + at..ROWS)).unwrap();
                    assert_eq!(shrunk.to_data(), expected.to_data(), "{name} from {at}");
                }
                let whole = function.result(&before).unwrap();
                let expected = alone(&function, &values, &(0..two)).unwrap();
                assert_eq!(whole.to_data(), expected.to_data(), "{name}");
            }
        }
    }
}

#[test]
fn a_window_partition_has_one_result_for_all_of_its_rows() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(5), None]));
    let function = over("sum", &values, EvalMode::Legacy, false);
    let found = function.whole(&batch(&values), &[0..3, 3..4]).unwrap();
    let expected: Int64Array = [Some(6), Some(6), Some(6), None].into_iter().collect();
    assert_eq!(found.as_primitive::<Int64Type>(), &expected);
}

#[test]
fn sums_overflow_where_adding_one_by_one_does() {
    let max = i64::MAX;
    let sum = |values: &[i64], frames: &[Range<usize>], eval| {
        let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let sums = over("sum", &values, eval, false).each(&batch(&values), frames);
        sums.map(|sums| sums.as_primitive::<Int64Type>().values().to_vec())
    };
    // In the frame, but not before all of it is added.
    let (four, two) = (0..4, 0..2);
    let whole = slice::from_ref(&four);
    assert_eq!(
        sum(&[-10, 1, max, 5], whole, EvalMode::Ansi).unwrap(),
        [max - 4]
    );
    // On the way only.
    sum(&[max, 5, -10, 0], whole, EvalMode::Ansi).unwrap_err();
    assert_eq!(
        sum(&[max, 5, -10, 0], whole, EvalMode::Legacy).unwrap(),
        [max - 5]
    );
    // In rows of other frames.
    let narrow = &[0..1, 1..2, 2..4][..];
    assert_eq!(
        sum(&[max, max, 1, 2], narrow, EvalMode::Ansi).unwrap(),
        [max, max, 3]
    );
    assert_eq!(
        sum(&[max, 1], slice::from_ref(&two), EvalMode::Legacy).unwrap(),
        [i64::MIN]
    );
}
