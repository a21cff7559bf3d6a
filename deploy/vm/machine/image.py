"""The image: what is in it, and where it is written."""

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from machine import ImageError, cpio, kernel

KERNEL, INITRD, COMMAND_LINE, DESCRIPTION = "vmlinuz", "initrd", "cmdline", "image.json"
#: The serial port takes the engine's log and nothing is read from it; a panic ends the machine.
KERNEL_ARGUMENTS = ("console=ttyS0", "quiet", "panic=-1", "oops=panic", "random.trust_cpu=on")
FOLDERS = ("dev", "modules", "modules/optional", "proc", "run", "sys", "tmp")
FIRST, ENGINE = "coffer-init", "coffer-engine"


def programs() -> Path:
    """Where `make build` puts them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coffer"
    return Path(os.environ.get("CARGO_TARGET_DIR") or cache / "target") / "release"


def make(
    out: Path,
    program_folder: Path,
    package: Path,
    arguments: list[str],
    more: tuple[cpio.Entry, ...] = (),
) -> dict[str, Any]:
    """Writes the image into a folder, and gives its description.

    :param arguments: the engine's, as the machine's measured command line has them
    :param more: what a test's image has beside; one named `init` takes the first program's place
    """
    unpacked = kernel.unpack(package)
    engine, first = program_folder / ENGINE, program_folder / FIRST
    for path in (engine, first):
        if not path.is_file():
            raise ImageError(f"{path} is missing: make build, or --programs FOLDER")
    own = [
        *map(cpio.folder, FOLDERS),
        # Before anything is mounted the kernel gives it to the first program.
        cpio.device("dev/console", 5, 1),
        cpio.program("init", first.read_bytes()),
        cpio.program(ENGINE, engine.read_bytes()),
        *libraries(engine, first),
        *_numbered("modules", unpacked.needed),
        *_numbered("modules/optional", unpacked.optional),
    ]
    others = {entry.name for entry in more}
    entries = [entry for entry in own if entry.name not in others] + list(more)
    out.mkdir(parents=True, exist_ok=True)
    contents = {
        KERNEL: unpacked.image,
        INITRD: cpio.archive(_with_parents(entries)),
        COMMAND_LINE: " ".join([*KERNEL_ARGUMENTS, "--", *arguments]).encode(),
    }
    for name, content in contents.items():
        (out / name).write_bytes(content)
    return {
        "kernel": unpacked.release,
        "kernel_package": {"file": package.name, "sha256": sha256(package.read_bytes())},
        "engine_sha256": sha256(engine.read_bytes()),
        "command_line": contents[COMMAND_LINE].decode(),
        "sha256": {name: sha256(content) for name, content in contents.items()},
    }


def libraries(*programs: Path) -> list[cpio.Entry]:
    """The shared libraries that programs are linked with, under the names by which they ask."""
    found: dict[str, Path] = {}
    for program in programs:
        listed = subprocess.run(
            ["ldd", str(program)], capture_output=True, text=True, check=False, timeout=60
        )
        if listed.returncode or "not found" in listed.stdout:
            raise ImageError(f"the libraries of {program} are not all here: {listed.stdout}")
        for path in re.findall(r"(/\S+) \(0x", listed.stdout):
            # The loader is asked for by its path, the rest is looked for in one folder.
            loader = path.startswith("/lib64/")
            name = path[1:] if loader else f"lib/x86_64-linux-gnu/{Path(path).name}"
            found[name] = Path(path)
    return [cpio.program(name, path.read_bytes()) for name, path in found.items()]


def sha256(content: bytes) -> str:
    """In hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _numbered(folder: str, modules: list[tuple[str, bytes]]) -> list[cpio.Entry]:
    return [
        cpio.file(f"{folder}/{number:02}-{name}.ko", content)
        for number, (name, content) in enumerate(modules)
    ]


def _with_parents(entries: list[cpio.Entry]) -> list[cpio.Entry]:
    have = {entry.name for entry in entries}
    parents = {
        str(parent)
        for entry in entries
        for parent in Path(entry.name).parents
        if str(parent) != "."
    }
    return entries + [cpio.folder(name) for name in sorted(parents - have)]
