//! Calls of windows: whether what they call is listed, and whether they tell peers apart.

use coffer_plan::{DependsOn, depends_on};
use coffer_protocol::plan::{
    Expr,
    window::{Call, Frame, Rank, bound::Kind, call::Function},
};

use super::all;

/// Whether all functions that a call makes are listed.
pub(super) fn is_listed(call: &Call) -> bool {
    let bounds = call
        .frame
        .iter()
        .flat_map(|frame| frame.lower.iter().chain(&frame.upper));
    let values = bounds.filter_map(|bound| match &bound.kind {
        Some(Kind::Value(value)) => Some(value),
        _ => None,
    });
    let own: Vec<&Expr> = match &call.function {
        None => return false,
        Some(Function::Ranking(_)) => vec![],
        Some(Function::Shift(shift)) => shift.input.iter().chain(&shift.otherwise).collect(),
        Some(Function::NthValue(value)) => value.input.iter().collect(),
        Some(Function::Aggregate(call)) => {
            if depends_on(call).is_none() {
                return false;
            }
            call.args.iter().chain(&call.filter).collect()
        }
    };
    all(own.into_iter().chain(values))
}

/// Whether the result is another if rows that the order holds equal change places. What is not
/// known to be the same is another.
pub(super) fn by_peers(call: &Call) -> bool {
    match &call.function {
        Some(Function::Ranking(ranking)) => !matches!(
            Rank::try_from(ranking.rank),
            Ok(Rank::Rank | Rank::DenseRank | Rank::PercentRank | Rank::CumeDist)
        ),
        Some(Function::Aggregate(aggregate)) => {
            let of_peers = call.frame.as_ref().is_some_and(ends_between_peers);
            depends_on(aggregate) != Some(DependsOn::Rows) || !of_peers
        }
        Some(Function::Shift(_) | Function::NthValue(_)) | None => true,
    }
}

/// Whether a frame has of a group of peers all rows or none.
fn ends_between_peers(frame: &Frame) -> bool {
    [&frame.lower, &frame.upper].into_iter().all(|bound| {
        let kind = bound.as_ref().and_then(|bound| bound.kind.as_ref());
        matches!(
            kind,
            Some(Kind::Unbounded(_) | Kind::Peers(_) | Kind::Value(_))
        )
    })
}
