"""The queries, as data.

`EDGE` runs on the generated tables of `data.py`, `TPCH` on TPC-H's single tables; TPC-H's own
queries come from Spark's test jar (`tpch.py`). Every query here has one right answer: sums of
doubles are over values whose sums are exact in binary, `LIMIT` stands behind a total order, and
where an order is claimed (`ordered`) it is total.
"""

from __future__ import annotations

from dataclasses import dataclass

ON = ("on",)
OFF = ("off",)
BOTH = ("on", "off")


@dataclass(frozen=True)
class Query:
    """`ansi`: the settings of `spark.sql.ansi.enabled` to run it with. `error`: instead of rows,
    the error class that Spark ends it with, under ANSI rules."""

    name: str
    sql: str
    ordered: bool = False
    ansi: tuple[str, ...] = ON
    error: str | None = None


TPCH = [
    Query(
        "orders_by_priority",
        "SELECT o_orderpriority, count(*), sum(o_totalprice), min(o_orderdate), max(o_orderdate) "
        "FROM orders GROUP BY o_orderpriority ORDER BY o_orderpriority",
        ordered=True,
    ),
    Query(
        "dearest_orders",
        "SELECT o_orderkey, o_totalprice, o_orderdate FROM orders "
        "WHERE o_orderdate >= DATE'1995-01-01' ORDER BY o_totalprice DESC, o_orderkey LIMIT 20",
        ordered=True,
    ),
    Query(
        "ships_by_mode_and_year",
        "SELECT l_shipmode, year(l_shipdate) AS y, count(*) AS n, sum(l_quantity) AS qty "
        "FROM lineitem "
        "WHERE l_shipmode IN ('MAIL', 'SHIP', 'RAIL') GROUP BY l_shipmode, "
        "year(l_shipdate) ORDER BY l_shipmode, y",
        ordered=True,
    ),
    Query(
        "late_lines",
        "SELECT count(*), sum(CASE WHEN l_returnflag = 'R' THEN 1 ELSE 0 END) FROM lineitem "
        "WHERE l_receiptdate > l_commitdate AND l_shipdate < l_commitdate",
    ),
    Query(
        "distinct_suppliers",
        (
            "SELECT l_returnflag, count(DISTINCT l_suppkey), count(*) FROM lineitem GROUP BY "
            "l_returnflag"
        ),
    ),
    Query(
        "balances_by_segment",
        "SELECT c_mktsegment, avg(c_acctbal), min(c_acctbal), max(c_acctbal), count(*) "
        "FROM customer "
        "GROUP BY c_mktsegment HAVING count(*) > 10 ORDER BY c_mktsegment",
        ordered=True,
    ),
    Query(
        "parts_like",
        "SELECT p_brand, count(*) FROM part WHERE p_type LIKE '%BRASS' AND p_name LIKE '%green%' "
        "GROUP BY p_brand ORDER BY p_brand",
        ordered=True,
    ),
    Query(
        "cheap_comments",
        "SELECT ps_partkey, ps_suppkey, upper(substring(ps_comment, 1, 12)) FROM partsupp "
        "WHERE ps_supplycost < 1.50 AND ps_availqty BETWEEN 100 AND 900 ORDER BY "
        "ps_partkey, ps_suppkey",
        ordered=True,
    ),
    # Spark computes those of one table and one condition at once.
    Query(
        "subqueries_alike",
        "SELECT (SELECT count(*) FROM orders WHERE o_orderstatus = 'F') AS n, "
        "(SELECT avg(o_totalprice) FROM orders WHERE o_orderstatus = 'F') AS a, "
        "CASE WHEN (SELECT max(o_custkey) FROM orders WHERE o_orderstatus = 'P') > 0 "
        "THEN (SELECT min(o_orderdate) FROM orders WHERE o_orderstatus = 'P') END AS d, "
        "(SELECT max(o_orderkey) FROM orders) AS k, "
        "(SELECT count(DISTINCT o_orderpriority) FROM orders WHERE o_orderstatus = 'F') AS p",
    ),
]

# All of TPC-H's own queries.
TPCH_OFFICIAL = tuple(range(1, 23))

EDGE = [
    # Scans: every type, all rows, nulls and edge values included.
    Query("scan_all", "SELECT * FROM edge", ansi=BOTH),
    Query("scan_columns_reordered", "SELECT ntz, d38, id, bin FROM edge WHERE id % 3 = 0"),
    Query("scan_empty_result", "SELECT id, s FROM edge WHERE id < -1"),
    Query("count_star", "SELECT count(*) FROM edge"),
    Query(
        "count_per_type",
        (
            "SELECT count(b), count(i8), count(i16), count(i32), count(i64), count(f32), "
            "count(f64) FROM edge"
        ),
    ),
    Query(
        "count_per_type_2",
        (
            "SELECT count(d9), count(d18), count(d38), count(s), count(bin), count(dt), "
            "count(ts), count(ntz) FROM edge"
        ),
    ),
    # Filters.
    Query("filter_null_checks", "SELECT id FROM edge WHERE s IS NULL AND i32 IS NOT NULL"),
    Query(
        "filter_three_valued",
        "SELECT id FROM edge WHERE NOT (i32 > 100 AND b) OR (b IS NULL AND i8 = 0)",
    ),
    Query("filter_null_safe_equal", "SELECT id FROM edge WHERE i8 <=> k OR s <=> NULL"),
    Query(
        "filter_nan",
        "SELECT id, f64 FROM edge WHERE f64 = double('NaN') OR f32 > float('Infinity')",
    ),
    Query("filter_nan_is_largest", "SELECT count(*) FROM edge WHERE f64 > 1.7976931348623157E308D"),
    Query("filter_negative_zero", "SELECT id, f64 FROM edge WHERE f64 = 0.0D"),
    Query(
        "filter_int_bounds",
        (
            "SELECT id FROM edge WHERE i64 = 9223372036854775807 OR i64 <= "
            "-9223372036854775808 OR i32 = -2147483648"
        ),
    ),
    Query(
        "filter_decimal_38",
        (
            "SELECT id, d38 FROM edge WHERE d38 > 1234567890123456789012345678.9BD OR d38 < "
            "-9999999999999999999999999999BD"
        ),
    ),
    Query(
        "filter_in",
        "SELECT id FROM edge WHERE i32 IN (0, 1, 2147483647, NULL) OR s IN ('', 'naïve', 'a')",
    ),
    Query("filter_not_in_with_null", "SELECT id FROM edge WHERE i8 NOT IN (1, 2, NULL)"),
    Query("filter_not_in", "SELECT count(*) FROM edge WHERE k NOT IN (1, 2, 3)"),
    Query(
        "filter_between_dates",
        "SELECT id, dt FROM edge WHERE dt BETWEEN DATE'1500-01-01' AND DATE'1969-12-31'",
    ),
    Query(
        "filter_timestamp",
        (
            "SELECT id, ts FROM edge WHERE ts < TIMESTAMP'1970-01-01 00:00:00 UTC' AND ts > "
            "TIMESTAMP'1582-01-01 00:00:00 UTC'"
        ),
    ),
    Query("filter_ntz", "SELECT id, ntz FROM edge WHERE ntz >= TIMESTAMP_NTZ'2000-02-29 12:00:00'"),
    Query("filter_binary", "SELECT id, bin FROM edge WHERE bin = X'00FF' OR bin = X''"),
    Query("filter_string_order", "SELECT id, s FROM edge WHERE s > 'z'"),
    Query(
        "filter_like",
        (
            "SELECT id, s FROM edge WHERE s LIKE 'a%' OR s LIKE '%é%' OR s LIKE '_b_' OR s "
            "LIKE '%\\\\%%'"
        ),
    ),
    Query(
        "filter_starts_ends_contains",
        (
            "SELECT id FROM edge WHERE startswith(s, 'row') AND (endswith(s, '7') OR "
            "contains(s, '-1'))"
        ),
    ),
    # Arithmetic, with and without ANSI rules.
    Query(
        "arithmetic_integers",
        "SELECT id, n + 1, n - 7, n * 3, n % 5, -n, abs(n) FROM edge",
        ansi=BOTH,
    ),
    Query(
        "arithmetic_division", "SELECT id, n / 4, q / 2.0D, n div 3, d9 / 3 FROM edge", ansi=BOTH
    ),
    Query(
        "arithmetic_doubles",
        "SELECT id, f64 * 2, f64 + f32, f32 / 3, -f64, f64 % 3 FROM edge",
        ansi=BOTH,
    ),
    Query(
        "arithmetic_decimals",
        "SELECT id, d9 + d18, d9 * d9, d18 - d9, d9 % 7, -d18 FROM edge",
        ansi=BOTH,
    ),
    Query(
        "arithmetic_wraps",
        "SELECT id, i32 + 1, i64 - 1, i8 * i8, i16 + i16, -i32, abs(i64) FROM edge",
        ansi=OFF,
    ),
    Query("arithmetic_null_on_zero", "SELECT id, 100 / k, n % k, n div k FROM edge", ansi=OFF),
    Query(
        "arithmetic_decimal_overflow_null", "SELECT id, d38 * d38, d38 + d38 FROM edge", ansi=OFF
    ),
    Query(
        "bit_aggregates",
        (
            "SELECT k, bit_and(i32), bit_or(i64), bit_xor(i16), bit_and(i8), bit_xor(n) FROM "
            "edge GROUP BY k"
        ),
    ),
    Query(
        "best_rows",
        (
            "SELECT g, max_by(v, id), min_by(q, id), max_by(n, id), min_by(at, concat(v, "
            "id)) FROM events GROUP BY g"
        ),
    ),
    Query(
        "best_row_of_doubles",
        "SELECT max_by(id, if(abs(f64) < 1000, f64 + id / 1e9, NULL)), max_by(s, id), "
        "min_by(k, id), "
        "max_by(id, b) FILTER (WHERE id < 0) FROM edge",
    ),
    Query(
        "pairs",
        "SELECT g, round(covar_pop(q, n), 3), round(covar_samp(q, n), 3), round(corr(q, "
        "n), 9), corr(q, q), "
        "covar_pop(q, NULL) FROM events GROUP BY g",
    ),
    Query(
        "pairs_of_edges",
        (
            "SELECT k, covar_pop(n, 0), corr(n, 1), round(covar_samp(n, q), 3), count(*) "
            "FROM edge GROUP BY k"
        ),
        ansi=OFF,
    ),
    # Spark's moments lose last bits on the way, where engines' do not: as FLOAT they are the same.
    # Of values that do not differ Spark says NULL or, where partial results met, anything.
    Query(
        "shapes",
        "SELECT g, round(skewness(q), 9), round(kurtosis(q), 9), CAST(skewness(n) AS FLOAT) "
        "FROM events GROUP BY g",
    ),
    Query(
        "regressions",
        "SELECT g, round(regr_slope(q, n), 9), CAST(regr_intercept(q, n) AS FLOAT), "
        "round(regr_r2(q, n), 9), "
        "CAST(regr_sxx(q, n) AS FLOAT), CAST(regr_syy(q, n) AS FLOAT), round(regr_sxy(q, "
        "n) / 1e6, 3), "
        "regr_count(q, n), CAST(regr_avgx(q, n) AS FLOAT), CAST(regr_avgy(q, n) AS FLOAT) "
        "FROM events GROUP BY g",
    ),
    Query(
        "shapes_of_edges",
        "SELECT k, round(skewness(n), 9), round(kurtosis(n), 9), round(regr_slope(n, q), 9), "
        "round(regr_r2(n, q), 9), count(*) FROM edge GROUP BY k",
        ansi=OFF,
    ),
    Query("error_correlation", "SELECT corr(n, 1) FROM edge", error="DIVIDE_BY_ZERO"),
    Query("error_int_overflow", "SELECT i32 + 1 FROM edge", error="ARITHMETIC_OVERFLOW"),
    Query(
        "error_long_overflow",
        "SELECT sum(i64) FROM edge WHERE i64 > 0",
        error="ARITHMETIC_OVERFLOW",
    ),
    Query("error_divide_by_zero", "SELECT n / k FROM edge", error="DIVIDE_BY_ZERO"),
    Query("error_remainder_by_zero", "SELECT n % k FROM edge", error="REMAINDER_BY_ZERO"),
    Query(
        "error_raised_in_a_branch",
        "SELECT if(id < 5, id, raise_error('too far')) FROM edge",
        error="USER_RAISED_EXCEPTION",
    ),
    Query("error_cast_string", "SELECT cast(s AS INT) FROM edge", error="CAST_INVALID_INPUT"),
    Query("error_cast_overflow", "SELECT cast(i64 AS INT) FROM edge", error="CAST_OVERFLOW"),
    Query("guarded_division", "SELECT id, n / k FROM edge WHERE k <> 0 AND n / k > 1"),
    Query("guarded_case", "SELECT id, CASE WHEN k = 0 THEN -1 ELSE n div k END FROM edge"),
    # CASE and its kin.
    Query(
        "case_when",
        (
            "SELECT id, CASE WHEN i32 < 0 THEN 'neg' WHEN i32 = 0 THEN 'zero' WHEN i32 > 0 "
            "THEN 'pos' END FROM edge"
        ),
    ),
    Query(
        "case_types",
        "SELECT id, CASE k WHEN 1 THEN d9 WHEN 2 THEN 0 ELSE NULL END, if(b, s, 'none') FROM edge",
    ),
    Query(
        "coalesce_nullif",
        "SELECT id, coalesce(s, cast(i32 AS STRING), '?'), nullif(k, 2), nvl(i8, -1) FROM edge",
    ),
    # Casts among the types.
    Query(
        "cast_numbers",
        (
            "SELECT id, cast(i8 AS BIGINT), cast(i16 AS DOUBLE), cast(i32 AS DECIMAL(12, "
            "2)), cast(n AS FLOAT), cast(b AS INT) FROM edge"
        ),
    ),
    Query(
        "cast_narrow_wraps",
        (
            "SELECT id, cast(i64 AS INT), cast(i32 AS TINYINT), cast(f64 AS BIGINT), "
            "cast(f64 AS INT), cast(d18 AS INT) FROM edge"
        ),
        ansi=OFF,
    ),
    Query(
        "cast_to_string",
        (
            "SELECT id, cast(i64 AS STRING), cast(d9 AS STRING), cast(d38 AS STRING), cast(b "
            "AS STRING), cast(dt AS STRING) FROM edge"
        ),
    ),
    Query("cast_floats_to_string", "SELECT id, cast(f64 AS STRING), cast(f32 AS STRING) FROM edge"),
    Query("cast_times_to_string", "SELECT id, cast(ts AS STRING), cast(ntz AS STRING) FROM edge"),
    Query(
        "cast_strings",
        (
            "SELECT id, cast(s AS INT), cast(s AS DOUBLE), cast(s AS DATE), cast(s AS "
            "BOOLEAN), cast(s AS DECIMAL(10, 3)) FROM edge"
        ),
        ansi=OFF,
    ),
    Query("try_casts", "SELECT id, try_cast(s AS INT), try_cast(i64 AS SMALLINT) FROM edge"),
    Query(
        "cast_dates",
        (
            "SELECT id, cast(dt AS TIMESTAMP), cast(ts AS DATE), cast(ntz AS DATE), cast(dt "
            "AS TIMESTAMP_NTZ) FROM edge WHERE dt > DATE'1000-01-01'"
        ),
    ),
    Query(
        "cast_decimal_scale",
        (
            "SELECT id, cast(d18 AS DECIMAL(20, 1)), cast(d9 AS DECIMAL(38, 10)), cast(d9 AS "
            "DOUBLE) FROM edge"
        ),
    ),
    # Dates.
    Query(
        "date_parts",
        (
            "SELECT id, year(dt), month(dt), day(dt), quarter(dt), dayofweek(dt), "
            "dayofyear(dt) FROM edge"
        ),
    ),
    Query(
        "date_arithmetic",
        (
            "SELECT id, dt + INTERVAL 1 DAY, date_add(dt, 30), date_sub(dt, 1), datediff(dt, "
            "DATE'1970-01-01'), add_months(dt, 1) FROM edge WHERE dt BETWEEN "
            "DATE'1000-01-01' AND DATE'9000-01-01'"
        ),
    ),
    Query(
        "date_truncation",
        "SELECT id, trunc(dt, 'MONTH'), trunc(dt, 'YEAR'), last_day(dt) FROM edge",
    ),
    Query(
        "time_parts", "SELECT id, hour(ts), minute(ts), second(ts), year(ts), hour(ntz) FROM edge"
    ),
    # Strings.
    Query(
        "string_basics",
        (
            "SELECT id, length(s), upper(s), lower(s), trim(s), concat(s, '|', s), "
            "substring(s, 2, 3) FROM edge"
        ),
    ),
    Query(
        "string_more",
        (
            "SELECT id, substring(s, -2), replace(s, 'a', 'bb'), lpad(s, 6, '*'), rpad(s, 6, "
            "'*'), reverse(s), s || '!' FROM edge"
        ),
    ),
    Query(
        "string_positions",
        (
            "SELECT id, instr(s, 'a'), octet_length(s), ltrim(s), rtrim(s), left(s, 2), "
            "right(s, 2) FROM edge"
        ),
    ),
    # Aggregates.
    Query(
        "agg_global",
        "SELECT count(*), sum(n), min(i64), max(i64), avg(n), sum(d9), avg(d9), sum(q) FROM edge",
    ),
    Query(
        "agg_global_empty",
        "SELECT count(*), sum(n), min(s), max(dt), avg(q) FROM edge WHERE id < 0",
    ),
    Query(
        "agg_group_by_null_key",
        "SELECT k, count(*), sum(n), avg(q), min(s), max(s) FROM edge GROUP BY k",
        ansi=BOTH,
    ),
    Query("agg_group_by_string", "SELECT s, count(*), max(ts), min(bin) FROM edge GROUP BY s"),
    Query("agg_group_by_float", "SELECT f64, count(*) FROM edge GROUP BY f64"),
    Query("agg_group_by_many", "SELECT b, k, i8, count(*), sum(d18) FROM edge GROUP BY b, k, i8"),
    Query("agg_group_by_decimal_date", "SELECT d9, dt, count(*) FROM edge GROUP BY d9, dt"),
    Query(
        "agg_group_by_expression",
        "SELECT n % 10 AS g, count(*), sum(n * 2) FROM events WHERE n IS NOT NULL GROUP BY n % 10",
    ),
    Query(
        "agg_min_max_floats",
        "SELECT k, min(f64), max(f64), min(f32), max(f32) FROM edge GROUP BY k",
    ),
    Query(
        "agg_min_max_all",
        (
            "SELECT min(b), max(b), min(i8), max(i16), min(dt), max(dt), min(ts), max(ntz), "
            "min(s), max(s) FROM edge"
        ),
    ),
    Query(
        "agg_decimal_wide", "SELECT k, sum(d18), avg(d18), max(d38), min(d38) FROM edge GROUP BY k"
    ),
    Query("agg_decimal_overflow_null", "SELECT sum(d38) FROM edge WHERE d38 > 0", ansi=OFF),
    Query("agg_distinct", "SELECT count(DISTINCT k), count(DISTINCT s), sum(DISTINCT n) FROM edge"),
    Query("agg_distinct_grouped", "SELECT k, count(DISTINCT s), count(*) FROM edge GROUP BY k"),
    Query(
        "agg_filter_clause",
        "SELECT k, count(*) FILTER (WHERE b), sum(n) FILTER (WHERE i8 > 0) FROM edge GROUP BY k",
    ),
    Query(
        "agg_having",
        (
            "SELECT g, count(*) AS c, sum(q) FROM events GROUP BY g HAVING count(*) > 1200 "
            "AND sum(q) > 0"
        ),
    ),
    Query(
        "agg_of_agg",
        "SELECT c, count(*) FROM (SELECT g, count(*) AS c FROM events GROUP BY g) GROUP BY c",
    ),
    Query("select_distinct", "SELECT DISTINCT k, b FROM edge"),
    # Sorts and limits.
    Query(
        "sort_all_types",
        "SELECT id FROM edge ORDER BY s NULLS LAST, f64 DESC, i32, id",
        ordered=True,
    ),
    Query(
        "sort_floats",
        "SELECT f64, f32, id FROM edge ORDER BY f64 ASC NULLS FIRST, f32 DESC NULLS LAST, id",
        ordered=True,
    ),
    Query(
        "sort_decimals_dates",
        "SELECT d38, dt, ts, id FROM edge ORDER BY d38 DESC NULLS FIRST, dt, ts DESC, id",
        ordered=True,
    ),
    Query("sort_binary_bool", "SELECT bin, b, id FROM edge ORDER BY bin, b DESC, id", ordered=True),
    Query(
        "sort_many_rows",
        "SELECT id, g, v FROM events WHERE n % 8 = 0 ORDER BY v DESC, id",
        ordered=True,
    ),
    Query(
        "top_k", "SELECT id, n, v FROM events ORDER BY n DESC NULLS LAST, id LIMIT 25", ordered=True
    ),
    Query(
        "top_k_offset", "SELECT id, v FROM events ORDER BY v, id LIMIT 10 OFFSET 90", ordered=True
    ),
    Query("limit_count", "SELECT count(*) FROM (SELECT * FROM events LIMIT 777)"),
    Query("limit_zero", "SELECT * FROM edge LIMIT 0"),
    Query(
        "group_then_sort_limit",
        "SELECT g, sum(q) AS total FROM events GROUP BY g ORDER BY total DESC, g LIMIT 7",
        ordered=True,
    ),
    Query(
        "sort_inside",
        "SELECT g, count(*) FROM (SELECT g FROM events ORDER BY v, id LIMIT 1000) GROUP BY g",
    ),
]
