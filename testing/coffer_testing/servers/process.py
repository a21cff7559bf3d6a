"""One server as a process of ours."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

START_SECONDS = 60


def free_port(count: int = 1) -> int:
    """A port of loopback that nobody listens on, nor on the `count - 1` after it. From below those that systems give away by
    themselves (RFC 6335: from 49152; Linux: from 32768), so that none is taken before its server is up."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for at in range(port, port + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", at))
            return port


class ServerProcess:
    """Starts a command, waits until it answers, stops it. `answers` raises `OSError` until it does."""

    def __init__(self, command: list[str], log: Path, answers: Callable[[], None], environment: dict[str, str]) -> None:
        self.command = command
        self.log = log
        self.answers = answers
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.answers()
            except OSError as error:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    self.stop()
                    why = "ended" if ended else f"did not answer within {START_SECONDS} s ({error})"
                    tail = self.log.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self.command[0]} {why}:\n{tail}") from error
            time.sleep(0.1)

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
            self.process.wait()
        self.process = None
