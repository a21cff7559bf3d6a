"""Drivers on other machines at the owner's key service, over mutual TLS: each user is a name in a
certificate, with that user's columns, until the policy says otherwise."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer._find import find_binary
from coffer_testing.answers import encode
from coffer_testing.certificates import Authority, fingerprint
from coffer_testing.owner import Owner
from coffer_testing.processes import line_of, named, start
from coffer_testing.runner import Driver, QueryFailed
from conftest import CONF

ANN, BOB, EVE = "ann@example.org", "bob@example.org", "eve@example.org"
ROLES = f"""
[roles.some]
tables.staff = ["id", "name"]
[roles.all]
tables = "*"
[users.ann]
roles = ["some"]
certificate = "{ANN}"
[users.bob]
roles = ["all"]
certificate = "{BOB}"
"""
ELSEWHERE = 2**32 - 1


class Service:
    """`coffer keys serve` of an owner, and a sealed table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = Owner.create(folder / "trusted")
        self.base = self.owner.policy
        self.owner.sign(self.base + ROLES)
        rows = {"id": range(50), "name": [f"name {i}" for i in range(50)], "salary": range(50)}
        pq.write_table(pa.table(rows), folder / "staff.parquet", row_group_size=10)
        self.tables = self.owner.encrypt({"staff": folder / "staff.parquet"}, folder / "sealed")
        self.site = Authority(folder / "site", "the owner's site")
        self.users = Authority(folder / "users", "users of the owner's")
        certificate, key = self.site.make("127.0.0.1")
        serve = ["keys", "serve", "--listen", "127.0.0.1:0", "--certificate", str(certificate)]
        serve += ["--key", str(key), "--users", str(self.users.certificate)]
        self.process = start(
            [str(find_binary("coffer")), *serve],
            env=self.owner.environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        ready = json.loads(line_of(self.process, 60))
        assert ready["listening"] == ready["network"]
        self.address = ready["network"]

    def conf(self, files: tuple[Path, Path], site: Path | None = None) -> dict[str, str]:
        return {
            **CONF,
            "spark.coffer.client.address": self.address,
            "spark.coffer.client.certificate": str(files[0]),
            "spark.coffer.client.key": str(files[1]),
            "spark.coffer.client.authority": str(site or self.site.certificate),
        }

    @contextmanager
    def driver(
        self, name: str, files: tuple[Path, Path], site: Path | None = None
    ) -> Iterator[Driver]:
        """A driver without config directory and passphrase."""
        log = self.folder / f"{name}.log"
        conf = self.conf(files, site)
        with Driver(self.tables, sealed=True, log=log, conf=conf) as running:
            yield running

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("network"))
    try:
        yield running
    finally:
        running.stop()


def encoded(rows: list[list[object]]) -> list[list[object]]:
    """Rows as a driver's answer has them."""
    return [[encode(value) for value in row] for row in rows]


def test_users_by_their_certificates_until_they_are_revoked(service: Service) -> None:
    files = {name: service.users.make(name) for name in (ANN, BOB, EVE)}
    with service.driver("ann", files[ANN]) as ann, service.driver("bob", files[BOB]) as bob:
        count = "select count(name), max(id) from staff"
        assert ann.query(count).rows == encoded([[50, 49]])
        with pytest.raises(QueryFailed, match=r"denied_column.*staff\.salary"):
            ann.query("select salary from staff")
        assert bob.query("select sum(salary) from staff").rows == encoded([[1225]])
        assert named({ann.pid}, "coffer-relay") and not named({ann.pid}, "coffer-client")
        with (
            pytest.raises(QueryFailed, match="no user of the policy has this certificate"),
            service.driver("eve", files[EVE]) as eve,
        ):
            eve.query("select 1 from staff")
        # Revoked by one line of the policy, within seconds.
        gone = ROLES.replace(f'certificate = "{ANN}"', f'certificate = "was-{ANN}"')
        service.owner.sign(service.base + gone)
        signed = time.monotonic()
        with pytest.raises(QueryFailed, match="no user of the policy has this certificate"):
            while time.monotonic() < signed + 10:
                ann.query(count)
        assert bob.query("select sum(salary) from staff").rows == encoded([[1225]])
        service.owner.sign(service.base + ROLES)
        assert ann.query(count).rows == encoded([[50, 49]])
    log = service.owner.coffer("audit", "show", "--json").stdout.splitlines()
    records = [json.loads(line) for line in log]
    who = {
        (
            r["who"]["user"],
            r["who"].get("certificate"),
            r["who"]["uid"],
            r["event"]["action"],
            r["event"]["outcome"],
        )
        for r in records
    }
    prints = {name: fingerprint(certificate) for name, (certificate, _) in files.items()}
    assert {
        ("ann", prints[ANN], ELSEWHERE, "release", "granted"),
        ("bob", prints[BOB], ELSEWHERE, "release", "granted"),
        ("(nobody)", prints[EVE], ELSEWHERE, "connect", "refused"),
    } <= who


def test_who_is_not_known_by_certificate_is_not_let_in(service: Service) -> None:
    strangers = Authority(service.folder / "strangers", "users of the owner's")
    for files, site in (
        (strangers.make(ANN), None),  # another authority, with the same name
        (service.users.make(ANN, days=-1), None),  # run out
        (service.users.make(ANN), strangers.certificate),  # whoever answers is not the owner's
    ):
        with (
            pytest.raises(QueryFailed, match=rf"the key service at {service.address} cannot be"),
            service.driver("stranger", files, site) as driver,
        ):
            driver.query("select 1 from staff")
    certificate, _ = service.users.make(ANN)
    with (
        pytest.raises(QueryFailed, match="cannot read the private key"),
        service.driver("keyless", (certificate, service.folder / "none")) as driver,
    ):
        driver.query("select 1 from staff")


def test_what_is_no_tls_holds_up_nobody(service: Service) -> None:
    host, _, port = service.address.rpartition(":")
    mute = [socket.create_connection((host, int(port))) for _ in range(8)]
    try:
        for one in mute[:4]:
            one.sendall(b"\x05\x00\x00\x00\x01HELLO" * 20)
        with service.driver("bob", service.users.make(BOB)) as bob:
            assert bob.query("select sum(salary) from staff").rows == encoded([[1225]])
    finally:
        for one in mute:
            one.close()


def test_the_relays_socket_is_the_services_alone(service: Service) -> None:
    """Whoever could connect there could say who they are."""
    (relay,) = named({service.process.pid}, "coffer-relay")
    said = Path(f"/proc/{relay}/cmdline").read_bytes().decode().split("\0")
    door = Path(said[said.index("--to") + 1])
    assert door.is_socket()
    assert door.parent.stat().st_mode & 0o777 == 0o700
    assert not Path(f"/proc/{relay}/environ").read_bytes()


def test_a_service_without_its_relay_ends(service: Service) -> None:
    """The last test: nobody is served afterwards."""
    (relay,) = named({service.process.pid}, "coffer-relay")
    os.kill(relay, signal.SIGKILL)
    assert service.process.wait(timeout=30) == 1
