"""Functions that users bring, in Python: they run beside the driver and give plaintext Spark's
answers; none reaches an executor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coffer_testing.runner import Driver, QueryFailed, same_error
from conftest import Expected, with_client_tail

HEAD = """
import pandas as pd, pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.functions import pandas_udf, arrow_udf, udf, udtf
edge = spark.table('edge')
def rows(df):
    return sorted(repr(list(row)) for row in df.collect())
"""
FUNCTIONS = {
    "row": (
        "up = udf(lambda s: s and s.upper(), 'string')\nresult = rows(edge.select('id', up('s')))"
    ),
    "row_in_sql": (
        "spark.udf.register('twice', lambda x: x and 2 * x, 'bigint')\n"
        "result = rows(spark.sql('SELECT k, twice(sum(n)) FROM edge GROUP BY k'))"
    ),
    "row_in_a_filter": (
        "even = udf(lambda x: x is not None and x % 2 == 0, 'boolean')\n"
        "result = rows(edge.where('k > 0').where(even('id')).groupBy('k').count())"
    ),
    "row_in_a_join": (
        "last = udf(lambda x: x % 10, 'bigint')\n"
        "b = spark.createDataFrame([(i, str(i)) for i in range(5)], 'x bigint, t string')\n"
        "result = rows(edge.join(b, last('id') == b.x).select('id', 't'))"
    ),
    "row_arrow": (
        "up = udf(lambda s: s and s.upper(), 'string', useArrow=True)\n"
        "result = rows(edge.select('id', up('s')))"
    ),
    "pandas": (
        "def plus(a):\n    return a + 1\n"
        "plus = pandas_udf(plus, 'long', f.PandasUDFType.SCALAR)\n"
        "result = rows(edge.where('n > 5').groupBy('k').agg(f.sum('n').alias('t')).select('k', "
        "plus('t')))"
    ),
    "pandas_iterator": (
        "def each(it: 'Iterator[pd.Series]') -> 'Iterator[pd.Series]':\n"
        "    for a in it:\n        yield a * 2\n"
        "each = pandas_udf(each, 'long', f.PandasUDFType.SCALAR_ITER)\n"
        "result = rows(edge.where('n is not null').select('id', each('n')))"
    ),
    "pandas_aggregate": (
        "def mean(v: pd.Series) -> float:\n    return float(v.mean())\n"
        "mean = pandas_udf(mean, 'double')\n"
        "result = rows(edge.where('n is not null').groupBy('k').agg(mean('n')))"
    ),
    "pandas_window": (
        "from pyspark.sql import Window\n"
        "def top(v: pd.Series) -> int:\n    return int(v.max())\n"
        "top = pandas_udf(top, 'bigint')\n"
        "w = Window.partitionBy('k')\n"
        "result = rows(edge.where('n is not null').select('id', top('n').over(w)))"
    ),
    "arrow": (
        "import pyarrow.compute as pc\n"
        "def low(a: pa.Array) -> pa.Array:\n    return pc.utf8_lower(a)\n"
        "low = arrow_udf(low, 'string')\n"
        "result = rows(edge.select('id', low('s')))"
    ),
    "map_in_pandas": (
        "def part(it):\n    for frame in it:\n        yield frame[frame.id > 30]\n"
        "result = rows(edge.select('id', 'n').mapInPandas(part, 'id bigint, n double'))"
    ),
    "map_in_arrow": "result = rows(edge.select('id').mapInArrow(lambda b: b, 'id bigint'))",
    "apply_in_pandas": (
        "def total(d):\n    return pd.DataFrame({'k': [d.k.iloc[0]], 'm': [float(d.n.sum())]})\n"
        "result = rows(edge.select('k', 'n').where('k is not null').groupBy('k')"
        ".applyInPandas(total, 'k int, m double'))"
    ),
    "apply_in_arrow": (
        "def size(t):\n    return pa.table({'n': pa.array([t.num_rows], pa.int64())})\n"
        "result = rows(edge.select('k', 'n').groupBy('k').applyInArrow(size, 'n bigint'))"
    ),
    "cogrouped": (
        "def both(a, b):\n    return pd.DataFrame({'x': [len(a)], 'y': [len(b)]})\n"
        "a = edge.select('k', 'id').where('k > 0').groupBy('k')\n"
        "b = edge.select('k', 'n').where('id < 300').groupBy('k')\n"
        "result = rows(a.cogroup(b).applyInPandas(both, 'x bigint, y bigint'))"
    ),
    "table": (
        "@udtf(returnType='a1 int, b1 int')\n"
        "class Pairs:\n    def eval(self, x: int):\n        if x:\n            yield x, x + 1\n"
        "spark.udtf.register('pairs', Pairs)\n"
        "result = rows(spark.sql('SELECT id, a1, b1 FROM edge, LATERAL pairs(k) WHERE id < 30'))"
    ),
    "table_argument": (
        "@udtf(returnType='n bigint, t bigint')\n"
        "class Sums:\n"
        "    def __init__(self):\n        self.n = self.t = 0\n"
        "    def eval(self, row):\n        self.n += 1\n        self.t += row['id']\n"
        "    def terminate(self):\n        yield self.n, self.t\n"
        "spark.udtf.register('sums', Sums)\n"
        "result = rows(spark.sql('SELECT * FROM sums(TABLE(SELECT id, k FROM edge WHERE k > 0) "
        "PARTITION BY k)'))"
    ),
    "table_arrow": (
        "import pyarrow.compute as pc\n"
        "@f.arrow_udtf(returnType='x bigint')\n"
        "class Twice:\n"
        "    def eval(self, batch: pa.RecordBatch) -> 'Iterator[pa.Table]':\n"
        "        yield pa.table({'x': pc.multiply(batch.column('id'), 2)})\n"
        "spark.udtf.register('twice_all', Twice)\n"
        "result = rows(spark.sql('SELECT * FROM twice_all(TABLE(SELECT id FROM edge))'))"
    ),
    "arrow_aggregate": (
        "import pyarrow.compute as pc\n"
        "def top(v: pa.Array) -> int:\n    return pc.max(v).as_py()\n"
        "top = arrow_udf(top, 'bigint')\n"
        "result = rows(edge.groupBy('k').agg(top('id')))"
    ),
    "accumulator": (
        "seen = spark.sparkContext.accumulator(0)\n"
        "def note(x):\n    seen.add(1)\n    return x\n"
        "edge.where('id < 40').select(udf(note, 'bigint')('id')).collect()\n"
        "result = seen.value"
    ),
}


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


@pytest.fixture(scope="module")
def clustered(clustered: Driver) -> Iterator[Driver]:
    yield from with_client_tail(clustered)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_local(name: str, expected: Expected, sealed: Driver) -> None:
    got = sealed.run(HEAD + FUNCTIONS[name])
    assert got == expected.result(HEAD + FUNCTIONS[name], got)


def test_an_error_of_theirs_is_told_as_sparks(plain: Driver, sealed: Driver) -> None:
    bad = (
        "def bad(x):\n    raise ValueError('planted')\n"
        "edge.select(udf(bad, 'string')('id')).collect()"
    )
    with pytest.raises(QueryFailed) as theirs:
        plain.run(HEAD + bad)
    with pytest.raises(QueryFailed) as ours:
        sealed.run(HEAD + bad)
    assert same_error(theirs.value, ours.value) and "ValueError: planted" in ours.value.message


def test_their_cost_is_explained(sealed: Driver) -> None:
    code = (
        "up = udf(lambda s: s, 'string')\n"
        "mode = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString('formatted')\n"
        "result = edge.select(up('s'))._jdf.queryExecution().explainString(mode)"
    )
    shown = sealed.run(HEAD + code)
    assert " calls of <lambda> over about " in shown, shown
    count = sealed.run("result = spark.table('edge').count()")
    assert f"about {count:,} calls" in shown, shown


def test_switched_off_they_are_refused(sealed: Driver) -> None:
    code = (
        "spark.conf.set('spark.coffer.client.tail', 'off')\n"
        "try:\n    rows(edge.select(udf(lambda s: s, 'string')('s')))\n"
        "finally:\n    spark.conf.unset('spark.coffer.client.tail')\n"
    )
    with pytest.raises(QueryFailed) as refused:
        sealed.run(HEAD + code)
    assert refused.value.condition == "COFFER_UNSUPPORTED"


CANCEL = """
import time
from pyspark import InheritableThread
bridge = spark._jvm.org.apache.spark.sql.coffer.PythonBridge
sc = spark.sparkContext

def wait(until):
    deadline = time.monotonic() + 60
    while not until() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert until()

@udf('bigint')
def sleeping(x):
    time.sleep(3600)
    return x

failed = {}
def start(name, prepare):
    def work():
        prepare()
        try:
            edge.select(sleeping('id')).collect()
        except Exception as error:
            failed[name] = str(error)
    before = bridge.liveTails()
    thread = InheritableThread(target=work)
    thread.start()
    wait(lambda: bridge.liveTails() == before + 1)

calls = [
    ('group', lambda: sc.setJobGroup('g', 'of a test'), lambda: sc.cancelJobGroup('g')),
    ('tag', lambda: sc.addJobTag('t'), lambda: sc.cancelJobsWithTag('t')),
    ('session tag', lambda: spark.addTag('u'), lambda: spark.interruptTag('u')),
    ('session', lambda: None, lambda: spark.interruptAll()),
]
for name, prepare, _ in calls:
    start(name, prepare)
for place, (name, _, cancel) in enumerate(calls):
    assert len(failed) == place
    cancel()
    wait(lambda: name in failed)
start('all', lambda: None)
sc.cancelAllJobs()
wait(lambda: 'all' in failed and bridge.liveTails() == 0)
result = failed
"""


def test_they_are_cancelled(sealed: Driver) -> None:
    """Each call ends its own query, which waits for a function that does not return."""
    failed = sealed.run(HEAD + CANCEL)
    assert set(failed) == {"group", "tag", "session tag", "session", "all"}
    assert all("SPARK_JOB_CANCELLED" in message for message in failed.values()), failed


def test_their_workers_end_with_the_query(sealed: Driver) -> None:
    code = (
        "import os, time\n"
        "me = udf(lambda x: __import__('os').getpid(), 'bigint')\n"
        "pids = {r[0] for r in edge.select(me('id')).collect()}\n"
        "one = edge.select(me('id').alias('p')).where('p > 0').limit(1)\n"
        "pids |= {r[0] for r in one.collect()}\n"
        "deadline = time.monotonic() + 30\n"
        "def alive():\n"
        "    return [p for p in pids if os.path.exists(f'/proc/{p}') and "
        "'Z' not in open(f'/proc/{p}/stat').read().rpartition(')')[2].split()[0]]\n"
        "while alive() and time.monotonic() < deadline:\n    time.sleep(0.1)\n"
        "result = [len(pids), alive()]"
    )
    count, left = sealed.run(HEAD + code)
    assert count and not left


@pytest.mark.cluster
def test_on_a_cluster_they_run_below_the_driver(clustered: Driver) -> None:
    """Which process runs the function, and who started it."""
    code = (
        "import os\n"
        "def who(x):\n"
        "    import os\n"
        "    return open('/proc/%d/stat' % os.getppid()).read().split()[3]\n"
        "result = sorted({r[0] for r in edge.select(udf(who, 'string')('id')).collect()})"
    )
    # Worker, its daemon, the driver's JVM, whose parent is the Python that we talk to.
    (jvm,) = clustered.run(HEAD + code)
    parents = {
        entry.name: (entry / "stat").read_text().rpartition(")")[2].split()[1]
        for entry in Path("/proc").iterdir()
        if entry.name == jvm
    }
    assert parents[jvm] == str(clustered.pid)
