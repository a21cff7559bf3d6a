//! Which of the scans that could be narrowed are, by guesses: sizes of files are known, what
//! conditions leave is not.

use std::collections::{BTreeSet, HashMap};

use coffer_protocol::{
    plan::{Expr, JoinType, Node, expr::Kind, node::Op},
    tree::children,
};

use super::{Narrowed, Possible, Shape};

/// Which part of the rows a condition leaves, where nothing is known but that it is one; and from
/// how many on further ones are taken to say the same.
const FILTERED: f64 = 0.35;
const CONDITIONS: i32 = 4;
/// Of keys of more than this part of what there was, nothing is expected.
const MOST: f64 = 0.9;

/// More rows than this are not waited for: they have too many keys, even if half of the guess is
/// right.
const FEW: f64 = 16_777_216.0;

/// By stage.
pub(super) fn of(shapes: &[Shape], mut left: Vec<Possible>) -> Vec<Vec<Narrowed>> {
    let mut chosen = Chosen {
        shapes,
        waits: shapes
            .iter()
            .map(|shape| shape.inputs.values().copied().collect())
            .collect(),
        narrowed: vec![Vec::new(); shapes.len()],
        shares: HashMap::new(),
    };
    while let Some((at, share)) = chosen.best(&left) {
        let taken = left.swap_remove(at);
        chosen.take(taken, share);
    }
    chosen.narrowed
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
