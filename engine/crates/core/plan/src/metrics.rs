//! What operators counted, by node of the fragment.

use std::sync::Arc;

use datafusion_physical_plan::{ExecutionPlan, metrics::MetricsSet};

/// One node's work in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeMetrics {
    /// Id of the node.
    pub node: u32,
    /// Rows that it gave.
    pub rows: u64,
    /// Nanoseconds of its own computing.
    pub nanos: u64,
    /// Bytes that it spilled.
    pub spilled: u64,
}

pub(crate) fn collect(
    nodes: &[(u32, Vec<Arc<dyn ExecutionPlan>>)],
    partition: usize,
) -> Vec<NodeMetrics> {
    nodes
        .iter()
        .map(|(node, operators)| {
            let sets: Vec<MetricsSet> = operators
                .iter()
                .map(|operator| of_partition(&operator.metrics().unwrap_or_default(), partition))
                .collect();
            NodeMetrics {
                node: *node,
                rows: wide(sets.first().and_then(MetricsSet::output_rows)),
                nanos: sets.iter().map(|set| wide(set.elapsed_compute())).sum(),
                spilled: sets.iter().map(|set| wide(set.spilled_bytes())).sum(),
            }
        })
        .collect()
}

fn of_partition(set: &MetricsSet, partition: usize) -> MetricsSet {
    let mut own = MetricsSet::new();
    for metric in set
        .iter()
        .filter(|metric| metric.partition() == Some(partition))
    {
        own.push(Arc::clone(metric));
    }
    own
}

fn wide(count: Option<usize>) -> u64 {
    count
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or(0)
}
