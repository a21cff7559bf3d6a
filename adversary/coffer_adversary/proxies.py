"""Control of the proxies: the programs that stand in for `coffer-engine` beside each executor
(adversary/proxy).

Each listens on a socket of its own in one folder, and takes one line of JSON for each connection.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coffer import find_binary
from coffer_testing import programs

# The answer of one that is not there any more.
_GONE = {
    "what": None,
    "seen": 0,
    "served": 0,
    "alive": False,
    "engine": 0,
    "panics": [],
    "mutations": {},
    "answer": "",
}
_PATIENCE = 10.0  # seconds for a proxy to answer


@dataclass(frozen=True)
class Done:
    """What an armed mutation came to: to what it was applied (None: to nothing), in how many places
    it could have been, and how many tasks the engine behind it was given meanwhile."""

    what: str | None
    seen: int
    served: int = 0


@dataclass(frozen=True)
class Health:
    """Of the engines behind the proxies: process ids of those that run, lines of their logs that
    tell of a panic, and how those ended that ended by themselves."""

    engines: frozenset[int]
    panics: tuple[str, ...]


def program() -> Path:
    """The proxy beside the other programs; it is built with them and never shipped."""
    return programs.find(programs.PROXY)


class Proxies:
    """All proxies of an cluster."""

    def __init__(self) -> None:
        # Socket paths hold 107 bytes: not below a test's own long folder.
        self._folder = Path(tempfile.mkdtemp(prefix="sab-", dir="/tmp"))

    def environment(self) -> dict[str, str]:
        """For the process that starts executors. No COFFER_ before the names: workers do not
        inherit those."""
        return {
            "PROXY_CONTROL": str(self._folder),
            "PROXY_ENGINE": str(find_binary("coffer-engine")),
        }

    def close(self) -> None:
        """To be called when the processes are gone."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def arm(self, mutation: str, seed: int, skip: int = 0) -> None:
        """The next place where `mutation` can be applied is spared `skip` times, then it is
        applied, once."""
        for control in self._sockets():
            self._ask(control, {"do": "arm", "mutation": mutation, "seed": seed, "skip": skip})

    def arm_at_start(self, mutation: str, seed: int) -> None:
        """For proxies that are not there yet: what is said once, when an engine begins."""
        (self._folder / "boot.json").write_text(
            json.dumps({"do": "arm", "mutation": mutation, "seed": seed, "skip": 0})
        )

    def disarm(self) -> Done:
        """Ends the mutation, and tells of it."""
        (self._folder / "boot.json").unlink(missing_ok=True)
        answers = [self._ask(control, {"do": "disarm"}) for control in self._sockets()]
        for applied in self._folder.glob("*.report"):
            answers.append(json.loads(applied.read_text()))
            applied.unlink()
        applied = [answer for answer in answers if answer["what"]]
        return Done(
            "; ".join(answer["what"] for answer in applied) or None,
            max((answer["seen"] for answer in answers), default=0),
            sum(answer["served"] for answer in applied),
        )

    def probe(self, mutation: str, seed: int) -> dict[str, Any]:
        """A mutation that needs no query, applied to each engine: `what` was said (None: nothing
        could be), and its `answer`."""
        answers = [
            self._ask(control, {"do": "probe", "mutation": mutation, "seed": seed})
            for control in self._sockets()
        ]
        return next((answer for answer in answers if answer["what"]), {"what": None, "answer": ""})

    def mutations(self) -> dict[str, str]:
        """All that a proxy can do, by name, with the place where it does it."""
        for control in self._sockets():
            return self._ask(control, {"do": "list"})["mutations"]
        return {}

    def health(self) -> Health:
        answers = [self._ask(control, {"do": "health"}) for control in self._sockets()]
        fallen = []
        for fell in sorted(self._folder.glob("*.fell")):
            fallen.append(
                f"the engine behind process {fell.stem} ended by itself: {fell.read_text()}"
            )
            fell.unlink()
        return Health(
            frozenset(answer["engine"] for answer in answers if answer["alive"]),
            (*(line for answer in answers for line in answer["panics"]), *fallen),
        )

    def end_engines(self) -> None:
        """Proxies and their engines exit at once, as if the host had killed them; the executors
        start new ones."""
        for control in self._sockets():
            self._ask(control, {"do": "die"})
            process = Path("/proc") / control.stem
            deadline = time.monotonic() + _PATIENCE
            while process.exists() and time.monotonic() < deadline:
                time.sleep(0.005)
            control.unlink(missing_ok=True)

    def wait(self, count: int, seconds: float = 60.0) -> None:
        """Until so many proxies are there."""
        deadline = time.monotonic() + seconds
        while len(list(self._sockets())) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} proxies were awaited in {self._folder}")
            time.sleep(0.05)

    def _sockets(self) -> Iterable[Path]:
        return sorted(self._folder.glob("*.control"))

    def _ask(self, control: Path, request: dict[str, Any]) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_PATIENCE)
                connection.connect(str(control))
                connection.sendall(json.dumps(request).encode() + b"\n")
                line = connection.makefile().readline()
        except TimeoutError:
            raise
        except OSError:
            line = ""
        if not line:
            # Its process is gone, with its executor or by `die`.
            control.unlink(missing_ok=True)
            return {**_GONE}
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer
