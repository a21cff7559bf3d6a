"""Ways to take results to the client: rows, Arrow, pandas, shown, counted; the same as plaintext
Spark's."""

from __future__ import annotations

import pytest

from coffer_testing.runner import Driver
from conftest import Expected

ACTIONS = {
    "take": "result = [list(r) for r in spark.sql('SELECT id, s FROM edge ORDER BY id').take(7)]",
    "tail": "result = [list(r) for r in spark.sql('SELECT id, s FROM edge ORDER BY id').tail(3)]",
    "head": "result = list(spark.sql('SELECT id, k FROM edge ORDER BY id').head())",
    "first_unordered_count": "result = len(spark.table('events').take(10))",
    "count": "result = spark.sql('SELECT * FROM edge WHERE k > 1').count()",
    "is_empty": "result = spark.sql('SELECT * FROM edge WHERE id < 0').isEmpty()",
    "show": (
        "import contextlib, io\n"
        "out = io.StringIO()\n"
        "with contextlib.redirect_stdout(out):\n"
        "    spark.sql('SELECT id, s, d9, f64, dt, ts, b FROM edge ORDER BY id').show(30, "
        "truncate=10)\n"
        "result = out.getvalue()"
    ),
    "show_vertical": (
        "import contextlib, io\n"
        "out = io.StringIO()\n"
        "with contextlib.redirect_stdout(out):\n"
        "    spark.sql('SELECT id, s, bin FROM edge ORDER BY id').show(5, vertical=True)\n"
        "result = out.getvalue()"
    ),
    "collect_twice": (
        "df = spark.sql('SELECT g, count(*) AS c FROM events GROUP BY g ORDER BY g')\n"
        "one = [list(r) for r in df.collect()]\n"
        "assert one == [list(r) for r in df.collect()]\n"
        "result = one"
    ),
    "dataframe_api": (
        "from pyspark.sql import functions as f\n"
        "df = spark.table('events').where(f.col('n') > 0).groupBy('g').agg(f.sum('q').alias('t'), "
        "f.count('*'))\n"
        "result = sorted(list(r) for r in df.collect())"
    ),
    "to_arrow": (
        "t = spark.sql('SELECT * FROM edge ORDER BY id').toArrow()\nresult = [str(t.schema), "
        "repr(t.to_pydict())]"
    ),
    "to_arrow_empty": (
        "t = spark.sql('SELECT * FROM edge WHERE id < 0').toArrow()\nresult = [str(t.schema), "
        "t.num_rows]"
    ),
    "to_pandas": (
        "df = spark.sql('SELECT * FROM edge ORDER BY id').where('year(ts) BETWEEN 1700 AND 2200')\n"
        "p = df.where('year(ntz) BETWEEN 1700 AND 2200').toPandas()\n"
        "result = [str(p.dtypes.to_dict()), repr(p.to_dict('list'))]"
    ),
    "to_pandas_without_arrow": (
        "spark.conf.set('spark.sql.execution.arrow.pyspark.enabled', 'false')\n"
        "p = spark.sql('SELECT id, s, d9, dt, k FROM edge ORDER BY id').toPandas()\n"
        "spark.conf.unset('spark.sql.execution.arrow.pyspark.enabled')\n"
        "result = [str(p.dtypes.to_dict()), repr(p.to_dict('list'))]"
    ),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_same_as_plaintext(name: str, expected: Expected, sealed: Driver) -> None:
    got = sealed.run(ACTIONS[name])
    assert got == expected.result(ACTIONS[name], got)


def test_coffers_own_functions(expected: Expected, sealed: Driver) -> None:
    query = "spark.sql('SELECT id, s, d38, ntz FROM edge ORDER BY id')"
    ours = (
        f"import coffer\nt = coffer.to_arrow({query})\nresult = "
        "[str(t.schema.remove_metadata()), repr(t.to_pydict())]"
    )
    theirs = (
        f"t = {query}.toArrow()\nresult = [str(t.schema.remove_metadata()), repr(t.to_pydict())]"
    )
    got = sealed.run(ours)
    assert got == expected.result(theirs, got)
    pandas = f"import coffer\nresult = coffer.to_pandas({query}.drop('ntz'))['id'].tolist()"
    assert sealed.run(pandas) == list(range(1200))


def test_queries_of_no_sealed_table_stay_sparks(sealed: Driver) -> None:
    assert sealed.run("result = spark.range(5).toArrow().to_pydict()") == {"id": [0, 1, 2, 3, 4]}
    refused = (
        "import coffer\n"
        "try:\n"
        "    coffer.to_arrow(spark.range(5))\n"
        "except coffer.NotSealed as error:\n"
        "    result = str(error)"
    )
    assert "hint: " in sealed.run(refused)


def test_create_table_using_coffer(sealed: Driver, sealed_tables: dict) -> None:
    code = (
        "spark.sql(f\"CREATE TABLE edge_table USING coffer OPTIONS (path '{path}')\")\n"
        "result = [spark.sql('SELECT count(*) FROM edge_table').collect()[0][0], "
        "spark.table('edge_table').columns]\n"
        "spark.sql('DROP TABLE edge_table')"
    )
    count, columns = sealed.run(code, path=str(sealed_tables["edge"]))
    assert count == 1200
    assert columns[:3] == ["id", "b", "i8"]


def test_aqe_is_on(sealed: Driver) -> None:
    """Where a query is not run in one request."""
    code = (
        "spark.conf.set('spark.coffer.oneMachine', 'off')\n"
        "df = spark.sql('SELECT g, count(*) FROM events GROUP BY g')\n"
        "df.collect()\n"
        "result = df._jdf.queryExecution().executedPlan().toString()\n"
        "spark.conf.unset('spark.coffer.oneMachine')"
    )
    assert "AdaptiveSparkPlan isFinalPlan=true" in sealed.run(code)
