"""Drivers of other accounts at the owner's key service: known by the kernel's word, each with its
user's columns."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer._find import find_binary
from coffer_testing.answers import encode
from coffer_testing.owner import Owner
from coffer_testing.processes import line_of, start
from coffer_testing.runner import Driver, QueryFailed
from conftest import CONF

# Accounts that every Debian has: one is named in the policy by its name, one by its number, one not
# at all.
ANN, BOB, EVE = "games", "man", "nobody"

ROLES = f"""
[roles.some]
tables.staff = ["id", "name"]
[roles.all]
tables = "*"
[users.ann]
roles = ["some"]
account = "{ANN}"
[users.bob]
roles = ["all"]
account = {pwd.getpwnam(BOB).pw_uid}
"""

# Runs as another account and passes bytes on: to the service, its connections are that account's.
# (Spark itself may lie where the other account cannot read it.)
RELAY = """
import os, socket, sys, threading
def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen()
print("ready", flush=True)
while True:
    near, _ = door.accept()
    far = socket.socket(socket.AF_UNIX)
    far.connect(sys.argv[2])
    for pair in ((near, far), (far, near)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run processes of other accounts"),
    pytest.mark.skipif(
        shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed"
    ),
]


def command(account: str, *arguments: str | Path) -> list[str]:
    """A command line that another account runs."""
    return [
        "setpriv",
        f"--reuid={account}",
        "--clear-groups",
        "--pdeathsig=TERM",
        *map(str, arguments),
    ]


class Service:
    """`coffer keys serve` of an owner, and a sealed table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = Owner.create(folder / "trusted")
        self.owner.sign(self.owner.policy + ROLES)
        rows = {"id": range(50), "name": [f"name {i}" for i in range(50)], "salary": range(50)}
        pq.write_table(pa.table(rows), folder / "staff.parquet", row_group_size=10)
        self.tables = self.owner.encrypt({"staff": folder / "staff.parquet"}, folder / "sealed")
        self.sockets = folder / "sockets"
        self.sockets.mkdir()
        self.socket = self.sockets / "keys"
        serve = [str(find_binary("coffer")), "keys", "serve", "--socket", str(self.socket)]
        self.process = start(serve, env=self.owner.environment(), stdout=subprocess.PIPE, text=True)
        ready = json.loads(line_of(self.process, 60))
        assert ready["listening"] == f"unix:{self.socket}"

    @contextmanager
    def driver(self, account: str, **conf: str) -> Iterator[Driver]:
        """A driver without config directory and passphrase, whose connections to the service are of
        this account."""
        door = self.sockets / account / "door"
        door.parent.mkdir(exist_ok=True)
        door.unlink(missing_ok=True)
        shutil.chown(door.parent, account)
        relay = start(
            command(account, os.path.realpath(sys.executable), "-c", RELAY, door, self.socket),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert line_of(relay, 60) == "ready\n"
            settings = {**CONF, "spark.coffer.client.socket": str(door), **conf}
            with Driver(
                self.tables, sealed=True, log=self.folder / f"{account}.log", conf=settings
            ) as running:
                yield running
        finally:
            relay.terminate()
            relay.wait(timeout=30)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


def encoded(rows: list[list[object]]) -> list[list[object]]:
    """Rows as a driver's answer has them."""
    return [[encode(value) for value in row] for row in rows]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    # Not under pytest's own folder, which other accounts cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="coffer-service-", dir="/tmp"))
    folder.chmod(0o755)
    running = Service(folder)
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder)


def test_users_by_their_accounts(service: Service) -> None:
    with service.driver(ANN, **{"spark.coffer.user": "bob"}) as ann:
        assert ann.query("select count(name), max(id) from staff").rows == encoded([[50, 49]])
        with pytest.raises(QueryFailed, match=r"denied_column.*staff\.salary"):
            ann.query("select salary from staff")
        # Another application of another user, at the same time.
        with service.driver(BOB) as bob:
            assert bob.query("select sum(salary) from staff").rows == encoded([[1225]])
        assert ann.query("select max(name) from staff where id < 5").rows == encoded([["name 4"]])
    with pytest.raises(QueryFailed, match="is no user of the policy"), service.driver(EVE) as eve:
        eve.query("select 1 from staff")
    log = service.owner.coffer("audit", "show", "--json").stdout.splitlines()
    records = [json.loads(line) for line in log]
    who = {
        (r["who"]["user"], r["who"]["uid"], r["event"]["action"], r["event"]["outcome"])
        for r in records
    }
    assert {
        ("ann", pwd.getpwnam(ANN).pw_uid, "release", "granted"),
        ("bob", pwd.getpwnam(BOB).pw_uid, "release", "granted"),
        ("(nobody)", pwd.getpwnam(EVE).pw_uid, "connect", "refused"),
    } <= who
    applications = {
        (r["who"]["user"], r["who"]["application"])
        for r in records
        if r["event"]["action"] == "release"
    }
    assert len(applications) == 2


def test_the_home_is_the_owners(service: Service) -> None:
    """An account that is served reads nothing of the owner's config directory."""
    for file in ("keyring.coffer", "policy.toml", "audit/log"):
        assert (service.owner.config_dir / file).exists()
        read = subprocess.run(
            command(ANN, "cat", service.owner.config_dir / file), capture_output=True, timeout=60
        )
        assert read.returncode != 0 and not read.stdout


def test_a_service_for_nobody_does_not_start(tmp_path: Path) -> None:
    owner = Owner.create(tmp_path / "trusted")
    refused = owner.coffer("keys", "serve", "--socket", tmp_path / "s", check=False)
    assert refused.returncode != 0 and "names no users" in refused.stderr
