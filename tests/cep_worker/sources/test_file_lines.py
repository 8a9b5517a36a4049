"""The lines of a file that grows, is cut, is renamed, or is another one than before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cep_worker.sources.file_lines import CHUNK_BYTES, FileLines, FilePosition
from cep_worker.sources.read_position import ReadPosition


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.log"


def follow(path: Path, position: FilePosition | None = None, tailing: bool = True, patience: int = 1) -> FileLines:
    return FileLines(path, position, tailing, patience)


def taken(lines: FileLines) -> list[tuple[int, bytes]]:
    """All that can be read now, as the number of the first line and the data."""
    found = []
    while (one := lines.next()) is not None:
        found.append((one.first, one.data))
    return found


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_line_counts_once_its_end_is_there(path: Path) -> None:
    lines = follow(path)
    assert taken(lines) == []
    append(path, b"one\ntw")
    assert taken(lines) == [(1, b"one\n")]
    append(path, b"o\nthree\n")
    assert taken(lines) == [(2, b"two\nthree\n")]
    assert not lines.ended


def test_a_file_that_is_not_followed_is_read_to_its_end_once(path: Path) -> None:
    append(path, b"one\ntwo")
    lines = follow(path, tailing=False)
    assert taken(lines) == [(1, b"one\n"), (2, b"two")]
    assert lines.ended
    append(path, b"\nthree\n")
    assert taken(lines) == []


def test_reading_goes_on_where_it_stopped(path: Path) -> None:
    append(path, b"one\ntwo\n")
    first = follow(path).next()
    assert first is not None
    append(path, b"three\n")
    assert taken(follow(path, first.behind)) == [(3, b"three\n")]


def test_a_file_that_was_cut_is_read_from_its_beginning(path: Path) -> None:
    lines = follow(path)
    append(path, b"one\ntwo\n")
    taken(lines)
    path.write_bytes(b"new\n")
    assert taken(lines) == [(1, b"new\n")]


def test_what_is_left_of_a_renamed_file_comes_before_the_one_that_takes_its_place(path: Path) -> None:
    lines = follow(path)
    append(path, b"one\n")
    taken(lines)
    old = path.rename(path.with_suffix(".1"))
    append(old, b"two\nthr")
    assert taken(lines) == [(2, b"two\n")]
    append(old, b"ee")
    append(path, b"four\n")
    assert lines.next() is not None, "nobody will end its last line"
    assert taken(lines) == [(1, b"four\n")]


def test_a_file_that_was_renamed_while_nobody_read_is_read_to_its_end_first(path: Path) -> None:
    append(path, b"one\n")
    first = follow(path).next()
    assert first is not None
    append(path, b"two\n")
    path.rename(path.with_suffix(".1"))
    append(path, b"three\n")
    lines = follow(path, first.behind)
    assert taken(lines) == [(2, b"two\n")]
    assert taken(lines) == [(1, b"three\n")]


def test_a_renamed_file_is_left_when_nothing_has_come_to_it_for_a_while(path: Path) -> None:
    append(path, b"one\n")
    lines = follow(path, patience=3)
    assert taken(lines) == [(1, b"one\n")]
    old = path.rename(path.with_suffix(".1"))
    append(path, b"three\n")
    assert [lines.next(), lines.next()] == [None, None]
    append(old, b"two\nhal")
    assert taken(lines) == [(2, b"two\n")]
    append(old, b"f\n")
    assert taken(lines) == [(3, b"half\n")]
    assert [lines.next(), lines.next()] == [None, None]
    assert taken(lines) == [(1, b"three\n")]


def test_a_file_that_was_cut_and_has_grown_again_is_read_from_its_beginning(path: Path) -> None:
    append(path, b"one\n")
    lines = follow(path)
    taken(lines)
    path.write_bytes(b"new one\nand two\n")
    assert taken(lines) == [(1, b"new one\nand two\n")]


def test_a_file_that_only_has_the_number_of_the_former_one_is_another(path: Path) -> None:
    append(path, b"one\ntwo\n")
    found = follow(path).next()
    assert found is not None
    path.write_bytes(b"1\n2\n3\n4\n5\n")
    assert taken(follow(path, found.behind)) == [(1, b"1\n2\n3\n4\n5\n")]
    path.rename(path.with_suffix(".gz"))
    append(path, b"new\n")
    assert taken(follow(path, found.behind)) == [(1, b"new\n")], "what has that number is not what is left of it"


def test_what_is_no_file_is_told_and_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(OSError, match="is not a regular file"):
        follow(path).next()


def test_reading_goes_on_within_a_line_that_is_too_long(path: Path) -> None:
    append(path, b"x" * (CHUNK_BYTES + 5))
    found = follow(path).next()
    assert found is not None
    assert found.too_long
    append(path, b"end\ntwo\n")
    assert taken(follow(path, found.behind)) == [(2, b"two\n")]


def test_a_line_that_is_too_long_is_told_and_passed_over(path: Path) -> None:
    append(path, b"one\n" + b"x" * (2 * CHUNK_BYTES) + b"\nthree\n")
    lines = follow(path)
    found = []
    while (one := lines.next()) is not None:
        found.append((one.first, one.data, one.too_long))
    assert [data for _, data, _ in found if data] == [b"one\n", b"three\n"]
    assert [first for first, _, too_long in found if too_long] == [2]
    assert [first for first, data, _ in found if data] == [1, 3]


def test_one_of_those_who_share_a_position_has_it_at_a_time(tmp_path: Path) -> None:
    one, other = (ReadPosition(tmp_path / "positions", "-1234", "Plan", "S", "/x") for _ in range(2))
    assert one.take()
    assert not other.take()
    assert one.load() is None
    one.save(FilePosition(1, 2, 3, 4))
    one.release()
    assert other.take()
    assert other.load() == FilePosition(1, 2, 3, 4)
    other.release()
    elsewhere = ReadPosition(tmp_path / "positions", "-1234", "Plan", "T", "/x")
    assert elsewhere.take()
    assert elsewhere.load() is None
    elsewhere.release()


def test_a_damaged_position_is_told(tmp_path: Path) -> None:
    position = ReadPosition(tmp_path, "x")
    position.save(FilePosition(1, 2))
    (kept,) = tmp_path.glob("*.json")
    kept.write_bytes(b"{")
    with pytest.raises(ValueError, match="is damaged"):
        position.load()
