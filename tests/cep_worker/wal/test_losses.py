"""What is lost is counted once, and not forgotten."""

from pathlib import Path

import pytest

from cep_worker.storage.damaged_files import LOOK_MS
from cep_worker.storage.losses import MOST_PLACES, MOST_POSITIONS, Losses, LossRecord, write_lost


def test_a_place_counts_what_more_was_found_lost_there(tmp_path: Path) -> None:
    losses = Losses(tmp_path / "log")
    for place, rows in (("a", 3), ("b", 2), ("a", 3), ("a", 5), ("b", 1)):
        losses.note(rows, place)
    losses.close()
    assert (losses.rows, Losses(tmp_path / "log").rows) == (7, 7)


def test_places_are_forgotten_when_there_are_very_many_and_what_was_lost_there_is_not(tmp_path: Path) -> None:
    losses = Losses(tmp_path)
    for number in range(MOST_PLACES + 2):
        losses.note(1, str(number))
    losses.tick(0)
    assert Losses(tmp_path).rows == MOST_PLACES + 2
    losses.note(1, str(MOST_PLACES + 1))
    assert losses.rows == MOST_PLACES + 2


@pytest.mark.parametrize("damaged", [300, 3 * MOST_POSITIONS])
def test_damaged_records_of_a_file_are_counted_once_however_many_there_are_and_whoever_comes_upon_them(
    damaged: int, tmp_path: Path
) -> None:
    for _ in range(3):
        losses = Losses(tmp_path)
        for position in range(1, damaged + 1):
            losses.note_record(2, "00000001.segment", position)
        losses.close()
        assert losses.rows == 2 * damaged


def test_a_record_that_is_damaged_later_is_counted_too(tmp_path: Path) -> None:
    losses = Losses(tmp_path)
    for position in (10, 30, 20, 30, 5):
        losses.note_record(1, "file", position)
    assert losses.rows == 4
    for position in range(1_000, 1_000 + MOST_POSITIONS):
        losses.note_record(1, "file", position)
    for position in (4, 5, 20, 5_000):
        losses.note_record(1, "file", position)
    losses.close()
    assert (losses.rows, Losses(tmp_path).rows) == (4 + MOST_POSITIONS + 2, 4 + MOST_POSITIONS + 2)


def test_of_many_places_in_one_turn_the_first_is_on_the_disk_at_once_and_the_others_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def write(folder: Path, lost: LossRecord) -> None:
        written.append(lost.rows)
        write_lost(folder, lost)

    monkeypatch.setattr("cep_worker.storage.losses.write_lost", write)
    losses = Losses(tmp_path)
    for number in range(1_000):
        losses.note(1, str(number))
    assert written == [1]
    losses.tick(0)
    losses.note(1, "the next turn")
    losses.close()
    assert written == [1, 1_000, 1_001]


def test_on_a_disk_that_takes_nothing_what_is_lost_is_counted_and_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    losses = Losses(tmp_path / "file")
    losses.note(4, "a")
    losses.tick(0)
    assert losses.rows == 4
    assert "cannot save the count of lost events" in caplog.text


def test_counting_begins_anew_when_the_file_is_removed(tmp_path: Path) -> None:
    losses = Losses(tmp_path)
    losses.note(4, "a")
    losses.tick(0)
    (tmp_path / "lost.json").unlink()
    losses.tick(LOOK_MS - 1)
    assert losses.rows == 4
    losses.tick(LOOK_MS)
    losses.note(4, "a")
    assert losses.rows == 0, "that was told of"
    losses.note(2, "b")
    losses.tick(2 * LOOK_MS)
    assert (losses.rows, Losses(tmp_path).rows) == (2, 2)
