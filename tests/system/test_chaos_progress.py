"""How far results have come is told from what their files have grown by."""

from __future__ import annotations

import json
from pathlib import Path

from chaos_progress import Progress


def line(key: str, number: int) -> bytes:
    return json.dumps({"key": key, "number": number}).encode() + b"\n"


def test_the_newest_answered_number_is_told_by_plan_and_worker_as_files_grow(tmp_path: Path) -> None:
    progress = Progress([tmp_path / "one", tmp_path / "two", tmp_path / "gone"], ["Passed", "Joined"])
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    progress.look()
    assert progress.newest("Passed", "one") == 0

    passed = tmp_path / "two" / "Passed.ndjson"
    passed.write_bytes(line("one/0/0", 7) + line("two/1/0", 3) + line("one/0/0", 9)[:10])
    progress.look()
    assert [progress.newest("Passed", name) for name in ("one", "two")] == [7, 3]
    assert progress.newest("Joined", "one") == 0

    with passed.open("ab") as file:
        file.write(line("one/0/0", 9)[10:] + line("two/1/0", 2))
    progress.look()
    assert [progress.newest("Passed", name) for name in ("one", "two")] == [9, 3]


def test_a_file_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    progress = Progress([tmp_path], ["Passed"])
    path = tmp_path / "Passed.ndjson"
    path.write_bytes(line("one/0/0", 5) + line("one/0/0", 6))
    progress.look()
    path.write_bytes(line("one/0/0", 8))
    progress.look()
    assert progress.newest("Passed", "one") == 8
