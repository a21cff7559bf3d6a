"""The build's check of tools names what is missing and how to install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from coffer_testing import recorded

CHECK = Path(__file__).parents[2] / "scripts" / "check-tools"

# What the script itself needs to run.
SHELL = ("bash", "env", "sort", "awk", "sed", "head")


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PYTHON")}
    return subprocess.run(
        [CHECK, *arguments],
        env={**env, "PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    for name in SHELL:
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return tmp_path


def program(folder: Path, name: str, says: str, to: str = "stdout") -> None:
    """A tool that prints one line, whatever it is asked."""
    script = folder / name
    script.write_text(f"#!{folder / 'bash'}\necho '{says}'{' >&2' if to == 'stderr' else ''}\n")
    script.chmod(0o755)


def test_every_missing_tool_is_named_with_how_to_install_it(tools: Path) -> None:
    done = check(tools)
    assert done.returncode == 1
    for name in ("cargo", "rustc", "java 17", "mvn", "python3", "cc"):
        assert f"missing: {name}" in done.stderr
    assert done.stderr.count("  install: ") == done.stderr.count("missing: ")


def test_old_versions_are_named(tools: Path) -> None:
    program(tools, "cargo", "cargo 1.93.1 (abc 2026-01-01)")
    program(tools, "rustc", "rustc 1.94.0 (abc 2026-01-01)")
    program(tools, "java", 'openjdk version "11.0.2" 2019-01-15', "stderr")
    done = check(tools)
    assert "cargo 1.94 or newer (found 1.93.1)" in done.stderr
    assert "rustc" not in done.stderr
    assert "Spark 4.1 runs on (found 11)" in done.stderr


def test_all_there(tools: Path) -> None:
    for name in ("cargo", "rustc"):
        program(tools, name, f"{name} 1.100.0 (abc 2026-09-01)")
    program(tools, "java", 'openjdk version "17.0.12" 2024-07-16', "stderr")
    for name in ("javac", "mvn", "cc", "python3"):
        program(tools, name, "fine")
    done = check(tools)
    assert (done.returncode, done.stderr) == (0, "")


def apt(folder: Path) -> Path:
    """A stand-in for Debian's installer, which notes what it is asked, and installs a package's
    program where it is named as the package is."""
    log, installer = folder / "apt.log", folder / "apt-get"
    installer.write_text(f"""#!{folder / "bash"}
echo "$@" >> {log}
for word in "$@"; do
  case $word in swtpm | gdb)
    [ $word = gdb ] && word=gcore
    printf '#!%s\\n' {folder / "bash"} > {folder}/$word
    {shutil.which("chmod")} +x {folder}/$word ;;
  esac
done
""")
    installer.chmod(0o755)
    sudo = folder / "sudo"
    sudo.write_text(f'#!{folder / "bash"}\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    return log


def test_what_only_tests_need_is_in_the_list_and_nothing_is_installed_unasked(tools: Path) -> None:
    log = apt(tools)
    assert "swtpm" not in check(tools).stderr
    done = check(tools, "--test")
    assert done.returncode == 1
    for package in ("swtpm", "tpm2-tools", "pkg-config", "softhsm2", "gdb", "maven"):
        assert f"apt-get install {package}\n" in done.stderr
    assert "hint: scripts/check-tools --test --install" in done.stderr
    assert not log.exists()


def test_debians_packages_are_installed_when_told_to(tools: Path) -> None:
    log = apt(tools)
    for name in ("cargo", "rustc"):
        program(tools, name, f"{name} 1.100.0 (abc 2026-09-01)")
    program(tools, "java", 'openjdk version "17.0.12" 2024-07-16', "stderr")
    for name in (
        "javac",
        "cc",
        "python3",
        "softhsm2-util",
        "setpriv",
        "pkg-config",
        "tpm2_pcrextend",
    ):
        program(tools, name, "fine")
    done = check(tools, "--test", "--install")
    update, install = log.read_text().splitlines()
    assert update.split()[-2:] == ["update", "-qq"]
    assert [word for word in install.split() if word in ("maven", "swtpm", "gdb", "softhsm2")] == [
        "gdb",
        "maven",
        "swtpm",
    ]
    # Looked at once more: what is still not there is named.
    assert done.returncode == 1
    assert "missing: mvn" in done.stderr
    assert "missing: swtpm" not in done.stderr and "missing: gcore" not in done.stderr


def test_a_record_names_what_is_refused_and_by_what_it_came(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text(
        "java.lang.String\tALLOWED\tjava.lang.String\njava.net.URL\tREJECTED\tjava.net.URL\n"
        "a.B\tREJECTED\tscala.Some\n"
    )
    (tmp_path / "two.tsv").write_text("a.B\tREJECTED\tscala.Some\nc.D\tREJECTED\t\n")
    assert recorded.refused(tmp_path) == ["a.B (in scala.Some)", "c.D"]
