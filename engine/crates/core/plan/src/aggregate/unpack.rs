//! One part of a struct column, by position.

use std::{fmt, sync::Arc};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::{DataType, Schema},
};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BufferColumn {
    column: usize,
    part: usize,
    data_type: DataType,
}

impl BufferColumn {
    pub(super) fn new(column: usize, part: usize, data_type: DataType) -> Self {
        Self {
            column,
            part,
            data_type,
        }
    }
}

impl fmt::Display for BufferColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.column, self.part)
    }
}

impl PhysicalExpr for BufferColumn {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        batch
            .columns()
            .get(self.column)
            .and_then(|column| column.as_struct_opt())
            .and_then(|buffers| buffers.columns().get(self.part))
            .map(|part| ColumnarValue::Array(Arc::clone(part)))
            .ok_or_else(|| internal_datafusion_err!("no aggregate buffer {self}"))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![]
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
