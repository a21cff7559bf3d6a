//! Arrays, structs and maps. Results have the types that [`crate::types`] makes, whatever an
//! argument's fields were called.

mod arrays;
mod build;
mod items;
pub(crate) mod lambda;
mod lists;
mod maps;
mod order;
mod places;
mod search;
mod sequence;
mod sets;
mod split;
mod structs;

pub(crate) use arrays::{concat, reverse};
pub(crate) use lists::{Items, Lists};
pub(crate) use order::{Ordered, is_nested};
pub use order::{comparable, is_orderable};
pub(crate) use structs::field_of;

use arrow::datatypes::DataType;

use crate::{
    Unsupported,
    function::{CallInfo, Entry, Fallible, entry},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("create_named_struct", Fallible::Never, structs::create),
    entry("get_struct_field", Fallible::Never, structs::field),
    entry(
        "get_array_struct_fields",
        Fallible::Never,
        structs::field_of_each,
    ),
    entry("create_array", Fallible::Never, arrays::create),
    entry("get_array_item", Fallible::Ansi, items::array_item),
    entry("get_map_value", Fallible::Never, items::map_value),
    // An index of 0 is an error in every mode.
    entry("element_at", Fallible::Always, items::element_at),
    entry("size", Fallible::Never, arrays::size),
    entry("slice", Fallible::Always, arrays::slice),
    entry("flatten", Fallible::Never, arrays::flatten),
    entry("array_repeat", Fallible::Always, arrays::repeat),
    entry("array_insert", Fallible::Always, arrays::insert),
    entry("arrays_zip", Fallible::Never, arrays::zip),
    entry("array_join", Fallible::Never, arrays::join),
    entry("array_contains", Fallible::Never, search::contains),
    entry("array_position", Fallible::Never, search::position),
    entry("array_remove", Fallible::Never, search::remove),
    entry("arrays_overlap", Fallible::Never, search::overlap),
    entry("array_min", Fallible::Never, |call| {
        search::extreme(call, false)
    }),
    entry("array_max", Fallible::Never, |call| {
        search::extreme(call, true)
    }),
    entry("sort_array", Fallible::Never, search::sort_array),
    entry("array_sort", Fallible::Never, search::array_sort),
    entry("array_distinct", Fallible::Never, sets::distinct),
    entry("array_union", Fallible::Never, sets::union),
    entry("array_intersect", Fallible::Never, sets::intersect),
    entry("array_except", Fallible::Never, sets::except),
    entry("create_map", Fallible::Always, maps::create),
    entry("map_keys", Fallible::Never, maps::keys),
    entry("map_values", Fallible::Never, maps::values),
    entry("map_entries", Fallible::Never, maps::entries),
    entry("map_from_arrays", Fallible::Always, maps::from_arrays),
    entry("map_from_entries", Fallible::Always, maps::from_entries),
    entry("map_concat", Fallible::Always, maps::concat),
    entry("map_sort", Fallible::Never, maps::sort),
    entry("sequence", Fallible::Always, sequence::sequence),
    entry("string_split", Fallible::Never, split::split),
    entry("string_to_map", Fallible::Always, split::to_map),
];

/// The type of an array's elements.
pub(crate) fn element(of: &DataType) -> Option<&DataType> {
    match of {
        DataType::List(element) => Some(element.data_type()),
        _ => None,
    }
}

/// The types of a map's keys and values.
pub(crate) fn key_value(of: &DataType) -> Option<(&DataType, &DataType)> {
    match of {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => match fields.as_ref() {
                [key, value] => Some((key.data_type(), value.data_type())),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Refuses the call unless its result has the type that its arguments give.
fn gives(call: &CallInfo<'_>, expected: Option<DataType>) -> Result<(), Unsupported> {
    match expected {
        Some(expected) if expected == *call.ret => Ok(()),
        _ => Err(call.bad_types()),
    }
}
