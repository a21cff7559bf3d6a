"""What an object store answers when it fails: errors, bodies of another length, answers that come
late, twice, or that are old."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from coffer_testing.servers.store_relay import Answer, Reply, Request

_ERROR = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
    "<Message>a fault of the test</Message><RequestId>0</RequestId></Error>"
)
# What S3 says beside each status.
CODES = {
    403: "AccessDenied",
    404: "NoSuchKey",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
}
SECONDS_LATE = 0.4


class Fault(Protocol):
    """Answers one request, which it may pass on."""

    def __call__(self, request: Request, ask: Callable[[], Reply]) -> Reply | None: ...


def status(code: int) -> Fault:
    """An error of S3's."""

    def fault(request: Request, _: Callable[[], Reply]) -> Reply:
        body = b"" if request.method == "HEAD" else _ERROR.format(code=CODES[code]).encode()
        return Reply(code, {"content-type": "application/xml"}, body)

    return fault


def short(_: Request, ask: Callable[[], Reply]) -> Reply:
    """The connection ends within the body."""
    reply = ask()
    if reply.body:
        reply.length = len(reply.body)
        reply.body = reply.body[: len(reply.body) // 2]
    return reply


def long(request: Request, ask: Callable[[], Reply]) -> Reply:
    """An object's bytes, and some more."""
    reply = ask()
    if request.is_read and reply.body and reply.status < 300:
        reply.body += b"more of it" * 8
    return reply


def late(_: Request, ask: Callable[[], Reply]) -> Reply:
    """After a while."""
    threading.Event().wait(SECONDS_LATE)
    return ask()


def twice(_: Request, ask: Callable[[], Reply]) -> Reply:
    """As where the answer is lost, and whoever asked asks again: the second answer comes."""
    ask()
    return ask()


def hang_up(_: Request, ask: Callable[[], Reply]) -> None:
    """What was asked for is done, and nobody is told."""
    ask()


class Old:
    """What was there when it was first asked for, be it nothing."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, str], Reply] = {}

    def watch(self, request: Request, reply: Reply) -> None:
        """Remembers what was answered."""
        if request.method in ("GET", "HEAD"):
            self._first.setdefault(self._place(request), reply)

    def __call__(self, request: Request, ask: Callable[[], Reply]) -> Reply:
        return self._first.get(self._place(request)) or ask()

    @staticmethod
    def _place(request: Request) -> tuple[str, str, str]:
        return request.method, request.target, request.headers.get("range", "")


class Faulty:
    """An `answer` for a relay: `fault` from the request number `first` on, `many` times, of those
    that `of` says yes to."""

    def __init__(self) -> None:
        self.old = Old()
        self.met = 0
        self._fault: Fault | None = None
        self._first = self._many = self._seen = 0
        self._of: Callable[[Request], bool] = lambda _: True
        self._lock = threading.Lock()

    def arm(
        self,
        fault: Fault,
        *,
        first: int = 0,
        many: int = 1 << 30,
        of: Callable[[Request], bool] = lambda _: True,
    ) -> None:
        with self._lock:
            self.met = self._seen = 0
            self._fault, self._first, self._many, self._of = fault, first, many, of

    def disarm(self) -> int:
        """All goes through again; how many requests had met the fault."""
        with self._lock:
            self._fault = None
            return self.met

    @property
    def answer(self) -> Answer:
        return self._answer

    def _answer(self, request: Request, ask: Callable[[], Reply]) -> Reply | None:
        with self._lock:
            fault = self._fault if self._of(request) else None
            if fault is not None:
                at = self._seen
                self._seen += 1
                if at < self._first or self.met >= self._many:
                    fault = None
                else:
                    self.met += 1
        if fault is not None:
            return fault(request, ask)
        reply = ask()
        self.old.watch(request, reply)
        return reply


def faults(faulty: Faulty) -> dict[str, Fault]:
    """All faults, by name."""
    return {
        **{str(code): status(code) for code in CODES},
        "short": short,
        "long": long,
        "late": late,
        "twice": twice,
        "hang-up": hang_up,
        "old": faulty.old,
    }
