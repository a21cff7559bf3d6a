"""Finding the jar and the programs, and the settings made from them. No Spark needed."""

from __future__ import annotations

from pathlib import Path

import pytest

import coffer
from coffer import shell
from coffer.session import FILTER_OPTION


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
    assert "hint: run `make build`" in str(raised.value)


def test_other_programs_are_refused() -> None:
    with pytest.raises(ValueError, match="not one of Coffer's programs"):
        coffer.find_binary("sh")


def test_configuration_holds_paths_and_no_secret(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_PASSPHRASE", "correct horse")
    conf = coffer.configuration(home=programs, passphrase_file=programs / "passphrase")
    assert conf["spark.plugins"] == "org.apache.spark.sql.coffer.CofferPlugin"
    assert conf["spark.sql.extensions"] == "org.apache.spark.sql.coffer.CofferExtensions"
    assert conf["spark.coffer.passphraseFile"] == str(programs / "passphrase")
    assert not any("correct horse" in value for value in conf.values())


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


def test_shell_makes_views_of_the_policys_tables() -> None:
    policy = (
        '[tables.sales]\npath = "/data/o\'brien"\n[tables.nameless]\n[tables."a b"]\npath = "/x"\n'
    )
    assert shell.views_of(policy) == [
        r"CREATE TEMPORARY VIEW sales USING coffer OPTIONS (path '/data/o\'brien');"
    ]
    assert shell.views_of("") == [] and shell.views_of("no [toml") == []
