"""The authority of emulated processors: AMD's part, with keys of its own.

It signs reports as a chip does, or as a cloud provider's chips do with the key that AMD lent it,
and lists what it has revoked. What verifies them is `testing/attest`, which knows this authority
and no other.
"""

from __future__ import annotations

import datetime
import os
import shutil
import struct
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.x509.oid import NameOID

from coffer import find_binary
from coffer_testing.built import built

# What the emulated firmware says it is.
TCB = {"bootloader": 4, "tee": 0, "snp": 22, "microcode": 211}
# As `testing/attest` calls these processors.
PRODUCT = "Emulated"
_DAY = datetime.timedelta(days=1)
# In the table of certificates: the chip's key, a provider's (GHCB, 56421, 4.1.8.1).
_VCEK = bytes.fromhex("63da758de6644564adc5f4b93be8accd")
_VLEK = bytes.fromhex("a8074bc2a25a483eaae639c045a0b8a1")
_AMD = "1.3.6.1.4.1.3704.1"


class Chips:
    """Two certificates of the authority, and one key that signs reports: a chip's, or that of a
    cloud provider with this name."""

    def __init__(self, folder: Path, provider: str = "") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.chip = os.urandom(64)
        self.key = ec.generate_private_key(ec.SECP384R1())
        self._provider = provider
        self._root, between = _rsa(), _rsa()
        ark = _certificate("ARK-Emulated", self._root.public_key(), "ARK-Emulated", self._root)
        self.ask = _certificate("SEV-Emulated", between.public_key(), "ARK-Emulated", self._root)
        extension = (
            (f"{_AMD}.5", bytes([0x16, len(provider)]) + provider.encode())
            if provider
            else (f"{_AMD}.4", self.chip)
        )
        signer = _certificate(
            "SEV-VLEK" if provider else "SEV-VCEK",
            self.key.public_key(),
            "SEV-Emulated",
            between,
            of=extension,
        )
        for name, certificate in (("ark", ark), ("ask", self.ask)):
            pem = certificate.public_bytes(serialization.Encoding.PEM)
            (folder / f"{name}.pem").write_bytes(pem)
        self.certificate = signer.public_bytes(serialization.Encoding.DER)

    def report(self, measurement: bytes, data: bytes) -> bytes:
        """A report of version 2 on 64 bytes of data, and the table with the certificate of its key
        (SEV Secure Nested Paging Firmware ABI, 56860, tables 22 and 23)."""
        tcb = struct.pack("<BBIBB", TCB["bootloader"], TCB["tee"], 0, TCB["snp"], TCB["microcode"])
        body = bytearray(0x2A0)
        # Version, guest's SVN, policy (SMT allowed, and the bit that must be one).
        struct.pack_into("<IIQ", body, 0, 2, 0, 0x30000)
        struct.pack_into("<I", body, 0x34, 1)  # ECDSA P-384 with SHA-384
        body[0x38:0x40] = tcb
        struct.pack_into("<Q", body, 0x40, 1)  # of the platform: SMT
        struct.pack_into("<I", body, 0x48, (1 if self._provider else 0) << 2)  # which key signs
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
        which = _VLEK if self._provider else _VCEK
        table = which + struct.pack("<II", 48, len(self.certificate)) + bytes(24)
        return bytes(body) + signature + table + self.certificate

    def revocations(
        self,
        *revoked: x509.Certificate,
        signed_by: Chips | None = None,
        days: tuple[int, int] = (-1, 1),
    ) -> bytes:
        """The root's list of revoked certificates (RFC 5280, section 5), in force between two days
        from now."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(_named("ARK-Emulated"))
            .last_update(now + days[0] * _DAY)
            .next_update(now + days[1] * _DAY)
        )
        for certificate in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(now - _DAY).build())
        root = (signed_by or self)._root
        made = builder.sign(root, hashes.SHA384(), rsa_padding=_pss())
        return made.public_bytes(serialization.Encoding.DER)

    def verifier(self, folder: Path) -> Path:
        """The program that verifies reports by this authority's certificates, in a folder of its
        own."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("ark.pem", "ask.pem"):
            shutil.copy2(self.folder / name, folder / name)
        program = folder / "coffer-attest"
        shutil.copy2(built("helpers", "coffer-attest-emulated"), program)
        return program

    def programs(self, folder: Path) -> Path:
        """A folder of all programs, whose verifier is this one."""
        folder.mkdir()
        real = Path(find_binary("coffer-client")).parent
        for program in real.glob("coffer*"):
            if program.is_file() and os.access(program, os.X_OK) and "." not in program.name:
                shutil.copy2(program, folder / program.name)
        (folder / "coffer-attest").unlink()
        self.verifier(folder)
        return folder


def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=4096)


def _pss() -> padding.PSS:
    return padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)


def _named(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _certificate(
    name: str,
    public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    issuer: str,
    key: rsa.RSAPrivateKey,
    *,
    of: tuple[str, bytes] | None = None,
) -> x509.Certificate:
    """As AMD's: RSA-PSS with SHA-384, and `of` a key that signs reports the extensions that name
    its firmware and whose it is (57230, table 9)."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
    if of is None:
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
    else:
        versions = {
            f"{_AMD}.3.1": TCB["bootloader"],
            f"{_AMD}.3.2": TCB["tee"],
            f"{_AMD}.3.3": TCB["snp"],
            f"{_AMD}.3.8": TCB["microcode"],
        }
        fields = {oid: _der_integer(value) for oid, value in versions.items()}
        for oid, value in {**fields, of[0]: of[1]}.items():
            extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), value)
            builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA384(), rsa_padding=_pss())


def _der_integer(value: int) -> bytes:
    """Of one byte."""
    content = bytes([0, value]) if value > 0x7F else bytes([value])
    return bytes([2, len(content)]) + content
