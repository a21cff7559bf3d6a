package org.apache.spark.sql.coffer.translate

/** The queries whose translation is kept under version control. */
object GoldenQueries {
  final case class Query(name: String, sql: String, conf: Seq[(String, String)] = Nil)

  private val legacy = Seq("spark.sql.ansi.enabled" -> "false")
  // for types that hashing cannot update
  private val sortAggregate = Seq("spark.sql.execution.useHashAggregateExec" -> "false")

  private val shuffled = Seq("spark.sql.autoBroadcastJoinThreshold" -> "-1")

  val all: Seq[Query] = Seq(
    Query(
      "tpch_q1",
      ("SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, " +
        """sum(l_extendedprice) AS sum_base_price,
        |  sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
        |  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
        |  avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, """ +
        """avg(l_discount) AS avg_disc, count(*) AS count_order
        |FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day
        |GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""").stripMargin),
    Query(
      "tpch_q6",
      ("""SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        |WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-01' + """ +
        """interval '1' year
        |  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24""").stripMargin),
    // filters
    Query("filter_pushed_whole", "SELECT i FROM t WHERE i > 3 AND s IS NOT NULL"),
    Query("filter_fallible_kept_in_order",
      "SELECT i FROM t WHERE i <> 0 AND 10 / i > 2 AND l < " +
        "7 AND 100 / l > 3"),
    Query("filter_legacy_division", "SELECT i FROM t WHERE 10 / i > 2", legacy),
    Query("filter_in", "SELECT i FROM t WHERE i IN (3, 1, 2) AND s IN ('a', s || 'b')"),
    Query("filter_in_set", "SELECT i FROM t WHERE i IN (1,2,3,4,5,6,7,8,9,10,11,12)"),
    Query("filter_like",
      "SELECT s FROM t WHERE s LIKE 'a%b_c' AND s LIKE 'x%' AND s NOT LIKE " +
        "'%y' AND s LIKE '%z%'"),
    Query("filter_like_escape",
      "SELECT s FROM t WHERE s LIKE '10/%%' ESCAPE '/' AND s LIKE ALL " +
        "('a_b%', 'c_d%')"),
    Query("filter_nulls_and_nan", "SELECT d FROM t WHERE d <=> NULL OR isnan(d) OR d = 'NaN'"),
    // expressions
    Query("arithmetic_ansi",
      "SELECT i + 1, l - i, i * i, d / 2, l div 3, l % 5, pmod(i, 7), -i, " +
        "abs(l), ~i FROM t"),
    Query("arithmetic_legacy",
      "SELECT i + 1, l - i, i * i, d / 2, l div 3, l % 5, pmod(i, 7), " +
        "-i, abs(l) FROM t", legacy),
    Query("arithmetic_try",
      "SELECT try_add(i, 1), try_divide(l, i), try_multiply(m, m), " +
        "try_cast(s AS INT) FROM t"),
    Query("decimal",
      "SELECT m + 1.5, m * m, m / 3, m % 7, -m, round(m, 1), CAST(m AS " +
        "DECIMAL(5,1)) FROM t"),
    Query(
      "casts",
      "SELECT CAST(i AS STRING), CAST(s AS DATE), CAST(s AS TIMESTAMP), CAST(ts AS DATE), CAST(d " +
        "AS INT), " +
        "CAST(s AS DECIMAL(10,3)), CAST(ts AS TIMESTAMP_NTZ), CAST(tiny AS BOOLEAN), CAST(s AS " +
        "BINARY) FROM t"),
    Query(
      "conditional",
      "SELECT CASE WHEN i > 1 THEN 'a' WHEN i < 0 THEN s END, if(flag, i, 0), coalesce(i, tiny, " +
        "5), nvl2(s, 1, 2), " +
        "nullif(i, 3), greatest(i, 4, small), least(d, f) FROM t"),
    Query(
      "dates",
      "SELECT day + 3, date_sub(day, 2), datediff(day, date'2020-02-29'), add_months(day, 1), " +
        "year(day), month(ts), " +
        "quarter(day), dayofmonth(day), dayofweek(day), dayofyear(day), weekofyear(day), " +
        "last_day(day), trunc(day, 'MM'), " +
        "date_trunc('HOUR', ts), hour(ts), minute(ts), second(ntz), extract(YEAR FROM ts), " +
        "make_date(i, 1, 2), date_format(ts, 'yyyy-MM-dd HH:mm') FROM t"),
    Query(
      "strings",
      "SELECT upper(s), lower(s), length(s), octet_length(bin), substring(s, 2, 3), left(s, 2), " +
        "right(s, 2), s || 'x', " +
        "concat_ws('-', s, 'y'), trim(s), ltrim('0', s), trim(TRAILING 'z' FROM s), replace(s, " +
        "'a', 'b') FROM t"),
    Query("math",
      "SELECT round(d, 2), bround(m, 1), floor(d), ceil(m), sqrt(d), sign(d), pow(d, " +
        "2), ln(d), exp(d) FROM t"),
    Query(
      "literals",
      "SELECT true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 12.30BD, -7.5BD, 'ä', X'00ff', date'1969-12-31', " +
        "timestamp'2020-01-01 00:00:00', timestamp_ntz'2020-01-01 00:00:00', NULL, CAST(NULL AS " +
        "STRING), i FROM t"),
    Query("scalar_subquery",
      "SELECT i FROM t WHERE l > (SELECT avg(l) FROM t) AND d < (SELECT " +
        "max(d) FROM t)"),
    // aggregates
    Query("aggregate_without_group",
      "SELECT count(*), count(i), sum(i), avg(d), min(s), " +
        "max(day) FROM t"),
    Query("aggregate_group_only", "SELECT DISTINCT s, i FROM t"),
    Query("aggregate_float_key", "SELECT d, count(*) FROM t GROUP BY d"),
    Query("aggregate_expression_key",
      "SELECT year(day) AS y, sum(l) + 1 AS more FROM t GROUP BY " +
        "year(day) HAVING count(*) > 2"),
    Query("aggregate_distinct_one", "SELECT s, count(DISTINCT i), sum(l) FROM t GROUP BY s"),
    Query("aggregate_distinct_several",
      "SELECT count(DISTINCT i), count(DISTINCT l), sum(d) " +
        "FROM t"),
    Query("aggregate_filter",
      "SELECT s, sum(i) FILTER (WHERE flag), count(*) FILTER (WHERE i > " +
        "3) FROM t GROUP BY s"),
    Query("aggregate_modes", "SELECT try_sum(i), try_avg(m), sum(m), sum(f) FROM t"),
    Query("aggregate_legacy", "SELECT sum(i), avg(m), sum(m) FROM t", legacy),
    Query("aggregate_first_last",
      "SELECT first(s), last(s, true), any_value(i) FROM t GROUP BY " +
        "i", sortAggregate),
    Query("aggregate_moments", "SELECT stddev(d), var_pop(d), variance(i), stddev_pop(f) FROM t"),
    Query("grouping_sets",
      "SELECT s, i, sum(l), grouping_id() FROM t GROUP BY GROUPING SETS " +
        "((s), (s, i), ())"),
    // windows
    Query("window_ranks",
      "SELECT i, row_number() OVER w, rank() OVER w, percent_rank() OVER w, ntile(4) OVER w " +
        "FROM t WINDOW w AS (PARTITION BY s ORDER BY d DESC NULLS FIRST)"),
    Query("window_aggregates",
      "SELECT sum(i) OVER (PARTITION BY s), sum(m) OVER (PARTITION BY s), avg(CAST(m AS " +
        "DECIMAL(7, 2))) OVER (PARTITION BY s ORDER BY i ROWS 2 PRECEDING), " +
        "count(*) OVER () FROM t"),
    Query("window_other_rows",
      "SELECT lead(i) OVER w, lag(s, 2, 'none') IGNORE NULLS OVER w, nth_value(l, 3) OVER w, " +
        "last(s, true) OVER w FROM t WINDOW w AS (PARTITION BY flag ORDER BY i)"),
    Query("window_ranges",
      "SELECT count(*) OVER (ORDER BY i RANGE BETWEEN 5 PRECEDING AND CURRENT ROW), sum(i) OVER " +
        "(ORDER BY m DESC RANGE BETWEEN 1.5 PRECEDING AND UNBOUNDED FOLLOWING), sum(i) OVER " +
        "(ORDER BY day RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND INTERVAL 2 MONTHS FOLLOWING) " +
        "FROM t"),
    Query("window_group_limit",
      "SELECT i, r FROM (SELECT i, rank() OVER (PARTITION BY s ORDER BY l) r FROM t) WHERE r <= 3"),
    // order and limit
    Query("order_by", "SELECT i, s FROM t ORDER BY i DESC, s ASC NULLS LAST"),
    Query("order_by_hidden_column", "SELECT s FROM t ORDER BY i"),
    Query("order_by_limit", "SELECT i, s FROM t ORDER BY i LIMIT 5"),
    Query("order_by_limit_offset_project",
      "SELECT s || 'x' AS x FROM t ORDER BY i, d DESC LIMIT " +
        "5 OFFSET 2"),
    Query("order_by_huge_limit",
      "SELECT i FROM t ORDER BY i LIMIT " +
        "5", Seq("spark.sql.execution.topKSortFallbackThreshold" -> "3")),
    Query("limit", "SELECT i FROM t LIMIT 7"),
    Query("limit_offset", "SELECT i FROM t LIMIT 7 OFFSET 3"),
    Query("offset", "SELECT i FROM t OFFSET 3"),
    Query("limit_inside", "SELECT count(*) FROM (SELECT i FROM t LIMIT 7)"),
    Query("sort_within_partitions", "SELECT i FROM t SORT BY i"),
    // exchanges and sets
    Query("repartition_round_robin", "SELECT /*+ REPARTITION(3) */ i, s FROM t"),
    Query("repartition_hash", "SELECT /*+ REPARTITION(3, s) */ i, s FROM t"),
    Query("repartition_range", "SELECT /*+ REPARTITION_BY_RANGE(3, i) */ i, s FROM t"),
    Query("union_all",
      "SELECT i, s FROM t UNION ALL SELECT tiny, 'x' FROM t UNION ALL SELECT * " +
        "FROM VALUES (1, 'a'), (NULL, 'b')"),
    Query("union_distinct", "SELECT i FROM t UNION SELECT l FROM t"),
    Query("values",
      "SELECT * FROM VALUES (1, 'a', 1.5), (2, NULL, 2.25) AS v(a, b, c) WHERE a < " +
        "9"),
    // joins
    Query("join_broadcast_inner", "SELECT a.i, b.s FROM t a JOIN t b ON a.i = b.i AND a.l > b.l"),
    Query("join_broadcast_left",
      "SELECT /*+ BROADCAST(b) */ a.i, b.s FROM t a LEFT JOIN t b ON " +
        "a.i = b.i"),
    Query("join_broadcast_right",
      "SELECT /*+ BROADCAST(a) */ a.i, b.s FROM t a RIGHT JOIN t b " +
        "ON a.i = b.i AND a.s = b.s"),
    Query("join_semi", "SELECT i FROM t WHERE i IN (SELECT small FROM t WHERE l > 3)"),
    Query("join_anti",
      "SELECT i FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE a.i = b.i " +
        "AND a.d < b.d)"),
    Query("join_anti_null_aware", "SELECT i FROM t WHERE i NOT IN (SELECT small FROM t)"),
    Query("join_anti_null_aware_two_columns",
      "SELECT i FROM t WHERE (i, s) NOT IN (SELECT " +
        "small, s FROM t)"),
    Query("join_existence", "SELECT i FROM t WHERE i IN (SELECT small FROM t) OR s = 'x'"),
    Query("join_hash",
      "SELECT /*+ SHUFFLE_HASH(b) */ a.i, b.s FROM t a JOIN t b ON a.i = b.i " +
        "AND a.s = b.s", shuffled),
    Query("join_hash_full",
      "SELECT /*+ SHUFFLE_HASH(a) */ a.i, b.s FROM t a FULL JOIN t b ON " +
        "a.i = b.i", shuffled),
    Query("join_sort_merge",
      "SELECT a.i, b.s FROM t a JOIN t b ON a.i = b.i WHERE a.l < " +
        "b.l", shuffled),
    Query("join_packed_keys", "SELECT a.i FROM t a JOIN t b ON a.i = b.i AND a.small = b.small"),
    Query("join_null_safe", "SELECT a.i FROM t a JOIN t b ON a.i <=> b.i"),
    Query("join_float_key", "SELECT a.i FROM t a JOIN t b ON a.d = b.d"),
    Query("join_mixed_types", "SELECT a.i FROM t a JOIN t b ON a.i = b.m"),
    Query("join_nested_loop", "SELECT a.i, b.s FROM t a JOIN t b ON a.d < b.d"),
    Query("join_nested_loop_left",
      "SELECT /*+ BROADCAST(b) */ a.i, b.s FROM t a LEFT JOIN t b " +
        "ON a.d < b.d"),
    Query("join_product", "SELECT a.i, b.s FROM t a JOIN t b ON a.d < b.d", shuffled),
    Query("join_cross_count", "SELECT count(*) FROM t a CROSS JOIN t b"),
    Query("join_of_aggregates",
      "SELECT x.i, y.n FROM (SELECT i, sum(l) s FROM t GROUP BY i) x JOIN (SELECT i, count(*) n " +
        "FROM t GROUP BY i) y ON x.i = y.i AND x.s > y.n",
      shuffled),
    Query("join_values",
      "SELECT t.s, v.n FROM t JOIN VALUES (1, 'one'), (2, 'two') AS v(k, n) " +
        "ON t.i = v.k"),
    Query("join_union",
      "SELECT a.i FROM t a JOIN t b ON a.i = b.i UNION ALL SELECT a.i FROM t a " +
        "JOIN t b ON a.l = b.l"),
    Query("join_correlated_scalar", "SELECT i, (SELECT max(d) FROM t b WHERE b.i = a.i) FROM t a"))
}
