"""What a release must not contain: nothing of the unsealed build that benchmarks compare with."""

from __future__ import annotations

import subprocess

import pytest

from coffer import find_binary

MARKER = b"COFFER-UNSEALED-BUILD"


@pytest.mark.parametrize("program", ["coffer", "coffer-client", "coffer-engine"])
def test_no_program_is_an_unsealed_build(program: str) -> None:
    path = find_binary(program)
    # The benchmark's own build is searched for the same words, and must have them.
    assert MARKER not in path.read_bytes()
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "unsealed" not in version.stdout and not version.stderr
