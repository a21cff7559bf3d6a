"""What a host sees of an engine: every message between it and its executor, and every read of a
file, from outside of it.

Run as a program it takes coffer-engine's place and arguments, starts the real one behind itself,
passes all messages on, and notes of each task how long everything was that crossed. A library that
is loaded before the engine's own (`reads.c`) notes what the engine asks of the kernel. Nothing here
is what an engine counts of itself, and no key is at hand.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coffer._find import find_binary

# Messages of the task protocol and the lengths that stand before them:
# proto/coffer/wire/task.proto.
START, NEED_KEYS, IN, IN_END, OUT, DONE, FAILED = 6, 7, 9, 10, 11, 12, 13
# engine/crates/core/sealing (stream.rs, frame.rs): a stream's preamble; a frame's header, of which
# the last four bytes count what follows it.
PREAMBLE, HEADER = 28, 16


@dataclass(frozen=True)
class Task:
    """What crossed for one task, in bytes. `frames`: of each of its streams, by target. `inputs`:
    by input. `sealed`: messages by what they are. `counters`: the numbers that it says in clear, by
    their number in `Counters`. `asked`: how often its engine asked for keys."""

    stage: int
    partition: int
    sealed: dict[str, list[int]]
    inputs: dict[str, int]
    frames: dict[str, list[int]]
    counters: dict[str, int]
    failed: str | None
    asked: int = 0

    def streams(self) -> list[int]:
        """The length of each stream, without its preamble."""
        return [sum(frames) for frames in self.frames.values()]


@dataclass(frozen=True)
class Read:
    """One read: of which file, from where, how much."""

    inode: int
    offset: int
    length: int


class Wiretap:
    """A stand-in for coffer-engine under `folder`, and what it has noted."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._tasks, self._reads = folder / "tasks", folder / "reads"
        for log in (self._tasks, self._reads):
            log.touch()
        library = folder / "reads.so"
        source = Path(__file__).with_name("reads.c")
        subprocess.run(
            ["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"],
            check=True,
            timeout=120,
        )
        # : For `spark.coffer.engine.path`.
        self.program = folder / "coffer-engine"
        self.program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__)}" '
            f'"{find_binary("coffer-engine")}" "{folder}" "$@"\n'
        )
        self.program.chmod(0o700)
        self._seen = [0, 0]

    def forget(self) -> None:
        """What was noted so far is not told again."""
        self._seen = [self._tasks.stat().st_size, self._reads.stat().st_size]

    def tasks(self) -> list[Task]:
        """The tasks that ended since `forget`, by stage and partition."""
        said = (
            Task(**json.loads(line))
            for line in self._tasks.read_bytes()[self._seen[0] :].splitlines()
        )
        return sorted(said, key=lambda task: (task.stage, task.partition))

    def reads(self) -> Counter[Read]:
        """The reads since `forget`."""
        lines = self._reads.read_bytes()[self._seen[1] :].splitlines()
        return Counter(Read(*map(int, line.split())) for line in lines)


# ---- the program -------------------------------------------------------------------------------


@dataclass
class _Running:
    """A task while it runs: what has crossed."""

    start: dict[int, list[bytes | int]] = field(default_factory=dict)
    inputs: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    streams: dict[int, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    asked: int = 0

    def ended(self, kind: int, payload: bytes) -> dict[str, Any]:
        end = _fields(payload)
        sealed = {
            "fragment": (self.start, 3),
            "descriptor": (self.start, 4),
            "object": (self.start, 5),
        }
        if kind == DONE:
            sealed |= {"commit": (end, 1), "metrics": (end, 2)}
        else:
            sealed |= {"error": (end, 2)}
        counters = _fields(_bytes(end.get(3, [b""])[0])) if kind == DONE else {}
        return {
            "stage": self.start.get(7, [0])[0],
            "partition": self.start.get(8, [0])[0],
            "sealed": {
                name: [len(_bytes(value)) for value in of.get(at, [])]
                for name, (of, at) in sealed.items()
            },
            "inputs": self.inputs,
            "frames": {target: list(_frames(stream)) for target, stream in self.streams.items()},
            "counters": {number: values[0] for number, values in counters.items()},
            "asked": self.asked,
            "failed": _bytes(end[1][0]).decode() if kind == FAILED else None,
        }


def _bytes(value: bytes | int) -> bytes:
    assert isinstance(value, bytes)
    return value


def _frames(stream: bytes | bytearray) -> Iterator[int]:
    at = PREAMBLE
    while at < len(stream):
        length = HEADER + int.from_bytes(stream[at + 12 : at + 16], "little")
        at += length
        yield length
    assert at == len(stream), "the stream ends inside a frame"


def _fields(message: bytes) -> dict[int, list[bytes | int]]:
    """A protobuf message's fields by number: numbers and byte strings, which are all that is looked
    at here."""
    found: dict[int, list[bytes | int]] = defaultdict(list)
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = number()
        if tag & 7 == 0:
            found[tag >> 3].append(number())
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            length = number()
            found[tag >> 3].append(message[at : at + length])
            at += length
    return found


class _Conversation:
    """One connection of the executor, and the one behind it."""

    def __init__(self, front: socket.socket, behind: str, log: int) -> None:
        back = socket.socket(socket.AF_UNIX)
        back.connect(behind)
        self._task = _Running()
        self._log = log
        for source, target in ((front, back), (back, front)):
            threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError), source.makefile("rb") as reader:
            while len(head := reader.read(5)) == 5:
                payload = reader.read(int.from_bytes(head[:4], "little") - 1)
                # Before it is passed on: who has the answer to a query finds its tasks noted.
                self._note(head[4], payload)
                target.sendall(head + payload)
        for end in (source, target):
            # Perhaps closed already, from the other side.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _note(self, kind: int, payload: bytes) -> None:
        # One task at a time; the engine drives, so nothing of a task comes after its end.
        if kind == START:
            self._task = _Running(start=_fields(payload))
        elif kind == NEED_KEYS:
            self._task.asked += 1
        elif kind == IN:
            self._task.inputs[int.from_bytes(payload[:4], "little")] += len(payload) - 4
        elif kind == OUT:
            self._task.streams[int.from_bytes(payload[:4], "little")] += payload[4:]
        elif kind in (DONE, FAILED):
            os.write(self._log, json.dumps(self._task.ended(kind, payload)).encode() + b"\n")


def main(engine: str, folder: Path, arguments: list[str]) -> int:
    at = arguments.index("--listen") + 1
    address = arguments[at].removeprefix("unix:")
    behind = address + ".engine"
    arguments[at] = f"unix:{behind}"
    env = {**os.environ, "LD_PRELOAD": str(folder / "reads.so"), "READS_LOG": str(folder / "reads")}
    # The executor's pipe is the engine's standard input: its lifeline.
    process = subprocess.Popen([engine, *arguments], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    ready = json.loads(process.stdout.readline())
    log = os.open(folder / "tasks", os.O_WRONLY | os.O_APPEND)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)

    def accept() -> None:
        while True:
            _Conversation(listener.accept()[0], behind, log)

    threading.Thread(target=accept, daemon=True).start()
    print(json.dumps({**ready, "listening": f"unix:{address}"}), flush=True)
    # Longer than any test: the engine ends with its executor.
    return process.wait(timeout=3600)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
