//! Whether a fragment gives the same rows each time it runs over the same inputs.
//!
//! Streams are read in map order and one thread runs a task, so many operators give the same rows
//! in the same order. What may spill gives them in another order when it does, which depends on
//! what else the engine runs; an operator that takes rows by their place then takes others. How
//! rows are grouped into partial results, and into batches and frames, depends on memory too.
//!
//! Everything here is a list of what is known to keep its rows, operator by operator, function by
//! function; what is on none is not repeatable: functions in `coffer_expr::is_repeatable`,
//! aggregates in `coffer_plan::depends_on`, operators below.

mod windows;

use std::collections::HashMap;

use coffer_expr::is_repeatable;
use coffer_plan::{DependsOn, depends_on};
use coffer_protocol::{
    plan::{
        Expr, Fragment, Node, SortKey, generate::Generator, node::Op, partitioning, sink, window,
    },
    tree::children,
};

/// What a repetition keeps of a task's rows. A later one keeps less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Repeatable {
    /// The rows and their order.
    Ordered,
    /// The rows.
    Unordered,
    /// Neither.
    Not,
}

impl Repeatable {
    /// Of the fragment's rows, and of the streams that they leave in; `producers` by input. What is
    /// read of an output that is not repeatable is one version of it (`origins.rs`).
    pub(crate) fn of(fragment: &Fragment, producers: &HashMap<u32, Self>) -> Self {
        let rows = fragment
            .root
            .as_ref()
            .map_or(Self::Not, |root| node(root, producers));
        match sink_is_listed(fragment) {
            true => rows,
            false => Self::Not,
        }
    }
}

/// Whether each row leaves by the way that it left by before. Round robin sorts the rows first, by
/// all of their columns.
fn sink_is_listed(fragment: &Fragment) -> bool {
    let Some(sink) = fragment.sink.as_ref().and_then(|sink| sink.kind.as_ref()) else {
        return false;
    };
    match sink {
        sink::Kind::Result(_) | sink::Kind::Broadcast(_) | sink::Kind::Write(_) => true,
        sink::Kind::Sample(sample) => keys(&sample.keys),
        sink::Kind::Shuffle(shuffle) => match &shuffle.kind {
            Some(partitioning::Kind::Hash(hash)) => all(&hash.exprs),
            Some(partitioning::Kind::Range(range)) => keys(&range.keys),
            Some(partitioning::Kind::Single(_) | partitioning::Kind::RoundRobin(_)) => true,
            None => false,
        },
    }
}

fn all<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> bool {
    exprs.into_iter().all(is_repeatable)
}

fn keys(keys: &[SortKey]) -> bool {
    all(keys.iter().flat_map(|key| &key.expr))
}

/// Whether all functions that a node calls itself are listed.
fn is_listed(op: &Op) -> bool {
    match op {
        Op::Values(_)
        | Op::Numbers(_)
        | Op::Drawn(_)
        | Op::Limit(_)
        | Op::Union(_)
        | Op::Decrypt(_) => true,
        Op::Scan(scan) => all(&scan.pushed),
        Op::Input(input) => keys(&input.merge),
        Op::Placed(placed) => all(placed.columns.iter().flat_map(|column| &column.input)),
        Op::Filter(filter) => all(&filter.condition),
        Op::Project(project) => all(project.exprs.iter().flat_map(|named| &named.expr)),
        Op::Sort(sort) => keys(&sort.keys),
        Op::Expand(expand) => all(expand
            .projections
            .iter()
            .flat_map(|projection| &projection.exprs)),
        Op::Generate(generate) => match &generate.generator {
            Some(Generator::Explode(explode)) => all(&explode.input),
            Some(Generator::Stack(stack)) => all(&stack.exprs),
            Some(Generator::Copies(copies)) => all(copies.count.iter().chain(&copies.exprs)),
            None => false,
        },
        Op::Join(join) => all(join
            .left_keys
            .iter()
            .chain(&join.right_keys)
            .chain(&join.condition)),
        Op::Window(window) => {
            all(&window.partition)
                && keys(&window.order)
                && window.calls.iter().all(windows::is_listed)
        }
        Op::WindowGroupLimit(limit) => all(&limit.partition) && keys(&limit.order),
        Op::Aggregate(aggregate) => {
            let calls = || aggregate.calls.iter();
            all(aggregate.grouping.iter().flat_map(|named| &named.expr))
                && all(calls().flat_map(|call| call.args.iter().chain(&call.filter)))
                && calls().all(|call| depends_on(call).is_some())
        }
    }
}

fn node(of: &Node, producers: &HashMap<u32, Repeatable>) -> Repeatable {
    use Repeatable::{Not, Ordered, Unordered};
    let Some(op) = of.op.as_ref().filter(|op| is_listed(op)) else {
        return Not;
    };
    let below = children(of)
        .into_iter()
        .map(|child| node(child, producers))
        .max()
        .unwrap_or(Ordered);
    let by_position = match below {
        Ordered => Ordered,
        Unordered | Not => Not,
    };
    match op {
        // Row by row; a union has one child's rows after the other's.
        Op::Scan(_)
        | Op::Values(_)
        | Op::Filter(_)
        | Op::Project(_)
        | Op::Decrypt(_)
        | Op::Generate(_)
        | Op::Numbers(_)
        | Op::Union(_) => below,
        // Batch by batch: all of a batch's rows for one projection, then for the next. Where
        // batches end follows from frames.
        Op::Expand(_) => below.max(Unordered),
        // Equal keys of a merge come in whatever order. A broadcast is read in the order of its
        // maps, as a shuffle is.
        Op::Input(input) => match producers.get(&input.input_id) {
            Some(Ordered) if input.merge.is_empty() => Ordered,
            _ => Unordered,
        },
        Op::Aggregate(aggregate) => {
            let by_rows = |call| depends_on(call) == Some(DependsOn::Rows);
            let taken = match aggregate.calls.iter().all(by_rows) {
                true => below,
                false => by_position,
            };
            // Partial results are other rows when memory was short, and mean the same to whoever
            // merges them; nobody else reads them.
            match aggregate.grouping.is_empty() {
                true if taken != Not => Ordered,
                _ => taken.max(Unordered),
            }
        }
        // Rows of equal keys: which of them are the first so many, or in what order they come.
        Op::Sort(sort) if sort.fetch > 0 => by_position,
        Op::Sort(_) => below.max(Unordered),
        Op::Limit(_) | Op::Drawn(_) | Op::Placed(_) => by_position,
        // Peers come as a sort gives them, and whether an order has any is not known.
        Op::Window(window) => match window.calls.iter().any(windows::by_peers) {
            true => Not,
            false => below.max(Unordered),
        },
        Op::WindowGroupLimit(limit) => match limit.rank() {
            window::Rank::Rank | window::Rank::DenseRank => below.max(Unordered),
            _ => Not,
        },
        // What one row meets, and what nothing met, comes in the order in which the held side lies,
        // which follows from its batches; a nested loop takes that side in parts where memory is
        // short.
        Op::Join(_) => below.max(Unordered),
    }
}

#[cfg(test)]
mod tests;
