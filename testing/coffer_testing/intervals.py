"""Queries over intervals and times of day, and those that end in an error: exactly Spark's answers
are asked for. `t` is a table of its own, which `MAKE` writes."""

from __future__ import annotations

MAKE = """
spark.range(400).selectExpr(
    "id",
    "int(id % 5) k",
    "if(id % 11 = 0, null, make_ym_interval(int(id % 7 - 3), int(id % 13))) ym",
    "cast(make_ym_interval(int(id % 5 - 2), 0) as interval year) y",
    "if(id % 7 = 0, null, make_dt_interval(int(id % 9 - 4), int(id % 24), int(id % 60), "
    "id * 1.000037)) dt",
    "cast(make_dt_interval(0, int(id % 50 - 25), int(id % 60)) as interval hour to minute) h",
    "if(id % 13 = 0, null, make_time(int(id % 24), int(id % 60), id % 60 + 0.123456)) c",
    "cast(make_time(int(id % 3), 5, id % 7 + 0.9999) as time(2)) c2",
    "date_add(date'2020-02-20', int(id)) d",
    "timestamp_micros(1583650000000000 + id * 3600000000) ts",
    "cast(timestamp_micros(id * 7777777777) as timestamp_ntz) ntz",
    "if(id % 4 = 0, null, array(make_dt_interval(int(id % 3)), null)) a",
    "named_struct('m', make_ym_interval(0, int(id % 4)), 't', "
    "array(make_time(int(id % 24), 0, 0)), 'p', map('k', make_dt_interval(0, int(id % 5)))) s",
).repartition(2, 'id').write.parquet(folder)
"""

QUERIES = {
    # PySpark cannot collect intervals of months: as texts.
    "all": "SELECT id, k, string(ym), dt, h, c, c2, d, ts, ntz, a, string(s) FROM t",
    "texts": "SELECT id, string(ym), string(y), string(dt), string(h), string(c), string(c2), "
    "string(a), string(s) FROM t",
    "filter": "SELECT id FROM t WHERE ym > INTERVAL '1-6' YEAR TO MONTH OR dt <= INTERVAL '-1' DAY",
    "filter_of_times": "SELECT id FROM t WHERE c BETWEEN TIME'06:00:00' AND TIME'11:30:00'",
    "in": "SELECT id FROM t WHERE y IN (INTERVAL '1' YEAR, INTERVAL '-2' YEAR) AND c2 <> "
    "cast(TIME'01:05:01' as time(2))",
    "arithmetic": "SELECT id, string(ym + y), string(ym - INTERVAL '5' MONTH), string(dt + h), "
    "string(-dt), string(abs(dt)), string(dt * 2.5), string(dt / (k + 1)), string(ym * k), "
    "string(try_divide(dt, k)) FROM t",
    "instants": "SELECT id, d + ym, ts + dt, ts - h, ntz + dt, ts + ym, string(ts - ntz), "
    "string(d - DATE'2020-03-01'), string(ts - d) FROM t",
    "fields": "SELECT id, extract(YEAR FROM ym), extract(MONTH FROM ym), extract(DAY FROM dt), "
    "extract(HOUR FROM dt), extract(SECOND FROM dt), hour(c), minute(c), second(c), "
    "extract(SECOND FROM c2) FROM t",
    "times": "SELECT id, string(c + h), string(c - c2), string(time_trunc('MINUTE', c)), "
    "time_diff('SECOND', c2, c), string(make_timestamp_ntz(d, c)), string(to_time('0' || k || "
    "':05')) FROM t WHERE hour(c) = 12 AND h < INTERVAL '11' HOUR AND h > INTERVAL '-12' HOUR",
    "casts": "SELECT id, int(y), bigint(cast(h as interval minute)), string(cast(dt as interval "
    "day)), cast(c as decimal(14, 6)), string(cast(c as time(0))), string(cast('' || k as "
    "interval hour)), string(cast('1-' || k as interval year to month)), string(cast(k as "
    "interval month)) FROM t",
    "sums": "SELECT k, string(sum(ym)), string(sum(dt)), string(avg(ym)), string(avg(dt)), "
    "count(dt), string(sum(h)) FROM t GROUP BY k",
    "sum_of_none": "SELECT string(sum(ym)), string(avg(dt)) FROM t WHERE id < 0",
    "extremes": "SELECT k, string(min(ym)), string(max(dt)), string(min(c)), string(max(c2)), "
    "string(min_by(c, dt)), string(max_by(ym, id)) FROM t GROUP BY k",
    "lists": "SELECT k, string(sort_array(collect_set(y))), string(sort_array(collect_list(c2))), "
    "approx_count_distinct(c), approx_count_distinct(dt), string(mode(y)) FROM t GROUP BY k",
    "groups": "SELECT string(y), string(c2), count(*), count(DISTINCT dt), count(DISTINCT c) FROM "
    "t GROUP BY y, c2",
    "distinct": "SELECT string(ym), c2 FROM (SELECT DISTINCT ym, c2 FROM t)",
    "nested_group": "SELECT string(s.m), count(*) FROM t GROUP BY s.m",
    "sorted": "SELECT id, string(ym) FROM t ORDER BY ym DESC NULLS LAST, c, dt LIMIT 30",
    "ranged": "SELECT /*+ REPARTITION_BY_RANGE(3, dt) */ id, string(dt) FROM t",
    "join": "SELECT a.id, b.id FROM t a JOIN t b ON a.h = b.h AND a.c2 = b.c2",
    "shuffled_join": "SELECT /*+ MERGE(b) */ a.id, b.id FROM t a LEFT JOIN t b ON a.dt = b.dt AND "
    "a.id <> b.id",
    "semi": "SELECT id FROM t WHERE c IN (SELECT make_time(1, int(id), id + 0.123456) FROM t "
    "WHERE id < 60)",
    "windows": "SELECT id, string(sum(dt) OVER (PARTITION BY k ORDER BY id)), string(lag(c, 2) "
    "OVER (PARTITION BY k ORDER BY id)), string(avg(ym) OVER (PARTITION BY k ORDER BY id ROWS 3 "
    "PRECEDING)), rank() OVER (ORDER BY c, dt, id) FROM t",
    "range_by_interval": "SELECT id, count(*) OVER (PARTITION BY k ORDER BY ym RANGE BETWEEN "
    "INTERVAL '1-0' YEAR TO MONTH PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY dt DESC "
    "RANGE BETWEEN INTERVAL '1 00:00:00' DAY TO SECOND PRECEDING AND INTERVAL '0 12:00:00' DAY TO "
    "SECOND FOLLOWING) FROM t",
    "range_of_dates": "SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '05:00' HOUR "
    "TO MINUTE PRECEDING AND INTERVAL '01:30' HOUR TO MINUTE FOLLOWING) FROM t",
    "subquery": "SELECT id, string(dt - (SELECT min(dt) FROM t)), string((SELECT max(c) FROM t)) "
    "FROM t",
    "nested": "SELECT id, string(transform(a, x -> x + h)), string(s.p['k']), "
    "string(array_max(s.t)), string(map_values(s.p)), size(a) FROM t",
    "exploded": "SELECT id, string(x), string(y) FROM t LATERAL VIEW explode(a) AS x WHERE id < 50",
    "unions": "SELECT string(ym), string(c) FROM t WHERE id < 5 UNION SELECT string(y), "
    "string(c2) FROM t",
    "values": "SELECT t.id, string(v.i), string(v.c) FROM t JOIN VALUES (1, INTERVAL '3' DAY, "
    "TIME'01:00:00'), (2, NULL, NULL) AS v(k, i, c) ON t.k = v.k",
    "hashes": "SELECT id, hash(ym, dt, c, a), xxhash64(c, y, s.t) FROM t",
    "conditional": "SELECT id, string(CASE WHEN k = 1 THEN dt WHEN k = 2 THEN h END), "
    "string(coalesce(c, cast(c2 AS time(6)))), string(greatest(ym, INTERVAL '1' YEAR)), "
    "string(nullif(c2, cast(TIME'00:05:00.99' AS time(2)))) FROM t",
    "at_the_client": "SELECT id, to_json(named_struct('i', dt)), string(make_interval(0, k, 0, "
    "k)) FROM t",
    "literal_of_both": "SELECT id, ts + make_interval(0, 1, 0, -1, 5), d + INTERVAL 1 MONTH FROM t",
    "percentiles": "SELECT k, string(percentile(dt, 0.5)), string(median(ym)) FROM t GROUP BY k",
    "grouping_sets": "SELECT string(y), string(c2), count(*) FROM t GROUP BY GROUPING SETS ((y), "
    "(c2), ())",
    "pivot": "SELECT * FROM (SELECT k, y, id FROM t) PIVOT (max(id) FOR y IN (INTERVAL '1' YEAR "
    "AS one, INTERVAL '-2' YEAR AS two))",
}

ERRORS = {
    "sum": "SELECT string(ym + INTERVAL '2147483647' MONTH) FROM t WHERE id = 12",
    "by_zero": "SELECT string(dt / (k - 1)) FROM t WHERE id = 1",
    "cast": "SELECT string(cast('x' || (id - id) as interval day)) FROM t",
    "cast_of_time": "SELECT string(cast('25:0' || k as time)) FROM t",
    "narrowed": "SELECT cast(ym * 100 as tinyint) FROM (SELECT cast(ym as interval month) ym FROM "
    "t)",
    "out_of_day": "SELECT string(c + INTERVAL '24' HOUR) FROM t WHERE id = 1",
    "make_time": "SELECT string(make_time(24 + int(id - id), 0, 0)) FROM t",
    "to_time": "SELECT string(to_time('x' || (id - id))) FROM t",
    "unit": "SELECT string(time_trunc('DAY' || k, c)) FROM t WHERE id = 1",
    "aggregate": "SELECT string(sum(cast(2147483647 as interval month))) FROM t",
}
