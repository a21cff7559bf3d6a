"""The owner's policy, as the harness writes it: signed, if this build knows signatures."""

from __future__ import annotations

from coffer_testing.owner import Owner


def write(owner: Owner, text: str) -> None:
    """Makes this text the owner's policy."""
    (owner.config_dir / "policy.toml").write_text(text)
    sign(owner)


def sign(owner: Owner) -> None:
    """Signs the policy as it lies there."""
    if signs(owner):
        owner.coffer("policy", "sign", "--yes")


def signs(owner: Owner) -> bool:
    """Whether there is a signature to be made."""
    return owner.coffer("policy", "sign", "--help", check=False).returncode == 0


def read(owner: Owner) -> str:
    return (owner.config_dir / "policy.toml").read_text()
