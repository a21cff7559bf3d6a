"""Authorities and the certificates that they make, as files."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


class Authority:
    """One of its own in `folder`: `certificate` is what others know it by."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def make(self, name: str, *, days: int = 1) -> tuple[Path, Path]:
        """The files of a certificate for a name (a mail address, or an address of the network) and
        of its key. With `days` before 0 it has run out."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternative: x509.GeneralName = (
            x509.RFC822Name(name) if "@" in name else x509.IPAddress(ipaddress.ip_address(name))
        )
        usage = x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
        made = (
            _builder(subject, self._name, key, days)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(usage, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = self._folder / f"{name}.{days}.pem", self._folder / f"{name}.{days}.key"
        files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files


def fingerprint(certificate: Path) -> str:
    """SHA-256 of a certificate's bytes, in hexadecimal."""
    return (
        x509.load_pem_x509_certificate(certificate.read_bytes()).fingerprint(hashes.SHA256()).hex()
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * _DAY)
        .not_valid_after(now + days * _DAY)
    )
