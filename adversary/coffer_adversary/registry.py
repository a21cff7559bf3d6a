"""All mutations. A module adds its own by a tuple `MUTATIONS`, and its name here."""

from __future__ import annotations

import importlib

from coffer_adversary.mutation import Mutation

MODULES = (
    *(
        "wire",
        "stored",
        "versions",
        "writes",
        "shuffle_files",
        "caches",
        "spill",
        "reports",
        "outcomes",
        "engines",
        "driver",
    ),
    *("cipher", "client_inputs", "paths", "plain", "publication", "site", "properties"),
    "stores",
)


def mutations() -> list[Mutation]:
    """Every mutation, in the order of the modules; names are unique."""
    found: list[Mutation] = []
    for module in MODULES:
        found += importlib.import_module(f"coffer_adversary.{module}").MUTATIONS
    names = [mutation.name for mutation in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two mutations have one name: {', '.join(twice)}")
    return found
