"""Encrypts TPC-H, queries it sealed and in the clear, compares, and shows what the untrusted side
could see."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coffer_testing.owner import Owner
    from coffer_testing.queries import Query
    from coffer_testing.runner import Driver
    from coffer_testing.servers.hdfs import Hdfs
    from coffer_testing.servers.s3 import S3

# Values that everybody knows to be in TPC-H: what a curious host would look for first.
KNOWN_VALUES = [
    "DELIVER IN PERSON",
    "TAKE BACK RETURN",
    "1-URGENT",
    "BUILDING",
    "AUTOMOBILE",
    "PROMO BURNISHED",
]

# Of TPC-H's own queries, one of each kind: a demo should not take long.
OFFICIAL = (1, 3, 4, 6, 13, 15, 18, 21, 22)


def main(argv: list[str]) -> int:
    """0 when every answer is the same and nothing was found in clear, else 1."""
    parser = argparse.ArgumentParser(prog="testing/run demo", description=__doc__)
    parser.add_argument("--sf", default="0.1", help="TPC-H scale factor (default: %(default)s)")
    parser.add_argument(
        "--store",
        choices=["folder", "s3", "hdfs"],
        default="folder",
        help="where the sealed tables lie: a folder, or a server on loopback that is started for "
        "the demo (default: %(default)s)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the temporary folder and say where it is"
    )
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="coffer-demo-"))
    try:
        return _run(arguments.sf, arguments.store, folder)
    finally:
        if arguments.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _run(scale: str, store: str, folder: Path) -> int:
    from coffer_testing import tpch
    from coffer_testing.owner import Owner
    from coffer_testing.runner import Driver

    _say(f"making TPC-H data at scale {scale} (kept for the next run)")
    data = tpch.data(scale)
    plain = dict(data)
    with ExitStack() as stack:
        server = _server(store, folder / "untrusted" / "server")
        if server is not None:
            _say(f"starting a server of {server.scheme}: on loopback")
            server.start()
            stack.callback(server.stop)
        _say("making a keyring and sealing the tables")
        owner = Owner.create(folder / "trusted")
        sealed = _sealed(owner, plain, server, folder / "untrusted" / "tables")
        _say("starting plaintext Spark and Coffer")
        local = folder / "untrusted" / "local"
        spark = stack.enter_context(
            Driver(
                plain,
                sealed=False,
                log=folder / "plain.log",
                conf={"spark.local.dir": str(folder / "plain-local")},
            )
        )
        coffer = stack.enter_context(
            Driver(
                sealed,
                sealed=True,
                log=folder / "sealed.log",
                config_dir=owner.config_dir,
                passphrase_file=owner.passphrase_file,
                conf={"spark.local.dir": str(local), **(server.conf() if server else {})},
            )
        )
        same, counted = _compare(spark, coffer)
        stored = (
            server.dump(folder / "untrusted" / "objects")
            if server
            else [folder / "untrusted" / "tables"]
        )
        clean = _what_the_host_saw(plain, sealed, stored, [local], counted)
    return 0 if same and clean else 1


def _server(store: str, folder: Path) -> S3 | Hdfs | None:
    """Where the tables are to lie; none: in a folder."""
    from coffer_testing.servers.hdfs import Hdfs
    from coffer_testing.servers.s3 import S3

    return {"s3": S3, "hdfs": Hdfs}[store](folder) if store != "folder" else None


def _sealed(
    owner: Owner, plain: dict[str, Path], server: S3 | Hdfs | None, folder: Path
) -> dict[str, str]:
    """The sealed tables, by name: where Spark finds each."""
    if server is None:
        return {name: str(path) for name, path in owner.encrypt(plain, folder).items()}
    sealed = {name: f"{server.root}/{name}" for name in plain}
    for name, source in plain.items():
        owner.coffer("encrypt", source, sealed[name], env=server.environment())
    return sealed


def queries() -> list[Query]:
    """Some of TPC-H's own queries, then ours."""
    from coffer_testing import tpch
    from coffer_testing.queries import TPCH, Query

    official = [Query(f"q{number}", tpch.query(number), ordered=True) for number in OFFICIAL]
    return official + TPCH


def _compare(spark: Driver, coffer: Driver) -> tuple[bool, dict[str, int]]:
    """Runs every query twice on both, the first time to warm up, prints the table, and adds up what
    was counted."""
    from coffer_testing.answers import Answer, difference

    print(f"{'query':<24} {'rows':>7} {'sealed s':>9} {'plain s':>9}  same answer?")
    all_same = True
    totals: dict[str, int] = {}
    for query in queries():
        spark.query(query.sql)
        coffer.query(query.sql)
        expected = spark.query(query.sql)
        reply = coffer.timed(query.sql)
        got = Answer.from_json(reply)
        for key, value in reply["counters"].items():
            totals[key] = totals.get(key, 0) + value
        found = difference(expected, got, ordered=query.ordered)
        all_same = all_same and found is None
        verdict = "yes" if found is None else f"NO: {found[:200]}"
        print(
            f"{query.name:<24} {len(got.rows):>7} {got.seconds:>9.2f} "
            f"{expected.seconds:>9.2f}  {verdict}",
            flush=True,
        )
    return all_same, totals


def _what_the_host_saw(
    plain: dict[str, Path],
    sealed: dict[str, str],
    stored: list[Path],
    local: list[Path],
    counted: dict[str, int],
) -> bool:
    """`stored`: all that lies in storage, as its owner finds it there."""
    from coffer_testing.search import files, search, text

    print("\nWhat the untrusted side could see:")
    lying = files(stored)
    for name, url in sealed.items():
        mine = [path for path in lying if path.parent.name == name and path.suffix == ".parquet"]
        if mine:
            print(
                f"  {name:<9} {len(mine)} files of random names, such as {mine[0].name}, "
                f"{_mb(mine)} MB"
            )
        else:
            print(f"  {name:<9} {url}")
    print(f"  storage      {len(lying)} files, {_mb(lying)} MB, its log and lists among them")
    shuffled = files(local)
    print(f"  local disks  {len(shuffled)} files, {_mb(shuffled)} MB of sealed frames")
    if counted:
        told = ", ".join(
            f"{key.replace('_', ' ')} {value:,}" for key, value in sorted(counted.items())
        )
        print(f"  between Spark and engine: {told}")
    values = [text(value) for value in KNOWN_VALUES]
    control, _ = search(plain.values(), values)
    hits, searched = search([*stored, *local], values)
    known = {hit.value for hit in control}
    print(
        f"  searched {searched / 1e6:.1f} MB of sealed tables and local disks for {len(known)} "
        f"values that the"
    )
    print(f"  plaintext files show to anyone: {len(hits)} found")
    for hit in hits[:10]:
        print(f"    FOUND {hit.value!r} as {hit.form} in {hit.path}")
    if not known:
        print("  the same search found nothing in the plaintext files either, so it proves nothing")
    print(
        "  The engine's evidence was simulated: this shows what is sealed, not that a TEE "
        "protects the engine."
    )
    return not hits and bool(known)


def _mb(paths: list[Path]) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1e6:.1f}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
