"""A standalone Spark cluster on loopback: a master, and workers whose executors are processes of
their own.

All ports are chosen by the system, all files lie under one folder, and what was started is ended by
its process id.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coffer_testing import archives
from coffer_testing.processes import named, running, start

_DEADLINE = 180.0  # seconds for a daemon to say that it is up
_UI = r"Bound (?:Master|Worker)WebUI to .*started at (http://\S+)"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class ClusterFailed(RuntimeError):
    """A daemon did not come up; the message says where its log is."""


def copied(spark: Path, target: Path) -> Path:
    """A Spark that another account can read, of links where the file system allows it."""

    def put(source: str, at: str) -> None:
        try:
            os.link(source, at)
        except OSError:
            shutil.copy2(source, at)

    for part in ("bin", "jars"):
        shutil.copytree(spark / part, target / part, copy_function=put)
    return target


class Cluster:
    """`workers` workers with one core each. `folder` takes logs, work folders and the executors'
    local disks, unless those are to be under `local`. `environment` goes to the workers, and so to
    their executors. `hosts`: the master's address and each worker's, where they should differ; all
    of loopback. `user`: the id of another account that all of it runs under, with a Spark of its
    own in `folder` and nothing of Coffer; only root can have that. `options`: of the daemons'
    JVMs."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        memory: str = "1g",
        local: Path | None = None,
        environment: dict[str, str] | None = None,
        hosts: Sequence[str] | None = None,
        user: int | None = None,
        options: str = "",
    ) -> None:
        import pyspark

        self.folder = folder
        self._user = user
        self._options = options
        self.uis: list[str] = []  # addresses of the web UIs: the master's, then the workers'
        self._local = local or folder
        self._environment = environment or {}
        self._hosts = hosts or ["127.0.0.1"] * (workers + 1)
        self._spark = Path(pyspark.__file__).parent
        self._daemons: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        if user is not None:
            self._spark = copied(self._spark, folder / "spark")
            self._give(folder)
        try:
            log = self._start("Master", ["--port", "0"], "master", {})
            self.master = self._said(log, r"Starting Spark master at (spark://\S+)")
            self.uis.append(self._said(log, _UI))
            for number in range(workers):
                self._start_worker(number, memory)
        except BaseException:
            self.stop()
            raise

    def _start_worker(self, number: int, memory: str) -> None:
        name = f"worker-{number}"
        work, local = self.work_folder(number), self.local_folder(number)
        work.mkdir(parents=True)
        local.mkdir(parents=True)
        for made in (work.parent, work, local.parent, local):
            self._give(made)
        arguments = ["--cores", "1", "--memory", memory, "--work-dir", str(work), self.master]
        log = self._start(
            "Worker", arguments, name, {**self._environment, "SPARK_LOCAL_DIRS": str(local)}
        )
        self._said(log, r"(Successfully registered with master)")
        self.uis.append(self._said(log, _UI))

    def work_folder(self, number: int) -> Path:
        """Where a worker puts its executors' logs and the jars they fetched."""
        return self.folder / f"worker-{number}" / "work"

    def local_folder(self, number: int) -> Path:
        """A worker's local disk: shuffle and spill files."""
        return self._local / f"worker-{number}" / "local"

    def executors(self) -> list[int]:
        """The process ids of the executors that run now."""
        return running({daemon.pid for daemon in self._daemons}, _EXECUTOR)

    def daemons(self) -> list[int]:
        """The process ids of the master and of the workers."""
        return [daemon.pid for daemon in self._daemons]

    def worker(self, number: int) -> int:
        """The process id of a worker."""
        return self._daemons[1 + number].pid

    def executors_of(self, number: int) -> list[int]:
        """The process ids of one worker's executors."""
        return running({self.worker(number)}, _EXECUTOR)

    def engines(self) -> list[int]:
        """The process ids of the engines beside those executors."""
        return named(set(self.executors()), "coffer-engine")

    def stop(self) -> None:
        """Ends workers, then the master."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(timeout=20)
        self._daemons.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _give(self, folder: Path) -> None:
        if self._user is not None:
            os.chown(folder, self._user, self._user)

    def _account(self) -> dict[str, Any]:
        """What starts a daemon under the other account, if there is one."""
        if self._user is None:
            return {}
        return {"user": self._user, "group": self._user, "extra_groups": []}

    def _start(self, role: str, arguments: list[str], name: str, env: dict[str, str]) -> Path:
        log = self.folder / f"{name}.log"
        host = self._hosts[len(self._daemons)]
        # Secrets of the client site must not reach the untrusted one by inheritance.
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith("COFFER_")
        }
        with log.open("wb") as sink:
            daemon = start(
                [
                    str(self._spark / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{role.lower()}.{role}",
                    *("--host", host, "--webui-port", "0"),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                **self._account(),
                env={
                    **inherited,
                    **archives.environment(sealed=False),
                    **({} if self._user is None else self._own()),
                    "SPARK_LOCAL_IP": host,
                    "SPARK_NO_DAEMONIZE": "1",
                    "SPARK_DAEMON_MEMORY": "512m",
                    **({"SPARK_DAEMON_JAVA_OPTS": self._options} if self._options else {}),
                    "TZ": "UTC",
                    **env,
                },
            )
        self._daemons.append(daemon)
        return log

    def _own(self) -> dict[str, str]:
        """Environment of the other account."""
        return {
            "HOME": str(self.folder),
            "SPARK_HOME": str(self._spark),
            "TMPDIR": str(self.folder),
            "PYTHONPATH": "",
        }

    def _said(self, log: Path, pattern: str) -> str:
        """The first group of `pattern` once the newest daemon has logged it."""
        daemon = self._daemons[-1]
        deadline = time.monotonic() + _DEADLINE
        while time.monotonic() < deadline:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found.group(1)
            if daemon.poll() is not None:
                break
            time.sleep(0.1)
        raise ClusterFailed(f"a Spark daemon did not come up; see {log}")
