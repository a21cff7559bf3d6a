"""What `make dist` makes, in an environment that has nothing of the build tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.installed import ROOT, Shipped, environment, install
from coffer_testing.pages import code

PROGRAMS = ["coffer", "coffer-attest", "coffer-aws", "coffer-client", "coffer-engine"]
PROGRAMS += ["coffer-relay", "coffer-store"]


@pytest.fixture(scope="module")
def venv(shipped: Shipped, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed") / "venv"
    install(folder, shipped.wheel)
    return folder


def run(
    venv: Path, folder: Path, *command: str | Path, check: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command of the environment, in a folder of its user."""
    env = environment(venv, HOME=str(folder), COFFER_PASSPHRASE="of this test only", **more)
    found = venv / "bin" / command[0]
    done = subprocess.run(
        [found, *command[1:]],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def test_each_program_is_in_the_wheel_once(shipped: Shipped) -> None:
    with zipfile.ZipFile(shipped.wheel) as wheel:
        names = wheel.namelist()
        modes = {name: wheel.getinfo(name).external_attr >> 16 for name in names}
        (jar,) = [name for name in names if name.endswith(".jar")]
        with zipfile.ZipFile(wheel.open(jar)) as entries:
            inside = entries.namelist()
    programs = [name for name in names if name.startswith("coffer/bin/")]
    assert sorted(name.rpartition("/")[2] for name in programs) == PROGRAMS
    assert all(modes[name] & 0o111 == 0o111 for name in programs)
    assert not [name for name in inside if name.startswith("coffer/bin/")]
    assert not [name for name in [*names, *inside] if "hostile" in name or "testing" in name]
    texts = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert texts == {"LICENSE", "NOTICE-THIRD-PARTY.txt"}


def test_the_jar_carries_what_spark_starts(shipped: Shipped) -> None:
    with zipfile.ZipFile(shipped.jar) as entries:
        found = {name.rpartition("/")[2] for name in entries.namelist() if "coffer/bin/" in name}
    assert {name for name in found if "." not in name} == set(PROGRAMS) - {"coffer", "coffer-store"}
    assert (shipped.jar.with_suffix(".pom")).is_file()


def test_a_table_is_sealed_and_read_without_the_tree(venv: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": list(range(1000))}), tmp_path / "plain.parquet")
    run(venv, tmp_path, "coffer", "init")
    run(venv, tmp_path, "coffer", "encrypt", "plain.parquet", "sealed")
    query = (
        "import coffer, sys; spark = coffer.session(master='local[2]'); "
        "df = spark.read.format('coffer').load('sealed'); "
        "print(coffer.to_arrow(df.where('id < 10')).num_rows, coffer.__file__)"
    )
    rows, where = run(venv, tmp_path, "python", "-c", query).stdout.split()
    assert rows == "10" and Path(where).is_relative_to(venv)


def test_a_strangers_package_of_that_name_is_named(venv: Path, tmp_path: Path) -> None:
    (site,) = venv.glob("lib/python*/site-packages")
    stranger = site / "coffer-9.9.dist-info"
    module = site / "coffer" / "__init__.py"
    ours = module.read_text()
    stranger.mkdir()
    try:
        (stranger / "METADATA").write_text("Metadata-Version: 2.1\nName: coffer\nVersion: 9.9\n")
        # And with its files over Coffer's.
        for text in (ours, ""):
            module.write_text(text)
            refused = run(venv, tmp_path, "coffer", "--version", check=False)
            assert refused.returncode != 0
            assert "the distribution coffer 9.9" in refused.stderr and "hint: " in refused.stderr
            if text:
                refused = run(venv, tmp_path, "python", "-c", "import coffer", check=False)
                assert "NameClash: the distribution coffer 9.9" in refused.stderr
    finally:
        shutil.rmtree(stranger)
        module.write_text(ours)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_tutorial_in_an_empty_environment(tmp_path: Path) -> None:
    """The wheel of `make dist`, with what pip fetches for it: each step of the tutorial's page."""
    subprocess.run(
        ["make", "-C", ROOT, "dist"],
        env={**os.environ, "VENV": sys.prefix},
        check=True,
        capture_output=True,
        timeout=3000,
    )
    (wheel,) = (ROOT / "dist").glob("coffer_spark-*.whl")
    assert "manylinux_2_28_x86_64" in wheel.name and wheel.stat().st_size <= 120_000_000
    started = time.monotonic()
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=300)
    index = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    pip = [venv / "bin" / "pip", "install", "--quiet", wheel]
    subprocess.run(pip, env={**environment(venv), **index, "HOME": os.environ["HOME"]}, check=True)
    steps = [block for block in code("tutorials/employees.md") if block.language == "sh"]
    script = "".join(f"{block.text}\n" for block in steps if not block.heading.startswith("1."))
    # A check that warns says so by its exit code.
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment(venv, HOME=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    print(f"the tutorial, with its installation: {time.monotonic() - started:.0f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    for category in ("clerk", "doctor", "nurse"):
        assert done.stdout.count(category) >= 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "command not found" not in done.stderr, done.stderr
