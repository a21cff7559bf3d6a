"""The command line: the first word names the harness, a package beside this file with a `cli` module."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HARNESSES = tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/cli.py")))


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in HARNESSES:
        print(f"error: no harness {name!r}\nhint: security/run {'|'.join(HARNESSES)} --help", file=sys.stderr)
        return 2
    return importlib.import_module(f"coffer_security.{name}.cli").main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
