"""Live evidence end to end: a TPM's quotes decide whether a query gets its keys. The TPM is a
process, swtpm."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from coffer import find_binary
from coffer_testing import data
from coffer_testing.owner import Owner
from coffer_testing.processes import line_of, start
from coffer_testing.runner import Driver, QueryFailed
from tpm import SoftwareTpm

SQL = "SELECT count(*) AS n, sum(id) AS s FROM events WHERE id > 10"
TPM = {"spark.coffer.engine.evidence": "tpm"}
# What the policy pins: the TPM's own, one that the test extends, one that is left alone.
PINNED = ("0", "7", "10")
# As coffer-tpm-quote makes its key.
AK = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|sign"


@dataclass
class Site:
    """An owner with one sealed table, and the machine's TPM."""

    owner: Owner
    tables: dict[str, Path]
    plain: dict[str, Path]
    tpm: SoftwareTpm
    folder: Path

    def pins(self) -> dict[str, list[str]]:
        """What the TPM is now: its attestation key under `ak`, and PCRs by their numbers."""
        shown = tomllib.loads(self.tpm.run(find_binary("coffer-tpm-quote"), "ak").decode())[
            "attestation"
        ]["tpm"]
        return {"ak": shown["ak"], **{pcr: shown["pcrs"][pcr] for pcr in PINNED}}

    def accept(self, kind: str, pins: dict[str, list[str]], *others: str) -> None:
        """Writes the policy's section anew."""
        values = "".join(f"{pcr} = {json.dumps(pins[pcr])}\n" for pcr in PINNED if pcr in pins)
        section = (
            f"[attestation]\naccept = {json.dumps([kind, *others])}\n\n[attestation.tpm]\nak = "
            f"{json.dumps(pins['ak'])}\n\n"
            f"[attestation.tpm.pcrs]\n{values}\n"
        )
        self.owner.accept(section)

    def driver(self, name: str, conf: dict[str, str]) -> Driver:
        return Driver(
            self.tables,
            sealed=True,
            log=self.folder / f"{name}.log",
            config_dir=self.owner.config_dir,
            passphrase_file=self.owner.passphrase_file,
            conf=conf,
            env=self.tpm.env,
        )

    @contextmanager
    def engine(self, kind: str) -> Iterator[str]:
        """An engine of its own; its address."""
        spill = self.folder / "spill"
        spill.mkdir(exist_ok=True)
        command = [find_binary("coffer-engine"), "--listen", "tcp:127.0.0.1:0", "--evidence", kind]
        process = start(
            [*command, "--spill-dir", spill, "--lifeline", "stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self.tpm.env},
        )
        assert process.stdin and process.stdout
        try:
            yield json.loads(line_of(process, 60))["listening"]
        finally:
            process.stdin.close()
            process.wait(timeout=60)
            process.stdout.close()

    def verify(self, address: str, *more: str | Path) -> tuple[int, str]:
        done = self.owner.coffer("verify", "--engine", address, *more, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("attestation")
    plain = data.write(folder / "plain")
    owner = Owner.create(folder / "trusted")
    tables = owner.encrypt({"events": plain["events"]}, folder / "sealed")
    with SoftwareTpm(folder / "tpm") as tpm:
        yield Site(owner, tables, plain, tpm, folder)


def failed(checks: str) -> list[str]:
    """The names of the checks with a cross."""
    return [line.split()[1] for line in checks.splitlines() if line.startswith("✗")]


def test_a_tpms_quote_releases_keys_and_a_changed_pcr_does_not(site: Site) -> None:
    pins = site.pins()
    site.accept("tpm", pins)
    with site.driver("released", TPM) as driver:
        answer = driver.query(SQL)
    with Driver(
        {"events": site.plain["events"]}, sealed=False, log=site.folder / "plain.log"
    ) as driver:
        assert answer.rows == driver.query(SQL).rows
    shown = site.owner.coffer("audit", "show", "--json").stdout.splitlines()
    engines = [engine for line in shown for engine in json.loads(line)["event"].get("engines", [])]
    assert engines and all(
        engine["kind"] == "tpm" and f"pcr10 {pins['10'][0]}" in engine["measurement"]
        for engine in engines
    )

    site.tpm.extend(10, "ab" * 32)
    assert site.pins()["10"] != pins["10"]
    with pytest.raises(QueryFailed) as refused, site.driver("refused", TPM) as driver:
        driver.query(SQL)
    assert "pcr10" in refused.value.message
    with pytest.raises(QueryFailed) as refused, site.driver("simulated", {}) as driver:
        driver.query(SQL)
    assert "does not accept simulated evidence" in refused.value.message


def test_a_column_that_wants_a_tee_beside_the_tpm_is_not_for_an_engine_with_a_tpm_alone(
    site: Site,
) -> None:
    site.accept("tpm", site.pins(), "tdx")
    signed = site.owner.policy
    columns = '[tables.events.columns]\nq = { evidence = ["tdx", "tpm"] }\n'
    site.owner.sign(f"{signed}\n{columns}")
    try:
        with site.driver("one_kind", TPM) as driver:
            assert driver.query(SQL).rows
            with pytest.raises(QueryFailed) as refused:
                driver.query("SELECT sum(q) AS s FROM events")
            assert "for engines that show tdx+tpm evidence together" in refused.value.message
            assert "showed tpm" in refused.value.message
            assert driver.query(SQL).rows
        checked = json.loads(site.owner.coffer("policy", "check", "--json").stdout)
        (events,) = checked["tables"]
        wanted = {column["name"]: column["evidence"] for column in events["columns"]}
        assert wanted.pop("q") == ["tdx", "tpm"] and not any(wanted.values())
    finally:
        site.owner.sign(signed)
    # Nobody who lists the kinds meant that one of them is never accepted.
    site.accept("tpm", site.pins())
    (site.owner.config_dir / "policy.toml").write_text(f"{site.owner.policy}\n{columns}")
    done = site.owner.coffer("policy", "sign", "--yes", check=False)
    assert done.returncode != 0 and "wants tdx evidence" in done.stderr
    site.owner.sign(signed)


def test_verify_shows_each_check(site: Site) -> None:
    pins = site.pins()
    site.accept("tpm", pins)
    with site.engine("tpm") as address:
        code, words = site.verify(address, "--out", site.folder / "seen")
        assert (code, failed(words)) == (0, []), words
        for check in (
            "build",
            "accepted",
            "form",
            "key",
            "signature",
            "quote",
            "pcr0",
            "pcr7",
            "pcr10",
            "report_data",
        ):
            assert f"✓ {check} " in words, words
        # Fresh evidence each time, of the same engine.
        code, words = site.verify(address, "--json")
        assert code == 0 and json.loads(words)["verified"] is True
    seen = json.loads((site.folder / "seen" / "evidence.json").read_text())
    report = (site.folder / "seen" / "report.bin").read_bytes()
    assert seen["verified"] and bytes.fromhex(seen["report_data"]) in report

    wrong = {**pins, "7": ["11" * 32]}
    for policy, cross in [
        (wrong, ["pcr7"]),
        ({**pins, "ak": ["22" * 32]}, ["key"]),
        ({**pins, "ak": []}, ["key"]),
        ({"ak": pins["ak"]}, ["pcrs"]),
    ]:
        site.accept("tpm", policy)
        with site.engine("tpm") as address:
            code, words = site.verify(address)
        assert (code, failed(words)) == (1, cross), words
        assert "hint: " in words
    site.accept("tpm", pins)
    with site.engine("simulated") as address:
        code, words = site.verify(address)
        assert (code, failed(words)) == (1, ["accepted"]), words
    site.accept("simulated", pins)
    with site.engine("auto") as address:
        code, words = site.verify(address)
        assert code == 0 and "it proves nothing" in words, words


def test_the_attestation_key_is_the_same_each_time_and_another_tpms_is_another(
    site: Site, tmp_path: Path
) -> None:
    assert site.pins()["ak"] == site.pins()["ak"]
    with SoftwareTpm(tmp_path / "other") as other:
        shown = other.run(find_binary("coffer-tpm-quote"), "ak").decode()
    assert site.pins()["ak"][0] not in shown


def test_the_endorsement_key_vouches_for_the_pinned_key(site: Site, tmp_path: Path) -> None:
    """What docs/attestation/tpm.md describes: only a TPM that has both keys opens what is wrapped
    for the two."""
    ak, ek, session = tmp_path / "ak.ctx", tmp_path / "ek.ctx", tmp_path / "session"
    secret, wrapped, opened = tmp_path / "secret", tmp_path / "wrapped", tmp_path / "opened"
    secret.write_bytes(bytes(range(32)))
    run = site.tpm.run
    run("tpm2_createek", "-G", "ecc", "-c", ek, "-u", tmp_path / "ek.pub")
    run("tpm2_flushcontext", "-t")
    run(
        "tpm2_createprimary",
        "-C",
        "e",
        "-g",
        "sha256",
        "-G",
        "ecc_nist_p256:ecdsa-sha256:null",
        "-a",
        AK,
        "-c",
        ak,
    )
    run("tpm2_flushcontext", "-t")
    name = "000b" + site.pins()["ak"][0]
    run(
        "tpm2_makecredential",
        "-T",
        "none",
        "-u",
        tmp_path / "ek.pub",
        "-s",
        secret,
        "-n",
        name,
        "-o",
        wrapped,
    )
    run("tpm2_startauthsession", "--policy-session", "-S", session)
    run("tpm2_policysecret", "-S", session, "-c", "e")
    run(
        "tpm2_activatecredential",
        "-c",
        ak,
        "-C",
        ek,
        "-i",
        wrapped,
        "-o",
        opened,
        "-P",
        f"session:{session}",
    )
    run("tpm2_flushcontext", session)
    assert opened.read_bytes() == secret.read_bytes()


def test_a_program_that_is_no_engine_is_named(site: Site) -> None:
    code, words = site.verify("tcp:127.0.0.1:1")
    assert code == 5 and "no engine answers" in words
    code, words = site.verify("somewhere")
    assert code == 2 and "unix:PATH, tcp:HOST:PORT, vsock:CID:PORT" in words
