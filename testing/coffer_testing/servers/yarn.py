"""A YARN on loopback: Hadoop's MiniYARNCluster with two NodeManagers, whose containers are
processes of this machine. Spark reaches it by the configuration that it writes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from coffer_testing.processes import line_of, start
from coffer_testing.servers.jars import fetched

VERSION = "3.4.3"
_FOLDER = Path(__file__).parent
_START_SECONDS = 90


class Yarn:
    """A cluster of its own folder, with its containers' logs in it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._conf = folder / "conf"
        self._conf.mkdir(exist_ok=True)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> Yarn:
        java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
        command = [
            str(java),
            "-Xmx384m",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Dtest.build.data={self.folder}/data",
            "-cp",
            f"{fetched(f'yarn-{VERSION}', _FOLDER / 'yarn.pom.xml')}/*",
            str(_FOLDER / "Yarn.java"),
            str(self._conf),
        ]
        with (self.folder / "server.log").open("ab") as log:
            self.process = start(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while "YARN is ready" not in (line := line_of(self.process, deadline - time.monotonic())):
            if not line:
                self.stop()
                raise RuntimeError(f"YARN did not start: see {self.folder}/server.log")
        return self

    def stop(self) -> None:
        """Its containers end with it: their NodeManagers kill them."""
        process, self.process = self.process, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)
        if process.stdout:
            process.stdout.close()

    def environment(self) -> dict[str, str]:
        """What a driver needs to reach it."""
        return {"HADOOP_CONF_DIR": str(self._conf)}

    def logs(self) -> list[Path]:
        """What its containers said."""
        return sorted((self.folder / "data").rglob("container_*/std*"))
