//! Joins from end to end: a broadcast is read once for all tasks of an engine, whole or not at all;
//! shuffled and Cartesian joins read what the coverage rules let them.

mod broadcast;
mod rectangles;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::Int64Type,
};
use coffer_protocol::{
    plan::{Literal, Schema},
    wire::{StageInput, TaskSpec, task_spec::Rectangle},
};

use crate::harness::ir;

const LEFT: u32 = 1;
const RIGHT: u32 = 2;
const TOP: u32 = 3;

fn pairs() -> Schema {
    ir::schema(&[("k", ir::long()), ("v", ir::long())])
}

fn rows(keys: std::ops::Range<i64>) -> Vec<Vec<Literal>> {
    keys.map(|k| vec![ir::int(k), ir::int(k * 10)]).collect()
}

fn whole(input: u32, producer: u32, maps: u32, reduces: u32) -> StageInput {
    StageInput {
        input_id: input,
        producer_stage: producer,
        maps,
        reduces,
        ..StageInput::default()
    }
}

fn rectangle(input: u32, maps: std::ops::Range<u32>, reduces: std::ops::Range<u32>) -> Rectangle {
    Rectangle {
        input_id: input,
        map_begin: maps.start,
        map_end: maps.end,
        reduce_begin: reduces.start,
        reduce_end: reduces.end,
    }
}

fn task(rectangles: Vec<Rectangle>) -> TaskSpec {
    TaskSpec {
        rectangles,
        ..TaskSpec::default()
    }
}

/// The rows of all results as (left value, right value), sorted.
fn values(batches: &[RecordBatch]) -> Vec<(Option<i64>, Option<i64>)> {
    let mut all = Vec::new();
    for batch in batches {
        let cell = |column: usize, row: usize| {
            let column = batch.column(column).as_primitive::<Int64Type>();
            (!column.is_null(row)).then(|| column.value(row))
        };
        all.extend((0..batch.num_rows()).map(|row| (cell(1, row), cell(3, row))));
    }
    all.sort_unstable();
    all
}
