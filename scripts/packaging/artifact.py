"""The jar that carries the programs, as a Maven artifact in a repository of files."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import programs

from coffer._find import LINE, put, put_program

GROUP = "io.coffer"
NAME = "coffer-spark"
KIND = "linux-x86_64"
SPARK = programs.ROOT / "spark"

POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>Coffer for Spark</name>
  <description>Spark SQL on sealed tables: the plugin, with the engine and the client engine for
    Linux on x86-64. For Spark {spark} and Scala {scala}, which bring what it uses.</description>
  <licenses>
    <license>
      <name>Apache-2.0</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0</url>
    </license>
  </licenses>
</project>
"""


def make(line: str, jar: Path, built: Path, notes: Path, repository: Path, *, fast: bool) -> None:
    """Puts the jar of a line of Spark's versions, its POM and, unless it is to be `fast`, sources
    and API pages where Maven and Ivy look for them. Pages are of the one line that has no suffix:
    the others' would be the same."""
    pom = (SPARK / "pom.xml").read_text()
    version = re.search(rf"<artifactId>{NAME}</artifactId>\s*<version>([^<]+)<", pom)[1]
    name = NAME if line == LINE else f"{NAME}-{line}"
    folder = repository.joinpath(*GROUP.split("."), name, version)
    folder.mkdir(parents=True)
    base = f"{name}-{version}"
    (folder / f"{base}.pom").write_text(
        POM.format(
            group=GROUP,
            name=name,
            version=version,
            spark=line,
            scala=_property(pom, "scala.binary.version"),
        )
    )
    with_programs(jar, built, notes, folder / f"{base}.jar", level=1 if fast else 9)
    if not fast:
        versioned = SPARK / "src/main/versions" / line
        _zip(folder / f"{base}-sources.jar", [SPARK / "src/main/scala", versioned, _generated()])
        if line == LINE:
            _zip(folder / f"{base}-javadoc.jar", [_api_pages()])
    for path in list(folder.iterdir()):
        for algorithm in ("md5", "sha1", "sha256"):
            digest = hashlib.new(algorithm, path.read_bytes(), usedforsecurity=False).hexdigest()
            path.with_name(f"{path.name}.{algorithm}").write_text(digest)
    listed = (
        f"<metadata><groupId>{GROUP}</groupId><artifactId>{name}</artifactId><versioning>"
        f"<release>{version}</release><versions><version>{version}</version></versions>"
        "</versioning></metadata>\n"
    )
    (folder.parent / "maven-metadata.xml").write_text(listed)


def with_programs(jar: Path, built: Path, notes: Path, target: Path, level: int) -> None:
    """A copy of the plugin's jar that carries the programs."""
    shutil.copyfile(jar, target)
    with zipfile.ZipFile(target, "a", compression=zipfile.ZIP_DEFLATED, compresslevel=level) as to:
        for name in programs.CARRIED:
            put_program(to, f"coffer/bin/{KIND}/{name}", built / name)
        for name, text in (("LICENSE", programs.ROOT / "LICENSE"), (notes.name, notes)):
            with put(to, f"META-INF/coffer/{name}") as entry:
                entry.write(text.read_bytes())


def _property(pom: str, name: str) -> str:
    return re.search(rf"<{re.escape(name)}>([^<]+)<", pom)[1]


def _generated() -> Path:
    """What protoc made of proto/."""
    return SPARK / "target/generated-sources/protobuf/java"


def _api_pages() -> Path:
    goals = ["generate-sources", "scala:doc@pages"]
    subprocess.run(["mvn", "-q", "-B", "-f", SPARK / "pom.xml", *goals], check=True)
    return SPARK / "target/site/scaladocs"


def _ordered(index: bytes) -> bytes:
    """Scaladoc's index for searches, whose lists it writes in no fixed order."""
    head, sign, text = index.partition(b" = ")
    body = text.strip().removesuffix(b";")
    if not sign or not body.startswith(b"{"):
        return index
    return head + sign + json.dumps(_sorted(json.loads(body)), sort_keys=True).encode() + b";"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda part: json.dumps(part, sort_keys=True))
    return value


def _zip(target: Path, folders: list[Path]) -> None:
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED) as packed:
        for folder in folders:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                with put(packed, str(path.relative_to(folder))) as entry:
                    content = path.read_bytes()
                    entry.write(_ordered(content) if path.name == "index.js" else content)
