"""Measurements that a policy pins: what the hardware will have measured once the machine runs."""

from pathlib import Path
from typing import Any

from machine import ImageError, tdx
from machine.image import COMMAND_LINE, INITRD, KERNEL, sha256

#: What KVM and QEMU turn on for every SEV-SNP guest: SNP_ACTIVE.
GUEST_FEATURES = 0x1


def sev_snp(image: Path, firmware: Path, vcpus: int, vcpu_type: str) -> dict[str, Any]:
    """The launch digest of AMD's SEV Secure Nested Paging Firmware ABI (56860), 8.17.

    It covers the firmware and the processors' first state, and by the firmware's table of hashes
    kernel, initial RAM disk and command line.
    """
    try:
        from sevsnpmeasure import guest, vcpu_types
        from sevsnpmeasure.ovmf import OVMF, SectionType
        from sevsnpmeasure.sev_mode import SevMode
    except ImportError as error:
        raise ImageError(
            "pip install -r deploy/vm/requirements.txt computes measurements"
        ) from error
    if vcpu_type not in vcpu_types.CPU_SIGS:
        raise ImageError(f"{vcpu_type} is none of {', '.join(vcpu_types.CPU_SIGS)}")
    read = OVMF(str(firmware))
    if not (
        read.is_sev_hashes_table_supported()
        and read.has_metadata_section(SectionType.SNP_KERNEL_HASHES)
    ):
        raise ImageError(
            f"{firmware} does not measure kernel, initial RAM disk and command line: take OVMF's "
            "AmdSev build, or another with a table of their hashes"
        )
    digest = guest.calc_launch_digest(
        SevMode.SEV_SNP,
        vcpus,
        vcpu_types.CPU_SIGS[vcpu_type],
        str(firmware),
        str(image / KERNEL),
        str(image / INITRD),
        (image / COMMAND_LINE).read_text(),
        GUEST_FEATURES,
    )
    return {
        "measurements": {"sev-snp": {"measurement": digest.hex()}},
        "firmware": {"file": firmware.name, "sha256": sha256(firmware.read_bytes())},
        "vcpus": vcpus,
        "vcpu_type": vcpu_type,
    }


def intel_tdx(image: Path, firmware: Path, *, pages_first: bool) -> dict[str, Any]:
    """What TDX measures of firmware, kernel, command line and initial RAM disk. RTMR0 holds what
    the hypervisor tells the firmware of the machine, and is read from one that runs."""
    code = firmware.read_bytes()
    registers = {
        "mrtd": tdx.mrtd(code, pages_first=pages_first),
        "rtmr1": tdx.rtmr1((image / KERNEL).read_bytes()),
        "rtmr2": tdx.rtmr2((image / COMMAND_LINE).read_text(), (image / INITRD).read_bytes()),
        # Nothing in the image extends it.
        "rtmr3": bytes(48).hex(),
    }
    return {
        "measurements": {"tdx": registers},
        "tdx_firmware": {"file": firmware.name, "sha256": sha256(code)},
    }
