//! Expressions that decide which of their arguments a row needs: AND, OR, IF, CASE, COALESCE.
//!
//! An argument that may raise an error is evaluated only on the rows on which Spark would evaluate
//! it; others are evaluated on all rows, which is faster.

use std::{fmt, hash::Hash, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array},
    compute::{and_kleene, is_null, kernels::zip::zip, or_kleene, prep_null_mask_filter},
    datatypes::{DataType, Schema, SchemaRef},
    record_batch::RecordBatch,
};
use datafusion_common::{Result, internal_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::{PhysicalExpr, expressions::BinaryExpr};

use crate::{Unsupported, compile::type_of, predicate::boolean};

type Node = Result<Arc<dyn PhysicalExpr>, Unsupported>;

/// Whether [`node`] answers for this name.
pub(crate) fn is_node(name: &str) -> bool {
    matches!(name, "if" | "coalesce")
}

/// The node for IF and COALESCE; none for another name.
pub(crate) fn node(
    name: &str,
    args: &[Arc<dyn PhysicalExpr>],
    data_type: &DataType,
    fallible: &[bool],
    schema: &SchemaRef,
) -> Option<Node> {
    Some(match (name, args) {
        ("if", [when, then, otherwise]) => case_when(
            vec![(Arc::clone(when), Arc::clone(then))],
            Some(Arc::clone(otherwise)),
            data_type,
            fallible.contains(&true),
            schema,
        ),
        ("coalesce", [_, ..]) => coalesce(args, data_type, fallible.contains(&true), schema),
        ("if" | "coalesce", _) => Err(Unsupported::new(name, format!("{} arguments", args.len()))),
        _ => return None,
    })
}

/// AND or OR of two or more arguments, from left to right.
pub(crate) fn logic(
    and: bool,
    args: &[Arc<dyn PhysicalExpr>],
    fallible: &[bool],
    schema: &SchemaRef,
) -> Node {
    let name = if and { "and" } else { "or" };
    let mut result: Option<(Arc<dyn PhysicalExpr>, bool)> = None;
    for (index, arg) in args.iter().enumerate() {
        let (arg, fails) = (
            boolean(name, arg, schema)?,
            fallible.get(index).copied().unwrap_or(true),
        );
        result = Some(match result {
            None => (arg, fails),
            // DataFusion's node is what pruning recognises; it may be taken apart, so nothing in it
            // may fail.
            Some((left, false)) if !fails => (
                Arc::new(BinaryExpr::new(
                    left,
                    if and { Operator::And } else { Operator::Or },
                    arg,
                )) as _,
                false,
            ),
            Some((left, _)) => (
                Arc::new(Conditional::new(
                    Kind::Logic { and },
                    vec![left, arg],
                    DataType::Boolean,
                )) as _,
                true,
            ),
        });
    }
    result
        .map(|(node, _)| node)
        .ok_or_else(|| Unsupported::new(name, "no arguments"))
}

/// CASE WHEN: the first branch whose condition is true.
pub(crate) fn case_when(
    branches: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    otherwise: Option<Arc<dyn PhysicalExpr>>,
    data_type: &DataType,
    lazy: bool,
    schema: &SchemaRef,
) -> Node {
    let mut children = Vec::with_capacity(branches.len() * 2 + 1);
    for (when, then) in branches {
        children.push(boolean("case_when", &when, schema)?);
        children.push(then);
    }
    children.extend(otherwise);
    for (index, child) in children.iter().enumerate() {
        let is_value = index % 2 == 1 || index + 1 == children.len();
        if is_value && type_of(child, schema)? != *data_type {
            return Err(Unsupported::new("case_when", "its branches differ in type"));
        }
    }
    Ok(Arc::new(Conditional::new(
        Kind::Case { lazy },
        children,
        data_type.clone(),
    )))
}

fn coalesce(
    args: &[Arc<dyn PhysicalExpr>],
    data_type: &DataType,
    lazy: bool,
    schema: &SchemaRef,
) -> Node {
    for arg in args {
        if type_of(arg, schema)? != *data_type {
            return Err(Unsupported::new("coalesce", "its arguments differ in type"));
        }
    }
    Ok(Arc::new(Conditional::new(
        Kind::Coalesce { lazy },
        args.to_vec(),
        data_type.clone(),
    )))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Two children; the right one only where the left does not decide.
    Logic {
        and: bool,
    },
    /// when, then, when, then, …, and the value of ELSE if there is one (an odd number of
    /// children).
    Case {
        lazy: bool,
    },
    Coalesce {
        lazy: bool,
    },
}

#[derive(Debug, Clone)]
struct Conditional {
    kind: Kind,
    children: Vec<Arc<dyn PhysicalExpr>>,
    data_type: DataType,
}

impl Conditional {
    fn new(kind: Kind, children: Vec<Arc<dyn PhysicalExpr>>, data_type: DataType) -> Self {
        Self {
            kind,
            children,
            data_type,
        }
    }

    fn logic(&self, and: bool, batch: &RecordBatch) -> Result<ColumnarValue> {
        let [left, right] = self.children.as_slice() else {
            return internal_err!("{self}: two arguments expected");
        };
        let rows = batch.num_rows();
        let left = left.evaluate(batch)?.into_array(rows)?;
        let left = left.as_boolean();
        // False decides AND, true decides OR; NULL decides neither.
        let undecided: BooleanArray = left.iter().map(|value| Some(value != Some(!and))).collect();
        if !undecided.has_true() {
            return Ok(ColumnarValue::Array(Arc::new(left.clone())));
        }
        let right = right
            .evaluate_selection(batch, &undecided)?
            .into_array(rows)?;
        let result = if and {
            and_kleene(left, right.as_boolean())
        } else {
            or_kleene(left, right.as_boolean())
        }?;
        Ok(ColumnarValue::Array(Arc::new(result)))
    }

    fn case(&self, lazy: bool, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let (pairs, otherwise) = self.children.as_chunks::<2>();
        let mut remaining = BooleanArray::from(vec![true; rows]);
        let mut chosen: Vec<(BooleanArray, ColumnarValue)> = Vec::with_capacity(pairs.len());
        for [when, then] in pairs {
            if !remaining.has_true() {
                break;
            }
            let truth = evaluate(when, lazy, &remaining, batch)?.into_array(rows)?;
            let taken = arrow::compute::and(
                &remaining,
                &prep_null_mask_filter_always(truth.as_boolean()),
            )?;
            if taken.has_true() {
                chosen.push((taken.clone(), evaluate(then, lazy, &taken, batch)?));
            }
            remaining = arrow::compute::and_not(&remaining, &taken)?;
        }
        let mut result = match otherwise.first() {
            Some(otherwise) if remaining.has_true() => {
                evaluate(otherwise, lazy, &remaining, batch)?.into_array(rows)?
            }
            _ => new_null_array(&self.data_type, rows),
        };
        for (taken, value) in chosen.into_iter().rev() {
            result = choose(&taken, &value, &result)?;
        }
        Ok(ColumnarValue::Array(result))
    }

    fn coalesce(&self, lazy: bool, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let mut result: ArrayRef = new_null_array(&self.data_type, rows);
        for child in &self.children {
            let missing = is_null(&result)?;
            if !missing.has_true() {
                break;
            }
            let value = evaluate(child, lazy, &missing, batch)?;
            result = match value {
                ColumnarValue::Array(array) if !missing.has_false() => array,
                value => choose(&missing, &value, &result)?,
            };
        }
        Ok(ColumnarValue::Array(result))
    }
}

fn evaluate(
    expr: &Arc<dyn PhysicalExpr>,
    lazy: bool,
    needed: &BooleanArray,
    batch: &RecordBatch,
) -> Result<ColumnarValue> {
    if lazy {
        expr.evaluate_selection(batch, needed)
    } else {
        expr.evaluate(batch)
    }
}

/// NULL counts as false.
fn prep_null_mask_filter_always(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() == 0 {
        mask.clone()
    } else {
        prep_null_mask_filter(mask)
    }
}

fn choose(mask: &BooleanArray, yes: &ColumnarValue, no: &ArrayRef) -> Result<ArrayRef> {
    Ok(match yes {
        ColumnarValue::Array(yes) => zip(mask, yes, no)?,
        ColumnarValue::Scalar(yes) => zip(mask, &yes.to_scalar()?, no)?,
    })
}

impl PhysicalExpr for Conditional {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if batch.num_rows() == 0 {
            return Ok(ColumnarValue::Array(new_null_array(&self.data_type, 0)));
        }
        match self.kind {
            Kind::Logic { and } => self.logic(and, batch),
            Kind::Case { lazy } => self.case(lazy, batch),
            Kind::Coalesce { lazy } => self.coalesce(lazy, batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.children.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            children,
            ..self.as_ref().clone()
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Conditional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Logic { and: true } => "and(",
            Kind::Logic { and: false } => "or(",
            Kind::Case { .. } => "case(",
            Kind::Coalesce { .. } => "coalesce(",
        })?;
        for (index, child) in self.children.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{child}")?;
        }
        f.write_str(")")
    }
}

impl PartialEq for Conditional {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.data_type == other.data_type
            && self.children == other.children
    }
}

impl Eq for Conditional {}

impl Hash for Conditional {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.data_type.hash(state);
        self.children.hash(state);
    }
}
