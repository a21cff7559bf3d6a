"""A data owner for demo, tests and benchmarks: a config directory with a fresh keyring, and sealed
tables made with `coffer`."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from coffer._find import find_binary


@dataclass(frozen=True)
class Owner:
    """A config directory and the file that holds its passphrase. `programs`: the folder of another
    build's programs."""

    config_dir: Path
    passphrase_file: Path
    programs: Path | None = None

    @staticmethod
    def create(folder: Path, programs: Path | None = None) -> Owner:
        """Makes a config directory under `folder` with `coffer init` and a generated passphrase.
        The policy it writes accepts simulated evidence, which is what this release has."""
        folder.mkdir(parents=True, exist_ok=True)
        passphrase_file = folder / "passphrase"
        passphrase_file.touch(mode=0o600)
        passphrase_file.write_text(secrets.token_urlsafe(24) + "\n")
        owner = Owner.of(folder, programs)
        owner.coffer("init")
        return owner

    @staticmethod
    def of(folder: Path, programs: Path | None = None) -> Owner:
        """The one that `create` made under that folder."""
        return Owner(folder / "config", folder / "passphrase", programs)

    def coffer(
        self, *arguments: str | Path, check: bool = True, env: dict[str, str | None] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command line as this owner. With `check`, an exit code other than 0 is an error
        with its words. `env`: more of its environment; what is None it does not have."""
        program = self.programs / "coffer" if self.programs else find_binary("coffer")
        command = [str(program), *map(str, arguments)]
        changed = {**self.environment(), **(env or {})}
        variables = {name: value for name, value in changed.items() if value is not None}
        done = subprocess.run(
            command,
            env=variables,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=3600,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        return done

    @property
    def policy(self) -> str:
        """The policy's text."""
        return (self.config_dir / "policy.toml").read_text()

    def sign(self, policy: str | None = None) -> None:
        """Signs the policy as it lies in the config directory, or makes this text the policy
        first."""
        if policy is not None:
            (self.config_dir / "policy.toml").write_text(policy)
        self.coffer("policy", "sign", "--yes")

    def accept(self, attestation: str) -> None:
        """Signs the policy with this in the place of all that it says of evidence."""
        text, replaced = re.subn(
            r"\[attestation\]\n.*?(?=^\[(?!attestation))",
            lambda _: attestation,
            self.policy,
            flags=re.S | re.M,
        )
        assert replaced == 1
        self.sign(text)

    def encrypt(self, tables: dict[str, Path], folder: Path) -> dict[str, Path]:
        """Seals each table under `folder`; returns the sealed tables' folders by name."""
        folder.mkdir(parents=True, exist_ok=True)
        sealed = {name: folder / name for name in tables}
        for name, source in tables.items():
            self.coffer("encrypt", source, sealed[name])
        return sealed

    def environment(self) -> dict[str, str]:
        """This process's environment with the owner's config directory and passphrase in it."""
        passphrase = self.passphrase_file.read_text().rstrip("\n")
        return {
            **os.environ,
            "COFFER_CONFIG_DIR": str(self.config_dir),
            "COFFER_PASSPHRASE": passphrase,
        }
