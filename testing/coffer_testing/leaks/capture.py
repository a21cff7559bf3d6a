"""Records the TCP traffic of a network of loopback addresses, each direction of each connection as
one file.

`python -m coffer_testing.leaks.capture PREFIX FOLDER`: a process of its own, so that nothing else
holds it up. It takes every packet of the loopback device of which an address begins with PREFIX
(`127.5.6.`), puts the payloads in order, and appends them to `FOLDER/SOURCE-TARGET`. It says
`ready` on standard output, and ends, with one line of JSON, when its standard input does.

A raw packet socket does what tcpdump does, without another package; it needs CAP_NET_RAW. The
kernel hands over packets of these addresses only, so that what else the machine does on the device
neither slows a capture nor keeps it from ending. Packets that the kernel had to drop are counted: a
capture that lost some proves less.
"""

from __future__ import annotations

import ctypes
import json
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from coffer_testing.processes import line_of, start

_ETH_P_IP = 0x0800
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_ROOM = 512 << 20  # bytes that the kernel may hold for us
_FLUSH = 1 << 20


@dataclass(frozen=True)
class Captured:
    """What a capture came to. `missing`: why there is none; `lost`: packets that the kernel
    dropped; `gaps`: places where bytes of a stream are missing."""

    missing: str | None = None
    packets: int = 0
    lost: int = 0
    gaps: int = 0
    streams: int = 0


class Capture:
    """A capture that runs from here to `stop`."""

    def __init__(self, prefix: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._process = start(
            [sys.executable, "-m", "coffer_testing.leaks.capture", prefix, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._first = line_of(self._process, 60).strip()

    def stop(self) -> Captured:
        """Ends it; its files are then whole."""
        rest, _ = self._process.communicate(timeout=120)
        if self._first != "ready":
            return Captured(missing=self._first or "the capture did not start")
        return Captured(**json.loads(rest))


@dataclass
class Stream:
    """One direction of a connection: what came in order and is not written yet, and what came too
    early."""

    path: Path
    next: int | None = None
    ready: bytearray = field(default_factory=bytearray)
    early: dict[int, bytes] = field(default_factory=dict)
    gaps: int = 0

    def add(self, sequence: int, payload: bytes) -> None:
        if self.next is None:
            self.next = sequence
        self.early[sequence] = payload
        self._drain()
        if sum(map(len, self.early.values())) > _FLUSH:
            self._skip()
        if len(self.ready) > _FLUSH:
            self.flush()

    def _drain(self) -> None:
        assert self.next is not None
        for sequence in sorted(self.early, key=self._ahead):
            ahead = self._ahead(sequence)
            if ahead > 0:
                return
            # What was sent again is taken once.
            new = self.early.pop(sequence)[-ahead:]
            self.ready += new
            self.next = (self.next + len(new)) & 0xFFFFFFFF

    def _ahead(self, sequence: int) -> int:
        """How far in front of what is expected; negative behind it. Sequence numbers wrap."""
        assert self.next is not None
        return (sequence - self.next + 2**31) % 2**32 - 2**31

    def _skip(self) -> None:
        """Gives up on what is missing."""
        self.gaps += 1
        self.next = min(self.early, key=self._ahead)
        self._drain()

    def flush(self) -> None:
        with self.path.open("ab") as file:
            file.write(self.ready)
        self.ready.clear()

    def close(self) -> None:
        while self.early:
            self._skip()
        self.flush()


class Recorder:
    """Streams by their two ends."""

    def __init__(self, prefix: str, folder: Path) -> None:
        self._prefix = bytes(int(part) for part in prefix.split(".") if part)
        self._folder = folder
        self.streams: dict[bytes, Stream] = {}
        self.packets = 0

    def packet(self, data: memoryview) -> None:
        """One IPv4 packet; what is not TCP of our addresses is passed over."""
        length = len(self._prefix)
        if data[12 : 12 + length] != self._prefix and data[16 : 16 + length] != self._prefix:
            return
        if data[9] != socket.IPPROTO_TCP:
            return
        self.packets += 1
        tcp = (data[0] & 15) * 4
        payload = data[tcp + (data[tcp + 12] >> 4) * 4 :]
        syn = data[tcp + 13] & 2
        key = bytes(data[12:20]) + bytes(data[tcp : tcp + 4])
        stream = self.streams.get(key)
        if stream is None or syn:
            if stream is not None:
                stream.close()
            stream = self.streams[key] = Stream(
                self._folder / self._name(key), gaps=stream.gaps if stream else 0
            )
        (sequence,) = struct.unpack_from(">I", data, tcp + 4)
        if syn:
            stream.next = (sequence + 1) & 0xFFFFFFFF
        elif payload:
            stream.add(sequence, bytes(payload))

    @staticmethod
    def _name(key: bytes) -> str:
        source, target = socket.inet_ntoa(key[:4]), socket.inet_ntoa(key[4:8])
        ports = struct.unpack(">HH", key[8:])
        return f"{source}:{ports[0]}-{target}:{ports[1]}"

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()


def only_of(prefix: str) -> bytes:
    """A program of Linux's socket filter (struct sock_filter[]): IPv4 packets of which an address
    begins with `prefix`, which ends with a point."""
    parts = [int(part) for part in prefix.split(".") if part]
    address = int.from_bytes(bytes(parts).ljust(4, b"\0"), "big")
    mask = (0xFFFFFFFF << 8 * (4 - len(parts))) & 0xFFFFFFFF
    load, keep, equal, give = 0x20, 0x54, 0x15, 0x06  # LD|W|ABS, AND|K, JEQ|K, RET|K
    steps = [
        *((load, 0, 0, 12), (keep, 0, 0, mask), (equal, 3, 0, address)),
        *((load, 0, 0, 16), (keep, 0, 0, mask), (equal, 0, 1, address)),
        *((give, 0, 0, 0xFFFFFFFF), (give, 0, 0, 0)),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def attach(tap: socket.socket, program: bytes) -> None:
    held = ctypes.create_string_buffer(program)
    # struct sock_fprog: how many steps, and where they are
    described = struct.pack("HL", len(program) // 8, ctypes.addressof(held))
    tap.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def main(prefix: str, folder: Path) -> None:
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP))
    except PermissionError:
        print("no right to capture packets (CAP_NET_RAW)", flush=True)
        return
    attach(tap, only_of(prefix))
    # With a protocol given, the device shows each packet once, on its way in.
    tap.bind(("lo", 0))
    tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
    tap.settimeout(0.2)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    recorder = Recorder(prefix, folder)
    buffer = memoryview(bytearray(1 << 17))
    while True:
        try:
            size = tap.recv_into(buffer)
        except TimeoutError:
            if ended.is_set():
                break
            continue
        recorder.packet(buffer[:size])
    recorder.close()
    _, lost = struct.unpack("II", tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    print(
        json.dumps(
            {
                "packets": recorder.packets,
                "lost": lost,
                "gaps": sum(stream.gaps for stream in recorder.streams.values()),
                "streams": len(recorder.streams),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
