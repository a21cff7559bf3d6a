//! Which target a row goes to, and batches cut by target.

mod hash;
pub(crate) mod range;

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::SchemaRef,
};
use coffer_expr::CompileContext;
use coffer_protocol::{
    plan::{Expr, Partitioning, partitioning::Kind},
    wire::Bounds,
};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use hash::KeyedHash;
use range::Ranges;

use crate::{Unsupported, expressions::Expressions};

/// The most targets that an exchange may have. Each task keeps something for each of its targets,
/// and writes a stream for it; Spark's map statuses would fill a driver long before.
pub const MAX_TARGETS: u32 = 1 << 24;

/// What a partitioner needs beside the fragment.
pub struct PartitionContext<'a> {
    /// Derived for the session: equal keys go to equal targets in all its exchanges, and nobody
    /// outside can tell which.
    pub key: &'a [u8; 32],
    /// The task's own partition.
    pub partition: u32,
    /// The bounds object that the descriptor pins, for range partitioning.
    pub bounds: Option<&'a Bounds>,
    /// For the expressions of keys.
    pub expressions: &'a CompileContext,
}

/// Sends rows of one task to targets. The same rows in the same order go to the same targets,
/// whatever engine runs it.
pub struct Partitioner {
    targets: u32,
    way: Way,
    /// Target of each row of the batch at hand.
    of_row: Vec<u32>,
}

enum Way {
    Single,
    Hash {
        keys: Vec<Arc<dyn PhysicalExpr>>,
        hash: KeyedHash,
    },
    RoundRobin {
        next: u32,
    },
    Range(Ranges),
}

/// Rows of one target, in their order.
#[derive(Debug)]
pub struct Portion {
    /// The target.
    pub target: u32,
    /// Its rows; may share memory with other portions of the same call.
    pub rows: RecordBatch,
}

impl Partitioner {
    /// A partitioner of rows of `schema`, the output of the fragment's plan.
    pub fn new(
        partitioning: &Partitioning,
        schema: &SchemaRef,
        context: &PartitionContext,
    ) -> Result<Self, Unsupported> {
        let expressions = Expressions(context.expressions);
        let malformed = |what| Unsupported::Malformed { node: 0, what };
        let several = |partitions: u32| match partitions {
            0 => Err(malformed("an exchange without partitions")),
            1..=MAX_TARGETS => Ok(partitions),
            _ => Err(malformed(
                "an exchange of more partitions than there can be",
            )),
        };
        let (targets, way) = match partitioning
            .kind
            .as_ref()
            .ok_or(malformed("no partitioning"))?
        {
            Kind::Single(_) => (1, Way::Single),
            Kind::Hash(hash) => {
                let keys = hash
                    .exprs
                    .iter()
                    .map(|expr: &Expr| expressions.order_key(0, expr, schema))
                    .collect::<Result<Vec<_>, _>>()?;
                if keys.is_empty() {
                    return Err(malformed("hash partitioning without keys"));
                }
                (
                    several(hash.partitions)?,
                    Way::Hash {
                        keys,
                        hash: KeyedHash::new(context.key),
                    },
                )
            }
            Kind::RoundRobin(robin) => {
                let targets = several(robin.partitions)?;
                // Spark starts at a place drawn from the partition's number, so that small tasks do
                // not all favour target 0.
                (
                    targets,
                    Way::RoundRobin {
                        next: context.partition.wrapping_mul(0x9e37_79b9) % targets,
                    },
                )
            }
            Kind::Range(range) => {
                let targets = several(range.partitions)?;
                let bounds = context
                    .bounds
                    .ok_or(malformed("range partitioning without bounds"))?;
                if bounds.id != range.bounds_id
                    || bounds.rows.len() >= usize::try_from(targets).unwrap_or(usize::MAX)
                {
                    return Err(malformed("bounds of another exchange"));
                }
                (
                    targets,
                    Way::Range(Ranges::new(&range.keys, bounds, schema, &expressions)?),
                )
            }
        };
        let way = if targets == 1 { Way::Single } else { way };
        Ok(Self {
            targets,
            way,
            of_row: vec![],
        })
    }

    /// How many targets there are; each gets a stream, also if it gets no row.
    pub fn targets(&self) -> u32 {
        self.targets
    }

    /// The target of each row of a batch, for a caller that gathers the rows of many batches
    /// itself.
    pub fn targets_of(&mut self, batch: &RecordBatch) -> Result<&[u32]> {
        self.of_row.clear();
        match &mut self.way {
            Way::Single => self.of_row.resize(batch.num_rows(), 0),
            Way::Hash { keys, hash } => {
                let columns = keys
                    .iter()
                    .map(|key| key.evaluate(batch)?.into_array(batch.num_rows()))
                    .collect::<Result<Vec<_>>>()?;
                hash.targets(&columns, self.targets, &mut self.of_row)?;
            }
            Way::RoundRobin { next } => {
                for _ in 0..batch.num_rows() {
                    self.of_row.push(*next);
                    *next = (*next + 1) % self.targets;
                }
            }
            Way::Range(ranges) => ranges.targets(batch, &mut self.of_row)?,
        }
        Ok(&self.of_row)
    }

    /// Cuts a batch, targets ascending, without those that get nothing. With one target the batch
    /// passes as it is.
    pub fn split(&mut self, batch: &RecordBatch) -> Result<Vec<Portion>> {
        if batch.num_rows() == 0 {
            return Ok(vec![]);
        }
        if matches!(self.way, Way::Single) {
            return Ok(vec![Portion {
                target: 0,
                rows: batch.clone(),
            }]);
        }
        self.targets_of(batch)?;
        cut(batch, &self.of_row, self.targets)
    }
}

/// One take in target order, then a slice for each target.
fn cut(batch: &RecordBatch, of_row: &[u32], targets: u32) -> Result<Vec<Portion>> {
    let foreign = || internal_datafusion_err!("a row was sent to a target that does not exist");
    let count = usize::try_from(targets).map_err(|_| foreign())?;
    let mut ends = vec![0usize; count];
    for target in of_row {
        *usize::try_from(*target)
            .ok()
            .and_then(|target| ends.get_mut(target))
            .ok_or_else(foreign)? += 1;
    }
    let mut portions = Vec::new();
    let mut start = 0;
    let mut starts = Vec::with_capacity(count);
    for (target, end) in (0..targets).zip(&mut ends) {
        let rows = std::mem::replace(end, start);
        starts.push((target, start, rows));
        start += rows;
    }
    if let Some((target, ..)) = starts.iter().find(|(_, _, rows)| *rows == batch.num_rows()) {
        return Ok(vec![Portion {
            target: *target,
            rows: batch.clone(),
        }]);
    }
    if batch.num_columns() == 0 {
        // Rows without columns are all the same.
        let some = starts.into_iter().filter(|(_, _, rows)| *rows > 0);
        return Ok(some
            .map(|(target, start, rows)| Portion {
                target,
                rows: batch.slice(start, rows),
            })
            .collect());
    }
    // `ends` holds where the next row of each target goes.
    let mut order = vec![0u32; of_row.len()];
    for (row, target) in (0u32..).zip(of_row) {
        let position = usize::try_from(*target)
            .ok()
            .and_then(|target| ends.get_mut(target))
            .ok_or_else(foreign)?;
        *order.get_mut(*position).ok_or_else(foreign)? = row;
        *position += 1;
    }
    let sorted = take_record_batch(batch, &UInt32Array::from(order))?;
    for (target, start, rows) in starts.into_iter().filter(|(_, _, rows)| *rows > 0) {
        portions.push(Portion {
            target,
            rows: sorted.slice(start, rows),
        });
    }
    Ok(portions)
}
