"""An S3 behind a relay that sees every request and every answer, and changes answers on demand: a
store that fails, one that deceives, and one whose access log is kept."""

from __future__ import annotations

import http.client
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, ClassVar

from coffer_testing.servers.s3 import BUCKET, S3

# Of one hop, or said by the relay itself.
_OWN = ("connection", "transfer-encoding", "content-length", "date", "server")


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    target: str  # path and query, as they stood in the request line
    headers: dict[str, str]  # names in small letters
    body: bytes

    @property
    def key(self) -> str:
        """The object that it is about, without its bucket; empty for a listing."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.target).path)
        return path.removeprefix("/").removeprefix(BUCKET).removeprefix("/")

    @property
    def query(self) -> dict[str, str]:
        text = urllib.parse.urlsplit(self.target).query
        return dict(urllib.parse.parse_qsl(text, keep_blank_values=True))

    @property
    def prefix(self) -> str:
        """What a listing is of."""
        return self.query.get("prefix", "")

    @property
    def is_listing(self) -> bool:
        return self.method == "GET" and "prefix" in self.query

    @property
    def is_read(self) -> bool:
        """Whether it asks for an object's bytes, or for how many there are."""
        return self.method in ("GET", "HEAD") and bool(self.key)

    @property
    def range(self) -> tuple[int, int] | None:
        """First and last byte that are asked for."""
        text = self.headers.get("range", "").removeprefix("bytes=")
        first, _, last = text.partition("-")
        return (int(first), int(last)) if first.isdecimal() and last.isdecimal() else None


@dataclass
class Reply:
    """One answer. `length`: what it says of its body's length, which is that of `body` if it says
    nothing; where more is said than there is, the connection ends early."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = None


# Answers a request, which it may pass on, any number of times; None: hangs up.
Answer = Callable[[Request, Callable[[], Reply]], Reply | None]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # As many as S3A opens at once.
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Clients that go away are no news here."""


class StoreRelay:
    """Passes requests on to a server of this machine. `answer` may be set at any time; None: all
    goes through. `record` takes what is sent both ways."""

    def __init__(self, port: int, record: Path | None = None) -> None:
        self.answer: Answer | None = None
        self.count = 0
        self._upstream = port
        self._lock = threading.Lock()
        self._record: IO[bytes] | None = record.open("ab") if record else None
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Or each small answer waits for the last one's acknowledgement.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                relay._handle(self)

            do_HEAD = do_GET
            do_POST = do_GET
            do_PUT = do_GET
            do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)
        with self._lock:
            if self._record:
                self._record.close()
                self._record = None

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, handler.path, headers, body)
        with self._lock:
            self.count += 1
        try:
            act = self.answer
            reply = act(request, lambda: self._ask(request)) if act else self._ask(request)
        except OSError:  # the server behind it has gone
            reply = None
        self._write(request, reply)
        if reply is None:
            handler.close_connection = True
            return
        try:
            _send(handler, reply)
        except OSError:
            handler.close_connection = True  # the client gave up

    def _ask(self, request: Request) -> Reply:
        dropped = ("connection", "expect")
        headers = {name: value for name, value in request.headers.items() if name not in dropped}
        upstream = http.client.HTTPConnection("127.0.0.1", self._upstream, timeout=60)
        try:
            upstream.request(request.method, request.target, request.body, headers)
            answer = upstream.getresponse()
            body = answer.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            upstream.close()
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in _OWN}
        of_head = answer.getheader("content-length") if request.method == "HEAD" else None
        return Reply(answer.status, kept, body, int(of_head) if of_head else None)

    def _write(self, request: Request, reply: Reply | None) -> None:
        with self._lock:
            if self._record is None:
                return
            lines = [f"{request.method} {request.target}"]
            lines += [f"{name}: {value}" for name, value in request.headers.items()]
            self._record.write("\n".join(lines).encode() + b"\n\n" + request.body + b"\n")
            if reply is not None:
                lines = [str(reply.status), *(f"{n}: {v}" for n, v in reply.headers.items())]
                self._record.write("\n".join(lines).encode() + b"\n\n" + reply.body + b"\n")
            self._record.flush()


def _send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    said = len(reply.body) if reply.length is None else reply.length
    handler.send_response(reply.status)
    for name, value in reply.headers.items():
        handler.send_header(name, value)
    if reply.status != 204:
        handler.send_header("content-length", str(said))
    handler.end_headers()
    if handler.command == "HEAD":
        return
    handler.wfile.write(reply.body)
    if said != len(reply.body):
        handler.close_connection = True


class RelayedS3(S3):
    """An S3 that Spark and the command line reach through a relay. `record`: whether what is sent
    both ways is kept."""

    # A fault that lasts is an error after some tries; S3A's own patience is minutes.
    HASTY: ClassVar = {
        "spark.hadoop.fs.s3a.attempts.maximum": "2",
        "spark.hadoop.fs.s3a.retry.limit": "2",
        "spark.hadoop.fs.s3a.retry.interval": "20ms",
        "spark.hadoop.fs.s3a.retry.throttle.limit": "2",
        "spark.hadoop.fs.s3a.retry.throttle.interval": "20ms",
    }

    def __init__(self, folder: Path, *, record: bool = False) -> None:
        super().__init__(folder)
        self.recorded = folder / "relayed"
        self._recording = record
        self.relay: StoreRelay

    @property
    def address(self) -> str:
        return self.relay.address

    def start(self) -> RelayedS3:
        super().start()
        self.relay = StoreRelay(self.process.port, self.recorded if self._recording else None)
        return self

    def stop(self) -> None:
        if hasattr(self, "relay"):
            self.relay.stop()
        super().stop()

    def conf(self) -> dict[str, str]:
        return {**super().conf(), **self.HASTY}

    def keys(self) -> list[str]:
        """All objects of the bucket."""
        return sorted(self.files(self.root))
