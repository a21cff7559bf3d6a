"""The kernel, from a package of Debian's."""

import lzma
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from machine import ImageError

PACKAGE = "linux-image-6.12.*+deb12-cloud-amd64-unsigned"
#: Without these there is no connection into the machine, and no evidence.
NEEDED = ("vmw_vsock_virtio_transport", "configfs", "tsm")
#: For the hardware that is there.
OPTIONAL = ("sev-guest", "tdx-guest")


class Kernel(NamedTuple):
    """A kernel and its modules, each after those that it needs."""

    image: bytes
    release: str
    needed: list[tuple[str, bytes]]
    optional: list[tuple[str, bytes]]


def download(into: Path) -> Path:
    """The newest package of that name that apt knows, whose signature apt has verified."""
    if not shutil.which("apt-cache"):
        raise ImageError(f"there is no apt here: name a package {PACKAGE} with --kernel")
    pattern = "^" + re.escape(PACKAGE).replace(r"\*", ".*") + "$"
    listed = subprocess.run(
        ["apt-cache", "search", "--names-only", pattern],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    found = sorted((line.split()[0] for line in listed.splitlines()), key=_numbers)
    if not found:
        raise ImageError(f"apt knows no package {PACKAGE}: apt-get update, or --kernel FILE")
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as folder:
        fetched = subprocess.run(
            ["apt-get", "download", found[-1]],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        packages = list(Path(folder).glob("*.deb"))
        if fetched.returncode or len(packages) != 1:
            raise ImageError(f"{found[-1]} was not downloaded: {fetched.stderr.strip()}")
        return packages[0].replace(into / packages[0].name)


def unpack(package: Path) -> Kernel:
    """What the image has of it."""
    if not shutil.which("dpkg-deb"):
        raise ImageError("there is no dpkg-deb here, which unpacks the kernel's package")
    with tempfile.TemporaryDirectory() as scratch:
        unpacked = subprocess.run(
            ["dpkg-deb", "-x", str(package), scratch],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        images = list(Path(scratch).glob("boot/vmlinuz-*"))
        if unpacked.returncode or len(images) != 1:
            raise ImageError(f"{package} is no package of a kernel: {unpacked.stderr.strip()}")
        release = images[0].name.removeprefix("vmlinuz-")
        folder = Path(scratch) / "lib/modules" / release
        modules = _Modules(folder)
        needed = modules.with_dependencies(NEEDED)
        optional = [
            name
            for name in modules.with_dependencies(OPTIONAL, missing_ok=True)
            if name not in needed
        ]
        return Kernel(
            images[0].read_bytes(),
            release,
            [(name, modules.read(name)) for name in needed],
            [(name, modules.read(name)) for name in optional],
        )


class _Modules:
    """The modules of one kernel. Which one needs which, each says itself."""

    def __init__(self, folder: Path) -> None:
        self.paths = {_name(path): path for path in folder.rglob("*.ko*")}
        self.kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes:
        if name not in self.kept:
            content = self.paths[name].read_bytes()
            packed = self.paths[name].suffix == ".xz"
            self.kept[name] = lzma.decompress(content) if packed else content
        return self.kept[name]

    def with_dependencies(self, names: tuple[str, ...], *, missing_ok: bool = False) -> list[str]:
        """In an order in which they can be loaded."""
        found: list[str] = []

        def add(name: str) -> None:
            if name in found:
                return
            for other in self.needs(name):
                add(other)
            found.append(name)

        for name in map(_normal, names):
            if name in self.paths:
                add(name)
            elif not missing_ok:
                raise ImageError(
                    f"the kernel has no module {name}: one with configfs-tsm is needed (6.7 or "
                    "newer, CONFIG_TSM_REPORTS)"
                )
        return found

    def needs(self, name: str) -> list[str]:
        """Its field `depends`, of those that are no part of the kernel itself."""
        fields = re.search(rb"\0depends=([^\0]*)\0", self.read(name))
        names = fields[1].decode().split(",") if fields else []
        return [_normal(other) for other in names if _normal(other) in self.paths]


def _name(path: Path) -> str:
    return _normal(path.name.split(".ko")[0])


def _normal(name: str) -> str:
    return name.replace("-", "_")


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]
