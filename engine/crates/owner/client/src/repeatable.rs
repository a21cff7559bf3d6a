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

use std::collections::HashMap;

use coffer_expr::is_repeatable;
use coffer_plan::{DependsOn, depends_on};
use coffer_protocol::{
    plan::{Expr, Fragment, Node, SortKey, node::Op, partitioning, sink},
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
        Op::Values(_) | Op::Limit(_) | Op::Union(_) | Op::Decrypt(_) => true,
        Op::Scan(scan) => all(&scan.pushed),
        Op::Input(input) => keys(&input.merge),
        Op::Filter(filter) => all(&filter.condition),
        Op::Project(project) => all(project.exprs.iter().flat_map(|named| &named.expr)),
        Op::Sort(sort) => keys(&sort.keys),
        Op::Expand(expand) => all(expand
            .projections
            .iter()
            .flat_map(|projection| &projection.exprs)),
        Op::Join(join) => all(join
            .left_keys
            .iter()
            .chain(&join.right_keys)
            .chain(&join.condition)),
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
        Op::Limit(_) => by_position,
        // What one row meets, and what nothing met, comes in the order in which the held side lies,
        // which follows from its batches; a nested loop takes that side in parts where memory is
        // short.
        Op::Join(_) => below.max(Unordered),
    }
}

#[cfg(test)]
mod tests {
    use coffer_protocol::plan::{
        AggCall, Aggregate, Call, DataType, Expand, Filter, Input, Join, Limit, NamedExpr,
        Partitioning, Project, Scan, Sink, Sort, SortKey, TypeId, Union, Values,
        expand::Projection, expr::Kind, join::Strategy,
    };

    use super::{
        Repeatable::{Not, Ordered, Unordered},
        *,
    };

    fn boxed(node: Node) -> Option<Box<Node>> {
        Some(Box::new(node))
    }

    fn op(op: Op) -> Node {
        Node {
            id: 0,
            op: Some(op),
        }
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
                input_types: vec![DataType {
                    id: TypeId::Double.into(),
                    ..DataType::default()
                }],
                ..AggCall::default()
            }],
        })))
    }

    fn expand(child: Node) -> Node {
        op(Op::Expand(Box::new(Expand {
            child: boxed(child),
            ..Expand::default()
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
            (
                "the first groups",
                limit(aggregate(input(0), "sum", true)),
                Not,
            ),
            (
                "one sum of doubles",
                limit(aggregate(input(1), "sum", false)),
                Ordered,
            ),
            (
                "groups' averages",
                aggregate(input(1), "avg", true),
                Unordered,
            ),
            (
                "deviations",
                aggregate(input(1), "stddev_samp", true),
                Unordered,
            ),
            ("largest", aggregate(input(1), "max", true), Unordered),
            (
                "an aggregate that nobody has classed",
                aggregate(values(), "mode", true),
                Not,
            ),
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
            (
                "a hash join",
                join(input(0), values(), Strategy::Hash),
                Unordered,
            ),
            (
                "the first of it",
                limit(join(input(0), values(), Strategy::Hash)),
                Not,
            ),
            (
                "the first of rows that are multiplied",
                limit(expand(input(0))),
                Not,
            ),
            ("rows that are multiplied", expand(input(0)), Unordered),
            (
                "a hash join of rows in any order",
                join(input(0), input(1), Strategy::Hash),
                Unordered,
            ),
            (
                "a nested loop",
                join(input(0), values(), Strategy::NestedLoop),
                Unordered,
            ),
            (
                "a merge join",
                join(input(0), input(0), Strategy::SortMerge),
                Unordered,
            ),
            ("all together", union(vec![values(), limit(input(1))]), Not),
            (
                "groups of what is made anew",
                aggregate(limit(input(1)), "sum", false),
                Not,
            ),
        ];
        for (what, root, expected) in cases {
            assert_eq!(
                Repeatable::of(&fragment(root), &producers),
                expected,
                "{what}"
            );
        }
    }

    fn fragment(root: Node) -> Fragment {
        to(root, sink::Kind::Result(sink::Result {}))
    }

    fn to(root: Node, kind: sink::Kind) -> Fragment {
        Fragment {
            root: Some(root),
            sink: Some(Sink { kind: Some(kind) }),
            ..Fragment::default()
        }
    }

    fn drawn() -> Expr {
        Expr {
            kind: Some(Kind::Call(Call {
                name: "rand".to_owned(),
                ..Call::default()
            })),
        }
    }

    #[test]
    fn a_function_that_is_not_listed_makes_its_rows_anew_wherever_it_is_called() {
        let values = || boxed(op(Op::Values(Values::default())));
        let key = || SortKey {
            expr: Some(drawn()),
            ..SortKey::default()
        };
        let named = || NamedExpr {
            expr: Some(drawn()),
            ..NamedExpr::default()
        };
        let call = |call: AggCall| {
            Op::Aggregate(Box::new(Aggregate {
                child: values(),
                grouping: vec![],
                calls: vec![AggCall {
                    name: "count".to_owned(),
                    ..call
                }],
            }))
        };
        let join = |join| {
            Op::Join(Box::new(Join {
                left: values(),
                right: values(),
                ..join
            }))
        };
        let ops = [
            Op::Scan(Scan {
                pushed: vec![drawn()],
                ..Scan::default()
            }),
            Op::Input(Input {
                merge: vec![key()],
                ..Input::default()
            }),
            Op::Filter(Box::new(Filter {
                child: values(),
                condition: Some(drawn()),
            })),
            Op::Project(Box::new(Project {
                child: values(),
                exprs: vec![named()],
            })),
            Op::Sort(Box::new(Sort {
                child: values(),
                keys: vec![key()],
                fetch: 0,
            })),
            Op::Expand(Box::new(Expand {
                child: values(),
                projections: vec![Projection {
                    exprs: vec![drawn()],
                }],
                schema: None,
            })),
            Op::Aggregate(Box::new(Aggregate {
                child: values(),
                grouping: vec![named()],
                calls: vec![],
            })),
            call(AggCall {
                args: vec![drawn()],
                ..AggCall::default()
            }),
            call(AggCall {
                filter: Some(drawn()),
                ..AggCall::default()
            }),
            join(Join {
                left_keys: vec![drawn()],
                ..Join::default()
            }),
            join(Join {
                right_keys: vec![drawn()],
                ..Join::default()
            }),
            join(Join {
                condition: Some(drawn()),
                ..Join::default()
            }),
        ];
        let none = HashMap::new();
        for root in ops {
            let text = format!("{root:?}");
            assert_eq!(
                Repeatable::of(&fragment(op(root.clone())), &none),
                Not,
                "{text}"
            );
            let above = aggregate(limit(op(root)), "count", false);
            assert_eq!(Repeatable::of(&fragment(above), &none), Not, "above {text}");
        }
        assert_eq!(Repeatable::of(&fragment(Node::default()), &none), Not);
        let shuffles = [
            None,
            Some(partitioning::Kind::Hash(partitioning::Hash {
                exprs: vec![drawn()],
                partitions: 2,
            })),
            Some(partitioning::Kind::Range(partitioning::Range {
                keys: vec![key()],
                ..partitioning::Range::default()
            })),
        ];
        for kind in shuffles {
            let shuffle = sink::Kind::Shuffle(Partitioning { kind });
            let rows = op(Op::Values(Values::default()));
            assert_eq!(Repeatable::of(&to(rows, shuffle), &none), Not);
        }
    }
}
