"""TPC-H's own queries, all of them: exactly plaintext Spark's rows."""

from __future__ import annotations

import pytest

from coffer_testing import tpch
from coffer_testing.answers import difference
from coffer_testing.queries import TPCH_OFFICIAL
from coffer_testing.runner import Driver
from coffer_testing.turns import one_of
from conftest import Expected


@pytest.mark.parametrize("number", one_of(TPCH_OFFICIAL, 8))
def test_local(number: int, expected: Expected, sealed: Driver) -> None:
    check(number, expected, sealed)


@pytest.mark.cluster
@pytest.mark.parametrize("number", one_of(TPCH_OFFICIAL, 6))
def test_cluster(number: int, expected: Expected, clustered: Driver) -> None:
    check(number, expected, clustered)


def check(number: int, expected: Expected, sealed: Driver) -> None:
    sql = tpch.query(number)
    want = expected.answer(sql)
    assert want.rows
    assert difference(want, sealed.query(sql), ordered=True) is None
