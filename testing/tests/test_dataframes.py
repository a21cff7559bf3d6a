"""What PySpark's DataFrame has over a sealed table, beside SQL: the same as plaintext Spark's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import one_of
from conftest import Expected, with_client_tail

HEAD = """
import pandas as pd, pyarrow as pa
import tempfile
from pyspark import StorageLevel
from pyspark.sql import functions as f, Window
edge, events = spark.table('edge'), spark.table('events')
def rows(df):
    return sorted(repr(list(row)) for row in df.collect())
def local(df, coffered):
    if not coffered:
        return df
    import coffer
    return coffer.local(df)
"""
CALLS = {
    "local_iterator": "result = [r.id for r in edge.select('id').orderBy('id').toLocalIterator()]",
    "foreach": (
        "seen = []\n"
        "(edge.where('id < 5').foreach(lambda r: seen.append(r.id)) if coffered else "
        "seen.extend(range(5)))\nresult = sorted(seen)"
    ),
    "foreach_partition": (
        "seen = []\n"
        "(edge.where('id < 5').foreachPartition(lambda it: seen.extend(r.id for r in it)) "
        "if coffered else seen.extend(range(5)))\nresult = sorted(seen)"
    ),
    "describe": "result = rows(edge.describe('id', 's').where(f.col('summary') != 'stddev'))",
    "summary": "result = rows(edge.select('id', 's').summary('count', 'min', '25%', 'max'))",
    "crosstab": "result = rows(edge.stat.crosstab('k', 'b'))",
    "freq_items": "result = len(edge.stat.freqItems(['k'], 0.2).collect())",
    "approx_quantile": "result = edge.approxQuantile(['n', 'q'], [0.1, 0.5, 0.9], 0.0)",
    "cov": "result = round(edge.na.drop(subset=['k', 'n']).stat.cov('k', 'n'), 3)",
    "na": "result = rows(edge.na.drop().na.fill(0).na.replace(1, 7).select('id', 'n', 'k'))",
    "pivot": "result = rows(edge.groupBy('k').pivot('b').agg(f.sum('n')))",
    "unpivot": "result = rows(edge.unpivot('id', ['n', 'i64'], 'v', 'x'))",
    "melt": "result = rows(edge.melt(['id'], ['n'], 'v', 'x'))",
    "transpose": "result = rows(edge.where('id < 5').select('id', 'n', 'k').transpose())",
    "rollup": "result = rows(edge.rollup('k', 'b').agg(f.count('*'), f.max('n')))",
    "drop_duplicates": "result = edge.dropDuplicates(['k']).count()",
    "from_a_list": (
        "few = spark.createDataFrame([(1, 'a'), (2, 'b'), (2, None)], 'id long, x string')\n"
        "result = rows(few.join(edge, 'id').select('id', 'x', 'n'))"
    ),
    "from_rows": (
        "from pyspark.sql import Row\n"
        "few = spark.createDataFrame([Row(id=i, x={'a': [i]}) for i in range(4)])\n"
        "result = rows(edge.join(few, 'id', 'left').where('id < 6').select('id', 'x.a'))"
    ),
    "from_pandas": (
        "few = spark.createDataFrame(pd.DataFrame({'id': [1, 2], 'x': ['a', 'b']}))\n"
        "result = rows(few.join(edge, 'id').select('id', 'x', 'n'))"
    ),
    "from_arrow": (
        "few = spark.createDataFrame(pa.table({'id': [1, 2], 'x': ['a', 'b']}))\n"
        "result = rows(few.join(edge, 'id').select('id', 'x', 'n'))"
    ),
    "from_an_rdd": (
        "few = spark.sparkContext.parallelize([(1, 'a'), (2, 'b')], 2).toDF(['id', 'x'])\n"
        "result = rows(few.union(edge.select('id', 's')).where('id < 4'))"
    ),
    "from_much": (
        "much = [(i, 'x' * 1000) for i in range(20000)]\n"
        "much = spark.createDataFrame(much, 'id long, x string')\n"
        "result = rows(much.join(edge, 'id').groupBy('k').agg(f.count('*'), f.max('x')))"
    ),
    "much_in_order": (
        "much = [(i, 'x' * 1000) for i in range(20000)]\n"
        "much = spark.createDataFrame(much, 'id long, x string')\n"
        "result = rows(much.join(edge, 'id').select('id').orderBy(f.desc('id')).limit(5))\n"
        "both = much.select('id').union(edge.select('id'))\n"
        "result += rows(both.orderBy(f.desc('id')).limit(5))"
    ),
    "function_beside_a_table": (
        "plus = f.udf(lambda i: i + 1, 'long')\n"
        "both = edge.select(plus('id').alias('id')).union(edge.select('id'))\n"
        "result = rows(both.orderBy('id').limit(9))"
    ),
    "random_split": (
        "whole = edge.select('id', 's', 'f64').union(edge.selectExpr('id + 1200', 's', 'f64'))\n"
        "def split():\n"
        "    return [[r.id for r in p.collect()] for p in whole.randomSplit([5.0, 3.0, 2.0], 42)]\n"
        "one, two = split(), split()\n"
        "whole = sorted(sum(one, []))\n"
        "result = [whole == list(range(2400)), one == two, min(map(len, one)) > 300]\n"
        "assert all(result), result"
    ),
    "sample_with_replacement": (
        "def sample(share):\n"
        "    return sorted(r.id for r in edge.select('id').sample(True, share, 7).collect())\n"
        "ids, few = sample(2.0), sample(0.1)\n"
        "result = [ids == sample(2.0), 2000 < len(ids) < 2800, 900 < len(set(ids)) < 1200, "
        "set(ids) | set(few) <= set(range(1200)), 60 < len(few) < 180]\n"
        "assert all(result), result"
    ),
    "range": "result = rows(spark.range(5).join(edge, 'id').select('id', 'n'))",
    "show": (
        "import contextlib, io\n"
        "out = io.StringIO()\n"
        "with contextlib.redirect_stdout(out):\n"
        "    edge.select('id', f.format_string('%S', 's')).orderBy('id').show(5)\n"
        "result = out.getvalue()"
    ),
    "tail_of_the_tail": "result = [list(r) for r in "
    "edge.orderBy('id').select('id', f.format_string('%S', 's')).tail(3)]",
    "to_pandas": "result = repr("
    "edge.orderBy('id').select('id', f.format_string('%S', 's')).toPandas()"
    ".to_dict('list'))",
    "to_arrow": "result = repr("
    "edge.orderBy('id').select('id', f.format_string('%S', 's')).toArrow()"
    ".to_pydict())",
    "cache": (
        "few = edge.where('id < 50').select('id', 'k', 'n').cache()\n"
        "result = [few.is_cached, few.count(), rows(few)]\n"
        "result += [rows(few.join(edge.select('id', 's'), 'id')), rows(few.union(few))]\n"
        "result += [rows(few.groupBy('k').agg(f.sum('n'))), few.agg(f.max('id')).first()[0]]\n"
        "less = few.where('k > 3').cache()\n"
        "result += [rows(less), rows(less.crossJoin(few.agg(f.max('n').alias('m'))))]\n"
        "few.unpersist(blocking=True)\n"
        "result += [few.is_cached, rows(few), rows(less)]\nspark.catalog.clearCache()"
    ),
    "cache_in_order": (
        "few = edge.orderBy(f.desc('id')).select('id', 'n').persist(StorageLevel.MEMORY_ONLY)\n"
        "result = [[list(r) for r in few.collect()], [list(r) for r in few.take(3)]]\n"
        "result += [str(few.storageLevel), [list(r) for r in few.tail(3)]]\n"
        "few.unpersist()"
    ),
    "cache_of_nothing": (
        "none = edge.where('id < 0').groupBy('k').count().cache()\n"
        "result = [rows(none), none.count(), rows(none.join(edge, 'k'))]\nnone.unpersist()"
    ),
    "cache_table": (
        "spark.sql('CACHE TABLE c AS SELECT k, count(*) AS n, collect_list(n) AS l FROM edge '\n"
        "          'GROUP BY k')\n"
        "result = [spark.catalog.isCached('c')]\n"
        "result += [rows(spark.sql('SELECT a.k, b.n, size(a.l) FROM c a JOIN c b USING (k) '\n"
        "                          'WHERE a.n > (SELECT min(n) FROM c)'))]\n"
        "spark.sql('UNCACHE TABLE c')\n"
        "result += [spark.catalog.isCached('c')]"
    ),
    "checkpoint": (
        "spark.sparkContext.setCheckpointDir(tempfile.mkdtemp())\n"
        "few = edge.groupBy('k').agg(f.sum('n').alias('n')).checkpoint()\n"
        "result = [rows(few), rows(few.join(few.select('k', f.col('n').alias('m')), 'k'))]\n"
        "late = few.where('k > 3').localCheckpoint(eager=False)\n"
        "result += [rows(late), rows(late.join(edge.select('id', 'k'), 'k'))]"
    ),
    "random_at_the_client": (
        "few = edge.where('id < 50').selectExpr('id', \"format_string('%S', s) AS t\", "
        "\"if(id > 3, uuid(), '') AS u\", 'monotonically_increasing_id() AS m')\n"
        "result = [few.count(), few.select('u').distinct().count(), "
        "few.select('m').distinct().count()]"
    ),
    "lists_at_the_client": (
        "keyed = edge.groupBy(f.format_string('%s', 'k').alias('t'))\n"
        "result = rows(keyed.agg(f.sort_array(f.collect_list('id')), f.max('n')))"
    ),
    "greatest_of_arrays_and_structs": (
        "pairs = edge.selectExpr('k', 'id', 'array(n, id) AS a', \"struct(k AS x, s AS y) AS z\")\n"
        "result = rows(pairs.groupBy('k').agg(f.max('a'), f.min('z')))\n"
        "w = Window.partitionBy('k').orderBy('id')\n"
        "result += rows(pairs.select('id', f.max('a').over(w)))"
    ),
    "cache_below_a_function": (
        "few = edge.where('id < 50').select('id', 's').cache()\n"
        "result = rows(few.select('id', f.format_string('%S', 's')))\nfew.unpersist()"
    ),
    "cache_of_a_function": (
        "ran = tempfile.mkstemp()[1]\n"
        "def noted(i):\n"
        "    open(ran, 'a').write('.')\n"
        "    return i + 1\n"
        "calls = lambda: len(open(ran).read())\n"
        "made = edge.where('id < 50').select('id', 'k', f.udf(noted, 'bigint')('id').alias('u'))\n"
        "few = made.cache()\n"
        "result = [few.is_cached, few.count(), rows(few)]\n"
        "first = calls()\n"
        "result += [rows(few.join(edge.select('id', 's'), 'id')), rows(few.union(few))]\n"
        "result += [rows(few.groupBy('k').agg(f.sum('u'))), few.agg(f.max('u')).first()[0]]\n"
        "less = few.where('u > 3').select(f.format_string('%S', 'u').alias('t')).cache()\n"
        "result += [rows(less), rows(less.crossJoin(few.agg(f.max('u').alias('m'))))]\n"
        "result += [calls() == first]\n"
        "few.unpersist(blocking=True)\n"
        "result += [few.is_cached, rows(few), rows(less), calls() > first]\n"
        "spark.sql(\"CACHE TABLE cf AS SELECT id, format_string('%S', s) AS t FROM edge\")\n"
        "result += [rows(spark.sql('SELECT t FROM cf WHERE id < (SELECT min(id) + 5 FROM cf)'))]\n"
        "spark.sql('UNCACHE TABLE cf')\nspark.catalog.clearCache()"
    ),
    "checkpoint_of_a_function": (
        "spark.sparkContext.setCheckpointDir(tempfile.mkdtemp())\n"
        "more = f.udf(lambda i: i + 1, 'bigint')\n"
        "made = edge.where('id < 20').select('id', more('id').alias('u'))\n"
        "few = made.checkpoint()\n"
        "result = [rows(few), rows(few.join(edge.select('id', 'n'), 'id'))]\n"
        "result += [rows(made.localCheckpoint(eager=False).where('u > 3'))]"
    ),
    "count": "result = edge.where(f.format_string('%S', 's') != 'x').count()",
    "local": (
        "few = local(edge.where('k > 0').select('id', 'k', 's'), coffered)\n"
        "w = Window.partitionBy('k').orderBy('id')\n"
        "few.createOrReplaceTempView('few')\n"
        "result = [\n"
        "    rows(few),\n"
        "    rows(few.groupBy('k').agg(f.count('*'), f.max('s'))),\n"
        "    rows(few.withColumn('r', f.row_number().over(w)).where('r < 3')),\n"
        "    rows(few.join(edge.select('id', 'n'), 'id').where('n > 5')),\n"
        "    rows(few.alias('a').join(few.alias('b'), f.expr('a.id = b.k'))),\n"
        "    rows(spark.sql('SELECT id FROM edge WHERE id > (SELECT avg(id) FROM few)')),\n"
        "    rows(few.select(f.udf(lambda x: x + 1, 'bigint')('id'))),\n"
        "    [r.id for r in few.orderBy(f.desc('id')).limit(4).collect()],\n"
        "    few.count(), few.where('1 = 0').count(), len(few.toPandas()),\n"
        "    few.union(edge.select('id', 'k', 's')).count(),\n"
        "]"
    ),
    "rdd": (
        "pairs = edge.select('k', 'id').rdd.map(lambda r: (r.k or 0, r.id))\n"
        "result = [sorted(pairs.reduceByKey(lambda a, b: a + b).collect()), pairs.count(), "
        "pairs.filter(lambda p: p[1] < 9).count(), edge.select('id').rdd.isEmpty()]"
    ),
    "observe": (
        "from pyspark.sql import Observation\n"
        "seen = Observation('seen')\n"
        "n = edge.observe(seen, f.count('*').alias('c'), f.max('id').alias('m'))"
        ".where('k > 0').count()\n"
        "result = [n, seen.get]"
    ),
    "recursive": (
        "result = [rows(spark.sql(q)) for q in (\n"
        "    'WITH RECURSIVE t(d, i) AS (SELECT 1, id FROM edge WHERE id < 3 UNION ALL '\n"
        "    'SELECT d + 1, e.id FROM t JOIN edge e ON e.id = t.i + 1 WHERE d < 5) '\n"
        "    'SELECT d, count(*), max(i) FROM t GROUP BY d',\n"
        "    'WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20) '\n"
        "    'SELECT s.n, e.k FROM s JOIN edge e ON e.id = s.n',\n"
        "    'WITH RECURSIVE s(n) AS (SELECT max(id) FROM edge WHERE id = 1 UNION ALL '\n"
        "    'SELECT n + 1 FROM s) SELECT n FROM s LIMIT 7')]"
    ),
    "learning": (
        "from pyspark.ml.feature import VectorAssembler\n"
        "from pyspark.ml.regression import LinearRegression\n"
        "points = edge.selectExpr('double(id) AS x', 'double(coalesce(k, 0)) AS y', "
        "'3.0 * id - 2.0 * coalesce(k, 0) + 5 AS label')\n"
        "made = VectorAssembler(inputCols=['x', 'y'], outputCol='features').transform(points)\n"
        "model = LinearRegression(solver='normal').fit(made)\n"
        "result = [[round(c, 6) for c in model.coefficients], round(model.intercept, 6),\n"
        "    rows(model.transform(made).selectExpr('x', 'round(prediction, 4)').where('x < 9'))]"
    ),
    "view": (
        "edge.select('id', f.format_string('%S', 's').alias('h'))"
        ".createOrReplaceTempView('hashed')\n"
        "result = rows(spark.sql('SELECT left(h, 1) AS c, count(*) FROM hashed GROUP BY c'))"
    ),
}


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


@pytest.mark.parametrize("name", one_of(CALLS, 2))
def test_same_as_plaintext(name: str, expected: Expected, sealed: Driver) -> None:
    code = HEAD + CALLS[name]
    got = sealed.run(code, coffered=True)
    assert got == expected.result(code, got, coffered=False)


def test_cached_rows_are_read_and_the_table_is_not(sealed: Driver) -> None:
    code = HEAD + (
        "import io, contextlib, os, shutil, tempfile\n"
        "spark.sql(f\"CREATE TABLE kept USING coffer LOCATION '{tempfile.mkdtemp()}/t' AS \"\n"
        "          'SELECT id, n FROM edge')\n"
        "where = spark.sql('DESCRIBE EXTENDED kept').where(\"col_name = 'Location'\").first()[1]\n"
        "where = where.removeprefix('file:')\n"
        "few = spark.table('kept').where('id < 9').cache()\n"
        "def explained():\n"
        "    out = io.StringIO()\n"
        "    with contextlib.redirect_stdout(out):\n"
        "        few.explain()\n"
        "    return [line for line in out.getvalue().splitlines() if 'cached rows' in line]\n"
        "result = [explained(), few.count()]\n"
        "os.rename(where, where + '-away')\n"
        "result += [few.count(), explained()]\n"
        "os.rename(where + '-away', where)\n"
        # A write drops what was cached of the old version.
        "spark.sql('INSERT INTO kept VALUES (-1, 0)')\n"
        "result += [spark.table('kept').where('id < 9').count()]\n"
        "spark.catalog.clearCache()\nspark.sql('DROP TABLE kept')"
    )
    before, count, again, after, written = sealed.run(code)
    assert count == again
    assert written == count + 1
    assert before[0].endswith("to be computed by")
    assert after[0].endswith("computed already by")


def test_plain_rows_that_are_cached_are_refused_beside_sealed_ones(sealed: Driver) -> None:
    code = HEAD + (
        "plain = spark.range(9).cache()\nplain.count()\n"
        "try:\n    edge.join(plain, 'id').count()\nfinally:\n    plain.unpersist()"
    )
    with pytest.raises(QueryFailed, match="COFFER_UNSUPPORTED") as failed:
        sealed.run(code)
    assert "cached rows of plain data" in failed.value.message


def refused(driver: Driver, code: str) -> QueryFailed:
    with pytest.raises(QueryFailed) as failed:
        driver.run(HEAD + code)
    return failed.value


def test_local_rows_are_bounded(sealed: Driver) -> None:
    code = (
        "spark.conf.set('spark.coffer.client.maxBytes', '10k')\n"
        "try:\n    {}\nfinally:\n    spark.conf.unset('spark.coffer.client.maxBytes')"
    )
    for way in (
        "local(events, True)",
        "events.rdd.count()",
        "events.select(f.format_string('%S', 'q')).cache().count()",
    ):
        assert refused(sealed, code.format(way)).condition == "too_much_at_client"


def test_rounds_are_bounded_as_sparks(plain: Driver, sealed: Driver) -> None:
    code = (
        "spark.sql('WITH RECURSIVE s(n) AS (SELECT max(id) FROM edge UNION ALL SELECT n + 1 FROM s)"
        " SELECT n FROM s').collect()"
    )
    ours, theirs = refused(sealed, code), refused(plain, code)
    assert ours.kind == theirs.kind
    assert all("RECURSION_LEVEL_LIMIT_EXCEEDED" in e.message for e in (ours, theirs))


def test_rows_of_jobs_are_in_no_task(sealed: Driver) -> None:
    """Serialised, an RDD of rows has their number."""
    code = (
        "jvm = spark._jvm\n"
        "rdd = edge.where('id < 50').select(f.concat(f.lit('planted-'), f.col('id')))"
        "._jdf.queryExecution().toRdd()\n"
        "size = lambda: len(jvm.org.apache.spark.util.Utils.serialize(rdd))\n"
        "before = size()\n"
        "count = rdd.count()\n"
        "data = bytes(jvm.org.apache.spark.util.Utils.serialize(rdd))\n"
        "result = [count, b'planted' in data, len(data) - before < 4096]"
    )
    assert sealed.run(HEAD + code) == [50, False, True]


def test_a_local_iterator_fails_as_its_query_does(sealed: Driver) -> None:
    code = HEAD + "list(edge.selectExpr('1 / (id - 700)').toLocalIterator())"
    with pytest.raises(QueryFailed) as failed:
        sealed.run(code)
    assert failed.value.condition == "DIVIDE_BY_ZERO"


PROGRAM = """
import io, contextlib
import pandas as pd
from pyspark.sql import functions as f, Window
from pyspark.sql.functions import pandas_udf, udf

out = []
def note(title, df, order):
    out.append((title, [repr(list(r)) for r in df.orderBy(*order).collect()]))

orders = spark.table('orders')
customer = spark.table('customer')
lineitem = spark.table('lineitem')

# Who buys what, by month.
sales = (
    lineitem.join(orders, lineitem.l_orderkey == orders.o_orderkey)
    .join(customer, orders.o_custkey == customer.c_custkey)
    .where("l_shipdate >= DATE'1995-01-01' AND l_shipdate < DATE'1996-07-01'")
    .withColumn('revenue', f.expr('l_extendedprice * (1 - l_discount)'))
    .withColumn('month', f.date_format('l_shipdate', 'yyyy-MM'))
    .select('c_mktsegment', 'c_custkey', 'o_orderkey', 'l_shipmode', 'month', 'revenue',
            'l_quantity')
)
monthly = sales.groupBy('c_mktsegment', 'month').agg(
    f.sum('revenue').alias('revenue'), f.countDistinct('c_custkey').alias('buyers'))
note('monthly', monthly, ['c_mktsegment', 'month'])

# Growth, running totals and ranks.
by_segment = Window.partitionBy('c_mktsegment').orderBy('month')
growth = (
    monthly.withColumn('before', f.lag('revenue').over(by_segment))
    .withColumn('total', f.sum('revenue').over(by_segment))
    .withColumn('place', f.rank().over(Window.partitionBy('month').orderBy(f.desc('revenue'))))
)
note('growth', growth.where('place = 1').select('month', 'c_mktsegment', 'before', 'total'),
     ['month'])

# A table for a report: months down, segments across, figures as people read them.
report = (
    monthly.groupBy('month').pivot('c_mktsegment').agg(f.first('revenue'))
    .na.fill(0)
)
note('report', report, ['month'])
shown = monthly.select('month', 'c_mktsegment', f.format_number('revenue', 1).alias('figure'),
                       f.initcap(f.lower('c_mktsegment')).alias('name'))
note('shown', shown.where("month = '1995-03'"), ['c_mktsegment'])

# Words of comments.
words = (
    orders.where('o_orderkey < 3000')
    .select('o_orderpriority', f.explode(f.split('o_comment', ' ')).alias('word'))
    .where(f.length('word') > 7)
    .groupBy('o_orderpriority', 'word').count()
)
frequent = Window.partitionBy('o_orderpriority').orderBy(f.desc('count'), 'word')
note('words', words.withColumn('n', f.row_number().over(frequent)).where('n <= 3'),
     ['o_orderpriority', 'n'])

# A model in pandas, by segment.
def trend(frame):
    frame = frame.sort_values('month')
    x, y = range(len(frame)), frame.revenue.astype(float)
    mean_x, mean_y = sum(x) / len(frame), y.mean()
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum(
        (a - mean_x) ** 2 for a in x)
    return pd.DataFrame({'segment': [frame.c_mktsegment.iloc[0]], 'slope': [round(slope, 1)]})
note('trend', monthly.groupBy('c_mktsegment').applyInPandas(trend, 'segment string, slope double'),
     ['segment'])

# Scores by a function of the analyst's.
def score(quantity: pd.Series, revenue: pd.Series) -> pd.Series:
    return (revenue.astype(float) / quantity.astype(float)).round(2)
score = pandas_udf(score, 'double')
grade = udf(lambda x: 'none' if x is None else 'high' if x > 1500 else 'low', 'string')
scored = (
    sales.where("month = '1995-05'")
    .groupBy('l_shipmode')
    .agg(f.sum('l_quantity').alias('q'), f.sum('revenue').alias('r'))
    .withColumn('score', score('q', 'r'))
    .withColumn('grade', grade('score'))
)
note('scored', scored.select('l_shipmode', 'score', 'grade'), ['l_shipmode'])

# Lists of the analyst's own.
targets = spark.createDataFrame(
    [('BUILDING', 5.0e7), ('MACHINERY', 4.0e7), ('HOUSEHOLD', None)], 'segment string, goal double')
note('targets',
     targets.join(monthly, targets.segment == monthly.c_mktsegment, 'left')
     .groupBy('segment', 'goal').agg(f.sum('revenue').alias('revenue'))
     .withColumn('reached', f.col('revenue') > f.col('goal')), ['segment'])

# What statistics say.
numbers = sales.select(f.col('revenue').cast('double'), f.col('l_quantity').cast('double'))
out.append(('quantiles', repr(numbers.approxQuantile('l_quantity', [0.25, 0.5, 0.75], 0.0))))
out.append(('describe', repr([list(r) for r in numbers.select('l_quantity').summary(
    'count', 'min', 'max').collect()])))
out.append(('modes', repr(sorted(list(r) for r in sales.stat.crosstab('l_shipmode', 'month').select(
    'l_shipmode_month', '1995-01').collect()))))

# To the plotting library.
frame = monthly.orderBy('c_mktsegment', 'month').toPandas()
lines = {name: part.revenue.astype(float).round(1).tolist()
         for name, part in frame.groupby('c_mktsegment')}
out.append(('lines', repr(lines)))
screen = io.StringIO()
with contextlib.redirect_stdout(screen):
    shown.orderBy('c_mktsegment', 'month').show(5)
out.append(('screen', screen.getvalue()))
result = out
"""


@pytest.mark.full
def test_an_analysts_program_runs_unchanged(plain: Driver, sealed: Driver) -> None:
    ours, theirs = sealed.run(PROGRAM), plain.run(PROGRAM)
    assert [title for title, _ in ours] == [title for title, _ in theirs]
    for (title, mine), (_, wanted) in zip(ours, theirs, strict=True):
        assert mine == wanted, title
