"""Sides whose executors are processes of their own: each has a standalone master and workers of one
core, on loopback, for as long as it is compared with the others.

So what the untrusted site uses can be told from what the driver uses. Of plaintext Spark an
executor's heap has what Coffer's executor and its engine have together.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coffer_bench.usage import Meter
from coffer_testing.cluster import Cluster
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

# Spark's encryption of its own: what it keeps on local disks, and what its processes send.
_ENCRYPTED = {
    "spark.io.encryption.enabled": "true",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
CIPHERS = {
    "encrypted-ctr": "AES/CTR/NoPadding",
    "encrypted-gcm": "AES/GCM/NoPadding",
}


@dataclass(frozen=True)
class Shape:
    """Of a side's cluster: its workers, each with one core, and GiB of an executor's heap and of
    the engine beside it."""

    workers: int = 2
    heap: int = 1
    native: int = 1
    driver: int = 2
    partitions: int = 4

    def conf(self) -> dict[str, str]:
        return {
            "spark.driver.memory": f"{self.driver}g",
            "spark.cores.max": str(self.workers),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.shuffle.partitions": str(self.partitions),
        }


@dataclass
class Running:
    """A side that runs."""

    driver: Driver
    cluster: Cluster
    conf: dict[str, str] = field(default_factory=dict)

    def pids(self) -> list[int]:
        """The executors and what they started: the untrusted site, but for its daemons."""
        return sorted({*self.cluster.executors(), *self.cluster.engines()})

    def meter(self) -> Meter:
        return Meter(self.pids)


@contextmanager
def running(
    name: str,
    tables: Mapping[str, Path | str],
    folder: Path,
    shape: Shape,
    *,
    owner: Owner | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Starts a side: Coffer where there is an owner, else plaintext Spark; with Spark's own
    encryption under a name of `CIPHERS`."""
    memory = shape.heap + (0 if owner else shape.native)
    given = {
        **shape.conf(),
        "spark.executor.memory": f"{memory}g",
        "spark.local.dir": str(folder / f"{name}-driver"),
        **({"spark.coffer.engine.memory": f"{shape.native}GiB"} if owner else {}),
        **(conf or {}),
    }
    options = ""
    if name in CIPHERS:
        secret = secrets.token_hex(16)
        given |= {
            **_ENCRYPTED,
            "spark.authenticate.secret": secret,
            "spark.network.crypto.cipher": CIPHERS[name],
        }
        # The daemons have it too, or nobody could talk to them.
        options = " ".join(
            f"-D{key}={value}"
            for key, value in given.items()
            if key.startswith(("spark.authenticate", "spark.network.crypto"))
        )
    with (
        Cluster(
            folder / f"{name}-cluster",
            workers=shape.workers,
            memory=f"{memory}g",
            options=options,
        ) as cluster,
        Driver(
            tables,
            sealed=owner is not None,
            log=folder / f"{name}.log",
            master=cluster.master,
            config_dir=owner.config_dir if owner else None,
            passphrase_file=owner.passphrase_file if owner else None,
            conf=given,
        ) as driver,
    ):
        yield Running(driver, cluster, given)
