"""Rows of sealed queries one after the other, and functions over them, in this process.

Spark's own `toLocalIterator`, `foreach` and `foreachPartition` run jobs whose tasks have the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


def install(
    frame: Any, is_sealed: Callable[[DataFrame], bool], bridge: Callable[[DataFrame], Any]
) -> None:
    """Puts the three behind the methods of `frame`, PySpark's class, for sealed queries only.
    Harmless when called again."""
    if getattr(frame.toLocalIterator, "_coffer", False):
        return
    iterate, each, each_partition = frame.toLocalIterator, frame.foreach, frame.foreachPartition

    def to_local_iterator(self: DataFrame, prefetchPartitions: bool = False) -> Iterator[Row]:
        if is_sealed(self):
            return _rows(self, bridge(self))
        return iterate(self, prefetchPartitions)

    def foreach(self: DataFrame, f: Callable[[Row], None]) -> None:
        if not is_sealed(self):
            return each(self, f)
        for row in _rows(self, bridge(self)):
            f(row)
        return None

    def foreach_partition(self: DataFrame, f: Callable[[Iterator[Row]], None]) -> None:
        if not is_sealed(self):
            return each_partition(self, f)
        # A function may return what it has made, or leave rows unread.
        f(_rows(self, bridge(self)))
        return None

    to_local_iterator._coffer = True  # type: ignore[attr-defined]
    frame.toLocalIterator = to_local_iterator
    frame.foreach = foreach
    frame.foreachPartition = foreach_partition


def _rows(df: DataFrame, bridge: Any) -> Iterator[Row]:
    from pyspark.errors.exceptions.captured import unwrap_spark_exception
    from pyspark.serializers import BatchedSerializer, CPickleSerializer
    from pyspark.util import local_connect_and_auth

    # Now, and not with the first row: it may be refused.
    address, secret, server = bridge.iterateRows(df._jdf)
    stream, connection = local_connect_and_auth(address, secret)
    connection.settimeout(None)  # its time-out is for connecting; a query may take longer

    def rows() -> Iterator[Row]:
        try:
            yield from BatchedSerializer(CPickleSerializer()).load_stream(stream)
        finally:
            stream.close()
            connection.close()
        with unwrap_spark_exception():
            server.getResult()

    return rows()
