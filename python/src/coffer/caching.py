"""`DataFrame.checkpoint` and `localCheckpoint` of sealed queries.

Spark's own compute an RDD of rows on executors. Of a sealed query both keep its rows as `cache`
does: sealed, on executors' disks, until the DataFrame is forgotten; and the DataFrame that they
return does not know any more what the rows were computed from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import StorageLevel
    from pyspark.sql.classic.dataframe import DataFrame


def install(
    frame: type[DataFrame],
    is_sealed: Callable[[DataFrame], bool],
    bridge: Callable[[DataFrame], Any],
) -> None:
    """Replaces both. Harmless when called again."""
    if getattr(frame.checkpoint, "_coffer", False):
        return
    checkpoint, local_checkpoint = frame.checkpoint, frame.localCheckpoint

    def kept(df: DataFrame, eager: bool) -> DataFrame:
        return frame(bridge(df).checkpoint(df._jdf, eager), df.sparkSession)

    def to_checkpoint(self: DataFrame, eager: bool = True) -> DataFrame:
        return kept(self, eager) if is_sealed(self) else checkpoint(self, eager)

    def to_local_checkpoint(
        self: DataFrame, eager: bool = True, storageLevel: StorageLevel | None = None
    ) -> DataFrame:
        if is_sealed(self):
            return kept(self, eager)
        return local_checkpoint(self, eager, storageLevel)

    to_checkpoint._coffer = True  # type: ignore[attr-defined]
    frame.checkpoint = to_checkpoint  # type: ignore[method-assign]
    frame.localCheckpoint = to_local_checkpoint  # type: ignore[method-assign]
