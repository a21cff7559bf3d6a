"""What Intel TDX will have measured of a machine that is booted directly: MRTD, RTMR1 and RTMR2.

Sources: Intel TDX Module Base Architecture Specification (348549), "Measurement and Attestation";
TDX Virtual Firmware Design Guide (344991), sections 3 and 11; EDK II's OvmfPkg; Microsoft's
Authenticode PE format (2008), "Calculating the PE Image Hash". RTMR0 holds what the hypervisor
gives the firmware, its ACPI tables among it, and is not computed.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha384
from uuid import UUID

from machine import ImageError
from machine.qemu import FIRMWARES_OPTION

_TABLE = UUID("96b582de-1fb2-45f7-baea-a366c55a082d").bytes_le
_METADATA = UUID("e47a6535-984a-4798-865e-4685a7bf8ec2").bytes_le
# The table of GUIDs ends so many bytes before the reset vector's page does.
_AFTER_TABLE = 32
_ENTRY = 18  # a length of 16 bits, a GUID

_PAGE, _CHUNK = 4096, 256
_EXTENDED, _ADDED_LATER = 1, 2  # attributes of a section
#: Byte 0 of a PE file's list of data directories, and which of them holds its signatures.
_DIRECTORIES = {0x10B: 96, 0x20B: 112}
_SIGNATURES = 4

#: What OVMF measures once the kernel is loaded, until it hands the machine over.
_ACTIONS = (
    b"Calling EFI Application from Boot Option",
    b"\0\0\0\0",
    b"Exit Boot Services Invocation",
    b"Exit Boot Services Returned with Success",
)


@dataclass(frozen=True)
class _Section:
    """Memory that the machine begins with."""

    offset: int
    size: int
    address: int
    memory: int
    kind: int
    attributes: int


def mrtd(firmware: bytes, *, pages_first: bool = False) -> str:
    """The build-time measurement, in hexadecimal.

    :param pages_first: hosts that add all pages of a section before they extend the measurement
        with their contents, as kernels did before TDX hosts were in Linux (6.16)
    """
    measured = sha384()
    for section in _sections(firmware):
        pages = range(section.address, section.address + section.memory, _PAGE)
        contents = firmware[section.offset : section.offset + section.size]
        contents = contents.ljust(section.memory, b"\0")
        for round_ in ("add", "extend") if pages_first else ("both",):
            for page in pages:
                if round_ != "extend" and not section.attributes & _ADDED_LATER:
                    measured.update(_operation(b"MEM.PAGE.ADD", page))
                if round_ != "add" and section.attributes & _EXTENDED:
                    for at in range(page, page + _PAGE, _CHUNK):
                        measured.update(_operation(b"MR.EXTEND", at))
                        begin = at - section.address
                        measured.update(contents[begin : begin + _CHUNK])
    return measured.hexdigest()


def rtmr1(kernel: bytes) -> str:
    """The kernel, by firmware that loads it as the file it is (OVMF 2025.05 and later)."""
    return _extended([authenticode(kernel), *(sha384(action).digest() for action in _ACTIONS)])


def rtmr2(command_line: str, initrd: bytes) -> str:
    """Command line and initial RAM disk, as OVMF's loader of QEMU's kernels measures them."""
    line = f"{command_line}{FIRMWARES_OPTION}\0".encode("utf-16-le")
    return _extended([sha384(line).digest(), sha384(initrd).digest()])


def authenticode(image: bytes) -> bytes:
    """SHA-384 of a PE file without its checksum and signatures."""
    try:
        (header,) = struct.unpack_from("<I", image, 0x3C)
        if image[header : header + 4] != b"PE\0\0":
            raise ImageError("the kernel is no PE file: it needs an EFI stub")
        sections, optional_size = struct.unpack_from("<2xH12xH", image, header + 4)
        optional = header + 24
        (magic,) = struct.unpack_from("<H", image, optional)
        (headers,) = struct.unpack_from("<I", image, optional + 60)
        directories = optional + _DIRECTORIES[magic]
        (count,) = struct.unpack_from("<I", image, directories - 4)
        hashed = sha384(image[: optional + 64])
        signatures = 0
        if count > _SIGNATURES:
            entry = directories + 8 * _SIGNATURES
            (signatures,) = struct.unpack_from("<I", image, entry + 4)
            hashed.update(image[optional + 68 : entry])
            hashed.update(image[entry + 8 : headers])
        else:
            hashed.update(image[optional + 68 : headers])
        table = optional + optional_size
        parts = [struct.unpack_from("<16xII", image, table + 40 * at) for at in range(sections)]
    except (struct.error, KeyError) as error:
        raise ImageError(f"the kernel is no PE file that can be read: {error!r}") from error
    end = headers
    for size, offset in sorted(parts, key=lambda part: part[1]):
        hashed.update(image[offset : offset + size])
        end += size
    hashed.update(image[end : len(image) - signatures])
    return hashed.digest()


def _operation(name: bytes, address: int) -> bytes:
    return struct.pack("<16sQ104x", name, address)


def _extended(events: Iterable[bytes]) -> str:
    register = bytes(48)
    for event in events:
        register = sha384(register + event).digest()
    return register.hex()


def _sections(firmware: bytes) -> Iterator[_Section]:
    try:
        at = len(firmware) - _offset(firmware)
        signature, _, version, count = struct.unpack_from("<4sIII", firmware, at)
        if (signature, version) != (b"TDVF", 1):
            raise ImageError("the firmware's TDX metadata are of a version that is not known")
        found = [
            _Section(*struct.unpack_from("<IIQQII", firmware, at + 16 + 32 * number))
            for number in range(count)
        ]
    except struct.error as error:
        raise ImageError("the firmware's TDX metadata are cut") from error
    for section in found:
        if section.address % _PAGE or section.memory % _PAGE or section.size > section.memory:
            raise ImageError("the firmware's TDX metadata name memory that is not whole pages")
        if section.offset + section.size > len(firmware):
            raise ImageError("the firmware's TDX metadata name bytes that it does not have")
        yield section


def _offset(firmware: bytes) -> int:
    """Of the TDX metadata, from the firmware's end."""
    end = len(firmware) - _AFTER_TABLE
    if end < _ENTRY or firmware[end - 16 : end] != _TABLE:
        raise ImageError("the firmware has no table of GUIDs: it is no OVMF")
    (total,) = struct.unpack_from("<H", firmware, end - _ENTRY)
    begin, at = end - total, end - _ENTRY
    while at - _ENTRY >= begin:
        (size,) = struct.unpack_from("<H", firmware, at - _ENTRY)
        if firmware[at - 16 : at] == _METADATA:
            return int(struct.unpack_from("<I", firmware, at - _ENTRY - 4)[0])
        if size < _ENTRY:
            break
        at -= size
    raise ImageError("the firmware does not say how TDX begins it: take OVMF's IntelTdx build")
