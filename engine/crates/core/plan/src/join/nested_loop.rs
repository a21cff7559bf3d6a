//! Nested loops: joins without keys.
//!
//! DataFusion's operator builds its left side once for all partitions, which is a broadcast. Where
//! the sides meet partition by partition, each task runs an operator of its own over its two
//! partitions.

use std::{fmt, sync::Arc};

use datafusion_common::{JoinType, Result, internal_err, tree_node::TreeNodeRecursion};
use datafusion_execution::{
    SendableRecordBatchStream, TaskContext,
    disk_manager::{DiskManagerBuilder, DiskManagerMode},
    runtime_env::RuntimeEnvBuilder,
};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    joins::{NestedLoopJoinExec, utils::JoinFilter},
    metrics::{ExecutionPlanMetricsSet, Metric, MetricsSet},
};

use super::{Output, Side, Sides, Spec, pinned::PinnedExec};
use crate::{
    Unsupported,
    operator::{operator_basics, unordered},
};

pub(super) fn plan(
    spec: &Spec,
    sides: Sides,
    filter: Option<JoinFilter>,
    output: &Output,
) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
    let (build, probe, filter) = match spec.build {
        Side::Left => (sides.left, sides.right, filter),
        Side::Right => (
            sides.right,
            sides.left,
            filter.as_ref().map(JoinFilter::swap),
        ),
    };
    let pairing = Pairing {
        filter,
        kind: spec.built_type(),
        projection: output.projection(spec.build),
    };
    let operators = |source| Unsupported::Operators {
        node: spec.node,
        source,
    };
    Ok(vec![match spec.broadcast {
        true => Arc::new(pairing.operator(build, probe).map_err(operators)?),
        false => Arc::new(PairedLoopExec::try_new(build, probe, pairing).map_err(operators)?),
    }])
}

/// What a nested loop does with its rows.
#[derive(Debug, Clone)]
struct Pairing {
    filter: Option<JoinFilter>,
    kind: JoinType,
    projection: Option<Vec<usize>>,
}

impl Pairing {
    fn operator(
        &self,
        build: Arc<dyn ExecutionPlan>,
        probe: Arc<dyn ExecutionPlan>,
    ) -> Result<NestedLoopJoinExec> {
        NestedLoopJoinExec::try_new(
            build,
            probe,
            self.filter.clone(),
            &self.kind,
            self.projection.clone(),
        )
    }
}

/// Joins partition i of one side with partition i of the other.
#[derive(Debug)]
struct PairedLoopExec {
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    pairing: Pairing,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PairedLoopExec {
    fn try_new(
        build: Arc<dyn ExecutionPlan>,
        probe: Arc<dyn ExecutionPlan>,
        pairing: Pairing,
    ) -> Result<Self> {
        let schema = pairing
            .operator(Arc::clone(&build), Arc::clone(&probe))?
            .schema();
        let properties = unordered(&schema, probe.output_partitioning().partition_count());
        Ok(Self {
            build,
            probe,
            pairing,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for PairedLoopExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PairedLoopExec: {}", self.pairing.kind)
    }
}

impl ExecutionPlan for PairedLoopExec {
    operator_basics!(any);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.build, &self.probe]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop(), children.is_empty()) {
            (Some(probe), Some(build), true) => {
                Ok(Arc::new(Self::try_new(build, probe, self.pairing.clone())?))
            }
            _ => internal_err!("a join has two children"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pinned = |side: &Arc<dyn ExecutionPlan>| {
            Arc::new(PinnedExec::new(
                Arc::clone(side),
                partition,
                Arc::clone(&context),
            ))
        };
        let join = self
            .pairing
            .operator(pinned(&self.build), pinned(&self.probe))?;
        let stream = join.execute(0, without_disk(&context)?)?;
        // The inner operator knows one partition only.
        for metric in join.metrics().unwrap_or_default().iter() {
            self.metrics.register(Arc::new(Metric::new(
                metric.value().clone(),
                Some(partition),
            )));
        }
        Ok(stream)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// When memory runs out, DataFusion's operator would read its build side again from the start,
/// which a task's input cannot do; without a disk it says that memory ran out.
fn without_disk(context: &TaskContext) -> Result<Arc<TaskContext>> {
    let runtime = context.runtime_env();
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime)
        .with_disk_manager_builder(disk)
        .build_arc()?;
    Ok(Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        std::collections::HashMap::new(),
        std::collections::HashMap::new(),
        std::collections::HashMap::new(),
        std::collections::HashMap::new(),
        runtime,
    )))
}
