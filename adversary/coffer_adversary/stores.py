"""Mutations of a store that tables lie on: what an S3 answers of sizes, ranges and listings, which
of its answers belongs to which question, and what it makes of what it was told to keep.

All of them are applied between S3A and the store, where a host that runs it, or one between, has
its hands. Whoever asks believes none of it.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from coffer_adversary import fixtures
from coffer_adversary.fixtures import Pieces
from coffer_adversary.mutation import Outcome
from coffer_adversary.questions import Question
from coffer_testing.servers.store_relay import RelayedS3, Reply, Request

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster, Judgement
    from coffer_testing.answers import Answer

_NEEDS = frozenset({"store"})
_numbers = count()
# Listings of S3 have at most so many keys.
_PAGE = 1000


class AtStore(Pieces):
    """The table of pieces on a store, in two versions: the first has the first half of its rows."""

    def __init__(self, cluster: AttackCluster) -> None:
        assert cluster.store is not None
        self.store: RelayedS3 = cluster.store
        self.name = "pieces"
        # Of an owner who may have a table of pieces already.
        self.url = f"{self.store.root}/pieces_at_store"
        self.plain = self._make(cluster, "pieces", 20261125) / "pieces.parquet"
        rows = pq.read_table(self.plain)
        half = self.ROWS // 2
        for at, append in ((0, ()), (half, ("--append",))):
            part = cluster.folder / f"pieces-{at}.parquet"
            pq.write_table(rows.slice(at, half), part, row_group_size=8192)
            small = ("--threads", "2", "--memory", "1MiB")
            env = self.store.environment()
            cluster.owner.coffer("encrypt", *append, *small, part, self.url, env=env)
        self.objects = self.store.files(self.url)

    def ask(self, cluster: AttackCluster, question: Question) -> Answer:
        fixtures.load(cluster, "pieces", self.url)
        return cluster.run(question)

    def manifest(self, version: int) -> bytes:
        return self.objects[f"_coffer/manifest-{version:010}"]


class Hand:
    """What a mutation may use while one question is asked: what it did is noted."""

    def __init__(self, table: AtStore, rng: random.Random) -> None:
        self.table = table
        self.rng = rng
        self.deeds: list[str] = []
        self.kept: list[Reply] = []
        self.lock = threading.Lock()

    def did(self, what: str) -> None:
        self.deeds.append(what)


# Answers a request, passed on or not, once or never.
Change = Callable[[Hand, Request, Callable[[], Reply]], Reply | None]


def _of_data(request: Request) -> bool:
    return request.is_read and "/part-" in request.key


def _of_manifest(request: Request) -> bool:
    return request.is_read and "/_coffer/manifest-" in request.key


def _reads(change: Callable[[Hand, Request, Reply], bytes | None]) -> Change:
    """A change of the bytes of a range of a data file; None: as they are."""

    def answer(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
        reply = ask()
        if request.method == "GET" and _of_data(request) and reply.status == 206:
            with hand.lock:
                body = change(hand, request, reply)
            if body is not None and body != reply.body:
                hand.did(f"{len(body)} other bytes for {request.headers['range']} of {request.key}")
                reply.body = body
        return reply

    return answer


def _flipped(hand: Hand, _: Request, reply: Reply) -> bytes:
    at = hand.rng.randrange(len(reply.body))
    flipped = reply.body[at] ^ (1 << hand.rng.randrange(8))
    return reply.body[:at] + bytes([flipped]) + reply.body[at + 1 :]


def _zeroed(_: Hand, __: Request, reply: Reply) -> bytes:
    return bytes(len(reply.body))


def _shifted(hand: Hand, request: Request, reply: Reply) -> bytes | None:
    """The bytes of another place of the same file, as many."""
    whole = hand.table.objects.get(_name(request))
    length = len(reply.body)
    if whole is None or len(whole) <= length:
        return None
    first = hand.rng.randrange(len(whole) - length)
    return whole[first : first + length]


def _of_another_key(hand: Hand, request: Request, reply: Reply) -> bytes | None:
    """The same range of another data file."""
    names = [n for n in hand.table.objects if n.startswith("part-") and n != _name(request)]
    asked = request.range
    if not names or asked is None:
        return None
    other = hand.table.objects[hand.rng.choice(sorted(names))]
    body = other[asked[0] : asked[1] + 1]
    return body if len(body) == len(reply.body) else None


def _of_another_question(hand: Hand, _: Request, reply: Reply) -> bytes | None:
    """What was answered to the question before, as much of it as was asked for now."""
    before = hand.kept[-1].body if hand.kept else b""
    hand.kept.append(Reply(reply.status, {}, reply.body))
    if len(before) < len(reply.body):
        return None
    return before[: len(reply.body)]


def _short(hand: Hand, _: Request, reply: Reply) -> bytes:
    return reply.body[: hand.rng.randrange(len(reply.body))]


def _long(hand: Hand, _: Request, reply: Reply) -> bytes:
    return reply.body + hand.rng.randbytes(hand.rng.randrange(1, 200))


def _name(request: Request) -> str:
    return request.key.partition("/")[2]


def _sizes(change: Callable[[Hand, int], int | None], of: Callable[[Request], bool]) -> Change:
    """Another length for a file, wherever lengths are said. None: there is no such file."""

    def answer(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
        reply = ask()
        part, _, whole = reply.headers.get("content-range", "").rpartition("/")
        length = reply.length if request.method == "HEAD" else int(whole or -1)
        if not of(request) or length is None or length < 0:
            return reply
        size = change(hand, length)
        hand.did(f"{request.key} is said to have {size} bytes, of {length}")
        if size is None:
            return Reply(404, {}, b"")
        if request.method == "HEAD":
            reply.length = size
        else:
            reply.headers["content-range"] = f"{part}/{size}"
        return reply

    return answer


def _files(change: Callable[[Hand], bytes | None]) -> Change:
    """Another manifest under the newest one's name, in every answer; None: there is none."""

    def answer(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
        reply = ask()
        if not _of_manifest(request) or reply.status >= 300:
            return reply
        bytes = change(hand)
        hand.did(f"another manifest as {request.key}")
        if bytes is None:
            return Reply(404, {}, b"")
        if request.method == "HEAD":
            reply.length = len(bytes)
            return reply
        first, last = request.range or (0, len(bytes) - 1)
        reply.body = bytes[first : last + 1]
        reply.headers.pop("content-range", None)
        reply.headers["content-range"] = f"bytes {first}-{last}/{len(bytes)}"
        return reply

    return answer


def _manifest_flipped(hand: Hand) -> bytes:
    bytes_ = hand.table.manifest(2)
    # Bytes of one question are those of the next.
    at = random.Random(len(bytes_)).randrange(len(bytes_))
    return bytes_[:at] + bytes([bytes_[at] ^ 1]) + bytes_[at + 1 :]


def _lists(change: Callable[[Hand, list[str]], list[str]]) -> Change:
    """Another list of what lies in the folder of manifests."""

    def answer(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
        reply = ask()
        if not request.is_listing or "_coffer" not in request.prefix:
            return reply
        text = reply.body.decode()
        entries = re.findall(r"<Contents>.*?</Contents>", text, re.DOTALL)
        if not entries:
            return reply
        changed = change(hand, entries)
        if changed != entries:
            hand.did(f"{len(changed)} entries of {len(entries)} in {request.prefix}")
            first, last = text.index("<Contents>"), text.rindex("</Contents>") + len("</Contents>")
            text = text[:first] + "".join(changed) + text[last:]
            text = re.sub(r"<KeyCount>\d+<", f"<KeyCount>{len(changed)}<", text)
            reply.body = text.encode()
        return reply

    return answer


def _missing(_: Hand, entries: list[str]) -> list[str]:
    return entries[:-1]


def _extra(_: Hand, entries: list[str]) -> list[str]:
    """A version that nobody has published, whose bytes are those of the second."""
    return [*entries, entries[-1].replace("manifest-0000000002", "manifest-0000000009")]


def _reordered(_: Hand, entries: list[str]) -> list[str]:
    return entries[::-1]


def _strange(_: Hand, entries: list[str]) -> list[str]:
    """Names that are none of a table's."""
    names = ("zz", "manifest-3", "..", "manifest-00000000020", "%2e%2e")
    return [*entries, *(entries[-1].replace("manifest-0000000002", name) for name in names)]


def _endless(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
    """A listing of long names that has always more."""
    if not request.is_listing or "_coffer" not in request.prefix:
        return ask()
    page = int(request.query.get("continuation-token", "0"))
    hand.did(f"page {page} of {request.prefix}")
    times = "<LastModified>2026-11-25T00:00:00.000Z</LastModified>"
    rest = f"{times}<ETag>0</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
    keys = (f"{request.prefix}{page:08}-{at:08}-{_LONG}" for at in range(_LONG_PAGE))
    body = "".join(f"<Contents><Key>{key}</Key>{rest}" for key in keys)
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>tables</Name><Prefix>{request.prefix}</Prefix><Delimiter>/</Delimiter>"
        f"<MaxKeys>{_PAGE}</MaxKeys><KeyCount>{_LONG_PAGE}</KeyCount>"
        "<IsTruncated>true</IsTruncated>"
        f"<NextContinuationToken>{page + 1}</NextContinuationToken>{body}</ListBucketResult>"
    )
    return Reply(200, {"content-type": "application/xml"}, text.encode())


# Names of so many bytes, so that a hundred thousand are more than a folder may have.
_LONG = "x" * 900
_LONG_PAGE = 10_000


def _extra_there(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
    """A version that nobody has published, listed and there."""
    if "manifest-0000000009" in request.key:
        bytes_ = hand.table.manifest(2)
        length = len(bytes_) if request.method == "HEAD" else None
        first, last = request.range or (0, len(bytes_) - 1)
        body = b"" if request.method == "HEAD" else bytes_[first : last + 1]
        headers = {"etag": '"0"', "last-modified": "Wed, 25 Nov 2026 00:00:00 GMT"}
        if request.range:
            headers["content-range"] = f"bytes {first}-{last}/{len(bytes_)}"
        return Reply(206 if request.range else 200, headers, body, length)
    return _listed_extra(hand, request, ask) or ask()


_listed_extra = _lists(_extra)


@dataclass(frozen=True)
class Read:
    """The table is opened and asked about while the store answers so."""

    name: str
    change: Change
    needs: frozenset[str] = _NEEDS

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        table = cluster.keep("at store", lambda: AtStore(cluster))
        question = table.question(rng)
        hand = Hand(table, rng)
        table.store.relay.answer = lambda request, ask: self.change(hand, request, ask)
        try:
            judgement = cluster.judge(question, lambda: table.ask(cluster, question))
        finally:
            table.store.relay.answer = None
        return _outcome(hand, question, judgement)


@dataclass(frozen=True)
class Write:
    """A table is made there while the store takes it so, and read back from an honest one."""

    name: str
    change: Change
    needs: frozenset[str] = _NEEDS

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        table = cluster.keep("at store", lambda: AtStore(cluster))
        hand = Hand(table, rng)
        name = f"at_store_{next(_numbers)}"
        first = rng.randrange(1000)
        some = f"SELECT id, a, b, s FROM pieces WHERE id BETWEEN {first} AND {first + 200}"
        sql = f"SELECT count(*) AS n, sum(a) AS a, sum(b) AS b FROM {name}"
        question = table.sums(first, first + 200, sql)
        fixtures.load(cluster, "pieces", table.url)

        def run() -> Answer:
            at = f"{table.store.root}/{name}"
            table.store.relay.answer = lambda request, ask: self.change(hand, request, ask)
            make = f"CREATE TABLE {name} USING coffer LOCATION '{at}' AS {some}"
            try:
                cluster.within(lambda: cluster.driver.query(make))
            finally:
                table.store.relay.answer = None
            return cluster.run(question)

        try:
            judgement = cluster.judge(question, run)
        finally:
            cluster.within(lambda: cluster.driver.query(f"DROP TABLE IF EXISTS {name}"))
        return _outcome(hand, question, judgement)


def _outcome(hand: Hand, question: Question, judgement: Judgement) -> Outcome:
    what = "; ".join(hand.deeds[:3]) or "nothing"
    detail = f"{question.name}: {what}"
    if judgement.detail:
        detail = f"{detail}: {judgement.detail}"
    return Outcome(bool(hand.deeds), judgement.verdict, judgement.check, detail)


def _puts(change: Callable[[Hand, bytes], bytes | None], word: str) -> Change:
    """Other bytes are kept than were given; None: none are. It says that all went well."""

    def answer(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
        if request.method != "PUT" or word not in request.key or "uploadId" in request.query:
            return ask()
        kept = change(hand, request.body)
        reply = ask()
        hand.did(f"{request.key} was kept as {kept if kept is None else len(kept)} bytes")
        if kept is None:
            hand.table.store.delete(f"{hand.table.store.root}/{request.key}")
        else:
            hand.table.store.put(f"{hand.table.store.root}/{request.key}", kept)
        return reply

    return answer


def _altered(hand: Hand, body: bytes) -> bytes:
    at = hand.rng.randrange(len(body))
    return body[:at] + bytes([body[at] ^ (1 << hand.rng.randrange(8))]) + body[at + 1 :]


def _taken(hand: Hand, request: Request, ask: Callable[[], Reply]) -> Reply:
    """A manifest is said to be there already."""
    if request.method == "PUT" and "/_coffer/" in request.key:
        hand.did(f"{request.key} is said to be taken")
        code = b"<Error><Code>PreconditionFailed</Code><Message>taken</Message></Error>"
        return Reply(412, {"content-type": "application/xml"}, code)
    return ask()


MUTATIONS = (
    Read("store-size-smaller", _sizes(lambda hand, size: hand.rng.randrange(size), _of_data)),
    Read(
        "store-size-larger", _sizes(lambda hand, size: size + 1 + hand.rng.randrange(99), _of_data)
    ),
    Read("store-size-huge", _sizes(lambda _, __: 1 << 60, _of_data)),
    Read("store-size-none", _sizes(lambda _, __: None, _of_data)),
    Read("store-range-flipped", _reads(_flipped)),
    Read("store-range-zeroed", _reads(_zeroed)),
    Read("store-range-shifted", _reads(_shifted)),
    Read("store-range-of-another-key", _reads(_of_another_key)),
    Read("store-range-of-another-question", _reads(_of_another_question)),
    Read("store-range-short", _reads(_short)),
    Read("store-range-long", _reads(_long)),
    Read("store-manifest-old", _files(lambda hand: hand.table.manifest(1))),
    Read("store-manifest-flipped", _files(_manifest_flipped)),
    Read("store-manifest-none", _files(lambda _: None)),
    Read("store-manifest-huge", _sizes(lambda _, __: 1 << 60, _of_manifest)),
    Read("store-listing-missing", _lists(_missing)),
    Read("store-listing-extra", _lists(_extra)),
    Read("store-listing-extra-there", _extra_there),
    Read("store-listing-reordered", _lists(_reordered)),
    Read("store-listing-of-strange-names", _lists(_strange)),
    Read("store-listing-endless", _endless),
    Write("store-put-dropped", _puts(lambda _, __: None, "/part-")),
    Write("store-put-altered", _puts(_altered, "/part-")),
    Write("store-put-of-manifest-dropped", _puts(lambda _, __: None, "/_coffer/")),
    Write("store-put-of-manifest-taken", _taken),
)
