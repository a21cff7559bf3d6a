"""What TDX will have measured of the virtual machine, as deploy/vm computes it.

The vectors are of firmware and a kernel that are made here. mosaik 0.4.2's code gave the same MRTD
of hosts that add pages first, hash of the kernel, and RTMR2; the order of pages on Linux hosts and
the events of RTMR1 are those of virtee's tdx-measure, put to mosaik's parts. mosaik's RTMR1 has no
separator. So it was with Debian's OVMF.fd (2022.11-6+deb12u2) and its kernel 6.12.107."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from uuid import UUID

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "deploy" / "vm"))

from machine import ImageError, tdx

MRTD = (
    "2d9d27cc506eba01f4951eb67ab1f504099c3e95e67ef5473e2f5140119f4f74"
    "3dab63e279cecb6f993c9a344359493c"
)
PAGES_FIRST = (
    "830b1d7351d5c91309fd96ae6e86878067ba5c94bd91763cc84a22d30411d43e"
    "c273484cb2ed7755d65b98b70ab29495"
)
HASH = (
    "a0ae15c8bca97745ca7c73b99ca01cff0d6c7486d3b45444ee011dfe6551dcc0"
    "7a3e84b1cff7fddb42c6c5fe3022bde8"
)
RTMR1 = (
    "84a6c91134fca342248eefd3906669ed5cc786e3af1b68242373fed980031392"
    "1b2035e474e268d0b4b129d98264fba2"
)
RTMR2 = (
    "fd389099dc0c17b4c3bf1019736535633781f2942c6cb189fdb207e63ad08e98"
    "19d6c438e239124f01772317db7d0813"
)

LINE = "console=ttyS0 coffer.engine=--evidence,tdx"
# Offset, size, address, memory, kind, attributes.
SECTIONS = [
    (0x4000, 0xC000, 0xFFFF4000, 0xC000, 0, 1),
    (0x0000, 0x4000, 0xFFFF0000, 0x4000, 1, 0),
    (0, 0, 0x810000, 0x2000, 3, 0),
    (0, 0, 0x809000, 0x1000, 2, 0),
    (0, 0, 0x900000, 0x1000, 3, 2),
]


def _noise(size: int, seed: int) -> bytearray:
    return bytearray((seed * at * at + at // 7 + seed) % 251 for at in range(size))


def firmware(
    sections: list[tuple[int, ...]] = SECTIONS, signature: bytes = b"TDVF", named: bool = True
) -> bytes:
    """64 KiB that end as OVMF does: metadata, a table of GUIDs, the reset vector's last bytes."""
    made = _noise(0x10000, 3)
    metadata = struct.pack("<4sIII", signature, 16 + 32 * len(sections), 1, len(sections))
    metadata += b"".join(struct.pack("<IIQQII", *section) for section in sections)
    made[0xF000 : 0xF000 + len(metadata)] = metadata
    entries = [
        (b"\x11\x22\x33\x44\x55\x66", UUID("7255371f-3a3b-4b04-927b-1da6efa8d454")),
        (struct.pack("<I", 0x1000), UUID("e47a6535-984a-4798-865e-4685a7bf8ec2")),
        (b"\x77" * 10, UUID("4c2eb361-7d9b-4cc3-8081-127c90d3d294")),
    ]
    table = b"".join(
        data + struct.pack("<H", len(data) + 18) + guid.bytes_le
        for data, guid in entries
        if named or guid.fields[0] != 0xE47A6535
    )
    footer = UUID("96b582de-1fb2-45f7-baea-a366c55a082d").bytes_le
    table += struct.pack("<H", len(table) + 18) + footer
    made[0x10000 - 32 - len(table) : 0x10000 - 32] = table
    return bytes(made)


def kernel(checksum: int = 0, signature: bytes = b"s" * 64) -> bytes:
    """A PE file of two sections in another order than they are listed in, with bytes behind them,
    and signed."""
    header, optional, size = 0x80, 0x80 + 24, 112 + 8 * 16
    made = _noise(0x1000, 5)
    struct.pack_into("<I", made, 0x3C, header)
    struct.pack_into("<4sHH12xH", made, header, b"PE\0\0", 0x8664, 2, size)
    struct.pack_into("<H", made, optional, 0x20B)
    struct.pack_into("<II", made, optional + 60, 0x400, checksum)
    struct.pack_into("<I", made, optional + 108, 16)
    struct.pack_into("<II", made, optional + 112 + 8 * 4, 0x1000, len(signature))
    for at, (length, offset) in enumerate([(0x600, 0x800), (0x400, 0x400)]):
        struct.pack_into("<II", made, optional + size + 40 * at + 16, length, offset)
    return bytes(made) + signature


def test_measurements_are_what_others_compute() -> None:
    assert tdx.mrtd(firmware()) == MRTD
    assert tdx.mrtd(firmware(), pages_first=True) == PAGES_FIRST
    assert tdx.authenticode(kernel()).hex() == HASH
    assert tdx.rtmr1(kernel()) == RTMR1
    assert tdx.rtmr2(LINE, bytes(_noise(5000, 7))) == RTMR2


def test_each_byte_that_is_measured_changes_them() -> None:
    made = bytearray(firmware())
    made[0x8123] ^= 1
    assert tdx.mrtd(bytes(made)) != MRTD
    # The firmware's variables are measured when it runs (RTMR0).
    made = bytearray(firmware())
    made[0x0123] ^= 1
    assert tdx.mrtd(bytes(made)) == MRTD
    for at in (0, 0x300, 0x500, 0x900, 0xF80):
        changed = bytearray(kernel())
        changed[at if at else 0x7F] ^= 1
        assert tdx.authenticode(bytes(changed)).hex() != HASH, hex(at)
    # Who signed it, and its checksum, are no part of what it is.
    assert tdx.authenticode(kernel(7, b"t" * 80)).hex() == HASH
    assert tdx.rtmr2(LINE + " ", bytes(_noise(5000, 7))) != RTMR2
    assert tdx.rtmr2(LINE, bytes(_noise(5001, 7))) != RTMR2


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (b"", "no table of GUIDs"),
        (firmware()[:-1], "no table of GUIDs"),
        (firmware(named=False), "does not say how TDX begins it"),
        (firmware(signature=b"TDVG"), "not known"),
        (firmware([(0x4000, 0xC000, 0xFFFF4001, 0xC000, 0, 1)]), "whole pages"),
        (firmware([(0x4000, 0xC000, 0xFFFF4000, 0xB000, 0, 1)]), "whole pages"),
        (firmware([(0x8000, 0xC000, 0xFFFF4000, 0xC000, 0, 1)]), "does not have"),
        (firmware()[0xF000 + 20 :], "metadata"),
    ],
)
def test_firmware_that_tells_nothing_is_refused(made: bytes, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        tdx.mrtd(made)


@pytest.mark.parametrize("made", [b"", b"MZ" * 40, b"\0" * 4096, kernel()[:0x90]])
def test_a_kernel_that_firmware_cannot_start_is_refused(made: bytes) -> None:
    with pytest.raises(ImageError, match="no PE file"):
        tdx.rtmr1(made)
