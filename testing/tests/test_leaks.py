"""The parts of the leak harness, without a cluster: streams put together, files kept, findings
judged."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest

from coffer_testing.leaks import cli, pages, planted, report
from coffer_testing.leaks.capture import Capture, Captured, Recorder, Stream
from coffer_testing.leaks.disks import Keeper
from coffer_testing.leaks.harness import Run, Runs
from coffer_testing.leaks.host import Finding, Seen
from coffer_testing.leaks.pages import Fetched
from coffer_testing.leaks.workloads import Session
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.search import Hit


def stream(folder: Path, *parts: tuple[int, bytes], first: int = 100) -> tuple[bytes, int]:
    one = Stream(folder / "stream", next=first)
    for sequence, payload in parts:
        one.add(sequence, payload)
    one.close()
    return one.path.read_bytes(), one.gaps


def test_a_stream_is_put_in_order(tmp_path: Path) -> None:
    assert stream(tmp_path, (100, b"abc"), (103, b"def")) == (b"abcdef", 0)


def test_early_repeated_and_overlapping_parts(tmp_path: Path) -> None:
    parts = [(103, b"def"), (100, b"abc"), (100, b"abc"), (104, b"efg"), (101, b"bcdefg")]
    assert stream(tmp_path, *parts) == (b"abcdefg", 0)


def test_a_gap_is_counted(tmp_path: Path) -> None:
    assert stream(tmp_path, (100, b"abc"), (110, b"x")) == (b"abcx", 1)


def test_sequence_numbers_wrap(tmp_path: Path) -> None:
    assert stream(tmp_path, (2**32 - 2, b"abcd"), (2, b"ef"), first=2**32 - 2) == (b"abcdef", 0)


def packet(source: str, target: str, sequence: int, payload: bytes, flags: int = 16) -> memoryview:
    tcp = struct.pack(">HHIIBBHHH", 1, 2, sequence, 0, 5 << 4, flags, 0, 0, 0)
    ip = struct.pack(
        ">BBHHHBBH4s4s",
        0x45,
        0,
        0,
        0,
        0,
        64,
        6,
        0,
        socket.inet_aton(source),
        socket.inet_aton(target),
    )
    return memoryview(ip + tcp + payload)


def test_only_traffic_of_the_network_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder("127.5.6.", tmp_path)
    recorder.packet(packet("127.0.0.1", "127.0.0.1", 1, b"of another"))
    recorder.packet(packet("127.0.0.1", "127.5.6.9", 7, b"", flags=2))
    recorder.packet(packet("127.0.0.1", "127.5.6.9", 8, b"to it"))
    recorder.packet(packet("127.5.6.9", "127.0.0.1", 50, b"from it"))
    recorder.close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "127.0.0.1:1-127.5.6.9:2": b"to it",
        "127.5.6.9:1-127.0.0.1:2": b"from it",
    }


def test_a_capture_has_what_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    capture = Capture("127.251.7.", tmp_path / "traffic")
    sent = bytes(range(256)) * 4000
    with (
        socket.create_server(("127.251.7.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        server.settimeout(30)
        accepted, _ = server.accept()
        with accepted:
            client.sendall(sent[:1000])
            assert accepted.recv(1000, socket.MSG_WAITALL) == sent[:1000]
            accepted.sendall(b"answer")
            assert client.recv(6, socket.MSG_WAITALL) == b"answer"
    captured = capture.stop()
    if captured.missing:
        pytest.skip(captured.missing)
    assert sorted(path.read_bytes() for path in (tmp_path / "traffic").iterdir()) == sorted(
        [sent[:1000], b"answer"]
    )
    assert (captured.lost, captured.gaps, captured.streams) == (0, 0, 2)


def test_files_are_kept_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "local" / "blocks").mkdir(parents=True)
    keeper = Keeper([tmp_path / "local"], tmp_path / "kept")
    file = tmp_path / "local" / "blocks" / "shuffle_0_0_0.data"
    with file.open("wb") as out:
        out.write(b"first ")
        out.flush()
        while not list((tmp_path / "kept" / "shuffle").iterdir()):
            pass
        file.unlink()
        out.write(b"and last")
    (tmp_path / "local" / "coffer-spill-1").mkdir()
    (tmp_path / "local" / "coffer-spill-1" / "s1").write_bytes(b"spilt")
    keeper.stop()
    assert [path.read_bytes() for path in (tmp_path / "kept" / "shuffle").iterdir()] == [
        b"first and last"
    ]
    assert [path.read_bytes() for path in (tmp_path / "kept" / "spill").iterdir()] == [b"spilt"]


def seen(*places: str, captured: Captured | None = None) -> Seen:
    found = Seen(captured=captured or Captured(packets=1))
    for place in places:
        found.searched[place] = 10
        for value in planted.wanted():
            found.findings.append(
                Finding(place, "tpch", Hit(Path("f"), value.name, "utf-8", 3, (1,)))
            )
    return found


def both(
    control: Seen, sealed: Seen, protected: Seen | None = None, unsealed: Seen | None = None
) -> Runs:
    protected = protected or clean(captured=sealed.captured)
    opened = Run(unsealed, {}, 1.0) if unsealed else None
    return Runs(Run(control, {}, 1.0), Run(sealed, {}, 1.0), 7, Run(protected, {}, 1.0), opened)


def clean(**more: Captured) -> Seen:
    found = seen(**more)
    found.searched |= dict.fromkeys(report.MUST_BE_THERE, 10)
    found.keys, found.keys_in_engines = 5, 3
    return found


def test_a_clean_result_has_no_problems() -> None:
    pair = both(seen(*report.MUST_SHOW), clean())
    assert report.problems(pair) == []
    result = report.result(pair, [])
    assert result["hits"] == 0 and result["planted"] == 7
    assert result["control_hits"] == 3 * len(planted.wanted()) * len(report.MUST_SHOW)
    assert report.table(result).count("\n") == len(report.PLACES) + 2


def test_each_problem_is_named() -> None:
    leaked = clean()
    leaked.findings.append(
        Finding("traffic", "the end", Hit(Path("flow"), "5", "int64-le", 1, (9,)))
    )
    assert "5 as int64-le in traffic" in report.problems(both(seen(*report.MUST_SHOW), leaked))[0]
    assert (
        "5 as int64-le in traffic"
        in report.problems(both(seen(*report.MUST_SHOW), clean(), leaked))[0]
    )
    blind = seen(*(place for place in report.MUST_SHOW if place != "spill"))
    assert "the control found nothing in spill" in report.problems(both(blind, clean()))[0]
    empty = clean()
    empty.searched["core"] = 0
    assert report.problems(both(seen(*report.MUST_SHOW), empty)) == [
        "there was nothing to search in core"
    ]
    lossy = clean(captured=Captured(packets=9, lost=2))
    assert "lost 2 packets" in report.problems(both(seen(*report.MUST_SHOW), lossy))[0]


def test_controls_with_coffer_running_must_show() -> None:
    control = seen(*report.MUST_SHOW)
    assert report.problems(both(control, clean(), unsealed=seen(*report.MUST_BE_OPEN))) == []
    for place in report.MUST_BE_OPEN:
        blind = seen(*(other for other in report.MUST_BE_OPEN if other != place))
        (problem,) = report.problems(both(control, clean(), unsealed=blind))
        assert f"the unsealed build showed nothing in {place}" in problem
    keyless = clean()
    keyless.keys = 0
    assert report.problems(both(control, clean(), keyless)) == [
        "no key was searched for (protected columns)"
    ]
    forgetful = clean()
    forgetful.keys_in_engines = 0
    (problem,) = report.problems(both(control, forgetful))
    assert "no engine has a key in its memory" in problem


def test_what_cannot_be_searched_here_is_said() -> None:
    without = Captured(missing="no right to capture packets")
    control, sealed = (
        seen(*(place for place in report.MUST_SHOW if place != "traffic")),
        clean(captured=without),
    )
    control.captured = without
    sealed.searched["traffic"] = 0
    pair = both(control, sealed)
    assert len(report.problems(pair)) == 3 and all(
        "no right to capture" in line for line in report.problems(pair)
    )
    assert len(report.problems(pair, frozenset({"core", "pages"}))) == 3
    assert report.problems(pair, frozenset({"traffic"})) == []
    assert (
        "traffic: no right to capture packets (tee columns)"
        in report.result(pair, [])["not_searched"]
    )


def test_pages_that_were_left_are_a_problem() -> None:
    for fetched, words in ((Fetched(9, left=4), "4 links"), (Fetched(9, cut=1), "of 1 pages")):
        some = clean()
        some.pages = fetched
        pair = both(seen(*report.MUST_SHOW), clean(), some)
        (problem,) = report.problems(pair)
        assert words in problem and "protected columns" in problem
        assert report.problems(pair, frozenset({"pages"})) == []
        assert any(words in line for line in report.result(pair, [])["not_searched"])


def test_places_that_can_be_missing_are_named_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--allow-missing", "traffic,heap"])
    assert "heap: no place that can be missing" in capsys.readouterr().err


class Linked(BaseHTTPRequestHandler):
    """A site of six pages whose first, with a relative link, is the answer to any path that it does
    not know: a master."""

    def do_GET(self) -> None:
        page = self.path.strip("/")
        self.send_response(200)
        self.end_headers()
        if page.isdigit() and int(page) < 5:
            self.wfile.write(
                f'<a href="/{page}">this</a><a href="/{int(page) + 1}">next</a>'.encode()
            )
        else:
            self.wfile.write(b'<a href="app/?id=7">an application</a><a href="/1">one</a>')

    def log_message(self, *_: object) -> None:
        pass


def test_links_that_were_not_followed_are_counted(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Linked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ui = [f"http://127.0.0.1:{server.server_port}/"]
        whole, part = (pages.fetch(ui, tmp_path / str(most), most) for most in (300, 9))
        server.shutdown()
    urls = [
        file.read_bytes().split(b"\n", 1)[0].decode().removeprefix(ui[0])
        for file in (tmp_path / "300").iterdir()
    ]
    assert whole.left == 0 and whole.saved == len(urls) < 30
    assert {"", "1", "5", "app/?id=7", "conf/app/?id=7"} <= set(urls)
    assert part.saved == 9 and part.left > 0


class Failing:
    """A driver whose queries fail, with an error of their own words, after so many tasks."""

    def __init__(self, message: str, condition: str | None, tasks: int) -> None:
        self._error = QueryFailed("Error", message, condition)
        self._tasks, self._asked = tasks, 0

    def query(self, _: str) -> None:
        self._asked = self._tasks
        raise self._error

    def run(self, _: str) -> int:
        return self._asked


@pytest.mark.parametrize(
    ("message", "condition", "tasks", "options", "wrong"),
    [
        ("An error: [CAST_OVERFLOW] The value 5 …", None, 1, {}, None),
        ("[CAST_OVERFLOW.MORE] The value 5 …", "CAST_OVERFLOW.MORE", 2, {}, None),
        (
            "[COFFER_SESSION] the session is gone",
            None,
            1,
            {},
            "should have failed with CAST_OVERFLOW",
        ),
        ("the driver process ended", None, 1, {}, "should have failed with CAST_OVERFLOW"),
        ("[CAST_OVERFLOW] The value 5 …", None, 0, {}, "0 tasks"),
        ("[CAST_OVERFLOW] The value 5 …", None, 1, {"at_driver": True}, "1 tasks"),
        ("[CAST_OVERFLOW] The value 5 …", None, 0, {"at_driver": True}, None),
        ("[COFFER_UNSUPPORTED] this query cannot run sealed", None, 0, {"refused": True}, None),
        (
            "[CAST_OVERFLOW] The value 5 …",
            None,
            1,
            {"refused": True},
            "should have failed with COFFER_UNSUPPORTED",
        ),
    ],
)
def test_a_failure_of_another_kind_is_none(
    message: str,
    condition: str | None,
    tasks: int,
    options: dict[str, bool],
    wrong: str | None,
    tmp_path: Path,
) -> None:
    session = Session(
        cast(Driver, Failing(message, condition, tasks)), "coffer", tmp_path, lambda _: None
    )
    if wrong is None:
        session.fails("SELECT 1", "CAST_OVERFLOW", **options)
        assert session.failed == 1
    else:
        with pytest.raises(AssertionError, match=wrong):
            session.fails("SELECT 1", "CAST_OVERFLOW", **options)
        assert session.failed == 0
