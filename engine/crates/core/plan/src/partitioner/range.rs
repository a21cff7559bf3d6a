//! Range partitioning by bounds: target i takes keys above bound i − 1 up to and with bound i.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
    row::{RowConverter, Rows, SortField},
};
use coffer_protocol::{
    plan::{SortKey, Values},
    wire::Bounds,
};
use datafusion_common::Result;
use datafusion_physical_expr::{PhysicalSortExpr, expressions::Column};

use crate::{Unsupported, expressions::Expressions, order, values};

pub(super) struct Ranges {
    keys: Vec<PhysicalSortExpr>,
    converter: RowConverter,
    bounds: Rows,
}

impl Ranges {
    pub(super) fn new(
        keys: &[SortKey],
        bounds: &Bounds,
        schema: &SchemaRef,
        expressions: &Expressions,
    ) -> Result<Self, Unsupported> {
        let malformed = |what| Unsupported::Malformed { node: 0, what };
        let operators = |source| Unsupported::Operators { node: 0, source };
        let sort = keys_of(keys, schema, expressions)?;
        let values = Values {
            schema: bounds.schema.clone(),
            rows: bounds.rows.clone(),
        };
        let rows = values::batch(0, &values)?;
        let types = sort
            .iter()
            .map(|key| key.expr.data_type(schema))
            .collect::<Result<Vec<_>>>()
            .map_err(operators)?;
        if rows
            .columns()
            .iter()
            .map(|column| column.data_type())
            .ne(&types)
        {
            return Err(malformed("bounds of other types than the keys"));
        }
        let fields = sort
            .iter()
            .zip(types)
            .map(|(key, data_type)| SortField::new_with_options(data_type, key.options))
            .collect();
        let converter = RowConverter::new(fields).map_err(|error| operators(error.into()))?;
        let columns =
            canonical(&rows).map_err(|source| Unsupported::Expression { node: 0, source })?;
        let columns = columns.map_err(operators)?;
        let bounds = converter
            .convert_columns(&columns)
            .map_err(|error| operators(error.into()))?;
        if bounds
            .iter()
            .zip(bounds.iter().skip(1))
            .any(|(lower, upper)| lower >= upper)
        {
            return Err(malformed("bounds that do not ascend"));
        }
        Ok(Self {
            keys: sort,
            converter,
            bounds,
        })
    }

    pub(super) fn targets(&self, batch: &RecordBatch, out: &mut Vec<u32>) -> Result<()> {
        let columns = self
            .keys
            .iter()
            .map(|key| key.expr.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<_>>>()?;
        let rows = self.converter.convert_columns(&columns)?;
        for key in rows.iter() {
            // How many bounds are below the key.
            let (mut low, mut high) = (0, self.bounds.num_rows());
            while low < high {
                let middle = low.midpoint(high);
                if self.bounds.row(middle) < key {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            out.push(u32::try_from(low).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}

pub(crate) fn keys_of(
    keys: &[SortKey],
    schema: &SchemaRef,
    expressions: &Expressions,
) -> Result<Vec<PhysicalSortExpr>, Unsupported> {
    if keys.is_empty() {
        return Err(Unsupported::Malformed {
            node: 0,
            what: "no sort keys",
        });
    }
    keys.iter()
        .map(|key| {
            let malformed = Unsupported::Malformed {
                node: 0,
                what: "a sort key without expression",
            };
            let expr = expressions.order_key(0, key.expr.as_ref().ok_or(malformed)?, schema)?;
            Ok(PhysicalSortExpr {
                expr,
                options: order::options(key),
            })
        })
        .collect()
}

/// The columns of a batch as keys: floats in canonical form.
fn canonical(batch: &RecordBatch) -> Result<Result<Vec<ArrayRef>>, coffer_expr::Unsupported> {
    let schema = batch.schema();
    let keys = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| {
            coffer_expr::normalize_key(Arc::new(Column::new(field.name(), index)), &schema)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(keys
        .iter()
        .map(|key| key.evaluate(batch)?.into_array(batch.num_rows()))
        .collect())
}
