//! Which scans of a query that runs here whole the keys of another stage narrow.
//!
//! A join leaves out rows of one side that have no match on the other. Where all rows of one side
//! are here before the other side's tables are read, its keys are a condition of that scan,
//! whatever exchanges lie between: sideways information passing (Beeri and Ramakrishnan, PODS
//! 1987). Within a fragment a broadcast's keys do the same ([`coffer_plan`]).
//!
//! A row is left out only where nobody can tell: what it would have come to carries its key up to
//! the join, is read by nothing else, and computes nothing on the way that can fail.

use std::collections::{BTreeSet, HashMap};

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
    let mut chosen = Chosen {
        shapes,
        waits: shapes
            .iter()
            .map(|shape| shape.inputs.values().copied().collect())
            .collect(),
        narrowed: vec![Vec::new(); shapes.len()],
        shares: HashMap::new(),
    };
    let mut left = possible(shapes);
    while let Some((at, share)) = chosen.best(&left) {
        let taken = left.swap_remove(at);
        chosen.take(taken, share);
    }
    chosen.narrowed
}

/// Which part of the rows a condition leaves, where nothing is known but that it is one; and from
/// how many on further ones are taken to say the same.
const FILTERED: f64 = 0.35;
const CONDITIONS: i32 = 4;
/// Of keys of more than this part of what there was, nothing is expected.
const MOST: f64 = 0.9;

/// More rows than this are not waited for: they have too many keys, even if half of the guess is
/// right.
const FEW: f64 = 2_097_152.0;

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

struct Chosen<'a> {
    shapes: &'a [Shape],
    waits: Vec<BTreeSet<usize>>,
    narrowed: Vec<Vec<Narrowed>>,
    /// What is expected to be left of a scan, by stage and scan.
    shares: HashMap<(usize, u32), f64>,
}

/// What is expected of a node: its rows, and which part those are of what there would be without
/// any condition.
#[derive(Debug, Clone, Copy)]
struct Guess {
    rows: f64,
    share: f64,
}

impl Chosen<'_> {
    /// The one by the fewest rows that promises something, and which part it leaves.
    fn best(&self, left: &[Possible]) -> Option<(usize, f64)> {
        let mut guesses: Vec<Guess> = Vec::with_capacity(self.shapes.len());
        for (position, shape) in self.shapes.iter().enumerate() {
            let root = shape.fragment.root.as_ref();
            guesses.push(root.map_or(ALL, |root| self.guess(position, root, &guesses)));
        }
        let by = |one: &Possible| guesses.get(one.narrowed.by.0).copied().unwrap_or(ALL);
        let pays = |one: &Possible| {
            let (by, of) = (by(one), self.of_scan(one.stage, one.narrowed.scan));
            by.share < MOST
                && by.rows < of.rows.min(FEW)
                && !self.waits_for(one.narrowed.by.0, one.stage)
        };
        left.iter()
            .enumerate()
            .filter(|(_, one)| pays(one))
            .map(|(at, one)| (at, by(one)))
            .min_by(|(_, a), (_, b)| a.rows.total_cmp(&b.rows))
            .map(|(at, by)| (at, by.share))
    }

    fn take(&mut self, taken: Possible, share: f64) {
        let scan = (taken.stage, taken.narrowed.scan);
        *self.shares.entry(scan).or_insert(1.0) *= share;
        if let Some(waits) = self.waits.get_mut(taken.stage) {
            waits.insert(taken.narrowed.by.0);
        }
        if let Some(narrowed) = self.narrowed.get_mut(taken.stage)
            && !narrowed.contains(&taken.narrowed)
        {
            narrowed.push(taken.narrowed);
        }
    }

    /// Whether a stage cannot begin before another has ended, or is that one.
    fn waits_for(&self, stage: usize, other: usize) -> bool {
        let (mut open, mut seen) = (vec![stage], BTreeSet::new());
        while let Some(at) = open.pop() {
            if at == other {
                return true;
            }
            if seen.insert(at) {
                open.extend(self.waits.get(at).into_iter().flatten());
            }
        }
        false
    }

    fn of_scan(&self, stage: usize, scan: u32) -> Guess {
        let rows = self
            .shapes
            .get(stage)
            .and_then(|shape| shape.rows.get(&scan));
        let share = self.shares.get(&(stage, scan)).copied().unwrap_or(1.0);
        // Counts of rows are far below what a double holds exactly.
        #[allow(clippy::cast_precision_loss, clippy::as_conversions)]
        let rows = rows.copied().unwrap_or_default() as f64 * share;
        Guess { rows, share }
    }

    fn guess(&self, stage: usize, node: &Node, before: &[Guess]) -> Guess {
        let below: Vec<Guess> = children(node)
            .into_iter()
            .map(|child| self.guess(stage, child, before))
            .collect();
        let first = below.first().copied().unwrap_or(ALL);
        match &node.op {
            Some(Op::Scan(scan)) => {
                let pushed = scan.pushed.iter().map(conditions).sum();
                self.of_scan(stage, scan.scan_id).of(left_by(pushed))
            }
            Some(Op::Input(input)) => {
                let inputs = self.shapes.get(stage).map(|shape| &shape.inputs);
                let producer = inputs.and_then(|inputs| inputs.get(&input.input_id));
                let guess = producer.and_then(|producer| before.get(*producer));
                guess.copied().unwrap_or(ALL)
            }
            Some(Op::Filter(filter)) => {
                first.of(left_by(filter.condition.as_ref().map_or(0, conditions)))
            }
            Some(Op::Join(join)) => {
                let second = below.get(1).copied().unwrap_or(ALL);
                match join.r#type() {
                    JoinType::Inner | JoinType::Cross => Guess {
                        rows: (first.rows * second.share).max(second.rows * first.share),
                        share: first.share * second.share,
                    },
                    JoinType::LeftSemi => first.of(second.share),
                    JoinType::RightOuter => second,
                    _ => first,
                }
            }
            Some(Op::Limit(_)) => Guess {
                rows: first.rows.min(1.0),
                share: 0.0,
            },
            Some(Op::Union(_)) => Guess {
                rows: below.iter().map(|guess| guess.rows).sum(),
                share: below.iter().map(|guess| guess.share).fold(0.0, f64::max),
            },
            _ => first,
        }
    }
}

/// Of what nothing is known.
const ALL: Guess = Guess {
    rows: 0.0,
    share: 1.0,
};

impl Guess {
    fn of(self, share: f64) -> Self {
        Self {
            rows: self.rows * share,
            share: self.share * share,
        }
    }
}

/// How many conditions are one with `and` between them; that a value is there says little.
fn conditions(condition: &Expr) -> i32 {
    match &condition.kind {
        Some(Kind::Call(call)) if call.name == "is_not_null" => 0,
        Some(Kind::Call(call)) if call.name == "and" => call.args.iter().map(conditions).sum(),
        _ => 1,
    }
}

fn left_by(conditions: i32) -> f64 {
    FILTERED.powi(conditions.min(CONDITIONS))
}

#[cfg(test)]
mod tests {
    use coffer_protocol::plan::{
        Call, Field, Filter, Input, Partitioning, Project, Scan, Schema, Sink,
    };

    use super::*;

    const WIDTH: usize = 3;

    fn node(op: Op) -> Node {
        Node {
            id: 0,
            op: Some(op),
        }
    }

    fn of(column: u32) -> Expr {
        Expr {
            kind: Some(Kind::Column(column)),
        }
    }

    fn schema() -> Option<Schema> {
        Some(Schema {
            fields: vec![Field::default(); WIDTH],
        })
    }

    fn scan(filtered: bool) -> Node {
        let call = Call {
            name: "lt".to_owned(),
            args: vec![of(1), of(2)],
            ..Call::default()
        };
        let pushed = Expr {
            kind: Some(Kind::Call(call)),
        };
        node(Op::Scan(Scan {
            scan_id: 7,
            schema: schema(),
            pushed: vec![pushed; usize::from(filtered)],
        }))
    }

    fn input(input_id: u32) -> Node {
        node(Op::Input(Input {
            input_id,
            schema: schema(),
            ..Input::default()
        }))
    }

    fn join(kind: JoinType, left: Node, right: Node, keys: (u32, u32)) -> Node {
        node(Op::Join(Box::new(Join {
            left: Some(Box::new(left)),
            right: Some(Box::new(right)),
            left_keys: vec![of(keys.0)],
            right_keys: vec![of(keys.1)],
            r#type: kind.into(),
            ..Join::default()
        })))
    }

    fn shuffled(root: Node) -> Fragment {
        let hash = partitioning::Hash {
            exprs: vec![of(0)],
            partitions: 4,
        };
        Fragment {
            root: Some(root),
            sink: Some(Sink {
                kind: Some(sink::Kind::Shuffle(Partitioning {
                    kind: Some(partitioning::Kind::Hash(hash)),
                })),
            }),
            ..Fragment::default()
        }
    }

    /// A stage that reads tables of so many rows.
    fn reads(root: Node, rows: u64) -> Shape {
        Shape {
            rows: HashMap::from([(7, rows)]),
            ..Shape::new(shuffled(root))
        }
    }

    /// A stage whose input i has the rows of stage i.
    fn joins(root: Node, inputs: usize) -> Shape {
        Shape {
            inputs: (0..inputs)
                .map(|at| (u32::try_from(at).unwrap(), at))
                .collect(),
            ..Shape::new(shuffled(root))
        }
    }

    fn by(scan: u32, column: usize, by: (usize, usize)) -> Vec<Narrowed> {
        vec![Narrowed { scan, column, by }]
    }

    /// Which stage is narrowed where a small stage and a large one are joined, the small one the
    /// left side.
    fn of_pair(kind: JoinType) -> (bool, bool) {
        let chosen = |small_is_left: bool| {
            let (left, right) = match small_is_left {
                true => (input(0), input(1)),
                false => (input(1), input(0)),
            };
            let shapes = [
                reads(scan(true), 100),
                reads(scan(false), 10_000),
                joins(join(kind, left, right, (0, 0)), 2),
            ];
            let chosen = narrowed(&shapes);
            assert!(chosen[0].is_empty() && chosen[2].is_empty());
            assert!(chosen[1].is_empty() || chosen[1] == by(7, 0, (0, 0)));
            !chosen[1].is_empty()
        };
        (chosen(true), chosen(false))
    }

    #[test]
    fn a_side_is_narrowed_where_what_has_no_match_does_not_come_out() {
        use JoinType::{
            Existence, FullOuter, Inner, LeftAnti, LeftOuter, LeftSemi, LeftSingle, RightOuter,
        };
        // The right side, then the left one.
        assert_eq!(of_pair(Inner), (true, true));
        assert_eq!(of_pair(LeftSemi), (true, true));
        assert_eq!(of_pair(LeftOuter), (true, false));
        assert_eq!(of_pair(LeftAnti), (true, false));
        assert_eq!(of_pair(Existence), (true, false));
        assert_eq!(of_pair(RightOuter), (false, true));
        assert_eq!(of_pair(FullOuter), (false, false));
        assert_eq!(of_pair(LeftSingle), (false, false));
    }

    #[test]
    fn not_in_and_joins_without_keys_narrow_nothing() {
        let with = |change: fn(&mut Join)| {
            let mut root = join(JoinType::LeftAnti, input(0), input(1), (0, 0));
            if let Some(Op::Join(join)) = &mut root.op {
                change(join);
            }
            let shapes = [
                reads(scan(true), 100),
                reads(scan(false), 10_000),
                joins(root, 2),
            ];
            narrowed(&shapes)[1].len()
        };
        assert_eq!(with(|_| {}), 1);
        assert_eq!(with(|join| join.null_aware = true), 0);
        assert_eq!(with(|join| join.set_strategy(Strategy::NestedLoop)), 0);
    }

    fn may_fail() -> Expr {
        let call = Call {
            name: "raise_error".to_owned(),
            args: vec![of(1)],
            ..Call::default()
        };
        Expr {
            kind: Some(Kind::Call(call)),
        }
    }

    #[test]
    fn what_is_computed_of_a_row_must_not_fail() {
        assert!(is_fallible(&may_fail()));
        let projected = |second: Expr| {
            let exprs = [of(2), second].map(|expr| NamedExpr {
                expr: Some(expr),
                ..NamedExpr::default()
            });
            node(Op::Project(Box::new(Project {
                child: Some(Box::new(scan(false))),
                exprs: exprs.to_vec(),
            })))
        };
        let filtered = |condition: Expr| {
            node(Op::Filter(Box::new(Filter {
                child: Some(Box::new(scan(false))),
                condition: Some(condition),
            })))
        };
        let chosen = |target: Fragment| {
            let shapes = [
                reads(scan(true), 100),
                Shape {
                    fragment: target,
                    ..reads(scan(false), 10_000)
                },
                joins(join(JoinType::Inner, input(0), input(1), (1, 0)), 2),
            ];
            narrowed(&shapes)[1].clone()
        };
        assert_eq!(chosen(shuffled(projected(of(1)))), by(7, 2, (0, 1)));
        assert!(chosen(shuffled(projected(may_fail()))).is_empty());
        assert_eq!(chosen(shuffled(filtered(of(1)))), by(7, 0, (0, 1)));
        assert!(chosen(shuffled(filtered(may_fail()))).is_empty());
        let mut scattered = shuffled(scan(false));
        let fails = partitioning::Hash {
            exprs: vec![may_fail()],
            partitions: 4,
        };
        for kind in [
            partitioning::Kind::Hash(fails),
            partitioning::Kind::RoundRobin(partitioning::RoundRobin { partitions: 4 }),
        ] {
            scattered.sink = Some(Sink {
                kind: Some(sink::Kind::Shuffle(Partitioning { kind: Some(kind) })),
            });
            assert!(chosen(scattered.clone()).is_empty());
        }
    }

    #[test]
    fn rows_that_somebody_else_reads_stay() {
        let shapes = |readers: usize| {
            let reader = || joins(join(JoinType::Inner, input(0), input(1), (0, 0)), 2);
            let mut shapes = vec![reads(scan(true), 100), reads(scan(false), 10_000)];
            shapes.extend((0..readers).map(|_| reader()));
            shapes
        };
        assert_eq!(narrowed(&shapes(1))[1], by(7, 0, (0, 0)));
        assert!(narrowed(&shapes(2)).iter().all(Vec::is_empty));
    }

    #[test]
    fn keys_of_all_rows_narrow_nothing() {
        let shapes = [
            reads(scan(false), 100),
            reads(scan(false), 10_000),
            joins(join(JoinType::Inner, input(0), input(1), (0, 0)), 2),
        ];
        assert!(narrowed(&shapes).iter().all(Vec::is_empty));
    }

    #[test]
    fn what_is_narrowed_narrows_further_and_nobody_waits_for_itself() {
        // As query 21 of TPC-H: rows of the small table, joined with those of a large one that have
        // one match in it and none in it.
        let once = join(JoinType::LeftSemi, input(1), input(2), (1, 1));
        let never = join(JoinType::LeftAnti, once, input(3), (1, 1));
        let shapes = [
            reads(scan(true), 100),
            reads(scan(true), 10_000),
            reads(scan(false), 10_000),
            reads(scan(true), 10_000),
            joins(join(JoinType::Inner, input(0), never, (0, 2)), 4),
        ];
        let chosen = narrowed(&shapes);
        assert_eq!(chosen[1], by(7, 2, (0, 0)));
        assert_eq!(chosen[2], by(7, 1, (1, 1)));
        assert_eq!(chosen[3], by(7, 1, (1, 1)));
        assert!(chosen[0].is_empty() && chosen[4].is_empty());
    }

    #[test]
    fn a_stage_between_passes_keys_on() {
        let shapes = [
            reads(scan(true), 100),
            reads(scan(false), 10_000),
            Shape {
                inputs: HashMap::from([(0, 1)]),
                ..Shape::new(shuffled(input(0)))
            },
            Shape {
                inputs: HashMap::from([(0, 0), (1, 2)]),
                ..Shape::new(shuffled(join(JoinType::Inner, input(0), input(1), (2, 1))))
            },
        ];
        assert_eq!(narrowed(&shapes)[1], by(7, 1, (0, 2)));
    }
}
