"""Columns of every protection, with enclaves and without: policies for the planted tables, and what
is asked of them.

Every planted value that these queries touch lies in a column that some protection hides. The one
`plain` column, `secret.id`, holds none: of such a column a host reads everything.
"""

from __future__ import annotations

from coffer_testing.leaks import planted
from coffer_testing.leaks.planted import (
    COLUMN,
    DATA,
    DAY,
    LITERAL,
    LITERAL_NUMBER,
    MOMENT,
    PARTITION,
)
from coffer_testing.leaks.workloads import SWITCH, Session
from coffer_testing.owner import Owner

TABLES = ("secret", "customer", "orders", "lineitem", "part")
# With enclaves: some of each, of several forms where one is `tee`. Without: what engines without
# keys can still be asked.
POLICIES = ("enclaves", "hosts")

_SIZE = next(iter(planted.SIZES.values()))
_EITHER = f"""
[tables.secret.columns]
id = "plain"
wide = "std"
moment = "det"
tag = "std"
{COLUMN} = {{ protection = ["det", "ore", "std"], prefix = 12 }}
number = [OPENED"ope"]
size = [OPENED"ore", "det"]
ratio = [OPENED"ope"]
day = [OPENED"ope"]

[tables.customer.columns]
c_custkey = {{ protection = "det", link = "customer" }}
c_name = "det"
c_acctbal = {{ protection = [OPENED"ore"], domain = ["-1000.00", "9999999999999.99"] }}
c_mktsegment = "det"

[tables.orders.columns]
o_orderkey = {{ protection = "det", link = "order" }}
o_custkey = {{ protection = "det", link = "customer" }}
o_orderpriority = "det"

[tables.orders.columns.o_totalprice]
protection = [OPENED"ashe"]
domain = ["0.00", "9999999999999.99"]
rows = 18000

[tables.lineitem.columns]
l_orderkey = {{ protection = "det", link = "order" }}
l_partkey = {{ protection = "det", link = "part" }}
l_extendedprice = {{ protection = [OPENED"ope"], domain = ["0.00", "9999999999999.99"] }}
l_comment = "std"

[tables.part.columns]
p_partkey = {{ protection = "det", link = "part" }}
p_size = [OPENED"ope"]
p_name = "std"
"""

JOINS = (
    "SELECT c_name, sum(o_totalprice), count(*) FROM customer JOIN orders ON c_custkey = "
    "o_custkey GROUP BY c_name "
    "ORDER BY 2 DESC LIMIT 40",
    "SELECT o_orderkey, l_comment, l_extendedprice FROM orders JOIN lineitem ON o_orderkey = "
    "l_orderkey WHERE "
    f"l_extendedprice > 5000000 AND o_orderpriority <> '{LITERAL}-25' ORDER BY "
    f"l_extendedprice DESC LIMIT 100",
    f"SELECT p_name, max(l_extendedprice) FROM part JOIN lineitem ON p_partkey = l_partkey "
    f"WHERE p_size = {_SIZE} "
    "GROUP BY p_name ORDER BY p_name LIMIT 50",
    "SELECT c_mktsegment, count(*), max(c_acctbal) FROM customer WHERE c_acctbal > 100 AND "
    f"c_mktsegment = '{DATA}BUILDING' GROUP BY c_mktsegment",
)


def write(name: str, owner: Owner) -> None:
    """Appends to a config directory's policy file what the policy of this name says of the planted
    tables."""
    text = owner.policy
    hosts = name == "hosts"
    if hosts:
        text = text.replace('host_results = "refuse"', 'host_results = "accept"')
        text = text.replace('protection = "tee"\n', 'protection = "std"\n')
    owner.sign(text + _EITHER.replace("OPENED", "" if hosts else '"tee", '))


def conf(name: str) -> dict[str, str]:
    """Spark's settings for a policy."""
    return (
        {"spark.coffer.enclave": "none", "spark.coffer.client.maxBytes": "1g"}
        if name == "hosts"
        else {}
    )


def protections(session: Session) -> None:
    """As `few`, and the joins once more by way of the other kind of join."""
    few(session)
    for sql in JOINS:
        session.ask(sql, SWITCH)


def few(session: Session) -> None:
    """Comparisons, groups, joins, sums and sorts of ciphertexts; rows that are carried along; parts
    of queries at the client."""
    secret = [
        f"SELECT {COLUMN}, count(*), count(number) FROM secret GROUP BY {COLUMN}",
        f"SELECT id, {COLUMN}, tag, wide FROM secret WHERE {COLUMN} = '{DATA}-amber-1' OR number "
        f"= {LITERAL_NUMBER}L",
        f"SELECT id FROM secret WHERE number >= {planted.NUMBERS[0]}L AND size = {_SIZE} ORDER BY "
        f"id LIMIT 50",
        f"SELECT count(*), min(number), max(number), max(day), min(ratio) FROM secret WHERE size "
        f"> {_SIZE - 1}",
        f"SELECT number, count(*) FROM secret WHERE day >= DATE'{DAY}' GROUP BY number ORDER BY "
        f"number",
        f"SELECT max(id) FROM secret WHERE moment = TIMESTAMP'{MOMENT:%Y-%m-%d %H:%M:%S.%f}' AND "
        f"ratio > 1.5D",
        f"SELECT count(*) FROM secret WHERE {COLUMN} > '{LITERAL}-21' AND {COLUMN} IN "
        f"('{DATA}-amber-3', '{LITERAL}-22')",
        f"SELECT id, {COLUMN} FROM secret WHERE {COLUMN} LIKE '{DATA}-amber-1%' AND tag "
        f"<> '{LITERAL}-23' ORDER BY id",
        f"SELECT tag, count(*), max(wide) FROM secret WHERE tag LIKE '{PARTITION}%' GROUP BY tag",
        f"SELECT {COLUMN} FROM secret WHERE id < 500 UNION SELECT tag FROM secret WHERE number < "
        f"{LITERAL_NUMBER}L",
        f"SELECT number AS `{LITERAL}-24` FROM secret ORDER BY number DESC, id LIMIT 30",
        f"SELECT count(*) FROM secret WHERE {COLUMN} = (SELECT max({COLUMN}) FROM secret WHERE "
        f"number > 5)",
    ]
    for sql in secret:
        session.ask(sql)
    for sql in JOINS:
        session.ask(sql)
    session.fails(
        f"SELECT CAST({COLUMN} AS INT) FROM secret WHERE {COLUMN} = '{DATA}-amber-2'",
        "CAST_INVALID_INPUT",
    )
    session.fails("SELECT CAST(number AS INT) FROM secret WHERE number > 5", "CAST_OVERFLOW")
    subquery = f"SELECT id FROM secret WHERE {COLUMN} = (SELECT {COLUMN} FROM secret)"
    session.fails(subquery, "SCALAR_SUBQUERY_TOO_MANY_ROWS")
    raised = f"SELECT count(*) FROM secret WHERE assert_true(tag = '{LITERAL}-26') IS NULL"
    session.fails(raised, "USER_RAISED_EXCEPTION")
