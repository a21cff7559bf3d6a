"""Columns under several protections: plaintext Spark's rows, with enclaves and without."""

from __future__ import annotations

import datetime
import functools
import json
import random
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer_testing import policies, tpch
from coffer_testing.answers import difference
from coffer_testing.owner import Owner
from coffer_testing.queries import TPCH_OFFICIAL
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.turns import in_turns, one_of
from conftest import CONF, TPCH_SCALE, TPCH_TABLES, Expected

# Those in which every table and every kind of operator is met.
AT_HOME = (1, 3, 6, 11, 13, 15, 16, 18, 21, 22)

EXPLAINED = (
    "df = spark.sql(sql)\nresult = df._jdf.queryExecution().explainString("
    "spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString('formatted'))"
)
METADATA = (
    "import coffer\ndf = spark.sql(sql)\n"
    "result = [coffer.to_arrow(df).schema.metadata[b'coffer.verified'].decode(), "
    "coffer.to_pandas(df).attrs['coffer.verified'], coffer.verified(df)]"
)

# All `tee` is test_tpch.py.
PROTECTED = [name for name in policies.NAMES if name != "tee"]

EMPLOYEES = """
[tables.employees.columns]
id = "det"
name = "std"
age = { protection = [OPEN_OR_DET, "ope"], domain = [0, 150] }
category = { protection = "det", link = "category" }
salary = SALARY
bonus = { protection = "ashe", domain = ["0.00", "10000.00"], rows = 100000 }
hired = "ope"
note = "det"
grade = ["ore", "std"]
code = { protection = ["ope", "std"], prefix = 3 }
word = { protection = ["ore", "std"], prefix = 3 }

[tables.categories.columns]
cat = { protection = "det", link = "category" }
label = "LABEL"
"""

QUERIES = [
    "select count(*) from employees",
    "select category, avg(salary) from employees where age between 25 and 30 group by category "
    "order by category",
    "select name, salary from employees where id = 77",
    "select count(*), count(distinct category), min(hired), max(hired), sum(bonus), avg(bonus) "
    "from employees "
    "where hired >= date'2010-01-01'",
    # Gaps of SafeSpark: ORDER BY over a SUM of a protected column, GROUP BY and ORDER BY on what
    # enclaves alone may open.
    "select category, sum(salary) s from employees group by category order by s desc",
    "select salary, count(*) from employees where id < 50 group by salary order by salary",
    "select age, count(*) from employees where category in ('nurse', 'doctor') group by age order "
    "by age",
    "select label, count(*), sum(bonus) from employees join categories on category = cat group by "
    "label order by label",
    "select id, age, salary from employees where salary > 8990 order by salary desc, id limit 10",
    "select grade, name from employees where grade < 5 order by grade, name",
    "select id from employees where note like '%77' order by id limit 5",
    "select hired, id from employees order by hired, id limit 7",
    "select category, avg(salary) from employees where grade >= 9000 and age <> 40 group by "
    "category having count(*) > 10 "
    "order by 1",
    "select max(age), min(age) from employees where category = 'no such'",
    "select max(age), min(age), sum(bonus), avg(bonus), count(bonus) from employees where id < 0",
    "select count(*) from employees where age > 1000 or age < -5",
    "select count(*) from employees where not (age <= 1000)",
    "select count(*) from employees where age in (1000, 30, 31)",
    "select name from employees where category is null and age is null and id < 400 order by name",
    "select a.id, b.label from employees a left join categories b on a.category = b.cat where "
    "a.id < 10 order by a.id",
    "select id from employees where category not in (select cat from categories where label "
    "<> 'N') order by id limit 3",
    "select id from employees where exists (select 1 from categories where cat = category and "
    "label = 'C') "
    "order by id limit 3",
    "select year(hired) y, sum(salary) from employees where age > (select avg(age) from "
    "employees) group by year(hired) "
    "order by y limit 5",
    "select id, bonus from employees where id < 5 union all select id, salary from employees "
    "where id < 3 order by 1, 2",
    "select category from employees where hired < date'2001-06-01' union all select name from "
    "employees where hired > "
    "date'2024-01-01'",
    "select distinct category from employees order by category",
    # Texts of which only three bytes are in the order: what is equal there may differ.
    "select count(*) from employees where code = 'abc12'",
    "select count(*), min(code), max(word) from employees where code > 'abc5' and word <= 'abd'",
    "select count(*) from employees where word = 'abc12' or code = 'ab'",
    "select code, count(*) from employees where code < 'abb7' group by code order by code",
    "select word, id from employees where word >= 'abe99' order by word, id limit 5",
    "select count(*) from employees where category in ('nurse', null)",
    "select a.category, count(*) from employees a join employees b on a.age = b.age and a.id = "
    "b.id group by a.category "
    "order by 1",
]


class Protected:
    """Coffer over TPC-H under one policy after the other: a driver that is made when its policy's
    turn comes, and ended with it."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._open = ExitStack()
        self._driver: Driver | None = None
        self._name = ""

    def under(self, name: str) -> Driver:
        if self._driver is None or name != self._name:
            self.close()
            folder = self._folders.mktemp(name)
            owner = Owner.create(folder / "trusted")
            policies.write(name, owner)
            data = tpch.data(TPCH_SCALE)
            sealed = owner.encrypt({table: data[table] for table in TPCH_TABLES}, folder / "sealed")
            driver = _driver(sealed, owner, folder, policies.conf(name))
            self._driver, self._name = self._open.enter_context(driver), name
        return self._driver

    def close(self) -> None:
        self._driver = None
        self._open.close()


# No fixture with the policies as parameters: where a test has parameters beside them, pytest makes
# a fixture anew for each of their pairs.
@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    drivers = Protected(tmp_path_factory)
    yield drivers
    drivers.close()


# Of query 5 adaptive execution plans the rest again when what is not all `tee` has been read, and
# must still go without Spark's Bloom filters.
@pytest.mark.parametrize(
    ("number", "policy"), in_turns(TPCH_OFFICIAL, PROTECTED, 4, always=["5-mixed"])
)
def test_tpch(number: int, policy: str, expected: Expected, protected: Protected) -> None:
    sql = tpch.query(number)
    got = protected.under(policy).query(sql)
    assert difference(expected.answer(sql), got, ordered=True) is None


@pytest.fixture(scope="module")
def employees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """SafeSpark's example, with NULLs and with columns of every type that a scheme takes."""
    folder = tmp_path_factory.mktemp("employees")
    draw = random.Random(1)
    count = 20_000

    def cents(low: int, high: int) -> Decimal:
        return Decimal(draw.randrange(low, high)) / 100

    start = datetime.date(2000, 1, 1)
    columns = {
        "id": pa.array(range(count), pa.int64()),
        "name": pa.array([f"employee {i}" for i in range(count)]),
        "age": pa.array([draw.choice([None, *range(18, 70)]) for _ in range(count)], pa.int32()),
        "category": pa.array(
            [draw.choice(["nurse", "doctor", "clerk", None]) for _ in range(count)]
        ),
        "salary": pa.array([cents(200_000, 900_000) for _ in range(count)], pa.decimal128(12, 2)),
        "bonus": pa.array(
            [draw.choice([None, cents(0, 90_000)]) for _ in range(count)], pa.decimal128(12, 2)
        ),
        "hired": pa.array(
            [start + datetime.timedelta(days=draw.randrange(9000)) for _ in range(count)]
        ),
        "note": pa.array([f"note {draw.randrange(1000)}" for _ in range(count)]),
        "code": pa.array(
            [
                draw.choice([None, "ab", *(f"ab{c}{i}" for c in "bcde" for i in range(100))])
                for _ in range(count)
            ]
        ),
        "word": pa.array(
            [
                draw.choice([None, "ab", *(f"ab{c}{i}" for c in "bcde" for i in range(100))])
                for _ in range(count)
            ]
        ),
        "grade": pa.array([draw.randrange(10_000) for _ in range(count)], pa.int32()),
    }
    files = {name: folder / f"{name}.parquet" for name in ("employees", "categories")}
    pq.write_table(pa.table(columns), files["employees"], row_group_size=5000)
    pq.write_table(
        pa.table({"cat": ["nurse", "doctor", "clerk"], "label": ["N", "D", "C"]}),
        files["categories"],
    )
    return files


@pytest.fixture(scope="module")
def plain_employees(
    employees: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Expected]:
    folder = tmp_path_factory.mktemp("plain")
    with ExitStack() as stack:

        @functools.cache
        def start() -> Driver:
            driver = Driver(employees, sealed=False, log=folder / "plain.log", conf=CONF)
            return stack.enter_context(driver)

        yield Expected("employees", employees, start)


@pytest.fixture(scope="module", params=["enclaves", "hosts", "client"])
def employed(
    request: pytest.FixtureRequest,
    employees: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Driver]:
    """Coffer over the employees: where enclaves may open the salary; where no engine has a key, and
    needs none; and where none has one although the client engine alone can open the salary."""
    folder = tmp_path_factory.mktemp(request.param)
    owner = _owner(folder, hosts=request.param == "hosts")
    if request.param == "client":
        _accept(owner)
    sealed = owner.encrypt(employees, folder / "sealed")
    conf = {} if request.param == "enclaves" else {"spark.coffer.enclave": "none"}
    with _driver(sealed, owner, folder, conf) as driver:
        yield driver


def _owner(folder: Path, hosts: bool) -> Owner:
    owner = Owner.create(folder / "trusted")
    ashe = '{ protection = "ashe", domain = ["0.00", "10000.00"], rows = 100000 }'
    text = EMPLOYEES.replace("SALARY", ashe if hosts else '"tee"').replace(
        "LABEL", "std" if hosts else "tee"
    )
    text = text.replace("OPEN_OR_DET", '"det"' if hosts else '"tee"')
    owner.sign(owner.policy + text)
    if hosts:
        _accept(owner)
    return owner


def _accept(owner: Owner) -> None:
    """Answers of engines that proved nothing."""
    owner.sign(owner.policy.replace('host_results = "refuse"', 'host_results = "accept"'))


def _driver(sealed: dict[str, Path], owner: Owner, folder: Path, conf: dict[str, str]) -> Driver:
    return Driver(
        sealed,
        sealed=True,
        log=folder / "sealed.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={**CONF, **conf},
    )


@pytest.mark.turns("employed")
@pytest.mark.parametrize("sql", QUERIES)
def test_employees(sql: str, plain_employees: Expected, employed: Driver) -> None:
    ordered = "order by" in sql
    assert difference(plain_employees.answer(sql), employed.query(sql), ordered=ordered) is None


@pytest.mark.turns("employed")
@pytest.mark.parametrize("sql", QUERIES[:8])
def test_without_adaptive_execution(sql: str, plain_employees: Expected, employed: Driver) -> None:
    got = employed.query(sql, {"spark.sql.adaptive.enabled": "false"})
    assert difference(plain_employees.answer(sql), got, ordered="order by" in sql) is None


def test_the_last_rows(employed: Driver) -> None:
    code = "result = [[row.id, row.category] for row in spark.sql(sql).tail(3)]"
    rows = employed.run(code, sql="select id, category from employees where id < 40 order by id")
    assert [row[0] for row in rows] == [37, 38, 39]
    rows = employed.run(code, sql="select id, category from employees where id < 40")
    assert len(rows) == 3


def test_too_much_to_bring_home_is_refused(employed: Driver) -> None:
    with pytest.raises(QueryFailed, match=r"(?s)too_much_at_client.*client\.maxBytes") as failed:
        employed.query(
            "select name from employees order by name", {"spark.coffer.client.maxBytes": "100k"}
        )
    assert "protection" in str(failed.value)


def test_hosts_need_a_policy_that_accepts_them(employees: dict[str, Path], tmp_path: Path) -> None:
    owner = _owner(tmp_path, hosts=False)
    sealed = owner.encrypt({"categories": employees["categories"]}, tmp_path / "sealed")
    with (
        pytest.raises((QueryFailed, RuntimeError), match="host_results"),
        _driver(sealed, owner, tmp_path, {"spark.coffer.enclave": "none"}) as driver,
    ):
        driver.query("select count(*) from categories")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """TPC-H with everything `tee` and no enclave: the client engine does all of it."""
    folder = tmp_path_factory.mktemp("alone")
    owner = Owner.create(folder / "trusted")
    _accept(owner)
    data = tpch.data(TPCH_SCALE)
    sealed = owner.encrypt({table: data[table] for table in TPCH_TABLES}, folder / "sealed")
    with _driver(sealed, owner, folder, {"spark.coffer.enclave": "none"}) as driver:
        yield driver


@pytest.mark.parametrize("number", one_of(AT_HOME, 4))
def test_tpch_at_home(number: int, expected: Expected, alone: Driver) -> None:
    sql = tpch.query(number)
    assert difference(expected.answer(sql), alone.query(sql), ordered=True) is None


def test_what_is_read_at_home_is_bounded_shown_and_verified(alone: Driver) -> None:
    ope = (
        r'(?s)too_much_at_client.*`l_shipdate`.*coffer\.`lineitem`.*"ope" in the policy '
        r"would do.*client\.maxBytes"
    )
    with pytest.raises(QueryFailed, match=ope):
        alone.query(
            "select max(l_shipdate) from lineitem", {"spark.coffer.client.maxBytes": "100k"}
        )
    # Of texts only a prefix has an order: no protection gives hosts the greatest.
    with pytest.raises(
        QueryFailed,
        match=r"(?s)too_much_at_client.*coffer\.`lineitem`.*`l_comment` is compared by size",
    ) as failed:
        alone.query("select max(l_comment) from lineitem", {"spark.coffer.client.maxBytes": "100k"})
    assert "would do" not in str(failed.value)
    # Only while it is read: the condition might have pruned more.
    with pytest.raises(
        QueryFailed,
        match=r"(?s)too_much_at_client.*`l_orderkey` of table `lineitem`.*client\.maxBytes",
    ):
        alone.query(
            "select count(*) from lineitem where l_orderkey > 3",
            {"spark.coffer.client.maxBytes": "100k"},
        )
    text = alone.run(EXPLAINED, sql="select sum(l_tax) from lineitem")
    assert "read by the client engine: coffer.`lineitem`, at most" in text
    assert "l_tax from tee, which no engine may open" in text
    assert "UNVERIFIED" not in text
    assert alone.run(METADATA, sql="select count(*) from region") == ["true", "true", True]


# Whether there is a proof of what a query answers, by fixture: all in enclaves; engines that hold
# no keys; and, where the salary is `tee`, the client engine alone for it, which reads a verified
# table.
VOUCHED = {
    "enclaves": {
        "select id from employees where id = 9": True,
        "select salary from employees where id = 9": True,
    },
    "hosts": {
        "select id from employees where id = 9": False,
        "select sum(bonus) from employees": False,
    },
    "client": {
        "select id from employees where id = 9": False,
        "select salary from employees": True,
    },
}


def test_results_say_whether_somebody_vouches_for_them(
    employed: Driver, request: pytest.FixtureRequest
) -> None:
    for sql, verified in VOUCHED[request.node.callspec.params["employed"]].items():
        assert employed.run(METADATA, sql=sql) == [
            str(verified).lower(),
            str(verified).lower(),
            verified,
        ], sql
        assert ("UNVERIFIED" in employed.run(EXPLAINED, sql=sql)) == (not verified), sql


def test_rows_of_stored_columns_are_written_by_enclaves(
    employees: dict[str, Path], plain_employees: Expected, tmp_path: Path
) -> None:
    owner = _owner(tmp_path, hosts=False)
    sealed = owner.encrypt(employees, tmp_path / "sealed")
    with _driver(sealed, owner, tmp_path, {}) as driver:
        select = (
            "select age, salary, label from employees join categories on category = cat "
            "where age > 30 and salary > 8500"
        )
        driver.run(
            f"spark.sql({select!r}).write.format('coffer').option('name', "
            f"'copy').save({str(tmp_path / 'copy')!r})"
        )
        driver.run(
            f"spark.read.format('coffer').load({str(tmp_path / 'copy')!r})"
            ".createOrReplaceTempView('copy')"
        )
        assert (
            difference(
                plain_employees.answer(select), driver.query("select * from copy"), ordered=False
            )
            is None
        )
        for refused in (
            "insert into copy select age, salary, name from employees",
            "insert into copy select age, salary, upper(name) from employees",
        ):
            with pytest.raises(
                QueryFailed, match=r"(?s)enclaves cannot open.*name.*std.*coffer encrypt"
            ):
                driver.query(refused)
        with pytest.raises(QueryFailed, match=r'(?s)other protections than "tee".*coffer encrypt'):
            driver.query("insert into categories values ('x', 'y')")


def test_explain_says_where_and_what_shows(
    employed: Driver, request: pytest.FixtureRequest
) -> None:
    text = employed.run(EXPLAINED, sql=QUERIES[1])
    site = request.node.callspec.params["employed"]
    assert ("UNVERIFIED" in text, "in host engines" in text) == (site == "hosts", site == "hosts")
    assert ("no engine on executors" in text) == (site == "client")
    if site == "client":
        assert "salary from tee, which no engine may open" in text
        return
    assert ("age as tee" if site == "enclaves" else "age as ope") in text
    assert "category by det: " in text
    assert "category as det: which values are equal; lengths; which are NULL; by link " in text
    assert "by the client engine" in text


def test_explain_says_no_less_than_policy_check(
    employees: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_PYTHON", sys.executable)
    owner = _owner(tmp_path, hosts=True)
    sealed = owner.encrypt(employees, tmp_path / "sealed")
    checked = json.loads(owner.coffer("policy", "check", "--json", check=False).stdout)
    # Of several forms one is read: the others are in the same files.
    read = ["*", "age", "grade"]
    for columns in read:
        said = owner.coffer(
            "explain",
            "--without-enclaves",
            "--json",
            f"select {columns} from employees join categories on category = cat",
        )
        lines = [line.strip() for line in json.loads(said.stdout)["plan"]]
        seen = 0
        for table in checked["tables"]:
            assert table["name"] in sealed
            for column in table["columns"]:
                told = [
                    line.split(": ", 1)[1]
                    for line in lines
                    if line.startswith(f"{column['name']} as ")
                ]
                if not told:
                    continue
                seen += 1
                words = {word for line in told for word in line.split("; ")}
                assert {
                    re.sub(r"first \d+ bytes", "first bytes", word) for word in column["hosts"]
                } <= words
                assert (column["link"] is not None) == any(
                    word.startswith("by link ") for word in words
                )
        assert seen == (13 if columns == "*" else 3)


def test_coffer_explain_runs_nothing(
    employees: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_PYTHON", sys.executable)
    owner = _owner(tmp_path, hosts=True)
    owner.encrypt({"categories": employees["categories"]}, tmp_path / "sealed")
    said = owner.coffer(
        "explain",
        "--without-enclaves",
        "--json",
        "select count(*) from categories where cat = 'nurse'",
    )
    plan = json.loads(said.stdout)
    assert plan["runs"]
    assert any("cat as det: which values are equal; lengths" in line for line in plan["plan"])
    refused = owner.coffer(
        "explain", "select input_file_name(), label from categories", check=False
    )
    assert refused.returncode == 1
    assert "input_file_name" in refused.stderr
    owner = _owner(tmp_path / "enclaves", hosts=False)
    owner.encrypt({"categories": employees["categories"]}, tmp_path / "enclaves" / "sealed")
    refused = owner.coffer(
        "explain", "--without-enclaves", "select count(*) from categories", check=False
    )
    assert refused.returncode == 1
    assert "host_results" in refused.stderr
