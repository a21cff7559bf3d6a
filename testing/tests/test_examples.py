"""The examples of Spark's own documentation of its built-in functions, over sealed rows: each gives
the documented answer, or is listed here with the reason why it cannot."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from coffer_testing.owner import Owner
from coffer_testing.runner import Driver
from coffer_testing.turns import one_of

# Functions whose documented answer is of its writer's moment, machine, draw or release.
NO_ANSWER = {
    "its moment": "curdate current_date current_timestamp localtimestamp now",
    "its user or release": "current_timezone current_user session_user user version "
    "unix_timestamp to_unix_timestamp",
    "its draw": "rand randn random randstr uniform uuid shuffle aes_encrypt",
    "no part of this Spark": "from_avro to_avro schema_of_avro from_protobuf to_protobuf",
    "refused: see functions.md": "input_file_name input_file_block_start input_file_block_length "
    "java_method reflect try_reflect python_worker_logs",
}
# What Spark 4.1 itself refuses as it comes.
OFF = re.compile(r"(?i)\btime\s*'|\bst_\w+\(|_time\(|\bcurrent_time\b|\btime_(diff|trunc)\(")
# No sealed string is malformed UTF-8.
MALFORMED = {"is_valid_utf8", "make_valid_utf8", "try_validate_utf8", "validate_utf8"}
# Column names are the names of fields there.
NAMED = {"struct"}
# Sums of doubles are exact and rounded once in the engine; Spark's last digits follow its order.
CLOSE = re.compile(r"regr_|kurtosis|skewness|corr|covar_|std|var|avg|mean|percentile")
# Both orders are Spark's, by its hash table.
ANY_ORDER = {"string_agg", "listagg", "collect_set"}


# All functions are tried in so many parts. How many examples of each run over columns, and how many
# of these in engines alone.
PARTS = 8
OVER, ALONE = 100, 75


def reason(example: dict[str, Any]) -> str | None:
    """Why an example has no answer to compare with."""
    for why, names in NO_ANSWER.items():
        if example["name"] in names.split():
            return why
    if OFF.search(example["sql"]):
        return "Spark has TIME and geometries switched off"
    if example["name"] in MALFORMED:
        return "malformed text is refused when it is read"
    if example["name"] in NAMED and "named" not in example["sql"]:
        return "its fields have the columns' names"
    return None


def same(example: dict[str, Any], got: str) -> bool:
    want = example["answer"]
    if got == want or sorted(got.split("\n")) == sorted(want.split("\n")):
        return True
    if example["name"] in ANY_ORDER:
        return sorted(got) == sorted(want)
    if not CLOSE.search(example["name"]):
        return False
    try:
        return math.isclose(float(got), float(want), rel_tol=1e-12)
    except ValueError:
        return False


@pytest.mark.parametrize("part", one_of(range(PARTS), PARTS))
def test_documented_answers(
    part: int, plain: Driver, sealed: Driver, owner: Owner, tmp_path: Path
) -> None:
    code = "from coffer_testing import examples\nresult = examples.{}"
    made = plain.run(
        code.format("prepare(spark, folder, part)"),
        folder=str(tmp_path / "plain"),
        part=[part, PARTS],
    )
    files = {f"{name}_{part}": Path(file) for name, file in made["files"].items()}
    tables = owner.encrypt(files, tmp_path / "sealed")
    examples = [e for e in made["examples"] if reason(e) is None]
    found = sealed.run(
        code.format("run(spark, some, tables)"),
        some=examples,
        tables={name: str(tables[f"{name}_{part}"]) for name in made["files"]},
    )
    wrong = []
    for example, ran in zip(examples, found, strict=True):
        if ran["error"] is not None:
            if not example["answer"].startswith("[") or example["answer"] not in ran["error"]:
                wrong.append((example["form"], example["answer"], ran["error"][:300]))
        elif not same(example, ran["answer"]):
            wrong.append((example["form"], example["answer"], ran["answer"]))
    assert not wrong, "\n".join(map(str, wrong))
    over = sum(e["over"] for e in examples)
    engine = sum(e["over"] and r["where"] == "engine" for e, r in zip(examples, found, strict=True))
    print(f"{len(examples)} examples, {over} over columns, {engine} of these in engines alone")
    assert over >= OVER and engine >= ALONE, (over, engine)
