"""Every way to start Spark that docs/guides/install.md shows, by its own lines, with what
`make dist` makes and nothing of the build tree."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.cluster import Cluster
from coffer_testing.installed import Shipped, environment, install
from coffer_testing.pages import Code, code

PAGE = "guides/install.md"
PASSPHRASE = "of these tests only"
AGES = [18 + i % 50 for i in range(500)]
ANSWER = f"employees: {sum(age < 30 for age in AGES)}"

full = pytest.mark.full


@dataclass
class Site:
    """A user's folder, with a sealed table in it, and an environment with the wheel."""

    folder: Path
    venv: Path
    shipped: Shipped

    def environment(self, **more: str) -> dict[str, str]:
        return environment(
            self.venv,
            HOME=str(self.folder),
            COFFER_PASSPHRASE=PASSPHRASE,
            SPARK_CONF_DIR=str(self.folder / "conf"),
            JAR=str(self.shipped.jar),
            REPOSITORY=str(self.shipped.repository),
            **more,
        )

    def run(self, script: str, given: str = "", **more: str) -> str:
        """What a shell's script says, with `given` typed into it."""
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=self.folder,
            env=self.environment(**more),
            input=given,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def site(shipped: Shipped, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    made = Site(folder, folder / "venv", shipped)
    install(made.venv, shipped.wheel)
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(
        f"spark.ui.enabled false\nspark.jars.ivy {folder / 'ivy'}\n"
    )
    employees = {"age": pa.array(AGES, pa.int32()), "name": [f"employee {i}" for i in AGES]}
    pq.write_table(pa.table(employees), folder / "employees.parquet")
    made.run("coffer init; coffer encrypt employees.parquet sealed/employees")
    return made


def of(heading: str) -> list[Code]:
    found = [block for block in code(PAGE) if block.heading == heading]
    assert found, f"{PAGE} has no code under {heading}"
    return found


def follow(site: Site, heading: str, **more: str) -> list[str]:
    """Does what a section says, and returns what each of its commands said."""
    said = []
    given = ""
    blocks = of(heading)
    for block in blocks:
        if block.title == "stdin":
            given = block.text
        elif block.title:
            (site.folder / block.title).write_text(block.text)
    if heading != "spark-submit":
        # Its program is used by others.
        (site.folder / "count.py").write_text(
            next(block.text for block in of("spark-submit") if block.title == "count.py")
        )
    for block in blocks:
        if block.language == "sh":
            said.append(site.run(block.text, given, **more))
    return said


def test_a_builder_with_two_settings(site: Site) -> None:
    (said,) = follow(site, "SparkSession.builder")
    assert ANSWER in said


@full
def test_spark_submit_with_the_jar(site: Site) -> None:
    (said,) = follow(site, "spark-submit")
    assert ANSWER in said


@full
def test_spark_submit_with_packages(site: Site) -> None:
    said = follow(site, "spark-submit with packages")
    assert len(said) == 2 and all(ANSWER in one for one in said)


@full
def test_pyspark(site: Site) -> None:
    # As at a terminal: else Python does not start Spark's shell.
    (said,) = follow(site, "pyspark", PYSPARK_DRIVER_PYTHON_OPTS="-i")
    assert ANSWER in said


@full
def test_spark_shell(site: Site) -> None:
    (said,) = follow(site, "spark-shell")
    assert ANSWER in said


@full
def test_spark_sql(site: Site) -> None:
    (said,) = follow(site, "spark-sql")
    assert ANSWER in said


@full
def test_a_standalone_cluster(site: Site, tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=1) as cluster:
        (said,) = follow(site, "A standalone cluster", MASTER=cluster.master)
    assert ANSWER in said


# ---- a notebook ----------------------------------------------------------------------------------


@pytest.fixture
def kernel(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a kernel that is the user's Python."""
    folder = tmp_path / "kernels" / "installed"
    folder.mkdir(parents=True)
    python = str(site.venv / "bin" / "python")
    command = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "installed", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    yield "installed"


@full
def test_a_notebook(site: Site, kernel: str) -> None:
    import nbformat.v4 as nb
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    cells = [block.text for block in of("A notebook")]
    # Only Java has it, and it runs whatever it is told to.
    refused = "employees.selectExpr(\"reflect('java.lang.Math', 'abs', age)\").show()"
    book = nb.new_notebook(cells=[nb.new_code_cell(text) for text in [*cells, refused]])
    client = NotebookClient(book, kernel_name=kernel, timeout=300)
    client.resources = {"metadata": {"path": str(site.folder)}}
    with pytest.raises(CellExecutionError, match="COFFER_"):
        client.execute(env=site.environment())
    assert ANSWER in str(book.cells[1].outputs)
    (error,) = [out for out in book.cells[2].outputs if out.output_type == "error"]
    assert 1 <= len(error.traceback) <= 5 and "hint" in error.traceback[-1], error.traceback


@full
def test_a_notebook_asks_for_the_passphrase(site: Site, kernel: str) -> None:
    from jupyter_client.manager import start_new_kernel

    env = {k: v for k, v in site.environment().items() if k != "COFFER_PASSPHRASE"}
    manager, client = start_new_kernel(kernel_name=kernel, env=env, cwd=str(site.folder))
    asked: list[dict[str, Any]] = []
    said: list[str] = []

    def answer(message: dict[str, Any]) -> None:
        asked.append(message["content"])
        client.input(PASSPHRASE)

    def heard(message: dict[str, Any]) -> None:
        said.append(str(message["content"]))

    try:
        for block in of("A notebook"):
            done = client.execute_interactive(
                block.text, allow_stdin=True, stdin_hook=answer, output_hook=heard, timeout=300
            )
            assert done["content"]["status"] == "ok", said
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert [question["password"] for question in asked] == [True]
    assert ANSWER in " ".join(said) and PASSPHRASE not in " ".join(said)
