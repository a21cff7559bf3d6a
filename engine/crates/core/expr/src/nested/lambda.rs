//! Functions that evaluate a lambda for each element of an array, or each entry of a map.
//!
//! A lambda's body is compiled over the columns that it names, and its parameters. It is evaluated
//! once for each batch, over the elements of all rows; columns are taken along by row. Where Spark
//! stops early and the body may raise an error, it is evaluated for each row's first element, then
//! for each row's second one, and so on.

mod fold;
mod kinds;

use std::{
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, UInt32Array, new_empty_array},
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef},
    record_batch::{RecordBatch, RecordBatchOptions},
};
use coffer_protocol::plan::{self, expr::Kind as IrKind};
use datafusion_common::{
    Result, ScalarValue,
    tree_node::{Transformed, TreeNode, TreeNodeRecursion},
};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{Column, Literal},
};

use self::kinds::Kind;
use crate::{
    Unsupported,
    compile::{CompileContext, compile, is_fallible, type_of},
    types,
};

type Node = Result<Arc<dyn PhysicalExpr>, Unsupported>;

/// Whether the function takes a lambda.
pub(crate) fn is_node(name: &str) -> bool {
    Kind::of(name).is_some()
}

/// Whether the function may raise an error where no argument and no body does.
pub(crate) fn fails_itself(name: &str) -> bool {
    // Of keys that are NULL or come twice.
    name == "transform_keys"
}

/// The node for a call with its values, and then its lambdas.
pub(crate) fn node(call: &plan::Call, schema: &SchemaRef, context: &CompileContext) -> Node {
    let name = call.name.as_str();
    let wrong = |why: &str| Unsupported::new(name, why);
    let kind = Kind::of(name).ok_or_else(|| wrong("the engine has no such function"))?;
    let (mut values, mut lambdas) = (Vec::new(), Vec::new());
    let mut fallible_values = false;
    for arg in &call.args {
        match &arg.kind {
            Some(IrKind::Lambda(lambda)) => lambdas.push(Lambda::new(lambda, schema, context)?),
            _ if lambdas.is_empty() => {
                fallible_values |= is_fallible(arg);
                values.push(compile(arg, schema, context)?);
            }
            _ => return Err(wrong("a value after a lambda")),
        }
    }
    let data_type = types::required(call.r#type.as_ref(), name)?;
    let value_types = values.iter().map(|value| type_of(value, schema));
    let value_types = value_types.collect::<Result<Vec<_>, _>>()?;
    let shape = kinds::Shape {
        name,
        values: &value_types,
        parameters: lambdas.iter().map(|lambda| lambda.parameters()).collect(),
        bodies: lambdas.iter().map(|lambda| &lambda.data_type).collect(),
        ret: &data_type,
    };
    shape.check(kind)?;
    Ok(Arc::new(HigherOrder {
        kind,
        values,
        lambdas,
        data_type,
        fallible_values,
    }))
}

/// A lambda's body, over what it names of its surroundings, and its parameters.
#[derive(Debug, Clone)]
struct Lambda {
    /// Evaluated over the rows of the call.
    captured: Vec<Arc<dyn PhysicalExpr>>,
    body: Arc<dyn PhysicalExpr>,
    /// The captured columns, then the parameters.
    schema: SchemaRef,
    data_type: DataType,
    fallible: bool,
}

impl Lambda {
    fn new(
        lambda: &plan::Lambda,
        schema: &SchemaRef,
        context: &CompileContext,
    ) -> Result<Self, Unsupported> {
        let body = lambda.body.as_deref();
        let body = body.ok_or_else(|| Unsupported::new("lambda", "the fragment leaves it out"))?;
        let parameters = lambda
            .parameters
            .iter()
            .map(|of| Ok(Arc::new(Field::new("", types::to_arrow(of)?, true))))
            .collect::<Result<Vec<_>, Unsupported>>()?;
        let around = schema.fields().len();
        let within = schema
            .fields()
            .iter()
            .cloned()
            .chain(parameters.iter().cloned());
        let within: SchemaRef = Arc::new(Schema::new(within.collect::<Vec<_>>()));
        let compiled = compile(body, &within, &context.inside_lambda(around))?;
        let data_type = type_of(&compiled, &within)?;

        let failed =
            |e: datafusion_common::DataFusionError| Unsupported::new("lambda", e.strip_backtrace());
        let mut named: BTreeMap<usize, usize> = BTreeMap::new();
        compiled
            .apply(|node| {
                if let Some(column) = node.downcast_ref::<Column>()
                    && column.index() < around
                {
                    named.insert(column.index(), 0);
                }
                Ok(TreeNodeRecursion::Continue)
            })
            .map_err(failed)?;
        named
            .values_mut()
            .enumerate()
            .for_each(|(i, slot)| *slot = i);
        let moved = compiled
            .transform(|node| {
                let Some(column) = node.downcast_ref::<Column>() else {
                    return Ok(Transformed::no(node));
                };
                let index = match named.get(&column.index()) {
                    Some(index) => *index,
                    None => named.len() + (column.index() - around),
                };
                let column = Column::new(column.name(), index);
                Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
            })
            .map_err(failed)?;
        let columns = named
            .keys()
            .filter_map(|index| Some((*index, schema.fields().get(*index)?)));
        let columns: Vec<_> = columns.collect();
        let captured = columns
            .iter()
            .map(|(index, field)| Arc::new(Column::new(field.name(), *index)) as _)
            .collect();
        let fields = columns
            .iter()
            .map(|(_, field)| Arc::new(Field::new(field.name(), field.data_type().clone(), true)));
        let fields: Vec<_> = fields.chain(parameters).collect();
        Ok(Self {
            captured,
            body: moved.data,
            schema: Arc::new(Schema::new(fields)),
            data_type,
            fallible: is_fallible(body),
        })
    }

    fn parameters(&self) -> Vec<&DataType> {
        let fields = self.schema.fields().iter().skip(self.captured.len());
        fields.map(|field| field.data_type()).collect()
    }

    /// The body's values where the parameters have these, in these rows of the batch.
    fn evaluate(
        &self,
        batch: &RecordBatch,
        rows: &UInt32Array,
        parameters: Vec<ArrayRef>,
    ) -> Result<ArrayRef> {
        if rows.values().is_empty() {
            return Ok(new_empty_array(&self.data_type));
        }
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for captured in &self.captured {
            let column = captured.evaluate(batch)?.into_array(batch.num_rows())?;
            columns.push(take(&column, rows, None)?);
        }
        // A function may take none but the first of its parameters.
        let wanted = self.schema.fields().len() - columns.len();
        columns.extend(parameters.into_iter().take(wanted));
        let len = rows.values().len();
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.body.evaluate(&batch)?.into_array(len)
    }
}

impl PartialEq for Lambda {
    fn eq(&self, other: &Self) -> bool {
        let same_body = self.body.as_ref() == other.body.as_ref();
        same_body && self.captured == other.captured && self.schema == other.schema
    }
}

impl Eq for Lambda {}

impl Hash for Lambda {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.captured.hash(state);
        self.body.hash(state);
    }
}

/// A call of a function with lambdas.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HigherOrder {
    kind: Kind,
    values: Vec<Arc<dyn PhysicalExpr>>,
    lambdas: Vec<Lambda>,
    data_type: DataType,
    fallible_values: bool,
}

impl HigherOrder {
    /// A literal argument that is true.
    fn flag(&self, index: usize) -> bool {
        self.values.get(index).is_some_and(|value| {
            value.downcast_ref::<Literal>().map(Literal::value)
                == Some(&ScalarValue::Boolean(Some(true)))
        })
    }
}

impl PhysicalExpr for HigherOrder {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if batch.num_rows() == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.data_type)));
        }
        kinds::evaluate(self, batch).map(ColumnarValue::Array)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let captured = self.lambdas.iter().flat_map(|lambda| &lambda.captured);
        self.values.iter().chain(captured).collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let mut children = children.into_iter();
        let mut new = self.as_ref().clone();
        let captured = new
            .lambdas
            .iter_mut()
            .flat_map(|lambda| &mut lambda.captured);
        for (slot, child) in new.values.iter_mut().chain(captured).zip(&mut children) {
            *slot = child;
        }
        Ok(Arc::new(new))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for HigherOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.kind.name())?;
        for (index, value) in self.values.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{value}")?;
        }
        for lambda in &self.lambdas {
            write!(f, ", lambda {}", lambda.body)?;
        }
        f.write_str(")")
    }
}
