"""Archives that the kernel unpacks as its first file system.

Format: Linux, Documentation/driver-api/early-userspace/buffer-format.rst, `newc`.
"""

import stat
from collections.abc import Iterable
from typing import NamedTuple


class Entry(NamedTuple):
    """A file, a folder or a device; its name has no slash at its beginning."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str) -> Entry:
    """An empty folder."""
    return Entry(name, stat.S_IFDIR | 0o755)


def program(name: str, content: bytes) -> Entry:
    """A file that can be executed."""
    return Entry(name, stat.S_IFREG | 0o755, content)


def file(name: str, content: bytes) -> Entry:
    """A file that can be read."""
    return Entry(name, stat.S_IFREG | 0o644, content)


def device(name: str, major: int, minor: int) -> Entry:
    """A character device."""
    return Entry(name, stat.S_IFCHR | 0o600, b"", (major, minor))


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive: everything is root's, and of 1970; folders come before what is in them."""
    parts = []
    in_order = sorted(entries, key=lambda entry: entry.name.split("/"))
    for number, entry in enumerate([*in_order, Entry("TRAILER!!!", 0)], start=1):
        name = entry.name.encode() + b"\0"
        fields = [number, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, *entry.device]
        head = b"070701" + b"".join(b"%08X" % field for field in [*fields, len(name), 0])
        parts += [_padded(head + name), _padded(entry.content)]
    return b"".join(parts)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)
