"""Executors in containers: what they ask of YARN and Kubernetes must hold the engine too, or they
are ended in the midst of a query."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["DEFAULT", "OVERHEAD", "overhead"]

_MEMORY = "spark.coffer.engine.memory"
OVERHEAD = "spark.executor.memoryOverhead"
_FACTOR = "spark.executor.memoryOverheadFactor"
# As CofferConf has it.
DEFAULT = "2GiB"
# Spark's least overhead, for what a JVM needs beyond its heap.
_LEAST_MIB = 384
_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{form}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for form, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


def overhead(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's setting for an executor's memory beyond its heap, with room for the engine; empty
    where executors are no containers, where it is said already, and where the engine's memory is
    no size, which the plugin refuses."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", conf.get(_MEMORY, DEFAULT).strip().lower())
    said = {OVERHEAD, _FACTOR, "spark.coffer.engine.address"} & set(conf)
    if said or not master.startswith(("yarn", "k8s:")) or not found or found[2] not in _UNITS:
        return {}
    engine = int(found[1]) * _UNITS[found[2]] // 2**20
    return {OVERHEAD: f"{engine + _LEAST_MIB}m"}
