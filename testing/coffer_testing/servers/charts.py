"""Helm's own code over a chart, without a cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from coffer_testing.servers.jars import fetched

VERSION = "0.0.19"  # of helm-java
_FOLDER = Path(__file__).parent


class ChartError(Exception):
    """What Helm says of a chart, or of values, that it does not take."""


def lint(chart: Path) -> str:
    """What `helm lint --strict` says of a chart that it takes."""
    return _helm(chart, "lint")


def template(chart: Path, values: dict[str, Any], namespace: str, folder: Path) -> list[Any]:
    """The objects of `helm template`, their values written to `folder`."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    rendered: Iterator[Any] = yaml.safe_load_all(_helm(chart, "template", str(file), namespace))
    return [one for one in rendered if one is not None]


def _helm(chart: Path, *arguments: str) -> str:
    java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
    jars = fetched(f"helm-{VERSION}", _FOLDER / "helm.pom.xml")
    done = subprocess.run(
        [java, "-cp", f"{jars}/*", _FOLDER / "Helm.java", chart, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    if done.returncode != 0:
        raise ChartError(done.stderr)
    return done.stdout
