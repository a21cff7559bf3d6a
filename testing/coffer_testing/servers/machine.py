"""An engine in an emulated virtual machine, and the authority of its emulated processors.

QEMU's emulator measures nothing and signs nothing, so this launcher plays the firmware: it computes
the launch digest of what it boots as the hardware would, with a firmware of its own, and signs
reports with the key of a chip whose certificate a test's authority made. What reads the reports in
the machine is `testing/tsm`; what verifies them is `testing/attest`.
"""

from __future__ import annotations

import datetime
import json
import os
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

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.x509.oid import NameOID

from coffer import find_binary
from coffer._find import cache_dir
from coffer_testing import made
from coffer_testing.processes import start

TREE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE / "deploy/vm"))

from machine import cpio, image, kernel, measure, qemu  # noqa: E402

# The engine's port, the one that asks it to end, and the launcher's for reports.
TASKS, STOP, REPORTS = 7077, 7078, 7079
# What the emulated firmware says it is.
_TCB = {"bootloader": 4, "tee": 0, "snp": 22, "microcode": 211}
_VCPUS, _VCPU_TYPE = 2, "EPYC-v4"
_BOOT_SECONDS = 240.0
# What the machine may send at once. Of more than 32 KB Linux 6.12 makes packets of several parts,
# of which this device takes the first.
_ROOM = 16 << 10
_DAY = datetime.timedelta(days=1)
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


class Chips:
    """The authority: AMD's part. Two certificates, and one chip's key and certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.chip = os.urandom(64)
        ark, ask = _rsa(), _rsa()
        self.key = ec.generate_private_key(ec.SECP384R1())
        root = _certificate("ARK-Emulated", ark.public_key(), "ARK-Emulated", ark, ca=True)
        between = _certificate("SEV-Emulated", ask.public_key(), "ARK-Emulated", ark, ca=True)
        chip = _certificate("SEV-VCEK", self.key.public_key(), "SEV-Emulated", ask, chip=self.chip)
        for name, certificate in (("ark", root), ("ask", between)):
            pem = certificate.public_bytes(serialization.Encoding.PEM)
            (folder / f"{name}.pem").write_bytes(pem)
        self.certificate = chip.public_bytes(serialization.Encoding.DER)

    def report(self, measurement: bytes, data: bytes) -> bytes:
        """A report of version 2 on 64 bytes of data, and the table with the chip's certificate (SEV
        Secure Nested Paging Firmware ABI, 56860, tables 22 and 23; GHCB, 56421, 4.1.8.1)."""
        tcb = struct.pack("<BBIBB", _TCB["bootloader"], _TCB["tee"], 0, _TCB["snp"], 211)
        body = bytearray(0x2A0)
        # Version, guest's SVN, policy (SMT allowed, and the bit that must be one).
        struct.pack_into("<IIQ", body, 0, 2, 0, 0x30000)
        struct.pack_into("<I", body, 0x34, 1)  # ECDSA P-384 with SHA-384
        body[0x38:0x40] = tcb
        struct.pack_into("<Q", body, 0x40, 1)  # of the platform: SMT
        body[0x50:0x90] = data
        body[0x90:0xC0] = measurement
        body[0x140:0x160] = os.urandom(32)
        body[0x160:0x180] = b"\xff" * 32
        body[0x180:0x188] = tcb
        body[0x1A0:0x1E0] = self.chip
        body[0x1E0:0x1E8] = tcb
        body[0x1F0:0x1F8] = tcb
        r, s = utils.decode_dss_signature(self.key.sign(bytes(body), ec.ECDSA(hashes.SHA384())))
        signature = r.to_bytes(72, "little") + s.to_bytes(72, "little") + bytes(512 - 144)
        vcek = bytes.fromhex("63da758de6644564adc5f4b93be8accd")
        table = vcek + struct.pack("<II", 48, len(self.certificate)) + bytes(24)
        return bytes(body) + signature + table + self.certificate

    def programs(self, folder: Path) -> Path:
        """A folder of programs whose verifier knows this authority and no other."""
        folder.mkdir()
        real = Path(find_binary("coffer-client")).parent
        for program in real.glob("coffer*"):
            if program.is_file() and os.access(program, os.X_OK) and "." not in program.name:
                shutil.copy2(program, folder / program.name)
        (folder / "coffer-attest").unlink()
        shutil.copy2(built("helpers", "coffer-attest-emulated"), folder / "coffer-attest")
        for name in ("ark.pem", "ask.pem"):
            shutil.copy2(self.folder / name, folder / name)
        return folder


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
    least = ", ".join(f"{name} = {value}" for name, value in _TCB.items())
    return (
        '[attestation]\naccept = ["sev-snp"]\n\n[attestation.sev-snp]\n'
        f'measurement = ["{measurement}"]\nmin_tcb = {{ {least} }}\n\n'
    )


def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=4096)


def _certificate(
    name: str,
    public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    issuer: str,
    key: rsa.RSAPrivateKey,
    *,
    ca: bool = False,
    chip: bytes = b"",
) -> x509.Certificate:
    """As AMD's: RSA-PSS with SHA-384, and of a chip the extensions that name it (57230, table
    9)."""

    def named(common: str) -> x509.Name:
        return x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"),
                x509.NameAttribute(NameOID.COMMON_NAME, common),
            ]
        )

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
    if ca:
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
    else:
        amd = "1.3.6.1.4.1.3704.1"
        versions = {
            f"{amd}.3.1": _TCB["bootloader"],
            f"{amd}.3.2": _TCB["tee"],
            f"{amd}.3.3": _TCB["snp"],
            f"{amd}.3.8": _TCB["microcode"],
        }
        fields = {oid: _der_integer(value) for oid, value in versions.items()}
        for oid, value in {**fields, f"{amd}.4": chip}.items():
            extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), value)
            builder = builder.add_extension(extension, critical=False)
    pss = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
    return builder.sign(key, hashes.SHA384(), rsa_padding=pss)


def _der_integer(value: int) -> bytes:
    """Of one byte."""
    content = bytes([0, value]) if value > 0x7F else bytes([value])
    return bytes([2, len(content)]) + content


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


def built(workspace: str, program: str) -> Path:
    """A program of the tests, which no other build makes."""
    folder = image.programs()
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "--workspace", "--bin", program],
        cwd=TREE / workspace,
        env={**os.environ, "CARGO_TARGET_DIR": str(folder.parent)},
        check=True,
        timeout=3000,
    )
    return folder / program


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
