//! Windows whose partitions memory does not hold give what they give in memory, whatever the
//! frames; what may look at any row from any other is an error of memory.

use std::sync::Arc;

use arrow::{
    array::{Float64Array, Int64Array, RecordBatch, StringArray},
    compute::concat_batches,
};
use coffer_plan::spill::{SealedSpill, SpillFolder};
use coffer_protocol::plan::{
    AggMode, DataType, EvalMode, Node, TypeId, Window,
    node::Op,
    window::{Call, NthValue, Rank, Shift, bound::Kind, call::Function as Called},
};
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::{
    disk_manager::DiskManagerBuilder,
    runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
};
use datafusion_physical_plan::common::collect;
use proptest::prelude::*;

use crate::{
    support::{
        Function, MemoryIo, batch, column, context_in, data_type, fragment, function, input, key,
        plan,
    },
    windows::{
        aggregate, beyond, by_v, double, end, frame, int, longs, named, output, peers, ranking,
        table,
    },
};

/// Rows in the order of g and v, in batches that do not end where groups do.
fn rows(groups: usize, of_group: usize, values: i64, seed: u64) -> Vec<RecordBatch> {
    let mut draw = fastrand::Rng::with_seed(seed);
    let (mut g, mut v) = (vec![], vec![]);
    for group in 0..groups {
        let some = |draw: &mut fastrand::Rng| (draw.u8(..10) > 0).then(|| draw.i64(0..values));
        let mut of: Vec<Option<i64>> = (0..of_group).map(|_| some(&mut draw)).collect();
        of.sort_unstable();
        g.extend(std::iter::repeat_n(group as f64, of.len()));
        v.extend(of);
    }
    let s: StringArray = (0..g.len())
        .map(|row| (draw.u8(..4) > 0).then(|| format!("r{row}")))
        .collect();
    let whole = batch(
        &table(),
        vec![
            Arc::new(Float64Array::from(g)),
            Arc::new(Int64Array::from(v)),
            Arc::new(s),
        ],
    );
    let rows = whole.num_rows();
    (0..rows)
        .step_by(77)
        .map(|at| whole.slice(at, 77.min(rows - at)))
        .collect()
}

/// Over an input that is known to come in the order of g and v.
fn window(calls: Vec<Call>) -> Node {
    let mut child = input(1, &table());
    if let Some(Op::Input(input)) = &mut child.op {
        input.merge = vec![key(column(0), false, true), key(column(1), false, true)];
    }
    crate::support::node(
        2,
        Op::Window(Box::new(Window {
            child: Some(Box::new(child)),
            partition: vec![column(0)],
            order: by_v(),
            calls,
        })),
    )
}

async fn run(
    calls: &[(Call, DataType)],
    rows: &[RecordBatch],
    runtime: Arc<RuntimeEnv>,
) -> Result<RecordBatch> {
    let (calls, types): (Vec<Call>, Vec<DataType>) = calls.iter().cloned().unzip();
    let plan = plan(&fragment(window(calls), output(&types)), 1).unwrap();
    let io = MemoryIo::default().input(1, vec![rows.to_vec()]);
    let batches = collect(plan.execute(0, context_in(io, 50, runtime))?).await?;
    Ok(concat_batches(&plan.schema(), &batches)?)
}

/// A pool of so many bytes, and the folder of what is spilled.
fn small(bytes: usize) -> (Arc<RuntimeEnv>, Arc<SpillFolder>, tempfile::TempDir) {
    let parent = tempfile::tempdir().unwrap();
    let folder = SpillFolder::create(parent.path()).unwrap();
    let disk = DiskManagerBuilder::default()
        .with_temp_file_factory(Arc::new(SealedSpill::new(Arc::clone(&folder))));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(bytes, 1.0)
        .with_disk_manager_builder(disk)
        .build_arc()
        .unwrap();
    (runtime, folder, parent)
}

fn over_v(name: &'static str, buffers: &[DataType]) -> Function {
    function(name, &[longs()], buffers, longs()).eval(EvalMode::Ansi)
}

fn ends(name: &'static str) -> Function {
    let (string, set) = (data_type(TypeId::String), data_type(TypeId::Boolean));
    function(
        name,
        std::slice::from_ref(&string),
        &[string.clone(), set],
        string.clone(),
    )
}

fn shift(offset: i32, ignore_nulls: bool) -> (Call, DataType) {
    let shift = Shift {
        input: Some(column(1)),
        offset,
        otherwise: Some(column(1)),
        ignore_nulls,
    };
    (named(Called::Shift(shift), None), longs())
}

fn nth(nth: u32, ignore_nulls: bool, lower: Kind, upper: Kind) -> (Call, DataType) {
    let value = NthValue {
        input: Some(column(2)),
        nth,
        ignore_nulls,
    };
    let call = named(Called::NthValue(value), frame(lower, upper));
    (call, data_type(TypeId::String))
}

fn bounds() -> impl Strategy<Value = (Kind, Kind)> {
    let value = |by| Kind::Value(beyond(by, EvalMode::Ansi));
    let lower = prop_oneof![
        Just(end()),
        Just(peers()),
        (-30..9i32).prop_map(Kind::Rows),
        (-3..3i64).prop_map(value),
    ];
    let upper = prop_oneof![
        Just(end()),
        Just(peers()),
        (-9..30i32).prop_map(Kind::Rows),
        (-3..4i64).prop_map(value),
    ];
    (lower, upper)
}

fn calls() -> impl Strategy<Value = (Call, DataType)> {
    let rank = prop_oneof![
        Just((ranking(Rank::RowNumber, 0), int())),
        Just((ranking(Rank::Rank, 0), int())),
        Just((ranking(Rank::DenseRank, 0), int())),
        Just((ranking(Rank::PercentRank, 0), double())),
        Just((ranking(Rank::CumeDist, 0), double())),
        (1..900u32).prop_map(|buckets| (ranking(Rank::Ntile, buckets), int())),
    ];
    let aggregated = (0..6usize, bounds()).prop_map(|(which, (lower, upper))| {
        let of = [
            over_v("sum", &[longs()]),
            over_v("count", &[longs()]),
            over_v("max", &[longs()]),
            ends("first"),
            ends("last"),
            ends("first").ignore_nulls(),
        ];
        let result = if which < 3 {
            longs()
        } else {
            data_type(TypeId::String)
        };
        let frame = frame(lower, upper);
        let call = of[which].rows(AggMode::Complete, if which < 3 { 1 } else { 2 });
        (named(Called::Aggregate(call), frame), result)
    });
    let moved = (-40..40i32).prop_map(|offset| shift(offset, false));
    let placed = (1..90u32, any::<bool>(), bounds()).prop_map(|(n, ignore, (lower, upper))| {
        match (&lower, &upper) {
            // Refused where it does not fit in memory.
            (Kind::Unbounded(_), _) => nth(n, ignore, lower, upper),
            (_, Kind::Unbounded(_)) => nth(n, ignore, end(), upper),
            _ => nth(n, ignore, lower, upper),
        }
    });
    prop_oneof![rank, aggregated.boxed(), aggregated_again(), moved, placed]
}

fn aggregated_again() -> impl Strategy<Value = (Call, DataType)> {
    bounds().prop_map(|(lower, upper)| {
        let sum = over_v("sum", &[longs()]);
        (aggregate(&sum, frame(lower, upper)), longs())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn by_way_of_the_disk_as_in_memory(
        calls in proptest::collection::vec(calls(), 1..5),
        groups in 1..4usize,
        of_group in prop_oneof![400..700usize, 1..20usize],
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let rows = rows(groups, of_group, 90, seed);
            let expected = run(&calls, &rows, Arc::new(RuntimeEnv::default())).await.unwrap();
            let (small, folder, _parent) = small(110 << 10);
            let found = run(&calls, &rows, Arc::clone(&small)).await;
            let found = found.unwrap_or_else(|error| panic!("{calls:?}: {error}"));
            assert_eq!(found, expected, "{calls:?}");
            assert_eq!(small.memory_pool.reserved(), 0);
            let takes_much = |(call, _): &(Call, DataType)| {
                matches!(call.function, Some(Called::Aggregate(_)))
            };
            if of_group >= 500 && calls.iter().any(takes_much) {
                assert!(folder.written() > 0, "nothing was spilled of {calls:?}");
            }
        });
    }
}

#[tokio::test]
async fn a_sum_overflows_on_the_disk_where_it_does_in_memory() {
    let most = i64::MAX;
    let whole = |at: usize, value: i64| {
        let mut v = vec![1; 2000];
        v[at] = value;
        vec![batch(
            &table(),
            vec![
                Arc::new(Float64Array::from(vec![1.0; 2000])),
                Arc::new(Int64Array::from(v)),
                Arc::new(StringArray::from(vec!["r"; 2000])),
            ],
        )]
    };
    let sum = over_v("sum", &[longs()]);
    for (lower, upper, at, value, fails) in [
        (end(), Kind::Rows(0), 10, most - 20, true),
        (end(), Kind::Rows(0), 1999, most - 2000, false),
        (Kind::Rows(0), end(), 1990, most - 20, true),
        (Kind::Rows(0), end(), 1000, most - 2000, false),
        (end(), end(), 0, most - 20, true),
        (end(), end(), 0, most - 2000, false),
    ] {
        let calls = [(aggregate(&sum, frame(lower, upper)), longs())];
        let (small, folder, _parent) = small(110 << 10);
        // The order of the keys plays no part: they bound no frame.
        let found = run(&calls, &whole(at, value), small).await;
        assert_eq!(found.is_err(), fails, "{at} {value}: {found:?}");
        assert!(folder.written() > 0);
    }
}

#[tokio::test]
async fn what_may_look_at_any_row_must_fit_in_memory() {
    let rows = rows(1, 2000, 90, 5);
    for call in [shift(-1, true), nth(2, false, Kind::Rows(0), end())] {
        let (small, ..) = small(110 << 10);
        let failed = run(&[call], &rows, Arc::clone(&small)).await.unwrap_err();
        assert!(matches!(
            failed.find_root(),
            DataFusionError::ResourcesExhausted(_)
        ));
        assert_eq!(small.memory_pool.reserved(), 0);
    }
}
