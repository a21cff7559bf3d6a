"""`python -m coffer sql` (Spark's SQL shell over sealed tables), `explain`, `advise`, and
`settings`, with which any other of Spark's commands starts as a session of Coffer's."""

from __future__ import annotations

import argparse
import sys

from coffer import advise, explain, settings, shell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m coffer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    shell.add_arguments(commands.add_parser("sql", help=shell.__doc__.splitlines()[0]))
    explain.add_arguments(commands.add_parser("explain", help=explain.__doc__.splitlines()[0]))
    advise.add_arguments(commands.add_parser("advise", help=advise.__doc__.splitlines()[0]))
    settings.add_arguments(commands.add_parser("settings", help=settings.__doc__.splitlines()[0]))
    # What follows the known options goes to Spark's shell as it is (--conf, --jars, …).
    arguments, rest = parser.parse_known_args()
    if arguments.command == "sql":
        return shell.run(arguments, rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    run = {"explain": explain.run, "advise": advise.run, "settings": settings.run}
    return run[arguments.command](arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
