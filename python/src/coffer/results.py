"""Results of sealed queries as Arrow tables and pandas frames.

Spark's own `toArrow` and `toPandas` have executors turn rows into Arrow batches, so they would have
to open them there. For a sealed query the client engine opens the result beside the driver, and
what it opens is Arrow already: these functions carry those bytes here. `install` puts them behind
Spark's own methods, for sealed queries only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coffer import caching, iteration

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame


VERIFIED = "coffer.verified"
"""The key of a result's metadata: "true", or "false" where the rows are not verified."""


class NotSealed(TypeError):
    """The query reads no sealed table, or the session is not Coffer's; Spark's own methods serve
    it."""


def to_arrow(df: DataFrame) -> pa.Table:
    """The whole result of a sealed query as an Arrow table, with the types of Spark's own
    `toArrow`. Its schema's metadata has `coffer.verified`."""
    _require_sealed(df)
    install()
    table = df.toArrow()
    return table.replace_schema_metadata(
        {**(table.schema.metadata or {}), VERIFIED: _word(verified(df))}
    )


def to_pandas(df: DataFrame) -> pd.DataFrame:
    """The whole result of a sealed query as a pandas frame, with the types of Spark's own
    `toPandas`. Its `attrs` have `coffer.verified`."""
    _require_sealed(df)
    install()
    frame = df.toPandas()
    frame.attrs[VERIFIED] = _word(verified(df))
    return frame


def local(df: DataFrame) -> DataFrame:
    """The rows of a sealed query, brought to the driver once, as a DataFrame: what is built on it
    runs there, by Spark's own operators, and so does a join of it with a sealed table. At most
    `spark.coffer.client.maxBytes`; the rows stay in the driver's memory as long as a DataFrame over
    them."""
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    _require_sealed(df)
    install()
    return Classic(_bridge(df).local(df._jdf), df.sparkSession)


def verified(df: DataFrame) -> bool:
    """Whether there is a proof of the answer of a sealed query: enclaves that proved themselves as
    the policy asks, or the client engine alone. Nobody does where host engines have a part in it
    (`spark.coffer.enclave=none`), or where it reads plain files that the policy lists under
    `unverified_inputs`."""
    _require_sealed(df)
    return bool(_bridge(df).isVerified(df._jdf))


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def is_sealed(df: DataFrame) -> bool:
    """Whether the query reads a sealed table in a Coffer session."""
    bridge = _bridge(df)
    return bridge is not None and bool(bridge.isSealed(df._jdf))


def install() -> None:
    """Puts sealed results behind `DataFrame.toArrow` and `toPandas`, and behind `toLocalIterator`,
    `foreach` and `foreachPartition`, whose functions run in this process. The first two rest on one
    method that fetches Arrow batches; only that is replaced, so types, time zones and names stay
    Spark's. Harmless when called again."""
    from pyspark.sql.classic.dataframe import DataFrame

    iteration.install(DataFrame, is_sealed, _bridge)
    caching.install(DataFrame, is_sealed, _bridge)

    original = DataFrame._collect_as_arrow
    if getattr(original, "_coffer", False):
        return

    def collect(
        self: DataFrame, split_batches: bool = False, empty_list_if_zero_records: bool = True
    ) -> list[pa.RecordBatch]:
        if not is_sealed(self):
            return original(self, split_batches, empty_list_if_zero_records)
        batches = _collect_sealed(self)
        if not empty_list_if_zero_records or any(batch.num_rows for batch in batches):
            return batches
        return []

    collect._coffer = True  # type: ignore[attr-defined]
    DataFrame._collect_as_arrow = collect  # type: ignore[method-assign]


def _collect_sealed(df: DataFrame) -> list[pa.RecordBatch]:
    """At least one batch, so that an empty result still has its schema."""
    import pyarrow as pa
    from pyspark.errors.exceptions.captured import unwrap_spark_exception
    from pyspark.util import local_connect_and_auth

    address, secret, server = _bridge(df).collectArrow(df._jdf)
    stream, connection = local_connect_and_auth(address, secret)
    connection.settimeout(None)  # its time-out is for connecting; a query may take longer
    try:
        with pa.ipc.open_stream(stream) as reader:
            schema = reader.schema
            batches = list(reader)
    except (pa.ArrowInvalid, OSError):
        # The serving thread broke off: its error, raised here, says why; else this one stands.
        with unwrap_spark_exception():
            server.getResult()
        raise
    finally:
        stream.close()
        connection.close()
    with unwrap_spark_exception():
        server.getResult()
    return batches or [pa.RecordBatch.from_pylist([], schema=schema)]


def _require_sealed(df: DataFrame) -> None:
    if not is_sealed(df):
        raise NotSealed(
            "this query reads no sealed table\nhint: use its own toArrow() or toPandas()"
        )


def _bridge(df: DataFrame) -> Any | None:
    jvm = getattr(df.sparkSession, "_jvm", None)
    if jvm is None:
        return None
    if df.sparkSession.sparkContext.getConf().get("spark.plugins", "").find("CofferPlugin") < 0:
        return None
    return getattr(jvm, "org.apache.spark.sql.coffer.PythonBridge")
