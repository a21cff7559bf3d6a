//! What a join is, checked: no operator is made of a join that it would not run as Spark does.

use coffer_protocol::{
    plan as proto,
    plan::{Expr, Join, join},
};
use datafusion_common::JoinType;

use crate::Unsupported;

/// A side of a join, in Spark's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// How a join is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    Hash,
    SortMerge,
    NestedLoop,
}

/// A join whose parts fit each other.
pub(crate) struct Spec<'a> {
    pub(crate) node: u32,
    pub(crate) strategy: Strategy,
    /// The side held in memory.
    pub(crate) build: Side,
    /// Whether the build side is whole in every task.
    pub(crate) broadcast: bool,
    /// NOT IN.
    pub(crate) null_aware: bool,
    pub(crate) left_keys: &'a [Expr],
    pub(crate) right_keys: &'a [Expr],
    pub(crate) condition: Option<&'a Expr>,
    /// Whether a left row that comes twice is an error.
    pub(crate) single: bool,
    kind: JoinType,
}

impl<'a> Spec<'a> {
    pub(crate) fn read(node: u32, join: &'a Join) -> Result<Self, Unsupported> {
        let malformed = |what| Unsupported::Malformed { node, what };
        let strategy = match join::Strategy::try_from(join.strategy) {
            Ok(join::Strategy::Hash) => Strategy::Hash,
            Ok(join::Strategy::SortMerge) => Strategy::SortMerge,
            Ok(join::Strategy::NestedLoop) => Strategy::NestedLoop,
            Err(_) => return Err(malformed("an unknown way to join")),
        };
        let kind = match proto::JoinType::try_from(join.r#type) {
            // What makes a join a cross join is that it has no condition; Spark keeps the name
            // where it has one.
            Ok(proto::JoinType::Inner | proto::JoinType::Cross) => JoinType::Inner,
            Ok(proto::JoinType::LeftOuter | proto::JoinType::LeftSingle) => JoinType::Left,
            Ok(proto::JoinType::RightOuter) => JoinType::Right,
            Ok(proto::JoinType::FullOuter) => JoinType::Full,
            Ok(proto::JoinType::LeftSemi) => JoinType::LeftSemi,
            Ok(proto::JoinType::LeftAnti) => JoinType::LeftAnti,
            Ok(proto::JoinType::Existence) => JoinType::LeftMark,
            Err(_) => return Err(malformed("an unknown type of join")),
        };
        let spec = Self {
            node,
            strategy,
            build: if join.build_left {
                Side::Left
            } else {
                Side::Right
            },
            broadcast: join.broadcast,
            null_aware: join.null_aware,
            left_keys: &join.left_keys,
            right_keys: &join.right_keys,
            condition: join.condition.as_ref(),
            single: join.r#type() == proto::JoinType::LeftSingle,
            kind,
        };
        spec.checked()
    }

    fn checked(self) -> Result<Self, Unsupported> {
        let malformed = |what| {
            Err(Unsupported::Malformed {
                node: self.node,
                what,
            })
        };
        if self.left_keys.len() != self.right_keys.len() {
            return malformed("a join with keys of one side only");
        }
        match (self.strategy, self.left_keys.is_empty()) {
            (Strategy::Hash | Strategy::SortMerge, true) => {
                return malformed("a join by keys without keys");
            }
            (Strategy::NestedLoop, false) => return malformed("a nested loop join with keys"),
            _ => {}
        }
        if self.broadcast && self.strategy == Strategy::SortMerge {
            return malformed("a merge join with a broadcast side");
        }
        if self.null_aware {
            let one_key = self.left_keys.len() == 1 && self.condition.is_none();
            let of_broadcast =
                self.strategy == Strategy::Hash && self.broadcast && self.build == Side::Right;
            if self.kind != JoinType::LeftAnti || !one_key || !of_broadcast {
                return malformed("a null-aware join that is not NOT IN over a broadcast");
            }
        }
        if self.broadcast && self.gives_unmatched_of_build() {
            // No task of many knows which of these rows found no match in any.
            return Err(Unsupported::Operator {
                node: self.node,
                operator: "join",
                reason: "rows of a broadcast side that match nothing cannot come out of a task"
                    .to_owned(),
            });
        }
        Ok(self)
    }

    /// DataFusion's name for it, with Spark's left side as its left.
    pub(super) fn operator_type(&self) -> JoinType {
        self.kind
    }

    /// DataFusion's name for it, with the build side as its left.
    pub(super) fn built_type(&self) -> JoinType {
        match self.build {
            Side::Left => self.kind,
            Side::Right => self.kind.swap(),
        }
    }

    /// The side that each task reads whole.
    pub(crate) fn broadcast_side(&self) -> Option<Side> {
        self.broadcast.then_some(self.build)
    }

    /// Whether every task pairs all rows of its own two partitions.
    pub(crate) fn is_paired_loop(&self) -> bool {
        self.strategy == Strategy::NestedLoop && !self.broadcast
    }

    fn gives_unmatched_of_build(&self) -> bool {
        matches!(
            self.built_type(),
            JoinType::Left
                | JoinType::Full
                | JoinType::LeftSemi
                | JoinType::LeftAnti
                | JoinType::LeftMark
        )
    }
}
