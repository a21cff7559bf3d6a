"""Queries that make rows of rows, or arrays of rows, over the tables of `data.py`.

Each has one right answer: arrays that functions collect are sorted.
"""

from __future__ import annotations

from coffer_testing.queries import BOTH, Query

GENERATED = [
    Query(
        "explode_of_literals",
        "SELECT id, x FROM edge LATERAL VIEW explode(array(1, NULL, 3)) t AS x WHERE id < 40",
    ),
    Query(
        "explode_arrays_of_columns",
        "SELECT id, x FROM edge LATERAL VIEW explode(array(f64, q, NULL)) t AS x",
        ansi=BOTH,
    ),
    Query(
        "posexplode_in_the_select_list",
        "SELECT id, posexplode(array(i8, i16, i32, i64)) FROM edge",
    ),
    Query(
        "posexplode_outer_of_nothing",
        "SELECT id, pos, x FROM edge LATERAL VIEW OUTER "
        "posexplode(if(b, array(s, k :: STRING), NULL)) t AS pos, x",
    ),
    Query(
        "explode_outer_of_empty_arrays",
        "SELECT id, explode_outer(if(b, array(d38), CAST(array() AS ARRAY<DECIMAL(38,10)>))) "
        "FROM edge",
    ),
    Query(
        "explode_of_maps",
        "SELECT id, key, value FROM edge LATERAL VIEW explode(map(id, s, -1L, k :: STRING)) t",
    ),
    Query(
        "explode_outer_of_maps",
        "SELECT id, key, value FROM edge LATERAL VIEW OUTER explode(if(b, map(id, dt), NULL)) t",
    ),
    Query(
        "inline_of_structs",
        "SELECT id, x, y FROM edge LATERAL VIEW inline(array(named_struct('a', n, 'b', s), NULL, "
        "named_struct('a', k, 'b', 'x'))) t AS x, y",
    ),
    Query(
        "inline_outer_of_nothing",
        (
            "SELECT id, x, y FROM edge LATERAL VIEW OUTER inline(if(b, array(struct(ts, "
            "ntz)), NULL)) t AS x, y"
        ),
    ),
    Query(
        "stack_with_a_remainder", "SELECT id, stack(2, k :: BIGINT, n, n + 1) AS (x, y) FROM edge"
    ),
    Query(
        "stack_of_texts",
        "SELECT stack(3, s, 'a', NULL, s, k :: STRING, 'z') AS (x, y) FROM edge WHERE id < 300",
    ),
    Query(
        "explode_of_exploded",
        "SELECT id, y FROM edge LATERAL VIEW explode(array(array(k, n), array(id))) t AS x "
        "LATERAL VIEW explode(x) u AS y",
    ),
    Query(
        "sums_of_exploded_rows",
        (
            "SELECT x, count(*), sum(n) FROM (SELECT n, explode(array(g, 'x', NULL)) AS x "
            "FROM events) GROUP BY x"
        ),
    ),
    Query(
        "explode_keeps_no_column",
        "SELECT count(*) FROM (SELECT explode(array(n, n)) FROM events)",
    ),
    Query(
        "join_of_exploded_rows",
        "SELECT e.id, x, f.n FROM (SELECT id, explode(array(k, k + 1)) AS x FROM edge) e "
        "JOIN events f ON f.id = x",
    ),
    Query("except_all", "SELECT k, b FROM edge EXCEPT ALL SELECT k, b FROM edge WHERE id % 3 = 0"),
    Query(
        "intersect_all",
        "SELECT k, f64 FROM edge INTERSECT ALL SELECT k, f64 FROM edge WHERE id % 2 = 0",
    ),
    Query("unpivot", "SELECT * FROM (SELECT id, k, n FROM edge) UNPIVOT (v FOR c IN (k, n))"),
    Query(
        "unpivot_with_nulls",
        (
            "SELECT * FROM (SELECT id, k, i32 FROM edge) UNPIVOT INCLUDE NULLS (v FOR c IN "
            "(k AS a, i32 AS z))"
        ),
    ),
    Query(
        "pivot",
        (
            "SELECT * FROM (SELECT k, b, n FROM edge) PIVOT (sum(n) AS s, count(n) AS c FOR "
            "b IN (true, false))"
        ),
    ),
    # All values of a group.
    Query("collect_list_sorted", "SELECT k, sort_array(collect_list(n)) FROM edge GROUP BY k"),
    Query(
        "collect_list_of_nothing", "SELECT collect_list(n), collect_set(s) FROM edge WHERE id < 0"
    ),
    Query(
        "collect_list_with_filter",
        (
            "SELECT k, sort_array(collect_list(s) FILTER (WHERE b)), "
            "size(collect_list(DISTINCT i8)) FROM edge GROUP BY k"
        ),
    ),
    Query(
        "collect_set_of_every_type",
        "SELECT b, sort_array(collect_set(i8)), sort_array(collect_set(d38)), "
        "sort_array(collect_set(s)), "
        "sort_array(collect_set(bin)), sort_array(collect_set(dt)), "
        "sort_array(collect_set(ts)) FROM edge GROUP BY b",
    ),
    Query(
        "collect_set_of_floats",
        "SELECT b, size(collect_set(f64)), size(collect_set(f32)) FROM edge GROUP BY b",
    ),
    Query(
        "collect_lists_of_many_rows",
        "SELECT k, size(l), array_min(l), array_max(l) FROM "
        "(SELECT id % 1000 AS k, collect_list(n) AS l FROM events GROUP BY id % 1000)",
    ),
    Query(
        "collect_then_explode",
        (
            "SELECT k, x FROM (SELECT k, collect_list(n) AS l FROM edge GROUP BY k) LATERAL "
            "VIEW explode(l) t AS x"
        ),
    ),
    Query(
        "collect_structs",
        "SELECT k, sort_array(collect_list(struct(id, s))) FROM edge GROUP BY k",
    ),
    Query(
        "percentiles",
        (
            "SELECT k, percentile(n, 0.3), percentile(q, array(0.0, 0.25, 0.5, 1.0)), "
            "percentile(i64, 0.9) FROM edge GROUP BY k"
        ),
    ),
    Query(
        "percentiles_with_frequency",
        "SELECT k, percentile(n, 0.3, i8 + 128), percentile(q, array(0.0, 0.5, 1.0), "
        "abs(n)), percentile(d9, 0.9, id % 3), "
        "percentile(n, 0.5, 0) FROM edge GROUP BY k",
    ),
    Query(
        "percentiles_with_bad_frequency",
        "SELECT percentile(n, 0.3, CASE WHEN id % 9 = 5 THEN -7 ELSE k END) FROM edge",
        error="NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION",
    ),
    Query(
        "approximate_percentiles_of_decimals",
        "SELECT k, percentile_approx(d9, 0.3), percentile_approx(d9, array(0.0, 0.25, 0.9)), "
        "percentile_approx(cast(n AS DECIMAL(15, 4)), 0.7) FROM edge GROUP BY k",
    ),
    Query(
        "histograms",
        "SELECT k % 2, histogram_numeric(i8 % 4, 20), histogram_numeric(cast(n % 5 AS "
        "DOUBLE) / 3, 10), "
        "histogram_numeric(dt, 2) FILTER (WHERE id < 2), histogram_numeric(n, 3) FILTER "
        "(WHERE id < 0) "
        "FROM (SELECT /*+ REPARTITION(1) */ * FROM edge) GROUP BY k % 2",
    ),
    Query(
        "percentiles_within_group",
        "SELECT b, percentile_cont(0.35) WITHIN GROUP (ORDER BY n), "
        "percentile_disc(0.35) WITHIN GROUP (ORDER BY n DESC), "
        "percentile_cont(0.1) WITHIN GROUP (ORDER BY d9 DESC), percentile_disc(0.999) "
        "WITHIN GROUP (ORDER BY i32) "
        "FROM edge GROUP BY b",
    ),
    Query(
        "percentiles_of_nothing",
        "SELECT percentile(n, 0.5), median(q), mode(n) FROM edge WHERE id < 0",
    ),
    Query("median", "SELECT k, median(n), median(d18) FROM edge GROUP BY k"),
    Query("median_of_many_rows", "SELECT id % 7, median(n) FROM events GROUP BY id % 7"),
    Query(
        "mode_by_order",
        (
            "SELECT mode() WITHIN GROUP (ORDER BY k), mode() WITHIN GROUP (ORDER BY k DESC), "
            "mode(n, true) FROM edge"
        ),
    ),
    Query(
        "collected_in_windows",
        "SELECT id, sort_array(collect_list(n) OVER (PARTITION BY k)), "
        "collect_list(id) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND "
        "CURRENT ROW) FROM edge",
    ),
    # Nested values as keys.
    Query(
        "group_by_structs_and_arrays",
        "SELECT s, count(*) FROM (SELECT struct(k, b) AS s FROM edge) GROUP BY s",
    ),
    Query(
        "group_by_arrays_of_floats",
        "SELECT a, count(*) FROM (SELECT array(f64, f32) AS a FROM edge) GROUP BY a",
    ),
    Query("distinct_structs", "SELECT DISTINCT named_struct('k', k, 'a', array(b)) FROM edge"),
    Query(
        "order_by_arrays",
        "SELECT id FROM edge ORDER BY array(i8, i16), id",
        ordered=True,
    ),
    Query(
        "order_by_structs_of_floats",
        "SELECT id FROM edge ORDER BY struct(f64, s) DESC NULLS FIRST, id LIMIT 100",
        ordered=True,
    ),
    Query(
        "join_on_structs",
        (
            "SELECT a.id, b.id FROM edge a JOIN edge b ON struct(a.k, a.b) = struct(b.k, "
            "b.b) WHERE a.id < 30 AND b.id < 60"
        ),
    ),
    Query(
        "windows_over_arrays",
        "SELECT id, rank() OVER (PARTITION BY array(b) ORDER BY array(k, i8)) FROM edge",
    ),
    Query(
        "first_and_last_of_nested_values",
        "SELECT k, max_by(struct(id, s), id), min_by(array(n), id) FROM edge GROUP BY k",
    ),
    Query(
        "repartitioned_nested_rows",
        "SELECT /*+ REPARTITION(3) */ id, array(f64), struct(s), map(id, n) FROM edge",
    ),
    # Rows of no table, and samples.
    Query("range_joined", "SELECT r.id, e.s FROM range(0, 400, 7, 3) r JOIN edge e ON e.id = r.id"),
    Query(
        "range_downwards",
        "SELECT r.id FROM range(500, -20, -9, 4) r WHERE r.id >= (SELECT min(id) FROM edge)",
    ),
    Query(
        "range_of_nothing", "SELECT count(*) FROM range(5, 5) WHERE id > (SELECT min(id) FROM edge)"
    ),
    Query(
        "sample_as_spark_draws",
        "SELECT id FROM (SELECT id FROM range(0, 10000, 1, 4)) TABLESAMPLE (10 PERCENT) "
        "REPEATABLE (7) "
        "WHERE id >= (SELECT min(id) FROM edge)",
    ),
    Query("coalesced_partitions", "SELECT /*+ COALESCE(2) */ id, k FROM edge WHERE b"),
    Query(
        "coalesced_after_order",
        "SELECT /*+ COALESCE(1) */ * FROM (SELECT id FROM edge ORDER BY id)",
        ordered=True,
    ),
]
