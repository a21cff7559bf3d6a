"""The command line: the first word names the harness, a module of this package that has `main(arguments)`."""

from __future__ import annotations

import importlib
import sys

HARNESSES = {"demo": "demo", "leaks": "leaks.cli", "patterns": "patterns.cli"}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in HARNESSES:
        usage = f"testing/run {'|'.join(HARNESSES)} --help"
        print(f"error: no harness {name!r}\nhint: {usage}", file=sys.stderr)
        return 2
    return importlib.import_module(f"coffer_testing.{HARNESSES[name]}").main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
