"""A PKCS #11 token in a folder: SoftHSM 2, from Debian's `softhsm2`."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import urllib.parse
from pathlib import Path

MODULES = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so")


class SoftHsm:
    """A token named `coffer`. Its programs find it by an environment variable: see
    `environment`."""

    def __init__(self, folder: Path, pin: str = "471108") -> None:
        self.module = _installed()
        self.pin_file = folder / "pin"
        tokens = folder / "tokens"
        tokens.mkdir(parents=True)
        configuration = folder / "softhsm2.conf"
        configuration.write_text(
            f"directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n"
        )
        self.environment = {"SOFTHSM2_CONF": str(configuration)}
        self.pin_file.touch(mode=0o600)
        self.pin_file.write_text(pin + "\n")
        self._util("--init-token", "--free", "--label", "coffer", "--so-pin", "0000", "--pin", pin)

    def uri(self, label: str, **options: str) -> str:
        """As a policy names a key of it."""
        query = urllib.parse.urlencode(
            {"module-path": self.module, "pin-source": f"file:{self.pin_file}", **options},
            safe="/:",
        )
        return f"pkcs11:token=coffer;object={label};type=secret-key?{query}"

    def create(self, label: str, identity: str = "01") -> None:
        """A new AES-256 key. `identity`: its `CKA_ID`, in hexadecimal digits."""
        material = self.pin_file.with_name("key")
        material.touch(mode=0o600)
        # Letters: softhsm2-util cuts other bytes short.
        material.write_text(secrets.token_hex(16))
        key = ["--import", str(material), "--aes", "--label", label, "--id", identity]
        self._util(*key, "--token", "coffer", "--pin", self.pin_file.read_text().strip())
        material.unlink()

    def _util(self, *arguments: str) -> None:
        environment = {**os.environ, **self.environment}
        subprocess.run(
            ["softhsm2-util", *arguments],
            check=True,
            capture_output=True,
            env=environment,
            timeout=60,
        )


class NotInstalledError(RuntimeError):
    """This machine has no SoftHSM."""


def _installed() -> Path:
    """The module."""
    module = next((Path(path) for path in MODULES if Path(path).exists()), None)
    if module is None or shutil.which("softhsm2-util") is None:
        raise NotInstalledError(
            "SoftHSM is not installed\nhint: scripts/check-tools --test --install"
        )
    return module
