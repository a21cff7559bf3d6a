"""Expressions over arrays, structs and maps, as data: nested values are built from the flat columns
of `edge`. Same rules as in `queries.py`."""

from __future__ import annotations

from coffer_testing.queries import BOTH, Query

# Arrays with NULL, both zeros, NaN, duplicates; empty and NULL ones.
INTS = (
    "CASE id % 7 WHEN 0 THEN NULL WHEN 1 THEN slice(array(k, 1), 1, 0) ELSE array(k, i32, 1, "
    "k, NULL) END"
)
TEXTS = "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN array(s) ELSE array(s, 'a', NULL, 'naïve', s) END"
FLOATS = "CASE id % 6 WHEN 0 THEN NULL ELSE array(f64, q, 0.0D, -0.0D, double('NaN'), f64) END"
PAIRS = (
    "CASE id % 6 WHEN 0 THEN NULL ELSE array(struct(k, s), struct(k, 'a' AS s), NULL, "
    "struct(1 AS k, NULL AS s)) END"
)
DEEP = (
    "CASE id % 5 WHEN 0 THEN NULL ELSE array(array(k, 1), array(k, NULL), array(i32), "
    "array(k, 1)) END"
)
MAP = (
    "CASE id % 6 WHEN 0 THEN NULL ELSE map('a', k, 'b', i32, concat('c', coalesce(s, '')), "
    "NULL) END"
)

FROM = (
    f"FROM (SELECT *, {INTS} AS ints, {TEXTS} AS texts, {FLOATS} AS floats, {PAIRS} AS pairs, "
    f"{DEEP} AS deep, {MAP} AS m FROM edge)"
)

_SELECTS = {
    # made and taken apart
    "arrays": "array(k, i32), array(), array(NULL), array(s, s), array(d38, NULL), array(bin)",
    "arrays_of_times": "array(dt, NULL), array(ts), array(ntz), array(b, NULL, NOT b)",
    "structs": "struct(k, s), named_struct('x', d38, 'y', named_struct('z', f64)), struct(bin, ts)",
    "fields": "struct(k, s).k, named_struct('x', array(k)).x[0], named_struct('x', f32, 'y', s).x",
    "field_of_null": "if(id % 2 = 0, struct(k AS a, s AS b), NULL).b, if(b, struct(k AS a), NULL)",
    "fields_of_each": "pairs.k, pairs.s, array(struct(dt AS d)).d AS d",
    "maps": "map('a', k, 'b', NULL), map(id, s), map(struct(id, k), array(k)), map()",
    "all_kinds": "ints, texts, floats, pairs, deep, m",
    "get": "get(ints, 0), get(ints, 9), get(ints, -1), get(texts, k), get(deep, 1)",
    "try_element_at": "try_element_at(ints, 1), try_element_at(ints, -1), "
    "try_element_at(ints, 77), try_element_at(m, 'a'), try_element_at(m, 'none'), "
    "try_element_at(deep, -4)",
    "of_maps": "m['a'], m['zz'], element_at(m, 'b'), m[concat('c', s)], map(f64, 1)[f64]",
    "key_of_floats": "map(0.0D, 1)[-0.0D], map(double('NaN'), 1)[f64], map(f32, s)[f32]",
    "key_of_struct": "map(struct(k, s), id)[struct(k, s)], map(array(k), id)[array(k)]",
    "size": "size(ints), cardinality(m), size(deep), array_size(ints), size(NULL)",
    # cut and joined
    "slice": "slice(ints, 2, 2), slice(ints, -2, 5), slice(texts, 1, k), slice(deep, -9, 2)",
    "flatten": "flatten(deep), flatten(array(ints, ints)), flatten(array(texts, array(s)))",
    "repeat": "array_repeat(s, k), array_repeat(ints, 2), array_repeat(f64, -1)",
    "insert": "array_insert(ints, 1, 9), array_insert(ints, -1, 9), array_insert(ints, 8, k), "
    "array_insert(texts, -9, s), array_insert(deep, 2, array(k))",
    "append": "array_append(ints, k), array_prepend(ints, k), array_append(texts, NULL)",
    "compact": "array_compact(ints), array_compact(texts), array_compact(pairs)",
    "zip": "arrays_zip(ints, texts), arrays_zip(deep, floats, array(id))",
    "join": "array_join(texts, ','), array_join(texts, '-', '?'), array_join(texts, s), "
    "array_join(texts, ',', s), array_join(ints, '+')",
    "concat": "concat(ints, array(k), ints), concat(texts, array(s)), concat(deep, array(ints))",
    "reverse": "reverse(ints), reverse(texts), reverse(deep), reverse(pairs), reverse(s)",
    # searched
    "contains": "array_contains(ints, 1), array_contains(ints, k), array_contains(texts, s), "
    "array_contains(floats, 0.0D), array_contains(floats, f64), array_contains(deep, array(k, 1))",
    "position": "array_position(ints, 1), array_position(ints, k), array_position(floats, -0.0D), "
    "array_position(pairs, struct(k, 'a' AS s)), array_position(texts, s)",
    "remove": "array_remove(ints, 1), array_remove(ints, k), array_remove(floats, 0.0D), "
    "array_remove(deep, array(k, 1)), array_remove(texts, s)",
    "overlap": "arrays_overlap(ints, array(1)), arrays_overlap(ints, array(k, 5)), "
    "arrays_overlap(texts, array('b')), arrays_overlap(deep, array(array(i32))), "
    "arrays_overlap(array(f64), array(0.0D)), arrays_overlap(slice(ints, 1, 0), ints)",
    "extremes": "array_min(ints), array_max(ints), array_min(floats), array_max(floats), "
    "array_max(texts), array_min(deep), array_max(deep), array_min(pairs), array_max(array(dt))",
    "sorted": "sort_array(ints), sort_array(ints, false), sort_array(texts), sort_array(deep), "
    "sort_array(pairs, false), sort_array(array(bin, bin))",
    "sorted_floats": "sort_array(floats), sort_array(floats, false), "
    "sort_array(array(0.0D, coalesce(f64, 1), -0.0D)), array_sort(floats)",
    "array_sort": "array_sort(ints), array_sort(texts), array_sort(deep), array_sort(pairs), "
    "array_sort(array(id, 3, 1)), array_sort(array(d38, d18))",
    # sets
    "distinct": "array_distinct(ints), array_distinct(texts), array_distinct(deep), "
    "array_distinct(pairs), array_distinct(array(bin, bin, x'00'))",
    "distinct_floats": "array_distinct(floats), array_distinct(array(f32, f32, float(0), -f32)), "
    "array_distinct(array(array(0.0D), array(-0.0D), array(f64)))",
    "union": "array_union(ints, array(k, 7)), array_union(texts, texts), array_union(deep, deep)",
    "intersect": "array_intersect(ints, array(1, k, NULL)), array_intersect(texts, array(s)), "
    "array_intersect(deep, array(array(k, 1))), array_intersect(floats, array(0.0D, f64))",
    "except": "array_except(ints, array(1)), array_except(texts, array(s, NULL)), "
    "array_except(floats, array(-0.0D, f64)), array_except(pairs, array(struct(k, s)))",
    # maps
    "map_parts": "map_keys(m), map_values(m), map_entries(m), map_contains_key(m, 'a')",
    "map_from_arrays": "map_from_arrays(array('x', coalesce(s, 'n') || '_'), array(k, i32)), "
    "map_from_arrays(array(-0.0D), array(1)), map_from_arrays(array(id), array(ints))",
    "map_from_entries": "map_from_entries(array(struct('a', k), struct('b', NULL AS k))), "
    "map_from_entries(array(struct(-0.0D, s))), "
    "map_from_entries(if(id % 3 = 0, array(struct(1, k), NULL), array(struct(2, k))))",
    "map_concat": "map_concat(m, map('z', 1)), map_concat(map(1, k), map(2, i32))",
    "string_to_map": "str_to_map('a:1,b:2,c'), str_to_map(concat('k=', s), '&&', '='), "
    "str_to_map(concat('x', id, ';y:', id), ';', ':')",
    "split": "split(s, 'a'), split(concat(s, ',', s, ','), ','), split('a,b,c', ',', 2), "
    "split(concat(id, '|', k), '\\\\|'), split(s, 'ï', k)",
    # made of numbers and dates
    "sequence": "sequence(1, 5), sequence(5, k), sequence(id, id + 9, 3), sequence(k, -1, -1), "
    "sequence(tinyint(1), tinyint(k)), sequence(127Y - 1Y, 127Y)",
    "sequence_of_dates": "sequence(DATE'2024-01-31', DATE'2024-01-31' + k, INTERVAL 1 DAY), "
    "sequence(DATE'2024-01-31', DATE'2024-12-31', INTERVAL 1 MONTH), "
    "sequence(DATE'2024-03-01', DATE'2024-02-01'), "
    "sequence(DATE'2024-12-31', DATE'2023-12-31', INTERVAL -2 MONTH)",
    # lambdas
    "transform": "transform(ints, x -> x), transform(texts, x -> upper(x)), "
    "transform(ints, (x, i) -> i), transform(texts, (x, i) -> concat(x, i, s))",
    "transform_outer": "transform(texts, x -> concat(x, k, s)), transform(pairs, p -> p.s), "
    "transform(ints, x -> struct(x, id)), transform(ints, x -> array(x, k))",
    "transform_deep": "transform(deep, x -> transform(x, y -> concat(y, size(x), k))), "
    "transform(deep, x -> filter(x, y -> y = k)), "
    "transform(deep, (x, i) -> transform(x, (y, j) -> i * 10 + j))",
    "filter": "filter(ints, x -> x IS NOT NULL), filter(ints, x -> x = k), "
    "filter(texts, (x, i) -> i % 2 = 0), filter(floats, x -> x > 0), filter(pairs, p -> p.k = 1)",
    "exists": "exists(ints, x -> x = 1), exists(ints, x -> x IS NULL), exists(texts, x -> x = s), "
    "exists(floats, x -> isnan(x)), exists(deep, x -> exists(x, y -> y = k))",
    "forall": "forall(ints, x -> x >= 0), forall(texts, x -> length(x) > 0), "
    "forall(array(k, id), x -> x IS NOT NULL), forall(slice(ints, 1, 0), x -> x = 1)",
    "aggregate": "aggregate(texts, '', (a, x) -> concat(a, coalesce(x, '?'))), "
    "aggregate(ints, 0, (a, x) -> greatest(a, x)), "
    "aggregate(array(n, id), 0L, (a, x) -> a + coalesce(x, 0), a -> a * 2), "
    "reduce(floats, 0.0D, (a, x) -> a + x)",
    "aggregate_nested": "aggregate(ints, array(k), (a, x) -> concat(a, array(x))), "
    "aggregate(ints, struct(0 AS n, '' AS t), "
    "(a, x) -> struct(a.n + 1 AS n, concat(a.t, coalesce(string(x), '-')) AS t), a -> a.t)",
    "zip_with": "zip_with(ints, texts, (a, b) -> concat(a, b)), "
    "zip_with(deep, ints, (a, b) -> array_contains(a, b)), "
    "zip_with(ints, slice(ints, 1, 0), (a, b) -> struct(a, b, id))",
    "transform_map": "transform_values(m, (k, v) -> concat(k, v)), "
    "transform_values(m, (key, v) -> struct(v, k)), "
    "transform_keys(m, (k, v) -> concat(k, '!')), transform_keys(map(1, s), (k, v) -> k + id)",
    "map_filter": "map_filter(m, (k, v) -> v IS NOT NULL), map_filter(m, (key, v) -> v = k), "
    "map_filter(m, (k, v) -> k > 'a')",
    "map_zip_with": "map_zip_with(m, map('b', s, 'q', 'x'), (k, a, b) -> concat(k, a, b)), "
    "map_zip_with(map(-0.0D, 1), map(0.0D, 2), (k, a, b) -> array(a, b))",
    # compared
    "equal": "array(k) = array(1), ints = array(k, i32, 1, k, NULL), struct(k, s) = struct(1, s), "
    "array(f64) = array(-0.0D), array(f64) = array(double('NaN')), deep <=> deep, "
    "ints <=> array(1)",
    "ordered": "array(k, i32) < array(1, 0), array(s) <= array('a', NULL), deep > array(array(1)), "
    "struct(k, f64) >= struct(1, 0.0D), array(k) < array(k, NULL), ints < deep[0]",
    "in": "array(k) IN (array(1), array(2, 3)), "
    "struct(k, b) IN (struct(1 AS k, true AS b), struct(2 AS k, NULL AS b)), "
    "array(f64) IN (array(0.0D), array(double('NaN')))",
    "greatest": "greatest(array(k), array(2)), least(struct(k, s), struct(1 AS k, 'b' AS s)), "
    "greatest(array(f64), array(double('NaN')), NULL)",
    # chosen
    "chosen": "if(b, ints, array(1)), coalesce(ints, array(k)), nvl(m, map('n', k)), "
    "CASE WHEN k = 1 THEN pairs WHEN b THEN NULL ELSE array() END, nullif(array(k), array(1))",
    "null": "ints IS NULL, m IS NOT NULL, struct(k) IS NULL, if(b, struct(k), NULL) IS NULL, "
    "isnull(deep[0])",
    # cast
    "cast": "cast(ints AS array<string>), cast(pairs AS array<struct<a: bigint, b: string>>), "
    "cast(m AS map<string, bigint>), cast(deep AS array<array<double>>), "
    "cast(array(n) AS array<decimal(20, 2)>)",
    "try_cast": "try_cast(texts AS array<int>), try_cast(array(i64, n) AS array<int>), "
    "try_cast(struct(s, i64) AS struct<a: date, b: smallint>)",
    "to_text": "string(ints), string(texts), string(pairs), string(deep), string(m), "
    "string(struct(d38, dt, b)), string(floats)",
    "to_text_of_times": "string(array(ts, NULL)), string(struct(ntz, f32)), "
    "string(array(d18, d9)), string(map(coalesce(dt, DATE'2020-01-01'), array(f64)))",
}

NESTED = [
    Query(f"nested_{name}", f"SELECT id, {columns} {FROM}", ansi=BOTH)
    for name, columns in _SELECTS.items()
]

_WHERE = {
    "contains": "array_contains(ints, 1) OR array_contains(texts, 'a')",
    "exists": "exists(texts, x -> x LIKE '%a%' AND length(x) > k)",
    "short_of_errors": "exists(array(1, k, 0), x -> 10 div x = 10)",
    "struct": "struct(k, b) = struct(1, true)",
    "item": "size(ints) > 1 AND ints[1] > 0",
    "under_null": "forall(ints, x -> x IS NULL OR 1 div (x - x + 1) >= 0)",
}

NESTED += [
    Query(f"nested_where_{name}", f"SELECT id, s {FROM} WHERE {condition}", ansi=BOTH)
    for name, condition in _WHERE.items()
]

NESTED += [
    # What an array holds under NULL is not looked at: it would be an error.
    Query(
        "nested_lazy",
        f"SELECT id, transform(if(k <> 0, array(k, 1), NULL), x -> 10 div x), "
        f"if(size(ints) > 3, ints[3], 0), coalesce(try_element_at(ints, 2), 1) {FROM}",
        ansi=BOTH,
    ),
    Query("nested_index", f"SELECT id, ints[0], ints[77], deep[1][9] {FROM}", ansi=("off",)),
    Query("nested_element_at", f"SELECT id, element_at(ints, -9) {FROM}", ansi=("off",)),
    Query("nested_cast_off", f"SELECT id, cast(texts AS array<int>) {FROM}", ansi=("off",)),
    Query("nested_error_index", f"SELECT ints[5] {FROM} WHERE id = 2", error="INVALID_ARRAY_INDEX"),
    Query(
        "nested_error_element_at",
        f"SELECT element_at(ints, -6) {FROM} WHERE id = 2",
        error="INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
    ),
    Query(
        "nested_error_zero",
        f"SELECT element_at(ints, int(id - 2)) {FROM} WHERE id = 2",
        error="INVALID_INDEX_OF_ZERO",
    ),
    Query(
        "nested_error_slice",
        f"SELECT slice(ints, int(id - 2), 1) {FROM} WHERE id = 2",
        error="INVALID_PARAMETER_VALUE.START",
    ),
    Query(
        "nested_error_duplicate",
        "SELECT map(id, 1, id + 0, 2) FROM edge WHERE id = 3",
        error="DUPLICATED_MAP_KEY",
    ),
    Query(
        "nested_error_null_key",
        "SELECT map(nullif(id, 3), 1) FROM edge WHERE id = 3",
        error="NULL_MAP_KEY",
    ),
    Query(
        "nested_error_transform",
        "SELECT transform(array(1, id - 3), x -> 1 div x) FROM edge WHERE id = 3",
        error="DIVIDE_BY_ZERO",
    ),
]

LAST_WINS = Query(
    "nested_last_wins",
    f"SELECT id, map(k, 1, 1, 2), map_concat(m, map('a', 9)), str_to_map('a:1,b:2,a:3'), "
    f"map_from_arrays(array(f64, 0.0D, -0.0D), array(1, 2, 3)), "
    f"transform_keys(m, (key, v) -> 1) {FROM} WHERE k IS NOT NULL AND f64 IS NOT NULL",
)
