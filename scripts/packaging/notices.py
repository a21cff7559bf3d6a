"""The licences of what is in the shipped programs, as their authors ask for it to be handed on."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import programs

# By workspace: whose dependencies are shipped.
SHIPPED = {
    "engine": ("coffer-cli", "coffer-client", "coffer-engine"),
    "helpers": ("coffer-verifiers", "coffer-aws-helper", "coffer-relay", "coffer-store"),
}
_FILE = re.compile(r"(?i)^(licen[cs]e|copying|notice|copyright|unlicense)")

HEAD = """\
Coffer is under the Apache Licence 2.0. Its programs contain the Rust crates listed below, and the
plugin's jar contains protobuf-java (https://protobuf.dev, BSD-3-Clause). Each crate is followed by
its licence as its package declares it; the texts that the packages have stand at the end, each
once, under the numbers that the list names.
"""


def write(target: Path) -> None:
    """Writes the notices. ValueError where a crate says nothing of its licence."""
    texts: dict[str, int] = {}
    listed = []
    for crate in crates():
        declared = crate["license"] or crate["license_file"]
        if not declared:
            raise ValueError(f"the crate {crate['name']} declares no licence")
        folder = Path(crate["manifest_path"]).parent
        found = sorted(
            path for path in folder.iterdir() if path.is_file() and _FILE.match(path.name)
        )
        numbers = [
            texts.setdefault(path.read_text(errors="replace").strip(), len(texts) + 1)
            for path in found
        ]
        where = f"  texts: {', '.join(map(str, numbers))}" if numbers else ""
        listed.append(f"{crate['name']} {crate['version']}  {declared}{where}")
    parts = [HEAD, "\n".join(listed)]
    parts += [f"{'-' * 20} text {number} {'-' * 20}\n\n{text}" for text, number in texts.items()]
    target.write_text("\n\n".join(parts) + "\n")


def crates() -> list[dict]:
    """The crates of others that are linked into a shipped program, sorted."""
    found = {}
    for workspace, shipped in SHIPPED.items():
        command = ["cargo", "metadata", "--locked", "--format-version", "1"]
        command += ["--filter-platform", programs.TARGET]
        command += ["--manifest-path", programs.ROOT / workspace / "Cargo.toml"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        graph = json.loads(said)
        packages = {package["id"]: package for package in graph["packages"]}
        nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
        ahead = [id for id, package in packages.items() if package["name"] in shipped]
        seen = set(ahead)
        while ahead:
            for dependency in nodes[ahead.pop()]["deps"]:
                linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if linked and dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    ahead.append(dependency["pkg"])
        for id in seen:
            if packages[id]["source"]:
                found[id] = packages[id]
    return sorted(found.values(), key=lambda crate: (crate["name"], crate["version"]))
