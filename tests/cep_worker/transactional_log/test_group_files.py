"""Files of prepared results: found again as they were, up to where they were torn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_examples import examples
from worker_world import ALERTS, KEY, alerts

from cep_common.protocol.links import Data, OpenLink, StreamSchema
from cep_worker.outflows.transactional_log.file_sync import FileSync
from cep_worker.outflows.transactional_log.group_file import GroupFrame, GroupHeader, GroupReader, GroupWriter, recover
from cep_worker.outflows.transactional_log.publisher_log import PublisherLog
from topology.events.frames import encode_batch

STREAMS = (StreamSchema("Alerts", ALERTS),)
HEADER = GroupHeader("log", "publisher#0", 7, 0, STREAMS, 5, 0)
BODIES = [b"first", b"", b"the third" * 100]


def write(path: Path, bodies: list[bytes], checkpoint: int | None = None) -> GroupWriter:
    writer = GroupWriter.create(path, HEADER)
    for number, body in enumerate(bodies, 1):
        writer.append(GroupFrame("Alerts", number * 10), body, 10)
    if checkpoint is not None:
        writer.mark(checkpoint)
    return writer


def read(path: Path) -> list[tuple[int, bytes]]:
    found = recover(path)
    assert found is not None
    reader = GroupReader(found.group)
    frames = []
    while (frame := reader.next()) is not None:
        frames.append((frame.number, bytes(frame.body)))
    reader.close()
    return frames


def test_a_group_is_found_as_it_was_written(tmp_path: Path) -> None:
    writer = write(tmp_path / "1.results", BODIES, checkpoint=12)
    os.close(writer.descriptor)
    found = recover(tmp_path / "1.results")
    assert found is not None
    assert found.group == writer.group
    assert (found.group.rows, found.group.position, found.group.checkpoint) == (30, 30, 12)
    assert found.torn_bytes == 0
    assert read(tmp_path / "1.results") == [(5, BODIES[0]), (6, BODIES[1]), (7, BODIES[2])]


@given(st.data())
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_torn_ends_the_group_what_is_damaged_is_left_out_and_it_can_be_written_on(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "1.results"
    path.unlink(missing_ok=True)
    writer = write(path, [])
    os.close(writer.descriptor)
    header_bytes = path.stat().st_size
    path.unlink()
    writer = write(path, BODIES, checkpoint=12)
    os.close(writer.descriptor)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    torn = data.draw(st.booleans(), label="torn")
    if torn:
        path.write_bytes(whole[:at])
    else:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])
    found = recover(path)
    if found is None:
        assert at < header_bytes, "only a damaged header leaves nothing"
        return
    before = read(path)
    sent = [(5 + number, body) for number, body in enumerate(BODIES)]
    assert before == [frame for frame in sent if frame in before]
    assert len(before) >= len(BODIES) - 1 or torn, "one damaged byte takes one frame along"
    assert found.group.lost_rows <= 30 - 10 * len(before)
    if before[-1:] == sent[-1:]:
        assert found.group.lost_rows == 30 - 10 * len(before), "it is told how many events are missing"
    if found.group.checkpoint is None:
        writer = GroupWriter.reopen(found.group)
        writer.append(GroupFrame("Alerts", 99), b"next", 1)
        os.close(writer.descriptor)
        assert read(path) == [*before, (before[-1][0] + 1 if before else 5, b"next")]


def test_a_frame_that_lacks_only_what_fills_it_up_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "1.results"
    writer = write(path, [b"first"])
    os.close(writer.descriptor)
    os.truncate(path, writer.group.size_bytes - 1)
    found = recover(path)
    assert found is not None
    assert (found.group.rows, found.torn_bytes) == (10, 0)
    os.close(GroupWriter.reopen(found.group).descriptor)
    assert path.stat().st_size == writer.group.size_bytes
    assert read(path) == [(5, b"first")]


@pytest.fixture
def sync() -> Iterator[FileSync]:
    made = FileSync(lambda call: call())
    yield made
    made.close()


def opening(attempt: int = 0) -> OpenLink:
    return OpenLink("publisher#0", STREAMS, KEY, 7, attempt=attempt)


def send(log: PublisherLog, position: int, rows: int = 1) -> int:
    batch = alerts(*[(number, "UA", number) for number in range(position - rows + 1, position + 1)])
    return log.append(Data("Alerts", 1, rows, 0, 7, position), batch, encode_batch(batch))


def test_a_log_that_is_opened_again_goes_on_where_it_was(tmp_path: Path, sync: FileSync) -> None:
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    assert [send(log, 3, 3), send(log, 5, 2)] == [3, 2]
    log.mark(1, lambda: None)
    send(log, 6)
    log.close()
    again = PublisherLog(tmp_path, KEY, sync)
    again.begin(opening(), 0)
    assert [(group.checkpoint, group.rows) for group in again.groups] == [(1, 5), (None, 1)]
    assert send(again, 6) == 0, "it is held already"
    again.mark(1, lambda: None)
    assert again.groups[-1].checkpoint is None, "the marker had come before"
    assert send(again, 8, 3) == 2
    again.mark(2, lambda: None)
    first, second, _ = again.groups
    assert (first.header.first_number, second.header.first_number, second.next_number) == (1, 3, 5)
    assert again.group_id(first).log == again.group_id(second).log
    again.close()


def test_numbers_and_positions_outlive_the_groups_that_were_delivered(tmp_path: Path, sync: FileSync) -> None:
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 1)
    log.mark(1, lambda: None)
    identity = log.group_id(log.groups[0]).log
    log.drop_oldest()
    log.close()
    again = PublisherLog(tmp_path, KEY, sync)
    again.begin(opening(), 0)
    assert send(again, 1) == 0
    assert send(again, 2) == 1
    assert again.groups[0].header.first_number == 2
    assert again.group_id(again.groups[0]).log == identity
    again.close()


def test_another_attempt_begins_anew_behind_what_the_former_one_left(tmp_path: Path, sync: FileSync) -> None:
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 4, 4)
    log.begin(opening(attempt=1), 0)
    assert send(log, 2, 2) == 2, "positions are those of an attempt"
    log.mark(3, lambda: None)
    log.begin(opening(attempt=2), 0)
    found = [(group.header.attempt, group.checkpoint, group.rows) for group in log.groups]
    assert found == [(0, None, 4), (1, 3, 2), (2, None, 0)]
    assert [group.header.first_number for group in log.groups] == [1, 2, 3], "numbers are those of the log"
    log.close()


def test_a_marker_is_durable_when_everything_before_it_is_on_the_disk(
    tmp_path: Path, sync: FileSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (steps.append("disk"), real(descriptor))[1])
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 1)
    log.mark(1, lambda: steps.append("durable"))
    sync.close()
    assert "disk" in steps
    assert steps.index("durable") == len(steps) - 1
    log.close()


def test_a_file_whose_beginning_is_damaged_is_set_aside_and_its_events_are_counted(
    tmp_path: Path, sync: FileSync, caplog: pytest.LogCaptureFixture
) -> None:
    log = PublisherLog(tmp_path / "log", KEY, sync)
    log.begin(opening(), 0)
    for position in (1, 2):
        send(log, position)
        log.mark(position, lambda: None)
    log.close()
    damaged = log.groups[0].path
    content = damaged.read_bytes()
    damaged.write_bytes(content[:50] + b"?" + content[51:])
    again = PublisherLog(tmp_path / "log", KEY, sync)
    assert (lost_rows(again), again.prepared_rows()) == (1, 1)
    assert damaged.with_suffix(".unreadable").read_bytes() != content
    assert "set aside" in caplog.text
    again.remove()
    assert [path.name for path in again.folder.iterdir()] == [damaged.with_suffix(".unreadable").name]


@pytest.mark.parametrize("content", [b"", bytes(200), b"?" * 200])
def test_a_file_of_which_nothing_can_be_read_is_deleted_only_if_it_is_blank(
    tmp_path: Path, sync: FileSync, content: bytes
) -> None:
    log = PublisherLog(tmp_path / "log", KEY, sync)
    log.begin(opening(), 0)
    for position in (1, 2):
        send(log, position)
        log.mark(position, lambda: None)
    log.close()
    damaged = log.groups[0].path
    damaged.write_bytes(content)
    again = PublisherLog(tmp_path / "log", KEY, sync)
    assert again.prepared_rows() == 1
    assert not damaged.exists()
    assert damaged.with_suffix(".unreadable").exists() == any(content)
    again.close()


def test_events_at_the_end_of_a_file_are_missed_by_where_the_next_one_begins(tmp_path: Path, sync: FileSync) -> None:
    log = PublisherLog(tmp_path / "log", KEY, sync)
    log.begin(opening(), 0)
    send(log, 1)
    begin = log.groups[0].size_bytes
    send(log, 4, rows=3)
    log.mark(1, lambda: None)
    send(log, 5)
    log.close()
    content = bytearray(log.groups[0].path.read_bytes())
    content[begin + 8] ^= 1  # its length can no longer be trusted
    log.groups[0].path.write_bytes(content)
    again = PublisherLog(tmp_path / "log", KEY, sync)
    assert (lost_rows(again), again.prepared_rows(), again.groups[0].checkpoint) == (3, 2, 1)
    again.close()


@pytest.mark.parametrize("offset", [8, 40], ids=["its length", "its body"])
def test_events_right_before_a_mark_are_missed_once(tmp_path: Path, sync: FileSync, offset: int) -> None:
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 1)
    begin = log.groups[0].size_bytes
    send(log, 4, rows=3)
    log.mark(1, lambda: None)
    send(log, 5)
    log.close()
    flip(log.groups[0].path, begin + offset)
    again = PublisherLog(tmp_path, KEY, sync)
    assert (lost_rows(again), again.prepared_rows(), again.groups[0].checkpoint) == (3, 2, 1)
    again.close()


def lost_rows(log: PublisherLog) -> int:
    """What cannot be read of what was found, whether it stands or not."""
    return sum(log.lost.values()) + sum(group.lost_rows for group in log.groups)


def three_marked(folder: Path, sync: FileSync) -> list[Path]:
    """Two events of each of the checkpoints 1, 2, 3; the files."""
    log = PublisherLog(folder, KEY, sync)
    log.begin(opening(), 0)
    for checkpoint in (1, 2, 3):
        send(log, checkpoint * 2 - 1)
        send(log, checkpoint * 2)
        log.mark(checkpoint, lambda: None)
    log.close()
    return sorted(folder.glob("*.results"))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def frame_ends(path: Path) -> list[int]:
    found = recover(path)
    assert found is not None
    reader, ends = GroupReader(found.group), []
    while reader.next() is not None:
        ends.append(reader._offset)
    reader.close()
    return ends


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("frames_left", [2, 1, 0])
def test_a_mark_that_is_lost_is_told_by_the_next_file_and_what_is_missing_before_it_is_counted_once(
    tmp_path: Path, sync: FileSync, torn: bool, frames_left: int
) -> None:
    damaged = three_marked(tmp_path, sync)[1]
    first, second = frame_ends(damaged)
    if torn:
        os.truncate(damaged, {2: second + 8, 1: second - 8, 0: first - 8}[frames_left])
    else:
        flip(damaged, second + 8)
        if frames_left < 2:
            flip(damaged, second - 16)
        if not frames_left:
            flip(damaged, first - 16)
    log = PublisherLog(tmp_path, KEY, sync)
    assert (log.prepared_rows(), lost_rows(log)) == (4 + frames_left, 2 - frames_left)
    log.close()
    again = PublisherLog(tmp_path, KEY, sync)
    for opened in (log, again):
        assert [one.checkpoint for one in opened.groups] == [1, *([2] if frames_left else []), 3, None]
        assert [one.header.first_number for one in opened.groups][-2:] == [5, 7]
    again.close()


@pytest.mark.parametrize("frames_left", [2, 1, 0])
def test_numbers_of_frames_that_are_lost_at_the_end_are_never_given_again(
    tmp_path: Path, sync: FileSync, frames_left: int
) -> None:
    _, _, third, fourth = three_marked(tmp_path, sync)  # frames 5 and 6, a mark; the beginning of what follows
    flip(fourth, 50)
    for end in frame_ends(third)[frames_left:]:
        flip(third, end - 16)
    flip(third, third.stat().st_size - 8)
    for _ in range(2):  # also when nothing was written before it is opened once more
        log = PublisherLog(tmp_path, KEY, sync)
        assert (log.groups[-1].frames, log.groups[-1].rows) == (frames_left, frames_left), "they are no results"
        assert log.groups[-1].next_number >= 7
        log.close()
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 7)
    log.close()
    again = PublisherLog(tmp_path, KEY, sync)
    reader, numbers = GroupReader(again.groups[-1]), []
    while (frame := reader.next()) is not None:
        numbers.append(frame.number)
    reader.close()
    assert numbers[:-1] == [5, 6][:frames_left]
    assert numbers[-1] >= 7
    again.close()


def test_a_mark_that_comes_again_after_its_file_is_gone_does_not_take_what_follows(
    tmp_path: Path, sync: FileSync
) -> None:
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 1)
    log.mark(1, lambda: None)
    send(log, 2)
    log.drop_oldest()
    log.close()
    again = PublisherLog(tmp_path, KEY, sync)
    again.begin(opening(), 0)
    again.mark(1, lambda: None)
    assert [group.checkpoint for group in again.groups] == [None]
    again.close()


def test_results_whose_mark_nobody_knows_are_set_aside_and_counted(
    tmp_path: Path, sync: FileSync, caplog: pytest.LogCaptureFixture
) -> None:
    _, second, third, _ = three_marked(tmp_path, sync)
    flip(second, frame_ends(second)[-1] + 8)
    flip(third, 50)
    again = PublisherLog(tmp_path, KEY, sync)
    assert [group.checkpoint for group in again.groups] == [1, None]
    assert (lost_rows(again), again.prepared_rows()) == (4, 2)
    assert second.with_suffix(".unreadable").exists()
    assert f"set aside: file={second.with_suffix('.unreadable')} events=2" in caplog.text
    again.close()
    assert lost_rows(PublisherLog(tmp_path, KEY, sync)) == 0


def test_a_log_of_an_earlier_version_goes_on_and_what_lost_its_mark_there_is_counted(
    tmp_path: Path, sync: FileSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    def former(entry: object) -> bytes:
        fields = {name: value for name, value in msgspec.to_builtins(entry).items() if name != "after"}
        return msgspec.msgpack.encode(fields)

    with monkeypatch.context() as patched:
        patched.setattr("cep_worker.outflows.transactional_log.group_file._encode", former)
        first = three_marked(tmp_path, sync)[0]
    again = PublisherLog(tmp_path, KEY, sync)
    assert [group.checkpoint for group in again.groups] == [1, 2, 3, None]
    again.close()
    flip(first, frame_ends(first)[-1] + 8)
    again = PublisherLog(tmp_path, KEY, sync)
    assert [group.checkpoint for group in again.groups] == [2, 3, None]
    assert (lost_rows(again), again.prepared_rows()) == (2, 4)
    again.close()


def test_what_was_cut_off_because_it_was_undone_gets_no_mark(tmp_path: Path, sync: FileSync) -> None:
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 1)
    log.mark(1, lambda: None)
    send(log, 2)
    log.cut()
    log.close()
    again = PublisherLog(tmp_path, KEY, sync)
    assert ([group.checkpoint for group in again.groups], lost_rows(again)) == ([1, None, None], 0)
    again.close()


@pytest.mark.parametrize("later_runs", [1, 3])
@pytest.mark.parametrize("frames_left", [2, 1])
def test_a_mark_that_is_lost_is_told_by_the_first_file_of_a_later_run_too(
    tmp_path: Path, sync: FileSync, later_runs: int, frames_left: int
) -> None:
    last = three_marked(tmp_path, sync)[2]
    log = PublisherLog(tmp_path, KEY, sync)
    for attempt in range(1, later_runs + 1):  # but for the last one they give nothing
        log.begin(opening(attempt), 0)
    send(log, 1)
    log.close()
    _, second = frame_ends(last)
    os.truncate(last, {2: second + 8, 1: second - 8}[frames_left])
    for _ in range(2):
        again = PublisherLog(tmp_path, KEY, sync)
        assert [(one.header.attempt, one.checkpoint) for one in again.groups] == [
            (0, 1), (0, 2), (0, 3), (later_runs, None),
        ]  # fmt: skip
        assert (again.prepared_rows(), lost_rows(again)) == (5 + frames_left, 2 - frames_left)
        again.close()


def test_a_later_run_tells_of_no_mark_when_results_without_one_lie_between(tmp_path: Path, sync: FileSync) -> None:
    log = PublisherLog(tmp_path, KEY, sync)
    log.begin(opening(), 0)
    send(log, 1)
    log.mark(1, lambda: None)
    send(log, 2)
    log.begin(opening(1), 0)
    log.close()
    again = PublisherLog(tmp_path, KEY, sync)
    assert [one.checkpoint for one in again.groups] == [1, None, None]
    assert lost_rows(again) == 0
    again.close()
