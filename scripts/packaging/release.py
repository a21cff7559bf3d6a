"""What says of a release what it is: `release.json`, its signature and the bill of materials."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
import subprocess
import tempfile
from pathlib import Path

import notices
import programs

FORMAT = 1
NAME = "release.json"
SIGNED = "release.dsse.json"
MATERIALS = "coffer.cdx.json"
# Of what is signed; the Rust side is engine/crates/owner/statement.
TYPE = "application/vnd.coffer.release+json"


def make(
    into: Path,
    built: Path,
    profile: str,
    level: str,
    source: dict[str, str],
    measured: dict[str, dict[str, str]],
    key: Path | None,
) -> None:
    """Writes bill of materials, `release.json` and, with a key, its signature, of all that lies
    under `into`. `source`: what it was made from. `measured`: by kind of evidence, what a policy
    pins. `key`: an Ed25519 key in PEM."""
    for old in (NAME, SIGNED):
        (into / old).unlink(missing_ok=True)
    materials(into / MATERIALS)
    files = sorted(path for path in into.rglob("*") if path.is_file())
    said = {
        "format": FORMAT,
        "version": _version(),
        "source": source,
        "toolchain": _toolchain(profile, level),
        "files": {str(path.relative_to(into)): _file(path) for path in files},
        "programs": {path.name: _file(path) for path in sorted(built.iterdir()) if not path.suffix},
        "measurements": measured,
    }
    text = (json.dumps(said, indent=2, sort_keys=True) + "\n").encode()
    (into / NAME).write_bytes(text)
    if key:
        (into / SIGNED).write_text(json.dumps(sign(text, key), indent=2) + "\n")


def source() -> dict[str, str]:
    """The commit and its tree. Raises ValueError where the tree has something that the commit has
    not."""
    changed = _git("status", "--porcelain")
    if changed:
        raise ValueError(
            f"the tree is not what is committed, and a release names its commit:\n{changed}\n"
            "hint: commit it, or leave the release out (--no-release)"
        )
    return {"commit": _git("rev-parse", "HEAD"), "tree": _git("rev-parse", "HEAD^{tree}")}


def sign(payload: bytes, key: Path) -> dict:
    """An envelope of DSSE v1, with one Ed25519 signature by `openssl`."""
    message = b" ".join(
        [b"DSSEv1", b"%d" % len(TYPE), TYPE.encode(), b"%d" % len(payload), payload]
    )
    der = subprocess.run(
        ["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER"],
        check=True,
        capture_output=True,
    ).stdout
    with tempfile.NamedTemporaryFile() as text:
        text.write(message)
        text.flush()
        command = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", text.name]
        signature = subprocess.run(command, check=True, capture_output=True).stdout
    return {
        "payloadType": TYPE,
        "payload": base64.b64encode(payload).decode(),
        # The key is the last 32 bytes of a SubjectPublicKeyInfo (RFC 8410).
        "signatures": [{"keyid": der[-32:].hex(), "sig": base64.b64encode(signature).decode()}],
    }


def materials(target: Path) -> None:
    """The bill of materials, as CycloneDX 1.6: what is linked into the programs and lies in the
    jar."""
    sums = {}
    for workspace in notices.SHIPPED:
        lock = (programs.ROOT / workspace / "Cargo.lock").read_text()
        crates = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\n.*\nchecksum = "(\w+)"', lock)
        sums |= {(name, version): checksum for name, version, checksum in crates}
    components = [
        {
            "type": "library",
            "bom-ref": (ref := f"pkg:cargo/{crate['name']}@{crate['version']}"),
            "name": crate["name"],
            "version": crate["version"],
            "purl": ref,
            "licenses": [_licence(crate)],
            "hashes": [
                {"alg": "SHA-256", "content": sums[crate["name"], crate["version"]]},
            ],
        }
        for crate in notices.crates()
    ]
    protobuf = re.search(
        r"<protobuf.version>([^<]+)<", (programs.ROOT / "spark" / "pom.xml").read_text()
    )[1]
    components.append(
        {
            "type": "library",
            "bom-ref": f"pkg:maven/com.google.protobuf/protobuf-java@{protobuf}",
            "group": "com.google.protobuf",
            "name": "protobuf-java",
            "version": protobuf,
            "purl": f"pkg:maven/com.google.protobuf/protobuf-java@{protobuf}",
            "licenses": [{"license": {"id": "BSD-3-Clause"}}],
        }
    )
    said = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "coffer",
                "name": "coffer-spark",
                "version": _version(),
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
    }
    target.write_text(json.dumps(said, indent=1) + "\n")


def _licence(crate: dict) -> dict:
    declared = crate["license"]
    if not declared:
        return {"license": {"name": crate["license_file"]}}
    # Cargo's old way to write OR.
    return {"expression": declared.replace("/", " OR ")}


def _file(path: Path) -> dict:
    content = path.read_bytes()
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _version() -> str:
    manifest = (programs.ROOT / "engine" / "Cargo.toml").read_text()
    return re.search(r'\[workspace.package\]\nversion = "([^"]+)"', manifest)[1]


def _git(*arguments: str) -> str:
    command = ["git", "-C", programs.ROOT, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _toolchain(profile: str, level: str) -> dict[str, str]:
    said = {
        "rustc": ["rustc", "--version"],
        "cargo": ["cargo", "--version"],
        "java": ["javac", "-version"],
        "maven": ["mvn", "--version"],
    }
    if profile == "dist":
        said["zig"] = [programs.tools() / "python", "-m", "ziglang", "version"]
    found = {name: _first_line(command) for name, command in said.items()}
    glibc = programs.GLIBC if profile == "dist" else "of the machine"
    target = f"{programs.TARGET}, glibc {glibc}, {level}"
    return {**found, "python": platform.python_version(), "target": target}


def _first_line(command: list[str | Path]) -> str:
    """Of what a program says; without colours."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=programs.ROOT)
    return re.sub(r"\x1b\[[\d;]*m", "", done.stdout).splitlines()[0]
