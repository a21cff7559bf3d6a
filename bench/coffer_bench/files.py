"""Results as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(file: Path, result: dict[str, Any]) -> None:
    """One JSON object; whole, or as it was before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.part")
    fresh.write_text(json.dumps(result, indent=1) + "\n")
    fresh.rename(file)
