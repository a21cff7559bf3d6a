"""An engine in an emulated virtual machine.

QEMU's emulator measures nothing and signs nothing, so this launcher plays the firmware: it computes
the launch digest of what it boots as the hardware would, with a firmware of its own, and signs
reports with the key of an emulated chip (`chips`). What reads the reports in the machine is
`testing/tsm`; what verifies them is `testing/attest`.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coffer._find import cache_dir
from coffer_testing import made
from coffer_testing.built import built
from coffer_testing.processes import start
from coffer_testing.servers.chips import TCB, Chips

TREE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE / "deploy/vm"))

from machine import cpio, image, kernel, measure, qemu  # noqa: E402

# The engine's port, the one that asks it to end, and the launcher's for reports.
TASKS, STOP, REPORTS = 7077, 7078, 7079
_VCPUS, _VCPU_TYPE = 2, "EPYC-v4"
_BOOT_SECONDS = 240.0
# What the machine may send at once. Of more than 32 KB Linux 6.12 makes packets of several parts,
# of which this device takes the first.
_ROOM = 16 << 10
_VSOCK = "0.3.0"  # of vhost-device-vsock


def missing() -> str | None:
    """What such a machine needs and is not here."""
    if not shutil.which(qemu.PROGRAM):
        return "qemu-system-x86: scripts/check-tools --test --install"
    return None


def firmware(into: Path) -> Path:
    """A file with the tables by which OVMF says that it measures kernel, initial RAM disk and
    command line, and nothing else: nobody executes it (OvmfPkg/ResetVector/X64/OvmfSevMetadata.asm,
    Ia16/ResetVectorVtf0.asm)."""
    size = 64 << 10
    sections = [
        (0x800000, 0x9000, 1),
        (0x80D000, 0x1000, 2),
        (0x80E000, 0x1000, 3),
        (0x80F000, 0x1000, 0x10),
    ]
    metadata = struct.pack("<4sIII", b"ASEV", 16 + 12 * len(sections), 1, len(sections))
    metadata += b"".join(struct.pack("<III", *section) for section in sections)

    def entry(guid: str, content: bytes) -> bytes:
        return content + struct.pack("<H", len(content) + 18) + uuid.UUID(guid).bytes_le

    table = entry("00f771de-1a7e-4fcb-890e-68c77e2fb44e", struct.pack("<I", 0xFFFFF000))
    table += entry("7255371f-3a3b-4b04-927b-1da6efa8d454", struct.pack("<II", 0x80F400, 0x400))
    table += entry(
        "dc886566-984a-4798-a75e-5585a7bf67cc", struct.pack("<I", 32 + 18 + 1024 + len(metadata))
    )
    footer = struct.pack("<H", len(table) + 18)
    footer += uuid.UUID("96b582de-1fb2-45f7-baea-a366c55a082d").bytes_le
    content = bytearray(size)
    content[size - 32 - len(footer) - len(table) : size - 32] = table + footer
    at = size - (32 + 18 + 1024 + len(metadata))
    content[at : at + len(metadata)] = metadata
    path = into / "firmware.fd"
    path.write_bytes(content)
    return path


class Image:
    """A test's image, and what hardware would have measured of it."""

    def __init__(self, folder: Path, memory: str = "512MiB") -> None:
        self.folder = folder
        stand_in = built("engine", "coffer-tsm")
        first = built("engine", "coffer-init")
        self.description = image.make(
            folder,
            stand_in.parent,
            package(),
            ["--evidence", "sev-snp", "--memory", memory],
            (
                cpio.program("init", stand_in.read_bytes()),
                cpio.program("coffer-init", first.read_bytes()),
            ),
        )
        self.firmware = firmware(folder)

    def measurement(self) -> str:
        """In hexadecimal digits, of the files as they are now."""
        measured = measure.sev_snp(self.folder, self.firmware, _VCPUS, _VCPU_TYPE)
        return str(measured["measurements"]["sev-snp"]["measurement"])

    def changed(self, folder: Path, name: str) -> Image:
        """A copy with one more or one other byte in a file."""
        other = object.__new__(Image)
        other.folder = folder
        other.firmware = self.firmware
        shutil.copytree(self.folder, folder)
        content = bytearray((folder / name).read_bytes())
        if name == image.COMMAND_LINE:
            content = content.replace(b"panic=-1", b"panic=-2")
        else:
            # A byte that the boot does not need: of a file's name in the archive, of padding.
            content[-1] ^= 1
        (folder / name).write_bytes(content)
        return other


class Machine:
    """A running machine: `address` is its engine's. What the launcher signs is what it booted."""

    def __init__(self, booted: Image, chips: Chips, folder: Path, memory: int = 2048) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "serial.log"
        self._socket = folder / "v"
        self._digest = bytes.fromhex(booted.measurement())
        self._chips = chips
        self.reports = 0
        vhost = folder / "h"
        device = f"guest-cid=3,socket={vhost},uds-path={self._socket},tx-buffer-size={_ROOM}"
        with (folder / "vsock.log").open("wb") as log:
            self._device = start(
                [str(_vsock_device()), "--vm", device], stdout=log, stderr=subprocess.STDOUT
            )
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self._socket}_{REPORTS}")
        self._listener.listen()
        threading.Thread(target=self._sign, daemon=True).start()
        _until(vhost.exists, 30, "vhost-device-vsock made no socket")
        command = qemu.command(
            image=booted.folder,
            kind="emulated",
            vsock=qemu.Vsock(None, vhost),
            vcpus=_VCPUS,
            memory=memory,
            firmware=None,
            log=str(self.log),
        )
        with (folder / "qemu.log").open("wb") as log:
            self.process = start(command, stdout=log, stderr=subprocess.STDOUT)

    @property
    def address(self) -> str:
        return f"vsock:{self._socket}:{TASKS}"

    def wait(self) -> dict[str, Any]:
        """Until the engine says that it is ready; what it says."""

        def ready() -> str | None:
            if self.process.poll() is not None:
                raise RuntimeError(f"the machine ended:\n{self.said()[-4000:]}")
            lines = [line for line in self.said().splitlines() if line.startswith('{"')]
            return lines[0] if lines else None

        line = _until(ready, _BOOT_SECONDS, "the engine is not ready")
        said: dict[str, Any] = json.loads(line)
        return said

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def connect(self, port: int) -> socket.socket:
        """To a port of the machine."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._socket))
        connection.sendall(f"CONNECT {port}\n".encode())
        return connection

    def drain(self) -> int:
        """Asks the engine to end when its tasks have, waits, and gives QEMU's code."""
        with self.connect(STOP):
            return self.process.wait(timeout=120)

    def stop(self) -> None:
        """Ends it and what it was reached through."""
        self._listener.close()
        for process in (self.process, self._device):
            process.kill()
            process.wait(timeout=30)

    def crash(self) -> None:
        """As a machine that fails."""
        self.process.kill()
        self.process.wait(timeout=30)

    def _sign(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                data = connection.recv(64, socket.MSG_WAITALL)
                if len(data) == 64:
                    self.reports += 1
                    connection.sendall(self._chips.report(self._digest, data))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def pinned(measurement: str) -> str:
    """The policy's section that admits such a machine."""
    least = ", ".join(f"{name} = {value}" for name, value in TCB.items())
    return (
        '[attestation]\naccept = ["sev-snp"]\n\n[attestation.sev-snp]\n'
        f'measurement = ["{measurement}"]\nmin_tcb = {{ {least} }}\n\n'
    )


def _until(met: Any, seconds: float, otherwise: str) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := met()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} within {seconds:.0f} s")
        time.sleep(0.05)
    return found


def package() -> Path:
    """The kernel's, downloaded once."""
    folder = made.once(cache_dir() / "machine" / "kernel", kernel.download)
    return next(folder.glob("*.deb"))


def _vsock_device() -> Path:
    """`vhost-device-vsock`, where the host has no vhost-vsock of its own; built once."""

    def make(folder: Path) -> None:
        subprocess.run(
            [
                *("cargo", "install", "vhost-device-vsock", "--version", _VSOCK, "--locked"),
                *("--root", str(folder), "--quiet"),
            ],
            check=True,
            timeout=3000,
        )

    folder = made.once(cache_dir() / "machine" / f"vhost-device-vsock-{_VSOCK}", make)
    return folder / "bin/vhost-device-vsock"
