"""One server as a process of ours."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from coffer_testing.processes import start

START_SECONDS = 60


class ServerProcess:
    """Starts a command, waits until it answers, stops it. The system chooses its port, and its log
    says which: `says` is the pattern. `answers` raises `OSError` until it does."""

    def __init__(
        self,
        command: list[str],
        log: Path,
        says: str,
        answers: Callable[[], None],
        environment: dict[str, str],
    ) -> None:
        self.command = command
        self.log = log
        self.port = 0  # of the newest start; 0 before it is known
        self._says = says
        self.answers = answers
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        self.port = 0
        with self.log.open("ab") as log:
            before = log.tell()
            self.process = start(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._find_port(before)
                return self.answers()
            except OSError as error:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    self.stop()
                    why = "ended" if ended else f"did not answer within {START_SECONDS} s ({error})"
                    tail = self.log.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self.command[0]} {why}:\n{tail}") from error
            time.sleep(0.1)

    def _find_port(self, before: int) -> None:
        said = re.search(self._says, self.log.read_bytes()[before:].decode(errors="replace"))
        if said is None:
            raise OSError("its log names no port")
        self.port = int(said.group(1))

    def stop(self) -> None:
        """Asks it to end, and waits."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once, as a machine that fails."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=10)
        self.process = None
