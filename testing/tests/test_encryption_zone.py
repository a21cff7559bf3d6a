"""Tables in an encryption zone of HDFS, whose clients encrypt again, with keys of a Hadoop KMS."""

from __future__ import annotations

from pathlib import Path

import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver
from coffer_testing.servers.hadoop_kms import HadoopKms
from coffer_testing.servers.hdfs import Hdfs

ROWS = 100
# Of each file below a folder: whether HDFS says that it is in a zone.
ENCRYPTED = """
hadoop = spark._jvm.org.apache.hadoop
root = hadoop.fs.Path(path)
fs = root.getFileSystem(spark._jsc.hadoopConfiguration())
below, found = fs.listFiles(root, True), []
while below.hasNext():
    found.append(below.next().isEncrypted())
result = found
"""
MAKE = """
hadoop = spark._jvm.org.apache.hadoop
conf = spark._jsc.hadoopConfiguration()
zone = hadoop.fs.Path(path)
zone.getFileSystem(conf).mkdirs(zone)
hadoop.hdfs.client.HdfsAdmin(zone.toUri(), conf).createEncryptionZone(zone, key)
"""


@pytest.mark.full
def test_tables_in_an_encryption_zone(tmp_path: Path) -> None:
    owner = Owner.create(tmp_path / "trusted")
    kms = HadoopKms(tmp_path / "kms", users="*", cache=True).start()
    hdfs = Hdfs(tmp_path / "hdfs", kms)
    try:
        kms.create("zone")
        hdfs.start()
        zone = f"{hdfs.root}/zone"
        with Driver(
            {},
            sealed=True,
            log=tmp_path / "driver.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={"spark.sql.warehouse.dir": str(tmp_path / "warehouse"), **hdfs.conf()},
        ) as driver:
            driver.run(MAKE, path=zone, key="zone")
            made = f"{zone}/made"
            driver.query(
                f"CREATE TABLE made USING coffer LOCATION '{made}' AS "
                f"SELECT CAST(id AS INT) AS id FROM range({ROWS})"
            )
            driver.query("INSERT INTO made VALUES (1000)")
            wanted = [[str(ROWS + 1), str(sum(range(ROWS)) + 1000)]]
            assert driver.query("SELECT count(*), sum(id) FROM made").rows == wanted
            encrypted = driver.run(ENCRYPTED, path=made)
            assert len(encrypted) >= 4 and all(encrypted)

            # The command line has another client.
            env = hdfs.environment()
            source = tmp_path / "rows.csv"
            source.write_text("id\n" + "".join(f"{i}\n" for i in range(ROWS)))
            sealed = f"{zone}/sealed"
            owner.coffer("encrypt", "--header", "--schema", "id INT", source, sealed, env=env)
            for table in (made, sealed):
                assert "sound" in owner.coffer("verify", "--deep", table, env=env).stdout
            rows = driver.run(
                "result = spark.read.format('coffer').load(path).count()", path=sealed
            )
            assert rows == ROWS
            assert all(driver.run(ENCRYPTED, path=sealed))
    finally:
        hdfs.stop()
        kms.stop()
