//! What a fragment reads: its scans, its inputs, rows that come with it.

use std::collections::HashMap;

use coffer_protocol::{
    plan::{Input, Node, Scan, node::Op},
    tree::children,
};

use super::wrong;
use crate::ClientError;

/// The fragment's leaves.
#[derive(Default)]
pub(super) struct Leaves<'a> {
    pub(super) scans: HashMap<u32, &'a Scan>,
    pub(super) inputs: HashMap<u32, &'a Input>,
    /// Whether rows come with the fragment.
    pub(super) values: bool,
}

impl<'a> Leaves<'a> {
    pub(super) fn gather(&mut self, stage: u32, node: &'a Node) -> Result<(), ClientError> {
        match &node.op {
            Some(Op::Scan(scan)) => match self.scans.insert(scan.scan_id, scan) {
                Some(_) => Err(wrong(stage, "two scans with one id")),
                None => Ok(()),
            },
            Some(Op::Input(input)) => match self.inputs.insert(input.input_id, input) {
                Some(_) => Err(wrong(stage, "two inputs with one id")),
                None => Ok(()),
            },
            Some(Op::Values(values)) => {
                self.values |= !values.rows.is_empty();
                Ok(())
            }
            _ => children(node)
                .into_iter()
                .try_for_each(|child| self.gather(stage, child)),
        }
    }
}
