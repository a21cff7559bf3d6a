//! Whether a fragment gives the same rows each time it runs over the same inputs.
//!
//! Streams are read in map order and one thread runs a task, so most operators give the same rows in the same order. What may spill
//! gives them in another order when it does, which depends on what else the engine runs; and an operator that takes rows by their place
//! then takes others.

use std::collections::HashMap;

use coffer_engine::task::children;
use coffer_proto::plan::{Fragment, Node, join::Strategy, node::Op};

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

/// Aggregates whose result depends on the order of their rows.
const BY_ORDER: [&str; 2] = ["first", "last"];

impl Repeatable {
    /// Of the fragment's rows; `producers` by input. What is read of an output that is not repeatable is one version of it
    /// (`origins.rs`).
    pub(crate) fn of(fragment: &Fragment, producers: &HashMap<u32, Self>) -> Self {
        fragment
            .root
            .as_ref()
            .map_or(Self::Ordered, |root| node(root, producers))
    }
}

fn node(of: &Node, producers: &HashMap<u32, Repeatable>) -> Repeatable {
    use Repeatable::{Not, Ordered, Unordered};
    let below = children(of)
        .into_iter()
        .map(|child| node(child, producers))
        .max()
        .unwrap_or(Ordered);
    let by_place = match below {
        Ordered => Ordered,
        Unordered | Not => Not,
    };
    match &of.op {
        Some(Op::Scan(_) | Op::Values(_) | Op::Filter(_) | Op::Project(_) | Op::Reveal(_) | Op::Expand(_)) | None => {
            below
        }
        // Equal keys of a merge come in whatever order.
        Some(Op::Input(input)) => match producers.get(&input.input_id) {
            Some(Ordered) if input.merge.is_empty() => Ordered,
            _ => Unordered,
        },
        Some(Op::Aggregate(aggregate)) => {
            let by_order = |name: &str| BY_ORDER.contains(&name);
            let taken = match aggregate.calls.iter().any(|call| by_order(&call.name)) {
                true => by_place,
                false => below,
            };
            match aggregate.grouping.is_empty() {
                true if taken != Not => Ordered,
                _ => taken.max(Unordered),
            }
        }
        // Rows of equal keys: which of them are the first so many, or in what order they come.
        Some(Op::Sort(sort)) if sort.fetch > 0 => by_place,
        Some(Op::Sort(_)) => below.max(Unordered),
        Some(Op::Limit(_)) => by_place,
        Some(Op::Join(join)) if join.strategy() == Strategy::SortMerge => below.max(Unordered),
        Some(Op::Join(_) | Op::Union(_)) => below,
    }
}

#[cfg(test)]
mod tests {
    use coffer_proto::plan::{AggCall, Aggregate, Input, Join, Limit, NamedExpr, Sort, SortKey, Union, Values};

    use super::{
        Repeatable::{Not, Ordered, Unordered},
        *,
    };

    fn boxed(node: Node) -> Option<Box<Node>> {
        Some(Box::new(node))
    }

    fn op(op: Op) -> Node {
        Node { id: 0, op: Some(op) }
    }

    fn input(id: u32) -> Node {
        op(Op::Input(Input {
            input_id: id,
            ..Input::default()
        }))
    }

    fn merged(id: u32) -> Node {
        op(Op::Input(Input {
            input_id: id,
            merge: vec![SortKey::default()],
            ..Input::default()
        }))
    }

    fn limit(child: Node) -> Node {
        op(Op::Limit(Box::new(Limit {
            child: boxed(child),
            skip: 0,
            fetch: Some(5),
        })))
    }

    fn sort(child: Node, fetch: u64) -> Node {
        op(Op::Sort(Box::new(Sort {
            child: boxed(child),
            keys: vec![],
            fetch,
        })))
    }

    fn aggregate(child: Node, name: &str, grouped: bool) -> Node {
        op(Op::Aggregate(Box::new(Aggregate {
            child: boxed(child),
            grouping: vec![NamedExpr::default(); usize::from(grouped)],
            calls: vec![AggCall {
                name: name.to_owned(),
                ..AggCall::default()
            }],
        })))
    }

    fn join(left: Node, right: Node, strategy: Strategy) -> Node {
        op(Op::Join(Box::new(Join {
            left: boxed(left),
            right: boxed(right),
            strategy: strategy.into(),
            ..Join::default()
        })))
    }

    #[test]
    fn an_operator_that_takes_rows_by_place_needs_an_order_that_is_kept() {
        let producers = HashMap::from([(0, Ordered), (1, Unordered), (2, Not)]);
        let values = || op(Op::Values(Values::default()));
        let union = |children| {
            op(Op::Union(Union {
                children,
                ..Union::default()
            }))
        };
        let cases = [
            ("rows of the fragment", values(), Ordered),
            ("the first of them", limit(values()), Ordered),
            ("an input in order", input(0), Ordered),
            ("its first", limit(input(0)), Ordered),
            ("a merged input", merged(0), Unordered),
            ("its first rows", limit(merged(0)), Not),
            ("an input in any order", input(1), Unordered),
            ("the first of it", limit(input(1)), Not),
            ("one version of rows made anew", input(2), Unordered),
            ("groups", aggregate(input(0), "sum", true), Unordered),
            ("the first groups", limit(aggregate(input(0), "sum", true)), Not),
            ("one sum", limit(aggregate(input(1), "sum", false)), Ordered),
            ("one first value", aggregate(input(1), "first", false), Not),
            (
                "the first value of rows in order",
                aggregate(input(0), "first", false),
                Ordered,
            ),
            ("last values", aggregate(input(1), "last", true), Not),
            ("sorted", sort(input(0), 0), Unordered),
            ("the first of what is sorted", limit(sort(input(0), 0)), Not),
            ("the top of rows in order", sort(input(0), 3), Ordered),
            ("the top of rows in any order", sort(input(1), 3), Not),
            ("a hash join", join(input(0), values(), Strategy::Hash), Ordered),
            (
                "a hash join of rows in any order",
                join(input(0), input(1), Strategy::Hash),
                Unordered,
            ),
            ("a merge join", join(input(0), input(0), Strategy::SortMerge), Unordered),
            ("all together", union(vec![values(), limit(input(1))]), Not),
            (
                "groups of what is made anew",
                aggregate(limit(input(1)), "sum", false),
                Not,
            ),
        ];
        for (what, root, expected) in cases {
            let fragment = Fragment {
                root: Some(root),
                ..Fragment::default()
            };
            assert_eq!(Repeatable::of(&fragment, &producers), expected, "{what}");
        }
    }
}
