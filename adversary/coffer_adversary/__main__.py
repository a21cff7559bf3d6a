"""`python -m coffer_adversary`: see `adversary/run --help`."""

from __future__ import annotations

import sys

from coffer_adversary.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
