"""A TPM in a process: Debian's `swtpm`, on two neighbouring ports of loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from coffer._find import find_binary
from coffer_testing.processes import start

HINT = "scripts/check-tools --test --install"
_ATTEMPTS = 10


def neighbours() -> int:
    """A port of loopback that the system chooses, with the next one free: libtss2 looks for the
    control channel there."""
    while True:
        with (
            contextlib.suppress(OSError, OverflowError),
            socket.create_server(("127.0.0.1", 0)) as first,
        ):
            port: int = first.getsockname()[1]
            with socket.create_server(("127.0.0.1", port + 1)):
                return port


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
        self._folder = folder
        # swtpm does not say which ports it got, so it is told them; where somebody was faster,
        # others.
        for _ in range(_ATTEMPTS):
            port = neighbours()
            self.env = {"TPM2TOOLS_TCTI": f"swtpm:host=127.0.0.1,port={port}"}
            self._process = self._start(port)
            if self._answers():
                return
        raise AssertionError(f"swtpm ended: {folder}/swtpm.log")

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        with (self._folder / "swtpm.log").open("ab") as log:
            return start(
                [
                    "swtpm",
                    "socket",
                    "--tpm2",
                    *("--tpmstate", f"dir={self._folder}"),
                    *("--server", f"type=tcp,port={port},bindaddr=127.0.0.1"),
                    *("--ctrl", f"type=tcp,port={port + 1},bindaddr=127.0.0.1"),
                    *("--flags", "not-need-init,startup-clear"),
                ],
                stdout=log,
                stderr=log,
            )

    def run(self, *command: str | Path, stdin: bytes = b"") -> bytes:
        """A command that uses this TPM; its standard output."""
        done = subprocess.run(
            list(map(str, command)),
            input=stdin,
            env={**os.environ, **self.env},
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}: {done.stderr.decode()}"
        return done.stdout

    def extend(self, pcr: int, digest: str) -> None:
        """Measures something more, as a boot step would."""
        self.run("tpm2_pcrextend", f"{pcr}:sha256={digest}")

    def _answers(self) -> bool:
        """Waits until it answers; whether it does, and has not ended."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            environment = {**os.environ, **self.env}
            probe = subprocess.run(
                ["tpm2_getrandom", "1"], env=environment, capture_output=True, timeout=60
            )
            if self._process.poll() is not None:
                return False
            if probe.returncode == 0:
                return True
            time.sleep(0.1)
        raise AssertionError("swtpm does not answer")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
