"""Finding the jar and the programs, and the settings made from them. No Spark needed."""

from __future__ import annotations

import argparse
import hashlib
import platform
import tomllib
import zipfile
from pathlib import Path

import pytest

import coffer
import coffer_spark
from coffer import config_dir, containers, shell
from coffer.__main__ import main
from coffer._find import carries, processor_lacks, put_program
from coffer.session import FILTER_OPTION

ROOT = Path(__file__).parents[2]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with empty programs and a jar, named by the environment."""
    for name in ("coffer", "coffer-client", "coffer-engine", "coffer-spark.jar"):
        (tmp_path / name).touch()
    monkeypatch.setenv("COFFER_BIN", str(tmp_path))
    monkeypatch.setenv("COFFER_JAR", str(tmp_path / "coffer-spark.jar"))
    return tmp_path


def test_environment_wins(programs: Path) -> None:
    assert coffer.find_jar() == programs / "coffer-spark.jar"
    assert coffer.find_binary("coffer-engine") == programs / "coffer-engine"


def test_a_wrong_setting_is_an_error_with_a_hint(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_BIN", str(programs / "nowhere"))
    with pytest.raises(coffer.CofferNotFound, match=r"COFFER_BIN points to .*\nhint: "):
        coffer.find_binary("coffer")


def test_build_tree_is_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COFFER_BIN", raising=False)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "coffer").touch()
    assert coffer.find_binary("coffer") == tmp_path / "release" / "coffer"


def test_nothing_found_says_where_was_looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("COFFER_BIN", raising=False)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(coffer.CofferNotFound, match=str(tmp_path)) as raised:
        coffer.find_binary("coffer-engine")
    assert "hint: install coffer-spark, or run `make build`" in str(raised.value)


def test_other_programs_are_refused() -> None:
    with pytest.raises(ValueError, match="not one of Coffer's programs"):
        coffer.find_binary("sh")


def test_configuration_holds_paths_and_no_secret(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_PASSPHRASE", "correct horse")
    conf = coffer.configuration(config_dir=programs, passphrase_file=programs / "passphrase")
    assert conf["spark.plugins"] == "org.apache.spark.sql.coffer.CofferPlugin"
    assert conf["spark.sql.extensions"] == "org.apache.spark.sql.coffer.CofferExtensions"
    assert conf["spark.coffer.passphraseFile"] == str(programs / "passphrase")
    assert not any("correct horse" in value for value in conf.values())


def test_executors_get_the_engine_by_a_jar_and_no_path(programs: Path) -> None:
    jar = str(programs / "coffer-spark.jar")
    local = coffer.configuration(master="local[2]")
    assert local["spark.jars"] == jar
    assert local["spark.coffer.engine.path"] == str(programs / "coffer-engine")
    cluster = coffer.configuration(master="spark://host:7077")
    plugin, engine = cluster["spark.jars"].split(",")
    assert plugin == jar and carries(Path(engine), "coffer-engine")
    assert "spark.coffer.engine.path" not in cluster
    # A jar that carries them is enough.
    with zipfile.ZipFile(jar, "w") as packed:
        for name in ("coffer-client", "coffer-engine"):
            put_program(packed, f"coffer/bin/linux-{platform.machine()}/{name}", programs / name)
    for conf in (coffer.configuration(), coffer.configuration(master="local[2]")):
        assert conf["spark.jars"] == jar
        assert not [key for key in conf if key.endswith(".path")]


def test_a_jar_says_what_a_program_is_and_needs(programs: Path) -> None:
    (programs / "coffer-engine").write_bytes(b"program")
    (programs / "coffer-engine.needs").write_text("sse4_2 avx2\n")
    with zipfile.ZipFile(programs / "some.jar", "w") as packed:
        put_program(packed, "at/coffer-engine", programs / "coffer-engine")
        assert packed.read("at/coffer-engine") == b"program"
        assert packed.read("at/coffer-engine.needs") == b"sse4_2 avx2"
        digest = hashlib.sha256(b"program").hexdigest().encode()
        assert packed.read("at/coffer-engine.sha256") == digest


def test_what_a_processor_lacks_is_named(programs: Path) -> None:
    cpuinfo = programs / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse4_2 avx\n")
    engine = programs / "coffer-engine"
    assert processor_lacks(engine, cpuinfo) == []
    (programs / "coffer-engine.needs").write_text("sse4_2 avx avx2\n")
    assert processor_lacks(engine, cpuinfo) == ["avx2"]
    cpuinfo.write_text("Features\t: fp asimd\n")
    assert processor_lacks(engine, cpuinfo) == []


def test_settings_are_a_properties_file(
    programs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["coffer", "settings", "--master", "local[2]", "--config-dir", str(programs)]
    monkeypatch.setattr("sys.argv", command)
    assert main() == 0
    said = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert said == {"spark.master": "local[2]", **coffer.configuration(programs, None, "local[2]")}


def test_a_strangers_distribution_is_a_clash(programs: Path) -> None:
    coffer_spark.check(programs)
    (programs / "coffer-9.9.dist-info").mkdir()
    metadata = programs / "coffer-9.9.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: coffer\nVersion: 9.9\n")
    with pytest.raises(coffer_spark.NameClash, match=r"distribution coffer 9\.9 .*\nhint: "):
        coffer_spark.check(programs)


def test_the_config_directory_s_old_name_still_works(programs: Path) -> None:
    now = coffer.configuration(config_dir=programs)
    with pytest.warns(FutureWarning, match="home is an old name: use config_dir") as caught:
        assert coffer.configuration(home=programs) == now
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(TypeError, match="both given"):
        coffer.configuration(programs, home=programs)


@pytest.mark.parametrize(
    ("options", "environment", "folder", "warning"),
    [
        ([], {}, None, ""),
        (["--config-dir", "/a"], {"COFFER_HOME": "/b"}, "/a", ""),
        (["--home", "/a"], {}, "/a", "--home is an old name: use --config-dir"),
        ([], {"COFFER_CONFIG_DIR": "/a"}, "/a", ""),
        ([], {"COFFER_HOME": "/a"}, "/a", "COFFER_HOME is an old name: set COFFER_CONFIG_DIR"),
        ([], {"COFFER_HOME": "/a", "COFFER_CONFIG_DIR": "/b"}, None, "name two folders"),
    ],
)
def test_old_names_of_options_and_variable(
    options: list[str],
    environment: dict[str, str],
    folder: str | None,
    warning: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("COFFER_HOME", "COFFER_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    config_dir.add_option(parser)
    arguments = parser.parse_args(options)
    if "two folders" in warning:
        with pytest.raises(SystemExit):
            config_dir.of(arguments)
    else:
        expected = Path(folder) if folder else Path.home() / ".coffer"
        assert config_dir.of(arguments) == expected
    said = capsys.readouterr().err
    assert warning in said and said.count("warning: ") == (warning != "" and "two" not in warning)


def test_the_driver_starts_with_the_filter_beside_its_other_options(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(programs))
    key, ours = "spark.driver.defaultJavaOptions", FILTER_OPTION
    assert coffer.configuration()[key] == ours
    (programs / "spark-defaults.conf").write_text(
        f"# {key} -Dno\nspark.x y\n{key}   -Done -Dtwo \n"
    )
    assert coffer.configuration()[key] == f"-Done -Dtwo {ours}"
    (programs / "spark-defaults.conf").write_text(f"{key}={ours} -Done\n")
    assert coffer.configuration()[key] == f"{ours} -Done"


def test_a_container_has_room_for_its_engine() -> None:
    key = "spark.executor.memoryOverhead"
    # What the plugin takes for a default, too: scripts/gen-configuration compares it with this.
    known = tomllib.loads((ROOT / "scripts/docs/configuration.toml").read_text())
    assert known["settings"]["spark.coffer.engine.memory"]["default"] == containers.DEFAULT
    for master in ("yarn", "k8s://https://host:6443"):
        assert containers.overhead(master, {}) == {key: "2432m"}
        for memory, want in (("512MiB", "896m"), ("1g", "1408m"), ("1073741824", "1408m")):
            conf = {"spark.coffer.engine.memory": memory}
            assert containers.overhead(master, conf) == {key: want}
        for said in (key, f"{key}Factor", "spark.coffer.engine.address"):
            assert containers.overhead(master, {said: "1"}) == {}
        assert containers.overhead(master, {"spark.coffer.engine.memory": "much"}) == {}
    assert containers.overhead("local[2]", {}) == containers.overhead("spark://h:7077", {}) == {}


def test_shell_makes_views_of_the_policys_tables() -> None:
    policy = (
        '[tables.sales]\npath = "/data/o\'brien"\n[tables.nameless]\n[tables."a b"]\npath = "/x"\n'
    )
    assert shell.views_of(policy) == [
        r"CREATE TEMPORARY VIEW sales USING coffer OPTIONS (path '/data/o\'brien');"
    ]
    assert shell.views_of("") == [] and shell.views_of("no [toml") == []
