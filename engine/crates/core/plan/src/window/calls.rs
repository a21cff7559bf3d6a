//! The calls of a Window node.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::ArrayRef,
    datatypes::{Field, SchemaRef},
    record_batch::RecordBatch,
};
use coffer_protocol::plan::{
    Expr,
    window::{self, call::Function},
};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use super::{KeyRows, Sorted, chunk::Chunk, frame::Frame, picks, ranking::Ranking, running};
use crate::{
    Unsupported,
    aggregate::{OverFrames, over_frames},
    expressions::Expressions,
};

/// All calls of a node, and the frames that they look at, each once.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    calls: Arc<[(Call, Field)]>,
    frames: Arc<[Frame]>,
}

/// A call; `frame` is the position of its frame.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Ranking(Ranking),
    Shift {
        input: Arc<dyn PhysicalExpr>,
        offset: i64,
        otherwise: Option<Arc<dyn PhysicalExpr>>,
        ignore_nulls: bool,
    },
    NthValue {
        input: Arc<dyn PhysicalExpr>,
        nth: usize,
        ignore_nulls: bool,
        frame: usize,
    },
    Aggregate {
        function: OverFrames,
        frame: usize,
    },
}

impl Calls {
    pub(super) fn read(
        node: u32,
        window: &coffer_protocol::plan::Window,
        sorted: &Sorted,
        expressions: &Expressions,
    ) -> Result<Self, Unsupported> {
        let schema = sorted.schema();
        let mut reader = Reader {
            node,
            sorted,
            schema: &schema,
            expressions,
            frames: vec![],
        };
        let mut calls = Vec::with_capacity(window.calls.len());
        for (position, call) in window.calls.iter().enumerate() {
            calls.push(reader.call(position, call)?);
        }
        let frames = reader.frames.into_iter().map(|(_, frame)| frame).collect();
        Ok(Self {
            calls: calls.into(),
            frames,
        })
    }

    /// The columns that the calls add.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.calls.iter().map(|(_, field)| field)
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().map(|(call, _)| call)
    }

    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The ranks, if all calls are such as are known as soon as a row comes.
    pub(super) fn running(&self) -> Option<Vec<running::SoFar>> {
        let ranks = self.calls.iter().map(|(call, _)| match call {
            Call::Ranking(ranking) => ranking.running(),
            _ => None,
        });
        ranks.collect()
    }

    /// Bytes that a row takes while the columns are made, beside its own and those of its keys.
    pub(super) fn scratch(&self) -> usize {
        let frames = self.frames.len() * size_of::<Range<usize>>();
        let columns = self.calls.iter().map(|_| size_of::<i128>()).sum::<usize>();
        let working = self.calls.iter().map(|(call, _)| call.working()).max();
        frames + columns + working.unwrap_or_default()
    }

    /// A column for each call. `order`: the keys of the order.
    pub(super) fn columns(&self, chunk: &Chunk, order: Option<&KeyRows>) -> Result<Vec<ArrayRef>> {
        let mut frames: Vec<Option<Vec<Range<usize>>>> = vec![None; self.frames.len()];
        let mut columns = Vec::with_capacity(self.calls.len());
        for (call, _) in self.calls.iter() {
            let needed = call.frame().and_then(|frame| {
                let known = self.frames.get(frame)?;
                Some((known, frames.get_mut(frame)?))
            });
            let rows: &[Range<usize>] = match needed {
                None => &[],
                // Of a whole window partition the aggregates are computed once.
                Some((frame, _)) if call.is_aggregate() && frame.is_whole() => &[],
                Some((frame, rows)) => match rows {
                    Some(rows) => rows,
                    None => rows.insert(frame.of(chunk, order)?),
                },
            };
            columns.push(self.column(call, chunk, rows)?);
        }
        Ok(columns)
    }

    fn column(&self, call: &Call, chunk: &Chunk, frames: &[Range<usize>]) -> Result<ArrayRef> {
        let evaluated =
            |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&chunk.batch)?.into_array(chunk.rows());
        match call {
            Call::Ranking(ranking) => ranking.column(chunk),
            Call::Shift {
                input,
                offset,
                otherwise,
                ignore_nulls,
            } => {
                let otherwise = otherwise.as_ref().map(evaluated).transpose()?;
                let input = evaluated(input)?;
                picks::shift(chunk, &input, *offset, otherwise.as_ref(), *ignore_nulls)
            }
            Call::NthValue {
                input,
                nth,
                ignore_nulls,
                ..
            } => picks::nth_value(&evaluated(input)?, frames, *nth, *ignore_nulls),
            Call::Aggregate { function, frame } => {
                let whole = self.frames.get(*frame).is_some_and(Frame::is_whole);
                match whole {
                    true => function.whole(&chunk.batch, &chunk.partitions),
                    false => function.each(&chunk.batch, frames),
                }
            }
        }
    }
}

impl Call {
    fn frame(&self) -> Option<usize> {
        match self {
            Self::Ranking(_) | Self::Shift { .. } => None,
            Self::NthValue { frame, .. } | Self::Aggregate { frame, .. } => Some(*frame),
        }
    }

    /// About so many bytes of a row while its column is made: indices of rows, and of aggregates
    /// two nodes of the tree and a result.
    fn working(&self) -> usize {
        match self {
            Self::Ranking(_) => size_of::<usize>(),
            Self::Shift { .. } | Self::NthValue { .. } => 4 * size_of::<usize>(),
            Self::Aggregate { .. } => 192,
        }
    }

    fn is_aggregate(&self) -> bool {
        matches!(self, Self::Aggregate { .. })
    }
}

struct Reader<'a> {
    node: u32,
    sorted: &'a Sorted,
    schema: &'a SchemaRef,
    expressions: &'a Expressions<'a>,
    frames: Vec<(window::Frame, Frame)>,
}

impl Reader<'_> {
    fn call(&mut self, position: usize, call: &window::Call) -> Result<(Call, Field), Unsupported> {
        let node = self.node;
        let malformed = |what| Unsupported::Malformed { node, what };
        let function = call
            .function
            .as_ref()
            .ok_or(malformed("a window call without function"))?;
        let (made, data_type) = match function {
            Function::Ranking(ranking) => {
                let ranking = Ranking::read(node, *ranking)?;
                (Call::Ranking(ranking), ranking.data_type())
            }
            Function::Shift(shift) => {
                let (input, data_type) = self.input(shift.input.as_ref())?;
                let otherwise = match &shift.otherwise {
                    None => None,
                    Some(otherwise) => {
                        let (otherwise, found) = self.input(Some(otherwise))?;
                        if found != data_type {
                            return Err(malformed("a default of another type than the input"));
                        }
                        Some(otherwise)
                    }
                };
                let made = Call::Shift {
                    input,
                    offset: i64::from(shift.offset),
                    otherwise,
                    ignore_nulls: shift.ignore_nulls,
                };
                (made, data_type)
            }
            Function::NthValue(nth_value) => {
                let (input, data_type) = self.input(nth_value.input.as_ref())?;
                let nth = usize::try_from(nth_value.nth)
                    .ok()
                    .filter(|nth| *nth > 0)
                    .ok_or(malformed("a row of a frame is counted from 1"))?;
                let made = Call::NthValue {
                    input,
                    nth,
                    ignore_nulls: nth_value.ignore_nulls,
                    frame: self.frame(call)?,
                };
                (made, data_type)
            }
            Function::Aggregate(aggregate) => {
                let function =
                    over_frames(node, position, aggregate, self.schema, self.expressions)?;
                let data_type = function.data_type().clone();
                let frame = self.frame(call)?;
                (Call::Aggregate { function, frame }, data_type)
            }
        };
        Ok((made, Field::new(&call.name, data_type, true)))
    }

    fn input(
        &self,
        expr: Option<&Expr>,
    ) -> Result<(Arc<dyn PhysicalExpr>, arrow::datatypes::DataType), Unsupported> {
        let node = self.node;
        let expr = expr.ok_or(Unsupported::Malformed {
            node,
            what: "a window call without input",
        })?;
        let compiled = self.expressions.compile(node, expr, self.schema)?;
        let data_type = compiled
            .data_type(self.schema)
            .map_err(|source| Unsupported::Operators { node, source })?;
        Ok((compiled, data_type))
    }

    /// The position of a call's frame among those of the node.
    fn frame(&mut self, call: &window::Call) -> Result<usize, Unsupported> {
        let node = self.node;
        let frame = call.frame.as_ref().ok_or(Unsupported::Malformed {
            node,
            what: "a window call without frame",
        })?;
        if let Some(known) = self.frames.iter().position(|(known, _)| known == frame) {
            return Ok(known);
        }
        let read = Frame::read(
            node,
            frame,
            &self.sorted.keys.order,
            self.schema,
            self.expressions,
        )?;
        self.frames.push((frame.clone(), read));
        Ok(self.frames.len() - 1)
    }
}

/// The rows with what the calls made of them.
pub(super) fn with_columns(
    schema: &SchemaRef,
    batch: &RecordBatch,
    columns: Vec<ArrayRef>,
) -> Result<RecordBatch> {
    let mut all = batch.columns().to_vec();
    all.extend(columns);
    if all.len() != schema.fields().len() {
        return Err(internal_datafusion_err!(
            "a window made other columns than it says"
        ));
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        all,
        &options,
    )?)
}
