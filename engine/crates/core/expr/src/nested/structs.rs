//! Structs: made of values, and taken apart.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, StructArray, make_array},
    buffer::NullBuffer,
    datatypes::DataType,
};
use datafusion_common::{Result, ScalarValue, internal_err};

use super::element;
use crate::{
    Unsupported,
    function::{CallInfo, Kernel},
    types::list_of,
    vector::{argument, array},
};

type Built = Result<Kernel, Unsupported>;

/// The struct of the arguments; the result's type has the names.
pub(super) fn create(call: &CallInfo<'_>) -> Built {
    let DataType::Struct(fields) = call.ret else {
        return Err(call.bad_types());
    };
    if !fields.iter().map(|field| field.data_type()).eq(call.types) {
        return Err(call.bad_types());
    }
    let fields = fields.clone();
    Ok(Arc::new(move |args, rows| {
        let columns = args.iter().map(|arg| array(arg, rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let row = StructArray::try_new_with_length(fields.clone(), columns, None, rows)?;
        Ok(Arc::new(row) as ArrayRef)
    }))
}

/// The position of a field, and its type.
fn position<'a>(
    call: &CallInfo<'_>,
    row: Option<&'a DataType>,
) -> Result<(usize, &'a DataType), Unsupported> {
    let (Some(DataType::Struct(fields)), ScalarValue::Int32(Some(position))) =
        (row, call.literal(1)?)
    else {
        return Err(call.bad_types());
    };
    let position = usize::try_from(*position).map_err(|_| call.bad_types())?;
    let field = fields.get(position).ok_or_else(|| call.bad_types())?;
    Ok((position, field.data_type()))
}

pub(super) fn field(call: &CallInfo<'_>) -> Built {
    let (position, data_type) = position(call, call.types.first())?;
    if data_type != call.ret {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let row = array(argument(args, 0)?, rows)?;
        field_of(row.as_struct(), position)
    }))
}

pub(super) fn field_of_each(call: &CallInfo<'_>) -> Built {
    let (position, data_type) = position(call, call.types.first().and_then(element))?;
    if list_of(data_type.clone()) != *call.ret {
        return Err(call.bad_types());
    }
    Ok(Arc::new(move |args, rows| {
        let list = array(argument(args, 0)?, rows)?;
        let list = list.as_list::<i32>();
        let values = field_of(list.values().as_struct(), position)?;
        Ok(Arc::new(ListArray::try_new(
            crate::types::element_field(values.data_type().clone()),
            list.offsets().clone(),
            values,
            list.nulls().cloned(),
        )?) as ArrayRef)
    }))
}

/// The field, NULL where the struct is.
pub(crate) fn field_of(row: &StructArray, position: usize) -> Result<ArrayRef> {
    let Some(column) = row.columns().get(position) else {
        return internal_err!("a struct has no field {position}");
    };
    if row.null_count() == 0 || column.data_type().is_null() {
        return Ok(Arc::clone(column));
    }
    let nulls = NullBuffer::union(row.nulls(), column.nulls());
    let data = column.to_data().into_builder().nulls(nulls).build()?;
    Ok(make_array(data))
}
