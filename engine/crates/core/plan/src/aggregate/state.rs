//! The one trait behind every aggregate function, and the loops they share.

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray},
    buffer::NullBuffer,
    compute::cast,
    datatypes::{ArrowPrimitiveType, DataType},
};
use coffer_expr::SparkError;
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

/// Accumulated values of one aggregate function, one for each group.
///
/// The buffers that [`Self::buffers`] returns and [`Self::merge`] takes are Spark's
/// `aggBufferAttributes`, in order, and in type but where a number of Spark's type would depend on
/// the order of the rows: those are BINARY. They cross exchanges, and a plan may mix engines'
/// partial results freely. The same rows, in whatever order and however they were grouped into
/// buffers, give the same result.
pub(super) trait GroupState: Send + Sync {
    /// Makes room for so many groups; new ones hold the function's initial value.
    fn resize(&mut self, groups: usize);
    /// Takes rows of arguments. `groups[i]` is row i's group; rows where `filter` is not true do
    /// not count.
    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()>;
    /// Takes rows of buffers, under the same rules.
    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()>;
    /// The results of the emitted groups, which are forgotten.
    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef>;
    /// The buffers of the emitted groups, which are forgotten.
    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>>;
    /// Bytes held.
    fn size(&self) -> usize;
}

/// Rows that count: valid ones that the filter lets through. `None`: all.
pub(super) fn live(
    valid: Option<&NullBuffer>,
    filter: Option<&BooleanArray>,
) -> Option<NullBuffer> {
    let filter = filter.map(|filter| {
        let chosen = match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        };
        NullBuffer::new(chosen)
    });
    NullBuffer::union(valid, filter.as_ref())
}

/// Calls `f(row, group)` for every live row.
pub(super) fn each(
    live: Option<&NullBuffer>,
    groups: &[usize],
    mut f: impl FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    match live.filter(|live| live.null_count() > 0) {
        None => groups
            .iter()
            .enumerate()
            .try_for_each(|(row, group)| f(row, *group)),
        Some(live) => live.valid_indices().try_for_each(|row| f(row, groups[row])),
    }
}

/// Calls `f(state, value)` for every live row of a primitive column.
pub(super) fn fold<T: ArrowPrimitiveType, S>(
    column: &ArrayRef,
    groups: &[usize],
    filter: Option<&BooleanArray>,
    states: &mut [S],
    mut f: impl FnMut(&mut S, T::Native) -> Result<()>,
) -> Result<()> {
    let column = column
        .as_primitive_opt::<T>()
        .ok_or_else(|| wrong_type::<T>(column))?;
    let values = column.values();
    let live = live(column.nulls(), filter);
    each(live.as_ref(), groups, |row, group| {
        f(&mut states[group], values[row])
    })
}

fn wrong_type<T: ArrowPrimitiveType>(column: &ArrayRef) -> DataFusionError {
    internal_datafusion_err!(
        "an aggregate got {} for {}",
        column.data_type(),
        T::DATA_TYPE
    )
}

/// The column at `index`, cast to `to` if it is not of that type.
pub(super) fn column(columns: &[ArrayRef], index: usize, to: &DataType) -> Result<ArrayRef> {
    let column = columns
        .get(index)
        .ok_or_else(|| internal_datafusion_err!("an aggregate got too few columns"))?;
    if column.data_type() == to {
        Ok(ArrayRef::clone(column))
    } else {
        Ok(cast(column, to)?)
    }
}

/// The column at `index`, which must be BINARY.
pub(super) fn binary(columns: &[ArrayRef], index: usize) -> Result<&BinaryArray> {
    let column = columns
        .get(index)
        .and_then(|column| column.as_binary_opt::<i32>());
    column.ok_or_else(|| internal_datafusion_err!("an aggregate's buffer is not BINARY"))
}

/// Spark's ARITHMETIC_OVERFLOW.
pub(super) fn overflow(what: &str, hint: &str) -> DataFusionError {
    let hint = if hint.is_empty() {
        String::new()
    } else {
        format!(" Use `{hint}` to tolerate overflow and return NULL instead.")
    };
    DataFusionError::External(Box::new(SparkError {
        class: "ARITHMETIC_OVERFLOW",
        message: format!(
            "{what}.{hint} If necessary set \"spark.sql.ansi.enabled\" to \"false\" to bypass \
                this error."
        ),
    }))
}
