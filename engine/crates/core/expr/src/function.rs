//! The one node type for plain functions: arguments are evaluated, then a kernel chosen at compile
//! time runs once for each batch. Kernels are vectorised and typed; the only dynamic call is one
//! per batch.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, new_empty_array},
    datatypes::{DataType, Schema},
    record_batch::RecordBatch,
};
use coffer_protocol::plan::{EvalMode, FloatText};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{PhysicalExpr, expressions::Literal};

use crate::{Unsupported, zone::Zone};

/// What runs on a batch: the evaluated arguments and the number of rows that the result must have.
pub(crate) type Kernel = Arc<dyn Fn(&[ColumnarValue], usize) -> Result<ArrayRef> + Send + Sync>;

/// Chooses the kernel for a call, or says why there is none.
pub(crate) type Builder = fn(&CallInfo<'_>) -> Result<Kernel, Unsupported>;

/// On which rows a function may raise an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fallible {
    /// On none, in any mode.
    Never,
    /// In ANSI mode only.
    Ansi,
    /// In every mode.
    Always,
}

/// A row of a family's table.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) fallible: Fallible,
    pub(crate) build: Builder,
}

pub(crate) const fn entry(name: &'static str, fallible: Fallible, build: Builder) -> Entry {
    Entry {
        name,
        fallible,
        build,
    }
}

/// A call as its builder sees it: arguments compiled, types known.
pub(crate) struct CallInfo<'a> {
    pub(crate) name: &'a str,
    pub(crate) args: &'a [Arc<dyn PhysicalExpr>],
    pub(crate) types: &'a [DataType],
    pub(crate) ret: &'a DataType,
    pub(crate) mode: EvalMode,
    pub(crate) float_text: FloatText,
    pub(crate) zone: &'a str,
}

impl CallInfo<'_> {
    pub(crate) fn unsupported(&self, why: impl Into<String>) -> Unsupported {
        Unsupported::new(self.name, why)
    }

    /// The refusal of argument types that Catalyst does not produce or we have no kernel for.
    pub(crate) fn bad_types(&self) -> Unsupported {
        let types = self
            .types
            .iter()
            .map(crate::types::sql_name)
            .collect::<Vec<_>>()
            .join(", ");
        self.unsupported(format!(
            "no kernel for ({types}) -> {}",
            crate::types::sql_name(self.ret)
        ))
    }

    /// The value of an argument that must be a literal.
    pub(crate) fn literal(&self, index: usize) -> Result<&ScalarValue, Unsupported> {
        self.args
            .get(index)
            .and_then(|arg| arg.downcast_ref::<Literal>())
            .map(Literal::value)
            .ok_or_else(|| self.unsupported(format!("argument {} must be a literal", index + 1)))
    }

    /// The zone in which a type's values are read: instants in the call's, wall clocks and dates in
    /// none.
    pub(crate) fn reading_zone(&self, of: &DataType) -> Result<Zone, Unsupported> {
        match of {
            DataType::Timestamp(_, Some(_)) => Zone::of(self.zone),
            _ => Ok(Zone::UTC),
        }
    }

    pub(crate) fn ansi(&self) -> bool {
        self.mode == EvalMode::Ansi
    }
}

/// A function call in a physical plan. Equal when name, arguments, type, mode, text of floats and
/// time zone are: the kernel follows from those.
pub(crate) struct SparkFunction {
    name: String,
    args: Vec<Arc<dyn PhysicalExpr>>,
    data_type: DataType,
    mode: EvalMode,
    float_text: FloatText,
    zone: String,
    kernel: Kernel,
}

impl SparkFunction {
    pub(crate) fn new(call: &CallInfo<'_>, kernel: Kernel) -> Self {
        Self {
            name: call.name.to_owned(),
            args: call.args.to_vec(),
            data_type: call.ret.clone(),
            mode: call.mode,
            float_text: call.float_text,
            zone: call.zone.to_owned(),
            kernel,
        }
    }
}

impl PhysicalExpr for SparkFunction {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        // Without rows nothing may fail, also not a call over literals.
        if batch.num_rows() == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.data_type)));
        }
        let args = self
            .args
            .iter()
            .map(|arg| arg.evaluate(batch))
            .collect::<Result<Vec<_>>>()?;
        if args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
        {
            let one = (self.kernel)(&args, 1)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?));
        }
        (self.kernel)(&args, batch.num_rows()).map(ColumnarValue::Array)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.args.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            name: self.name.clone(),
            args: children,
            data_type: self.data_type.clone(),
            mode: self.mode,
            float_text: self.float_text,
            zone: self.zone.clone(),
            kernel: Arc::clone(&self.kernel),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SparkFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (index, arg) in self.args.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{arg}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for SparkFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{self}: {} {:?} {}",
            self.data_type, self.mode, self.zone
        )
    }
}

impl PartialEq for SparkFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.data_type == other.data_type
            && self.mode == other.mode
            && self.float_text == other.float_text
            && self.zone == other.zone
            && self.args == other.args
    }
}

impl Eq for SparkFunction {}

impl Hash for SparkFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.data_type.hash(state);
        self.mode.hash(state);
        self.float_text.hash(state);
        self.zone.hash(state);
        self.args.hash(state);
    }
}
