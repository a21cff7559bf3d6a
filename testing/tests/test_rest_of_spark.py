"""What `docs/reference/spark.md` says of the rest of Spark: each example that is refused there has
the condition that stands beside it, each other one runs. The master is local."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coffer_testing.runner import Driver, QueryFailed
from conftest import ROOT, with_client_tail

PAGE = ROOT / "docs" / "reference" / "spark.md"

# By a row's first cell: what is run, over the sealed table `edge`, in the folder `folder`.
EXAMPLES = {
    "Time travel in SQL": "spark.sql('SELECT * FROM edge VERSION AS OF 1').collect()",
    "Time travel by option": "spark.read.format('coffer').option('versionAsOf', 1).load(path)",
    "Reading a table as a stream": "spark.readStream.format('coffer').load(path)",
    "Writing a stream to a table": "spark.readStream.format('rate').load().writeStream"
    ".format('coffer').option('checkpointLocation', folder).start(folder + '/t')",
    "A stream beside a sealed table": "stream = spark.readStream.format('rate').load()\n"
    "stream.join(spark.table('edge'), stream.value == F.col('id')).writeStream.format('memory')"
    ".queryName('m').option('checkpointLocation', folder).start()",
    "JDBC beside a sealed table": "spark.read.jdbc('jdbc:derby:memory:x;create=true', "
    "'sysibm.sysdummy1').join(spark.table('edge')).collect()",
    "Writing to a database": "spark.table('edge').select('id').write.jdbc("
    "'jdbc:derby:memory:x', 'u')",
    "Writing to other formats": "spark.table('edge').select('id').write.parquet(folder + '/p')",
    "foreach and accumulators": "a = spark.sparkContext.accumulator(0)\n"
    "spark.table('edge').select('id').foreach(lambda row: a.add(1))\nassert a.value == 1200",
    "Hints of joins": "spark.table('edge').join(F.broadcast(spark.table('edge')), 'id').count()",
    "MLlib's transformers": "from pyspark.ml.feature import VectorAssembler\n"
    "VectorAssembler(inputCols=['id'], outputCol='x').transform("
    "spark.table('edge').select('id')).collect()",
    "Statistics": "spark.table('edge').stat.corr('id', 'k')",
    "TRANSFORM": "spark.sql(\"SELECT TRANSFORM(id) USING 'cat' AS (x) FROM edge\").collect()",
    "Session variables": "spark.sql('DECLARE OR REPLACE VARIABLE v INT DEFAULT 3')\n"
    "assert spark.sql('SELECT count(*) FROM edge WHERE id < v').head()[0] == 3",
    "Parameters": "assert spark.sql('SELECT count(*) FROM edge WHERE id < :n', args={'n': 3})"
    ".head()[0] == 3",
    "SQL scripts": "spark.sql('BEGIN DECLARE n INT DEFAULT 2; SELECT count(*) FROM edge "
    "WHERE id < n; END').collect()",
    "SQL functions": "spark.sql('CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x + 1')\n"
    "spark.sql('SELECT f(k) FROM edge').collect()",
    "Pipes": "assert len(spark.sql('FROM edge |> WHERE id < 5 |> SELECT id').collect()) == 5",
    "Temporary views": "spark.table('edge').createOrReplaceTempView('w')\n"
    "assert spark.sql('SELECT count(*) FROM w').head()[0] == 1200",
}


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


def outcomes() -> dict[str, str]:
    """The last cell of each row, by its first."""
    rows = re.findall(r"(?m)^\| ([^|]+?) \|.*\| ([^|]+?) \|$", PAGE.read_text(encoding="utf-8"))
    return dict(rows)


def test_each_example_is_a_row() -> None:
    assert set(EXAMPLES) <= set(outcomes())


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_as_it_says(
    name: str, sealed: Driver, sealed_tables: dict[str, Path], tmp_path: Path
) -> None:
    code = f"from pyspark.sql import functions as F\n{EXAMPLES[name]}"
    said = outcomes()[name]
    names = {"path": str(sealed_tables["edge"]), "folder": str(tmp_path)}
    if said.startswith("works"):
        sealed.run(code, **names)
        return
    condition = re.match(r"refused \(`([\w.]+)`\)", said)[1]
    with pytest.raises(QueryFailed) as refused:
        sealed.run(code, **names)
    assert refused.value.condition == condition
