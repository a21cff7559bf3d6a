"""Writes engine/crates/core/expr/tests/golden/*.tsv: what vanilla Spark gives for each expression
over edge values. In one time zone; what depends on it also in two more (zones.tsv).

Run with pyspark 4.1.3 and Java 17 (`python testing/tools/make_expr_golden.py`); the Rust test
`expr_golden` replays the files. A line: name, mode, time zone, argument types, result type, the
arguments, the result; tab separated. An argument type that starts with `=` is given to the engine
as a literal. A result `!CLASS` is an error.
"""

import itertools
import json
import os
import pathlib
import struct
import sys

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

OUT = pathlib.Path(__file__).resolve().parents[2] / "engine/crates/core/expr/tests/golden"
ZONE = "America/Los_Angeles"
# Only what depends on the time zone.
ZONED = False

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", ZONE)
    .config("spark.sql.timestampType", "TIMESTAMP_LTZ")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")

ENCODE = {
    "date": "unix_date({})",
    "timestamp": "unix_micros({})",
    "timestamp_ntz": "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {})",
    "binary": "hex({})",
}


def encode(kind, value):
    if value is None:
        return "NULL"
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "float":
        return struct.pack(">f", value).hex()
    if kind == "double":
        return struct.pack(">d", value).hex()
    if kind.startswith("decimal"):
        return format(value, "f")
    if kind == "string":
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def select(kinds, columns, rows, types):
    """Evaluates columns (SQL over a, b, c) over literal rows; values as text."""
    names = "abcdef"[: len(types)]
    values = ", ".join(
        "(" + ", ".join(f"CAST({v} AS {t.lstrip('=')})" for v, t in zip(row, types)) + ")"
        for row in rows
    )
    shown = ", ".join(
        ENCODE.get(kind, "{}").format(f"({column})") + f" AS r{i}"
        for i, (kind, column) in enumerate(zip(kinds, columns))
    )
    frame = spark.sql(f"SELECT {shown} FROM VALUES {values} AS v({', '.join(names)})")
    return [[encode(k, v) for k, v in zip(kinds, row)] for row in frame.collect()]


def results(kind, sql, rows, types):
    try:
        return [row[0] for row in select([kind], [sql], rows, types)]
    except AnalysisException:
        raise
    except PySparkException as error:
        if len(rows) == 1:
            return ["!" + (error.getCondition() or "JAVA")]
    except Exception:  # what Java itself throws has no condition
        if len(rows) == 1:
            return ["!JAVA"]
    middle = len(rows) // 2
    return results(kind, sql, rows[:middle], types) + results(kind, sql, rows[middle:], types)


def case(out, name, sql, types, rows, modes="LA"):
    """`{0}` … in sql are the arguments; one that is a literal to the engine (`=type`) is put into
    the text."""
    literals = [i for i, t in enumerate(types) if t.startswith("=")]
    everything = rows
    for mode in modes:
        # Each error costs a query of its own: of many rows ANSI sees an even selection.
        rows = (
            everything[:: max(1, len(everything) // 16)]
            if mode == "A" and len(types) > 1
            else everything
        )
        spark.conf.set("spark.sql.ansi.enabled", "true" if mode == "A" else "false")
        groups = {}
        for row in rows:
            groups.setdefault(tuple(row[i] for i in literals), []).append(row)
        for key, group in groups.items():
            inline = dict(
                zip(literals, (f"CAST({text} AS {types[i][1:]})" for i, text in zip(literals, key)))
            )
            names = [inline.get(i, "abcdef"[i]) for i in range(len(types))]
            text = sql.format(*names)
            # Arguments are written without ANSI errors of their own.
            try:
                found = spark.sql(
                    f"SELECT {text} AS r FROM (SELECT "
                    + ", ".join(
                        f"CAST(NULL AS {t.lstrip('=')}) AS {n}" for n, t in zip("abcdef", types)
                    )
                    + ")"
                ).schema[0]
                kind = found.dataType.simpleString()
                if ZONED and "timestamp" not in (kind, *types):
                    continue
                args = select([t.lstrip("=") for t in types], "abcdef"[: len(types)], group, types)
                values = results(kind, text, group, types)
            except AnalysisException as error:
                condition = error.getCondition() or ""
                if condition.startswith(("DATATYPE_MISMATCH", "INVALID_FORMAT")):
                    continue
                raise
            for arg, value in zip(args, values):
                print(
                    "\t".join(
                        [
                            name,
                            mode,
                            ZONE,
                            ",".join(types).replace("decimal(", "decimal(").replace(" ", ""),
                            kind,
                            *arg,
                            value,
                        ]
                    ),
                    file=out,
                )


def q(text):
    return (
        "'"
        + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
        + "'"
    )


NULL = "NULL"
INTS = {
    "tinyint": ["0Y", "1Y", "-1Y", "5Y", "127Y", "-128Y", NULL],
    "smallint": ["0S", "1S", "-1S", "7S", "300S", "32767S", "-32768S", NULL],
    "int": ["0", "1", "-1", "7", "70000", "2147483647", "(-2147483647 - 1)", NULL],
    "bigint": [
        "0L",
        "1L",
        "-1L",
        "10L",
        "5000000000L",
        "9223372036854775807L",
        "(-9223372036854775807L - 1L)",
        NULL,
    ],
}
FLOATS = [
    "0",
    "'-0.0'",
    "1.5",
    "-2.5",
    "0.1",
    "1e7",
    "1.2345678e-4",
    "3e9",
    "1e20",
    "'NaN'",
    "'Infinity'",
    "'-Infinity'",
    NULL,
]
DECIMALS = {
    "decimal(5,2)": ["0", "1.00", "-1.50", "999.99", "-999.99", "0.05", NULL],
    "decimal(15,2)": ["0", "33203.72", "-0.01", "9999999999999.99", NULL],
    "decimal(38,10)": [
        "0",
        "1.5",
        "-1.5",
        "9999999999999999999999999999.9999999999",
        "0.0000000001",
        "12345678901.0000000005",
        NULL,
    ],
    "decimal(38,0)": [
        "0",
        "3",
        "-7",
        "99999999999999999999999999999999999999",
        "-9223372036854775809",
        NULL,
    ],
    "decimal(10,10)": ["0", "0.0000000001", "-0.5", "0.9999999999", NULL],
}
STRINGS = [
    "",
    " ",
    "0",
    "1",
    "-1",
    "+1",
    " 12 ",
    "\t7\n",
    "1.5",
    "-1.5",
    ".5",
    "5.",
    ".",
    "1e3",
    "1E-3",
    "1e",
    "abc",
    "true",
    " T ",
    "no",
    "F",
    "NaN",
    "-NaN",
    "inf",
    "-Infinity",
    "+INF",
    "1d",
    "1.0f",
    "1L",
    "127",
    "128",
    "-129",
    "32768",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "1e400",
    "99999.995",
    "-0.005",
    "0.004",
    "1e37",
    "1e38",
    "1e39",
    "0e100",
    "2020-02-29",
    "2021-02-29",
    "2020",
    "2020-1",
    "2020-1-5",
    " 2020-01-05 ",
    "2020-01-05T",
    "2020-01-05 x",
    "2020-01-05 12:34:56",
    "2020-01-05 12:34:56.123456789",
    "2020-01-05T12:34:56Z",
    "2020-01-05 12:34:56+01:00",
    "2020-01-05 12:34:56 Europe/Paris",
    "2020-01-05 12:34",
    "2020-01-05 12",
    "2020-01-05 24:00:00",
    "2020-01-05 12:60:00",
    "2020-03-08 02:30:00",
    "2020-11-01 01:30:00",
    "2020-07-01 1:2:3.5",
    "2020-01-05 12:34:56.1 UTC+3",
    "2020-01-05 12:34:56 EST",
    "2020-01-05 12:34:56 nowhere",
    "10000-01-01",
    "+12345-06-07",
    "-0044-03-15",
    "12345678-01-01",
    "0001-01-01",
    "1883-11-18 12:00:00",
    "2150-07-01 12:00:00",
    "9999-12-31 23:59:59.999999",
    "2020-01-05 12:34:56-8",
    "2020-01-05 12:34:56.",
    "2020-01-05 12:34:",
    "１２",
]
DATES = [
    f"DATE'{d}'"
    for d in [
        "1970-01-01",
        "1969-12-31",
        "2000-02-29",
        "1900-02-28",
        "2020-12-31",
        "2021-01-03",
        "2024-08-15",
        "0001-01-01",
        "9999-12-31",
        "1582-10-10",
    ]
] + ["date_from_unix_date(5000000)", NULL]
TIMES = [
    f"TIMESTAMP'{t}'"
    for t in [
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "2020-03-08 01:59:59",
        "2020-03-08 03:00:00",
        "2020-11-01 01:30:00",
        "2024-08-15 12:34:56.789",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "1883-11-18 12:00:00",
        "2150-07-01 00:00:00",
        "2020-01-31 10:00:00",
    ]
] + ["timestamp_micros(-1)", NULL]
NTZ = [t.replace("TIMESTAMP'", "TIMESTAMP_NTZ'") for t in TIMES if t.startswith("TIMESTAMP")] + [
    NULL
]
VALUES = {
    "boolean": ["true", "false", NULL],
    **INTS,
    "float": FLOATS,
    "double": FLOATS
    + [
        "9.223372036854775807e18",
        "2147483648.5",
        "1.7976931348623157e308",
        "4.9e-324",
        "127.9",
        "-128.9",
        "9999999.0",
        "0.001",
        "123456789.123",
    ],
    **DECIMALS,
    "string": [q(s) for s in STRINGS] + [NULL],
    "binary": ["X''", "X'616263'", "X'C3A9'", NULL],
    "date": DATES,
    "timestamp": TIMES,
    "timestamp_ntz": NTZ,
}
NUMBERS = [*INTS, "float", "double", *DECIMALS]


def pairs(left, right=None):
    return list(itertools.product(left, right if right is not None else left))


def singles(values):
    return [(v,) for v in values]


def write(name, body):
    OUT.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    with open(OUT / f"{name}.tsv", "w", encoding="utf-8") as out:
        body(out)
    print(name, sum(1 for _ in open(OUT / f"{name}.tsv", encoding="utf-8")), flush=True)


def casts(out):
    for source in VALUES:
        for target in VALUES:
            values = VALUES[source]
            # Of instants outside 64 bits Spark's interpreter and its generated code give different
            # remainders.
            if target == "timestamp_ntz":
                values = [
                    v for v in values if "2020-03-08 02:30" not in v
                ]  # `timestampdiff` moves what is in a gap
            if source.startswith("decimal(38") and target == "timestamp":
                values = [v for v in values if len(v) < 30]
            if source != target:
                case(out, "cast", f"CAST({{0}} AS {target})", [source], singles(values))
                case(
                    out,
                    "cast",
                    f"TRY_CAST({{0}} AS {target})",
                    [source],
                    singles(values),
                    modes="T",
                )


def predicates(out):
    for name, sign in [
        ("eq", "="),
        ("lt", "<"),
        ("le", "<="),
        ("gt", ">"),
        ("ge", ">="),
        ("equal_null_safe", "<=>"),
    ]:
        for kind in [
            "double",
            "float",
            "string",
            "binary",
            "int",
            "decimal(5,2)",
            "timestamp",
            "boolean",
        ]:
            values = (
                VALUES[kind][:14]
                if kind != "string"
                else [q(s) for s in ["", "a", "B", "é", "ab"]] + [NULL]
            )
            case(out, name, f"{{0}} {sign} {{1}}", [kind, kind], pairs(values), modes="L")
    booleans = VALUES["boolean"]
    case(out, "and", "{0} AND {1}", ["boolean", "boolean"], pairs(booleans), modes="L")
    case(out, "or", "{0} OR {1}", ["boolean", "boolean"], pairs(booleans), modes="L")
    case(out, "not", "NOT {0}", ["boolean"], singles(booleans), modes="L")
    case(out, "is_nan", "isnan({0})", ["double"], singles(FLOATS), modes="L")
    for name in ["greatest", "least"]:
        for kind in ["double", "int", "string", "decimal(5,2)"]:
            case(out, name, name + "({0}, {1})", [kind, kind], pairs(VALUES[kind][:13]), modes="L")


def arithmetic(out):
    for name, sign in [("add", "+"), ("subtract", "-"), ("multiply", "*"), ("remainder", "%")]:
        for kind in [*INTS, "float", "double"]:
            case(out, name, f"{{0}} {sign} {{1}}", [kind, kind], pairs(VALUES[kind]))
        for left, right in pairs(DECIMALS):
            case(
                out,
                name,
                f"{{0}} {sign} {{1}}",
                [left, right],
                pairs(DECIMALS[left], DECIMALS[right]),
            )
    case(out, "divide", "{0} / {1}", ["double", "double"], pairs(VALUES["double"]))
    case(out, "integral_divide", "{0} DIV {1}", ["bigint", "bigint"], pairs(VALUES["bigint"]))
    for left, right in pairs(DECIMALS):
        case(out, "divide", "{0} / {1}", [left, right], pairs(DECIMALS[left], DECIMALS[right]))
        case(
            out,
            "integral_divide",
            "{0} DIV {1}",
            [left, right],
            pairs(DECIMALS[left], DECIMALS[right]),
        )
        case(out, "pmod", "pmod({0}, {1})", [left, right], pairs(DECIMALS[left], DECIMALS[right]))
    for kind in [*INTS, "float", "double"]:
        case(out, "pmod", "pmod({0}, {1})", [kind, kind], pairs(VALUES[kind]))
    for kind in NUMBERS:
        case(out, "unary_minus", "- {0}", [kind], singles(VALUES[kind]))
        case(out, "abs", "abs({0})", [kind], singles(VALUES[kind]))
    for name, sign in [("bitwise_and", "&"), ("bitwise_or", "|"), ("bitwise_xor", "^")]:
        for kind in INTS:
            case(out, name, f"{{0}} {sign} {{1}}", [kind, kind], pairs(VALUES[kind]), modes="L")
    shifts = ["0", "1", "31", "33", "64", "-1", NULL]
    for name, function in [
        ("shift_left", "shiftleft"),
        ("shift_right", "shiftright"),
        ("shift_right_unsigned", "shiftrightunsigned"),
    ]:
        for kind in ["int", "bigint"]:
            case(
                out,
                name,
                function + "({0}, {1})",
                [kind, "int"],
                pairs(VALUES[kind], shifts),
                modes="L",
            )


def mathematics(out):
    scales = ["0", "1", "2", "-1", "-3", "5"]
    extra = ["2.5", "3.5", "-2.5", "1.005", "2.675", "125.5", "0.5", "1e15"]
    for kind in NUMBERS:
        values = VALUES[kind] + (extra if kind in ("float", "double") else [])
        for name, function in [("round", "round"), ("b_round", "bround")]:
            case(out, name, function + "({0}, {1})", [kind, "=int"], pairs(values, scales))
    for kind in ["bigint", "double", *DECIMALS]:
        for name in ["floor", "ceil"]:
            case(out, name, name + "({0})", [kind], singles(VALUES[kind]), modes="L")
    more = VALUES["double"] + [
        "2",
        "10",
        "1000",
        "0.5",
        "3.7",
        "-1",
        "100",
        "7.389",
        "0.30102999566398114",
        "1e-310",
    ]
    for name, function in [
        ("sqrt", "sqrt"),
        ("exp", "exp"),
        ("log", "ln"),
        ("log10", "log10"),
        ("signum", "signum"),
    ]:
        case(out, name, function + "({0})", ["double"], singles(more), modes="L")
    case(
        out,
        "pow",
        "power({0}, {1})",
        ["double", "double"],
        pairs(more, ["0", "1", "2", "0.5", "-1", "-3.7", "'NaN'", "'Infinity'", "'-Infinity'"]),
        modes="L",
    )
    case(
        out,
        "logarithm",
        "log({0}, {1})",
        ["double", "double"],
        pairs(["2", "10", "0", "1", "-1", "0.5"], more),
        modes="L",
    )


TEXTS = [
    q(s)
    for s in [
        "",
        "a",
        "abc",
        "Hello World",
        "  pad  ",
        "héllo wörld",
        "日本語テキスト",
        "😀 smile",
        "a_b%c",
        "ab\nab",
        "aaa",
        "www.apache.org",
        "ABC abc",
    ]
] + [NULL]


def strings(out):
    patterns = [
        q(s)
        for s in [
            "",
            "%",
            "a%",
            "%c",
            "%b%",
            "a_c",
            "_",
            "%l_o%",
            "a\\_b\\%c",
            "日%",
            "%😀%",
            "ab%ab",
            "H%W%d",
            "%%",
            "__%",
        ]
    ] + [NULL]
    case(out, "like", "{0} LIKE {1}", ["string", "=string"], pairs(TEXTS, patterns), modes="L")
    for name, function in [
        ("starts_with", "startswith"),
        ("ends_with", "endswith"),
        ("contains", "contains"),
        ("string_instr", "instr"),
    ]:
        case(
            out,
            name,
            function + "({0}, {1})",
            ["string", "string"],
            pairs(TEXTS, [q(s) for s in ["", "a", "abc", "ö", "World", "語"]] + [NULL]),
            modes="L",
        )
    for name, function in [
        ("upper", "upper"),
        ("lower", "lower"),
        ("init_cap", "initcap"),
        ("reverse", "reverse"),
        ("length", "char_length"),
        ("octet_length", "octet_length"),
        ("bit_length", "bit_length"),
        ("ascii", "ascii"),
        ("string_trim", "trim"),
        ("string_trim_left", "ltrim"),
        ("string_trim_right", "rtrim"),
    ]:
        case(out, name, function + "({0})", ["string"], singles(TEXTS), modes="L")
    case(out, "length", "length({0})", ["binary"], singles(VALUES["binary"]), modes="L")
    numbers = [
        "0",
        "1",
        "2",
        "3",
        "-1",
        "-3",
        "-10",
        "100",
        "2147483647",
        "(-2147483647 - 1)",
        NULL,
    ]
    triples = [
        (t, a, b) for t in TEXTS for a in numbers for b in ["0", "1", "3", "-1", "2147483647", NULL]
    ]
    case(out, "substring", "substring({0}, {1}, {2})", ["string", "int", "int"], triples, modes="L")
    case(
        out,
        "substring",
        "substring({0}, {1}, {2})",
        ["binary", "int", "int"],
        [(t, a, b) for t in VALUES["binary"] for a in numbers for b in ["1", "2", "2147483647"]],
        modes="L",
    )
    case(
        out,
        "substring_index",
        "substring_index({0}, {1}, {2})",
        ["string", "string", "int"],
        [
            (t, d, n)
            for t in TEXTS
            for d in [q(""), q("a"), q("."), q("aa"), NULL]
            for n in ["0", "1", "2", "-1", "-2", "9", NULL]
        ],
        modes="L",
    )
    case(
        out,
        "string_locate",
        "locate({0}, {1}, {2})",
        ["string", "string", "int"],
        [
            (p, t, n)
            for p in [q(""), q("a"), q("語"), NULL]
            for t in TEXTS
            for n in ["0", "1", "2", "5", "100", "-1", NULL]
        ],
        modes="L",
    )
    for name, function in [("string_lpad", "lpad"), ("string_rpad", "rpad")]:
        case(
            out,
            name,
            function + "({0}, {1}, {2})",
            ["string", "int", "string"],
            [
                (t, n, p)
                for t in TEXTS
                for n in ["0", "1", "5", "14", "-1", NULL]
                for p in [q(""), q(" "), q("xy"), q("é"), NULL]
            ],
            modes="L",
        )
    for name, side in [
        ("string_trim", "BOTH"),
        ("string_trim_left", "LEADING"),
        ("string_trim_right", "TRAILING"),
    ]:
        case(
            out,
            name,
            f"trim({side} {{1}} FROM {{0}})",
            ["string", "string"],
            pairs(TEXTS, [q(s) for s in ["", "a", " H", "語日", "aA"]] + [NULL]),
            modes="L",
        )
    replaced = [
        (t, a, b)
        for t in TEXTS
        for a in [q(""), q("a"), q("aa"), q("語"), NULL]
        for b in [q(""), q("zz"), NULL]
    ]
    case(
        out,
        "string_replace",
        "replace({0}, {1}, {2})",
        ["string", "string", "string"],
        replaced,
        modes="L",
    )
    case(
        out,
        "string_translate",
        "translate({0}, {1}, {2})",
        ["string", "string", "string"],
        replaced,
        modes="L",
    )
    case(
        out,
        "string_repeat",
        "repeat({0}, {1})",
        ["string", "int"],
        pairs(TEXTS, ["0", "1", "3", "-1", NULL]),
        modes="L",
    )
    case(out, "string_space", "space({0})", ["int"], singles(["0", "3", "-1", NULL]), modes="L")
    case(
        out,
        "chr",
        "chr({0})",
        ["bigint"],
        singles(["0L", "65L", "-1L", "255L", "256L", "321L", NULL]),
        modes="L",
    )
    case(out, "concat", "concat({0}, {1})", ["string", "string"], pairs(TEXTS), modes="L")
    case(
        out,
        "concat_ws",
        "concat_ws({0}, {1}, {2})",
        ["string", "string", "string"],
        [(s, a, b) for s in [q(","), q(""), NULL] for a in TEXTS for b in TEXTS[:3] + [NULL]],
        modes="L",
    )


def datetimes(out):
    for name, function in [
        ("year", "year"),
        ("quarter", "quarter"),
        ("month", "month"),
        ("day_of_month", "day"),
        ("day_of_year", "dayofyear"),
        ("day_of_week", "dayofweek"),
        ("week_day", "weekday"),
        ("week_of_year", "weekofyear"),
        ("last_day", "last_day"),
        ("unix_date", "unix_date"),
    ]:
        case(out, name, function + "({0})", ["date"], singles(DATES), modes="L")
    case(out, "year_of_week", "extract(YEAROFWEEK FROM {0})", ["date"], singles(DATES), modes="L")
    for kind in ["timestamp", "timestamp_ntz"]:
        for name in ["hour", "minute", "second"]:
            case(out, name, name + "({0})", [kind], singles(VALUES[kind]), modes="L")
        case(
            out,
            "second_with_fraction",
            "extract(SECOND FROM {0})",
            [kind],
            singles(VALUES[kind]),
            modes="L",
        )
    days = ["0", "1", "-1", "365", "100000", NULL]
    for kind in ["int", "smallint", "tinyint"]:
        values = days if kind == "int" else ["0", "100", "-7", NULL]
        case(out, "date_add", "date_add({0}, {1})", ["date", kind], pairs(DATES, values), modes="L")
        case(out, "date_sub", "date_sub({0}, {1})", ["date", kind], pairs(DATES, values), modes="L")
    case(out, "date_diff", "datediff({0}, {1})", ["date", "date"], pairs(DATES), modes="L")
    case(
        out,
        "add_months",
        "add_months({0}, {1})",
        ["date", "int"],
        pairs(DATES, ["0", "1", "-1", "13", "-25", "1200", NULL]),
        modes="L",
    )
    case(
        out,
        "months_between",
        "months_between({0}, {1}, {2})",
        ["timestamp", "timestamp", "=boolean"],
        [(a, b, c) for a in TIMES for b in TIMES for c in ["true", "false"]],
        modes="L",
    )
    levels = [
        q(s)
        for s in [
            "year",
            "YYYY",
            "quarter",
            "month",
            "MM",
            "mon",
            "week",
            "day",
            "dd",
            "hour",
            "minute",
            "second",
            "millisecond",
            "microsecond",
            "century",
            "",
        ]
    ] + [NULL]
    case(out, "trunc_date", "trunc({0}, {1})", ["date", "=string"], pairs(DATES, levels), modes="L")
    case(
        out,
        "trunc_timestamp",
        "date_trunc({0}, {1})",
        ["=string", "timestamp"],
        pairs(levels, TIMES),
        modes="L",
    )
    case(
        out,
        "make_date",
        "make_date({0}, {1}, {2})",
        ["int", "int", "int"],
        [
            (y, m, d)
            for y in ["2020", "2021", "0", "-5", "10000", "99999999", NULL]
            for m in ["0", "2", "12", "13", NULL]
            for d in ["0", "1", "29", "31", "32"]
        ],
    )
    for name, function in [
        ("unix_seconds", "unix_seconds"),
        ("unix_millis", "unix_millis"),
        ("unix_micros", "unix_micros"),
    ]:
        case(out, name, function + "({0})", ["timestamp"], singles(TIMES), modes="L")
    for name, function in [
        ("seconds_to_timestamp", "timestamp_seconds"),
        ("millis_to_timestamp", "timestamp_millis"),
        ("micros_to_timestamp", "timestamp_micros"),
    ]:
        case(out, name, function + "({0})", ["bigint"], singles(INTS["bigint"]), modes="L")
    formats = [
        q(s)
        for s in [
            "yyyy-MM-dd",
            "yyyy/M/d HH:mm:ss",
            "H:m:s",
            "yyyy-MM-dd HH:mm:ss.SSS",
            "yyyy.MM.dd SSSSSS",
        ]
    ]
    case(
        out,
        "date_format_class",
        "date_format({0}, {1})",
        ["timestamp", "=string"],
        pairs(TIMES, formats),
        modes="L",
    )


def zones(out):
    """Casts and functions of instants where clocks change at other times, by other amounts, or
    whose seconds are no whole minutes before there were zones."""
    global ZONE, ZONED
    ZONED = True
    for zone, changes in [
        ("Asia/Kolkata", ["1941-10-01 00:00:00", "1945-10-15 00:00:00"]),
        ("Europe/Paris", ["2020-03-29 02:30:00", "2020-10-25 02:30:00", "1911-03-11 00:05:00"]),
    ]:
        ZONE = zone
        spark.conf.set("spark.sql.session.timeZone", zone)
        added = [q(text) for text in changes]
        lists = [VALUES["timestamp"], VALUES["string"]]
        lists += [TIMES] if TIMES is not VALUES["timestamp"] else []
        for values in lists:
            values.extend(added)
        casts(out)
        datetimes(out)
        for values in lists:
            del values[-len(added) :]


for family in [casts, predicates, arithmetic, mathematics, strings, datetimes, zones]:
    write(family.__name__, family)
sys.stdout.flush()
os._exit(0)
