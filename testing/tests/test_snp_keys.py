"""Which keys may sign a SEV-SNP report: a chip's, a listed cloud provider's, and none whose
certificate AMD has revoked. The authority is emulated (`servers.chips`)."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coffer_testing.servers.chips import PRODUCT, TCB, Chips

PROVIDER = "Cloud of the tests"
MEASUREMENT, BOUND = bytes(range(48)), bytes(range(32))


@dataclass
class Site:
    """Where reports are judged: a verifier, and the policy's folder of collateral."""

    chips: Chips
    program: Path
    collateral: Path

    def refused(self, report: bytes | None = None, **settings: Any) -> dict[str, str]:
        """What the verifier finds wrong of a report, by the check's name."""
        pins = {
            "measurement": [MEASUREMENT.hex()],
            "host_data": None,
            "min_tcb": {**TCB, "fmc": 0},
            **settings,
        }
        question = {
            "kind": "sev-snp",
            "policy": {"collateral": str(self.collateral), "sev-snp": pins},
            "report": (report or self.chips.report(MEASUREMENT, BOUND + bytes(32))).hex(),
            "expected": BOUND.hex(),
            "now": int(time.time()),
        }
        answer = subprocess.run(
            [self.program],
            input=json.dumps(question).encode(),
            capture_output=True,
            check=True,
            timeout=60,
        )
        checks = json.loads(answer.stdout)["checks"]
        return {check["name"]: check["found"] for check in checks if not check["passed"]}

    def lists(self, revoked: bytes) -> None:
        (self.collateral / f"crl-{PRODUCT}.der").write_bytes(revoked)


def site(folder: Path, provider: str = "") -> Site:
    chips = Chips(folder / "chips", provider)
    collateral = folder / "collateral"
    collateral.mkdir()
    made = Site(chips, chips.verifier(folder / "programs"), collateral)
    if provider:
        # For the provider's key it stands above: what AMD's key service gives in its place.
        shutil.copy2(chips.folder / "ask.pem", collateral / f"asvk-{PRODUCT}.pem")
    return made


@pytest.fixture(scope="module")
def of_a_chip(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return site(tmp_path_factory.mktemp("chip"))


@pytest.fixture(scope="module")
def of_a_provider(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return site(tmp_path_factory.mktemp("provider"), PROVIDER)


def test_a_providers_key_signs_where_it_is_listed(of_a_provider: Site) -> None:
    assert not of_a_provider.refused(providers=["Another", PROVIDER])
    for providers in ([], ["Another"], [PROVIDER.upper()], [""]):
        assert set(of_a_provider.refused(providers=providers)) == {"certificate"}


def test_a_providers_key_needs_amds_certificate_above_it(of_a_provider: Site) -> None:
    above = of_a_provider.collateral / f"asvk-{PRODUCT}.pem"
    kept = above.read_bytes()
    stranger = site(of_a_provider.collateral.parent / "stranger", PROVIDER)
    try:
        above.write_bytes((stranger.chips.folder / "ask.pem").read_bytes())
        assert "certificate" in of_a_provider.refused(providers=[PROVIDER])
        above.write_bytes(b"nothing")
        assert "certificate" in of_a_provider.refused(providers=[PROVIDER])
        above.unlink()
        found = of_a_provider.refused(providers=[PROVIDER])
        assert "asvk-PRODUCT.pem" in found["certificate"]
    finally:
        above.write_bytes(kept)


def test_the_signed_report_says_which_key(of_a_chip: Site, of_a_provider: Site) -> None:
    """A report that is changed to name the other key has neither certificate nor signature."""
    for where, name in ((of_a_chip, 4), (of_a_provider, 0)):
        report = bytearray(where.chips.report(MEASUREMENT, BOUND + bytes(32)))
        report[0x48] = name
        assert "certificate" in where.refused(bytes(report), providers=[PROVIDER])


LISTS: dict[str, tuple[Callable[[Chips, Chips], bytes], str]] = {
    "revoked": (lambda chips, _: chips.revocations(chips.ask), "has revoked"),
    "revoked_among_others": (
        lambda chips, other: chips.revocations(other.ask, chips.ask, other.ask),
        "has revoked",
    ),
    "expired": (lambda chips, _: chips.revocations(days=(-9, -1)), "has expired"),
    "of_tomorrow": (lambda chips, _: chips.revocations(days=(1, 9)), "not in force yet"),
    "of_another_root": (
        lambda chips, other: chips.revocations(signed_by=other),
        "not signed by AMD's root",
    ),
    "changed": (lambda chips, _: _changed(chips.revocations()), "revoked certificates"),
    "no_list": (lambda _, __: b"nothing", "malformed"),
    "longer": (lambda chips, _: chips.revocations() + b"\0", "malformed"),
}


def _changed(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("required", [False, True])
def test_a_list_that_is_there_counts(
    name: str, required: bool, of_a_chip: Site, of_a_provider: Site
) -> None:
    make, words = LISTS[name]
    of_a_chip.lists(make(of_a_chip.chips, of_a_provider.chips))
    found = of_a_chip.refused(require_revocation_list=required)
    assert set(found) == {"certificate"}
    assert words in found["certificate"]


def test_a_list_can_be_asked_for(of_a_chip: Site, of_a_provider: Site) -> None:
    for where, settings in ((of_a_chip, {}), (of_a_provider, {"providers": [PROVIDER]})):
        (where.collateral / f"crl-{PRODUCT}.der").unlink(missing_ok=True)
        assert not where.refused(**settings)
        found = where.refused(require_revocation_list=True, **settings)
        assert f"crl-{PRODUCT}.der" in found["certificate"]
        where.lists(where.chips.revocations())
        assert not where.refused(require_revocation_list=True, **settings)
        where.lists(where.chips.revocations(where.chips.ask))
        assert "certificate" in where.refused(**settings)
