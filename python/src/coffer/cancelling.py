"""Cancelling what runs in the driver.

Spark cancels jobs. What a sealed query does in the driver itself is none (its client tail): these
calls of PySpark's are told to it too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

BRIDGE = "org.apache.spark.sql.coffer.PythonBridge"


def install(spark: Any) -> None:
    """Wraps the calls of the classes of `spark`, a session of Coffer's, and of its context.
    Harmless when called again."""
    context = type(spark.sparkContext)
    _wrap(context, "cancelAllJobs", lambda _, bridge: bridge.cancelAll())
    _wrap(context, "cancelJobGroup", lambda _, bridge, group: bridge.cancelGroup(group))
    _wrap(context, "cancelJobsWithTag", lambda _, bridge, tag: bridge.cancelTag(tag))
    session = type(spark)
    _wrap(session, "interruptAll", lambda self, bridge: bridge.interruptAll(self._jsparkSession))
    _wrap(
        session,
        "interruptTag",
        lambda self, bridge, tag: bridge.interruptTag(self._jsparkSession, tag),
    )
    _wrap(
        session,
        "interruptOperation",
        lambda self, bridge, op: bridge.interruptExecution(self._jsparkSession, op),
    )


def _wrap(owner: Any, name: str, also: Callable[..., Any]) -> None:
    """`also` gets what the caller gave; where the call answers with ids, its own join them."""
    original = getattr(owner, name)
    if getattr(original, "_coffer", False):
        return

    @wraps(original)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        ids = original(self, *given, **named)
        bridge = _bridge(self)
        if bridge is None:
            return ids
        ended = also(self, bridge, *given[:1], *list(named.values())[: 1 - len(given[:1])])
        return ids if ids is None else [*ids, *(i for i in ended if i not in ids)]

    call._coffer = True  # type: ignore[attr-defined]
    setattr(owner, name, call)


def _bridge(of: Any) -> Any | None:
    context = getattr(of, "sparkContext", of)
    if context.getConf().get("spark.plugins", "").find("CofferPlugin") < 0:
        return None
    return getattr(context._jvm, BRIDGE)
