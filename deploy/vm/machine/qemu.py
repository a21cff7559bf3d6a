"""QEMU's command line for the machine."""

from pathlib import Path
from typing import NamedTuple

from machine import ImageError
from machine.image import COMMAND_LINE, INITRD, KERNEL

PROGRAM = "qemu-system-x86_64"
#: `emulated`: on any machine, slowly, and without a measurement. For tests.
KINDS = ("sev-snp", "tdx", "emulated")

#: What EDK II's loader of QEMU's kernels (QemuLoadImageLib) adds to the command line.
FIRMWARES_OPTION = " initrd=initrd"

#: QEMU, docs/system/i386/amd-memory-encryption.rst and tdx.rst. Not run on such hardware.
_CONFIDENTIAL = {
    "sev-snp": (
        "EPYC-v4",
        "sev-snp-guest,id=confidential,cbitpos=51,reduced-phys-bits=1,kernel-hashes=on",
    ),
    "tdx": ("host", "tdx-guest,id=confidential"),
}


class Vsock(NamedTuple):
    """The machine's socket: by the host's kernel, or by a process beside QEMU."""

    cid: int | None
    process: Path | None


def command(
    *,
    image: Path,
    kind: str,
    vsock: Vsock,
    vcpus: int,
    memory: int,
    firmware: Path | None,
    log: str,
) -> list[str]:
    """The command: a machine with no device but a serial port, which takes a log, and a socket.

    :param memory: in MiB
    """
    for name in (KERNEL, INITRD, COMMAND_LINE):
        if not (image / name).is_file():
            raise ImageError(f"{image} has no {name}: deploy/vm/build --out {image}")
    out = "stdio" if log == "-" else f"file:{log}"
    parts = [PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    parts += ["-smp", str(vcpus), "-m", f"{memory}M", "-serial", out]
    parts += _confidential(kind, firmware, memory)
    parts += ["-kernel", str(image / KERNEL), "-initrd", str(image / INITRD)]
    # Where there is firmware it adds this itself.
    added = FIRMWARES_OPTION if kind == "emulated" else ""
    parts += ["-append", (image / COMMAND_LINE).read_text() + added]
    if vsock.process:
        parts += ["-chardev", f"socket,id=vsock,path={vsock.process}"]
        return [*parts, "-device", "vhost-user-vsock-pci,chardev=vsock"]
    return [*parts, "-device", f"vhost-vsock-pci,guest-cid={vsock.cid}"]


def _confidential(kind: str, firmware: Path | None, memory: int) -> list[str]:
    if kind == "emulated":
        # What is beside QEMU shares its memory.
        ram = f"memory-backend-memfd,id=ram,size={memory}M,share=on"
        return [
            *("-accel", "tcg", "-cpu", "max"),
            *("-object", ram, "-machine", "q35,memory-backend=ram"),
        ]
    if not firmware:
        raise ImageError(f"{kind} needs --firmware: it is part of what is measured")
    model, guest = _CONFIDENTIAL[kind]
    ram = f"memory-backend-memfd,id=ram,size={memory}M,share=true"
    machine = "q35,confidential-guest-support=confidential,memory-backend=ram"
    if kind == "tdx":
        machine += ",kernel-irqchip=split"
    return [
        *("-accel", "kvm", "-cpu", model, "-bios", str(firmware)),
        *("-object", guest, "-object", ram, "-machine", machine),
    ]
