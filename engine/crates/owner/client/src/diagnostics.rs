//! What is told of a query beside its rows: the errors and metrics of tasks, and the text of a
//! plan.

use coffer_protocol::{
    plan::Fragment,
    wire::{
        DescribeFragment, ErrorDetail, ErrorOpened, FragmentDescribed, MetricsOpened, NodeMetrics,
        OpenError, OpenMetrics, TaskMetrics,
    },
};
use coffer_sealing::{Partition, StageId, identity, open_message};
use prost::Message as _;

use crate::{ClientError, session::Session};

/// The error of a task that failed.
pub(crate) fn open_error(
    session: &Session,
    request: &OpenError,
) -> Result<ErrorOpened, ClientError> {
    let identity = identity::error(
        session.id,
        StageId(request.stage),
        Partition(request.partition),
    );
    let plain = open_message(&session.key, &identity, &request.sealed_error)
        .map_err(ClientError::Opening)?;
    let detail =
        ErrorDetail::decode(plain.as_slice()).map_err(|_| ClientError::Malformed("error"))?;
    Ok(ErrorOpened {
        detail: Some(detail),
    })
}

/// Rows and times of a stage's operators, over its tasks.
pub(crate) fn open_metrics(
    session: &Session,
    request: &OpenMetrics,
) -> Result<MetricsOpened, ClientError> {
    let mut sums: Vec<NodeMetrics> = Vec::new();
    for task in &request.tasks {
        let identity = identity::metrics(
            session.id,
            StageId(request.stage),
            Partition(task.partition),
        );
        let plain =
            open_message(&session.key, &identity, &task.sealed).map_err(ClientError::Opening)?;
        let metrics =
            TaskMetrics::decode(plain.as_slice()).map_err(|_| ClientError::Malformed("metrics"))?;
        for node in metrics.nodes {
            match sums.iter_mut().find(|sum| sum.node == node.node) {
                Some(sum) => {
                    sum.rows = sum.rows.saturating_add(node.rows);
                    sum.nanos = sum.nanos.saturating_add(node.nanos);
                    sum.spilled_bytes = sum.spilled_bytes.saturating_add(node.spilled_bytes);
                }
                None => sums.push(node),
            }
        }
    }
    Ok(MetricsOpened { nodes: sums })
}

/// For EXPLAIN: the text holds the query's literals and goes to the driver alone, which has them
/// anyway.
pub(crate) fn describe(request: &DescribeFragment) -> Result<FragmentDescribed, ClientError> {
    let fragment = Fragment::decode(request.fragment.clone())
        .map_err(|_| ClientError::Malformed("fragment"))?;
    Ok(FragmentDescribed {
        text: coffer_plan::readable(&fragment),
    })
}
