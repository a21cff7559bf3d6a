"""Joins, subqueries and unions, as data: on the generated tables of `data.py` and on TPC-H's. Same
rules as in `queries.py`.

`A` and `B` are two overlapping shares of `edge`: NULLs, NaN, both zeros, duplicates and each type's
extremes on both sides.
"""

from __future__ import annotations

from coffer_testing.queries import BOTH, Query

A = "(SELECT * FROM edge WHERE id % 6 < 2)"
B = "(SELECT * FROM edge WHERE id % 5 < 2 AND id > 300)"
FEW = "(SELECT * FROM edge WHERE id % 40 = 0)"
SOME = "(SELECT * FROM edge WHERE id % 30 = 1)"

_KEYS = [
    "b",
    "i8",
    "i16",
    "i32",
    "i64",
    "f32",
    "f64",
    "d9",
    "d18",
    "d38",
    "s",
    "bin",
    "dt",
    "ts",
    "ntz",
]

KEYS = [
    Query(
        f"key_{key}",
        f"SELECT a.id, b.id, a.{key} FROM {FEW} a JOIN {B} b ON a.{key} = b.{key}",
    )
    for key in _KEYS
] + [
    Query(
        f"key_{key}_full",
        f"SELECT a.id, b.id, b.{key} FROM {FEW} a FULL JOIN {SOME} b ON a.{key} = b.{key}",
    )
    for key in ("f64", "s", "d38", "ts")
]

TYPES = [
    Query(
        "inner_condition", f"SELECT a.id, b.id FROM {A} a JOIN {FEW} b ON a.k = b.k AND a.n < b.n"
    ),
    Query("left", f"SELECT a.id, b.id, b.s FROM {FEW} a LEFT JOIN {SOME} b ON a.k = b.k"),
    Query(
        "left_condition",
        f"SELECT a.id, b.id FROM {A} a LEFT JOIN {FEW} b ON a.k = b.k AND a.n < b.n AND b.b",
    ),
    Query(
        "left_then_filter",
        f"SELECT a.id FROM {A} a LEFT JOIN {B} b ON a.s = b.s WHERE b.id IS NULL",
    ),
    Query("right", f"SELECT a.id, b.id FROM {FEW} a RIGHT JOIN {B} b ON a.i32 = b.i32"),
    Query(
        "right_condition",
        f"SELECT a.id, b.id FROM {FEW} a RIGHT JOIN {A} b ON a.k = b.k AND a.q > b.q",
    ),
    Query(
        "full",
        f"SELECT a.id, b.id, a.k, b.k FROM {FEW} a FULL JOIN {SOME} b ON a.k = b.k AND a.b = b.b",
    ),
    Query(
        "full_condition",
        f"SELECT a.id, b.id FROM {FEW} a FULL JOIN {SOME} b ON a.k = b.k AND a.n < b.n",
    ),
    Query("semi_in", "SELECT id FROM edge WHERE s IN (SELECT s FROM edge WHERE id < 40)"),
    Query(
        "semi_exists",
        f"SELECT id FROM {A} a WHERE EXISTS (SELECT 1 FROM edge b WHERE a.k = b.k AND a.n < b.n - "
        f"80000)",
    ),
    Query(
        "anti_exists",
        f"SELECT id FROM {A} a WHERE NOT EXISTS (SELECT 1 FROM {FEW} b WHERE a.i8 = b.i8 AND a.n "
        f"<> b.n)",
    ),
    Query("anti_in", "SELECT id FROM edge WHERE k NOT IN (SELECT k FROM edge WHERE k < 3)"),
    Query(
        "anti_in_with_null", "SELECT id FROM edge WHERE k NOT IN (SELECT k FROM edge WHERE id < 50)"
    ),
    Query(
        "anti_in_of_nothing", "SELECT id FROM edge WHERE k NOT IN (SELECT k FROM edge WHERE id < 0)"
    ),
    Query(
        "anti_in_only_null",
        "SELECT id FROM edge WHERE k NOT IN (SELECT k FROM edge WHERE k IS NULL)",
    ),
    Query(
        "anti_in_floats",
        f"SELECT id FROM {A} WHERE f64 NOT IN (SELECT f64 FROM edge WHERE id < 60 AND f64 IS NOT "
        f"NULL)",
    ),
    Query(
        "anti_in_two_columns",
        f"SELECT id FROM {A} WHERE (k, b) NOT IN (SELECT k, b FROM {FEW} WHERE k < 2)",
    ),
    Query(
        "anti_in_correlated",
        f"SELECT id FROM {A} a WHERE n NOT IN (SELECT n FROM {B} b WHERE b.k = a.k)",
    ),
    Query("existence", f"SELECT id FROM {A} WHERE k IN (SELECT k FROM {FEW} WHERE b) OR n > 40000"),
    Query(
        "existence_twice",
        f"SELECT id FROM {A} a WHERE (EXISTS (SELECT 1 FROM {FEW} b WHERE b.s = a.s)) = (n > 0)",
    ),
    Query(
        "existence_not_in", f"SELECT id FROM {A} WHERE k NOT IN (SELECT k FROM {FEW}) OR id < 100"
    ),
    Query("cross", f"SELECT a.id, b.id FROM {FEW} a CROSS JOIN {SOME} b"),
    Query("cross_count", f"SELECT count(*) FROM {A} a CROSS JOIN {B} b"),
    Query(
        "cross_hint",
        f"SELECT /*+ SHUFFLE_REPLICATE_NL(a) */ a.id, b.id FROM {FEW} a JOIN {SOME} b ON a.k = b.k",
    ),
    Query("unequal", f"SELECT a.id, b.id FROM {FEW} a JOIN {SOME} b ON a.n < b.n AND a.q > b.q"),
    Query("unequal_floats", f"SELECT a.id, b.id FROM {FEW} a JOIN {SOME} b ON a.f64 >= b.f64"),
    Query(
        "unequal_left", f"SELECT a.id, b.id FROM {FEW} a LEFT JOIN {SOME} b ON a.n < b.n - 60000"
    ),
    Query(
        "unequal_right", f"SELECT a.id, b.id FROM {FEW} a RIGHT JOIN {SOME} b ON a.n < b.n - 60000"
    ),
    Query(
        "unequal_full", f"SELECT a.id, b.id FROM {FEW} a FULL JOIN {SOME} b ON a.n < b.n - 60000"
    ),
    Query(
        "unequal_semi",
        f"SELECT id FROM {A} a WHERE EXISTS (SELECT 1 FROM {FEW} b WHERE b.n > a.n + 50000)",
    ),
    Query(
        "unequal_anti",
        f"SELECT id FROM {A} a WHERE NOT EXISTS (SELECT 1 FROM {FEW} b WHERE b.n > a.n + 50000)",
    ),
    Query(
        "between",
        f"SELECT a.id, b.id FROM {A} a JOIN {FEW} b ON a.dt BETWEEN b.dt AND date_add(b.dt, 900)",
        ansi=BOTH,
    ),
]

SHAPES = [
    Query(
        "packed_keys",
        f"SELECT a.id, b.id FROM {A} a JOIN {B} b ON a.i8 = b.i8 AND a.i16 = b.i16 AND a.k = b.k",
    ),
    Query("null_safe", f"SELECT a.id, b.id FROM {FEW} a JOIN {SOME} b ON a.k <=> b.k"),
    Query("null_safe_full", f"SELECT a.id, b.id FROM {FEW} a FULL JOIN {SOME} b ON a.s <=> b.s"),
    Query(
        "null_safe_floats",
        f"SELECT a.id, b.id FROM {FEW} a JOIN {SOME} b ON a.f64 <=> b.f64 AND a.f32 <=> b.f32",
    ),
    Query("mixed_types", f"SELECT a.id, b.id FROM {A} a JOIN {FEW} b ON a.i32 = b.i64", ansi=BOTH),
    Query(
        "mixed_decimals",
        f"SELECT a.id, b.id FROM {A} a JOIN {FEW} b ON a.d9 = b.d18 OR a.d9 = b.k",
        ansi=BOTH,
    ),
    Query(
        "mixed_decimal_keys",
        f"SELECT a.id, b.id FROM {A} a JOIN {FEW} b ON a.d9 = b.d18",
        ansi=BOTH,
    ),
    Query(
        "expression_keys",
        f"SELECT a.id, b.id FROM {FEW} a JOIN {SOME} b ON a.n % 10 = abs(b.n) % 10 AND upper(a.s) "
        f"= upper(b.s)",
    ),
    Query("using", f"SELECT k, count(*), sum(a.n) FROM {A} a JOIN {B} b USING (k, b) GROUP BY k"),
    Query(
        "natural",
        "SELECT count(*) FROM (SELECT id, k, s FROM edge) NATURAL JOIN (SELECT id, s, n FROM edge)",
    ),
    Query("self", "SELECT a.id, b.id FROM edge a JOIN edge b ON a.id = b.id + 7 WHERE a.k = b.k"),
    Query(
        "three",
        f"SELECT a.id, b.id, c.id FROM {FEW} a JOIN {SOME} b ON a.k = b.k JOIN {FEW} c ON b.b = "
        f"c.b WHERE c.id < 400",
    ),
    Query(
        "three_one_key",
        f"SELECT count(*), sum(c.n) FROM {A} a JOIN {B} b ON a.i16 = b.i16 JOIN {FEW} c ON b.i16 "
        f"= c.i16",
    ),
    Query(
        "left_chain",
        f"SELECT a.id, b.id, c.id FROM {FEW} a LEFT JOIN {SOME} b ON a.i8 = b.i8 LEFT JOIN {FEW} "
        f"c ON b.i16 = c.i16",
    ),
    Query(
        "mixed_chain",
        f"SELECT count(*), count(b.id), count(c.id) FROM {A} a LEFT JOIN {B} b ON a.i8 = b.i8 "
        f"FULL JOIN {FEW} c ON "
        f"c.k = a.k",
    ),
    Query(
        "of_aggregates",
        "SELECT x.k, x.total, y.rows FROM (SELECT k, sum(q) AS total FROM edge GROUP BY k) x "
        "JOIN (SELECT k, count(*) AS rows FROM edge WHERE b GROUP BY k) y ON x.k = y.k",
    ),
    Query(
        "aggregate_above",
        f"SELECT a.k, count(DISTINCT b.s), count(DISTINCT a.i8), sum(b.q) FROM {A} a JOIN {FEW} b "
        f"ON a.k = b.k GROUP BY a.k",
    ),
    Query(
        "having_above",
        f"SELECT a.s, sum(b.n) AS x FROM {A} a JOIN {FEW} b ON a.k = b.k GROUP BY a.s HAVING "
        f"sum(b.n) > 1000 ORDER "
        f"BY x DESC, a.s LIMIT 9",
        ordered=True,
    ),
    Query(
        "sorted",
        f"SELECT a.id AS x, b.id AS y FROM {FEW} a JOIN {SOME} b ON a.k = b.k ORDER BY y DESC, x",
        ordered=True,
    ),
    Query(
        "values",
        "SELECT e.id, v.name FROM edge e JOIN VALUES (0, 'zero'), (1, 'one'), (NULL, 'none') AS "
        "v(k, name) ON e.k = v.k",
    ),
    Query(
        "values_left",
        "SELECT v.name, e.id FROM VALUES (2, 'two'), (99, 'many'), (NULL, 'none') AS v(k, name) "
        "LEFT JOIN edge e "
        "ON e.k = v.k",
    ),
    Query(
        "values_full",
        "SELECT v.name, e.id FROM VALUES (2, 'two'), (99, 'many'), (NULL, 'none') AS v(k, name) "
        "FULL JOIN edge e "
        "ON e.k = v.k",
    ),
    Query("values_cross", f"SELECT e.id, v.n FROM {FEW} e CROSS JOIN VALUES (1), (NULL) AS v(n)"),
    Query(
        "values_unequal",
        f"SELECT e.id, v.n FROM {FEW} e JOIN VALUES (1), (20000) AS v(n) ON e.n < v.n",
    ),
    Query(
        "nothing_inner",
        "SELECT a.id FROM edge a JOIN (SELECT * FROM edge WHERE n > 10000000) b ON a.k = b.k",
    ),
    Query(
        "nothing_left",
        "SELECT a.id, b.id FROM edge a LEFT JOIN (SELECT * FROM edge WHERE n > 10000000) b ON a.k "
        "= b.k",
    ),
    Query(
        "nothing_full",
        "SELECT a.id, b.id FROM (SELECT * FROM edge WHERE n > 10000000) a FULL JOIN edge b ON a.k "
        "= b.k",
    ),
    Query(
        "nothing_anti", "SELECT id FROM edge WHERE k NOT IN (SELECT k FROM edge WHERE n > 10000000)"
    ),
    Query(
        "union_of_joins",
        f"SELECT a.id FROM {FEW} a JOIN {SOME} b ON a.k = b.k UNION ALL SELECT a.id FROM {SOME} a "
        f"JOIN {FEW} b ON a.s = b.s",
    ),
    Query(
        "union_joined",
        f"SELECT u.id, f.id FROM (SELECT id, k FROM {FEW} UNION ALL SELECT id, k FROM {SOME} "
        f"UNION ALL VALUES "
        f"(-1L, 3)) u JOIN {FEW} f ON u.k = f.k",
    ),
    Query(
        "intersect",
        "SELECT k, b FROM edge WHERE id < 90 INTERSECT SELECT k, b FROM edge WHERE id > 900",
    ),
    Query("except", "SELECT s FROM edge WHERE id < 400 EXCEPT SELECT s FROM edge WHERE id > 600"),
    Query(
        "except_floats",
        "SELECT f64 FROM edge WHERE id < 400 EXCEPT SELECT f64 FROM edge WHERE id > 1150",
    ),
    Query(
        "lateral",
        f"SELECT a.id, x.m FROM {FEW} a, LATERAL (SELECT max(n) AS m FROM edge b WHERE b.k = a.k) "
        f"x",
    ),
    Query(
        "large",
        "SELECT count(*), sum(a.n), sum(b.q) FROM events a JOIN events b ON a.id = b.id + 1 WHERE "
        "a.n > b.n",
    ),
    Query(
        "large_group",
        "SELECT a.g, count(*), max(b.v) FROM events a JOIN events b ON a.n = b.n AND a.id <> b.id "
        "GROUP BY a.g",
    ),
    Query(
        "large_left", "SELECT count(*), count(b.id) FROM events a LEFT JOIN events b ON a.n = b.id"
    ),
    Query(
        "large_full",
        "SELECT count(*), count(a.id), count(b.id) FROM events a FULL JOIN events b ON a.n = b.id",
    ),
    Query(
        "large_semi", "SELECT count(*) FROM events WHERE n IN (SELECT id FROM events WHERE q > 0)"
    ),
    Query(
        "condition_fails",
        f"SELECT a.id FROM {A} a JOIN {B} b ON a.k = b.k AND a.n / b.k > 1",
        error="DIVIDE_BY_ZERO",
    ),
    Query(
        "condition_guarded",
        f"SELECT a.id, b.id FROM {FEW} a JOIN {B} b ON a.b = b.b AND b.k <> 0 AND a.n / b.k > "
        f"30000",
        ansi=BOTH,
    ),
    Query(
        "key_overflows",
        f"SELECT a.id FROM {A} a JOIN {B} b ON a.i64 + 1 = b.id",
        error="ARITHMETIC_OVERFLOW",
    ),
]

SUBQUERIES = [
    Query("scalar_where", "SELECT id FROM edge WHERE n > (SELECT avg(n) FROM edge)"),
    Query(
        "scalar_select",
        "SELECT id, n - (SELECT min(n) FROM edge), (SELECT max(s) FROM edge) FROM edge WHERE id < "
        "50",
    ),
    Query("scalar_none", "SELECT id, (SELECT n FROM edge WHERE id < 0) FROM edge WHERE id < 5"),
    Query(
        "scalar_alone",
        "SELECT (SELECT max(n) FROM edge), (SELECT count(*) FROM events WHERE q > 0)",
    ),
    Query(
        "scalar_after_order",
        "SELECT id, n - (SELECT min(n) FROM edge) FROM edge ORDER BY q DESC NULLS LAST, id LIMIT 9",
        ordered=True,
    ),
    Query(
        "scalar_after_limit",
        "SELECT id FROM (SELECT id, n, q FROM edge ORDER BY q, id LIMIT 99) "
        "WHERE n > (SELECT avg(n) FROM edge) AND q < (SELECT max(q) FROM edge)",
    ),
    Query(
        "scalar_having",
        "SELECT k, sum(q) FROM edge GROUP BY k HAVING sum(q) > (SELECT avg(q) FROM edge)",
    ),
    Query(
        "scalar_merged",
        "SELECT id FROM edge WHERE n > (SELECT avg(n) FROM edge) AND q < (SELECT max(q) FROM "
        "edge) AND id <> "
        "(SELECT min(id) FROM edge)",
    ),
    Query(
        "scalar_later",
        "SELECT k, count(*) FROM (SELECT k, sum(n) AS t FROM edge GROUP BY k, b) WHERE t > "
        "(SELECT min(n) FROM "
        "edge) GROUP BY k",
    ),
    Query(
        "scalar_nested",
        "SELECT id FROM edge WHERE n = (SELECT max(n) FROM edge WHERE n < (SELECT max(n) FROM "
        "edge))",
    ),
    Query(
        "scalar_in_join",
        f"SELECT a.id, b.id FROM {FEW} a JOIN {SOME} b ON a.k = b.k AND a.n < (SELECT avg(n) FROM "
        f"edge)",
    ),
    Query(
        "correlated",
        "SELECT id, (SELECT max(n) FROM edge b WHERE b.k = a.k AND b.b) FROM edge a WHERE id < 300",
    ),
    Query(
        "correlated_count",
        f"SELECT id, (SELECT count(*) FROM {FEW} b WHERE b.s = a.s) FROM edge a WHERE id < 300",
    ),
    Query(
        "correlated_where",
        "SELECT id FROM edge a WHERE n > (SELECT avg(n) + 20000 FROM edge b WHERE b.k = a.k)",
    ),
    Query(
        "correlated_single",
        "SELECT id, (SELECT b.s FROM edge b WHERE b.id = a.id + 7) FROM edge a WHERE id < 300",
    ),
    Query(
        "correlated_single_unequal",
        f"SELECT id, (SELECT b.s FROM {FEW} b WHERE b.id <= a.id AND b.id > a.id - 40) FROM edge a "
        f"WHERE id < 300",
    ),
    Query(
        "correlated_single_merge",
        "SELECT /*+ MERGE(a) */ id, n, (SELECT b.n FROM edge b WHERE b.id = a.id * 2 "
        "AND b.n < a.n) FROM edge a",
    ),
    Query(
        "correlated_single_in_where",
        f"SELECT id FROM {A} a WHERE n >= (SELECT b.n FROM edge b WHERE b.id = a.id - 1)",
    ),
    Query(
        "correlated_single_finds_several",
        "SELECT id, (SELECT b.s FROM edge b WHERE b.k = a.k) FROM edge a WHERE id < 300",
        error="SCALAR_SUBQUERY_TOO_MANY_ROWS",
    ),
    Query(
        "cte_twice",
        "WITH t AS (SELECT k, sum(q) AS x FROM edge GROUP BY k) SELECT a.k, b.k FROM t a JOIN t b "
        "ON a.x < b.x",
    ),
    Query(
        "cte_max",
        "WITH t AS (SELECT k, sum(q) AS x FROM edge GROUP BY k) SELECT k, x FROM t WHERE x = "
        "(SELECT max(x) FROM t)",
    ),
    Query("in_of_aggregate", "SELECT id FROM edge WHERE n IN (SELECT max(n) FROM edge GROUP BY k)"),
    Query(
        "exists_alone",
        "SELECT count(*) FROM edge WHERE EXISTS (SELECT 1 FROM edge WHERE n > 49000)",
    ),
    Query(
        "exists_alone_not",
        "SELECT count(*) FROM edge WHERE NOT EXISTS (SELECT 1 FROM edge WHERE n > 49999999)",
    ),
    Query(
        "in_case",
        f"SELECT id, CASE WHEN k IN (SELECT k FROM {FEW} WHERE b) THEN 'in' ELSE 'out' END FROM "
        f"{A}",
    ),
]

TPCH_JOINS = [
    Query(
        "orders_of_customers",
        "SELECT c_mktsegment, o_orderpriority, count(*), sum(o_totalprice) FROM customer JOIN "
        "orders ON c_custkey "
        "= o_custkey "
        "WHERE o_orderdate < DATE'1995-01-01' GROUP BY c_mktsegment, o_orderpriority",
    ),
    Query(
        "customers_without_orders",
        "SELECT c_nationkey, count(*) FROM customer LEFT ANTI JOIN orders ON c_custkey = "
        "o_custkey GROUP BY c_nationkey",
    ),
    Query(
        "lines_and_parts",
        "SELECT p_brand, sum(l_quantity), count(DISTINCT l_suppkey) FROM lineitem JOIN part ON "
        "l_partkey = p_partkey "
        "WHERE p_size < 10 GROUP BY p_brand ORDER BY p_brand",
        ordered=True,
    ),
    Query(
        "suppliers_everywhere",
        "SELECT r_name, count(*), sum(ps_availqty) FROM region JOIN nation ON r_regionkey = "
        "n_regionkey "
        "JOIN supplier ON n_nationkey = s_nationkey JOIN partsupp ON s_suppkey = ps_suppkey GROUP "
        "BY r_name",
    ),
]

JOINS = KEYS + TYPES + SHAPES + SUBQUERIES + TPCH_JOINS
