//! The tree of a fragment's operators.

use crate::plan::{Node, node::Op};

/// The operators below one.
#[must_use]
pub fn children(node: &Node) -> Vec<&Node> {
    match &node.op {
        Some(Op::Scan(_) | Op::Input(_) | Op::Values(_) | Op::Numbers(_)) | None => vec![],
        Some(Op::Filter(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Project(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Aggregate(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Sort(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Limit(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Decrypt(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Window(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::WindowGroupLimit(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Placed(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Drawn(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Generate(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Expand(op)) => op.child.as_deref().into_iter().collect(),
        Some(Op::Union(op)) => op.children.iter().collect(),
        Some(Op::Join(op)) => op
            .left
            .as_deref()
            .into_iter()
            .chain(op.right.as_deref())
            .collect(),
    }
}
