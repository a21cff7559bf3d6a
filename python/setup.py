"""The wheel of a platform, for which `make dist` puts the programs and the jar beside the modules:
`COFFER_PLATFORM` names it. Without that variable: the modules alone."""

from __future__ import annotations

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

PLATFORM = os.environ.get("COFFER_PLATFORM")


class PlatformWheel(bdist_wheel):
    """Of any Python 3: the programs link none."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", str(PLATFORM)


class WithPrograms(Distribution):
    """Installed where machine code is."""

    def has_ext_modules(self) -> bool:
        return True


if PLATFORM:
    setup(cmdclass={"bdist_wheel": PlatformWheel}, distclass=WithPrograms)
else:
    setup()
