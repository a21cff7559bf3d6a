"""An HTTP server between a client and a key server: it counts, and on demand it fails as key
servers and networks fail."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from coffer_testing.processes import ended

# : What it does with a request, given what it is for; see `Relay`.
Fault = Callable[[str], str | None]


class Relay:
    """Passes requests on to `target` (a base URL), from its own `address`.

    `fault` decides for each request, by its path and the operation in its `x-amz-target` header:
    None passes it on; `"slow"` answers after `delay` seconds; `"garbage"` answers with a page that
    is no such answer; `"hang up"` ends the connection; `"deny"` answers 403; `"later"` 503; a JSON
    object is answered as it is, with 400, and XML with 403; what follows `"= "` is answered with
    200.
    `headers` are added to what `target` answers.
    """

    def __init__(
        self,
        target: str,
        fault: Fault = lambda _: None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.target = urllib.parse.urlsplit(target)
        self.fault = fault
        self.headers = headers or {}
        self.delay = 60.0
        # : What requests were for, and the seconds until each was answered.
        self.seen: list[str] = []
        self.seconds: list[float] = []
        # : The AWS access keys that requests were signed with.
        self.credentials: set[str] = set()
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                relay._handle(self)

            do_POST = do_GET
            do_PUT = do_GET
            do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._stopped = threading.Event()
        self._thread.start()

    @property
    def address(self) -> str:
        """Its base URL, with the target's path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.target.path}"

    def stop(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        ended(self._thread)

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        what = request.path
        if operation := request.headers.get("x-amz-target"):
            what = operation
        if signer := re.search(r"Credential=([^/]*)/", request.headers.get("authorization") or ""):
            self.credentials.add(signer.group(1))
        start = time.monotonic()
        self.seen.append(what)
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        match self.fault(what):
            case "slow":
                self._stopped.wait(self.delay)
            case "garbage":
                _answer(request, 200, b"<html><body>Please log in</body></html>", "text/html")
                return
            case "deny":
                _answer(request, 403, b"no", "text/plain")
                return
            case "later":
                _answer(request, 503, b"later", "text/plain")
                return
            case str(refusal) if refusal.startswith("{"):
                _answer(request, 400, refusal.encode(), "application/json")
                return
            case str(refusal) if refusal.startswith("<"):
                _answer(request, 403, refusal.encode(), "text/xml")
                return
            case str(said) if said.startswith("= "):
                _answer(request, 200, said.removeprefix("= ").encode(), "application/json")
                return
            case "hang up":
                _hang_up(request)
                return
        headers = {
            name: value for name, value in request.headers.items() if name.lower() != "connection"
        }
        upstream = http.client.HTTPConnection(
            self.target.hostname or "", self.target.port, timeout=30
        )
        try:
            upstream.request(request.command, request.path, body, headers)
            answer = upstream.getresponse()
            said = answer.read()
        except OSError:
            _hang_up(request)
            return
        finally:
            upstream.close()
        kind = answer.getheader("content-type") or "application/json"
        _answer(request, answer.status, said, kind, self.headers)
        self.seconds.append(time.monotonic() - start)


def _hang_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True
    # Half of it only: the rest is the handler's to close.
    with contextlib.suppress(OSError):
        request.connection.shutdown(socket.SHUT_RDWR)


def _answer(
    request: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    kind: str,
    headers: dict[str, str] | None = None,
) -> None:
    try:
        request.send_response(status)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.send_header("content-type", kind)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
    except OSError:
        request.close_connection = True  # the client gave up
