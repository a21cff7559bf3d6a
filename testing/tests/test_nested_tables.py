"""Sealed tables with arrays, structs and maps: sealed from what Spark and PyArrow write, read as
plaintext Spark reads them, written, opened again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer.pme import load_keks, read_file
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

# NULLs and empty lists at each level; Spark writes the timestamps as INT96.
MAKE = """
spark.range(600).selectExpr(
    "id",
    "if(id % 7 = 0, null, transform(sequence(1, id % 4), i -> if(i = 2, null, int(id * i)))) a",
    "if(id % 5 = 0, null, named_struct('x', int(id), 'y z', if(id % 3 = 0, null, 'é' || id), "
    "'t', named_struct('at', timestamp_micros(id * 1000003), 'day', date_add(date'2020-02-28', "
    "int(id))))) s",
    "if(id % 6 = 0, null, map_from_arrays(transform(sequence(0, id % 3), i -> 'k' || i), "
    "transform(sequence(0, id % 3), i -> if(i = 1, null, array(decimal(id) / 7, null))))) m",
    "array(array(), array(named_struct('b', cast(string(id) as binary), 'f', float(id) / 3)), "
    "null) d",
    "'flat ' || id name",
).repartition(2, 'id').write.parquet(folder)
"""
COLUMNS = ["id", "a", "s", "m", "d", "name"]
QUERIES = [
    "SELECT * FROM t",
    "SELECT count(*) FROM t",
    "SELECT m, id FROM t WHERE id BETWEEN 100 AND 120",
    "SELECT a, s, name FROM t WHERE name LIKE '%9'",
    "SELECT count(a), count(s), count(m), count(*) FROM t",
    "SELECT id FROM t WHERE a IS NULL",
]
ROWS = "result = sorted(repr(row.asDict()) for row in {df}.collect())"


def rows(driver: Driver, df: str, **names: Any) -> list[str]:
    return driver.run(ROWS.format(df=df), **names)


class Site:
    """Plaintext Spark with the table `t` of its files, and a sealed session with it sealed."""

    def __init__(self, folder: Path, owner: Owner, plain: Driver, sealed: Driver) -> None:
        self.folder, self.owner, self.plain, self.sealed = folder, owner, plain, sealed

    def sql(self, text: str) -> None:
        self.sealed.run("spark.sql(sql)", sql=text)

    def all(self, table: str) -> list[str]:
        return rows(self.sealed, f"spark.table('{table}')")

    @property
    def expected(self) -> list[str]:
        return rows(self.plain, "spark.table('t')")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("nested")
    with Driver({}, sealed=False, log=folder / "plain.log") as plain:
        plain.run(
            MAKE + "\nspark.read.parquet(folder).createOrReplaceTempView('t')",
            folder=str(folder / "plain"),
        )
        owner = Owner.create(folder / "trusted")
        owner.sign(
            owner.policy.replace(
                "unverified_inputs = []", f'unverified_inputs = ["{folder / "plain"}"]'
            )
        )
        sealed = owner.encrypt({"t": folder / "plain"}, folder / "sealed")
        with Driver(
            sealed,
            sealed=True,
            log=folder / "sealed.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={"spark.sql.warehouse.dir": str(folder / "warehouse")},
        ) as driver:
            yield Site(folder, owner, plain, driver)


def test_types_are_sparks(site: Site) -> None:
    code = "result = spark.table('t').dtypes"
    assert site.sealed.run(code) == site.plain.run(code)
    shown = json.loads(site.owner.coffer("inspect", "--json", site.folder / "sealed" / "t").stdout)
    types = {column["name"]: column["type"] for column in shown["columns"]}
    assert types["s"] == "struct<x:int,`y z`:string,t:struct<at:timestamp,day:date>>"
    assert {column["protection"] for column in shown["columns"]} == {"tee"}
    site.owner.coffer("verify", "--deep", site.folder / "sealed" / "t")


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_are_plaintext_sparks(site: Site, sql: str) -> None:
    df = f'spark.sql("{sql}")'
    assert rows(site.sealed, df) == rows(site.plain, df)


def test_decrypted_rows_are_the_same(site: Site) -> None:
    site.owner.coffer("decrypt", site.folder / "sealed" / "t", site.folder / "opened")
    back = rows(site.plain, "spark.read.parquet(folder)", folder=str(site.folder / "opened"))
    assert back == site.expected
    with pytest.raises(Exception, match="CSV holds none"):
        site.owner.coffer("decrypt", site.folder / "sealed" / "t", site.folder / "opened.csv")


def test_created_inserted_and_overwritten(site: Site) -> None:
    site.sql("CREATE TABLE made USING coffer AS SELECT * FROM t")
    assert site.all("made") == site.expected
    site.sql("INSERT INTO made SELECT * FROM t WHERE id < 10")
    assert len(site.all("made")) == 610
    site.sql("INSERT OVERWRITE made SELECT * FROM t")
    assert site.all("made") == site.expected
    site.owner.coffer("verify", "--deep", site.folder / "warehouse" / "made")
    site.sealed.run(
        "spark.table('t').write.format('coffer').save(folder)", folder=str(site.folder / "saved")
    )
    saved = "spark.read.format('coffer').load(folder)"
    assert rows(site.sealed, saved, folder=str(site.folder / "saved")) == site.expected
    site.sealed.run(
        "spark.table('t').write.format('coffer').mode('overwrite').save(folder)",
        folder=str(site.folder / "saved"),
    )
    assert rows(site.sealed, saved, folder=str(site.folder / "saved")) == site.expected


def test_declared_columns_take_rows(site: Site) -> None:
    site.sql(
        "CREATE TABLE declared (id BIGINT NOT NULL, a ARRAY<INT>, m MAP<STRING, STRUCT<x: INT, "
        "`y z`: STRING>> COMMENT 'c') USING coffer"
    )
    site.sql("INSERT INTO declared (id, a) SELECT id, a FROM t")
    wanted = rows(site.plain, "spark.sql('select id, a, null m from t')")
    assert site.all("declared") == wanted
    for ddl, words in [
        ("a STRUCT<x: INT NOT NULL>", "NOT NULL inside of a nested type"),
        ("a ARRAY<CHAR(3)>", "CHAR and VARCHAR inside of a nested type"),
        ("a INT, b ARRAY<VARIANT>", "variant"),
    ]:
        with pytest.raises(QueryFailed) as failed:
            site.sql(f"CREATE TABLE refused ({ddl}) USING coffer")
        assert words.lower() in failed.value.message.lower(), failed.value.message
    with pytest.raises(QueryFailed) as failed:
        site.sql("CREATE TABLE refused (a ARRAY<INT>, b INT) USING coffer PARTITIONED BY (a)")
    assert site.sealed.run("result = spark.catalog.tableExists('refused')") is False


def test_plain_files_beside_sealed_ones(site: Site) -> None:
    """Not verified, but pinned, leaf by leaf."""
    site.sealed.run(
        "spark.read.parquet(folder).createOrReplaceTempView('listed')",
        folder=str(site.folder / "plain"),
    )
    union = (
        "spark.sql('select * from t where id < 50 union all select * from listed where id > 50')"
    )
    assert rows(site.sealed, union) == rows(site.plain, union.replace("listed", "t"))


def test_other_protections_are_refused(site: Site) -> None:
    policy = site.owner.policy
    try:
        site.owner.sign(policy + '\n[tables.other.columns]\na = "det"\n')
        with pytest.raises(Exception, match="always tee"):
            site.owner.coffer("encrypt", site.folder / "plain", site.folder / "sealed" / "other")
        # A flat column of the table may have what it likes.
        site.owner.sign(policy + '\n[tables.other.columns]\nname = ["det", "std"]\nid = "ope"\n')
        site.owner.coffer("encrypt", site.folder / "plain", site.folder / "sealed" / "other")
        site.owner.coffer("verify", "--deep", site.folder / "sealed" / "other")
        site.owner.coffer("decrypt", site.folder / "sealed" / "other", site.folder / "others")
        back = rows(site.plain, "spark.read.parquet(folder)", folder=str(site.folder / "others"))
        assert back == site.expected
        other = "spark.read.format('coffer').load(folder)"
        found = rows(site.sealed, other, folder=str(site.folder / "sealed" / "other"))
        assert found == site.expected
    finally:
        site.owner.sign(policy)


def test_what_pyarrow_writes_is_sealed_and_it_reads_ours(site: Site) -> None:
    kinds = {
        "l": pa.large_list(pa.int16()),
        "f": pa.list_(pa.float32(), 2),
        "s": pa.struct([("u", pa.uint8()), ("l", pa.list_(pa.string()))]),
        "m": pa.map_(pa.int32(), pa.list_(pa.date32())),
    }
    values = [
        {"l": [1, None], "f": [0.5, None], "s": {"u": 200, "l": [None, "x"]}, "m": [(1, [None])]},
        {"l": [], "f": None, "s": None, "m": []},
        {"l": None, "f": [1.5, 2.5], "s": {"u": None, "l": None}, "m": None},
    ]
    table = pa.Table.from_pylist(values, pa.schema(list(kinds.items())))
    legacy = {"use_compliant_nested_type": False}
    for name, options in [("compliant", {}), ("legacy", legacy)]:
        source = site.folder / f"{name}.parquet"
        pq.write_table(table, source, **options)
        at = site.folder / "sealed" / name
        site.owner.coffer("encrypt", source, at)
        load = "spark.read.format('coffer').load(folder)"
        wanted = rows(site.plain, "spark.read.parquet(folder)", folder=str(source))
        # Spark reads an unsigned byte as a SMALLINT too.
        assert rows(site.sealed, load, folder=str(at)) == wanted
        keks = site.folder / f"{name}.json"
        site.owner.coffer("keys", "export-keks", "--table", name, "--output", keks)
        (part,) = at.glob("part-*.parquet")
        read = read_file(part, load_keks(keks))
        assert read.to_pylist() == table.to_pylist()
