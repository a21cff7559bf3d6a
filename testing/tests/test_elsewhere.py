"""Executors on machines of their own: another account, no folder shared with the driver but the
store, and nothing of Coffer there before. The engine comes to them in a jar: in the plugin's, as it
is shipped, out of which the driver has the client engine too, or in one of its own."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.processes import named
from coffer_testing.runner import Driver
from coffer_testing.servers.s3 import S3

NOBODY = 65534

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can start workers under another account"
)


@dataclass
class Elsewhere:
    cluster: Cluster
    driver: Driver
    store: S3
    trusted: Path
    # Whether the plugin's jar carries the programs.
    carried: bool


@pytest.fixture(scope="module", params=["shipped", pytest.param("tree", marks=pytest.mark.full)])
def elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Elsewhere]:
    carried = request.param == "shipped"
    with pytest.MonkeyPatch.context() as changed:
        if carried:
            changed.setenv("COFFER_JAR", str(request.getfixturevalue("shipped").jar))
        yield from _elsewhere(tmp_path_factory, carried)


def _elsewhere(tmp_path_factory: pytest.TempPathFactory, carried: bool) -> Iterator[Elsewhere]:
    # pytest's folders, as the owner's, are closed to all other accounts.
    trusted = tmp_path_factory.mktemp("trusted")
    trusted.chmod(0o700)
    owner = Owner.create(trusted / "owner")
    with tempfile.TemporaryDirectory(prefix="coffer-elsewhere-") as theirs:
        Path(theirs).chmod(0o755)
        store = S3(trusted / "store").start()
        try:
            with (
                Cluster(Path(theirs) / "site", user=NOBODY) as cluster,
                Driver(
                    {},
                    sealed=True,
                    log=trusted / "driver.log",
                    master=cluster.master,
                    config_dir=owner.config_dir,
                    passphrase_file=owner.passphrase_file,
                    conf={
                        "spark.executor.memory": "512m",
                        "spark.sql.warehouse.dir": str(trusted / "warehouse"),
                        "spark.coffer.engine.memory": "256MiB",
                        **store.conf(),
                    },
                ) as driver,
            ):
                yield Elsewhere(cluster, driver, store, trusted, carried)
        finally:
            store.stop()


def test_tables_are_made_joined_and_changed(elsewhere: Elsewhere) -> None:
    def sql(text: str) -> list[list[str]]:
        return elsewhere.driver.query(text).rows

    root = elsewhere.store.root
    sql(
        f"CREATE TABLE visits USING coffer LOCATION '{root}/visits' AS "
        "SELECT CAST(id AS INT) AS id, CAST(id % 7 AS INT) AS ward, CAST(id % 50 AS DECIMAL(8, 2)) "
        "AS cost FROM range(5000)"
    )
    sql(f"CREATE TABLE wards (ward INT, name STRING) USING coffer LOCATION '{root}/wards'")
    sql("INSERT INTO wards SELECT CAST(id AS INT), concat('ward ', id) FROM range(7)")
    found = sql(
        "SELECT name, count(*), sum(cost) FROM visits JOIN wards USING (ward) "
        "GROUP BY name ORDER BY name LIMIT 2"
    )
    costs = [sum(i % 50 for i in range(5000) if i % 7 == ward) for ward in (0, 1)]
    counts = [sum(1 for i in range(5000) if i % 7 == ward) for ward in (0, 1)]
    assert found == [[f"ward {ward}", str(counts[ward]), f"{costs[ward]}.00"] for ward in (0, 1)]
    sql("INSERT OVERWRITE wards VALUES (1, 'one')")
    assert sql("SELECT * FROM wards") == [["1", "one"]]


def test_nothing_of_the_drivers_is_there(elsewhere: Elsewhere) -> None:
    elsewhere.driver.query("SELECT count(*) FROM wards")
    executors, engines = elsewhere.cluster.executors(), elsewhere.cluster.engines()
    assert len(executors) == len(engines) == 2
    site = str(elsewhere.cluster.folder)
    for process in [*executors, *engines]:
        status = Path(f"/proc/{process}/status").read_text()
        assert f"Uid:\t{NOBODY}\t{NOBODY}" in status
    for engine in engines:
        # It came in the application's jar.
        program = Path(f"/proc/{engine}/exe").readlink()
        assert str(program).startswith(site)
        assert program.parent.stat().st_mode & 0o777 == 0o700
    for executor in executors:
        said = Path(f"/proc/{executor}/cmdline").read_bytes().decode().split("\0")
        assert not [word for word in said if "coffer-spark" in Path(word).name]
        assert not [word for word in said if str(elsewhere.trusted) in word]


def test_the_jar_alone_is_enough(elsewhere: Elsewhere) -> None:
    (client,) = named({elsewhere.driver.pid}, "coffer-client")
    program = Path(f"/proc/{client}/exe").readlink()
    conf = "dict(spark.sparkContext.getConf().getAll())"
    settings = elsewhere.driver.run(f"result = {conf}")
    named_paths = [name for name in settings if re.fullmatch(r"spark\.coffer\..*\.path", name)]
    # Those of hadoop-aws are there too.
    jars = [jar for jar in settings["spark.jars"].split(",") if "coffer-" in Path(jar).name]
    if elsewhere.carried:
        assert program.parent.name.startswith("coffer-bin-")
        assert (program.parent / "coffer-attest").is_file()
        assert len(jars) == 1 and not named_paths
    else:
        assert not program.parent.name.startswith("coffer-bin-")
        assert len(jars) == 2
        assert named_paths == ["spark.coffer.client.path"]
