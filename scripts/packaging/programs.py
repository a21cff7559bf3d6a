"""The programs that are shipped, as they are put into the wheel and into the jar."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
TARGET = "x86_64-unknown-linux-gnu"
GLIBC = "2.28"

# By workspace. coffer-tpm-quote is not among them: it links the system's libtss2.
ENGINES = ("coffer", "coffer-client", "coffer-engine")
HELPERS = ("coffer-attest", "coffer-aws", "coffer-relay", "coffer-store")
# The virtual machine's first program, which its image alone has.
FIRST = "coffer-init"
# What a jar carries: what executors and a driver start.
CARRIED = ("coffer-engine", "coffer-client", "coffer-attest", "coffer-aws", "coffer-relay")

_V2 = "cx16 lahf_lm pni popcnt sse4_1 sse4_2 ssse3"
# What a processor of each level has, by the names of /proc/cpuinfo.
LEVELS = {
    "x86-64": "",
    "x86-64-v2": _V2,
    "x86-64-v3": f"{_V2} abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
}
LEVEL = "x86-64-v3"


def collect(profile: str, level: str, into: Path) -> Path:
    """A folder with the programs of a profile, stripped, and beside those of the engine's workspace
    what they need of a processor."""
    if profile == "dist":
        folder = _build(level)
    else:
        folder, level = _target_folder() / "release", "x86-64"
    into.mkdir(parents=True)
    for name in (*ENGINES, *HELPERS):
        program = folder / name
        if not program.is_file():
            raise FileNotFoundError(f"{program} is not there\nhint: make build")
        shutil.copyfile(program, into / name)
        subprocess.run(["strip", "--strip-all", into / name], check=True)
        (into / name).chmod(0o755)
        if name in ENGINES and LEVELS[level]:
            (into / f"{name}.needs").write_text(LEVELS[level] + "\n")
    return into


def machine(profile: str, built: Path, into: Path) -> Path:
    """A folder with what the virtual machine's image has: the engine as it is shipped, and what
    starts it there."""
    into.mkdir(parents=True)
    folder = dist_folder() if profile == "dist" else _target_folder() / "release"
    shutil.copy2(built / "coffer-engine", into)
    shutil.copyfile(folder / FIRST, into / FIRST)
    subprocess.run(["strip", "--strip-all", into / FIRST], check=True)
    return into


def tools() -> Path:
    """The folder of the programs of an environment with `requirements.txt` in it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coffer"
    venv = cache / "venv-dist"
    stamp = venv / ".requirements"
    wanted = REQUIREMENTS.read_text()
    if not stamp.is_file() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip = [venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", REQUIREMENTS], check=True)
        stamp.write_text(wanted)
    return venv / "bin"


def _target_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("CARGO_TARGET_DIR") or cache / "coffer" / "target")


def _build(level: str) -> Path:
    """Builds both workspaces, and returns the folder of the programs."""
    # Only what is shipped: what tests ask of a crate is not in it.
    engines = ["-p", "coffer-cli", "-p", "coffer-client", "-p", "coffer-engine", "-p", FIRST]
    target = _dist_target()
    _cargo("engine", engines, target, ["-C", f"target-cpu={level}"])
    _cargo("helpers", [], target, [])
    return dist_folder()


def _dist_target() -> Path:
    target = _target_folder()
    return target.with_name(f"{target.name}-dist")


def dist_folder() -> Path:
    """Where the programs of the profile `dist` are, once they are built."""
    return _dist_target() / TARGET / "dist"


def _cargo(workspace: str, selected: list[str], target: Path, flags: list[str]) -> None:
    """`cargo zigbuild` of a workspace's programs. No folder of this machine's is in them."""
    cargo_home = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
    # The last that fits is taken: a target folder or a cache may be below the sources.
    folders = [(str(ROOT), "/coffer"), (cargo_home, "/cargo"), (str(target), "/target")]
    flags = [*flags, *(f"--remap-path-prefix={here}={there}" for here, there in folders)]
    c_flags = [f"-ffile-prefix-map={here}={there}" for here, there in folders]
    command = ["cargo", "zigbuild", "--profile", "dist", "--locked", "--bins", *selected]
    command += ["--manifest-path", str(ROOT / workspace / "Cargo.toml")]
    command += ["--target", f"{TARGET}.{GLIBC}"]
    environment = {
        **os.environ,
        "PATH": f"{tools()}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(target),
        "RUSTC_WRAPPER": str(Path(__file__).with_name("rustc")),
        f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_RUSTFLAGS": " ".join(flags),
        f"CFLAGS_{TARGET.replace('-', '_')}": " ".join(c_flags),
    }
    subprocess.run(command, env=environment, check=True, cwd=ROOT)
