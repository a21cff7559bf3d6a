"""A policy for a workload: what its queries compute on each column, and the protections that show
least and let them run.

With enclaves nothing but `tee` is needed. Without, hosts compute on ciphertexts what these allow;
whether a form of a column is needed, the planner itself says, over tables that are only imagined.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from coffer import config_dir
from coffer.session import PASSPHRASE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m coffer advise`."""
    parser.add_argument(
        "queries", type=Path, metavar="QUERIES", help="a file of SQL, or a folder of such"
    )
    parser.add_argument(
        "tables", nargs="+", metavar="TABLES", help="NAME=PATH, files, folders, DDL, sealed tables"
    )
    config_dir.add_option(parser)
    parser.add_argument(
        "--passphrase-file",
        type=Path,
        help=f"file with the passphrase, for sealed tables (default: ${PASSPHRASE})",
    )
    parser.add_argument(
        "--bring-to-client",
        "--bring-home",
        type=int,
        default=0,
        metavar="BYTES",
        help="what a statement may bring to the client to show less",
    )
    parser.add_argument(
        "--without-enclaves", action="store_true", help="--write: the policy for host engines"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the policy as TOML")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the advice. 0: every statement runs under both proposals; 1: one does not, and why."""
    from coffer.advise import planner, proposal, protections, report, tables, toml, workload
    from coffer.advise.command import AdviseError

    folder = config_dir.of(arguments)
    try:
        if arguments.write is not None:
            toml.writable(arguments.write)
        statements = workload.read(arguments.queries)
        with planner.session() as spark:
            found = tables.read(arguments.tables, spark.columns, folder, arguments.passphrase_file)
            table = protections.read()
            planned = spark.planner(found, table)
            advice = proposal.advise(planned, found, statements, table, arguments.bring_to_client)
    except AdviseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    chosen = advice.hosts if arguments.without_enclaves else advice.enclaves
    if arguments.write is not None:
        arguments.write.write_text(chosen.text)
    print(
        json.dumps(report.table_of(advice), indent=1) if arguments.json else report.words(advice),
        end="",
    )
    refused = [
        why for one in (advice.enclaves, advice.hosts) for why, _ in one.planned if why is not None
    ]
    return 1 if refused else 0
