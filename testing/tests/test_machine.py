"""An engine in a measured virtual machine, emulated: what is admitted, what it answers, and what a
host that changes it or stands between gets."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coffer_testing import tpch
from coffer_testing.built import built
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.servers import machine
from coffer_testing.servers.chips import Chips
from coffer_testing.servers.machine import Image, Machine, image, kernel

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(machine.missing() is not None, reason=str(machine.missing())),
]

QUERIES = (1, 3, 6)


class Site:
    """An owner with TPC-H's tables, the emulated processors' authority, and a test's image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chips = Chips(folder / "chips")
        self.programs = self.chips.programs(folder / "programs")
        self.image = Image(folder / "image")
        self.plain = tpch.data("0.01")
        self.owner = Owner.create(folder / "trusted", self.programs)
        self.tables = self.owner.encrypt(self.plain, folder / "sealed")
        self.owner.accept(machine.pinned(self.image.measurement()))

    def driver(self, name: str, address: str, **conf: str) -> Driver:
        return Driver(
            self.tables,
            sealed=True,
            log=self.folder / f"{name}.log",
            config_dir=self.owner.config_dir,
            passphrase_file=self.owner.passphrase_file,
            conf={"spark.coffer.engine.address": address, **conf},
            env={"COFFER_BIN": str(self.programs)},
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    # Sockets' paths are short.
    return Site(tmp_path_factory.mktemp("vm"))


@pytest.fixture(scope="module")
def running(site: Site) -> Iterator[Machine]:
    with Machine(site.image, site.chips, site.folder / "m") as booted:
        said = booted.wait()
        assert said["evidence"] == "sev-snp" and said["listening"] == "vsock:any:7077"
        yield booted


def test_the_machine_is_admitted_and_its_answers_are_sparks(site: Site, running: Machine) -> None:
    with Driver(site.plain, sealed=False, log=site.folder / "plain.log") as driver:
        expected = {number: driver.query(tpch.query(number)).rows for number in QUERIES}
    with site.driver("admitted", running.address) as driver:
        for number in QUERIES:
            assert driver.query(tpch.query(number)).rows == expected[number], number
    assert running.reports > 0
    shown = site.owner.coffer("audit", "show", "--json").stdout
    assert "sev-snp" in shown and site.image.measurement() in shown


def test_what_is_written_in_the_machine_is_a_table(site: Site, running: Machine) -> None:
    copy = site.folder / "copy"
    with site.driver("writes", running.address) as driver:
        count = "SELECT count(*) AS n, sum(o_totalprice) AS s FROM "
        before = driver.query(count + "orders").rows
        driver.query(f"CREATE TABLE copied USING coffer LOCATION '{copy}' AS SELECT * FROM orders")
        assert driver.query(count + "copied").rows == before
        driver.query("INSERT INTO copied SELECT * FROM orders")
        twice = count + "(TABLE orders UNION ALL TABLE orders)"
        assert driver.query(count + "copied").rows == driver.query(twice).rows
    assert list(copy.glob("part-*.parquet"))


@pytest.mark.parametrize("part", ["vmlinuz", "initrd", "cmdline"])
def test_a_changed_byte_is_another_measurement_and_is_refused(site: Site, part: str) -> None:
    changed = site.image.changed(site.folder / f"changed-{part}", part)
    assert changed.measurement() != site.image.measurement()
    with Machine(changed, site.chips, site.folder / f"m-{part}") as booted:
        booted.wait()
        with (
            pytest.raises(QueryFailed) as refused,
            site.driver(part, booted.address) as driver,
        ):
            driver.query(tpch.query(6))
    assert "measurement" in refused.value.message


def test_another_authoritys_chip_is_refused(site: Site) -> None:
    other = Chips(site.folder / "others")
    with Machine(site.image, other, site.folder / "o") as booted:
        booted.wait()
        with pytest.raises(QueryFailed) as refused, site.driver("chip", booted.address) as driver:
            driver.query(tpch.query(6))
    assert "certificate" in refused.value.message


def test_a_machine_that_fails_is_an_error_and_its_successor_goes_on(site: Site) -> None:
    with Machine(site.image, site.chips, site.folder / "f") as first:
        first.wait()
        with site.driver("fails", first.address) as driver:
            expected = driver.query(tpch.query(6)).rows
            killer = threading.Timer(0.3, first.crash)
            killer.start()
            with pytest.raises(QueryFailed):
                for _ in range(1000):
                    driver.query(tpch.query(1))
            killer.join()
            first.stop()
            shutil.rmtree(site.folder / "f")
            with Machine(site.image, site.chips, site.folder / "f") as second:
                second.wait()
                assert driver.query(tpch.query(6)).rows == expected


def test_a_drained_machine_turns_itself_off(site: Site) -> None:
    with Machine(site.image, site.chips, site.folder / "d") as booted:
        booted.wait()
        with site.driver("drained", booted.address) as driver:
            driver.query(tpch.query(6))
        assert booted.drain() == 0
        assert "draining" in booted.said()


def test_the_shipped_image_has_one_program_and_no_stand_in(tmp_path: Path) -> None:
    package = machine.package()
    programs = built("engine", "coffer-init").parent
    made = [image.make(tmp_path / name, programs, package, []) for name in ("one", "two")]
    assert made[0] == made[1]
    content = (tmp_path / "one" / image.INITRD).read_bytes()
    names = set(re.findall(rb"070701[0-9A-F]{104}([^\0]+)\0", content))
    programs_in = {name for name in names if b"/" not in name} - {
        folder.encode() for folder in image.FOLDERS
    }
    assert programs_in == {b"init", b"coffer-engine", b"lib", b"lib64", b"TRAILER!!!"}
    assert kernel.unpack(package).release.startswith("6.")
