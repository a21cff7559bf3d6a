"""Zones in Spark's sessions: tables that are made in one take its master, and nothing plain is made
there, whichever way it is asked for; beside a zone all is as ever."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coffer_testing import processes
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

# Every way that Spark has to make plain tables and files, into `zone`. `ONE` is a frame of one row.
ONE = "ONE = spark.sql('SELECT 1 AS a, 2 AS p')\n"
WAYS = {
    "create": "spark.sql(f\"CREATE TABLE w_create (a INT) USING parquet LOCATION '{zone}/t'\")",
    "create by option": 'spark.sql(f"CREATE TABLE w_option (a INT) USING csv OPTIONS '
    "(path '{zone}/t')\")",
    "create in the catalog": "spark.catalog.createTable('w_catalog', f'{zone}/t', 'parquet', "
    "ONE.schema)",
    "create as select": "spark.sql(f\"CREATE TABLE w_ctas USING parquet LOCATION '{zone}/t' AS "
    'SELECT 1 AS a")',
    "create as select, csv": "spark.sql(f\"CREATE TABLE w_csv USING csv LOCATION '{zone}/t' AS "
    'SELECT 1 AS a")',
    "with, create as select": (
        "spark.sql(f\"CREATE TABLE w_cte USING orc LOCATION '{zone}/t' AS WITH c AS (SELECT 1 AS "
        'a) SELECT * FROM c")'
    ),
    "create like": 'spark.sql(f"CREATE TABLE w_like LIKE plain USING parquet '
    "LOCATION '{zone}/t'\")",
    "create like, with its format": 'spark.sql(f"CREATE TABLE w_alike LIKE plain '
    "LOCATION '{zone}/t'\")",
    "in a database": (
        "spark.sql(f\"CREATE DATABASE IF NOT EXISTS inside LOCATION '{zone}/db'\")\n"
        "spark.sql('CREATE TABLE inside.managed (a INT) USING parquet')"
    ),
    "in a database, as select": (
        "spark.sql(f\"CREATE DATABASE IF NOT EXISTS inside LOCATION '{zone}/db'\")\n"
        "spark.sql('CREATE TABLE inside.filled USING json AS SELECT 1 AS a')"
    ),
    "relative, in a database": (
        "spark.sql(f\"CREATE DATABASE IF NOT EXISTS beside LOCATION '{folder}/db'\")\n"
        "spark.sql(\"CREATE TABLE beside.relative (a INT) USING parquet LOCATION '../zone/t'\")"
    ),
    "save": "ONE.write.parquet(f'{zone}/t')",
    "save, csv": "ONE.write.mode('append').csv(f'{zone}/t')",
    "save, json": "ONE.write.mode('overwrite').json(f'{zone}/deep/er/t')",
    "save, orc": "ONE.write.mode('ignore').orc(f'{zone}/t')",
    "save, text": "ONE.selectExpr('string(a)').write.text(f'{zone}/t')",
    "save, by format and option": "ONE.write.format('parquet').option('PATH', f'{zone}/t').save()",
    "save, partitioned": "ONE.write.partitionBy('p').parquet(f'{zone}/t')",
    "save as the zone": "ONE.write.mode('append').parquet(zone)",
    "save as a table": "ONE.write.option('path', f'{zone}/t').saveAsTable('w_saved')",
    "save as a bucketed table": "ONE.write.bucketBy(2, 'a').option('path', "
    "f'{zone}/t').saveAsTable('w_bucketed')",
    "write to": "ONE.writeTo('w_to').using('parquet').option('path', f'{zone}/t').create()",
    "insert overwrite directory": "spark.sql(f\"INSERT OVERWRITE DIRECTORY '{zone}/t' USING "
    'parquet SELECT 1 AS a")',
    "insert overwrite local directory": (
        "spark.sql(f\"INSERT OVERWRITE LOCAL DIRECTORY '{zone}/t' USING json SELECT 1 AS a\")"
    ),
    "insert overwrite directory, by option": (
        "spark.sql(f\"INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '{zone}/t') SELECT 1 "
        'AS a")'
    ),
    "several inserts": (
        "spark.sql(f\"FROM plain INSERT OVERWRITE DIRECTORY '{folder}/beside' USING csv SELECT a "
        "INSERT OVERWRITE DIRECTORY '{zone}/t' USING csv SELECT p\")"
    ),
    "insert into a table there": "spark.sql('INSERT INTO there VALUES (1)')",
    "insert overwrite a table there": "spark.sql('INSERT OVERWRITE there SELECT 1')",
    "insertInto a table there": "ONE.select('a').write.insertInto('there')",
    "append to a table there": "ONE.select('a').write.mode('append').saveAsTable('there')",
    "insert into a partition there": "spark.sql('INSERT INTO partly PARTITION (p = 1) VALUES (7)')",
    "insert into partitions": "spark.sql('INSERT OVERWRITE partly SELECT 7, 1')",
    "alter, set location": "spark.sql(f\"ALTER TABLE plain SET LOCATION '{zone}/t'\")",
    "alter, a partition's location": 'spark.sql(f"ALTER TABLE parted PARTITION (p = 1) SET '
    "LOCATION '{zone}/t'\")",
    "alter, add partition": 'spark.sql(f"ALTER TABLE parted ADD PARTITION (p = 9) '
    "LOCATION '{zone}/t'\")",
    "alter, rename": "spark.sql('ALTER TABLE plain RENAME TO in_zone')",
    "a stream's files": (
        "spark.readStream.schema('a INT').parquet(f'{folder}/open').writeStream.format('parquet')"
        ".option('checkpointLocation', f'{folder}/checkpoint').start(f'{zone}/t')"
    ),
    "a stream's checkpoint": (
        "spark.readStream.schema('a INT').parquet(f'{folder}/open').writeStream.format('parquet')"
        ".option('checkpointLocation', f'{zone}/checkpoint').start(f'{folder}/streamed')"
    ),
    "a stream's table": (
        "spark.readStream.schema('a INT').parquet(f'{folder}/open').writeStream"
        ".option('checkpointLocation', f'{folder}/checkpoint').toTable('there')"
    ),
}

# The same place, spelled in other ways.
SPELLINGS = [
    "file://{zone}/t",
    "file:{zone}/t",
    "file:///{zone}/t",
    "file://localhost{zone}/t",
    "{zone}/t/",
    "{zone}//t",
    "//{zone}/t",
    "{zone}/./t",
    "{folder}/open/../zone/t",
    "{folder}/none/such/../../zone/t",
    "file:{folder}/none/../zone//t/",
    "{zone}/../zone/t",
    "{folder}/link/t",
    "{folder}/link/none/../t",
    "{folder}/ahead",
    "{folder}/round about/t",
    "{zone}/%2e%2e/%2e%2e/t",
    "{zone}/t u v",
    "raw:{zone}/t",
    "viewfs://mounted/z/t",
]

# Names that only look like the zone's.
BESIDE = [
    "{zone}s/t",
    "{zone}.t",
    "{folder}/Zone/t",
    "{zone}/../beside/t",
    "{zone}%2Ft",
    "{folder}/z%6Fne/t",
    "{folder}/round%20about/t",
    "{folder}/link/../elsewhere/t",
]


class Zoned:
    """A session with two zones, `zone` and `round about`, and tables that were made before."""

    def __init__(self, owner: Owner, driver: Driver, folder: Path) -> None:
        self.owner = owner
        self.driver = driver
        self.folder = folder
        self.zone = folder / "zone"

    def run(self, code: str, **names: Any) -> Any:
        return self.driver.run(ONE + code, folder=str(self.folder), zone=str(self.zone), **names)

    def at(self, spelling: str) -> str:
        return spelling.format(folder=self.folder, zone=self.zone)

    def files(self) -> set[str]:
        """What is in the zones. Folders are not looked at: a stream's sink and a database make
        theirs first."""
        zones = (self.folder / zone for zone in ("zone", "round about", "old"))
        return {str(path) for zone in zones for path in zone.rglob("*") if path.is_file()}

    def refuses(self, code: str, **names: Any) -> None:
        before = self.files()
        with pytest.raises(QueryFailed, match="nothing plain is made"):
            self.run(code, **names)
        assert self.files() == before


TABLES = """
ONE.write.parquet(f'{folder}/open')
spark.sql('CREATE TABLE plain (a INT, p INT) USING parquet')
spark.sql(f"CREATE TABLE there (a INT) USING parquet LOCATION '{folder}/old/there'")
for name in ['partly', 'parted']:
    spark.sql(
        f"CREATE TABLE {name} (a INT, p INT) USING parquet PARTITIONED BY (p) "
        f"LOCATION '{folder}/{name}'"
    )
    spark.sql(f'ALTER TABLE {name} ADD PARTITION (p = 1)')
spark.sql(f"ALTER TABLE partly PARTITION (p = 1) SET LOCATION '{folder}/old/partition'")
hadoop = spark._jsc.hadoopConfiguration()
hadoop.set('fs.raw.impl', 'org.apache.hadoop.fs.RawLocalFileSystem')
hadoop.set('fs.viewfs.mounttable.mounted.link./z', f'file://{zone}')
"""


@pytest.fixture(scope="module")
def z(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoned]:
    folder = tmp_path_factory.mktemp("zones")
    owner = Owner.create(folder / "trusted")
    owner.coffer("keys", "create", "payroll")
    conf = {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    with Driver(
        {},
        sealed=True,
        log=folder / "driver.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=conf,
    ) as driver:
        zoned = Zoned(owner, driver, folder)
        zoned.run(TABLES)
        for zone in ("zone", "round about"):
            (folder / zone).mkdir()
        (folder / "link").symlink_to("zone")
        (folder / "ahead").symlink_to(folder / "zone" / "ahead")
        zones = {
            "pay": "zone",
            "round": "round about",
            "old": "old",
            "renamed": "warehouse/in_zone",
        }
        lines = [
            f'{name} = {{ path = "{folder / path}", master = "payroll" }}\n'
            for name, path in zones.items()
        ]
        owner.sign(owner.policy + "\n[zones]\n" + "".join(lines))
        yield zoned


def test_tables_made_in_a_zone_take_its_master(z: Zoned) -> None:
    z.run(
        "spark.sql(f\"CREATE TABLE in_pay USING coffer LOCATION '{zone}/ctas' AS SELECT 1 AS a\")"
    )
    z.run("spark.sql(f\"CREATE TABLE later (a INT) USING coffer LOCATION '{zone}/later'\")")
    z.run("ONE.write.format('coffer').save(f'{zone}/saved')")
    z.run("ONE.write.format('coffer').save(f'{folder}/outside')")
    listed = json.loads(z.owner.coffer("keys", "list", "--json").stdout)["tables"]
    masters = {table["name"]: table["master"] for table in listed}
    assert masters == {
        "in_pay": "payroll",
        "later": "payroll",
        "saved": "payroll",
        "outside": "main",
    }
    zones = json.loads(z.owner.coffer("keys", "zones", "--unlock", "--json").stdout)["zones"]
    pay = next(zone for zone in zones if zone["name"] == "pay")
    assert {table["name"] for table in pay["tables"]} == {"in_pay", "later", "saved"}


def test_sealed_tables_of_a_zone_are_written_as_ever(z: Zoned) -> None:
    z.run("spark.sql(f\"CREATE TABLE s USING coffer LOCATION '{zone}/s' AS SELECT 1 AS a\")")
    z.run("spark.sql('INSERT INTO s VALUES (2)')")
    z.run("spark.sql('INSERT OVERWRITE s SELECT a + 1 FROM s')")
    z.run("ONE.select('a').write.format('coffer').mode('append').save(f'{zone}/s')")
    assert z.run("result = sorted(row.a for row in spark.table('s').collect())") == [1, 2, 3]
    z.run("spark.sql('CREATE OR REPLACE TABLE s USING coffer AS SELECT 5 AS b')")
    assert z.run("result = [row.b for row in spark.table('s').collect()]") == [5]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_plain_is_made_in_a_zone(z: Zoned, way: str) -> None:
    z.refuses(WAYS[way])


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_nor_where_the_zone_is_spelled_otherwise(z: Zoned, spelling: str) -> None:
    path = z.at(spelling)
    z.refuses("ONE.write.parquet(path)", path=path)
    z.refuses(
        "spark.sql(f\"CREATE TABLE spelled (a INT) USING parquet LOCATION '{path}'\")", path=path
    )
    z.refuses(
        "spark.sql(f\"INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT 1 AS a\")", path=path
    )


def test_a_scheme_that_is_none_of_spark_s_is_refused_too(z: Zoned) -> None:
    z.refuses("ONE.write.mode('overwrite').option('path', f'FILE:{zone}/t').saveAsTable('shouted')")


@pytest.mark.parametrize("spelling", BESIDE)
def test_beside_a_zone_plain_is_spark_s_own(z: Zoned, spelling: str) -> None:
    path, before = z.at(spelling), z.files()
    z.run("ONE.write.parquet(path)\nresult = spark.read.parquet(path).count()", path=path)
    z.run(
        "spark.sql(f\"INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT 1 AS a\")", path=path
    )
    z.run(
        'spark.sql(f"CREATE TABLE aside (a INT) USING parquet '
        "LOCATION '{path}'\")\nspark.sql('DROP TABLE aside')",
        path=path,
    )
    assert z.files() == before


def test_what_makes_nothing_is_left_alone(z: Zoned) -> None:
    z.run("spark.sql('SELECT * FROM there').collect()")
    z.run("spark.sql('EXPLAIN SELECT * FROM there').collect()")
    z.run(
        "spark.sql('CREATE TABLE managed (a INT) USING parquet')\nspark.sql('INSERT INTO managed "
        "VALUES (1)')"
    )
    z.run("spark.sql('INSERT INTO parted PARTITION (p = 2) VALUES (7)')")
    z.run("spark.sql('ALTER TABLE managed RENAME TO named')\nspark.sql('DROP TABLE named')")


HIVE = {
    "stored as": 'spark.sql(f"CREATE TABLE h_stored (a INT) STORED AS PARQUET '
    "LOCATION '{zone}/t'\")",
    "external": 'spark.sql(f"CREATE EXTERNAL TABLE h_external (a INT) STORED AS TEXTFILE '
    "LOCATION '{zone}/t'\")",
    "as select": "spark.sql(f\"CREATE TABLE h_ctas STORED AS TEXTFILE LOCATION '{zone}/t' AS "
    'SELECT 1 AS a")',
    "as select, converted": 'spark.sql(f"CREATE TABLE h_conv STORED AS PARQUET '
    "LOCATION '{zone}/t' AS SELECT 1 AS a\")",
    "like": "spark.sql(f\"CREATE TABLE h_like LIKE h STORED AS ORC LOCATION '{zone}/t'\")",
    "directory": "spark.sql(f\"INSERT OVERWRITE DIRECTORY '{zone}/t' STORED AS TEXTFILE SELECT 1 "
    'AS a")',
    "local directory": (
        "spark.sql(f\"INSERT OVERWRITE LOCAL DIRECTORY '{zone}/t' "
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' SELECT 1 AS a\")"
    ),
    "insert": "spark.sql('INSERT INTO h_there VALUES (1)')",
    "insert, partition": "spark.sql('INSERT INTO h_partly PARTITION (p = 1) VALUES (1)')",
    "load": "spark.sql(f\"LOAD DATA LOCAL INPATH '{folder}/lines.txt' INTO TABLE h_there\")",
}


def test_hive_s_ways_and_a_client_engine_that_is_gone(z: Zoned, tmp_path: Path) -> None:
    (z.folder / "lines.txt").write_text("1\n")
    conf = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:zones;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={tmp_path}",
    }
    owner = z.owner
    zoned = owner.policy
    owner.sign(zoned.split("\n[zones]\n")[0])
    with Driver(
        {},
        sealed=True,
        log=tmp_path / "hive.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf=conf,
    ) as driver:
        hive = Zoned(owner, driver, z.folder)
        hive.run("spark.sql('CREATE TABLE h (a INT) STORED AS PARQUET')")
        hive.run(
            'spark.sql(f"CREATE TABLE h_there (a INT) STORED AS TEXTFILE '
            "LOCATION '{folder}/old/h'\")"
        )
        hive.run(
            "spark.sql('CREATE TABLE h_partly (a INT) PARTITIONED BY (p INT) STORED AS TEXTFILE')"
        )
        hive.run(
            "spark.sql(f\"ALTER TABLE h_partly ADD PARTITION (p = 1) LOCATION '{folder}/old/h1'\")"
        )
        owner.sign(zoned)
        for code in HIVE.values():
            hive.refuses(code)
        hive.run("spark.sql('INSERT INTO h VALUES (1)')")
        assert hive.run("result = spark.table('h').count()") == 1

        # Who cannot ask writes nothing plain, wherever it is.
        for pid in processes.named({driver.pid}, "coffer-client"):
            os.kill(pid, signal.SIGKILL)
        for code in (
            "ONE.write.parquet(f'{folder}/unasked')",
            "spark.sql('INSERT INTO h VALUES (2)')",
        ):
            with pytest.raises(QueryFailed, match="client engine"):
                hive.run(code)
        assert not (z.folder / "unasked").exists()
        assert hive.run("result = spark.table('h').count()") == 1
