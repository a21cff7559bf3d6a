//! Which functions give the same value each time: one list, from which nothing is left out. A
//! function that is not in it is not compiled, so none is admitted before somebody has asked what
//! it depends on.
//!
//! What a function may depend on is its arguments and what the fragment says of it (types, mode,
//! time zone). Not: the clock, a seed, the machine (`exp`, `log` and `pow` are fdlibm's and not the
//! processor's, time zones are compiled in), the task, the place of a row among others. What Spark
//! has of those kinds (`rand`, `uuid`, `monotonically_increasing_id`, `spark_partition_id`) is an
//! operator of its own, which depends on the order of its rows (`Placed`), or is refused
//! (`input_file_name`); `current_timestamp` and its like are literals by then.

use coffer_protocol::plan::{self, expr::Kind};

/// Functions of their arguments alone, in order.
const REPEATABLE: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "add",
    "add_months",
    "aes_decrypt",
    "aes_encrypt",
    "and",
    "array_aggregate",
    "array_contains",
    "array_distinct",
    "array_except",
    "array_exists",
    "array_filter",
    "array_for_all",
    "array_insert",
    "array_intersect",
    "array_join",
    "array_max",
    "array_min",
    "array_position",
    "array_remove",
    "array_repeat",
    "array_sort",
    "array_transform",
    "array_union",
    "arrays_overlap",
    "arrays_zip",
    "ascii",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "b_round",
    "base64",
    "bin",
    "bit_length",
    "bitmap_bit_position",
    "bitmap_bucket_number",
    "bitmap_count",
    "bitwise_and",
    "bitwise_count",
    "bitwise_get",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bround",
    "cbrt",
    "ceil",
    "char_type_write_side_check",
    "check_overflow",
    "chr",
    "coalesce",
    "concat",
    "concat_ws",
    "contains",
    "conv",
    "convert_timezone",
    "cosh",
    "crc32",
    "create_array",
    "create_map",
    "create_named_struct",
    "date_add",
    "date_add_interval",
    "date_add_ym_interval",
    "date_diff",
    "date_format",
    "date_format_class",
    "date_from_unix_date",
    "date_sub",
    "day_name",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "decimal_add_no_overflow_check",
    "decimal_divide_with_overflow_check",
    "decode",
    "divide",
    "element_at",
    "elt",
    "empty_to_null",
    "encode",
    "ends_with",
    "eq",
    "eq_null_safe",
    "equal_null_safe",
    "equal_to",
    "exp",
    "expm1",
    "factorial",
    "find_in_set",
    "flatten",
    "floor",
    "format_number",
    "format_string",
    "from_json",
    "from_unix_time",
    "from_utc_timestamp",
    "ge",
    "get_array_item",
    "get_array_struct_fields",
    "get_json_object",
    "get_map_value",
    "get_struct_field",
    "get_timestamp",
    "greater_than",
    "greater_than_or_equal",
    "greatest",
    "gt",
    "hex",
    "hour",
    "hour_of_time",
    "hypot",
    "if",
    "init_cap",
    "integral_divide",
    "interval_add",
    "interval_days",
    "interval_divide",
    "interval_hours",
    "interval_minutes",
    "interval_months",
    "interval_multiply",
    "interval_negate",
    "interval_seconds",
    "interval_subtract",
    "interval_years",
    "is_nan",
    "is_not_null",
    "is_null",
    "is_valid_utf8",
    "json_array_length",
    "json_object_keys",
    "json_tuple",
    "known_floating_point_normalized",
    "known_not_null",
    "known_nullable",
    "last_day",
    "le",
    "least",
    "left",
    "length",
    "less_than",
    "less_than_or_equal",
    "levenshtein",
    "like",
    "log",
    "log10",
    "log1p",
    "log2",
    "logarithm",
    "lower",
    "lt",
    "luhn_check",
    "make_date",
    "make_decimal",
    "make_dt_interval",
    "make_time",
    "make_timestamp",
    "make_ym_interval",
    "map_concat",
    "map_entries",
    "map_filter",
    "map_from_arrays",
    "map_from_entries",
    "map_keys",
    "map_sort",
    "map_values",
    "map_zip_with",
    "mask",
    "md5",
    "micros_to_timestamp",
    "might_contain",
    "millis_to_timestamp",
    "minute",
    "minute_of_time",
    "month",
    "month_name",
    "months_between",
    "multiply",
    "murmur3_hash",
    "na_nvl",
    "next_day",
    "normalize_nan_and_zero",
    "not",
    "octet_length",
    "or",
    "ore_compare",
    "overlay",
    "parse_url",
    "pmod",
    "pow",
    "precise_timestamp_conversion",
    "promote_precision",
    "quarter",
    "quote",
    "raise_error",
    "read_side_padding",
    "regexp_extract",
    "regexp_extract_all",
    "regexp_instr",
    "regexp_like",
    "regexp_replace",
    "regexp_split",
    "remainder",
    "reverse",
    "right",
    "rint",
    "rlike",
    "round",
    "second",
    "second_of_time",
    "second_of_time_with_fraction",
    "second_with_fraction",
    "seconds_of_time",
    "seconds_to_timestamp",
    "sequence",
    "sha1",
    "sha2",
    "shift_left",
    "shift_right",
    "shift_right_unsigned",
    "signum",
    "sinh",
    "size",
    "slice",
    "sort_array",
    "sound_ex",
    "split_part",
    "sqrt",
    "starts_with",
    "string_instr",
    "string_l_pad",
    "string_locate",
    "string_lpad",
    "string_r_pad",
    "string_repeat",
    "string_replace",
    "string_rpad",
    "string_space",
    "string_split",
    "string_to_map",
    "string_translate",
    "string_trim",
    "string_trim_left",
    "string_trim_right",
    "substring",
    "substring_index",
    "subtract",
    "subtract_dates",
    "subtract_times",
    "subtract_timestamps",
    "tanh",
    "time_add_interval",
    "time_diff",
    "time_trunc",
    "timestamp_add",
    "timestamp_add_day_time",
    "timestamp_add_interval",
    "timestamp_add_months",
    "timestamp_diff",
    "timestamp_of_date_and_time",
    "to_degrees",
    "to_json",
    "to_number",
    "to_pretty_string",
    "to_radians",
    "to_time",
    "to_unix_timestamp",
    "to_utc_timestamp",
    "transform_keys",
    "transform_values",
    "trunc_date",
    "trunc_timestamp",
    "un_base64",
    "unary_minus",
    "unhex",
    "unix_date",
    "unix_micros",
    "unix_millis",
    "unix_seconds",
    "unscaled_value",
    "upper",
    "url_decode",
    "url_encode",
    "varchar_type_write_side_check",
    "week_day",
    "week_of_year",
    "width_bucket",
    "xx_hash64",
    "year",
    "year_of_week",
    "zip_with",
];

pub(crate) fn is_listed(name: &str) -> bool {
    REPEATABLE.binary_search(&name).is_ok()
}

/// Whether the expression gives the same value for the same row, each time, in each engine. A
/// subquery's value is one for a query.
#[must_use]
pub fn is_repeatable(expr: &plan::Expr) -> bool {
    let given = |expr: &Option<Box<plan::Expr>>| expr.as_deref().is_some_and(is_repeatable);
    let all = |exprs: &[plan::Expr]| exprs.iter().all(is_repeatable);
    match &expr.kind {
        None => false,
        Some(Kind::Literal(_) | Kind::Column(_) | Kind::Subquery(_) | Kind::Variable(_)) => true,
        Some(Kind::Lambda(lambda)) => given(&lambda.body),
        Some(Kind::Call(call)) => is_listed(&call.name) && all(&call.args),
        Some(Kind::Cast(cast)) => given(&cast.child),
        Some(Kind::CaseWhen(case)) => {
            let branch = |branch: &plan::case_when::Branch| {
                let (when, then) = (branch.when.as_ref(), branch.then.as_ref());
                when.is_some_and(is_repeatable) && then.is_some_and(is_repeatable)
            };
            case.branches.iter().all(branch) && case.otherwise.as_deref().is_none_or(is_repeatable)
        }
        Some(Kind::InList(list)) => given(&list.value) && all(&list.list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;

    #[test]
    fn the_list_is_in_order_and_of_functions_that_there_are() {
        assert!(REPEATABLE.is_sorted());
        for name in REPEATABLE {
            assert!(compile::is_known(name), "{name} is listed, and no function");
        }
    }

    /// Else it could not be called: better said here.
    #[test]
    fn every_function_is_listed() {
        for name in compile::names() {
            assert!(
                is_listed(name),
                "{name}: what does it depend on beside its arguments? Then list it, or not"
            );
        }
    }

    #[test]
    fn what_is_not_listed_is_not_repeatable_wherever_it_stands() {
        let literal = || plan::Expr {
            kind: Some(Kind::Literal(plan::Literal::default())),
        };
        let call = |name: &str, args| plan::Expr {
            kind: Some(Kind::Call(plan::Call {
                name: name.to_owned(),
                args,
                ..plan::Call::default()
            })),
        };
        assert!(is_repeatable(&call("add", vec![literal(), literal()])));
        for name in [
            "rand",
            "uuid",
            "monotonically_increasing_id",
            "current_timestamp",
            "",
        ] {
            assert!(!is_repeatable(&call(name, vec![])), "{name}");
            let cast = plan::Cast {
                child: Some(Box::new(call(name, vec![]))),
                ..plan::Cast::default()
            };
            let cast = plan::Expr {
                kind: Some(Kind::Cast(Box::new(cast))),
            };
            assert!(!is_repeatable(&cast), "{name} in a cast");
            assert!(
                !is_repeatable(&call("add", vec![literal(), cast])),
                "{name} in a call"
            );
            let list = plan::InList {
                value: Some(Box::new(literal())),
                list: vec![call(name, vec![])],
            };
            let list = plan::Expr {
                kind: Some(Kind::InList(Box::new(list))),
            };
            assert!(!is_repeatable(&list), "{name} in a list");
            let case = plan::CaseWhen {
                branches: vec![plan::case_when::Branch {
                    when: Some(literal()),
                    then: Some(call(name, vec![])),
                }],
                ..plan::CaseWhen::default()
            };
            let case = plan::Expr {
                kind: Some(Kind::CaseWhen(Box::new(case))),
            };
            assert!(!is_repeatable(&case), "{name} in CASE");
        }
    }
}
