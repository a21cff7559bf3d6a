"""A TPM in a process: Debian's `swtpm`, on two neighbouring ports of loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from coffer._find import find_binary
from coffer_testing.servers.process import free_port

HINT = "scripts/check-tools --test --install"


class SoftwareTpm:
    """A fresh TPM 2.0 whose state is in `folder`. `env` names it to whoever uses libtss2."""

    def __init__(self, folder: Path) -> None:
        for program in ("swtpm", "tpm2_pcrextend"):
            if shutil.which(program) is None:
                pytest.skip(f"{program} is missing; {HINT}")
        try:
            find_binary("coffer-tpm-quote")
        except FileNotFoundError:
            pytest.skip(f"coffer-tpm-quote is not built; {HINT}, then make build")
        folder.mkdir()
        # The library looks for the control channel at the next one.
        port = free_port(2)
        self._log = (folder / "swtpm.log").open("ab")
        self._process = subprocess.Popen(
            [
                "swtpm",
                "socket",
                "--tpm2",
                "--tpmstate",
                f"dir={folder}",
                "--server",
                f"type=tcp,port={port},bindaddr=127.0.0.1",
                "--ctrl",
                f"type=tcp,port={port + 1},bindaddr=127.0.0.1",
                "--flags",
                "not-need-init,startup-clear",
            ],
            stdout=self._log,
            stderr=self._log,
        )
        self.env = {"TPM2TOOLS_TCTI": f"swtpm:host=127.0.0.1,port={port}"}
        self._wait()

    def run(self, *command: str | Path, stdin: bytes = b"") -> bytes:
        """A command that uses this TPM; its standard output."""
        done = subprocess.run(
            list(map(str, command)), input=stdin, env={**os.environ, **self.env}, capture_output=True, timeout=60
        )
        assert done.returncode == 0, f"{command}: {done.stderr.decode()}"
        return done.stdout

    def extend(self, pcr: int, digest: str) -> None:
        """Measures something more, as a boot step would."""
        self.run("tpm2_pcrextend", f"{pcr}:sha256={digest}")

    def _wait(self) -> None:
        for _ in range(100):
            probe = subprocess.run(["tpm2_getrandom", "1"], env={**os.environ, **self.env}, capture_output=True)
            if probe.returncode == 0:
                return
            assert self._process.poll() is None, "swtpm ended; another program may have taken its port"
            time.sleep(0.1)
        raise AssertionError("swtpm does not answer")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
