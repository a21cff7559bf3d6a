//! Keys of merge joins as integers, where DataFusion's comparator would panic (a NaN) or refuse (an
//! instant).

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch},
    datatypes::{DataType, Float32Type, Float64Type, Schema, TimestampMicrosecondType},
};
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// A key that is equal where the first one is, in some order that is the same on both sides: the
/// join needs no more. Of a float in canonical form, its bits; of a timestamp, its count. Other
/// types stay as they are.
pub(super) fn ordered(
    key: Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(match integer_of(&key.data_type(schema)?) {
        Some(_) => Arc::new(AsInteger { key: vec![key] }),
        None => key,
    })
}

fn integer_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Float32 => Some(DataType::Int32),
        DataType::Float64 | DataType::Timestamp(..) => Some(DataType::Int64),
        _ => None,
    }
}

#[derive(Debug)]
struct AsInteger {
    /// Just one; a vector, since comparing and hashing are defined for it.
    key: Vec<Arc<dyn PhysicalExpr>>,
}

impl AsInteger {
    fn key(&self) -> Result<&Arc<dyn PhysicalExpr>> {
        match self.key.as_slice() {
            [key] => Ok(key),
            _ => internal_err!("a key is one expression"),
        }
    }
}

impl PartialEq for AsInteger {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for AsInteger {}

impl Hash for AsInteger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl fmt::Display for AsInteger {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.key
            .iter()
            .try_for_each(|key| write!(f, "as_integer({key})"))
    }
}

impl PhysicalExpr for AsInteger {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        let of = self.key()?.data_type(schema)?;
        match integer_of(&of) {
            Some(integer) => Ok(integer),
            None => internal_err!("a key of {of} needs no other form"),
        }
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.key()?.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let keys = self.key()?.evaluate(batch)?.into_array(batch.num_rows())?;
        let integers: ArrayRef = match keys.data_type() {
            DataType::Float32 => {
                let bits: Int32Array = keys
                    .as_primitive::<Float32Type>()
                    .unary(|v| i32::from_ne_bytes(v.to_ne_bytes()));
                Arc::new(bits)
            }
            DataType::Float64 => {
                let bits: Int64Array = keys
                    .as_primitive::<Float64Type>()
                    .unary(|v| i64::from_ne_bytes(v.to_ne_bytes()));
                Arc::new(bits)
            }
            DataType::Timestamp(..) => {
                let counts: Int64Array = keys
                    .as_primitive::<TimestampMicrosecondType>()
                    .reinterpret_cast();
                Arc::new(counts)
            }
            other => return internal_err!("a key of {other} needs no other form"),
        };
        Ok(ColumnarValue::Array(integers))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.key.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        key: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { key }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
