"""An owner's secrets as something to search for: no key may be where values may not be."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

from coffer_testing import search
from coffer_testing.leaks import dumps
from coffer_testing.owner import Owner
from coffer_testing.search import Planted


def secrets(owner: Owner, folder: Path, env: dict[str, str] | None = None) -> list[Planted]:
    """The KEKs of all columns and footers of the owner's tables, as bytes, base64 and hexadecimal,
    and the passphrase. Keys above them (table keys, masters) never leave the keyring, not even for
    its owner, so nobody can search for them. `env`: what reaches those that lie on a store.

    Raises RuntimeError where an export's own file does not hold what was made of it: the search
    could find nothing.
    """
    folder.mkdir(parents=True)
    found = {}
    for table in json.loads(owner.coffer("keys", "list", "--json").stdout)["tables"]:
        file = folder / f"{len(found)}.json"
        export = ("keys", "export-keks", "--table", table["name"], "--output", file)
        owner.coffer(*export, env=env)
        for name, text in json.loads(file.read_text())["keks"].items():
            found[f"KEK {name}"] = base64.b64decode(text)
    wanted = [Planted(name, _forms(key)) for name, key in found.items()]
    shown = {hit.value for hit in search.search([folder], wanted)[0]}
    if len(shown) != len(found):
        raise RuntimeError(
            f"of {len(found)} exported keys the search sees {len(shown)} in their own files"
        )
    return [*wanted, search.text(owner.passphrase_file.read_text().strip())]


def in_engines(
    owner: Owner, engines: list[int], folder: Path, env: dict[str, str] | None = None
) -> int:
    """How many of the keys are in the memory of running engines, as bytes: they have to be
    somewhere. `env` is that of `secrets`."""
    found = secrets(owner, folder / "keks", env)
    wanted = [value for value in found if value.name.startswith("KEK ")]
    if dumps.can_core():
        return 0
    seen = set()
    for pid in engines:
        (folder / "core").mkdir()
        dumps.core(pid, folder / "core")
        seen |= {
            hit.value
            for hit in search.search([folder / "core"], wanted)[0]
            if hit.form == "key-bytes"
        }
        shutil.rmtree(folder / "core")
    return len(seen)


def _forms(key: bytes) -> dict[str, bytes]:
    digits = key.hex().encode()
    texts = {
        "base64": base64.b64encode(key).rstrip(b"="),
        "hex": digits,
        "hex-upper": digits.upper(),
    }
    wide = {f"key-{name}-utf-16": text.decode().encode("utf-16-le") for name, text in texts.items()}
    return {"key-bytes": key, **{f"key-{name}": text for name, text in texts.items()}, **wide}
