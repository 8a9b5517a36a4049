"""A log returns what was appended and not secured, whatever happens to the process or the end of its last file."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from cep_worker.inflows.wal.errors import BatchTooLargeError, WalFullError
from cep_worker.inflows.wal.identity import COUNTED_FORMAT, LastReceiver, LogIdentity, new_identity, read_identity
from cep_worker.inflows.wal.log import RESTART_GAP, LogLimits, StreamLog
from cep_worker.inflows.wal.reader import CHUNK_BYTES
from cep_worker.inflows.wal.recycled_segments import RecycledSegments
from cep_worker.inflows.wal.segment import SUFFIX, Segment, segment_path
from cep_worker.storage.group_commit import DiskSync
from cep_worker.storage.records import (
    ALIGNMENT,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    StoredRecord,
    record_bytes,
    record_parts,
    scan,
)

IDENTITY = new_identity(PlanKey(-1234, "Delays"), StreamBinding("Departures", "Departures:1.0.0", (("a", "int"),)))
LIMITS = LogLimits(maximum_bytes=4_000_000, segment_bytes=400)


class Model:
    """A log and what it must return."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = StreamLog(folder, IDENTITY, LIMITS, DiskSync())
        self.kept: list[tuple[int, int, int, bytes]] = []

    def append(self, length: int, rows: int = 1) -> int:
        body = os.urandom(length)
        self.log.reserve(length)
        position = self.log.append(body, length, rows, rows * 10)
        assert not self.kept or position > self.kept[-1][0]
        self.kept.append((position, rows, rows * 10, body))
        return position

    def secure(self, count: int) -> None:
        if self.kept[:count]:
            self.log.secure(self.kept[:count][-1][0])
            self.kept = self.kept[count:]

    def crash(self, torn: bytes = b"") -> None:
        """The process is gone without a word; `torn` is what it had begun to write."""
        last = self.last_file()
        if last is not None and torn:
            descriptor = self.log.descriptor()
            assert descriptor is not None
            os.pwrite(descriptor, torn, self.log._segments[-1].size)
            os.close(descriptor)
        self.reopen()

    def reopen(self) -> None:
        self.log = StreamLog(self.folder, IDENTITY, LIMITS, DiskSync())

    def last_file(self) -> Path | None:
        return next(iter(sorted(self.folder.glob(f"*{SUFFIX}"), reverse=True)), None) if self.log._writer else None

    def check(self) -> None:
        assert self.log.rows_waiting() == sum(rows for _, rows, _, _ in self.kept)
        after = self.log.secured
        assert [found(record) for record in everything(self.log, after)] == self.kept


def found(record: StoredRecord) -> tuple[int, int, int, bytes]:
    return record.position, record.rows, record.watermark_ms, bytes(record.body)


def everything(log: StreamLog, after: int = 0) -> Iterator[StoredRecord]:
    reader = log.reader(after)
    while records := reader.read():
        yield from records
    reader.close()


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 500)),
    st.tuples(st.just("secure"), st.integers(0, 5)),
    st.tuples(st.just("crash"), st.binary(max_size=60)),
    st.tuples(st.just("close"), st.none()),
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_whatever_happens_what_was_appended_and_not_secured_is_there_in_order(
    steps: list[tuple[str, int | bytes | None]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder) / "log")
        for step, argument in steps:
            match step, argument:
                case "append", int(length):
                    model.append(length, rows=length % 7)
                case "secure", int(count):
                    model.secure(count)
                case "crash", bytes(torn):
                    model.crash(torn)
                case _:
                    model.log.close()
                    model.reopen()
            model.check()
        model.log.close()


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.data())
def test_a_crash_that_leaves_the_last_file_cut_at_any_byte_keeps_every_whole_record(
    lengths: list[int], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder) / "log")
        for length in lengths:
            model.append(length)
        last = model.last_file()
        assert last is not None
        segment = model.log._segments[-1]
        size = data.draw(st.integers(SEGMENT_HEADER_BYTES, segment.size))
        model.log.close()
        os.truncate(last, size)
        end = segment.size
        while end > SEGMENT_HEADER_BYTES and end - (-len(model.kept[-1][3]) % ALIGNMENT) > size:
            end -= record_bytes(len(model.kept.pop()[3]))
        model.reopen()
        model.check()
        position = model.append(5)
        assert position % RESTART_GAP == 0, "positions that may have been given out before are not given out again"
        model.check()


def test_positions_are_not_given_out_again_though_all_that_was_written_since_a_restart_was_lost(tmp_path: Path) -> None:
    model = Model(tmp_path / "log")
    given = [model.append(10)]
    kept = {path.name: path.read_bytes() for path in model.folder.glob(f"*{SUFFIX}")}
    for _ in range(3):
        model.log.close()
        for path in model.folder.glob(f"*{SUFFIX}"):
            path.unlink()
        for name, data in kept.items():
            (model.folder / name).write_bytes(data)  # the machine went down before anything else got to the disk
        model.reopen()
        given.append(model.append(10))
    assert given == sorted(set(given))


def test_a_damaged_record_is_left_out_and_counted_and_the_others_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(tmp_path / "log")
    for length in (100, 100, 100, 100, 100, 100, 100):  # two to a segment
        model.append(length, rows=3)
    first = min(model.folder.glob(f"*{SUFFIX}"))
    flip(first, SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES + 50)
    del model.kept[0]
    with caplog.at_level(logging.ERROR):
        assert [found(record) for record in everything(model.log)] == model.kept
    assert "events=3" in caplog.text
    assert model.log.lost_rows == 3


@pytest.mark.parametrize("spoil", ["header", "delete"])
def test_rows_of_a_segment_that_cannot_be_read_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: str
) -> None:
    model = Model(tmp_path / "log")
    for _ in range(7):
        model.append(100, rows=3)
    second = sorted(model.folder.glob(f"*{SUFFIX}"))[1]
    if spoil == "header":
        flip(second, SEGMENT_HEADER_BYTES + 2)
        flip(second, SEGMENT_HEADER_BYTES + record_bytes(100) + 2)
    else:
        second.unlink()
    del model.kept[2:4]
    with caplog.at_level(logging.ERROR):
        assert [found(record) for record in everything(model.log)] == model.kept
    assert model.log.lost_rows == 6
    assert str(second) in caplog.text


def test_what_was_lost_is_told_by_later_processes_too_and_each_event_is_counted_once(tmp_path: Path) -> None:
    model = Model(tmp_path / "log")
    for _ in range(7):  # two to a segment
        model.append(100, rows=3)
    first, second, *_ = sorted(model.folder.glob(f"*{SUFFIX}"))
    flip(first, SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES + 50)
    second.unlink()
    for _ in range(2):
        assert len(list(everything(model.log))) == 4
        assert model.log.lost_rows == 3 + 6
        model.log.close()
        model.reopen()
        assert model.log.lost_rows == 3 + 6, "before anything is read"
    third = min(path for path in model.folder.glob(f"*{SUFFIX}") if path > second)
    flip(third, SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES + 50)
    assert len(list(everything(model.log))) == 3
    assert model.log.lost_rows == 3 + 6 + 3
    model.log.close()
    for names, lost in ((("lost.json",), 12), (("lost.json.copy",), 12), (("lost.json", "lost.json.copy"), 1)):
        for name in names:
            (model.folder / name).write_bytes(b"{")
        model.reopen()
        assert model.log.lost_rows == lost, "its copy says it, and without both one is reported"
        model.log.close()


def test_hundreds_of_damaged_records_of_a_file_are_counted_once_by_three_processes(tmp_path: Path) -> None:
    limits = LogLimits(maximum_bytes=10**6, segment_bytes=10**5)
    log = StreamLog(tmp_path / "log", IDENTITY, limits, DiskSync())
    for _ in range(602):
        log.reserve(8)
        log.append(bytes(8), 8, 1, 0)
    log.close()
    (path,) = log.folder.glob(f"*{SUFFIX}")
    for number in range(0, 600, 2):
        flip(path, SEGMENT_HEADER_BYTES + number * record_bytes(8) + RECORD_HEADER_BYTES)
    for _ in range(3):
        log = StreamLog(log.folder, IDENTITY, limits, DiskSync())
        assert len(list(everything(log))) == 302
        assert log.lost_rows == 300
        log.close()


def test_a_damaged_record_in_the_last_file_does_not_take_those_behind_it_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(tmp_path / "log")
    for _ in range(3):
        model.append(60)
    model.log.close()
    last = max(model.folder.glob(f"*{SUFFIX}"))
    flip(last, SEGMENT_HEADER_BYTES + record_bytes(60) + RECORD_HEADER_BYTES)
    del model.kept[1]
    with caplog.at_level(logging.ERROR):
        model.reopen()
    assert "damaged" in caplog.text
    assert [found(record) for record in everything(model.log)] == model.kept


def test_a_file_of_another_log_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = Model(tmp_path / "log")
    model.append(10)
    model.log.close()
    path = next(model.folder.glob(f"*{SUFFIX}"))
    flip(path, SEGMENT_HEADER_BYTES - 1)
    with caplog.at_level(logging.ERROR):
        model.reopen()
    model.kept.clear()
    model.check()
    assert "set aside" in caplog.text
    assert path.with_suffix(".unreadable").exists()


def test_damaged_files_that_were_set_aside_are_told_and_count_until_they_are_removed(tmp_path: Path) -> None:
    limits = LogLimits(maximum_bytes=1_600, segment_bytes=300)
    log = StreamLog(tmp_path / "log", IDENTITY, limits, DiskSync())
    for _ in range(5):
        log.reserve(200)
        log.append(bytes(200), 200, 2, 0)
    log.close()
    first, *_, last = sorted(log.folder.glob(f"*{SUFFIX}"))
    for path in (first, last):
        flip(path, 20)
    log = StreamLog(log.folder, IDENTITY, limits, DiskSync())
    assert len(list(everything(log))) == 3
    assert log.lost_rows == 4
    assert log.damaged_file_bytes == 2 * log.size_bytes // 3
    while not log.problem:
        try:
            log.reserve(200)
            log.append(bytes(200), 200, 2, 0)
        except WalFullError as full:
            assert f"damaged files (remove {log.folder}/*.unreadable)" in full.message  # noqa: PT017
    assert log.size_bytes + log.damaged_file_bytes < 1_600 + 300
    log.secure(log.last_position)
    assert log.problem == "", "nobody needs what is in it"
    log.reserve(200)
    for orphans in log.folder.glob("*.unreadable"):
        orphans.unlink()
    log.tick(5_000)
    assert log.damaged_file_bytes == 0
    log.close()


def test_secured_segments_are_deleted_and_a_reader_that_is_behind_goes_on(tmp_path: Path) -> None:
    model = Model(tmp_path / "log")
    for _ in range(9):
        model.append(100)
    reader = model.log.reader(0)
    first = reader.read()
    model.secure(5)
    assert len(list(model.folder.glob(f"*{SUFFIX}"))) == 3
    rest = [record for records in iter(reader.read, []) for record in records]
    assert [record.position for record in first + rest] == [*range(1, len(first) + 1), *range(5, 10)]
    assert model.log.size_bytes == 5 * record_bytes(100) + 3 * SEGMENT_HEADER_BYTES
    reader.close()


def test_a_log_of_which_everything_is_secured_is_empty_when_it_is_opened_again(tmp_path: Path) -> None:
    model = Model(tmp_path / "log")
    for _ in range(3):
        model.append(50)
    model.secure(3)
    model.log.close()
    model.reopen()
    assert (model.log.size_bytes, list(model.folder.glob(f"*{SUFFIX}"))) == (0, [])
    assert model.append(50) > 3
    model.check()


def test_a_log_at_its_bound_takes_nothing_until_something_is_secured(tmp_path: Path) -> None:
    log = StreamLog(tmp_path / "log", IDENTITY, LogLimits(maximum_bytes=1_000, segment_bytes=300), DiskSync())
    while log.size_bytes < 1_000:
        log.reserve(100)
        log.append(bytes(100), 100, 1, 0)
    with pytest.raises(WalFullError, match=r"wal\.maximum_bytes is 1000"):
        log.reserve(100)
    assert "stream Departures of plan Delays" in log.problem
    assert 1_000 <= log.size_bytes < 1_300
    log.secure(log.last_position // 2)
    assert log.problem == ""
    log.reserve(100)
    log.close()


def test_what_would_fill_the_whole_log_is_refused_and_the_log_goes_on(tmp_path: Path) -> None:
    log = StreamLog(tmp_path / "log", IDENTITY, LogLimits(maximum_bytes=1_000, segment_bytes=250), DiskSync())
    most = (1_000 - SEGMENT_HEADER_BYTES - RECORD_HEADER_BYTES) // ALIGNMENT * ALIGNMENT - ALIGNMENT
    for _ in range(3):
        with pytest.raises(BatchTooLargeError, match=r"wal\.maximum_bytes is 1000; send fewer at once"):
            log.reserve(most + 1)
        assert log.problem == "", "others need not wait"
        log.reserve(most)
        log.append(bytes(most), most, 1, 0)
        log.secure(log.last_position)
    log.close()


def test_a_full_disk_is_told_before_anything_is_accepted_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path / "log")
    model.append(100)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "posix_fallocate", full)
        with pytest.raises(WalFullError, match="No space left on device"):
            model.append(2_000_000)
        assert "No space left on device" in model.log.problem
        model.check()
    model.log.recheck()
    model.append(2_000_000)
    model.check()
    model.log.close()


def test_the_identity_outlives_the_process_and_damage_to_its_file(tmp_path: Path) -> None:
    model = Model(tmp_path / "log")
    assert read_identity(model.folder) is None
    model.append(1)
    model.log.close()
    described = msgspec.structs.replace(IDENTITY, format=COUNTED_FORMAT)
    assert read_identity(model.folder) == described
    flip(model.folder / "log.json", 12)
    assert read_identity(model.folder) == described, "its copy says the same"
    (model.folder / "log.json").unlink()
    assert read_identity(model.folder) == described
    for name in ("log.json.copy", "log.json"):
        assert read_identity(model.folder) == described, "what was damaged or missing is there again"
        (model.folder / name).write_bytes(b'{"log":')
    assert read_identity(model.folder) == described
    for name in ("log.json.copy", "log.json"):
        (model.folder / name).write_bytes(b'{"log":')
    assert read_identity(model.folder) is None
    assert isinstance(IDENTITY, LogIdentity)


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def test_bytes_in_a_long_record_that_look_like_a_record_are_none(tmp_path: Path) -> None:
    """Senders choose what is in bodies; a reader takes in less than such a body at first."""
    forged = b"".join(bytes(part) for part in record_parts(b"forged..", 8, 1, 10**9, 0))
    model = Model(tmp_path / "log")
    model.log = StreamLog(model.folder, IDENTITY, LogLimits(2**22, 2**21), DiskSync())
    body = bytes(ALIGNMENT) + forged + bytes(2 * CHUNK_BYTES)
    model.log.reserve(len(body))
    model.log.append(body, len(body), 5, 0)
    for _ in range(3):
        model.append(8)
    reader = model.log.reader(0)
    found = [(one.position, len(one.body)) for chunk in iter(reader.read, []) for one in chunk]
    assert found == [(1, len(body)), (2, 8), (3, 8), (4, 8)]
    assert model.log.lost_rows == 0
    torn = segment_path(model.folder, 1).read_bytes()[: CHUNK_BYTES // 2]
    assert list(scan(memoryview(torn), SEGMENT_HEADER_BYTES)) == []


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut off within its header": lambda path: os.truncate(path, 20),
    "cut off after its header": lambda path: os.truncate(path, SEGMENT_HEADER_BYTES),
    "cut off in the middle": lambda path: os.truncate(path, path.stat().st_size // 2),
    "damaged header": lambda path: flip(path, 9),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", ["first", "middle", "last", "all"])
@pytest.mark.parametrize("secured", [0, 1, 7, 20])
def test_each_event_of_a_damaged_log_comes_or_is_counted_once(
    tmp_path: Path, damage: str, which: str, secured: int
) -> None:
    """Also what was in no file any more when the log was opened again, over any number of starts."""
    model = Model(tmp_path / "log")
    for number in range(20):
        model.append(40, rows=1 + number % 3)
    kept = list(model.kept)
    model.secure(secured)
    waiting = {position: rows for position, rows, _, _ in model.kept}
    model.log.close()
    paths = sorted(model.folder.glob(f"*{SUFFIX}"))
    chosen = {"first": paths[:1], "middle": paths[len(paths) // 2 :][:1], "last": paths[-1:], "all": paths}[which]
    for path in chosen:
        DAMAGES[damage](path)
    for _ in range(2):
        model.reopen()
        came = {record.position: record.rows for record in everything(model.log, model.log.secured)}
        assert came.items() <= waiting.items() if secured < 20 else not came
        assert model.log.lost_rows == sum(waiting.values()) - sum(came.values())
        model.log.close()
    model.reopen()
    position = model.append(10, rows=5)
    assert position > kept[-1][0], "no position is given out twice"
    came = {record.position: record.rows for record in everything(model.log, model.log.secured)}
    assert came.pop(position) == 5
    assert model.log.lost_rows == sum(waiting.values()) - sum(came.values())
    model.log.close()


@pytest.mark.parametrize("name", ["accepted", "secured"])
@pytest.mark.parametrize("damage", ["empty", "removed", "flipped", "all flipped"])
def test_of_the_two_files_that_count_one_is_enough(tmp_path: Path, name: str, damage: str) -> None:
    model = Model(tmp_path / "log")
    for number in range(20):
        model.append(40, rows=1 + number % 3)
    model.secure(8)
    waiting = sum(rows for _, rows, _, _ in model.kept)
    model.log.close()
    path = model.folder / name
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "removed":
            path.unlink()
        case "flipped":
            flip(path, 3)
        case _:
            path.write_bytes(bytes(byte ^ 0xFF for byte in path.read_bytes()))
    for segment in model.folder.glob(f"*{SUFFIX}"):
        segment.unlink()
    model.reopen()
    assert model.log.lost_rows == waiting
    model.log.close()


@pytest.mark.parametrize("linked_first", [False, True])
@pytest.mark.parametrize("secured", [0, 8, 20])
def test_a_log_that_has_lost_its_files_and_their_counts_reports_one_event_at_least(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, secured: int, linked_first: bool
) -> None:
    model = Model(tmp_path / "log")
    if linked_first:
        model.log.keep_former(LastReceiver(1, "receiver"))
        model.log.close()
        model.reopen()
        assert model.log.lost_rows == 0, "it has taken nothing"
    for _ in range(20):
        model.append(40)
    model.secure(secured)
    model.log.close()
    for path in (*model.folder.glob(f"*{SUFFIX}"), model.folder / "accepted", model.folder / "secured"):
        path.unlink()
    for _ in range(2):
        identity = read_identity(model.folder)
        assert identity is not None
        model.log = StreamLog(model.folder, identity, LIMITS, DiskSync())
        assert model.log.lost_rows == 1, "counted once"
        model.log.close()
    assert "their number is unknown" in caplog.text


@pytest.mark.parametrize("cut", [False, True])
def test_without_counts_a_log_whose_end_is_cut_off_reports_an_event_and_a_whole_one_none(
    tmp_path: Path, cut: bool
) -> None:
    model = Model(tmp_path / "log")
    for _ in range(3):
        model.append(40)
    end = model.log._segments[-1].size
    model.log.close()
    last = max(model.folder.glob(f"*{SUFFIX}"))
    os.truncate(last, end - 10 if cut else end)
    for name in ("accepted", "secured"):
        flip(model.folder / name, 3)
        (model.folder / name).write_bytes(bytes(byte ^ 0xFF for byte in (model.folder / name).read_bytes()))
    identity = read_identity(model.folder)
    assert identity is not None
    model.log = StreamLog(model.folder, identity, LIMITS, DiskSync())
    assert model.log.lost_rows == (1 if cut else 0)
    model.log.close()


def test_a_log_that_is_killed_while_it_frees_files_has_noted_before_that_they_are_secured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next process would miss what was in them."""
    model = Model(tmp_path / "log")
    for _ in range(20):
        model.append(100, rows=3)

    class KilledError(Exception):
        pass

    def killed(self: RecycledSegments, segment: Segment) -> None:
        add(self, segment)
        raise KilledError

    add = RecycledSegments.add
    monkeypatch.setattr(RecycledSegments, "add", killed)
    with pytest.raises(KilledError):
        model.secure(12)
    model.reopen()
    assert len(list(everything(model.log, model.log.secured))) == 8
    assert model.log.lost_rows == 0


@given(st.lists(STEPS, max_size=25))
@settings(deadline=None)
def test_a_sound_log_never_counts_lost_events(steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder) / "log")
        for what, value in steps:
            match what:
                case "append":
                    model.append(value)
                case "secure":
                    model.secure(value)
                case "crash":
                    model.crash(value)
                case _:
                    model.log.close()
                    model.reopen()
        assert model.log.lost_rows == 0
        model.check()
        model.log.close()
