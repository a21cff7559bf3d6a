//! What is asked while mutations are applied, and the right rows.

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::Int64Type,
};
use coffer_protocol::{
    plan::{AggMode, JoinType, Schema},
    wire::{SealStage, StageInput, TaskSpec, task_spec::Rectangle},
};
use prost::Message as _;

use crate::harness::{ir, query::leaf_stage};

/// A result's rows, sorted.
pub(crate) type Rows = Vec<(Option<i64>, Option<i64>)>;

/// Two queries of three stages: sums over two shuffles, and a shuffle joined with a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Sums,
    Joined,
}

/// Rows of the shuffle: several frames for each target.
const MADE: i64 = 2500;
const TIMES: usize = 10;

impl Shape {
    fn schema() -> Schema {
        ir::schema(&[("k", ir::long()), ("v", ir::long())])
    }

    pub(crate) fn expected(self) -> Rows {
        match self {
            Self::Sums => (0..7)
                .map(|key| {
                    let sum: i64 = (0..MADE).filter(|value| value % 7 == key).sum();
                    (Some(key), Some(sum * TIMES as i64))
                })
                .collect(),
            Self::Joined => {
                let one =
                    (0..MADE).map(|value| (Some(value), (value % 7 >= 3).then_some(value % 7)));
                let mut all: Rows = one
                    .flat_map(|row| std::iter::repeat_n(row, TIMES))
                    .collect();
                all.sort_unstable();
                all
            }
        }
    }

    /// Its stages in order; the last one brings the result.
    pub(crate) fn stages(self) -> Vec<SealStage> {
        let made = (0..MADE)
            .map(|i| vec![ir::int(i % 7), ir::int(i)])
            .collect();
        let made = ir::multiplied(8, ir::values(Self::schema(), made), Self::schema(), TIMES);
        let whole = |input, producer, maps, reduces| StageInput {
            input_id: input,
            producer_stage: producer,
            maps,
            reduces,
            ..StageInput::default()
        };
        let rectangle = |input, reduce: u32| Rectangle {
            input_id: input,
            map_begin: 0,
            map_end: 2,
            reduce_begin: reduce,
            reduce_end: reduce + 1,
        };
        let tasks = |broadcast: bool| {
            let rectangles = move |reduce| match broadcast {
                true => vec![rectangle(0, reduce), rectangle(1, 0)],
                false => vec![rectangle(0, reduce)],
            };
            let task = move |reduce| TaskSpec {
                rectangles: rectangles(reduce),
                ..TaskSpec::default()
            };
            (0..3).map(task).collect::<Vec<_>>()
        };
        match self {
            Self::Sums => {
                let spread = ir::to_round_robin(made, Self::schema(), 2);
                let gathered = ir::to_hash(ir::input(Self::schema()), Self::schema(), 3);
                let gathered = SealStage {
                    stage: 2,
                    fragment: gathered.encode_to_vec().into(),
                    tasks: tasks(false).into_iter().take(2).collect(),
                    inputs: vec![whole(0, 1, 2, 2)],
                    ..SealStage::default()
                };
                let sums = ir::to_result(
                    ir::sum_by_key(ir::input(Self::schema()), AggMode::Complete),
                    Self::schema(),
                );
                let top = SealStage {
                    stage: 3,
                    fragment: sums.encode_to_vec().into(),
                    tasks: tasks(false),
                    inputs: vec![whole(0, 2, 2, 3)],
                    ..SealStage::default()
                };
                vec![leaf_stage(1, &spread, 2), gathered, top]
            }
            Self::Joined => {
                let spread = ir::to_round_robin(made, Self::schema(), 3);
                let right = (3..7).map(|k| vec![ir::int(k), ir::int(k)]).collect();
                let right = ir::to_broadcast(ir::values(Self::schema(), right), Self::schema());
                let joined = ir::join(JoinType::LeftOuter, &Self::schema(), true);
                let joined = ir::to_result(joined, ir::twice(&Self::schema()));
                let broadcast = StageInput {
                    broadcast: true,
                    ..whole(1, 2, 2, 1)
                };
                let top = SealStage {
                    stage: 3,
                    fragment: joined.encode_to_vec().into(),
                    tasks: tasks(true),
                    inputs: vec![whole(0, 1, 2, 3), broadcast],
                    ..SealStage::default()
                };
                vec![leaf_stage(1, &spread, 2), leaf_stage(2, &right, 2), top]
            }
        }
    }

    /// The result's rows as pairs, sorted: key and sum, or left and right value.
    pub(crate) fn rows(self, batches: &[RecordBatch]) -> Rows {
        let columns = if self == Self::Sums { (0, 1) } else { (1, 3) };
        let mut all = Vec::new();
        for batch in batches {
            let cell = |column: usize, row: usize| {
                let column = batch.column(column).as_primitive::<Int64Type>();
                (!column.is_null(row)).then(|| column.value(row))
            };
            all.extend(
                (0..batch.num_rows()).map(|row| (cell(columns.0, row), cell(columns.1, row))),
            );
        }
        all.sort_unstable();
        all
    }
}
