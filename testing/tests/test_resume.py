"""`coffer encrypt` that was killed goes on where it was: with the files that are whole, and no
others."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from coffer._find import find_binary
from coffer_testing.owner import Owner
from coffer_testing.servers.store_relay import RelayedS3, Reply, Request

# A file each: a thread takes no fewer rows.
FILES = 6
ROWS = FILES << 16
WHOLE = 3
HANGS = 120.0


class Uploads:
    """What is put of data files: after so many no other gets through, until it may."""

    def __init__(self, through: int) -> None:
        self.free = threading.Event()
        self.bytes = 0
        self._left = through
        self._lock = threading.Lock()

    def answer(self, request: Request, ask: Callable[[], Reply]) -> Reply | None:
        if request.method != "PUT" or "/part-" not in request.key:
            return ask()
        with self._lock:
            self._left -= 1
            goes = self._left >= 0 or self.free.is_set()
        if not goes:
            self.free.wait(HANGS)
            return None
        self.bytes += len(request.body)
        return ask()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayedS3]:
    store = RelayedS3(tmp_path_factory.mktemp("resume") / "store").start()
    try:
        yield store
    finally:
        store.stop()


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner.create(tmp_path / "trusted")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    ids = pa.array(range(ROWS), pa.int32())
    names = pa.array([f"row {i * 7919 % ROWS}" for i in range(ROWS)])
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": ids, "name": names}), path, row_group_size=1 << 16)
    return path


def noted(owner: Owner) -> int:
    """Files that the one journal has."""
    journals = list((owner.config_dir / "writes").glob("*"))
    rest = journals[0].read_bytes() if journals else b""
    entries = 0
    while rest:
        length = int.from_bytes(rest[:4], "little")
        entries += len(rest) >= 4 + length
        rest = rest[4 + length :]
    return max(entries - 1, 0)


def killed(
    owner: Owner, command: list[str], env: dict[str, str], whole: int, into: Path | None = None
) -> None:
    """Runs it until so many files are whole. `into`: a folder that it fills, where nothing else
    keeps it from coming to its end."""
    binary = find_binary("coffer")
    writer = subprocess.Popen(
        [binary, *command],
        env={**owner.environment(), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + HANGS

    def wait(for_what: Callable[[], bool]) -> None:
        while not for_what():
            assert writer.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)

    with ExitStack() as held:
        if into is not None:
            wait(lambda: any(into.glob("part-*")))
            # Without it nothing is published.
            lock = held.enter_context((owner.config_dir / "register.lock").open("rb"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        wait(lambda: noted(owner) >= whole)
        os.kill(writer.pid, signal.SIGKILL)
        assert writer.wait(60) == -signal.SIGKILL


def rows(owner: Owner, path: str, folder: Path, env: dict[str, str]) -> pa.Table:
    out = folder / "out.csv"
    out.unlink(missing_ok=True)
    owner.coffer("decrypt", path, out, env=env)
    return pyarrow.csv.read_csv(out).sort_by("id")


@pytest.mark.parametrize("append", [False, True])
def test_a_killed_upload_goes_on(
    store: RelayedS3, owner: Owner, source: Path, tmp_path: Path, append: bool
) -> None:
    env = store.environment()
    path = f"{store.root}/{'appended' if append else 'made'}"
    command = ["encrypt", "--threads", str(FILES), str(source), path]
    times = 1
    store.relay.answer = None
    if append:
        owner.coffer(*command, env=env)
        command.insert(1, "--append")
        times = 2
    first = Uploads(WHOLE)
    store.relay.answer = first.answer
    killed(owner, command, env, WHOLE)
    first.free.set()
    left = {name for name in store.files(path) if "part-" in name}

    again = Uploads(FILES)
    store.relay.answer = again.answer
    done = owner.coffer(*command, env=env)
    assert f"{WHOLE} of its files are there" in done.stderr
    assert 0 < again.bytes < 1.5 * first.bytes
    assert not list((owner.config_dir / "writes").glob("*"))
    assert left <= set(store.files(path)), "what was whole was not kept"
    found = rows(owner, path, tmp_path, env)
    wanted = pq.read_table(source)
    assert found.num_rows == times * ROWS
    assert found["id"].to_pylist()[::times] == wanted["id"].to_pylist()
    assert found["name"].to_pylist()[::times] == wanted["name"].to_pylist()
    checked = owner.coffer("verify", "--deep", path, env=env)
    assert "sound" in checked.stdout


def test_a_file_that_was_changed_meanwhile_is_written_again(
    store: RelayedS3, owner: Owner, source: Path, tmp_path: Path
) -> None:
    env = store.environment()
    path = f"{store.root}/changed"
    command = ["encrypt", "--threads", str(FILES), str(source), path]
    first = Uploads(WHOLE)
    store.relay.answer = first.answer
    killed(owner, command, env, WHOLE)
    first.free.set()
    files = store.files(path)
    lost, cut, turned = sorted(name for name in files if "part-" in name)
    store.delete(f"{path}/{lost}")
    store.put(f"{path}/{cut}", files[cut][:-1])
    ends = bytearray(files[turned])
    ends[-20] ^= 1
    store.put(f"{path}/{turned}", bytes(ends))

    store.relay.answer = None
    owner.coffer(*command, env=env)
    assert rows(owner, path, tmp_path, env).num_rows == ROWS
    assert "sound" in owner.coffer("verify", "--deep", path, env=env).stdout
    names = store.files(path)
    assert cut not in names and turned not in names


def test_another_job_does_not_go_on_with_it(
    store: RelayedS3, owner: Owner, source: Path, tmp_path: Path
) -> None:
    env = store.environment()
    path = f"{store.root}/other"
    command = ["encrypt", "--threads", str(FILES), str(source), path]
    first = Uploads(WHOLE)
    store.relay.answer = first.answer
    killed(owner, command, env, WHOLE)
    first.free.set()
    store.relay.answer = None
    table = pq.read_table(source)
    pq.write_table(table.slice(1), source, row_group_size=1 << 16)
    refused = owner.coffer(*command, check=False, env=env)
    assert refused.returncode != 0 and "interrupted" in refused.stderr
    owner.coffer("verify", "--clean", path, env=env)
    assert not store.files(path) and not list((owner.config_dir / "writes").glob("*"))
    owner.coffer(*command, env=env)
    assert rows(owner, path, tmp_path, env).num_rows == ROWS - 1


def test_a_killed_write_to_a_folder_goes_on(owner: Owner, source: Path, tmp_path: Path) -> None:
    path = tmp_path / "table"
    big = pa.concat_tables([pq.read_table(source)] * 8)
    pq.write_table(big, source, row_group_size=1 << 20)
    command = ["encrypt", "--threads", "3", "--memory", "3MiB", str(source), str(path)]
    killed(owner, command, {}, 1, into=path)
    whole = noted(owner)
    done = owner.coffer(*command)
    assert f"{whole} of its files are there" in done.stderr
    assert rows(owner, str(path), tmp_path, {}).num_rows == 8 * ROWS
    assert "sound" in owner.coffer("verify", "--deep", path).stdout


def test_parts_are_uploaded_at_the_same_time(
    store: RelayedS3, owner: Owner, tmp_path: Path
) -> None:
    source = tmp_path / "long.parquet"
    noise = pa.array([os.urandom(4096) for _ in range(8 << 10)])
    pq.write_table(pa.table({"noise": noise}), source)
    lock, now, most = threading.Lock(), 0, 0

    def slow(request: Request, ask: Callable[[], Reply]) -> Reply | None:
        nonlocal now, most
        if "partNumber" not in request.query:
            return ask()
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.2)
        reply = ask()
        with lock:
            now -= 1
        return reply

    store.relay.answer = slow
    path = f"{store.root}/parts"
    owner.coffer("encrypt", source, path, env=store.environment())
    assert most > 1
    store.relay.answer = None
    assert "sound" in owner.coffer("verify", "--deep", path, env=store.environment()).stdout
