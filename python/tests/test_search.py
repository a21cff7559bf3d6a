"""The search of the leak test finds what it looks for, in every form it claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from coffer.workload.search import files, forms, search

NUMBER = 0x5A1DC93BE7F02467


@pytest.mark.parametrize("form", forms("wombat"))
def test_text_forms(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_bytes(b"\1\2" + forms("wombat")[form] + b"\3")
    hits, searched = search([tmp_path], ["wombat", "absent"])
    assert {hit.value for hit in hits} == {"wombat"}
    assert searched == (tmp_path / "file").stat().st_size


@pytest.mark.parametrize("form", forms(NUMBER))
def test_number_forms(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_bytes(b"\0" * 9 + forms(NUMBER)[form])
    assert {hit.value for hit in search([tmp_path], [NUMBER, NUMBER + 1])[0]} == {str(NUMBER)}


def test_nothing_there_nothing_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"womba")
    (tmp_path / "empty").touch()
    assert search([tmp_path], ["wombat", NUMBER]) == ([], 5)


def test_folders_and_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").touch()
    assert files([tmp_path / "a", tmp_path / "a" / "b" / "c"]) == [tmp_path / "a" / "b" / "c"] * 2
