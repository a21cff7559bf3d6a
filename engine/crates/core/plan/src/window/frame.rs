//! The rows that a call looks at for each row.
//!
//! Bounds move over a window partition as they do in Spark (WindowFunctionFrame.scala), comparison
//! by comparison: a bound that Spark computes may overflow, and then fails or wraps as there, or is
//! never computed because no row is left to compare with it.

use std::{cmp::Ordering, ops::Range, sync::Arc};

use arrow::{
    array::AsArray,
    datatypes::{DataType, Decimal128Type, SchemaRef},
    record_batch::RecordBatch,
    row::Rows,
};
use coffer_protocol::plan::window::{self, bound::Kind};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_physical_expr::PhysicalSortExpr;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use super::{KeyRows, chunk::Chunk};
use crate::{Unsupported, expressions::Expressions};

/// Bounds of a frame, as the IR has them.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    lower: Bound,
    upper: Bound,
}

#[derive(Debug, Clone)]
enum Bound {
    Unbounded,
    Peers,
    Rows(i64),
    /// The key at which the frame of a row ends.
    Value(Arc<dyn PhysicalExpr>),
}

impl Frame {
    pub(super) fn read(
        node: u32,
        frame: &window::Frame,
        order: &[PhysicalSortExpr],
        schema: &SchemaRef,
        expressions: &Expressions,
    ) -> Result<Self, Unsupported> {
        let bound = |bound: &Option<window::Bound>| {
            let malformed = |what| Unsupported::Malformed { node, what };
            let kind = bound.as_ref().and_then(|bound| bound.kind.as_ref());
            Ok(match kind.ok_or(malformed("a frame without a bound"))? {
                Kind::Unbounded(_) => Bound::Unbounded,
                Kind::Peers(_) => Bound::Peers,
                Kind::Rows(rows) => Bound::Rows(i64::from(*rows)),
                Kind::Value(value) => {
                    let value = expressions.order_key(node, value, schema)?;
                    let data_type = |expr: &Arc<dyn PhysicalExpr>| {
                        expr.data_type(schema)
                            .map_err(|source| Unsupported::Operators { node, source })
                    };
                    match order {
                        [key] if alike(&data_type(&key.expr)?, &data_type(&value)?) => {}
                        _ => {
                            return Err(malformed(
                                "a bound of another type than the one key of the order",
                            ));
                        }
                    }
                    Bound::Value(value)
                }
            })
        };
        Ok(Self {
            lower: bound(&frame.lower)?,
            upper: bound(&frame.upper)?,
        })
    }

    /// Whether the frame of every row is its window partition.
    pub(super) fn is_whole(&self) -> bool {
        matches!(
            (&self.lower, &self.upper),
            (Bound::Unbounded, Bound::Unbounded)
        )
    }

    /// From the first row of a window partition to the last peer of each row.
    pub(super) fn up_to_peers() -> Self {
        Self {
            lower: Bound::Unbounded,
            upper: Bound::Peers,
        }
    }

    pub(super) fn has_lower(&self) -> bool {
        !matches!(self.lower, Bound::Unbounded)
    }

    pub(super) fn has_upper(&self) -> bool {
        !matches!(self.upper, Bound::Unbounded)
    }

    /// Of each row the rows of its frame. `keys`: of the order.
    pub(super) fn of(&self, chunk: &Chunk, keys: Option<&KeyRows>) -> Result<Vec<Range<usize>>> {
        let mut lower = Edge::new(&self.lower, chunk, keys)?;
        let mut upper = Edge::new(&self.upper, chunk, keys)?;
        let mut frames = Vec::with_capacity(chunk.rows());
        for partition in &chunk.partitions {
            let mut reached = partition.start..partition.start;
            for row in partition.clone() {
                let (lower, upper) = (lower.as_mut(), upper.as_mut());
                reached = moved(lower, upper, reached, partition.end, row)?;
                frames.push(reached.clone());
            }
        }
        Ok(frames)
    }

    /// The same of some rows of a chunk that is one window partition, or with `ended` false the
    /// first part of one, up to the first row whose frame may go on after the part. `reached`: the
    /// frame of the row before.
    pub(super) fn of_part(
        &self,
        chunk: &Chunk,
        keys: Option<&KeyRows>,
        rows: Range<usize>,
        mut reached: Range<usize>,
        ended: bool,
    ) -> Result<Vec<Range<usize>>> {
        let end = chunk.rows();
        let mut lower = Edge::new(&self.lower, chunk, keys)?;
        let mut upper = Edge::new(&self.upper, chunk, keys)?;
        let mut frames = Vec::with_capacity(rows.len());
        for row in rows {
            reached = moved(lower.as_mut(), upper.as_mut(), reached, end, row)?;
            let goes_on = match (&lower, &upper) {
                (None, None) => false,
                (_, Some(_)) => reached.end == end,
                (Some(_), None) => reached.start == end,
            };
            if goes_on && !ended {
                break;
            }
            frames.push(reached.clone());
        }
        Ok(frames)
    }
}

/// The frame of a row, from that of the row before it. `end`: of its window partition.
fn moved(
    lower: Option<&mut Edge>,
    upper: Option<&mut Edge>,
    reached: Range<usize>,
    end: usize,
    row: usize,
) -> Result<Range<usize>> {
    let Range {
        start: mut low,
        end: mut high,
    } = reached;
    match (lower, upper) {
        (None, None) => high = end,
        (None, Some(upper)) => {
            while high < end && upper.compare(high, row)?.is_le() {
                high += 1;
            }
        }
        (Some(lower), None) => {
            high = end;
            while low < high && lower.compare(low, row)?.is_lt() {
                low += 1;
            }
        }
        (Some(lower), Some(upper)) => {
            while low < high && lower.compare(low, row)?.is_lt() {
                low += 1;
            }
            while high < end && upper.compare(high, row)?.is_le() {
                if low == high && lower.compare(high, row)?.is_lt() {
                    low += 1;
                }
                high += 1;
            }
        }
    }
    Ok(low..high)
}

/// A bound that compares rows of a chunk.
enum Edge<'a> {
    Peers(&'a [usize]),
    Rows(i64),
    Value { order: &'a Rows, bounds: Bounds<'a> },
}

impl<'a> Edge<'a> {
    fn new(bound: &'a Bound, chunk: &'a Chunk, keys: Option<&'a KeyRows>) -> Result<Option<Self>> {
        Ok(Some(match bound {
            Bound::Unbounded => return Ok(None),
            Bound::Peers => Self::Peers(&chunk.peers),
            Bound::Rows(rows) => Self::Rows(*rows),
            Bound::Value(value) => {
                let (Some(order), Some(keys)) = (&chunk.order, keys) else {
                    return Err(internal_datafusion_err!(
                        "a bound by value without an order"
                    ));
                };
                let bounds = match bounds_of(value, &chunk.batch, keys) {
                    Ok(all) => Bounds::All(all),
                    // Of one of the rows, but perhaps of one whose bound is never asked for.
                    Err(_) => Bounds::Each {
                        value,
                        batch: &chunk.batch,
                        keys,
                        last: None,
                    },
                };
                Self::Value { order, bounds }
            }
        }))
    }

    /// A row of the input with the bound of the row whose frame it is.
    fn compare(&mut self, input: usize, row: usize) -> Result<Ordering> {
        let missing = || internal_datafusion_err!("a frame of rows that are not there");
        match self {
            Self::Peers(peers) => {
                let peer = |row: usize| peers.get(row).copied().ok_or_else(missing);
                Ok(peer(input)?.cmp(&peer(row)?))
            }
            Self::Rows(offset) => {
                let signed = |row: usize| i64::try_from(row).map_err(|_| missing());
                Ok(signed(input)?.cmp(&signed(row)?.saturating_add(*offset)))
            }
            Self::Value { order, bounds } => bounds.compare(order, input, row),
        }
    }
}

/// The bounds of a chunk's rows.
enum Bounds<'a> {
    All(Rows),
    Each {
        value: &'a Arc<dyn PhysicalExpr>,
        batch: &'a RecordBatch,
        keys: &'a KeyRows,
        last: Option<(usize, Rows)>,
    },
}

impl Bounds<'_> {
    fn compare(&mut self, order: &Rows, input: usize, row: usize) -> Result<Ordering> {
        match self {
            Self::All(bounds) => Ok(order.row(input).cmp(&bounds.row(row))),
            Self::Each {
                value,
                batch,
                keys,
                last,
            } => {
                let bound = match last.take() {
                    Some((of, bound)) if of == row => bound,
                    _ => bounds_of(value, &batch.slice(row, 1), keys)?,
                };
                let (_, bound) = last.insert((row, bound));
                Ok(order.row(input).cmp(&bound.row(0)))
            }
        }
    }
}

/// Whether values of both types compare; decimals of one scale do, however many digits they have.
fn alike(key: &DataType, bound: &DataType) -> bool {
    match (key, bound) {
        (DataType::Decimal128(_, key), DataType::Decimal128(_, bound)) => key == bound,
        (key, bound) => key == bound,
    }
}

fn bounds_of(value: &Arc<dyn PhysicalExpr>, batch: &RecordBatch, keys: &KeyRows) -> Result<Rows> {
    let bounds = value.evaluate(batch)?.into_array(batch.num_rows())?;
    let bounds = match (
        bounds.as_primitive_opt::<Decimal128Type>(),
        keys.first_type(),
    ) {
        (Some(decimals), Some(key)) => Arc::new(decimals.clone().with_data_type(key.clone())),
        _ => bounds,
    };
    keys.rows(&[bounds])
}
