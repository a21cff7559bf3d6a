"""Mutations of a host about which version of a table is the newest, and about what its manifest
says."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coffer_adversary import fixtures
from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question
from coffer_testing.owner import Owner

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster
    from coffer_testing.answers import Answer

_MANIFESTS = "_coffer"
# Where the fields of a manifest's clear envelope lie: docs/reference/table-format.md.
_ENVELOPE = {
    "magic": (0, 4),
    "format": (4, 2),
    "table": (6, 16),
    "version": (22, 8),
    "key-check": (30, 16),
    "master": (46, 2),
}


class Ledger:
    """A table of three versions, each of which was once the newest, and of a fork: another third
    version that the owner made after the second, on a copy of the config directory, and never
    published at the real one."""

    NEWEST = 3

    def __init__(self, cluster: AttackCluster) -> None:
        self.folder = cluster.folder / "warehouse" / "ledger"
        self._copies = cluster.folder / "ledger"
        self._copies.mkdir()
        # Which of them knows more than the other is found out, so both are set back.
        folder = cluster.owner.config_dir
        kept = [folder / "register.coffer", folder / "audit" / "log"]
        aside = [self._copies / path.name for path in kept]
        rows = (
            "SELECT o_orderkey AS k, o_totalprice AS v, o_clerk AS s FROM orders WHERE "
            "o_orderkey % 7 ="
        )

        def run(sql: str) -> Answer:
            return cluster.within(lambda: cluster.driver.query(sql))

        run(f"CREATE TABLE ledger USING coffer AS {rows} 1")
        self._keep("1")
        run(f"INSERT INTO ledger {rows} 2")
        self._keep("2")
        for path, copy in zip(kept, aside, strict=True):
            shutil.copy(path, copy)
        run(f"INSERT INTO ledger {rows} 4")
        self._keep("fork")
        # What the owner would have, had the config directory been set back: the harness makes the
        # fork so, a host never could.
        for path, copy in zip(kept, aside, strict=True):
            shutil.copy(copy, path)
        fixtures.put_back(self.copy("2"), self.folder)
        run(f"INSERT INTO ledger {rows} 3")
        self._keep("3")
        self.sql = "SELECT k, v, s FROM ledger_view"
        fixtures.load(cluster, "ledger_view", self.folder)
        self.question = Question("ledger", self.sql, {}, False, run(self.sql))
        stranger = Owner.create(cluster.folder / "stranger")
        self.foreign = stranger.encrypt(
            {"ledger": cluster.plain["nation"]}, cluster.folder / "strange"
        )["ledger"]

    def _keep(self, version: str) -> None:
        shutil.copytree(self.folder, self.copy(version))

    def copy(self, version: str) -> Path:
        """The folder as it was: "1", "2", "3", or "fork"."""
        return self._copies / version

    def manifest(self, version: int = NEWEST) -> Path:
        """Of a version, in the folder."""
        return self.folder / _MANIFESTS / f"manifest-{version:010}"

    def old_manifest(self, version: str) -> bytes:
        """The manifest that was the newest in a copy."""
        return max((self.copy(version) / _MANIFESTS).iterdir()).read_bytes()

    def files(self, version: str = "3") -> list[Path]:
        """Data files of a copy."""
        return sorted(self.copy(version).glob("part-*.parquet"))


Change = Callable[[Ledger, random.Random], str | None]


@dataclass(frozen=True)
class Versioned:
    """One change of the table's folder; then it is opened and all its rows are read."""

    name: str
    change: Change
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        ledger = cluster.keep("ledger", lambda: Ledger(cluster))

        def run() -> Answer:
            fixtures.load(cluster, "ledger_view", ledger.folder)
            return cluster.run(ledger.question)

        try:
            what = self.change(ledger, rng)
            judgement = cluster.judge(ledger.question, run)
        finally:
            fixtures.put_back(ledger.copy("3"), ledger.folder)
        detail = what or "nothing"
        if judgement.detail:
            detail = f"{detail}: {judgement.detail}"
        return Outcome(what is not None, judgement.verdict, judgement.check, detail)


# ---- older and other versions ------------------------------------------------------------------


def _set_back(ledger: Ledger, rng: random.Random) -> str:
    version = rng.choice(["1", "2"])
    fixtures.put_back(ledger.copy(version), ledger.folder)
    return f"the folder as it was at version {version}"


def _set_back_with_new_files(ledger: Ledger, rng: random.Random) -> str:
    version = rng.choice([1, 2])
    for newer in range(version + 1, ledger.NEWEST + 1):
        ledger.manifest(newer).unlink()
    return f"manifests after version {version} removed"


def _older_under_its_name(ledger: Ledger, rng: random.Random) -> str:
    version = rng.choice(["1", "2"])
    ledger.manifest().write_bytes(ledger.old_manifest(version))
    return f"manifest {version} under the name of the newest"


def _older_as_a_newer(ledger: Ledger, rng: random.Random) -> str:
    version, name = rng.choice(["1", "2", "3"]), ledger.NEWEST + rng.randrange(1, 1000)
    ledger.manifest(name).write_bytes(ledger.old_manifest(version))
    return f"manifest {version} under the name of version {name}"


def _fork(ledger: Ledger, _: random.Random) -> str:
    fixtures.put_back(ledger.copy("fork"), ledger.folder)
    return "another third version, authentic, in the place of the published one"


def _fork_of_manifest(ledger: Ledger, _: random.Random) -> str:
    ledger.manifest().write_bytes(ledger.old_manifest("fork"))
    for file in ledger.files("fork"):
        shutil.copy(file, ledger.folder)
    return "the manifest of another third version, with its files beside the others"


def _parents_changed(ledger: Ledger, rng: random.Random) -> str:
    version = rng.choice([1, 2])
    path = ledger.manifest(version)
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"a bit of the manifest of version {version}, which nobody reads any more"


def _foreign_table(ledger: Ledger, _: random.Random) -> str:
    fixtures.put_back(ledger.foreign, ledger.folder)
    return "another owner's table in its place"


def _foreign_manifest(ledger: Ledger, _: random.Random) -> str:
    ledger.manifest().write_bytes(max((ledger.foreign / _MANIFESTS).iterdir()).read_bytes())
    return "another owner's manifest in the newest one's place"


def _files_of_the_fork(ledger: Ledger, rng: random.Random) -> str | None:
    own = {file.name for file in ledger.files("3")}
    others = [file for file in ledger.files("fork") if file.name not in own]
    mine = [file for file in ledger.files("3") if not (ledger.copy("2") / file.name).exists()]
    if not others or not mine:
        return None
    name = rng.choice(mine).name
    shutil.copyfile(rng.choice(others), ledger.folder / name)
    return f"a file of the fork as {name}"


def _file_of_an_older_version(ledger: Ledger, rng: random.Random) -> str | None:
    old, new = rng.sample(ledger.files("3"), 2)
    shutil.copyfile(old, ledger.folder / new.name)
    return f"{old.name} also as {new.name}"


def _some_files_missing(ledger: Ledger, rng: random.Random) -> str:
    files = ledger.files("3")
    gone = rng.sample(files, rng.randrange(1, len(files) + 1))
    for file in gone:
        (ledger.folder / file.name).unlink()
    return f"{len(gone)} of {len(files)} files removed"


def _strange_files(ledger: Ledger, rng: random.Random) -> str:
    source = rng.choice([*ledger.files("fork"), *ledger.foreign.glob("part-*.parquet")])
    for _ in range(rng.randrange(1, 4)):
        shutil.copyfile(source, ledger.folder / f"part-{rng.randbytes(16).hex()}.parquet")
    return f"copies of {source.name} that no version names"


# ---- the manifest's bytes ----------------------------------------------------------------------


def _bit(ledger: Ledger, rng: random.Random) -> str:
    at, bit = rng.randrange(ledger.manifest().stat().st_size), rng.randrange(8)
    fixtures.flip(ledger.manifest(), at, bit)
    return f"bit {bit} of byte {at}"


def _envelope(ledger: Ledger, rng: random.Random) -> str:
    field, (at, length) = rng.choice(list(_ENVELOPE.items()))
    content = rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length)])
    fixtures.overwrite(ledger.manifest(), at, content)
    return f"{field} became {content.hex()}"


def _cut(ledger: Ledger, rng: random.Random) -> str:
    size = ledger.manifest().stat().st_size
    left = rng.choice([rng.randrange(size), rng.randrange(60), size - rng.randrange(1, 20), 0])
    os.truncate(ledger.manifest(), left)
    return f"cut to {left} of {size} bytes"


def _extended(ledger: Ledger, rng: random.Random) -> str:
    more = rng.randbytes(rng.randrange(1, 100))
    with ledger.manifest().open("ab") as file:
        file.write(more)
    return f"{len(more)} bytes behind it"


def _noise(ledger: Ledger, rng: random.Random) -> str:
    size = rng.choice([0, 1, 48, 50, ledger.manifest().stat().st_size])
    ledger.manifest().write_bytes(rng.randbytes(size))
    return f"{size} bytes of noise"


def _noise_behind_the_envelope(ledger: Ledger, rng: random.Random) -> str:
    content = ledger.manifest().read_bytes()
    keep = rng.randrange(50, len(content))
    ledger.manifest().write_bytes(content[:keep] + rng.randbytes(len(content) - keep))
    return f"noise from byte {keep}"


def _huge(ledger: Ledger, rng: random.Random) -> str:
    size = 1 << rng.randrange(27, 42)
    os.truncate(ledger.manifest(), size)
    return f"{size} bytes, most of them a hole"


# ---- what is no manifest -----------------------------------------------------------------------


def _missing(ledger: Ledger, _: random.Random) -> str:
    ledger.manifest().unlink()
    return "the newest manifest removed"


def _all_missing(ledger: Ledger, _: random.Random) -> str:
    shutil.rmtree(ledger.folder / _MANIFESTS)
    return "the manifests' folder removed"


def _table_missing(ledger: Ledger, _: random.Random) -> str:
    shutil.rmtree(ledger.folder)
    return "the table's folder removed"


def _link(ledger: Ledger, rng: random.Random) -> str:
    version = rng.choice([1, 2, ledger.NEWEST])
    ledger.manifest().unlink()
    ledger.manifest().symlink_to(ledger.manifest(version))
    return f"a link to the manifest of version {version}"


def _pipe(ledger: Ledger, _: random.Random) -> str:
    ledger.manifest().unlink()
    os.mkfifo(ledger.manifest())
    return "a pipe that nobody writes to"


def _device(ledger: Ledger, rng: random.Random) -> str:
    device = rng.choice(["/dev/zero", "/dev/null", "/dev/urandom"])
    ledger.manifest().unlink()
    ledger.manifest().symlink_to(device)
    return f"a link to {device}"


def _folder(ledger: Ledger, _: random.Random) -> str:
    ledger.manifest().unlink()
    ledger.manifest().mkdir()
    return "a folder of its name"


def _manifests_a_file(ledger: Ledger, rng: random.Random) -> str:
    shutil.rmtree(ledger.folder / _MANIFESTS)
    (ledger.folder / _MANIFESTS).write_bytes(rng.randbytes(9))
    return "a file in the place of the manifests' folder"


MUTATIONS = (
    Versioned("version-folder-set-back", _set_back),
    Versioned("version-manifests-set-back", _set_back_with_new_files),
    Versioned("version-older-as-the-newest", _older_under_its_name),
    Versioned("version-older-as-a-newer", _older_as_a_newer),
    Versioned("version-forked-folder", _fork),
    Versioned("version-forked-manifest", _fork_of_manifest),
    Versioned("version-parent-changed", _parents_changed),
    Versioned("version-foreign-table", _foreign_table),
    Versioned("version-foreign-manifest", _foreign_manifest),
    Versioned("version-file-of-the-fork", _files_of_the_fork),
    Versioned("version-file-of-an-older", _file_of_an_older_version),
    Versioned("version-files-missing", _some_files_missing),
    Versioned("version-strange-files", _strange_files),
    Versioned("manifest-bit-flipped", _bit),
    Versioned("manifest-envelope-changed", _envelope),
    Versioned("manifest-cut", _cut),
    Versioned("manifest-extended", _extended),
    Versioned("manifest-noise", _noise),
    Versioned("manifest-noise-behind-envelope", _noise_behind_the_envelope),
    Versioned("manifest-huge", _huge),
    Versioned("manifest-missing", _missing),
    Versioned("manifest-folder-missing", _all_missing),
    Versioned("manifest-table-missing", _table_missing),
    Versioned("manifest-a-link", _link),
    Versioned("manifest-a-pipe", _pipe),
    Versioned("manifest-a-device", _device),
    Versioned("manifest-a-folder", _folder),
    Versioned("manifest-folder-a-file", _manifests_a_file),
)
