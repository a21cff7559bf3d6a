"""A transparency log end to end: a policy that demands to be in one has its keys released only when
proofs show it, and a release is held against the log that it names."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest

from coffer import find_binary
from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

SQL = "SELECT count(*) AS n, sum(id) AS s FROM events WHERE id > 10"


class Log:
    """A log and a witness, by the program that keeps them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.key = self.run("key", "example.org/log", "--out", folder / "log.key").strip()
        self.witness = self.run(
            "key", "w.example.org", "--witness", "--out", folder / "witness.key"
        ).strip()
        self.run("init", folder / "log", "--key", folder / "log.key")

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            [find_binary("coffer").with_name("coffer-log"), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def append(self, what: str, file: Path) -> None:
        self.run("append", self.folder / "log", "--key", self.folder / "log.key", what, file)

    def cosign(self, code: int = 0) -> str:
        return self.run(
            *("cosign", self.folder / "log", "--key", self.folder / "witness.key"),
            *("--log", self.key, "--state", self.folder / "witness.state"),
            code=code,
        )

    def prove(self, what: str, file: Path, out: Path) -> None:
        self.run("prove", self.folder / "log", "--log", self.key, "--out", out, what, file)


def test_keys_leave_only_under_a_policy_that_the_log_shows(tmp_path: Path) -> None:
    log = Log(tmp_path / "public")
    owner = Owner.create(tmp_path / "trusted")
    plain = data.write(tmp_path / "plain")
    tables = owner.encrypt({"events": plain["events"]}, tmp_path / "sealed")
    section = (
        f'\n[log]\nkey = "{log.key}"\nwitnesses = ["{log.witness}"]\nquorum = 1\n'
        'max_age_hours = 24\nproofs = "proofs"\ndemand = ["policy"]\n'
    )
    proofs = owner.config_dir / "proofs"
    proofs.mkdir()
    owner.sign(owner.policy + section)
    policy = owner.config_dir / "policy.toml"

    def driver(name: str) -> Driver:
        return Driver(
            tables,
            sealed=True,
            log=tmp_path / f"{name}.log",
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
        )

    def refused(name: str) -> str:
        with pytest.raises(QueryFailed) as error, driver(name) as running:
            running.query(SQL)
        assert "not_logged" in error.value.message or "does not show" in error.value.message
        return error.value.message

    assert "the policy" in refused("before")
    log.append("--policy", policy)
    log.prove("--policy", policy, proofs)
    assert "0 of the known witnesses" in refused("unwitnessed")
    log.cosign()
    log.prove("--policy", policy, proofs)
    with Driver({"events": plain["events"]}, sealed=False, log=tmp_path / "plain.log") as spark:
        expected = spark.query(SQL).rows
    with driver("after") as running:
        assert running.query(SQL).rows == expected
        # Another policy, while the session runs: it is not in the log, and the engine that was
        # admitted under the one before gets no key any more.
        owner.sign(owner.policy.replace("max_age_hours = 24", "max_age_hours = 25"))
        with pytest.raises(QueryFailed) as error:
            running.query(SQL.replace("10", "11"))
        assert re.search("does not show|not admitted|no longer", error.value.message)
    assert "the policy" in refused("changed")
    log.append("--policy", policy)
    log.cosign()
    log.prove("--policy", policy, proofs)
    with driver("logged") as running:
        assert running.query(SQL).rows == expected


def test_a_release_is_held_against_the_log(tmp_path: Path) -> None:
    log = Log(tmp_path / "public")
    owner = Owner.create(tmp_path / "trusted")
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "a").write_bytes(b"a")
    release = {
        "format": 1,
        "version": "0.1.0",
        "source": {"commit": "a", "tree": "b"},
        "toolchain": {},
        "files": {"a": {"size": 1, "sha256": hashlib.sha256(b"a").hexdigest()}},
        "programs": {},
        "measurements": {},
    }
    (dist / "release.json").write_text(json.dumps(release))

    def verify(*more: str, keyed: bool = True) -> tuple[int, list[str]]:
        keys = ("--log", log.key, "--witness", log.witness) if keyed else ()
        done = owner.coffer("verify", "--release", dist, *keys, *more, check=False)
        return done.returncode, [line for line in done.stdout.splitlines() if " log " in line]

    def proof(to: Path) -> None:
        log.prove("--release", dist / "release.json", tmp_path / "proofs")
        [found] = (tmp_path / "proofs").iterdir()
        found.replace(to)

    code, [line] = verify()
    assert code == 1 and line.startswith("✗") and "there is no release.tlog-proof" in line
    log.append("--release", dist / "release.json")
    proof(dist / "release.tlog-proof")
    code, [line] = verify()
    assert code == 1 and "0 of the known witnesses" in line
    log.cosign()
    proof(dist / "release.tlog-proof")
    code, [line] = verify()
    # Nobody signed this one: that it is in the log does not say whose it is.
    assert code == 6 and line.startswith("✓") and "entry 0 of 1 in example.org/log" in line
    code, [line] = verify(keyed=False)
    assert code == 6 and line.startswith("?")
    code, _ = verify("--quorum", "2")
    assert code == 2
    release["version"] = "0.1.1"
    (dist / "release.json").write_text(json.dumps(release))
    code, [line] = verify()
    assert code == 1 and "does not lead from this entry" in line


def test_the_witness_refuses_a_log_that_forgot(tmp_path: Path) -> None:
    log = Log(tmp_path / "public")
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        log.append("--policy", tmp_path / name)
    assert "2 entries" in log.cosign()
    other = tmp_path / "other"
    log.run("init", other, "--key", log.folder / "log.key")
    for file in ("checkpoint", "tile"):
        (log.folder / "log" / file).rename(log.folder / file)
        if (other / file).exists():
            (other / file).rename(log.folder / "log" / file)
    assert "had 2 before" in log.cosign(code=1)
    for name in ("b", "a", "c"):
        (tmp_path / name).write_text(name)
        log.append("--policy", tmp_path / name)
    assert "forked" in log.cosign(code=1)
    shown = log.run("show", log.folder / "log", "--log", log.key)
    assert shown.startswith("3 entries") and shown.count("coffer policy sha256") == 3
    assert log.run("init", log.folder / "log", "--key", log.folder / "log.key", code=5)
    assert log.run("show", tmp_path / "nowhere", "--log", log.key, code=5)
    assert log.run("show", log.folder / "log", "--log", log.witness, code=1)
    key = (log.folder / "log.key").stat()
    assert key.st_mode & 0o077 == 0
