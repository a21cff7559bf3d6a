//! Functions over ciphertexts, for engines that have no key of them.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array},
    datatypes::DataType,
};
use coffer_schemes::{SchemeError, ore};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::ColumnarValue;

use crate::{
    Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    // A host that made up a ciphertext gets an error, not an answer.
    entry("ore_compare", Fallible::Always, ore_compare),
];

/// How the values of two order-revealing ciphertexts (Chenette et al. 2016) compare: −1, 0, 1; NULL
/// for NULL.
fn ore_compare(call: &CallInfo<'_>) -> Result<Kernel, Unsupported> {
    match (call.types, call.ret) {
        ([DataType::Binary, DataType::Binary], DataType::Int32) => Ok(Arc::new(compare)),
        _ => Err(call.bad_types()),
    }
}

fn compare(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let compared = match args {
        [
            ColumnarValue::Array(left),
            ColumnarValue::Scalar(ScalarValue::Binary(Some(right))),
        ] => ore::compare_with(binary(left)?, right),
        [left, right] => {
            let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
            ore::compare_columns(binary(&left)?, binary(&right)?)
        }
        _ => {
            return Err(DataFusionError::Internal(
                "ore_compare takes two arguments".to_owned(),
            ));
        }
    };
    let compared =
        compared.map_err(|error: SchemeError| DataFusionError::External(Box::new(error)))?;
    let sign = |order: Ordering| match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    let signs: Int32Array = compared.into_iter().map(|order| order.map(sign)).collect();
    Ok(Arc::new(signs))
}

fn binary(array: &ArrayRef) -> Result<&BinaryArray> {
    array
        .as_binary_opt::<i32>()
        .ok_or_else(|| DataFusionError::Internal(format!("ore_compare of {}", array.data_type())))
}
