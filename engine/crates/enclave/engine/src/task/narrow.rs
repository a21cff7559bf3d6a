//! Which scans of a query that runs here whole the keys of another stage narrow.
//!
//! A join leaves out rows of one side that have no match on the other. Where all rows of one side
//! are here before the other side's tables are read, its keys are a condition of that scan,
//! whatever exchanges lie between: sideways information passing (Beeri and Ramakrishnan, PODS
//! 1987). Within a fragment a broadcast's keys do the same ([`coffer_plan`]).
//!
//! A row is left out only where nobody can tell: what it would have come to carries its key up to
//! the join, is read by nothing else, and computes nothing on the way that can fail.

mod chosen;

use std::collections::HashMap;

use coffer_expr::is_fallible;
use coffer_protocol::{
    plan::{
        Expr, Fragment, Join, JoinType, NamedExpr, Node, expr::Kind, join::Strategy, node::Op,
        partitioning, sink,
    },
    tree::children,
};

/// A stage, as far as this matters. Stages that one reads come before it.
pub(super) struct Shape {
    pub(super) fragment: Fragment,
    /// By input id: the position of the stage whose rows it has.
    pub(super) inputs: HashMap<u32, usize>,
    /// Rows of its scans' files, by scan id.
    pub(super) rows: HashMap<u32, u64>,
}

impl Shape {
    /// A stage of which no task is known yet.
    pub(super) fn new(fragment: Fragment) -> Self {
        Self {
            fragment,
            inputs: HashMap::new(),
            rows: HashMap::new(),
        }
    }
}

/// A column of a scan that holds nothing of use but the keys in a column of another stage's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Narrowed {
    pub(super) scan: u32,
    pub(super) column: usize,
    /// The position of the other stage, and its column.
    pub(super) by: (usize, usize),
}

/// By stage. No stage waits for itself, however indirectly, if each also waits for those that
/// narrow its scans.
pub(super) fn narrowed(shapes: &[Shape]) -> Vec<Vec<Narrowed>> {
    chosen::of(shapes, possible(shapes))
}

/// A scan that could be narrowed, and the stage that it is of.
#[derive(Debug, Clone, Copy)]
struct Possible {
    stage: usize,
    narrowed: Narrowed,
}

fn possible(shapes: &[Shape]) -> Vec<Possible> {
    let mut readers: HashMap<usize, usize> = HashMap::new();
    for read in shapes.iter().flat_map(|shape| shape.inputs.values()) {
        *readers.entry(*read).or_default() += 1;
    }
    let mut found = Vec::new();
    for shape in shapes {
        let mut nodes: Vec<&Node> = shape.fragment.root.iter().collect();
        while let Some(node) = nodes.pop() {
            nodes.extend(children(node));
            if let Some(Op::Join(join)) = &node.op {
                for (narrow, by) in pairs(join) {
                    let Some(Leaf::Input(by, by_column)) = by else {
                        continue;
                    };
                    let source = shape.inputs.get(&by).copied();
                    let target = narrow.and_then(|leaf| scan_of(shapes, &readers, shape, leaf));
                    if let (Some(source), Some((stage, scan, column))) = (source, target) {
                        found.push(Possible {
                            stage,
                            narrowed: Narrowed {
                                scan,
                                column,
                                by: (source, by_column),
                            },
                        });
                    }
                }
            }
        }
    }
    found
}

/// Where a column's values come from as they are.
#[derive(Debug, Clone, Copy)]
enum Leaf {
    Scan(u32, usize),
    Input(u32, usize),
}

/// For each side that the other may narrow: what is narrowed, and by what.
fn pairs(join: &Join) -> Vec<(Option<Leaf>, Option<Leaf>)> {
    use JoinType::{Existence, Inner, LeftAnti, LeftOuter, LeftSemi, RightOuter};
    let kind = join.r#type();
    if join.null_aware || join.strategy() == Strategy::NestedLoop {
        return Vec::new();
    }
    let (Some(left), Some(right)) = (join.left.as_deref(), join.right.as_deref()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let keys = || join.left_keys.iter().zip(&join.right_keys);
    // Keys beside the one that narrows are computed of rows that are then not there.
    let sound = |keys: &[Expr]| !keys.iter().any(is_fallible);
    if matches!(kind, Inner | LeftSemi | RightOuter) && sound(&join.left_keys) {
        found.extend(keys().filter_map(|(of_left, of_right)| {
            let (of_left, of_right) = (column(of_left)?, column(of_right)?);
            Some((traced(left, of_left), carried(right, of_right)))
        }));
    }
    if matches!(kind, Inner | LeftSemi | LeftAnti | LeftOuter | Existence)
        && sound(&join.right_keys)
    {
        found.extend(keys().filter_map(|(of_left, of_right)| {
            let (of_left, of_right) = (column(of_left)?, column(of_right)?);
            Some((traced(right, of_right), carried(left, of_left)))
        }));
    }
    found
}

fn column(expr: &Expr) -> Option<usize> {
    match expr.kind {
        Some(Kind::Column(column)) => usize::try_from(column).ok(),
        _ => None,
    }
}

/// The leaf that a column comes from, where each row of the leaf that is left out leaves out those
/// rows only that have its value, and nothing that can fail is computed of it.
fn traced(node: &Node, of: usize) -> Option<Leaf> {
    match node.op.as_ref()? {
        Op::Scan(scan) => Some(Leaf::Scan(scan.scan_id, of)),
        Op::Input(input) => Some(Leaf::Input(input.input_id, of)),
        Op::Filter(filter) if !filter.condition.as_ref().is_none_or(is_fallible) => {
            traced(filter.child.as_deref()?, of)
        }
        Op::Project(project) if !project.exprs.iter().any(fails) => {
            let of = column(project.exprs.get(of)?.expr.as_ref()?)?;
            traced(project.child.as_deref()?, of)
        }
        Op::Join(join) => {
            let mut computed = join.left_keys.iter().chain(&join.right_keys);
            if computed.any(is_fallible) || join.condition.as_ref().is_some_and(is_fallible) {
                return None;
            }
            let (left, right) = (join.left.as_deref()?, join.right.as_deref()?);
            let width = width(left)?;
            match (join.r#type(), of.checked_sub(width)) {
                (JoinType::Inner | JoinType::Cross | JoinType::LeftOuter, None)
                | (JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Existence, None) => {
                    traced(left, of)
                }
                (JoinType::Inner | JoinType::Cross | JoinType::RightOuter, Some(of)) => {
                    traced(right, of)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn fails(named: &NamedExpr) -> bool {
    named.expr.as_ref().is_none_or(is_fallible)
}

/// The leaf that has all of a column's values, and maybe others.
fn carried(node: &Node, of: usize) -> Option<Leaf> {
    match node.op.as_ref()? {
        Op::Scan(scan) => Some(Leaf::Scan(scan.scan_id, of)),
        Op::Input(input) => Some(Leaf::Input(input.input_id, of)),
        Op::Filter(filter) => carried(filter.child.as_deref()?, of),
        Op::Project(project) => {
            let of = column(project.exprs.get(of)?.expr.as_ref()?)?;
            carried(project.child.as_deref()?, of)
        }
        Op::Join(join) => {
            let (left, right) = (join.left.as_deref()?, join.right.as_deref()?);
            match of.checked_sub(width(left)?) {
                None => carried(left, of),
                // What comes behind the left columns is no column of the right side in all of them.
                Some(of) if join.r#type() != JoinType::Existence => carried(right, of),
                Some(_) => None,
            }
        }
        _ => None,
    }
}

/// Columns of what a node gives.
fn width(node: &Node) -> Option<usize> {
    match node.op.as_ref()? {
        Op::Scan(scan) => Some(scan.schema.as_ref()?.fields.len()),
        Op::Input(input) => Some(input.schema.as_ref()?.fields.len()),
        Op::Filter(filter) => width(filter.child.as_deref()?),
        Op::Project(project) => Some(project.exprs.len()),
        Op::Join(join) => {
            let left = width(join.left.as_deref()?)?;
            match join.r#type() {
                JoinType::LeftSemi | JoinType::LeftAnti => Some(left),
                JoinType::Existence => Some(left + 1),
                _ => Some(left + width(join.right.as_deref()?)?),
            }
        }
        _ => None,
    }
}

/// The scan behind a leaf, in whichever stage: every stage on the way has one reader, which takes
/// its rows wherever their values send them.
fn scan_of(
    shapes: &[Shape],
    readers: &HashMap<usize, usize>,
    reader: &Shape,
    leaf: Leaf,
) -> Option<(usize, u32, usize)> {
    let Leaf::Input(input, of) = leaf else {
        // Of the stage itself: its broadcasts are the plan's affair.
        return None;
    };
    let position = *reader.inputs.get(&input)?;
    let shape = shapes.get(position)?;
    if readers.get(&position) != Some(&1) || !goes_by_value(&shape.fragment) {
        return None;
    }
    match traced(shape.fragment.root.as_ref()?, of)? {
        Leaf::Scan(scan, column) => Some((position, scan, column)),
        further => scan_of(shapes, readers, shape, further),
    }
}

fn goes_by_value(fragment: &Fragment) -> bool {
    match fragment.sink.as_ref().and_then(|sink| sink.kind.as_ref()) {
        Some(sink::Kind::Broadcast(_)) => true,
        Some(sink::Kind::Shuffle(shuffle)) => match &shuffle.kind {
            Some(partitioning::Kind::Single(_)) => true,
            Some(partitioning::Kind::Hash(hash)) => !hash.exprs.iter().any(is_fallible),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
