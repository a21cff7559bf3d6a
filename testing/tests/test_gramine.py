"""SGX under Gramine without either: an engine has the system calls that Gramine has, and no others,
and does all that engines do."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coffer import find_binary
from coffer_testing import data, gramine
from coffer_testing.owner import Owner
from coffer_testing.processes import line_of, start
from coffer_testing.runner import Driver

CONFINED = [sys.executable, "-m", "coffer_testing.gramine"]
MANIFEST = Path(__file__).parents[2] / "deploy" / "sgx" / "coffer-engine.manifest.template"
# A shuffle, a join, a window, an aggregate that memory does not hold, a sort that it does not hold.
QUERIES = [
    "SELECT g, count(*), sum(n), max(v) FROM events GROUP BY g ORDER BY g",
    "SELECT a.id, b.s FROM events a JOIN edge b ON a.id = b.id WHERE b.n IS NOT NULL ORDER BY 1, 2",
    "SELECT id, rank() OVER (PARTITION BY g ORDER BY n, id) AS r FROM events ORDER BY r, id "
    "LIMIT 50",
    "SELECT count(*), sum(c) FROM (SELECT repeat(concat(id, 'x'), 30) AS long, count(*) AS c FROM "
    "events GROUP BY repeat(concat(id, 'x'), 30))",
    "SELECT id, v FROM (SELECT * FROM events ORDER BY v DESC, id) WHERE id % 1000 = 7 ORDER BY id",
]


@contextmanager
def engine(folder: Path) -> Iterator[str]:
    """One that is confined, with so little memory that it spills; its address."""
    spill = folder / "spill"
    spill.mkdir()
    process = start(
        [
            *(*CONFINED, find_binary("coffer-engine"), "--listen", "tcp:127.0.0.1:0"),
            *("--evidence", "simulated", "--memory", "24MiB"),
            *("--spill-dir", spill, "--lifeline", "stdin"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "engine.log").open("w"),
    )
    assert process.stdin and process.stdout
    try:
        yield json.loads(line_of(process, 60))["listening"]
    finally:
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        process.stdout.close()


def test_an_engine_asks_for_no_call_that_gramine_lacks(tmp_path: Path) -> None:
    plain = data.write(tmp_path / "plain")
    owner = Owner.create(tmp_path / "trusted")
    tables = owner.encrypt(plain, tmp_path / "sealed")
    with Driver(plain, sealed=False, log=tmp_path / "plain.log") as driver:
        expected = [driver.query(sql).rows for sql in QUERIES]
    made = tmp_path / "made"
    with (
        engine(tmp_path) as address,
        Driver(
            tables,
            sealed=True,
            log=tmp_path / "driver.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            conf={"spark.coffer.engine.address": address},
        ) as driver,
    ):
        answers = [driver.timed(sql) for sql in QUERIES]
        assert [answer["rows"] for answer in answers] == expected
        driver.run(f"spark.table('edge').write.format('coffer').save({str(made)!r})")
        written = driver.run(f"result = spark.read.format('coffer').load({str(made)!r}).count()")
    assert written == data.EDGE_ROWS
    log = (tmp_path / "engine.log").read_text()
    assert "the system has no prctl" in log
    assert any(answer["counters"].get("bytes_spilled") for answer in answers)


def test_the_filter_refuses_what_is_not_on_the_list(tmp_path: Path) -> None:
    # The client engine does not go on without prctl.
    done = subprocess.run(
        [
            *(*CONFINED, find_binary("coffer-client"), "--config-dir", tmp_path),
            *("--listen", f"unix:{tmp_path}/s"),
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode != 0 and "os error 38" in done.stderr
    asks = "import os; os.memfd_create('x')"
    done = subprocess.run([*CONFINED, sys.executable, "-c", asks], capture_output=True, timeout=60)
    assert done.returncode == 1 and b"[Errno %d]" % errno.ENOSYS in done.stderr
    # A program that needs a call which is taken away does not start.
    less = (
        f"from coffer_testing import gramine as g; c = dict(g.CALLS); del c['openat']; "
        f"g.confine(c); import os; os.execv({sys.executable!r}, ['python', '-c', 'pass'])"
    )
    assert subprocess.run([sys.executable, "-c", less], capture_output=True, timeout=60).returncode


def test_what_gramine_lacks_is_not_on_the_list() -> None:
    assert not {"prctl", "mremap", "statx", "memfd_create", "clone3", "rseq"} & set(gramine.CALLS)
    assert len(set(gramine.CALLS.values())) == len(gramine.CALLS) == 172


@pytest.mark.parametrize("debug", [False])
def test_the_manifest_trusts_what_it_starts(debug: bool) -> None:
    manifest = tomllib.loads(MANIFEST.read_text())
    assert manifest["sgx"]["debug"] is debug and manifest["sgx"]["remote_attestation"] == "dcap"
    # Arguments are part of what is measured: the host chooses none.
    assert "loader" in manifest and "insecure__use_cmdline_argv" not in manifest["loader"]
    assert "insecure__use_host_env" not in manifest["loader"]
    allowed = manifest["sgx"].get("allowed_files", [])
    # What the host may write is sealed: tables and spilled rows, nothing that is run.
    assert all("sealed" in path or "spill" in path for path in allowed)
