"""What a host learns of each operator: the rows of the tables in docs/security/sizes.md, looked at
from outside the engine.

A wiretap between executor and engine (`wiretap.py`) has the length of whatever crosses, and the
kernel's word on reads. Numbers are random over their whole range, so that a row of one column takes
8 bytes however it is packed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from wiretap import Read, Task, Wiretap

FILES, ROWS = 4, 8000  # of `facts`: a file is a task
KEYS = 1000  # of `facts` and `dims`; each as often as the others
UNIT = 8192
MARK = "471108150000"  # what values of a partition column are counted from
NONE: dict[str, str] = {}
POW2 = {"spark.coffer.pad": "pow2"}
FIXED = {"spark.coffer.pad": "fixed", "spark.coffer.pad.bytes": str(UNIT)}
WHOLE = {"spark.coffer.prune": "off"}

SHORTEST_MESSAGE = 128
# What stands around a message's plaintext: salt and tag; an execution's number before a descriptor,
# a kind before an object.
MESSAGE_OVERHEAD = {
    "fragment": 36,
    "descriptor": 44,
    "object": 37,
    "commit": 36,
    "metrics": 36,
    "error": 36,
}
SHORTEST_FRAME, FRAME_OVERHEAD = 512, 32
NANOSECONDS = "8"  # the number of `engine_nanos` in `Counters`: how long things take is not hidden


@dataclass(frozen=True)
class Seen:
    """What a query showed."""

    tasks: list[Task]
    reads: Counter[Read]

    def stages(self) -> list[list[Task]]:
        """Tasks by stage. The result's is the last; of the others those of more tasks come first,
        since the sides of a join are begun in either order."""
        numbers = sorted({task.stage for task in self.tasks})
        stages = [[task for task in self.tasks if task.stage == number] for number in numbers]
        return [*sorted(stages[:-1], key=lambda stage: -len(stage)), stages[-1]]

    def frames(self, stage: int) -> list[list[int]]:
        """The frames of each stream of a stage, shortest stream first: which is which is another
        question."""
        return sorted(
            (list(f) for task in self.stages()[stage] for f in task.frames.values()),
            key=lambda f: (sum(f), f),
        )

    def bytes(self, stage: int) -> int:
        """Of all streams of a stage."""
        return sum(sum(frames) for frames in self.frames(stage))

    def plan(self) -> list[tuple[int, int]]:
        """Tasks of each stage, and targets of each task: the query's shape."""
        return [
            (len(stage), max((len(task.frames) for task in stage), default=0))
            for stage in self.stages()
        ]


@dataclass
class Host:
    """A session with a host that watches, and what it saw of each query so far."""

    driver: Driver
    tap: Wiretap
    sealed: dict[str, Path]

    def __post_init__(self) -> None:
        self._seen: dict[tuple[str, str], Seen] = {}
        self.all: list[Task] = []

    def sees(self, sql: str, conf: dict[str, str], *, again: bool = False) -> Seen:
        """What it sees of a query; one that was asked before is not asked again, unless that is
        wanted."""
        key = (sql, str(conf))
        if again or key not in self._seen:
            self.tap.forget()
            try:
                self.driver.query(sql, conf)
            finally:
                seen = self._seen[key] = Seen(self.tap.tasks(), self.tap.reads())
                self.all += seen.tasks
            assert seen.tasks, "nothing crossed the wire: the test looks at nothing"
        return self._seen[key]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    base = tmp_path_factory.mktemp("sizes")
    owner, draw = Owner.create(base / "trusted"), random.Random(20261122)

    def numbers(count: int) -> list[int]:
        return [draw.getrandbits(64) - 2**63 for _ in range(count)]

    keys = numbers(KEYS)
    sealed = {name: base / "sealed" / name for name in ("facts", "dims", "long")}
    sealed["facts"].parent.mkdir()

    def add(name: str, columns: dict[str, list[int]], *options: str) -> None:
        pq.write_table(pa.table(columns), base / "plain.parquet")
        owner.coffer("encrypt", *options, base / "plain.parquet", sealed[name])

    for file in range(FILES):
        ids = list(range(file * ROWS, file * ROWS + ROWS))
        columns = {
            "id": ids,
            "k": [keys[i % KEYS] for i in ids],
            "v": numbers(ROWS),
            "u": numbers(ROWS),
        }
        add("facts", columns, *(["--append"] if file else []))
    add("dims", {"d": list(range(KEYS)), "k": keys, "w": numbers(KEYS)})
    # One file of several pages.
    add("long", {"n": list(range(100_000)), "w": numbers(100_000)})

    tap = Wiretap(base / "tap")
    with Driver(
        sealed,
        sealed=True,
        log=base / "log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={
            "spark.coffer.engine.path": str(tap.program),
            "spark.coffer.scan.targetBytes": "65536",
            # What is measured must cross the host, as with other masters.
            "spark.coffer.exchange.inMemory": "off",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
            "spark.sql.warehouse.dir": str(base / "warehouse"),
        },
    ) as driver:
        yield Host(driver, tap, sealed)


@dataclass(frozen=True)
class Row:
    """A row of the document. `text` is a query with a gap. Filled with the two of `more`, it
    differs in how many rows or groups there are, and that must show in the `shows` stages, more
    rows by more bytes. With the two of `same` it differs in which rows or values there are, and
    nothing may show. With those of `near` the number of rows differs by a few per cent, which shows
    without padding and may not show with lengths of powers of two."""

    operator: str
    text: str
    more: tuple[str, str] | None = None
    shows: tuple[int, ...] = (-1,)
    same: tuple[str, str] | None = None
    near: tuple[str, str] | None = None


JOIN = "SELECT /*+ {hint}(dims) */ v FROM facts JOIN dims USING (k) WHERE d GAP"
TABLE = [
    Row(
        "filter",
        "SELECT v FROM facts WHERE id % 8000 GAP",
        more=("< 500", "< 4000"),
        same=("% 2 = 0", "% 2 = 1"),
        near=("< 540", "< 560"),
    ),
    Row("projection", "SELECT GAP FROM facts", same=("v", "v ^ 77")),
    Row("projection of more", "SELECT GAP FROM facts", more=("v", "v, u")),
    Row(
        "aggregate",
        "SELECT pmod(v, GAP FROM facts GROUP BY 1",
        more=("20)", "2000)"),
        shows=(0, 1),
        near=("400)", "430)"),
    ),
    Row(
        "aggregate of half the rows",
        "SELECT pmod(v, 20) FROM facts WHERE id GAP GROUP BY 1",
        same=(">= 0", "% 2 = 0"),
    ),
    Row(
        "join of hashed sides",
        JOIN.format(hint="SHUFFLE_HASH"),
        more=("< 100", "< 500"),
        shows=(1, 2),
        same=("< 500", ">= 500"),
    ),
    Row(
        "join of sorted sides",
        JOIN.format(hint="MERGE"),
        more=("< 100", "< 500"),
        shows=(1, 2),
        same=("< 500", ">= 500"),
    ),
    Row(
        "join with a broadcast",
        JOIN.format(hint="BROADCAST"),
        more=("< 100", "< 500"),
        shows=(0, 1),
        same=("< 500", ">= 500"),
        near=("< 560", "< 580"),
    ),
    Row(
        "sort",
        "SELECT v FROM facts WHERE id % 8000 < GAP",
        more=("500 ORDER BY v", "4000 ORDER BY v"),
    ),
    Row("sort by another key", "SELECT v FROM facts ORDER BY GAP", same=("v", "-v")),
    Row(
        "range exchange",
        "SELECT /*+ REPARTITION_BY_RANGE(4, v) */ v FROM facts WHERE id % 8000 < GAP",
        more=("500", "4000"),
    ),
    Row(
        "limit",
        "SELECT v FROM facts ORDER BY v LIMIT GAP",
        more=("10", "2000"),
        near=("550", "570"),
    ),
    Row("union", "SELECT v FROM facts GAP", more=("", "UNION ALL SELECT u FROM facts")),
    Row(
        "expand",
        "SELECT pmod(v, 9), pmod(u, 7) FROM facts WHERE id GAP GROUP BY ROLLUP(1, 2)",
        same=(">= 0", "% 2 = 0"),
    ),
    Row(
        "exchange",
        "SELECT /*+ REPARTITION(5) */ v FROM facts WHERE id % 8000 < GAP",
        more=("500", "4000"),
        shows=(0, 1),
    ),
    Row("result", "SELECT v FROM facts WHERE id < GAP", more=("4000", "32000")),
]


def of(row: Row, gap: str) -> str:
    return row.text.replace("GAP", gap)


def named(wanted: Callable[[Row], object]) -> pytest.MarkDecorator:
    rows = [row for row in TABLE if wanted(row)]
    return pytest.mark.parametrize(
        "row", rows, ids=[row.operator.replace(" ", "-") for row in rows]
    )


@named(lambda row: row.more)
def test_without_padding_lengths_tell_how_many(row: Row, host: Host) -> None:
    assert row.more
    few, many = (host.sees(of(row, gap), NONE) for gap in row.more)
    for stage in row.shows:
        assert few.bytes(stage) * 1.5 < many.bytes(stage), (few.frames(stage), many.frames(stage))


@named(lambda row: row.same)
def test_lengths_do_not_tell_which(row: Row, host: Host) -> None:
    """Which rows and values these were. A hash spreads them anew in each query, and a frame takes
    some bytes more or less by how many rows it has: so what all streams of a stage take is held
    together, to 64 bytes for each."""
    assert row.same
    one, other = (host.sees(of(row, gap), NONE) for gap in row.same)
    assert one.plan() == other.plan()
    for stage, (tasks, targets) in enumerate(one.plan()):
        streams = tasks * max(1, targets)
        assert abs(one.bytes(stage) - other.bytes(stage)) <= 64 * streams, (
            one.frames(stage),
            other.frames(stage),
        )


def test_a_filter_hides_which_rows_pass_to_the_byte(host: Host) -> None:
    row = TABLE[0]
    assert row.same
    one, other = (host.sees(of(row, gap), NONE) for gap in row.same)
    assert one.frames(-1) == other.frames(-1)
    assert one.reads == other.reads
    # To within the width of a row, for one who knows how wide rows are.
    for frames in one.frames(-1):
        rows = (sum(frames) - FRAME_OVERHEAD * len(frames)) / 8
        assert abs(rows - ROWS / 2) < 12, frames


@named(lambda row: row.more or row.same)
def test_powers_of_two(row: Row, host: Host) -> None:
    """All frames of a stream have one length, a power of two, and so has the stream: of every
    stage, whatever it is for."""
    for gap in row.more or row.same or ():
        for task in host.sees(of(row, gap), POW2).tasks:
            for frames in task.frames.values():
                assert len(set(frames)) == 1 and frames[0] >= SHORTEST_FRAME, frames
                assert frames[0].bit_count() == 1 and sum(frames).bit_count() == 1, frames


@named(lambda row: row.more or row.same)
def test_multiples(row: Row, host: Host) -> None:
    for gap in (row.more or row.same or ())[:1]:
        for task in host.sees(of(row, gap), FIXED).tasks:
            for frames in task.frames.values():
                assert frames and all(frame % UNIT == 0 for frame in frames), frames


@named(lambda row: row.near)
def test_with_powers_of_two_near_numbers_of_rows_look_alike(row: Row, host: Host) -> None:
    """Nothing that crosses differs: neither streams nor inputs, nor sealed messages, nor what the
    engine counts in clear."""
    assert row.near
    one, other = (host.sees(of(row, gap), NONE) for gap in row.near)
    assert one.bytes(-1) < other.bytes(-1), "the control: without padding it shows"

    def shown(task: Task) -> object:
        # Descriptors also name the sessions that have ended, which is no matter of this query.
        sealed = {name: lengths for name, lengths in task.sealed.items() if name != "descriptor"}
        return (task.stage, task.partition, sealed, task.frames)

    def brought(stage: list[Task]) -> object:
        # Of a stage: an engine is brought a broadcast once, by whichever of its tasks comes first.
        counters: Counter[str] = Counter()
        for task in stage:
            counters.update(
                {number: count for number, count in task.counters.items() if number != NANOSECONDS}
            )
        return (sorted(item for task in stage for item in task.inputs.items()), counters)

    # By turns, so that nothing that is done once in a session is counted for one of them.
    for gap in row.near:
        host.sees(of(row, gap), POW2)
    # Which of them asks for keys is a matter of time, as in a query whose release an engine has not
    # had: it is measured again. What asks each time is compared as it is.
    for _ in range(5):
        one, other = (host.sees(of(row, gap), POW2, again=True) for gap in row.near)
        if not any(task.asked for task in (*one.tasks, *other.tasks)):
            break
    assert [shown(task) for task in one.tasks] == [shown(task) for task in other.tasks]
    assert [brought(stage) for stage in one.stages()] == [
        brought(stage) for stage in other.stages()
    ]
    assert one.reads == other.reads


# ---- what a length does not say by itself ------------------------------------------------------


def test_a_broadcast_shows_its_length_and_nothing_else(host: Host) -> None:
    seen = host.sees(JOIN.format(hint="BROADCAST").replace("GAP", "< 500"), NONE)
    (producers, consumers) = seen.stages()
    streams = sum(28 + sum(task.streams()) for task in producers)
    # An engine builds it once, for all its tasks.
    assert max(task.inputs.get("0", 0) for task in consumers) == streams


def test_a_union_is_its_sides(host: Host) -> None:
    both = host.sees("SELECT v FROM facts UNION ALL SELECT u FROM facts", NONE)
    sides = [host.sees(f"SELECT {column} FROM facts", NONE) for column in "vu"]
    assert both.frames(-1) == sorted(
        sides[0].frames(-1) + sides[1].frames(-1), key=lambda f: (sum(f), f)
    )


def test_range_partitions_are_about_equal(host: Host) -> None:
    def lengths(key: str) -> list[int]:
        rows = f"SELECT v, {key} AS key FROM facts"
        seen = host.sees(f"SELECT /*+ REPARTITION_BY_RANGE(4, key) */ v FROM ({rows})", NONE)
        assert seen.plan()[0] == (FILES, 4)
        return [sum(task.streams()[target] for task in seen.stages()[0]) for target in range(4)]

    even = lengths("v")
    assert max(even) < 1.5 * min(even), even
    # Half of the keys are one value: that shows.
    uneven = lengths("IF(v < 0, 0L, v)")
    assert max(uneven) > 1.5 * min(uneven), uneven


def test_an_exchange_shows_a_key_of_many_rows_but_not_which_key_it_is(host: Host) -> None:
    def matrix(key: str) -> list[int]:
        rows = f"SELECT v, {key} AS key FROM facts"
        seen = host.sees(f"SELECT /*+ REPARTITION(16, key) */ v FROM ({rows})", NONE, again=True)
        assert seen.plan()[0] == (FILES, 16)
        return [sum(task.streams()[target] for task in seen.stages()[0]) for target in range(16)]

    flat, hot = matrix("k"), matrix("IF(id % 2 = 0, 7L, k)")
    assert max(flat) < 2 * sum(flat) / 16
    assert max(hot) > 0.4 * sum(hot), hot
    # Keyed per query: the same rows fall elsewhere.
    assert matrix("k") != flat


def test_a_result_shows_its_frames(host: Host) -> None:
    """A task whose rows are many sends more frames."""
    wide = {"spark.coffer.scan.targetBytes": "16777216"}
    few, many = (host.sees(f"SELECT n, w FROM long WHERE n < {n}", wide) for n in (5_000, 100_000))
    assert [len(frames) for frames in few.frames(-1)] < [len(frames) for frames in many.frames(-1)]


def test_the_value_of_a_subquery_shows_its_class_of_length_alone(host: Host) -> None:
    """In what is sent out. The stream that brings it to the client is a result's, and as long,
    unless lengths are padded."""
    text = "SELECT v FROM facts WHERE CAST(v AS STRING) > (SELECT max({}) FROM facts WHERE id < 5)"

    def objects(seen: Seen) -> list[list[int]]:
        return [task.sealed["object"] for task in seen.stages()[-1]]

    def to_client(seen: Seen) -> list[int]:
        return [sum(task.streams()) for stage in seen.stages()[:-1] for task in stage]

    short, long = (text.format(f"repeat(CAST(v AS STRING), {times})") for times in (1, 3))
    assert objects(host.sees(short, NONE)) == objects(host.sees(long, NONE)) != []
    assert sum(to_client(host.sees(short, NONE))) < sum(to_client(host.sees(long, NONE)))
    assert to_client(host.sees(short, POW2)) == to_client(host.sees(long, POW2))


def failures(host: Host, cause: str) -> list[Task]:
    """The tasks that fail for an expression's sake."""
    with pytest.raises(QueryFailed):
        host.sees(f"SELECT {cause} FROM facts WHERE id < {ROWS}", NONE, again=True)
    return [task for task in host.tap.tasks() if task.failed]


def test_an_error_shows_that_there_was_one(host: Host) -> None:
    # Two causes; and values of two lengths in one text.
    causes = [
        "CAST(v AS INT)",
        "v DIV (id - id)",
        "CAST(concat('x', id % 10) AS INT)",
        "CAST(concat('xy', v) AS INT)",
    ]
    ended = [failures(host, cause) for cause in causes]
    assert all(ended) and {task.failed for tasks in ended for task in tasks} == {"failed"}
    assert not any(task.counters or task.frames for tasks in ended for task in tasks)


# ---- reads -------------------------------------------------------------------------------------

CONDITIONS = ["id < 100", "id >= 31900", "id < 0", "id % 2 = 0", "v > 0"]


def chunks(seen: Seen, table: Path) -> dict[tuple[int, int], int]:
    """Bytes read of a table's files, by file and offset. Footers aside: those are kept for a
    session or not, as may be."""
    files = {file.stat().st_ino: file.stat().st_size for file in table.glob("part-*")}
    ranges: dict[tuple[int, int], int] = Counter()
    for read, times in seen.reads.items():
        if read.inode in files and read.offset + read.length + 8 < files[read.inode]:
            ranges[read.inode, read.offset] += read.length * times
    return ranges


def test_pruning_shows_which_files_and_pages_may_hold_what_passes(host: Host) -> None:
    table = host.sealed["facts"]
    low, high = (
        chunks(host.sees(f"SELECT id, v FROM facts WHERE {c}", NONE), table) for c in CONDITIONS[:2]
    )
    assert len({inode for inode, _ in low}) == len({inode for inode, _ in high}) == 1
    assert not low.keys() & high.keys(), "other rows lie in other files"
    # With every column's key at hand, pages too.
    few, many = (
        chunks(host.sees(f"SELECT n, w FROM long WHERE n {c}", NONE), host.sealed["long"])
        for c in ("< 9", ">= 0")
    )
    assert 0 < sum(few.values()) < sum(many.values())


def test_without_pruning_reads_follow_from_the_columns_alone(host: Host) -> None:
    table = host.sealed["facts"]
    # Each of them names the columns id and v.
    texts = [f"SELECT id, v FROM facts WHERE {condition}" for condition in CONDITIONS]
    texts += [
        "SELECT id, v FROM facts",
        "SELECT v FROM facts WHERE id > 5 ORDER BY v LIMIT 3",
        "SELECT pmod(v, 5), max(id) FROM facts GROUP BY 1",
        "SELECT /*+ BROADCAST(x) */ v FROM facts JOIN (SELECT d FROM dims WHERE w = 12345) x ON "
        "id = d",
        "SELECT /*+ SHUFFLE_HASH(x) */ v FROM facts JOIN (SELECT d FROM dims WHERE w = 12345) x "
        "ON id = d",
    ]
    read = [chunks(host.sees(sql, WHOLE), table) for sql in texts]
    for sql, ranges in zip(texts, read, strict=True):
        assert sum(ranges.values()) == sum(read[0].values()), sql
        assert len({inode for inode, _ in ranges}) == FILES, sql
    # Which columns these are shows.
    assert sum(chunks(host.sees("SELECT v FROM facts", WHOLE), table).values()) < sum(
        read[0].values()
    )


def test_a_limit_shows_whether_it_was_reached_unless_all_is_read(host: Host) -> None:
    # Rows that pass at once, and none that pass.
    conditions = ("v + id >= v - id", "v + id < v - id")
    # One task for all files, so that there is something left when it has its rows.
    wide = {"spark.coffer.scan.targetBytes": "16777216"}

    def read(conf: dict[str, str]) -> list[Counter[int]]:
        files: list[Counter[int]] = []
        for condition in conditions:
            seen = host.sees(f"SELECT u FROM facts WHERE {condition} LIMIT 3", {**conf, **wide})
            files.append(Counter())
            for (inode, _), length in chunks(seen, host.sealed["facts"]).items():
                files[-1][inode] += length
        return files

    reached, never = read(WHOLE)
    assert reached == never and len(never) == FILES
    reached, never = read(NONE)
    assert sum(reached.values()) < sum(never.values())


# ---- writes ------------------------------------------------------------------------------------


def test_a_write_shows_files_their_sizes_and_how_many_partition_values_a_task_met(
    host: Host, tmp_path: Path
) -> None:
    def written(name: str, query: str, conf: dict[str, str] = NONE, how: str = "") -> list[int]:
        folder = tmp_path / name
        host.sees(f"CREATE TABLE {name} USING coffer {how} LOCATION '{folder}' AS {query}", conf)
        return sorted(file.stat().st_size for file in folder.rglob("*.parquet"))

    rows = "SELECT v FROM facts WHERE id % 8000 < {}"
    few, many = written("few", rows.format(500)), written("many", rows.format(4000))
    assert len(few) == len(many) == FILES
    # A value and its number in a dictionary.
    assert all(
        8 * 3500 < large - small < 11 * 3500 for small, large in zip(few, many, strict=True)
    ), (few, many)
    # Of a file its row groups' column chunks, when they are read.
    read = [
        sum(chunks(host.sees(f"SELECT v FROM {name}", NONE), tmp_path / name).values())
        for name in ("few", "many")
    ]
    assert 0 < 2 * read[0] < read[1]
    # Which rows they were does not show.
    others = written("others", "SELECT u FROM facts WHERE id % 8000 >= 4000")
    assert all(abs(one - other) < 64 for one, other in zip(many, others, strict=True)), (
        many,
        others,
    )
    # Four tasks, each of which met so many values; the values are in no path (and long enough that
    # no random name of a file holds their digits by chance).
    for values in (2, 5):
        text = f"SELECT v, pmod(v, {values}) + {MARK}L AS p FROM facts WHERE id % 8000 < 100"
        assert len(written(f"parted{values}", text, how="PARTITIONED BY (p)")) == FILES * values
        assert not any(MARK in str(file) for file in (tmp_path / f"parted{values}").rglob("*"))
    # Not padded, as the document says.
    padded = written("padded", rows.format(500), POW2)
    assert all(abs(one - other) < 64 for one, other in zip(few, padded, strict=True)), (few, padded)


# The last test: over all that crossed in those before, and enough to have some of each kind.
def test_sealed_messages_are_padded_always(host: Host) -> None:
    host.sees("SELECT v FROM facts WHERE v > (SELECT max(v) FROM facts WHERE id < 5)", NONE)
    failures(host, "CAST(v AS INT)")
    kinds = {name for task in host.all for name, lengths in task.sealed.items() if lengths}
    assert kinds == MESSAGE_OVERHEAD.keys()
    for task in host.all:
        for name, lengths in task.sealed.items():
            for length in lengths:
                plain = length - MESSAGE_OVERHEAD[name]
                assert plain >= SHORTEST_MESSAGE and plain.bit_count() == 1, (name, length)
