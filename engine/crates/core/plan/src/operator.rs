//! What our operators have in common.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_physical_expr::{EquivalenceProperties, Partitioning};
use datafusion_physical_plan::{
    PlanProperties,
    execution_plan::{Boundedness, EmissionType},
};

/// The methods of `ExecutionPlan` that say the same for each of our operators: fields `properties`
/// and `metrics`, and no rewriting, since plans are never optimised.
macro_rules! operator_basics {
    (leaf) => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![]
        }

        fn with_new_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }

        $crate::operator::operator_basics!(any);
    };
    // Of one child, in the field `child`: made anew over another by this expression.
    (one child, |$plan:ident, $child:ident| $made:expr, else $complaint:literal) => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![&self.child]
        }

        fn with_new_children(
            self: Arc<Self>,
            mut children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            let $plan = self;
            match (children.pop(), children.is_empty()) {
                (Some($child), true) => Ok(Arc::new($made)),
                _ => datafusion_common::internal_err!($complaint),
            }
        }

        $crate::operator::operator_basics!(any);
    };
    (any) => {
        fn name(&self) -> &str {
            Self::static_name()
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion> {
            // Only optimizer rules ask.
            Ok(TreeNodeRecursion::Continue)
        }
    };
}

pub(crate) use operator_basics;

/// Of an operator whose rows leave as they come and end.
pub(crate) fn streamed(
    equivalence: EquivalenceProperties,
    partitioning: Partitioning,
) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        equivalence,
        partitioning,
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// The same, where nothing is known of the rows' order or of what a partition has.
pub(crate) fn unordered(schema: &SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    let equivalence = EquivalenceProperties::new(Arc::clone(schema));
    streamed(equivalence, Partitioning::UnknownPartitioning(partitions))
}
