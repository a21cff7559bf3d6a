"""What the audit log says of queries and commands, and that nothing is released without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.answers import encode
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from conftest import CONF

ROLES = """
[roles.some]
tables.staff = ["id", "name"]
[users.ann]
roles = ["some"]
"""


def encoded(rows: list[list[object]]) -> list[list[object]]:
    """Rows as a driver's answer has them."""
    return [[encode(value) for value in row] for row in rows]


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Owner:
    made = Owner.create(tmp_path_factory.mktemp("audit") / "trusted")
    made.sign(made.policy + ROLES)
    return made


@pytest.fixture(scope="module")
def sealed(owner: Owner) -> dict[str, Path]:
    folder = owner.config_dir.parent.parent
    rows = {"id": range(100), "name": [f"name {i}" for i in range(100)], "salary": range(100)}
    pq.write_table(pa.table(rows), folder / "staff.parquet", row_group_size=20)
    return owner.encrypt({"staff": folder / "staff.parquet"}, folder / "sealed")


@pytest.fixture(scope="module")
def ann(owner: Owner, sealed: dict[str, Path]) -> Iterator[Driver]:
    with Driver(
        sealed,
        sealed=True,
        log=owner.config_dir.parent / "ann.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={**CONF, "spark.coffer.user": "ann"},
    ) as driver:
        yield driver


def shown(owner: Owner, *arguments: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in owner.coffer("audit", "show", "--json", *arguments).stdout.splitlines()
    ]


def test_a_query_is_recorded(owner: Owner, ann: Driver) -> None:
    sql = "select name, count(*) from staff where id between 17 and 18 group by name"
    before = len(shown(owner))
    ann.query(sql)
    records = shown(owner)[before:]
    assert records and {r["event"]["action"] for r in records} == {"release"}
    for record in records:
        assert (record["who"]["user"], record["event"]["outcome"]) == ("ann", "granted")
        assert record["event"]["query"]["text"] == sql
        (engine,) = record["event"]["engines"]
        assert engine["kind"] == "simulated" and len(engine["evidence"]) == 64
    (table,) = records[-1]["event"]["tables"]
    assert (table["name"], table["version"], table["columns"]) == ("staff", 1, ["id", "name"])
    # The log itself has no word of the query.
    assert "between" not in (owner.config_dir / "audit" / "log").read_text()


def test_a_query_of_the_data_frame_interface_shows_its_plan(owner: Owner, ann: Driver) -> None:
    ann.run("result = spark.table('staff').where('id = 4242').select('name').count()")
    assert "4242" in shown(owner)[-1]["event"]["query"]["text"]


@pytest.mark.parametrize(
    "sql",
    [
        "select salary from staff",
        "select name, count(*) from staff where id < 5 group by name having max(salary) > 3",
        "select a.id from staff a join staff b on a.id = b.salary",
    ],
)
def test_a_refusal_is_recorded(owner: Owner, ann: Driver, sql: str) -> None:
    before = len(shown(owner))
    with pytest.raises(QueryFailed, match=r"denied_column.*staff\.salary"):
        ann.query(sql)
    # One record, and no key left before it.
    (refused,) = shown(owner)[before:]
    event = refused["event"]
    assert (event["action"], event["outcome"], event["code"]) == (
        "read",
        "refused",
        "denied_column",
    )
    assert refused["who"]["user"] == "ann"
    assert [(table["name"], table["columns"]) for table in event["tables"]] == [
        ("staff", ["salary"])
    ]
    assert shown(owner, "--refusals")[-1] == refused


def test_explain_of_a_refused_query_says_why(ann: Driver) -> None:
    told = ann.run(
        "result = ' '.join(row[0] for row in spark.sql('explain select salary from "
        "staff').collect())"
    )
    assert "staff.salary" in told and "denied_column" in told


def test_a_table_that_is_none_is_recorded(owner: Owner, ann: Driver) -> None:
    with pytest.raises(QueryFailed):
        ann.run("spark.read.format('coffer').option('name', 'no_such_table').load().collect()")
    refused = shown(owner, "--refusals")[-1]
    assert (refused["event"]["action"], refused["event"]["code"], refused["who"]["user"]) == (
        "open table",
        "table",
        "ann",
    )


def test_commands_are_recorded(owner: Owner, sealed: dict[str, Path], tmp_path: Path) -> None:
    owner.coffer(
        "keys",
        "export-keks",
        "--table",
        "staff",
        "--columns",
        "name",
        "--output",
        tmp_path / "keks.json",
    )
    owner.coffer("decrypt", sealed["staff"], tmp_path / "plain")
    encrypted, exported, decrypted = (
        [r for r in shown(owner, "--table", "staff") if r["event"]["action"] == action][-1]
        for action in ("encrypt", "export keks", "decrypt")
    )
    assert exported["event"]["tables"][0]["columns"] == ["name"]
    assert decrypted["event"]["tables"][0]["columns"] == ["id", "name", "salary"]
    assert {r["who"]["user"] for r in (encrypted, exported, decrypted)} == {"(owner)"}


@pytest.mark.usefixtures("sealed")
def test_show_filters_and_verify_finds_what_was_done(owner: Owner) -> None:
    every = shown(owner)
    assert [r["sequence"] for r in every] == list(range(1, len(every) + 1))
    assert shown(owner, "--since", "2999-01-01") == []
    assert len(shown(owner, "--since", "2000-01-01")) == len(every)
    assert owner.coffer("audit", "show", "--since", "soon", check=False).returncode == 2
    assert owner.coffer("audit", "show").stdout.count("\n") >= len(every)
    assert "is whole" in owner.coffer("audit", "verify").stdout

    log = owner.config_dir / "audit" / "log"
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    changes = {
        1: [lines[0].replace(b"granted", b"refused"), *lines[1:]],
        2: [lines[0], *lines[2:]],
        len(lines): lines[:-1],
    }
    try:
        for record, changed in changes.items():
            log.write_bytes(b"".join(changed))
            found = owner.coffer("audit", "verify", check=False)
            assert found.returncode == 1 and f"broken at record {record}:" in found.stderr
            report = json.loads(owner.coffer("audit", "verify", "--json", check=False).stdout)
            assert (report["whole"], report["broken"]["record"]) == (False, record)
    finally:
        log.write_bytes(whole)


def test_without_a_log_nothing_is_released(
    owner: Owner, sealed: dict[str, Path], ann: Driver, tmp_path: Path
) -> None:
    log = owner.config_dir / "audit" / "log"
    kept = log.rename(tmp_path / "log")
    log.mkdir()
    try:
        with pytest.raises(QueryFailed, match=r"(?s)audit.*nothing was released"):
            ann.query("select count(name) from staff")
        for command in (
            ["decrypt", sealed["staff"], tmp_path / "plain"],
            ["keys", "export-keks", "--table", "staff", "--output", tmp_path / "keks"],
        ):
            failed = owner.coffer(*command, check=False)
            assert failed.returncode == 5 and "nothing was released" in failed.stderr
        assert not (tmp_path / "plain").exists() and not (tmp_path / "keks").exists()
    finally:
        log.rmdir()
        kept.rename(log)
    assert ann.query("select count(name) from staff").rows == encoded([[100]])
