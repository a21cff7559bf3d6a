//! What a plan asks of whoever opens a table's files: which columns, and which rows nobody will
//! miss.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{conjunction_opt, expressions::Column};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use crate::narrow::KeyBounds;

/// A task's share of a scan: files that somebody else can open.
pub trait ScanSource: Send + Sync {
    /// Whether there is no file.
    fn is_empty(&self) -> bool;

    /// The rows of the columns that are wanted; more rows than those may come, and none that is
    /// missing. What cannot be read to its end is an error that says so.
    fn read(&self, wanted: Wanted, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream>;
}

/// What a plan needs of a scan.
pub struct Wanted {
    schema: SchemaRef,
    flat: Option<Arc<dyn PhysicalExpr>>,
    bounds: Vec<(usize, Arc<KeyBounds>)>,
}

impl Wanted {
    /// `flat`: the plan's own condition; `bounds`: columns, by position, and the keys that narrow
    /// them.
    pub(crate) fn new(
        schema: SchemaRef,
        flat: Option<Arc<dyn PhysicalExpr>>,
        bounds: Vec<(usize, Arc<KeyBounds>)>,
    ) -> Self {
        Self {
            schema,
            flat,
            bounds,
        }
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether keys of a join leave few rows; asked for when the condition is.
    pub fn keeps_few(&self) -> bool {
        self.narrowed().any(|(_, share)| share < FEW)
    }

    fn narrowed(&self) -> impl Iterator<Item = (Arc<dyn PhysicalExpr>, f64)> {
        self.bounds.iter().filter_map(|(at, bounds)| {
            let field = self.schema.fields().get(*at)?;
            bounds.condition(&Column::new(field.name(), *at), field.data_type())
        })
    }

    /// A condition on columns that are not nested; no row is missed for which it is not true. Asked
    /// for only when the first row is: what joins build is built by then.
    pub fn condition(&self) -> Option<Arc<dyn PhysicalExpr>> {
        // What leaves least is looked at first: numbers are looked up sooner than most conditions
        // are computed.
        let mut narrowed: Vec<_> = self.narrowed().collect();
        narrowed.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let few = narrowed.partition_point(|(_, share)| *share < FEW);
        let rest = narrowed.split_off(few);
        let conditions = narrowed.into_iter().map(|(condition, _)| condition);
        let conditions = conditions.chain(self.flat.clone());
        conjunction_opt(conditions.chain(rest.into_iter().map(|(condition, _)| condition)))
    }
}

/// Keys that leave less than this share of the rows are looked at before the plan's own conditions.
const FEW: f64 = 0.1;
