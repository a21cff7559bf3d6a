"""`coffer policy advise`: what it proposes shows no more than needed, is taken by `coffer encrypt`,
and runs."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer.advise import checks, domains, tables, workload
from coffer.advise.command import AdviseError
from coffer_testing import tpch
from coffer_testing.answers import difference
from coffer_testing.owner import Owner
from coffer_testing.queries import TPCH_OFFICIAL
from coffer_testing.runner import Driver
from conftest import CONF, TPCH_SCALE, TPCH_TABLES, Expected

HOSTS = {"spark.coffer.enclave": "none", "spark.coffer.client.maxBytes": "8g"}
EXPLAIN = (
    "mode = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString('formatted')\n"
    "result = spark.sql(sql)._jdf.queryExecution().explainString(mode)"
)


@dataclass
class Advised:
    """What was said of TPC-H, and the tables sealed under the policy for engines without keys."""

    said: dict[str, Any]
    owner: Owner
    policy: str
    driver: Driver
    sizes: tuple[int, int]


@pytest.fixture(autouse=True)
def this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_PYTHON", sys.executable)


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Advised]:
    folder = tmp_path_factory.mktemp("advised")
    queries = folder / "queries"
    queries.mkdir()
    for number in TPCH_OFFICIAL:
        (queries / f"q{number}.sql").write_text(tpch.query(number))
    owner = Owner.create(folder / "trusted")
    data = tpch.data(TPCH_SCALE)
    proposed = folder / "hosts.toml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COFFER_PYTHON", sys.executable)
        given = (
            queries,
            data["region"].parent,
            "--without-enclaves",
            "--write",
            proposed,
            "--json",
        )
        said = owner.coffer("policy", "advise", *given)
    owner.sign(proposed.read_text())
    policy = proposed.read_text()
    sealed = owner.encrypt({table: data[table] for table in TPCH_TABLES}, folder / "sealed")
    plain = sum(data[table].stat().st_size for table in TPCH_TABLES)
    stored = sum(file.stat().st_size for file in (folder / "sealed").rglob("*.parquet"))
    config_dir, passphrase = owner.config_dir, owner.passphrase_file
    log = folder / "driver.log"
    with Driver(
        sealed,
        sealed=True,
        log=log,
        config_dir=config_dir,
        passphrase_file=passphrase,
        conf={**CONF, **HOSTS},
    ) as driver:
        yield Advised(json.loads(said.stdout), owner, policy, driver, (plain, stored))


def test_enclaves_need_nothing_but_tee(advised: Advised) -> None:
    enclaves = advised.said["enclaves"]
    assert all(protections == ["tee"] for protections in enclaves["columns"].values())
    assert len(enclaves["columns"]) == 61
    assert all(plan["refusal"] is None for plan in enclaves["plans"])
    assert enclaves["warnings"] == []


def test_hosts_see_what_some_query_needs(advised: Advised) -> None:
    hosts = advised.said["hosts"]
    assert all(plan["refusal"] is None for plan in hosts["plans"])
    revealing = {
        column
        for column, protections in hosts["columns"].items()
        if {"det", "ope", "ore"} & set(protections)
    }
    assert revealing
    # Each of them is shown for a reason, and what is only carried along or not asked for shows
    # nothing.
    assert all(hosts["saves"][column] for column in revealing)
    assert hosts["columns"]["customer.c_address"] == ["std"]
    assert hosts["columns"]["lineitem.l_comment"] == ["tee"]
    assert "plain" not in {p for protections in hosts["columns"].values() for p in protections}
    assert any(warning["id"] == "host-results" for warning in hosts["warnings"])
    total = sum(plan["client_bytes"] for plan in hosts["plans"])
    assert total < hosts["all_std_values_to_client"]


def test_the_size_is_about_what_it_becomes(advised: Advised) -> None:
    plain, stored = advised.sizes
    assert advised.said["hosts"]["ratio"] == pytest.approx(stored / plain, rel=0.3)


OPERATORS = {"Filter", "Join", "Aggregate", "Sort"}


def _operators(lines: list[str]) -> set[str]:
    """Whatever Spark or an engine calls them: SortMergeJoin, Hash join, Top rows."""
    names = {
        "Filter": "Filter",
        "[Jj]oin": "Join",
        "Aggregate": "Aggregate",
        "Sort( |$)|Top rows|TakeOrdered": "Sort",
    }
    return {
        name for pattern, name in names.items() if any(re.search(pattern, line) for line in lines)
    }


@pytest.mark.parametrize("number", TPCH_OFFICIAL)
def test_the_proposal_plans_as_explain_does(number: int, advised: Advised) -> None:
    text = advised.driver.run(EXPLAIN, sql=tpch.query(number))
    text = text[text.index("no enclaves: fragments run in host engines") :]
    assert "UNVERIFIED" in text
    plan = next(plan for plan in advised.said["hosts"]["plans"] if plan["name"] == f"q{number}")
    # What comes to the client, and as what, in whatever order; how much is a guess, for which the
    # advisor looked at the data.
    brought = re.findall(
        r"^brought to the client engine: (.*?)(?: \(about .*\))?$", text, re.MULTILINE
    )
    parts = {tuple(sorted(line.split(", "))) for line in brought}
    assert parts == {tuple(sorted(columns)) for columns in plan["brought"]}
    # What hosts do: each fragment ends with what they learn by its operators.
    learned = re.findall(r"^ +((?:Filter|Join|Aggregate|Sort|Top rows)[^:]*):", text, re.MULTILINE)
    assert _operators(learned) == OPERATORS & {name for work in plan["hosts"] for name in work}
    # What is done at the client: not indented, unlike what ends a fragment there.
    client = re.findall(r"^by the client engine:(.*\n(?: .*\n)*)", text, re.MULTILINE)
    assert _operators("".join(client).splitlines()) == OPERATORS & set(plan["client"])


@pytest.mark.parametrize("number", [6, 22])
def test_the_proposal_answers(number: int, advised: Advised, expected: Expected) -> None:
    sql = tpch.query(number)
    assert difference(expected.answer(sql), advised.driver.query(sql), ordered=True) is None


EMPLOYEES = """
CREATE TABLE employees (name STRING, age INT, category STRING, salary DECIMAL(12,2));
"""
QUERY = """
-- The tutorial's; and one that runs nowhere.
SELECT category, avg(salary) AS average, count(*) FROM employees
WHERE age BETWEEN 25 AND 30 GROUP BY category;
SELECT input_file_name(), name FROM employees WHERE name = 'x;y';
"""


def test_words_and_refusals(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(QUERY)
    (tmp_path / "tables.sql").write_text(EMPLOYEES)
    owner = Owner.create(tmp_path / "trusted")
    written = tmp_path / "enclaves.toml"
    said = owner.coffer(
        "policy",
        "advise",
        tmp_path / "queries.sql",
        tmp_path / "tables.sql",
        "--write",
        written,
        check=False,
    )
    assert said.returncode == 1, said.stderr
    assert "by its types alone" in said.stdout
    assert "input_file_name" in said.stdout
    assert 'age = "ore"' in said.stdout
    # A DECIMAL(12,2) without a domain is too wide to add up a million of: groups that hosts make
    # would then serve nothing.
    assert 'salary = "std"' in said.stdout
    assert 'category = "std"' in said.stdout
    assert tomllib.loads(written.read_text())["tables"]["employees"]["columns"]["age"] == "tee"

    in_use = owner.config_dir / "policy.toml"
    before = in_use.read_text()
    (tmp_path / "nested.sql").write_text("CREATE TABLE n (a ARRAY<INT>);")
    for given, why in [
        (
            (tmp_path / "queries.sql", tmp_path / "tables.sql", "--write", in_use),
            "is there already",
        ),
        ((tmp_path / "queries.sql", tmp_path / "nested.sql"), "nested types are not supported"),
        ((tmp_path / "queries.sql", tmp_path / "nothing.parquet"), "there is nothing at"),
        ((tmp_path / "nothing.sql", tmp_path / "tables.sql"), "there is nothing at"),
    ]:
        said = owner.coffer("policy", "advise", *given, check=False)
        assert (said.returncode, why in said.stderr) == (2, True), said.stderr
        assert "Traceback" not in said.stderr
    assert in_use.read_text() == before


def test_sealed_tables_may_be_named(tmp_path: Path) -> None:
    owner = Owner.create(tmp_path / "trusted")
    sealed = owner.encrypt({"nation": tpch.data(TPCH_SCALE)["nation"]}, tmp_path / "sealed")[
        "nation"
    ]
    (tmp_path / "queries.sql").write_text("SELECT n_name FROM nations WHERE n_regionkey = 1")
    said = owner.coffer("policy", "advise", tmp_path / "queries.sql", f"nations={sealed}")
    assert "nations: 25 rows" in said.stdout
    assert 'n_regionkey = "det"' in said.stdout


def test_statements_are_taken_apart() -> None:
    text = "-- a; b\nSELECT ';', \"x;y\" FROM `t;u` /* ; */ ; ;\n-- only a comment;\nSELECT 2"
    assert [part.split()[-1] for part in workload.split(text)] == ["*/", "2"]


def test_domains_have_room() -> None:
    age = tables.Column("age", "INT", low=18, high=67)
    assert domains.written(domains.of([age]), age) == "[0, 200]"
    zero = tables.Column("zero", "INT", low=0, high=0)
    assert domains.written(domains.of([zero]), zero) == "[0, 10]"
    day = tables.Column("day", "DATE", low=8036, high=10591)
    assert domains.written(domains.of([day]), day) == '["1991-01-01", "2008-12-31"]'
    price = tables.Column("price", "DECIMAL(12,2)", low=-3.5, high=104949.5)
    found = domains.of([price])
    assert domains.written(found, price) == '["-10.00", "500000.00"]'
    rows = domains.summed_rows(found, 5_000_000)
    assert rows is not None and rows > 5_000_000 and rows * (found.size - 1) < 1 << 64
    assert domains.summed_rows(domains.of([tables.Column("n", "BIGINT")]), 10) is None
    assert domains.of([tables.Column("s", "STRING")]) is None


def test_bounds_are_of_the_whole_column(tmp_path: Path) -> None:
    def read(name: str) -> tables.Column:
        return tables.read([str(tmp_path / name)], lambda _: [], tmp_path, None)[0].columns[0]

    (tmp_path / "few.csv").write_text("v\n" + "\n".join(map(str, range(100))))
    assert (read("few.csv").low, read("few.csv").high) == (0, 99)
    # Some megabytes: what lies behind the first block is larger.
    (tmp_path / "many.csv").write_text("v\n" + "\n".join(map(str, range(400_000))))
    assert (read("many.csv").low, read("many.csv").high) == (None, None)
    assert domains.of([read("many.csv")]) == domains.of([tables.Column("v", "BIGINT")])
    (tmp_path / "five").mkdir()
    for number in range(5):
        (tmp_path / "five" / f"part-{number}.csv").write_text(f"v\n{number}\n")
    assert read("five").high is None

    values = pa.table({"v": range(200_000)})
    for name, statistics, bounds in (
        ("with", True, (0, 199_999)),
        ("without", False, (None, None)),
    ):
        pq.write_table(
            values, tmp_path / f"{name}.parquet", write_statistics=statistics, row_group_size=1_000
        )
        assert (read(f"{name}.parquet").low, read(f"{name}.parquet").high) == bounds
    pq.write_table(values.slice(0, 1_000), tmp_path / "small.parquet", write_statistics=False)
    assert (read("small.parquet").low, read("small.parquet").high) == (0, 999)
    # Nanoseconds have statistics that Python cannot hold.
    moments = pa.table({"v": pa.array(range(0, 200_000 * 10**12, 10**12), pa.timestamp("ns"))})
    pq.write_table(moments, tmp_path / "moments.parquet")
    assert read("moments.parquet").high is None


def test_what_is_proposed_of_a_long_csv_encrypts(tmp_path: Path) -> None:
    count = 400_000
    (tmp_path / "t.csv").write_text("v,w\n" + "".join(f"{i},{i % 7}\n" for i in range(count)))
    (tmp_path / "queries.sql").write_text("SELECT w, sum(v) FROM t WHERE v > 5 GROUP BY w")
    owner = Owner.create(tmp_path / "trusted")
    proposed = tmp_path / "policy.toml"
    owner.coffer(
        "policy",
        "advise",
        tmp_path / "queries.sql",
        tmp_path / "t.csv",
        "--without-enclaves",
        "--write",
        proposed,
    )
    assert 'v = "ore"' in proposed.read_text()
    owner.sign(proposed.read_text())
    columns = {"v": range(count), "w": [i % 7 for i in range(count)]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    owner.coffer("encrypt", tmp_path / "t.parquet", tmp_path / "sealed" / "t")


def test_columns_may_have_dots_in_their_names(tmp_path: Path) -> None:
    # Tables so large that the join is worth a stage on hosts.
    pq.write_table(pa.table({"x.y": range(2_000), "z": range(2_000)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x.y": range(2_000)}), tmp_path / "b.parquet")
    (tmp_path / "queries.sql").write_text("SELECT count(*) FROM a JOIN b ON a.`x.y` = b.`x.y`")
    owner = Owner.create(tmp_path / "trusted")
    said = owner.coffer(
        "policy",
        "advise",
        tmp_path / "queries.sql",
        tmp_path / "a.parquet",
        tmp_path / "b.parquet",
        "--json",
    )
    hosts = json.loads(said.stdout)["hosts"]
    assert hosts["columns"]["a.x.y"] == hosts["columns"]["b.x.y"] == ["det"]
    assert '"x.y" = { protection = "det", link = "x.y" }' in hosts["policy"]


def test_plain_rows_of_the_check_lie_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"v": [1]}), tmp_path / "t.parquet")
    found = tables.read([str(tmp_path / "t.parquet")], lambda _: [], tmp_path, None)
    places = []

    def coffer(environment: dict[str, str], *_: str) -> str:
        config_dir = Path(environment["COFFER_CONFIG_DIR"])
        places.append((config_dir.parent.parent, config_dir.parent.stat().st_mode & 0o777))
        return '{"tables": [], "warnings": []}'

    monkeypatch.setattr(checks, "_coffer", coffer)
    for memory, room, place in (
        (tmp_path, 0, tmp_path),
        (tmp_path, 1 << 62, Path(tempfile.gettempdir())),
        (tmp_path / "none", 0, Path(tempfile.gettempdir())),
    ):
        monkeypatch.setattr(checks, "_MEMORY", memory)
        monkeypatch.setattr(checks, "_ROOM", room)
        checks.check("", found)
        assert set(places) == {(place, 0o700)}
        places.clear()


def test_tables_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "all" / "parted").mkdir(parents=True)
    source = tpch.data(TPCH_SCALE)["nation"]
    table = pq.read_table(source)
    pq.write_table(table, tmp_path / "all" / "nation.parquet")
    pq.write_table(table, tmp_path / "all" / "parted" / "part-0.parquet")
    pq.write_table(table, tmp_path / "all" / "parted" / "part-1.parquet")
    (tmp_path / "all" / "ages.csv").write_text("who,age\na,3\nb,4\n")
    found = {t.name: t for t in tables.read([str(tmp_path / "all")], lambda _: [], tmp_path, None)}
    assert {name: t.rows for name, t in found.items()} == {"nation": 25, "parted": 50, "ages": 2}
    assert found["nation"].column("n_regionkey").distinct == 5
    assert found["ages"].column("age").type == "BIGINT"
    with pytest.raises(AdviseError, match="two tables"):
        tables.read([str(source), f"nation={source}"], lambda _: [], tmp_path, None)
