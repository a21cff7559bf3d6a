"""A release: `coffer verify --release` finds its files and programs to be what `release.json` says,
and says of each that is not."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from coffer._find import find_binary
from coffer_testing.installed import ROOT, Shipped

sys.path.insert(0, str(ROOT / "scripts" / "packaging"))

import programs
import release


@dataclass(frozen=True)
class Released:
    folder: Path
    programs: Path
    key: str


def new_key(path: Path) -> str:
    """Makes a key; returns its public half."""
    run = {"check": True, "capture_output": True}
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], **run)
    command = ["openssl", "pkey", "-in", path, "-pubout", "-outform", "DER"]
    return subprocess.run(command, **run).stdout[-32:].hex()


@pytest.fixture(scope="module")
def released(base: Path, shipped: Shipped) -> Released:
    folder = base / "release"
    shutil.copytree(shipped.folder, folder / "dist")
    built = programs.collect("release", "x86-64", folder / "bin")
    key = new_key(folder / "key.pem")
    source = {"commit": "c" * 40, "tree": "t" * 40}
    release.make(folder / "dist", built, "release", "x86-64", source, {}, folder / "key.pem")
    return Released(folder / "dist", built, key)


def verify(
    folder: Path, *more: str, program: Path | None = None
) -> tuple[int, dict[str, Any] | None, str]:
    command = [program or find_binary("coffer"), "verify", "--release", folder, "--json", *more]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, timeout=120
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def failed(report: dict[str, Any] | None) -> list[str]:
    assert report
    return [check["found"] for check in report["checks"] if check["passed"] is False]


def test_it_holds(released: Released) -> None:
    exit, report, _ = verify(
        released.folder, "--signer", released.key, program=released.programs / "coffer"
    )
    assert report
    assert (exit, failed(report)) == (0, [])
    names = [check["name"] for check in report["checks"]]
    assert names.count("installed") == len(programs.ENGINES) + len(programs.HELPERS)
    said = report["release"]
    assert said["source"] == {"commit": "c" * 40, "tree": "t" * 40}
    assert said["toolchain"]["rustc"].startswith("rustc ")
    assert {Path(name).suffix for name in said["files"]} >= {".whl", ".jar", ".pom", ".json"}


def test_without_a_signer_it_says_that_it_cannot_tell(released: Released) -> None:
    exit, report, words = verify(released.folder, program=released.programs / "coffer")
    assert (exit, failed(report)) == (6, [])
    assert "cannot be told" in words


def _edit(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / release.NAME
        said = json.loads(path.read_text())
        change(said)
        path.write_text(json.dumps(said))

    return edit


def _wheel(folder: Path) -> Path:
    return next(folder.glob("*.whl"))


def _resign(folder: Path) -> None:
    """Another's signature, under the name of the right key."""
    key = folder.parent / "other.pem"
    new_key(key)
    signed = json.loads((folder / release.SIGNED).read_text())
    forged = release.sign((folder / release.NAME).read_bytes(), key)
    forged["signatures"][0]["keyid"] = signed["signatures"][0]["keyid"]
    (folder / release.SIGNED).write_text(json.dumps(forged))


HARM: dict[str, Callable[[Path], Any]] = {
    "a byte of the wheel": lambda f: _wheel(f).write_bytes(_wheel(f).read_bytes()[:-1] + b"\1"),
    "the wheel is gone": lambda f: _wheel(f).unlink(),
    "a file more": lambda f: (f / "maven" / "more.jar").touch(),
    "no signature": lambda f: (f / release.SIGNED).unlink(),
    "another's signature": _resign,
    "another commit": _edit(lambda said: said["source"].update(commit="0" * 40)),
    "a file less": _edit(lambda said: said["files"].popitem()),
    "a program": _edit(lambda said: said["programs"]["coffer"].update(sha256="0" * 64)),
    "a path that leads out": _edit(
        lambda said: said["files"].update({"../key.pem": {"size": 1, "sha256": "00"}})
    ),
}


@pytest.mark.parametrize("harm", HARM)
def test_what_was_changed_is_said(harm: str, released: Released, tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    shutil.copytree(released.folder, folder)
    HARM[harm](folder)
    exit, report, _ = verify(folder, "--signer", released.key, program=released.programs / "coffer")
    assert exit == 1
    assert failed(report)


@pytest.mark.parametrize("text", ["{}", "[", '{"format": 2}'])
def test_what_is_no_release_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / release.NAME).write_text(text)
    exit, report, words = verify(tmp_path)
    assert (exit, report) == (1, None)
    assert release.NAME in words
    (tmp_path / release.NAME).unlink()
    assert verify(tmp_path)[0] == 5


def test_the_bill_of_materials_names_what_is_linked(released: Released) -> None:
    said = json.loads((released.folder / release.MATERIALS).read_text())
    assert (said["bomFormat"], said["specVersion"]) == ("CycloneDX", "1.6")
    found = {part["purl"].split("@")[0]: part for part in said["components"]}
    for name in ("pkg:cargo/datafusion-physical-plan", "pkg:cargo/aws-lc-rs", "pkg:cargo/sha3"):
        assert len(found[name]["hashes"][0]["content"]) == 64
    assert "pkg:maven/com.google.protobuf/protobuf-java" in found
    assert all(part["licenses"] for part in said["components"])
    assert len({part["bom-ref"] for part in said["components"]}) == len(said["components"])


def test_the_bill_of_materials_keeps_to_its_schema(tmp_path: Path) -> None:
    release.materials(tmp_path / release.MATERIALS)
    text = (tmp_path / release.MATERIALS).read_text()
    of_cyclonedx = JsonStrictValidator(SchemaVersion.V1_6)
    assert of_cyclonedx.validate_str(text) is None
    for said, wrong in (('"SHA-256"', '"SHA-257"'), ('"licenses"', '"licences"')):
        assert of_cyclonedx.validate_str(text.replace(said, wrong, 1)) is not None


def _reproduce() -> Any:
    loader = importlib.machinery.SourceFileLoader("reproduce", str(ROOT / "scripts" / "reproduce"))
    spec = importlib.util.spec_from_loader("reproduce", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _archive(path: Path, entries: dict[str, bytes], year: int = 2025) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in entries.items():
            packed.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), content)


def test_what_differs_between_two_builds_is_named(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "maven").mkdir(parents=True)
        (folder / "same").write_text("a")
        _archive(folder / "same.jar", {"a": b"a", "b": b"b"})
    compare = _reproduce().compare
    assert compare(one, two) == []
    (two / "maven" / "more").touch()
    (one / "text").write_text("abc")
    (two / "text").write_text("abd")
    _archive(one / "bytes.jar", {"a": b"a", "b": b"b"})
    _archive(two / "bytes.jar", {"a": b"a", "b": b"c"})
    _archive(one / "time.jar", {"a": b"a"})
    _archive(two / "time.jar", {"a": b"a"}, year=2026)
    _archive(one / "order.jar", {"a": b"a", "b": b"b"})
    _archive(two / "order.jar", {"b": b"b", "a": b"a"})
    assert compare(one, two) == [
        "maven/more was made once only",
        "bytes.jar: b differs, first at byte 0",
        "order.jar: the order of its entries differs, or how they are packed",
        "text differs, first at byte 2",
        "time.jar: a has another time or mode",
    ]


@pytest.mark.full
def test_two_builds_are_the_same(tmp_path: Path) -> None:
    """Of all but the programs, whose two builds take an hour."""
    done = subprocess.run(
        [ROOT / "scripts" / "reproduce", "--profile", "release", "--to", tmp_path],
        env={**os.environ, "VENV": sys.prefix},
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr
    assert {"whl", "jar", "pom"} <= {line.rpartition(".")[2] for line in done.stdout.splitlines()}
