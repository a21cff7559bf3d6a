"""Policies for TPC-H: what each says of the 61 columns, from everything in enclaves to nothing in
any."""

from __future__ import annotations

from coffer_testing.owner import Owner

# Columns of equal meaning: joined with each other.
_LINKS = {
    "orderkey": ("l_orderkey", "o_orderkey"),
    "partkey": ("l_partkey", "p_partkey", "ps_partkey"),
    "suppkey": ("l_suppkey", "s_suppkey", "ps_suppkey"),
    "custkey": ("c_custkey", "o_custkey"),
    "nationkey": ("n_nationkey", "c_nationkey", "s_nationkey"),
    "regionkey": ("n_regionkey", "r_regionkey"),
}
_TABLES = {
    "lineitem": "l_orderkey l_partkey l_suppkey l_linenumber l_quantity l_extendedprice "
    "l_discount l_tax l_returnflag "
    "l_linestatus l_shipdate l_commitdate l_receiptdate l_shipinstruct l_shipmode l_comment",
    "orders": "o_orderkey o_custkey o_orderstatus o_totalprice o_orderdate o_orderpriority "
    "o_clerk o_shippriority o_comment",
    "customer": "c_custkey c_name c_address c_nationkey c_phone c_acctbal c_mktsegment c_comment",
    "part": "p_partkey p_name p_mfgr p_brand p_type p_size p_container p_retailprice p_comment",
    "supplier": "s_suppkey s_name s_address s_nationkey s_phone s_acctbal s_comment",
    "partsupp": "ps_partkey ps_suppkey ps_availqty ps_supplycost ps_comment",
    "nation": "n_nationkey n_name n_regionkey n_comment",
    "region": "r_regionkey r_name r_comment",
}
_DATES = {"l_shipdate", "l_commitdate", "l_receiptdate", "o_orderdate"}
_RANGES = {
    "l_quantity": ("0.00", "100.00"),
    "l_discount": ("0.00", "1.00"),
}
_SUMS = {
    "l_extendedprice": ("0.00", "1000000.00"),
    "o_totalprice": ("0.00", "10000000.00"),
}
_WORDS = {
    *(
        "l_returnflag",
        "l_linestatus",
        "l_shipinstruct",
        "l_shipmode",
        "o_orderstatus",
        "o_orderpriority",
    ),
    *("c_mktsegment", "p_brand", "p_container", "p_mfgr", "p_type", "n_name", "r_name"),
    *("l_linenumber", "l_tax", "o_clerk", "o_shippriority"),
}
# No query of TPC-H asks for them, so they need not be readable without enclaves.
_UNUSED = {"l_comment", "ps_comment", "p_comment", "n_comment", "r_comment"}
_ROWS = 10**8

NAMES = ("tee", "det-ope", "det-ope-ashe", "mixed")
"""All columns `tee`; keys and ranges readable by hosts, computed in enclaves; nothing for enclaves;
some of each."""


def without_enclaves(name: str) -> bool:
    """Whether a policy is for engines that hold no keys."""
    return name == "det-ope-ashe"


def conf(name: str) -> dict[str, str]:
    """Spark's settings for a policy. Without enclaves much comes to the client."""
    return (
        {"spark.coffer.enclave": "none", "spark.coffer.client.maxBytes": "8g"}
        if without_enclaves(name)
        else {}
    )


def write(name: str, owner: Owner) -> None:
    """Adds to an owner's policy what the policy of this name says of TPC-H's tables."""
    text = owner.policy
    if without_enclaves(name):
        text = text.replace('host_results = "refuse"', 'host_results = "accept"')
    for table, columns in _TABLES.items():
        text += f"\n[tables.{table}.columns]\n"
        text += "".join(f"{column} = {_column(name, column)}\n" for column in columns.split())
    owner.sign(text)


def _column(name: str, column: str) -> str:
    if name == "tee":
        return '"tee"'
    link = next((link for link, members in _LINKS.items() if column in members), None)
    if link is not None:
        return f'{{ protection = "det", link = "{link}" }}'
    return {"det-ope": _with_enclaves, "det-ope-ashe": _without_enclaves, "mixed": _mixed}[name](
        column
    )


def _with_enclaves(column: str) -> str:
    if column in _DATES:
        return '{ protection = ["tee", "ope"], domain = ["1990-01-01", "2000-12-31"] }'
    if column in _RANGES:
        return _bounded(["tee", "ope"], _RANGES[column])
    return '["tee", "det"]' if column in _WORDS else '"tee"'


def _without_enclaves(column: str) -> str:
    if column in _DATES:
        return '{ protection = "ope", domain = ["1990-01-01", "2000-12-31"] }'
    if column in _RANGES:
        return _bounded(["ope"], _RANGES[column])
    if column in _SUMS:
        return _bounded(["ashe"], _SUMS[column], _ROWS)
    if column in _UNUSED:
        return '"tee"'
    if column == "p_size":
        return '{ protection = "ope", domain = [0, 1000] }'
    return '"det"' if column in _WORDS else '"std"'


def _mixed(column: str) -> str:
    if column in _DATES:
        return '{ protection = ["tee", "ore"], domain = ["1990-01-01", "2000-12-31"] }'
    if column in _RANGES:
        return _bounded(["tee", "ope"], _RANGES[column])
    if column in _SUMS:
        return _bounded(["tee", "ashe"], _SUMS[column], _ROWS)
    if column.endswith(("_comment", "_address", "_phone")):
        return '"std"'
    return '"det"' if column in _WORDS else '"tee"'


def _bounded(protections: list[str], domain: tuple[str, str], rows: int | None = None) -> str:
    named = ", ".join(f'"{protection}"' for protection in protections)
    most = f", rows = {rows}" if rows else ""
    return f'{{ protection = [{named}], domain = ["{domain[0]}", "{domain[1]}"]{most} }}'
