"""The tab *Coffer* as people see it: Chromium's picture of it, beside one that was looked at.

`COFFER_GOLDEN=1` takes the picture anew.
"""

from __future__ import annotations

import http.server
import os
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy
import pytest
from PIL import Image

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not CHROMIUM, reason="no chromium: apt-get install chromium"),
]
SEEN = Path(__file__).with_name("screenshots") / "coffer-tab.png"
WIDTH, HEIGHT = 1200, 560
# Fonts differ from machine to machine: pictures are compared by squares of so many pixels, of which
# so many may differ by so much (of 255).
SQUARE, MANY, MUCH = 16, 0.03, 10
# What differs each time.
CHANGING = [
    (r"coffer-[0-9a-f-]{36}", "coffer-01234567-89ab-cdef-0123-456789abcdef"),
    (r"[0-9a-f]{32}", "0123456789abcdef0123456789abcdef"),
    (r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", "2026/01/01 10:00:00"),
    (r"\d+ open sessions", "2 open sessions"),
    (r"SQL query \d+", "SQL query 7"),
    (r"<td>\d</td>", "<td>3</td>"),
]


@pytest.fixture
def page(base: Path, owner: Owner, sealed_tables: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """Where Spark's UI is, and the tab's page after two queries."""
    with Driver(
        sealed_tables,
        sealed=True,
        log=base / "screenshot.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.app.name": "ward"},
    ) as driver:
        for _ in range(2):
            driver.query("SELECT k, count(*) FROM edge GROUP BY k")
        ui = driver.run("result = spark.sparkContext.uiWebUrl")
        with urllib.request.urlopen(f"{ui}/coffer/", timeout=30) as answer:
            text = answer.read().decode()
        for changing, fixed in CHANGING:
            text = re.sub(changing, fixed, text)
        yield ui, text


@contextmanager
def served(ui: str, text: str) -> Iterator[str]:
    """A server of that page, whose styles and scripts are Spark's."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = "text/html", text.encode()
            if self.path != "/":
                try:
                    with urllib.request.urlopen(ui + self.path, timeout=30) as answer:
                        kind, body = answer.headers.get_content_type(), answer.read()
                except OSError:
                    self.send_error(404)
                    return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            with suppress(BrokenPipeError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def picture(ui: str, text: str, to: Path) -> Path:
    with served(ui, text) as address:
        subprocess.run(
            [
                str(CHROMIUM),
                *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--force-device-scale-factor=1", f"--window-size={WIDTH},{HEIGHT}"),
                *(f"--user-data-dir={to.parent / 'profile'}", f"--screenshot={to}", address),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
    return to


def differing(one: Path, other: Path) -> float:
    """The share of squares that differ."""
    squares = []
    for path in (one, other):
        with Image.open(path) as image:
            assert image.size == (WIDTH, HEIGHT)
            grey = image.convert("L").resize(
                (WIDTH // SQUARE, HEIGHT // SQUARE), Image.Resampling.BOX
            )
            squares.append(numpy.asarray(grey, dtype=numpy.int16))
    return float((abs(squares[0] - squares[1]) > MUCH).mean())


def test_the_tab_looks_as_it_did(page: tuple[str, str], tmp_path: Path) -> None:
    ui, text = page
    now = picture(ui, text, tmp_path / "now.png")
    if os.environ.get("COFFER_GOLDEN") == "1":
        SEEN.parent.mkdir(exist_ok=True)
        shutil.copyfile(now, SEEN)
    assert differing(now, SEEN) < MANY


def test_a_picture_can_differ(page: tuple[str, str], tmp_path: Path) -> None:
    """Without Spark's styles, or without the second table, it is another."""
    ui, text = page
    for name, changed in (
        ("bare", re.sub(r"<link[^>]*>", "", text)),
        ("short", text.partition("Sealed queries")[0]),
    ):
        assert differing(picture(ui, changed, tmp_path / f"{name}.png"), SEEN) > MANY
