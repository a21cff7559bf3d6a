"""Where each part of a query would run and what its columns would show there. Nothing of the query
is run."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from coffer import config_dir
from coffer.session import PASSPHRASE, session
from coffer.shell import signed_policy, views_of

# Above Coffer's part of Spark's text.
_TITLE = "== Extended Information ("


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m coffer explain`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-e", dest="query", metavar="QUERY", help="this SQL")
    what.add_argument(
        "-f", dest="file", metavar="FILE", type=Path, help="the SQL of this file, one query"
    )
    config_dir.add_option(parser)
    parser.add_argument(
        "--passphrase-file",
        type=Path,
        help=f"file with the passphrase (default: ${PASSPHRASE}, else a prompt)",
    )
    parser.add_argument(
        "--without-enclaves", action="store_true", help="as with spark.coffer.enclave=none"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan by site. 0: it can run; 1: it cannot, and why."""
    query = arguments.query if arguments.query is not None else arguments.file.read_text()
    folder = config_dir.of(arguments)
    conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    if arguments.without_enclaves:
        conf["spark.coffer.enclave"] = "none"
    lines, refusal = _explained(folder, arguments.passphrase_file, conf, query.strip().rstrip(";"))
    if arguments.json:
        print(
            json.dumps(
                {"query": query, "runs": refusal is None, "plan": lines, "refusal": refusal},
                indent=1,
            )
        )
    elif refusal is None:
        print("\n".join(lines))
    else:
        print(f"error: {refusal}", file=sys.stderr)
    return 0 if refusal is None else 1


def _explained(
    folder: Path, passphrase: Path | None, conf: dict[str, str], query: str
) -> tuple[list[str], str | None]:
    """Coffer's part of EXPLAIN, or why the query is refused."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    # What it would log is what is said below.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    spark = None
    try:
        spark = session(folder, "local[1]", passphrase_file=passphrase, **conf)
        for view in views_of(signed_policy(folder, passphrase, dict(os.environ))):
            spark.sql(view.rstrip(";"))
        text = _formatted(spark, query)
    except Py4JJavaError as failed:
        return [], str(failed.java_exception.getMessage())
    except PySparkException as failed:
        return [], str(failed).split("\n\nJVM stacktrace")[0]
    finally:
        if spark is not None:
            spark.stop()
    _, _, ours = text.partition(_TITLE)
    return (ours or text).partition("\n")[2].strip("\n").splitlines(), None


def _formatted(spark: Any, query: str) -> str:
    mode = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    text: str = spark.sql(query)._jdf.queryExecution().explainString(mode)
    return text
