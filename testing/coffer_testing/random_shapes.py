"""Random queries over `edge`: functions by type, windows, lambdas, nested data, generators,
subqueries, set operations, grouping sets. Each has one right answer, as a multiset of rows."""

from __future__ import annotations

import random
import re

from coffer_testing.nested import FROM

# By type: what gives such a value. `{int}` and its like stand for any other of that type.
VALUES = {
    "int": [
        *("k", "i8", "i16", "cast(n % 1000 AS INT)", "cast(q AS INT)", "3", "-1"),
        *("length({str})", "year({date})", "dayofyear({date})", "abs({int})", "{int} + {int}"),
        *("{int} - {int}", "coalesce({int}, {int})", "if({bool}, {int}, {int})", "size({ints})"),
        *("ascii({str})", "try_cast({str} AS INT)", "instr({str}, 'a')", "pmod({int}, 7)"),
        *("hash({str}, {int})", "levenshtein({str}, 'abc')", "datediff({date}, {date})"),
        *("bit_count({int})", "{int} % 5", "try_element_at({ints}, 1)", "array_max({ints})"),
        *("aggregate({ints}, 0, (acc, x) -> acc + coalesce(x, 1))", "nullif({int}, 0)"),
        *("CASE WHEN {bool} THEN {int} WHEN {bool} THEN {int} END", "greatest({int}, {int})"),
        *(
            "m['a']",
            "regexp_count({str}, '[a-e]')",
            "crc32({str}) % 100",
            "cast(sign({int}) AS INT)",
        ),
    ],
    "str": [
        *("s", "'abc'", "concat({str}, '-', {str})", "upper({str})", "trim({str})"),
        *("substring({str}, 2, 3)", "lpad({str}, 5, '*')", "cast({int} AS STRING)"),
        *("coalesce({str}, 'none')", "md5({str})", "reverse({str})", "replace({str}, 'a', 'bb')"),
        *("array_join({strs}, ',')", "get({strs}, 1)", "regexp_replace({str}, '[aeiou]', '_')"),
        *(
            "if({bool}, {str}, {str})",
            "initcap({str})",
            "hex({int})",
            "date_format({date}, 'yyyy')",
        ),
        *("soundex({str})", "translate({str}, 'abc', 'xy')", "split_part({str}, ' ', 1)"),
        *("to_json(named_struct('a', {int}))", "get_json_object('{{\"a\":7}}', '$.a')"),
        *("element_at(pairs, 1).s", "cast(b AS STRING)", "repeat('é', pmod({int}, 3))"),
    ],
    "date": [
        *("dt", "date'2024-02-29'", "date_add({date}, pmod({int}, 50))", "last_day({date})"),
        *("coalesce({date}, date'2000-01-01')", "if({bool}, {date}, {date})"),
        *("add_months({date}, pmod({int}, 9))", "trunc({date}, 'MM')"),
    ],
    "bool": [
        *("b", "{int} > {int}", "{int} = {int}", "{str} < {str}", "{str} LIKE '%a%'"),
        *("{int} IS NULL", "{str} IS NOT NULL", "NOT {bool}", "({bool} AND {bool})"),
        *("({bool} OR {bool})", "{date} < {date}", "{int} IN (0, 1, 2)", "{str} RLIKE '^[a-r]'"),
        *("array_contains({ints}, {int})", "exists({ints}, x -> x > {int})", "{int} <=> {int}"),
        *("forall({strs}, x -> x IS NULL OR length(x) > 1)", "{int} BETWEEN -2 AND {int}"),
        *("map_contains_key(m, {str})", "startswith({str}, 'r')", "isnan(f64)"),
    ],
    "ints": [
        *("ints", "array({int}, {int})", "transform({ints}, x -> x + 1)", "sort_array({ints})"),
        *("filter({ints}, x -> x IS NOT NULL)", "array_distinct({ints})", "slice({ints}, 1, 2)"),
        *("concat({ints}, array({int}))", "array_union({ints}, {ints})", "flatten(deep)"),
        *("array_except({ints}, {ints})", "transform(pairs, p -> p.k)", "map_values(m)"),
        *("zip_with({ints}, {ints}, (x, y) -> coalesce(x, y))", "sequence(0, pmod({int}, 4))"),
    ],
    "strs": [
        *("texts", "array({str}, {str})", "transform({strs}, x -> upper(x))", "split({str}, '-')"),
        *("array_sort({strs})", "array_compact({strs})", "map_keys(m)"),
        *("filter({strs}, (x, i) -> i % 2 = 0)", "reverse({strs})"),
    ],
}
AGGREGATES = [
    *("count(*)", "count({int})", "count(DISTINCT {str})", "sum({int})", "min({str})"),
    *("max({date})", "avg(q)", "sum(q) FILTER (WHERE {bool})", "bool_or({bool})", "max({int})"),
    *("count_if({bool})", "bit_xor({int})", "sum(DISTINCT {int})", "min(d18)", "sum(d9)"),
    *("array_sort(collect_set({int}))", "sort_array(collect_list({str}))", "max(struct(k, id))"),
    *("approx_count_distinct({str})", "median(q)", "stddev_pop(k)", "max_by(id, struct(k, id))"),
]
FRAMES = [
    "",
    " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
]
RANKS = ["row_number()", "rank()", "dense_rank()", "ntile(4)", "percent_rank()", "cume_dist()"]
OTHERS = ["lag({int})", "lead({str}, 2)", "lag({date}, 1)"]
FRAMED = ["sum({int})", "count({str})", "min({date})", "max({int})", "first_value({str})",
          "last_value({int})", "nth_value({str}, 2)", "avg(q)", "count(*)"]  # fmt: skip
ROLLED = ["GROUP BY ROLLUP(x, y)", "GROUP BY CUBE(x, y)", "GROUP BY GROUPING SETS ((x), (y), ())"]


class Shapes:
    """Queries of one seed."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def query(self) -> str:
        shapes = [self._window, self._rows, self._exploded, self._subquery]
        shapes += [self._sets, self._groups, self._rolled, self._joined]
        return self._draw.choice(shapes)()

    def _value(self, kind: str, depth: int = 0) -> str:
        return self._filled(self._draw.choice(VALUES[kind]), depth)

    def _filled(self, form: str, depth: int = 0) -> str:
        # Deep ones end in columns, which have no part to fill.
        def part(found: re.Match[str]) -> str:
            kind = found[1]
            if depth < 2:
                return self._value(kind, depth + 1)
            return next(v for v in self._shuffled(VALUES[kind]) if "{" not in v)

        return re.sub(r"\{(int|str|date|bool|ints|strs)\}", part, form).replace("{{", "{").replace(
            "}}", "}"
        )  # fmt: skip

    def _shuffled(self, values: list[str]) -> list[str]:
        return self._draw.sample(values, len(values))

    def _some(self, least: int = 1, most: int = 4) -> list[str]:
        kinds = self._draw.choices(list(VALUES), k=self._draw.randint(least, most))
        return [self._shown(self._value(kind), kind) for kind in kinds]

    def _shown(self, value: str, kind: str) -> str:
        # Python's dates end with the year 9999.
        return f"CAST({value} AS STRING)" if kind == "date" else value

    def _where(self) -> str:
        return f" WHERE {self._value('bool')}" if self._draw.random() < 0.4 else ""

    def _named(self, values: list[str]) -> str:
        return ", ".join(f"{value} AS c{i}" for i, value in enumerate(values))

    def _rows(self) -> str:
        return f"SELECT id, {self._named(self._some(2, 6))} {FROM}{self._where()}"

    def _window(self) -> str:
        order = self._draw.choice(["id", "k, id", "s DESC, id", "dt NULLS LAST, id DESC"])
        by = self._draw.choice(["", "PARTITION BY k ", f"PARTITION BY {self._value('bool')} "])
        kind = self._draw.random()
        if kind < 0.3:
            call, frame = self._draw.choice(RANKS), ""
        elif kind < 0.5:
            call, frame = self._draw.choice(OTHERS), ""
        else:
            call, frame = self._draw.choice(FRAMED), self._draw.choice(FRAMES)
        call = self._filled(call, 1)
        shown = f"{call} OVER ({by}ORDER BY {order}{frame})"
        if "date" in call or "dt" in call:
            shown = f"CAST({shown} AS STRING)"
        sql = f"SELECT id, {shown} AS w {FROM}{self._where()}"
        return f"SELECT * FROM ({sql}) WHERE w IS NOT NULL" if self._draw.random() < 0.3 else sql

    def _exploded(self) -> str:
        outer = self._draw.choice(["", "OUTER "])
        call, names = self._draw.choice(
            [
                (f"explode({self._value('ints')})", "e"),
                (f"explode({self._value('strs')})", "e"),
                (f"posexplode({self._value('ints')})", "p, e"),
                ("explode(m)", "e, v"),
                ("inline(pairs)", "x, e"),
            ]
        )
        view = f"LATERAL VIEW {outer}{call} t AS {names}"
        if self._draw.random() < 0.4:
            return f"SELECT e, count(*), min(id) {FROM} {view} GROUP BY e"
        return f"SELECT id, {names} {FROM} {view}{self._where()}"

    def _subquery(self) -> str:
        inner = f"FROM edge e2 WHERE e2.k {self._draw.choice(['=', '<', '<=>'])}"
        return self._draw.choice(
            [
                f"SELECT id, (SELECT max(n) FROM edge) - n AS x {FROM}{self._where()}",
                f"SELECT id, {self._value('int')} AS x {FROM} WHERE n > (SELECT avg(n) FROM edge)",
                f"SELECT id FROM edge e WHERE EXISTS (SELECT 1 {inner} e.k + 1 AND e2.id < 50)",
                f"SELECT id FROM edge e WHERE NOT EXISTS (SELECT 1 {inner} e.k AND e2.n > 49000)",
                "SELECT id, k FROM edge WHERE k "
                f"{self._draw.choice(['IN', 'NOT IN'])} (SELECT i8 FROM edge WHERE id < 40 "
                "AND i8 IS NOT NULL)",
                "SELECT e.id, (SELECT count(*) FROM edge e2 WHERE e2.k = e.k AND e2.id < 100) AS x "
                f"FROM edge e WHERE e.id % {self._draw.randint(2, 9)} = 0",
                f"SELECT id, s FROM edge WHERE s = ANY (SELECT s FROM edge WHERE id < "
                f"{self._draw.randint(5, 90)})".replace("= ANY", "IN"),
            ]
        )

    def _sets(self) -> str:
        kinds = self._draw.choices(["int", "str", "bool"], k=self._draw.randint(1, 3))
        sides = [
            f"SELECT {self._named([self._value(kind, 1) for kind in kinds])} {FROM}{self._where()}"
            for _ in range(2)
        ]
        word = self._draw.choice(
            ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
        )
        return f"({sides[0]}) {word} ({sides[1]})"

    def _calls(self) -> list[str]:
        forms = self._draw.sample(AGGREGATES, self._draw.randint(1, 4))
        return [
            f"CAST({self._filled(form, 1)} AS STRING)" if "date" in form else self._filled(form, 1)
            for form in forms
        ]

    def _groups(self) -> str:
        key = self._value(self._draw.choice(["int", "str", "bool"]), 1)
        having = self._draw.choice(["", "", " HAVING count(*) > 2"])
        calls = self._named(self._calls())
        return f"SELECT {key} AS g, {calls} {FROM}{self._where()} GROUP BY 1{having}"

    def _rolled(self) -> str:
        x, y = self._value("bool", 1), self._value("int", 2)
        below = f"(SELECT *, {x} AS x, pmod({y}, 3) AS y {FROM})"
        return (
            f"SELECT x, y, grouping_id(), {self._named(self._calls())} FROM {below} "
            f"{self._draw.choice(ROLLED)}"
        )

    def _joined(self) -> str:
        kind = self._draw.choice(
            ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
        )
        right = "" if "SEMI" in kind or "ANTI" in kind else ", y.v, y.j"
        key = self._draw.choice(["int", "str"])
        left = f"SELECT id, {self._value(key, 1)} AS j {FROM} WHERE id < 300"
        other = f"SELECT id AS v, {self._value(key, 1)} AS j {FROM} WHERE id % 9 = 0"
        more = self._draw.choice(["", " AND x.id < y.v"])
        return f"SELECT x.id, x.j{right} FROM ({left}) x {kind} ({other}) y ON x.j = y.j{more}"
