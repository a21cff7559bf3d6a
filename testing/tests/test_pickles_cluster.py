"""Pickles from the executors of a cluster: plain data passes, and nothing of a hostile one runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed


@pytest.fixture(scope="module")
def driver(base: Path, owner: Owner) -> Iterator[Driver]:
    """A session on a cluster of its own: one executor, and nothing but plain data."""
    with (
        Cluster(base / "pickles", workers=1) as cluster,
        Driver(
            {},
            sealed=True,
            log=base / "pickles.log",
            master=cluster.master,
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={"spark.executor.memory": "768m", "spark.cores.max": "1"},
            env={"PYSPARK_PYTHON": sys.executable},
        ) as driver,
    ):
        yield driver


HONEST = """
import datetime, decimal
import numpy as np
from pyspark.ml.linalg import Vectors
from pyspark.sql import Row
from pyspark.sql.functions import udf

df = spark.createDataFrame([
    Row(n=i, s=str(i), d=datetime.date(2020, 1, 1 + i), a=decimal.Decimal(i)) for i in range(3)
])
vectors = spark.createDataFrame([(Vectors.dense([1.0, 2.0]),)], ["v"])
numbers = spark.sparkContext.parallelize(range(10), 2)
doubled = udf(lambda n: n * 2, "long")
result = [
    [r.x for r in df.select(doubled("n").alias("x")).collect()],
    repr(df.collect()[1]),
    repr(df.rdd.collect()[1]),
    repr(df.rdd.map(lambda r: Row(n=r.n, d=r.d)).collect()[2]),
    sorted(numbers.map(lambda n: (n, str(n))).collect())[3],
    numbers.map(lambda n: n * n).reduce(lambda a, b: a + b),
    numbers.map(lambda n: {n}).take(2) == [{0}, {1}],
    list(numbers.map(lambda n: -n).toLocalIterator())[9],
    numbers.stats().mean(),
    sorted((k, sorted(v)) for k, v in numbers.groupBy(lambda n: n % 2).collect())[1][1],
    dict(numbers.map(lambda n: (n % 3, n)).countByKey()),
    spark.createDataFrame(
        numbers.map(lambda n: (n, str(n))), samplingRatio=1.0
    ).schema.simpleString(),
    df.toPandas()["s"].tolist(),
    repr(vectors.collect()),
    repr(vectors.rdd.map(lambda r: r.v).collect()),
    repr(numbers.map(lambda n: np.float64(n)).max()),
    repr(numbers.map(lambda n: np.array([n, n])).first()),
]
"""


def test_a_cluster_s_python_works_on_plain_data(driver: Driver) -> None:
    row = "n=1, s='1', d=datetime.date(2020, 1, 2), a=Decimal('1.000000000000000000')"
    assert driver.run(HONEST) == [
        [0, 2, 4],
        f"Row({row})",
        f"Row({row})",
        "Row(n=2, d=datetime.date(2020, 1, 3))",
        [3, "3"],
        285,
        True,
        -9,
        4.5,
        [1, 3, 5, 7, 9],
        {"0": 4, "1": 3, "2": 3},
        "struct<_1:bigint,_2:string>",
        ["0", "1", "2"],
        "[Row(v=DenseVector([1.0, 2.0]))]",
        "[DenseVector([1.0, 2.0])]",
        "np.float64(9.0)",
        "array([0, 0])",
    ]


HOSTILE = """
import os

class Hostile:
    def __reduce__(self):
        return os.system, (f"touch {mark}",)

numbers = spark.sparkContext.parallelize(range(4), 2)
hostile = numbers.map(lambda n: Hostile())
result = {}
for name, action in {
    "collect": lambda: hostile.collect(),
    "take": lambda: hostile.take(1),
    "first": lambda: hostile.map(lambda o: (1, [o])).first(),
    "reduce": lambda: hostile.reduce(lambda a, b: a),
    "toLocalIterator": lambda: list(hostile.toLocalIterator()),
}.items():
    try:
        action()
        result[name] = "opened"
    except Exception as error:
        result[name] = str(error)
"""


def test_an_executor_s_pickle_runs_nothing_in_the_driver(driver: Driver, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for action, outcome in driver.run(HOSTILE, mark=str(mark)).items():
        assert outcome.startswith("[COFFER_PICKLE] ") and "posix.system" in outcome, (
            action,
            outcome,
        )
        assert not mark.exists(), action


ACCUMULATOR = """
count = spark.sparkContext.accumulator(0)
numbers = spark.sparkContext.parallelize(range(4), 1)
numbers.foreach(lambda n: None)
try:
    numbers.foreach(lambda n: count.add(n))
    result = ["taken", count.value]
except Exception as error:
    result = [str(error), count.value]
"""


def test_an_update_of_a_python_accumulator_is_refused(driver: Driver) -> None:
    message, value = driver.run(ACCUMULATOR)
    assert "filter status: REJECTED" in message and "Python accumulator" in message and value == 0
    # The session goes on.
    assert driver.run("result = spark.sparkContext.parallelize([1, 2], 1).sum()") == 3


def test_a_setting_that_nobody_may_make(driver: Driver) -> None:
    with pytest.raises(
        QueryFailed, match=r"\[COFFER_CONF\] spark\.coffer\.driver\.allowPickles has os\.system"
    ):
        driver.run(
            "import coffer\ncoffer.session(**{'spark.coffer.driver.allowPickles': 'os.system'})"
        )
