"""Queries with window functions, over the tables of `data.py`.

Each has one right answer: where a function tells rows apart that its order holds equal (row_number,
lead, a frame of rows), the order is total.
"""

from __future__ import annotations

from coffer_testing.queries import BOTH, OFF, Query

_ROWS = "ROWS BETWEEN"
_RANGE = "RANGE BETWEEN"
# An instant and a clock every eleven hours or so, over a year and more.
_SOON = (
    "(SELECT id, k, n, ts, cast(ts AS TIMESTAMP_NTZ) AS ntz FROM "
    "(SELECT id, k, n, timestamp_seconds(1673000000 + id * 40000) AS ts FROM edge))"
)

WINDOWS = [
    # Ranks.
    Query(
        "window_row_number",
        "SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY n, id) FROM edge",
        ansi=BOTH,
    ),
    Query(
        "window_ranks_of_ties",
        "SELECT id, i8, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, "
        "cume_dist() OVER w "
        "FROM edge WINDOW w AS (PARTITION BY k ORDER BY i8)",
    ),
    Query(
        "window_ranks_of_floats",
        "SELECT id, f64, rank() OVER (PARTITION BY b ORDER BY f64), "
        "dense_rank() OVER (PARTITION BY b ORDER BY f64 DESC NULLS FIRST) FROM edge",
    ),
    Query(
        "window_ranks_of_decimals",
        (
            "SELECT id, rank() OVER (ORDER BY d38 DESC NULLS LAST, d9), dense_rank() OVER "
            "(ORDER BY d18) FROM edge"
        ),
    ),
    Query(
        "window_ranks_of_strings_and_times",
        "SELECT id, rank() OVER (PARTITION BY k ORDER BY s), rank() OVER (PARTITION BY k "
        "ORDER BY dt DESC), "
        "dense_rank() OVER (PARTITION BY k ORDER BY ts NULLS LAST, bin) FROM edge",
    ),
    Query(
        "window_ntile",
        (
            "SELECT id, ntile(4) OVER w, ntile(1) OVER w, ntile(1000) OVER w FROM edge "
            "WINDOW w AS (PARTITION BY k ORDER BY id)"
        ),
    ),
    Query(
        "window_partition_by_floats",
        "SELECT id, count(*) OVER (PARTITION BY f64), min(id) OVER (PARTITION BY f32, b) FROM edge",
    ),
    Query(
        "window_partition_by_every_type",
        "SELECT id, count(*) OVER (PARTITION BY s), count(*) OVER (PARTITION BY bin), "
        "count(*) OVER (PARTITION BY d38), "
        "count(*) OVER (PARTITION BY dt, b), count(*) OVER (PARTITION BY ts), count(*) "
        "OVER (PARTITION BY ntz) FROM edge",
    ),
    Query(
        "window_rank_over_one_value",
        (
            "SELECT id, rank() OVER (ORDER BY 1), row_number() OVER (PARTITION BY id ORDER "
            "BY k) FROM edge"
        ),
    ),
    # Whole partitions.
    Query(
        "window_sum_of_partition",
        (
            "SELECT id, n, sum(n) OVER (PARTITION BY k), q / sum(abs(q) + 1) OVER (PARTITION "
            "BY k) > 0 FROM edge"
        ),
        ansi=BOTH,
    ),
    Query(
        "window_aggregates_of_partition",
        "SELECT id, count(s) OVER w, count(*) OVER w, min(s) OVER w, max(bin) OVER w, "
        "min(f64) OVER w, max(f32) OVER w, "
        "avg(n) OVER w, avg(d9) OVER w, sum(d18) OVER w, avg(i8) OVER w FROM edge WINDOW "
        "w AS (PARTITION BY k, b)",
    ),
    Query(
        "window_moments",
        "SELECT id, stddev_samp(i8) OVER w IS NULL, round(stddev_pop(n) OVER w, 3), "
        "round(var_samp(q) OVER w, 3), "
        "round(var_pop(i8) OVER w, 3) FROM edge WINDOW w AS (PARTITION BY k)",
    ),
    Query(
        "window_without_partition",
        "SELECT id, sum(n) OVER (), count(*) OVER (), max(dt) OVER (), avg(d18) OVER () FROM edge",
    ),
    Query("window_over_no_rows", "SELECT id, sum(n) OVER (PARTITION BY k) FROM edge WHERE id < 0"),
    Query(
        "window_booleans",
        (
            "SELECT id, every(b) OVER (PARTITION BY k), any(b) OVER (PARTITION BY k), "
            "count_if(b) OVER (PARTITION BY k) FROM edge"
        ),
    ),
    Query(
        "window_decimals_of_few_digits",
        "SELECT id, sum(cast(d9 % 1000 AS DECIMAL(7, 2))) OVER w, avg(cast(d9 % 1000 AS "
        "DECIMAL(7, 2))) OVER w "
        "FROM edge WINDOW w AS (PARTITION BY k ORDER BY id)",
    ),
    Query(
        "window_average_share",
        "SELECT id, d9 * 100 / sum(abs(d9)) OVER (PARTITION BY k) FROM edge WHERE d9 <> 0",
    ),
    # Growing and shrinking frames.
    Query(
        "window_running_default_frame",
        "SELECT id, i8, sum(n) OVER w, count(n) OVER w, min(n) OVER w, max(q) OVER w, "
        "avg(q) OVER w FROM edge "
        "WINDOW w AS (PARTITION BY k ORDER BY i8)",
    ),
    Query(
        "window_running_rows",
        "SELECT id, sum(n) OVER w, sum(q) OVER w, sum(d9) OVER w, avg(d18) OVER w, "
        "min(s) OVER w, max(f64) OVER w, "
        f"count(bin) OVER w FROM edge WINDOW w AS (PARTITION BY k ORDER BY id {_ROWS} "
        "UNBOUNDED PRECEDING AND CURRENT ROW)",
    ),
    Query(
        "window_running_over_all",
        (
            "SELECT id, sum(n) OVER w, max(n) OVER w FROM edge WINDOW w AS (ORDER BY id "
            f"{_ROWS} UNBOUNDED PRECEDING AND CURRENT ROW)"
        ),
    ),
    Query(
        "window_shrinking_rows",
        f"SELECT id, sum(n) OVER w, min(dt) OVER w, max(d38) OVER w FROM edge "
        f"WINDOW w AS (PARTITION BY k ORDER BY n, id {_ROWS} CURRENT ROW AND UNBOUNDED FOLLOWING)",
    ),
    Query(
        "window_shrinking_peers",
        f"SELECT id, sum(n) OVER w, count(*) OVER w FROM edge "
        f"WINDOW w AS (PARTITION BY k ORDER BY i8 DESC NULLS LAST {_RANGE} CURRENT ROW "
        "AND UNBOUNDED FOLLOWING)",
    ),
    Query(
        "window_rows_with_offsets_and_no_end",
        f"SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id {_ROWS} UNBOUNDED PRECEDING "
        "AND 2 PRECEDING), "
        f"sum(n) OVER (PARTITION BY k ORDER BY id {_ROWS} 3 FOLLOWING AND UNBOUNDED FOLLOWING), "
        f"count(*) OVER (PARTITION BY k ORDER BY id {_ROWS} UNBOUNDED PRECEDING AND 5 "
        "FOLLOWING) FROM edge",
    ),
    # Sliding frames.
    Query(
        "window_sliding_rows",
        "SELECT id, sum(n) OVER w, avg(q) OVER w, min(nullif(f64, 0.0D)) OVER w, max(s) "
        "OVER w, count(s) OVER w, sum(d38 % 1000) OVER w "
        f"FROM edge WINDOW w AS (PARTITION BY k ORDER BY id {_ROWS} 3 PRECEDING AND 2 FOLLOWING)",
        ansi=BOTH,
    ),
    Query(
        "window_sliding_rows_away",
        f"SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id {_ROWS} 5 PRECEDING AND 2 PRECEDING), "
        f"max(q) OVER (PARTITION BY k ORDER BY id {_ROWS} 2 FOLLOWING AND 7 FOLLOWING), "
        f"count(*) OVER (PARTITION BY k ORDER BY id {_ROWS} 1 FOLLOWING AND 1 FOLLOWING) FROM edge",
    ),
    Query(
        "window_peers_only",
        f"SELECT id, sum(n) OVER (PARTITION BY k ORDER BY i8 {_RANGE} CURRENT ROW AND "
        "CURRENT ROW), "
        f"count(*) OVER (ORDER BY f64, b {_RANGE} CURRENT ROW AND CURRENT ROW) FROM edge",
    ),
    Query(
        "window_moments_sliding",
        "SELECT id, round(stddev_samp(i8) OVER w, 6), round(var_pop(q) OVER w, 6) FROM "
        "edge WHERE q IS NOT NULL "
        f"WINDOW w AS (PARTITION BY k ORDER BY id {_ROWS} 9 PRECEDING AND CURRENT ROW)",
    ),
    # RANGE with offsets.
    Query(
        "window_range_integers",
        f"SELECT id, sum(n) OVER (PARTITION BY k ORDER BY n {_RANGE} 1000 PRECEDING AND "
        "500 FOLLOWING), "
        f"count(*) OVER (PARTITION BY k ORDER BY n DESC {_RANGE} 1000 PRECEDING AND CURRENT ROW), "
        f"min(q) OVER (ORDER BY n NULLS LAST {_RANGE} 10 FOLLOWING AND 100 FOLLOWING) FROM edge",
        ansi=BOTH,
    ),
    Query(
        "window_range_floats",
        f"SELECT id, count(*) OVER (ORDER BY f64 {_RANGE} 1.5D PRECEDING AND 1.5D FOLLOWING), "
        f"sum(n) OVER (PARTITION BY b ORDER BY q DESC NULLS FIRST {_RANGE} 10.0D "
        "PRECEDING AND 2.5D FOLLOWING) FROM edge",
    ),
    Query(
        "window_range_decimals",
        f"SELECT id, count(*) OVER (ORDER BY d9 {_RANGE} 5 PRECEDING AND 5 FOLLOWING), "
        f"sum(n) OVER (PARTITION BY k ORDER BY d18 DESC {_RANGE} 100.5 PRECEDING AND "
        "CURRENT ROW) FROM edge",
    ),
    Query(
        "window_range_decimals_at_the_edge",
        (
            f"SELECT id, count(*) OVER (ORDER BY d9 {_RANGE} CURRENT ROW AND 9999999.99 "
            "FOLLOWING) FROM edge"
        ),
        ansi=BOTH,
    ),
    Query(
        "window_range_dates",
        f"SELECT id, count(*) OVER (PARTITION BY k ORDER BY dt {_RANGE} 100 PRECEDING "
        "AND 100 FOLLOWING), "
        f"count(*) OVER (PARTITION BY k ORDER BY dt DESC {_RANGE} INTERVAL 30 DAYS "
        "PRECEDING AND CURRENT ROW), "
        f"sum(n) OVER (PARTITION BY k ORDER BY dt {_RANGE} INTERVAL 2 MONTHS PRECEDING "
        "AND INTERVAL 12 MONTHS FOLLOWING) "
        f"FROM edge WHERE dt BETWEEN DATE'1000-01-01' AND DATE'9000-01-01' OR dt IS NULL",
    ),
    Query(
        "window_range_instants",
        f"SELECT id, count(*) OVER (PARTITION BY k ORDER BY ts {_RANGE} INTERVAL '12:00' "
        "HOUR TO MINUTE PRECEDING AND "
        f"INTERVAL '10:30' HOUR TO MINUTE FOLLOWING) FROM edge "
        "WHERE ts BETWEEN TIMESTAMP'1000-01-01 00:00:00 UTC' AND TIMESTAMP'9000-01-01 "
        "00:00:00 UTC'",
    ),
    Query(
        "window_range_instants_by_days",
        f"SELECT id, count(*) OVER (PARTITION BY k ORDER BY ts {_RANGE} INTERVAL 30 DAYS "
        "PRECEDING AND CURRENT ROW), "
        f"sum(n) OVER (PARTITION BY k ORDER BY ts DESC {_RANGE} INTERVAL '1 01:30' DAY "
        "TO MINUTE PRECEDING AND "
        f"INTERVAL '100 00:00' DAY TO MINUTE FOLLOWING) FROM {_SOON}",
    ),
    Query(
        "window_range_instants_by_months",
        f"SELECT id, count(*) OVER (PARTITION BY k ORDER BY ts {_RANGE} INTERVAL 1 MONTH "
        "PRECEDING AND INTERVAL 24 MONTHS FOLLOWING), "
        f"count(*) OVER (ORDER BY ts DESC {_RANGE} INTERVAL 7 MONTHS PRECEDING AND CURRENT ROW), "
        f"sum(n) OVER (ORDER BY ts {_RANGE} INTERVAL '1-1' YEAR TO MONTH PRECEDING AND "
        f"INTERVAL '0-3' YEAR TO MONTH FOLLOWING) FROM {_SOON}",
    ),
    Query(
        "window_range_clocks",
        f"SELECT id, count(*) OVER (PARTITION BY k ORDER BY ntz {_RANGE} INTERVAL '40 "
        "00:00' DAY TO MINUTE PRECEDING AND "
        f"INTERVAL '0 01:00' DAY TO MINUTE FOLLOWING), "
        f"count(*) OVER (PARTITION BY k ORDER BY ntz DESC {_RANGE} INTERVAL 2 MONTHS "
        "PRECEDING AND CURRENT ROW), "
        f"sum(n) OVER (ORDER BY ntz {_RANGE} CURRENT ROW AND INTERVAL 21 DAYS FOLLOWING) "
        f"FROM {_SOON}",
    ),
    Query(
        "window_range_decimals_of_all_digits",
        f"SELECT id, count(*) OVER (ORDER BY d38 {_RANGE} cast(5 AS DECIMAL(38, 10)) "
        "PRECEDING AND cast(500000 AS DECIMAL(38, 10)) FOLLOWING), "
        f"sum(n) OVER (ORDER BY d38 DESC {_RANGE} cast(1e27 AS DECIMAL(38, 10)) "
        "PRECEDING AND cast(9e27 AS DECIMAL(38, 10)) FOLLOWING) FROM edge",
        ansi=BOTH,
    ),
    Query(
        "window_range_wraps",
        f"SELECT id, count(*) OVER (ORDER BY i32 {_RANGE} 5 PRECEDING AND 5 FOLLOWING), "
        f"sum(n) OVER (ORDER BY i8 {_RANGE} CURRENT ROW AND cast(100 AS TINYINT) "
        "FOLLOWING) FROM edge",
        ansi=OFF,
    ),
    Query(
        "window_range_overflows",
        f"SELECT id, count(*) OVER (ORDER BY i64 {_RANGE} 5 PRECEDING AND 5 FOLLOWING) FROM edge",
        error="ARITHMETIC_OVERFLOW",
    ),
    # Values of other rows.
    Query(
        "window_lead_lag",
        "SELECT id, lead(n) OVER w, lag(n) OVER w, lead(s, 3) OVER w, lag(d38, 2) OVER "
        "w, lead(dt, 0) OVER w, lag(f64, -1) OVER w "
        "FROM edge WINDOW w AS (PARTITION BY k ORDER BY id)",
    ),
    Query(
        "window_lead_lag_defaults",
        "SELECT id, lead(n, 2, -1) OVER w, lag(s, 1, 'none') OVER w, lag(n, 5, id) OVER "
        "w, lead(q, 10000, q) OVER w, "
        "lag(d9, 1, cast(0 AS DECIMAL(9, 2))) OVER w FROM edge WINDOW w AS (PARTITION BY "
        "k ORDER BY id)",
    ),
    Query(
        "window_lead_lag_ignore_nulls",
        "SELECT id, lead(s, 2) IGNORE NULLS OVER w, lag(n) IGNORE NULLS OVER w, lag(i8, "
        "3, i8) IGNORE NULLS OVER w, "
        "lead(dt, 1, DATE'2000-01-01') IGNORE NULLS OVER w, lag(q, 0) IGNORE NULLS OVER w "
        "FROM edge WINDOW w AS (PARTITION BY k ORDER BY id)",
    ),
    Query(
        "window_first_last",
        "SELECT id, first_value(s) OVER w, last_value(s) OVER w, first(n) IGNORE NULLS "
        "OVER w, last(d38, true) OVER w, "
        "any_value(bin) OVER w FROM edge WINDOW w AS (PARTITION BY k ORDER BY id)",
    ),
    Query(
        "window_first_last_of_frames",
        "SELECT id, first(s) OVER w, last(s) OVER w, first(s, true) OVER w, last(i8, "
        "true) OVER w, first(b) OVER w FROM edge "
        f"WINDOW w AS (PARTITION BY k ORDER BY id {_ROWS} 2 FOLLOWING AND 4 FOLLOWING)",
    ),
    Query(
        "window_first_last_of_partition",
        "SELECT id, first(s) OVER w, last(s) OVER w, first(s, true) OVER w, last(d9, "
        "true) OVER w FROM edge "
        f"WINDOW w AS (PARTITION BY k ORDER BY id {_ROWS} UNBOUNDED PRECEDING AND "
        "UNBOUNDED FOLLOWING)",
    ),
    Query(
        "window_nth_value",
        f"SELECT id, nth_value(s, 2) OVER w, nth_value(n, 3) IGNORE NULLS OVER w, "
        f"nth_value(q, 4) OVER (PARTITION BY k ORDER BY id {_ROWS} 2 PRECEDING AND 3 FOLLOWING), "
        f"nth_value(i8, 2) IGNORE NULLS OVER (PARTITION BY k ORDER BY id {_ROWS} "
        "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), "
        f"nth_value(i8, 9) IGNORE NULLS OVER (PARTITION BY k ORDER BY id {_ROWS} "
        "UNBOUNDED PRECEDING AND CURRENT ROW), "
        f"nth_value(s, 5000) OVER (PARTITION BY k ORDER BY id {_ROWS} UNBOUNDED "
        "PRECEDING AND UNBOUNDED FOLLOWING) "
        f"FROM edge WINDOW w AS (PARTITION BY k ORDER BY id)",
    ),
    # Errors as Spark's.
    Query(
        "window_error_sum_overflows",
        "SELECT id, sum(i64) OVER (PARTITION BY k) FROM edge WHERE i64 > 0",
        error="ARITHMETIC_OVERFLOW",
    ),
    Query(
        "window_error_running_sum_overflows",
        "SELECT id, sum(i64) OVER (ORDER BY id) FROM edge WHERE i64 > 0",
        error="ARITHMETIC_OVERFLOW",
    ),
    Query(
        "window_sums_wrap",
        f"SELECT id, sum(i64) OVER (PARTITION BY k), sum(i64) OVER (ORDER BY id), "
        f"sum(i64) OVER (ORDER BY id {_ROWS} 3 PRECEDING AND 3 FOLLOWING) FROM edge",
        ansi=OFF,
    ),
    Query(
        "window_sums_overflow_only_where_they_are_made",
        (
            f"SELECT id, sum(i64) OVER (PARTITION BY id), sum(i64) OVER (ORDER BY id {_ROWS} "
            "CURRENT ROW AND CURRENT ROW) FROM edge"
        ),
    ),
    Query(
        "window_decimal_sum_null_on_overflow",
        (
            "SELECT id, sum(d38 * 100) OVER (PARTITION BY k ORDER BY id) IS NULL FROM edge "
            "WHERE d38 > 0"
        ),
        ansi=OFF,
    ),
    # Among other operators.
    Query(
        "window_several",
        "SELECT id, rank() OVER (PARTITION BY k ORDER BY n), sum(q) OVER (PARTITION BY b), "
        "row_number() OVER (ORDER BY id DESC), avg(n) OVER (PARTITION BY k), lag(id) "
        "OVER (PARTITION BY b ORDER BY id) FROM edge",
    ),
    Query(
        "window_over_aggregate",
        "SELECT k, b, sum(n), sum(sum(n)) OVER (PARTITION BY k), rank() OVER (ORDER BY "
        "sum(n) DESC), "
        "avg(count(*)) OVER () FROM edge GROUP BY k, b",
    ),
    Query(
        "window_over_rollup",
        "SELECT k, b, sum(n), rank() OVER (PARTITION BY grouping(k) + grouping(b), CASE "
        "WHEN grouping(b) = 0 THEN k END "
        "ORDER BY sum(n) DESC) FROM edge GROUP BY ROLLUP (k, b)",
    ),
    Query(
        "window_under_aggregate",
        "SELECT k, max(r), sum(total) FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY i16) r, "
        "sum(n) OVER (PARTITION BY k) total FROM edge) GROUP BY k",
    ),
    Query(
        "window_rank_filter",
        (
            "SELECT * FROM (SELECT id, k, n, rank() OVER (PARTITION BY k ORDER BY n DESC) r "
            "FROM edge) WHERE r <= 5"
        ),
    ),
    Query(
        "window_dense_rank_filter",
        (
            "SELECT * FROM (SELECT id, g, dense_rank() OVER (PARTITION BY g ORDER BY at) r "
            "FROM events) WHERE r < 3"
        ),
    ),
    Query(
        "window_row_number_filter",
        (
            "SELECT * FROM (SELECT id, g, n, row_number() OVER (PARTITION BY g ORDER BY n "
            "NULLS LAST, id) r FROM events) WHERE r = 1"
        ),
    ),
    Query(
        "window_row_number_filter_over_all",
        (
            "SELECT * FROM (SELECT id, v, row_number() OVER (ORDER BY v, id) r FROM events) "
            "WHERE r <= 20"
        ),
    ),
    Query(
        "window_rank_filter_over_all",
        "SELECT * FROM (SELECT id, at, rank() OVER (ORDER BY at DESC) r FROM events) WHERE r <= 50",
    ),
    Query(
        "window_under_join",
        "SELECT a.id, a.r, b.id FROM (SELECT id, k, row_number() OVER (PARTITION BY k "
        "ORDER BY id) r FROM edge) a "
        "JOIN (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) r FROM edge) "
        "b ON a.k = b.k AND a.r = b.r + 1",
    ),
    Query(
        "window_over_join",
        "SELECT a.id, sum(b.n) OVER (PARTITION BY a.id ORDER BY b.id), count(*) OVER "
        "(PARTITION BY b.k) "
        "FROM edge a JOIN edge b ON a.id = b.id",
    ),
    Query(
        "window_over_merge_join",
        "SELECT /*+ MERGE(b) */ a.id, row_number() OVER (PARTITION BY a.k ORDER BY a.id, "
        "b.id) FROM edge a "
        "JOIN edge b ON a.k = b.k WHERE b.id < 30",
    ),
    Query(
        "window_then_limit",
        "SELECT id, n, row_number() OVER (ORDER BY n, id) FROM edge LIMIT 10",
    ),
    Query(
        "window_of_many_rows",
        "SELECT g, count(*), sum(s1), sum(s2), max(r) FROM (SELECT g, sum(n) OVER w s1, "
        "sum(q) OVER (PARTITION BY g "
        f"ORDER BY at, id {_ROWS} 100 PRECEDING AND CURRENT ROW) s2, rank() OVER w r FROM events "
        f"WINDOW w AS (PARTITION BY g ORDER BY at)) GROUP BY g",
    ),
    Query(
        "window_of_one_big_partition",
        "SELECT sum(s), max(m), min(r) FROM (SELECT sum(n) OVER w s, max(v) OVER w m, "
        "row_number() OVER w r FROM events "
        f"WINDOW w AS (ORDER BY at, id {_ROWS} UNBOUNDED PRECEDING AND CURRENT ROW))",
    ),
    Query(
        "window_of_small_partitions",
        "SELECT count(*), sum(c), max(m) FROM (SELECT count(*) OVER w c, max(n) OVER w m "
        "FROM events "
        "WINDOW w AS (PARTITION BY v ORDER BY id))",
    ),
    Query(
        "window_in_order_by",
        (
            "SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM edge "
            "ORDER BY r, k, id"
        ),
        ordered=True,
    ),
    Query(
        "window_of_constants",
        (
            "SELECT id, count(NULL) OVER (PARTITION BY k), sum(1) OVER (PARTITION BY k), "
            "lead('x') OVER (ORDER BY id) FROM edge"
        ),
    ),
    Query(
        "window_with_subquery",
        (
            "SELECT id, n - (SELECT min(n) FROM edge), sum(n - (SELECT min(n) FROM edge)) "
            "OVER (PARTITION BY k) FROM edge"
        ),
    ),
]
