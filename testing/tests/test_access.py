"""Users who may read some columns only: refused by name, or NULL on request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing.answers import encode
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from conftest import CONF

ROLES = """
[tables.badges.columns]
holder = { protection = "det", link = "person" }
code = "std"

[roles.floor]
tables.staff = ["id", "name", "dept"]
tables.badges = ["holder"]
[roles.builder]
tables.made = "*"
write = ["made"]
write_roots = ["FOLDER"]
[users.ann]
roles = ["floor"]
[users.bea]
roles = ["floor", "builder"]
"""

NULLS = {"spark.coffer.deniedColumns": "null"}


def encoded(rows: list[list[object]]) -> list[list[object]]:
    """Rows as a driver's answer has them."""
    return [[encode(value) for value in row] for row in rows]


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> tuple[Owner, dict[str, Path], Path]:
    """Two sealed tables, and a policy in which ann has some of their columns."""
    folder = tmp_path_factory.mktemp("access")
    owner = Owner.create(folder / "trusted")
    owner.sign(owner.policy + ROLES.replace("FOLDER", str(folder)))
    count = 40
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string(), nullable=False),
            pa.field("dept", pa.string()),
            pa.field("salary", pa.int64(), nullable=False),
        ]
    )
    rows = {
        "id": range(count),
        "name": [f"person {i}" for i in range(count)],
        "dept": [["a", "b"][i % 2] for i in range(count)],
        "salary": [1000 + i for i in range(count)],
    }
    files = {name: folder / f"{name}.parquet" for name in ("staff", "badges")}
    pq.write_table(pa.table(rows, schema=schema), files["staff"], row_group_size=10)
    pq.write_table(
        pa.table({"holder": range(0, count, 4), "code": ["x"] * (count // 4)}), files["badges"]
    )
    return owner, owner.encrypt(files, folder / "sealed"), folder


def _driver(staff: tuple[Owner, dict[str, Path], Path], user: str | None) -> Driver:
    owner, sealed, folder = staff
    return Driver(
        sealed,
        sealed=True,
        log=folder / f"{user}.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={**CONF, **({"spark.coffer.user": user} if user else {})},
    )


@pytest.fixture(scope="module")
def ann(staff: tuple[Owner, dict[str, Path], Path]) -> Iterator[Driver]:
    with _driver(staff, "ann") as driver:
        yield driver


def test_allowed_columns_are_read(ann: Driver) -> None:
    rows = ann.query(
        "select dept, count(*), max(id) from staff where name <> 'person 0' group by dept order "
        "by dept"
    ).rows
    assert rows == encoded([["a", 19, 38], ["b", 20, 39]])
    assert ann.query("select count(*) from staff").rows == encoded([[40]])
    joined = "select count(*), max(name) from staff join badges on id = holder"
    assert ann.query(joined).rows == encoded([[10, "person 8"]])


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("select salary from staff", "staff.salary"),
        ("select * from staff", "staff.salary"),
        ("select name from staff where salary > 1010", "staff.salary"),
        ("select sum(salary) from staff group by dept", "staff.salary"),
        ("select name from staff order by salary limit 3", "staff.salary"),
        ("select count(*) from staff a join staff b on a.salary = b.id", "staff.salary"),
        ("select name from staff where id in (select salary from staff)", "staff.salary"),
        ("select id, (select max(salary) from staff) from staff", "staff.salary"),
        ("select code from badges", "badges.code"),
        ("select holder from badges where code = 'x'", "badges.code"),
    ],
)
def test_a_denied_column_fails_with_its_name(ann: Driver, sql: str, column: str) -> None:
    with pytest.raises(QueryFailed, match=rf"denied_column.*{column}"):
        ann.query(sql)


def test_the_schema_may_be_seen(ann: Driver) -> None:
    schema = ann.run("result = spark.table('staff').schema.simpleString()")
    assert schema == "struct<id:bigint,name:string,dept:string,salary:bigint>"


@pytest.mark.parametrize(
    ("sql", "want"),
    [
        ("select id, salary from staff where id < 2 order by id", [[0, None], [1, None]]),
        ("select * from staff where id = 3", [[3, "person 3", "b", None]]),
        ("select count(*) from staff where salary > 0", [[0]]),
        ("select count(*) from staff where salary is null", [[40]]),
        ("select count(*) from staff where not (salary > 0) or salary is not null", [[0]]),
        (
            "select count(salary), sum(salary), max(salary), count(*) from staff",
            [[0, None, None, 40]],
        ),
        (
            "select dept, sum(salary) from staff group by dept order by dept",
            [["a", None], ["b", None]],
        ),
        ("select salary, count(*) from staff group by salary", [[None, 40]]),
        ("select coalesce(salary, -1), id from staff where id = 5", [[-1, 5]]),
        ("select count(*) from staff a join staff b on a.salary = b.salary", [[0]]),
        (
            "select count(*) from staff a left join staff b on a.salary = b.salary where b.id is "
            "null",
            [[40]],
        ),
        (
            "select count(*) from staff a join staff b on a.salary <=> b.salary and a.id = b.id",
            [[40]],
        ),
        ("select max(code), count(*) from badges", [[None, 10]]),
        (
            "select name, code from staff join badges on id = holder where id = 8",
            [["person 8", None]],
        ),
        ("select id from staff where id in (select salary from staff)", []),
        ("select id, (select max(salary) from staff) from staff where id = 1", [[1, None]]),
        ("select id, salary from staff order by salary, id limit 2", [[0, None], [1, None]]),
        ("with s as (select * from staff) select count(salary), count(id) from s", [[0, 40]]),
    ],
)
def test_denied_columns_as_null(ann: Driver, sql: str, want: list[list[object]]) -> None:
    assert ann.query(sql, NULLS).rows == encoded(want)


def test_data_frames_have_nulls_too(ann: Driver) -> None:
    code = (
        "spark.conf.set('spark.coffer.deniedColumns', 'null')\n"
        "df = spark.table('staff')\n"
        "result = [list(r) for r in "
        "df.join(df.withColumnRenamed('salary', 's').select('id', 's'), 'id')"
        ".where('id = 7').select('id', 'salary', 's').collect()]\n"
        "spark.conf.unset('spark.coffer.deniedColumns')"
    )
    assert ann.run(code) == [[7, None, None]]


def test_writes_take_a_role_that_may_write(
    staff: tuple[Owner, dict[str, Path], Path], ann: Driver
) -> None:
    folder = staff[2]
    make = (
        f"create table made using coffer location '{folder / 'made'}' as select id, dept from staff"
    )
    with pytest.raises(QueryFailed, match="denied_write"):
        ann.query(make.replace("made", "stolen"))
    assert not (folder / "stolen").exists()
    with _driver(staff, "bea") as bea:
        bea.query(make)
        bea.query("insert into made select id + 100, dept from staff where id < 5")
        assert bea.query("select count(*) from made").rows == encoded([[45]])
        with pytest.raises(QueryFailed, match=r"denied_column.*staff\.salary"):
            bea.query("insert into made select salary, dept from staff")
        with pytest.raises(QueryFailed, match="denied_write"):
            bea.run(
                "spark.sql('select id, name, dept, 1L salary from "
                "staff').write.format('coffer').mode('append').save(p)",
                p=str(folder / "sealed" / "staff"),
            )


def test_a_user_that_the_policy_does_not_name(staff: tuple[Owner, dict[str, Path], Path]) -> None:
    with (
        pytest.raises((QueryFailed, RuntimeError), match="names no user"),
        _driver(staff, "eve") as driver,
    ):
        driver.query("select 1")


def test_the_owner_has_everything(staff: tuple[Owner, dict[str, Path], Path]) -> None:
    with _driver(staff, None) as driver:
        assert driver.query(
            "select sum(salary), count(code) from staff left join badges on id = holder"
        ).rows == encoded([[40780, 10]])
