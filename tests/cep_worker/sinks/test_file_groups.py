"""Groups of results in a file: each whole and once, wherever the process stops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from worker_world import KEY

from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.sinks.file_groups import FileGroups

FIRST, SECOND = (GroupId(KEY, "publisher#0", 7, 0, checkpoint, "log") for checkpoint in (3, 5))
OTHER = GroupId(KEY, "publisher#1", 7, 0, 3, "other log")


def put(file: Path, *texts: tuple[GroupId, bytes]) -> None:
    groups = FileGroups(file)
    try:
        for group, text in texts:
            if not groups.has(group):
                groups.begin(FrameId(group, 1))
                groups.write(group.log, memoryview(text))
            groups.commit(group)
    finally:
        groups.close()


def test_groups_stand_in_order_and_those_that_come_again_once(tmp_path: Path) -> None:
    file = tmp_path / "alerts"
    put(file, (FIRST, b"1\n"), (OTHER, b"2\n"))
    put(file, (FIRST, b"1\n"), (SECOND, b"3\n"), (OTHER, b"2\n"))
    assert file.read_text() == "1\n2\n3\n"


def test_a_group_that_was_begun_and_not_committed_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "alerts"
    groups = FileGroups(file)
    groups.begin(FrameId(FIRST, 1))
    groups.write(FIRST.log, memoryview(b"half"))
    groups.close()
    put(file, (OTHER, b"2\n"), (FIRST, b"1\n"))
    assert file.read_text() == "2\n1\n"


def test_groups_of_several_publishers_may_come_at_the_same_time(tmp_path: Path) -> None:
    file = tmp_path / "alerts"
    groups = FileGroups(file)
    for number, group, text in ((1, FIRST, b"1\n"), (1, OTHER, b"2\n"), (2, FIRST, b"3\n"), (2, OTHER, b"4\n")):
        groups.begin(FrameId(group, number))
        assert groups.write(group.log, memoryview(text)) == 2
    groups.commit(OTHER)
    groups.commit(FIRST)
    groups.close()
    assert file.read_text() == "2\n4\n1\n3\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alerts", "alerts.commits", "alerts.pending"]


def test_a_group_that_comes_anew_before_it_was_committed_stands_once(tmp_path: Path) -> None:
    file = tmp_path / "alerts"
    groups = FileGroups(file)
    for number, text in ((1, b"1\n"), (2, b"2\n"), (1, b"1\n"), (2, b"2\n"), (3, b"3\n")):
        groups.begin(FrameId(FIRST, number))
        groups.write(FIRST.log, memoryview(text))
    groups.commit(FIRST)
    groups.close()
    assert file.read_text() == "1\n2\n3\n"


def test_of_the_newest_logs_a_group_is_remembered_and_no_sooner_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cep_worker.sinks.file_groups.MOST_LOGS", 10)
    made = [GroupId(KEY, "publisher#0", 7, 0, 3, f"log {number}") for number in range(12)]
    groups = FileGroups(tmp_path / "alerts")
    for count, group in enumerate(made, 1):
        groups.commit(group)
        assert [known for known in made if groups.has(known)] == made[max(0, count - 10) : count]
    groups.close()


class Stopped(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("after", range(12))
def test_wherever_the_process_stops_each_group_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The process ends at the `after`th of its steps that reach the disk; then everything comes again."""
    file = tmp_path / "alerts"
    put(file, (FIRST, b"1\n"))
    steps = 0

    def step(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > after:
                raise Stopped
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", step(os.fsync))
        patched.setattr(Path, "replace", step(Path.replace))
        patched.setattr("cep_worker.sinks.file_groups.shutil.copyfileobj", step(_half_a_copy))
        stopped = False
        try:
            put(file, (SECOND, b"3\n4\n"))
        except Stopped:
            stopped = True
    put(file, (SECOND, b"3\n4\n"), (OTHER, b"2\n"))
    assert file.read_text() == "1\n3\n4\n2\n"
    assert stopped == (after < 10), "every step was tried"


def _half_a_copy(source: Any, target: Any) -> None:
    """What was written before the next step is only half of it."""
    text = source.read()
    target.write(text[: len(text) // 2])
    target.flush()
    os.fsync(target.fileno())
    target.write(text[len(text) // 2 :])


def test_a_file_has_one_writer_of_groups(tmp_path: Path) -> None:
    groups = FileGroups(tmp_path / "alerts")
    with pytest.raises(BlockingIOError):
        FileGroups(tmp_path / "alerts")
    groups.close()
    FileGroups(tmp_path / "alerts").close()


@pytest.mark.parametrize("left", [b"", b"1\n", b"1\n2"], ids=["nothing", "a line", "half a line"])
@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_was_cut_is_told_and_what_follows_stands_on_lines_of_its_own(
    tmp_path: Path, left: bytes, again: bool
) -> None:
    file = tmp_path / "alerts"
    groups = FileGroups(file)
    groups.begin(FrameId(FIRST, 1))
    groups.write(FIRST.log, memoryview(b"1\n22\n"))
    groups.commit(FIRST)
    file.write_bytes(left)
    if again:
        groups.close()
        groups = FileGroups(file)
        assert groups.missing_bytes == 5 - len(left)
    groups.begin(FrameId(SECOND, 1))
    groups.write(SECOND.log, memoryview(b"3\n"))
    groups.commit(SECOND)
    assert groups.missing_bytes == 5 - len(left), "each is counted once"
    whole = left if left[-1:] in (b"", b"\n") else left + b"\n"
    assert file.read_bytes() == whole + b"3\n"
    groups.close()


def test_a_file_that_is_cut_while_a_group_is_on_its_way_into_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "alerts"
    put(file, (FIRST, b"1\n22\n"))
    with monkeypatch.context() as broken:
        broken.setattr("shutil.copyfileobj", failing)
        with pytest.raises(OSError, match="no"):
            put(file, (SECOND, b"3\n"))
    file.write_bytes(b"1\n2")
    groups = FileGroups(file)
    assert groups.missing_bytes == 2
    assert file.read_bytes() == b"1\n2\n3\n"
    groups.close()


def failing(*_: Any) -> None:
    raise OSError("no")
