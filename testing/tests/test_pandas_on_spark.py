"""The calls of pandas-on-Spark that notebooks are full of, over sealed rows: the same as over plain
ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coffer_testing.runner import Driver
from coffer_testing.turns import one_of
from conftest import Expected, with_client_tail

HEAD = """
import pyspark.pandas as ps
edge = spark.table('edge').select('id', 'k', 'n', 's', 'b', 'f64', 'dt', 'ts').pandas_api()
few = spark.table('edge').where('id < 60').select('id', 'k', 'n', 's').pandas_api(index_col='id')
def told(of):
    of = of.to_pandas() if hasattr(of, 'to_pandas') else of
    return of.to_csv(float_format='%.6g') if hasattr(of, 'to_csv') else repr(of)
"""
CALLS = {
    "shape": "edge.shape",
    "columns": "list(edge.columns), [str(t) for t in edge.dtypes]",
    "head": "edge.sort_values('id').set_index('id').head(7)[['s', 'n']]",
    "index": "edge[['id']].sort_values('id').reset_index(drop=True).index.max()",
    "rows_by_condition": "few[(few.k > 2) & few.s.notnull()][['s']].sort_index()",
    "loc": "few.loc[5:9, ['k', 's']].sort_index()",
    "iloc": "edge.sort_values('id').set_index('id').iloc[3:8, 0:2]",
    "query": "few.query('k > 3').sort_index()",
    "assigned": "few.assign(m=few.n * 2, t=few.s.str.upper()).sort_index()",
    "dropped": "few.drop(columns=['s']).dropna().sort_index()",
    "renamed": "few.rename(columns={'k': 'key'}).sort_index().head(3)",
    "filled": "few.fillna({'k': 0, 's': '-'}).sort_index()",
    "cast": "few.n.fillna(0).astype('int64').sort_index()",
    "described": "few[['n']].describe().loc[['count', 'min', 'max']]",
    "counts": "edge.k.value_counts(dropna=False).sort_index()",
    "unique": "sorted(edge.k.dropna().unique().to_numpy().tolist()), edge.k.nunique()",
    "aggregates": "edge[['n', 'k']].agg(['min', 'max', 'count']).sort_index()",
    "grouped": "edge.groupby('k').n.sum().sort_index()",
    "grouped_many": "edge.groupby(['k', 'b']).agg({'n': ['min', 'max'], 'id': 'count'})"
    ".sort_index()",
    "grouped_by_function": "few.groupby('k').n.apply(lambda x: x.max() - x.min()).sort_index()",
    "transformed": "few.groupby('k').n.transform(lambda x: x.fillna(0) + 1).sort_index()",
    "ranks": "few.n.rank(method='dense').sort_index()",
    "shifted": "few.sort_index().n.shift(1).sort_index()",
    "cumulative": "few.sort_index().k.fillna(0).cumsum().sort_index()",
    "rolling": "few.sort_index().k.rolling(3).max().sort_index()",
    "merged": "few.reset_index().merge(edge[['id', 'f64']], on='id', how='left')"
    ".sort_values('id')[['id', 'f64']]",
    "joined": "few.join(few[['k']].rename(columns={'k': 'm'}), how='inner').sort_index()",
    "concatenated": "ps.concat([few[['k']], few[['k']]]).sort_index()",
    "pivoted": "edge[edge.k.notnull()].pivot_table(values='n', index=['b'], columns='k', "
    "aggfunc='max').sort_index()",
    "melted": "few.reset_index().melt(id_vars=['id'], value_vars=['k', 'n'])"
    ".sort_values(['id', 'variable'])",
    "crossed": "edge.groupby('b').k.value_counts().sort_index()",
    "applied": "few.k.apply(lambda x: -1 if x != x or x is None else x + 1).sort_index()",
    "applied_to_rows": "few[['k', 'n']].fillna(0).apply(lambda r: r.k + r.n, axis=1).sort_index()",
    "mapped": "few.s.map({'a': 'one', 'zz': 'two'}).sort_index()",
    "texts": "few.s.str.len().sort_index(), few.s.str.contains('a').sum()",
    "times": "edge.set_index('id').ts.dt.year.value_counts().sort_index()",
    "duplicates": "edge[['k', 'b']].drop_duplicates().sort_values(['k', 'b']).to_numpy().tolist()",
    "largest": "few.nlargest(4, 'n')[['n']]",
    "quantile": "float(few.n.quantile(0.5))",
    "correlation": "round(float(few[['k', 'n']].dropna().corr().iloc[0, 1]), 4)",
    "sql": "ps.sql('SELECT k, count(*) AS c FROM {t} GROUP BY k ORDER BY k', t=edge)",
    "to_spark": "[list(r) for r in few.to_spark(index_col='id').orderBy('id').limit(3).collect()]",
    "from_pandas": "ps.from_pandas(few.to_pandas().head(3)).sort_index()",
    "to_dict": "few.sort_index().head(2).to_dict()",
    "any_all": "bool((few.k > 4).any()), bool((few.k > -100).all())",
    "isin": "few[few.k.isin([1, 3])].sort_index()",
    "where": "few.k.where(few.k > 2, 0).sort_index()",
    "cut_of_the_index": "few.reset_index().set_index('k').sort_index().head(2).index.tolist()",
}


@pytest.fixture(scope="module")
def sealed(sealed: Driver) -> Iterator[Driver]:
    yield from with_client_tail(sealed)


@pytest.mark.parametrize("name", one_of(CALLS, 2))
def test_same_as_plaintext(name: str, expected: Expected, sealed: Driver) -> None:
    code = HEAD + f"made = {CALLS[name]}\nmade = made if isinstance(made, tuple) else (made,)\n"
    code += "result = [told(one) for one in made]\n"
    got = sealed.run(code)
    assert got == expected.result(code, got)
