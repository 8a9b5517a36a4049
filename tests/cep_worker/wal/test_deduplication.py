"""A log knows which batches it has taken of those that may come again, as far as it has them, in whatever process."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from cep_worker.inflows.wal.deduplication import MOST_SOURCES, SeenOrigins
from cep_worker.inflows.wal.errors import WalFullError
from cep_worker.inflows.wal.identity import new_identity
from cep_worker.inflows.wal.log import LogLimits, StreamLog
from cep_worker.inflows.wal.segment import SUFFIX
from cep_worker.storage.group_commit import DiskSync, GroupCommit
from cep_worker.storage.records import BatchOrigin

IDENTITY = new_identity(PlanKey(-1234, "Relayed"), StreamBinding("Passed", "Passed:1.0.0", (("a", "int"),)))
SMALL = LogLimits(maximum_bytes=3_000, segment_bytes=400)
ONE_FILE = LogLimits(maximum_bytes=600, segment_bytes=800)
"""A log that is full before its first file is."""
SOURCES = tuple(bytes([number]) * 16 for number in range(3))
BODY = 40


def opened(folder: Path, limits: LogLimits = SMALL) -> StreamLog:
    return StreamLog(folder, IDENTITY, limits, DiskSync())


def append(log: StreamLog, origin: BatchOrigin | None) -> int:
    log.reserve(BODY, origin)
    return log.append(bytes(BODY), BODY, 1, 0, origin)


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 2)),
    st.tuples(st.just("append others"), st.integers(1, 4)),
    st.tuples(st.just("secure"), st.integers(0, 12)),
    st.tuples(st.just("crash"), st.integers(0, 30)),
    st.tuples(st.just("close"), st.none()),
)


@pytest.mark.thorough
@settings(max_examples=examples(80), deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_what_was_taken_is_known_in_every_later_process_and_nothing_else(
    steps: list[tuple[str, int | None]],
) -> None:
    newest = dict.fromkeys(SOURCES, 0)
    with tempfile.TemporaryDirectory() as name:
        log = opened(Path(name) / "log")
        for step, argument in steps:
            room = log.size_bytes < SMALL.maximum_bytes - 600
            match step, argument:
                case "append", int(source) if room:
                    newest[SOURCES[source]] += 2
                    append(log, BatchOrigin(SOURCES[source], newest[SOURCES[source]]))
                case "append others", int(count) if room:
                    for _ in range(count):
                        append(log, None)
                case "secure", int(back):
                    log.secure(log.last_position - back)
                case "crash", int(length):
                    descriptor = log.descriptor()
                    if descriptor is not None:
                        os.pwrite(descriptor, os.urandom(length), log._segments[-1].size)
                        os.close(descriptor)
                    log = opened(log.folder)
                case "close", None:
                    log.close()
                    log = opened(log.folder)
            for known, number in newest.items():
                assert not number or log.has_taken(BatchOrigin(known, number))
                assert not log.has_taken(BatchOrigin(known, number + 1))
        log.close()


def test_a_batch_whose_record_did_not_get_to_the_disk_may_come_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, BatchOrigin(SOURCES[0], 1))
    size = log._segments[-1].size
    append(log, BatchOrigin(SOURCES[0], 2))
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    os.truncate(file, size + 10)
    again = opened(tmp_path)
    assert again.has_taken(BatchOrigin(SOURCES[0], 1))
    assert not again.has_taken(BatchOrigin(SOURCES[0], 2))


def test_a_log_of_which_the_last_file_is_lost_takes_again_what_was_in_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, BatchOrigin(SOURCES[0], 1))
    while len(log._segments) < 3:
        append(log, None)
    append(log, BatchOrigin(SOURCES[0], 2))
    sorted(tmp_path.glob(f"*{SUFFIX}"))[-1].unlink()
    again = opened(tmp_path)
    assert again.has_taken(BatchOrigin(SOURCES[0], 1))
    assert not again.has_taken(BatchOrigin(SOURCES[0], 2))


def filled_up(folder: Path, limits: LogLimits) -> StreamLog:
    """Full, and its first batch is one that may come again."""
    log = opened(folder, limits)
    append(log, BatchOrigin(SOURCES[0], 1))
    while log.size_bytes < limits.maximum_bytes:
        append(log, None)
    with pytest.raises(WalFullError):
        log.reserve(BODY)
    return log


@pytest.mark.parametrize("limits", [SMALL, ONE_FILE], ids=["many files", "one file"])
def test_what_is_not_needed_any_more_is_freed_and_nothing_of_it_is_read(tmp_path: Path, limits: LogLimits) -> None:
    log = filled_up(tmp_path, limits)
    log.secure(log.last_position)
    assert log.size_bytes < limits.maximum_bytes / 2
    for each in (log, opened(tmp_path, limits), opened(tmp_path, limits)):
        assert each.has_taken(BatchOrigin(SOURCES[0], 1))
        assert each.reader(0).read() == []
        assert each.segments == 1
    again = opened(tmp_path, limits)
    position = append(again, None)
    assert [record.position for record in again.reader(0).read()] == [position]


def test_on_a_full_disk_files_are_freed_though_origins_are_forgotten_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled_up(tmp_path, ONE_FILE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with caplog.at_level(logging.WARNING):
        log.secure(log.last_position)
    assert "cannot save the numbers of received results" in caplog.text
    assert log.segments == 0


def test_what_a_killed_process_may_not_have_got_to_the_disk_is_brought_there_before_anything_counts_as_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(opened(tmp_path), BatchOrigin(SOURCES[0], 1))
    deferred: list[Callable[[int], None]] = []
    synced, safe = [], []
    disk_sync = GroupCommit(deferred.append)
    log = StreamLog(tmp_path, IDENTITY, SMALL, disk_sync)
    monkeypatch.setattr(os, "fdatasync", lambda _: synced.append("synced"))
    assert log.has_taken(BatchOrigin(SOURCES[0], 1))
    disk_sync.when_safe(lambda: safe.append(list(synced)))
    assert safe == []
    for call in deferred:
        call(0)
    assert safe == [["synced"]]
    log.close()


def test_of_very_many_sources_those_that_came_last_are_known() -> None:
    origins = SeenOrigins()
    sources = [number.to_bytes(16, "big") for number in range(MOST_SOURCES + 1)]
    for source in sources[:-1]:
        origins.note(BatchOrigin(source, 1))
    origins.note(BatchOrigin(sources[0], 2))
    origins.note(BatchOrigin(sources[-1], 1))
    assert origins.has(BatchOrigin(sources[0], 2))
    assert not origins.has(BatchOrigin(sources[1], 1))
    assert origins.has(BatchOrigin(sources[2], 1))
