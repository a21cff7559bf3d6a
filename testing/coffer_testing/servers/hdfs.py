"""An HDFS on loopback: Hadoop's MiniDFSCluster, with one DataNode. Spark reaches it with the client
that it has."""

from __future__ import annotations

import os
from pathlib import Path

from coffer_testing.servers.hadoop_kms import HadoopKms
from coffer_testing.servers.jars import fetched
from coffer_testing.servers.process import ServerProcess

VERSION = "3.4.3"
_POM = Path(__file__).with_name("hdfs.pom.xml")
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
_LOG = """\
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n
"""
USER = "tester"


def jars() -> Path:
    """The folder of its jars."""
    return fetched(f"hdfs-{VERSION}", _POM)


class Hdfs:
    """A cluster of its own folder; its files are gone when it stops. `kms`: with whose keys folders
    may be made encryption zones."""

    scheme = "hdfs"

    def __init__(self, folder: Path, kms: HadoopKms | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j.properties").write_text(_LOG)
        java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
        command = [
            str(java),
            "-Xmx384m",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Dtest.build.data={folder}/data",
            f"-Dlog4j.configuration=file:{folder}/log4j.properties",
            "-cp",
            f"{folder}:{jars()}/*",
            _MAIN,
            "-format",
            "-datanodes",
            "1",
            *("-D", "dfs.permissions.enabled=false"),
            *("-D", "dfs.namenode.fs-limits.min-block-size=0"),
        ]
        self._keys = {}
        if kms is not None:
            provider = kms.address.replace("://", "@", 1)
            self._keys["hadoop.security.key.provider.path"] = f"kms://{provider}"
        for name, value in self._keys.items():
            command += ["-D", f"{name}={value}"]
        says = r"NameNode RPC up at: (?:localhost|127\.0\.0\.1)/?\S*?:(\d+)"
        self.process = ServerProcess(command, folder / "server.log", says, self._answers, {})
        self._folder = folder

    @property
    def root(self) -> str:
        """The URL below which tests put tables."""
        return f"hdfs://localhost:{self.process.port}/tables"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.process.log

    def start(self) -> Hdfs:
        self.process.start()
        return self

    def stop(self) -> None:
        self.process.stop()

    def conf(self) -> dict[str, str]:
        """Spark's settings to reach it."""
        keys = {f"spark.hadoop.{name}": value for name, value in self._keys.items()}
        return {"spark.hadoop.dfs.replication": "1", **keys}

    def environment(self) -> dict[str, str]:
        """What the command line needs to reach it: of keys it reads in Hadoop's configuration."""
        if not self._keys:
            return {"HADOOP_USER_NAME": USER}
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in self._keys.items()
        )
        site = self._folder / "conf" / "core-site.xml"
        site.parent.mkdir(exist_ok=True)
        site.write_text(f"<configuration>{properties}</configuration>\n")
        return {"HADOOP_USER_NAME": USER, "HADOOP_CONF_DIR": str(site.parent)}

    def dump(self, _: Path) -> list[Path]:
        """What a host can read: the disks of NameNode and DataNode, and what they say."""
        return [self._folder / "data", self.log]

    def _answers(self) -> None:
        if "Started MiniDFSCluster" not in self.process.log.read_text(errors="replace"):
            raise OSError("it is starting")
