"""CHAR(n) and VARCHAR(n): the same statements to plaintext Spark over Parquet and to Coffer, with
the same outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from coffer_testing.answers import difference
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from conftest import CONF, Expected

# Of `src`, whose rows an engine reads: what Spark knows when it plans, it checks and pads itself.
ROWS = """(1, 'ab'), (2, 'abcde'), (3, ''), (4, null), (5, 'é😀'), (6, 'ab   '), (7, 'a'),
(8, ' ab'), (9, 'ab' || chr(9)), (10, 'abcde    '), (11, 'éàç😀ñ'), (12, '     ')"""

READS = """
select *, length(c), length(v), octet_length(c), octet_length(v), concat('[', c, '|', v, ']')
    from t order by id
select id, c = 'ab', c = 'ab   ', c = 'ab      ', 'ab ' = c, v = 'ab', v = 'ab   ', c <> 'ab',
c <=> 'ab', c <=> null,
c < 'ab', c >= 'ab       ', c between 'a' and 'abcd', c in ('ab', 'a', 'abcde       ', null),
c not in ('ab', 'abcdefgh'), v in ('ab', 'a'), c = '',
c = v, c = d, c = s, v = s, trim(c) = 'ab', c like 'ab%', c like 'ab', c like 'ab   ',
c || v = 'abab', c || v = 'ab   ab' from t order by id
select id from t where c = 'ab' order by id
select id from t where c = 'ab      ' order by id
select id from t where c in ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'ab', 'abcdef')
    order by id
select id from t where v = 'ab   ' or c = 'abcdef' order by id
select id from t where c = d order by id
select id from t where s = 'ab' and c = s order by id
select c, count(*), min(id), max(v) from t group by c order by c
select d, max(c), min(v), count(distinct c), count(distinct s) from t group by d order by d
select a.id, b.id from t a join t b on a.c = b.d order by 1, 2
select a.id, b.id from t a join t b on a.c = b.v order by 1, 2
select a.id, b.id from t a left join t b on a.c = b.s and b.id < 6 order by 1, 2
"""

# What is left to the client, or needs whole columns, where there are ciphertexts only.
MORE = """
select id from t where exists (select 1 from t u where u.d = t.c and u.id <> t.id) order by id
select id from t where c in (select d from t where id < 8) order by id
select id from t where c = (select max(d) from t where id < 3) order by id
select substring(c, 2, 3), rpad(c, 7, '*'), upper(c), reverse(v), rtrim(c),
cast(c as string) || '.', cast(v as binary) from t order by id
select cast(id as char(3)) || '.', cast(s as varchar(2)) || '.', cast(s as char(2)) || '.'
    from t order by id
select c from t union select s from t order by 1
select id, case when c = 'ab' then d else v end, coalesce(c, 'none') from t order by id
with u as (select c x, v y from t) select x, length(x), y from u where x = 'ab' order by y
"""

# Each in its turn, the same to both; {u} is the format.
SCRIPT = """
create table src (id int, s string) using {u}
insert into src values ROWS
create table t (id int, c char(5), v varchar(5), s string, d char(8)) using {u}
insert into t select id, s, s, s, s from src
insert into t values (20, 'ab', 'ab', 'ab', 'ab'), (21, 'x    ', 'x    ', 'x    ', 'x       ')
insert into t select 30, 'abcdef', '', '', ''
insert into t select 30, s || s, '', '', '' from src where id = 2
insert into t select 30, '', s || s, '', '' from src where id = 2
insert into t select 30, '', s || 'é', '', '' from src where id = 11
insert into t select 31, s || '    ', s || '    ', s || s, s || '    ' from src where id = 2
insert into t (id, v) select 32, 'only v'
insert into t (id, v) select 32, 'v'
insert into t select 33, id, id * 1000, id, 12345678 from src where id = 7
insert into t select 33, id, id * 1000000, id, 12345678 from src where id = 7
READS
MORE
describe t
describe table extended t c
set spark.sql.readSideCharPadding=false
refresh table t
select id, c = 'ab', c = 'ab      ', 'ab ' = c, c in ('ab', 'abcde       '), c = v, c = d,
c = s, length(c) from t order by id
select id from t where c = 'ab' or c = 'abcdef ' order by id
select a.id, b.id from t a join t b on a.c = b.d order by 1, 2
set spark.sql.legacy.noCharPaddingInPredicate=true
select id from t where c = 'ab' order by id
select id from t where c = d order by id
set spark.sql.legacy.noCharPaddingInPredicate=false
set spark.sql.readSideCharPadding=true
set spark.sql.legacy.charVarcharAsString=true
refresh table t
insert into t select 40, s || s, s || s, s, 'unpadded' from src where id in (1, 2)
insert into t select 41, s, s, s, s from src where id = 1
select id, length(c), length(v), concat('[', c, ']') from t where id >= 40 order by id, 2
select id from t where c = 'ab' order by id
set spark.sql.legacy.charVarcharAsString=false
refresh table t
select id, length(c), length(v), concat('[', c, ']') from t where id >= 40 order by id, 2
select id from t where c = 'ab' or c = 'abcdeabcde' order by id
set spark.sql.preserveCharVarcharTypeInfo=true
refresh table t
select id, length(c), cast(id as char(4)) || '.', cast(v as varchar(12)) from t order by id, 2
select cast(s as char(2)) from t where id = 2
select cast(s as varchar(2)) from t where id = 2
select id from t where c = 'ab' order by id
alter table t set tblproperties ('relation' = 'not cached')
set spark.sql.preserveCharVarcharTypeInfo=false
set spark.sql.charAsVarchar=true
create table w (c char(5), v varchar(5)) using {u}
describe w
create table w2 using {u} as select c, v from t
describe w2
set spark.sql.charAsVarchar=false
create table k using {u} as select c, v, d as e, concat(c, v) x, upper(c) y, c z
    from t where id < 20
describe k
select *, length(e), length(x), length(z) from k order by c, v, e
insert into k select s || s, '', '', '', '', '' from src where id = 2
insert into k select 'q', 'q', 'q', 'q', 'q', 'q' from src where id = 2
select *, length(e), length(x), length(z) from k where c = 'q'
insert overwrite k select c, v, d, s, s, c from t where id < 3
select * from k order by c
create table p (n int, c char(4)) using {u} partitioned by (c)
insert into p select id, substring(s, 1, 4) from src
insert into p partition (c = 'ab') select 100 from src where id = 1
insert into p partition (c = 'toolong') select 100 from src where id = 1
select n, concat('[', c, ']'), length(c) from p order by n, 2
select n from p where c = 'ab' order by n
select n from p where c in ('ab  ', 'abcd') order by n
select c, count(*) from p group by c order by c
insert overwrite p partition (c = 'ab') select 200 from src where id = 1
select n, concat('[', c, ']') from p order by n, 2
describe p
create table empty (c char(0), v varchar(0)) using {u}
describe empty
create table bad (c varchar) using {u}
"""

# Its script has not run to its end everywhere yet.
pytestmark = pytest.mark.full


def statements() -> Iterator[str]:
    for line in whole(
        SCRIPT.replace("READS", READS.strip()).replace("MORE", MORE.strip())
    ).splitlines():
        yield line.replace("ROWS", " ".join(ROWS.split()))


def whole(lines: str) -> str:
    """Each statement on a line, where it was cut behind a comma or goes on indented."""
    return lines.strip().replace(",\n", ", ").replace("\n    ", " ")


class Outcomes:
    """What came of the script in one session: an answer, or the condition of an error."""

    def __init__(self, driver: Driver, source: str, folder: Path) -> None:
        driver.run(
            "spark.sql(f\"create database char_varchar location '{folder}'\"); spark.sql('use "
            "char_varchar')",
            folder=str(folder),
        )
        self.found: list[Any] = [
            outcome(driver, sql.replace("{u}", source)) for sql in statements()
        ]
        self.frames = frames(driver, source, folder)
        driver.run("spark.sql('use default')")


def outcome(driver: Driver, sql: str) -> Any:
    try:
        if sql.startswith(("select", "with")):
            return driver.query(sql)
        if sql.startswith("describe"):
            names = {row[0]: row[1] for row in driver.query(sql).rows if row[0]}
            return [
                names.get(name)
                for name in ("id", "c", "v", "s", "d", "e", "x", "y", "z", "n", "data_type")
            ]
        driver.run("spark.sql(sql)", sql=sql)
        return "done"
    except QueryFailed as failed:
        return failed


def frames(driver: Driver, source: str, folder: Path) -> Any:
    """DataFrame writers: by path and by name, made anew and appended to."""
    code = """
def outcome(action):
    try:
        action()
        return "done"
    except Exception as failed:
        return str(failed)
t = spark.table("t").where("id < 20")
path = folder + "/frames"
shown = "id", "concat('[', c, ']') c", "length(v) v", "length(d) d"
t.write.format(source).save(path)
read = lambda: sorted(map(list, spark.read.format(source).load(path).selectExpr(*shown).collect()))
result = [read()]
t.write.format(source).mode("append").save(path)
result.append(read())
spark.read.format(source).load(path).where("c = 'ab'").write.format(source).saveAsTable("named")
result.append(sorted(map(list, spark.table("named").selectExpr(*shown).collect())))
named = spark.table("named").where("c = 'ab' and v = 'ab'")
result.append(sorted(map(list, named.selectExpr(*shown).collect())))
short = spark.table("src").where("id = 1").selectExpr("id", "s c", "s v", "s", "s d")
long = spark.table("src").where("id = 2").selectExpr("id", "concat(s, s) c", "s v", "s", "s d")
result.append(outcome(lambda: short.write.format(source).mode("append").saveAsTable("named")))
too_long = outcome(lambda: long.write.format(source).mode("append").saveAsTable("named"))
result.append("EXCEED_LIMIT_LENGTH" in too_long)
result.append(outcome(lambda: short.write.insertInto("named")))
result.append("EXCEED_LIMIT_LENGTH" in outcome(lambda: long.write.insertInto("named")))
result.append(sorted(map(list, spark.table("named").selectExpr(*shown).collect())))
result.append([f.dataType.simpleString() for f in spark.table("named").schema])
result.append([[row[0], row[1]] for row in spark.sql("describe named").collect()][:5])
ddl = spark.sql("show create table named").first()[0]
result.append([word in ddl for word in ("c CHAR(5)", "v VARCHAR(5)", "s STRING", "d CHAR(8)")])
"""
    return driver.run(code, source=source, folder=str(folder))


@pytest.fixture(scope="module")
def theirs(plain: Driver, base: Path) -> Outcomes:
    return Outcomes(plain, "parquet", base / "char-varchar-plain")


@pytest.fixture(scope="module")
def ours(sealed: Driver, base: Path) -> Outcomes:
    return Outcomes(sealed, "coffer", base / "char-varchar-sealed")


def test_answers_and_errors_are_sparks(theirs: Outcomes, ours: Outcomes) -> None:
    wrong = []
    for sql, want, got in zip(statements(), theirs.found, ours.found, strict=True):
        if isinstance(want, QueryFailed):
            # What an engine raises comes with its condition in the message.
            same = (
                isinstance(got, QueryFailed)
                and want.condition
                and want.condition in f"{got.condition} {got.message}"
            )
            if not same:
                wrong.append(f"{sql}: expected {want.condition}, got {got}")
        elif isinstance(want, str | list) or isinstance(got, QueryFailed):
            if want != got:
                wrong.append(f"{sql}: expected {want}, got {got}")
        elif told := difference(want, got, ordered=True):
            wrong.append(f"{sql}: {told}")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong)


def test_frames_are_written_as_spark_writes_them(theirs: Outcomes, ours: Outcomes) -> None:
    assert theirs.frames[4:8] == ["done", True, "done", True]
    assert theirs.frames[-1] == [True] * 4
    assert ours.frames == theirs.frames


def test_defaults_are_refused_and_not_forgotten(sealed: Driver) -> None:
    with pytest.raises(QueryFailed) as failed:
        sealed.run("spark.sql(\"create table dv (n int, c char(5) default 'ab') using coffer\")")
    assert "[COFFER_DDL]" in failed.value.message and "a default value (c)" in failed.value.message
    assert sealed.run("result = spark.catalog.tableExists('dv')") is False


# ---- what Spark wrote, sealed by the command line, under protections


POLICY = """
[tables.t.columns]
id = "std"
c = "det"
v = { protection = "det", link = "text" }
s = { protection = "det", link = "text" }
d = ["det", "tee"]
"""

PROTECTED = whole(READS).splitlines()


@pytest.fixture(scope="module")
def written(plain: Driver, theirs: Outcomes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of `t` as plaintext Spark writes them, CHAR and VARCHAR in the files' metadata."""
    assert theirs.found
    folder = tmp_path_factory.mktemp("written") / "t"
    plain.run(
        "spark.table('char_varchar.t').where('id < 40').write.parquet(folder)", folder=str(folder)
    )
    return folder


@pytest.fixture(scope="module")
def expected_of_written(plain: Driver, written: Path) -> Expected:
    plain.run("spark.read.parquet(folder).createOrReplaceTempView('t')", folder=str(written))
    return Expected("char-varchar", {"t": written}, lambda: plain)


@pytest.fixture(scope="module", params=["tee", "det", "hosts"])
def encrypted(
    request: pytest.FixtureRequest, written: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    folder = tmp_path_factory.mktemp(request.param)
    owner = Owner.create(folder / "trusted")
    text = (owner.config_dir / "policy.toml").read_text() + (
        POLICY if request.param != "tee" else ""
    )
    owner.sign(text.replace('host_results = "refuse"', 'host_results = "accept"'))
    sealed = owner.encrypt({"t": written}, folder / "sealed")
    conf = {"spark.coffer.enclave": "none"} if request.param == "hosts" else {}
    with Driver(
        sealed,
        sealed=True,
        log=folder / "sealed.log",
        config_dir=owner.config_dir,
        passphrase_file=owner.passphrase_file,
        conf={**CONF, **conf},
    ) as driver:
        yield driver


def test_what_spark_wrote_is_encrypted_as_it_is(
    expected_of_written: Expected, encrypted: Driver
) -> None:
    wrong = []
    for sql in PROTECTED:
        try:
            told = difference(expected_of_written.answer(sql), encrypted.query(sql), ordered=True)
        except QueryFailed as failed:
            told = failed.message
        if told:
            wrong.append(f"{sql}: {told}")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong)


def test_char_columns_are_compared_as_ciphertexts(
    encrypted: Driver, request: pytest.FixtureRequest
) -> None:
    """Without the padding that Spark puts around them where they are ciphertexts, with it where
    they are not."""
    code = (
        "df = spark.sql(sql)\nresult = df._jdf.queryExecution().explainString("
        "spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString('extended'))"
    )
    for literal in ("'ab'", "'ab      '"):
        plan = encrypted.run(code, sql=f"select count(*) from t where c = {literal}")
        physical = plan.split("== Physical Plan ==")[1]
        padded = "readSidePadding" in physical or "rpad" in physical
        assert padded == (request.node.callspec.params["encrypted"] == "tee"), physical


# ---- the command line


def test_csv_is_stored_as_spark_would_store_it(tmp_path: Path) -> None:
    owner = Owner.create(tmp_path / "trusted")
    source = tmp_path / "rows.csv"
    source.write_text("c,v\nab,ab\né😀,abc     \n,x\n")
    owner.coffer(
        "encrypt", "--header", "--schema", "c CHAR(4), v VARCHAR(4)", source, tmp_path / "sealed"
    )
    owner.coffer("decrypt", tmp_path / "sealed", tmp_path / "out.parquet")
    opened = pq.read_table(tmp_path / "out.parquet")
    assert opened.column("c").to_pylist()[:2] == ["ab  ", "é😀  "]
    assert opened.column("v").to_pylist() == ["ab", "abc ", "x"]
    notes = pq.read_metadata(tmp_path / "out.parquet").metadata[
        b"org.apache.spark.sql.parquet.row.metadata"
    ]
    assert b'"__CHAR_VARCHAR_TYPE_STRING":"char(4)"' in notes and b'"varchar(4)"' in notes
    for row in ("abcde,x", "x,abcde"):
        source.write_text(f"c,v\n{row}\n")
        failed = owner.coffer(
            "encrypt",
            "--header",
            "--schema",
            "c CHAR(4), v VARCHAR(4)",
            source,
            tmp_path / "bad",
            "--table",
            "bad",
            check=False,
        )
        assert failed.returncode != 0
        assert "EXCEED_LIMIT_LENGTH" in failed.stderr and "abcde" not in failed.stderr
