"""An engine and its owner's client engine without Spark between them: the harness is the executor
and speaks both protocols.

Messages are protobuf, of which this needs little: varints, and fields that are bytes.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from coffer._find import find_binary
from coffer_testing.owner import Owner
from coffer_testing.processes import line_of, start

# Task protocol.
ATTEST, EVIDENCE, REFUSED, RELEASE, RELEASED, START, NEED_KEYS, FAILED = 1, 2, 3, 4, 5, 6, 7, 13
# Client protocol.
HELLO, WELCOME, PROBLEM, NEW_SESSION, SESSION, ADMIT_ENGINE, ADMITTED = 1, 2, 3, 6, 7, 8, 9
RELEASE_KEYS, KEYS_RELEASED = 12, 13
END_SESSION, SESSION_ENDED, NEW_CHALLENGE, CHALLENGE = 27, 28, 29, 30

PROTOCOL = 1
PATIENCE = 20.0  # seconds for an answer

Value = int | bytes
Message = dict[int, Value]


class Silent(RuntimeError):
    """A process gave no answer: it closed the connection, or took too long."""


class Refused(Silent):
    """The client engine's word to a greeting that it does not return."""

    def __init__(self, kind: int, answer: Message) -> None:
        super().__init__(f"the client engine said {answer}")
        self.kind, self.answer = kind, answer


def encode(message: Message) -> bytes:
    """Fields by number; numbers as varints, the rest as bytes."""
    out = bytearray()
    for number, value in message.items():
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            out += _varint(number << 3 | 2) + _varint(len(value)) + value
    return bytes(out)


def decode(content: bytes) -> Message:
    """The last of each field. Only what `encode` writes."""
    message: Message = {}
    at = 0
    while at < len(content):
        key, at = _read(content, at)
        value, at = _read(content, at)
        if key & 7 == 2:
            message[key >> 3] = content[at : at + value]
            at += value
        else:
            message[key >> 3] = value
    return message


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


class Process:
    """One of Coffer's programs, listening on a socket in a folder of its own. Ends with its
    standard input."""

    def __init__(self, program: str, *arguments: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pair-", dir="/tmp"))
        self.log = self._folder / "log"
        command = [
            str(find_binary(program)),
            "--listen",
            f"unix:{self._folder}/s",
            "--lifeline",
            "stdin",
            *arguments,
        ]
        if program == "coffer-engine":
            command += ["--spill-dir", str(self._folder / "spill")]
        with self.log.open("wb") as log:
            self._process = start(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        ready = line_of(self._process, PATIENCE)
        if not ready:
            raise Silent(f"{program} did not start: {self.log.read_text()}")
        self.ready: dict[str, str] = json.loads(ready)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def connect(self) -> Connection:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        connection.connect(f"{self._folder}/s")
        return Connection(connection)

    def stop(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE)
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Connection:
    """Messages `length ‖ type ‖ payload` over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def ask(self, kind: int, message: Message) -> tuple[int, Message]:
        """Sends one message; the type and the content of the answer."""
        payload = encode(message)
        try:
            self._socket.sendall((len(payload) + 1).to_bytes(4, "little") + bytes([kind]) + payload)
            head = self._exactly(5)
            return head[4], decode(self._exactly(int.from_bytes(head[:4], "little") - 1))
        except OSError as error:
            raise Silent(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, length: int) -> bytes:
        content = b""
        while len(content) < length:
            more = self._socket.recv(length - len(content))
            if not more:
                raise Silent("the connection was closed")
            content += more
        return content


class Pair:
    """An owner's client engine, and an engine. Attestation as it should be is at hand as one call;
    every step also alone."""

    APPLICATION = b"the harness"

    def __init__(self, owner: Owner) -> None:
        self.client = Process(
            "coffer-client",
            "--config-dir",
            str(owner.config_dir),
            "--passphrase-file",
            str(owner.passphrase_file),
        )
        self.engine = Process("coffer-engine", "--memory", "64MiB", "--evidence", "simulated")
        self._open: list[Connection] = []
        self.begin()

    def begin(self) -> None:
        """New connections to both: a mutation may have closed those before."""
        self._close()
        self.to_client = self.client.connect()
        self.to_engine = self.engine.connect()
        self._open = [self.to_client, self.to_engine]
        kind, welcome = self.to_client.ask(HELLO, {1: PROTOCOL, 2: self.APPLICATION, 4: 1})
        if kind != WELCOME:
            raise Refused(kind, welcome)
        self.owner_key = field(welcome, 1)

    def challenge(self) -> bytes:
        return field(self.to_client.ask(NEW_CHALLENGE, {})[1], 1)

    def attest(self, challenge: bytes, owner_key: bytes | None = None) -> tuple[int, Message]:
        """The engine's evidence, or what it says instead."""
        request: Message = {
            1: PROTOCOL,
            2: owner_key or self.owner_key,
            3: challenge,
            4: self.APPLICATION,
        }
        return self.to_engine.ask(ATTEST, request)

    def admit(self, evidence: Message, challenge: bytes) -> tuple[int, Message]:
        """The client engine's verdict."""
        return self.to_client.ask(ADMIT_ENGINE, {1: encode(evidence), 2: challenge})

    def admitted(self) -> bytes:
        """The engine's id, after an attestation as it should be."""
        challenge = self.challenge()
        kind, evidence = self.attest(challenge)
        if kind != EVIDENCE:
            raise Silent(f"the engine said {evidence}")
        kind, answer = self.admit(evidence, challenge)
        if kind != ADMITTED:
            raise Silent(f"the client engine said {answer}")
        return field(answer, 1)

    def session(self) -> bytes:
        return field(self.to_client.ask(NEW_SESSION, {})[1], 1)

    def release(self, session: bytes, engine: bytes) -> Message:
        """A release of a session's keys to an admitted engine."""
        kind, answer = self.to_client.ask(RELEASE_KEYS, {1: session, 2: engine})
        if kind != KEYS_RELEASED:
            raise Silent(f"the client engine said {answer}")
        return decode(field(answer, 1))

    def stop(self) -> None:
        self._close()
        self.client.stop()
        self.engine.stop()

    def _close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open = []


def field(message: Message, number: int) -> bytes:
    """A field that is bytes; empty when it is not there."""
    value = message.get(number, b"")
    assert isinstance(value, bytes)
    return value
