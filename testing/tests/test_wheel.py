"""What is installed: the product, and nothing of tests, benchmarks or servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

PYTHON = Path(__file__).parents[2] / "python"

# A module or data file that is added to the product is added here, so that a reviewer sees it.
CONTENTS = {
    "coffer": "__init__ __main__ _find caching cancelling config_dir containers explain iteration "
    "kms notebook pickles pme results session settings shell",
    "coffer/_pickles": "__init__ arrays names refusals",
    "coffer/advise": "__init__ checks command domains planner proposal protections report search "
    "sizes tables toml workload",
    "coffer_spark": "__init__ __main__",
}


def test_the_wheel_holds_the_product_alone(tmp_path: Path) -> None:
    # A copy: the build leaves folders of its own beside the sources.
    leave = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(PYTHON, tmp_path / "python", ignore=leave)
    (tmp_path / "wheels").mkdir()
    build = "import sys\nfrom setuptools import build_meta\nbuild_meta.build_wheel(sys.argv[1])"
    # Not pip, which would fetch the build's requirements: they are in testing/requirements.txt.
    done = subprocess.run(
        [sys.executable, "-c", build, tmp_path / "wheels"],
        cwd=tmp_path / "python",
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COFFER_PLATFORM")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"{package}/{module}.py"
        for package, modules in CONTENTS.items()
        for module in modules.split()
    }
    assert names == expected
