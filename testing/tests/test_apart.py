"""An engine that has no part in the executor's disks, behind a hypervisor's socket: as one in a
virtual machine, which `test_machine.py` boots."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from coffer import find_binary
from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.processes import line_of, start
from coffer_testing.runner import Driver, QueryFailed

SQL = "SELECT count(*) AS n, sum(id) AS s FROM events WHERE id > 10"


class Hypervisor:
    """The host's side of a machine's sockets (Firecracker, docs/vsock.md). With `hostile` it
    changes a byte of what the machine sends after so many bytes."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.engine = engine
        self.hostile: int | None = None
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self) -> None:
        """Ends all connections."""
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if near.recv(13, socket.MSG_WAITALL) != b"CONNECT 7077\n":
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(str(self.engine))
            except OSError:
                near.close()
                continue
            self._open += [near, far]
            near.sendall(b"OK 1024\n")
            for args in ((near, far, None), (far, near, self.hostile)):
                threading.Thread(target=self._carry, args=args, daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket, hostile: int | None) -> None:
        carried = 0
        try:
            while piece := source.recv(1 << 16):
                if hostile is not None and carried <= hostile < carried + len(piece):
                    changed = bytearray(piece)
                    changed[hostile - carried] ^= 1
                    piece = bytes(changed)
                carried += len(piece)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            target.close()


@contextmanager
def engine(folder: Path, *more: str) -> Iterator[Path]:
    """One that asks for tables' files; its socket."""
    folder.mkdir()
    at = folder / "e"
    command = [find_binary("coffer-engine"), "--listen", f"unix:{at}", "--evidence", "simulated"]
    process = start(
        [*command, "--files", "executor", "--spill-dir", folder, "--lifeline", "stdin", *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin and process.stdout
    try:
        assert json.loads(line_of(process, 60))["listening"] == f"unix:{at}"
        yield at
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> tuple[Owner, dict[str, Path], Path]:
    folder = tmp_path_factory.mktemp("apart")
    owner = Owner.create(folder / "trusted")
    return owner, owner.encrypt(data.write(folder / "plain"), folder / "sealed"), folder


def driver(site: tuple[Owner, dict[str, Path], Path], name: str, at: Path) -> Driver:
    owner, tables, folder = site
    return Driver(
        tables,
        sealed=True,
        log=folder / f"{name}.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={"spark.coffer.engine.address": f"vsock:{at}:7077"},
    )


def in_the_end(spark: Driver, sql: str) -> Any:
    """Its answer. Queries fail whose tasks meet a connection that is gone, and those after them are
    answered."""
    for _ in range(4):
        try:
            return spark.query(sql).rows
        except QueryFailed as error:
            lost = error
    raise lost


def test_an_engine_apart_answers_writes_and_is_followed_by_another(
    owner: tuple[Owner, dict[str, Path], Path],
) -> None:
    folder = owner[2]
    with ExitStack() as first:
        hypervisor = Hypervisor(folder / "v", first.enter_context(engine(folder / "one")))
        verified = owner[0].coffer("verify", "--engine", f"vsock:{folder / 'v'}:7077", check=False)
        assert "simulated" in verified.stdout + verified.stderr
        with driver(owner, "apart", folder / "v") as spark:
            before = spark.query(SQL).rows
            spark.query(f"CREATE TABLE kept USING coffer LOCATION '{folder}/kept' AS TABLE events")
            assert spark.query(SQL.replace("events", "kept")).rows == before
            assert list((folder / "kept").glob("part-*.parquet"))
            # What listens there next has other keys, and proves itself anew.
            first.close()
            with engine(folder / "two") as listening:
                hypervisor.engine = listening
                assert in_the_end(spark, SQL) == before


def test_a_hypervisor_that_changes_a_byte_gets_no_wrong_answer(
    owner: tuple[Owner, dict[str, Path], Path],
) -> None:
    folder = owner[2]
    with engine(folder / "hostile") as listening:
        hypervisor = Hypervisor(folder / "w", listening)
        with driver(owner, "hostile", folder / "w") as spark:
            expected = spark.query(SQL).rows
            failed = 0
            for at in (4, 9, 40, 300, 500, 800, 1200):
                hypervisor.hostile = at
                hypervisor.drop()
                for _ in range(2):
                    # A length that was changed has one side wait for what does not come.
                    end = threading.Timer(5, hypervisor.drop)
                    end.start()
                    try:
                        assert spark.query(SQL).rows == expected
                    except QueryFailed:
                        failed += 1
                    finally:
                        end.cancel()
            assert failed >= 4, "nothing was changed that counts"
            hypervisor.hostile = None
            hypervisor.drop()
            assert in_the_end(spark, SQL) == expected
