"""Files that are written over: what they held in a former life never comes back, whatever happens to the machine."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from cep_worker.inflows.wal.errors import WalFullError
from cep_worker.inflows.wal.identity import new_identity
from cep_worker.inflows.wal.log import LogLimits, StreamLog
from cep_worker.inflows.wal.recycled_segments import IDLE_MS, SUFFIX
from cep_worker.inflows.wal.segment import SUFFIX as SEGMENT_SUFFIX
from cep_worker.inflows.wal.segment import recover
from cep_worker.storage.group_commit import DiskSync
from cep_worker.storage.records import (
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    StoredRecord,
    encode_segment_header,
    record_bytes,
    record_parts,
    scan,
)

IDENTITY = new_identity(PlanKey(-1234, "Delays"), StreamBinding("Departures", "Departures:1.0.0", (("a", "int"),)))
SEGMENT_BYTES = SEGMENT_HEADER_BYTES + 4 * record_bytes(100)
LIMITS = LogLimits(maximum_bytes=40 * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
PAGE_BYTES = 32
FORMER = SegmentHeader(1, 0, IDENTITY.log)
PRESENT = SegmentHeader(1_000, 50, IDENTITY.log, recycled=True)


# ---- what is in a file ----------------------------------------------------------------------------------------------


def life(header: SegmentHeader, bodies: list[bytes]) -> bytes:
    """A segment file with these records."""
    records = (
        part
        for number, body in enumerate(bodies)
        for part in record_parts(body, len(body), 1, header.first_position + number, 7, header.seed())
    )
    return encode_segment_header(header) + b"".join(records)


BODIES = st.lists(st.binary(max_size=150), max_size=8)


@settings(deadline=None)
@given(former=BODIES, present=BODIES, cut=st.integers(0, 2_000), data=st.data())
def test_of_a_file_that_was_written_over_exactly_the_whole_records_of_its_present_life_are_found(
    former: list[bytes], present: list[bytes], cut: int, data: st.DataObject
) -> None:
    """Any of its pages may still hold what they held, or zeros, when the machine goes down."""
    old, new = life(FORMER, former), life(PRESENT, present)
    longest = max(len(old), len(new))
    image = bytearray((new + old[len(new) :])[:longest])
    for page in data.draw(st.sets(st.integers(SEGMENT_HEADER_BYTES // PAGE_BYTES + 1, longest // PAGE_BYTES + 1))):
        place = slice(page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, longest))
        image[place] = (old if data.draw(st.booleans()) else b"")[place].ljust(len(image[place]), b"\0")
    if data.draw(st.booleans()):
        image = image[: max(SEGMENT_HEADER_BYTES, cut)]
    whole, offset = [], SEGMENT_HEADER_BYTES
    for number, body in enumerate(present):
        end = offset + RECORD_HEADER_BYTES + len(body)
        if image[offset:end] == new[offset:end]:
            whole.append((PRESENT.first_position + number, body))
        offset += record_bytes(len(body))
    found = scan(memoryview(bytes(image)), SEGMENT_HEADER_BYTES, PRESENT.seed())
    assert [(one.position, bytes(one.body)) for one in found if isinstance(one, StoredRecord)] == whole
    recovered = recover(bytes(image), PRESENT)
    assert recovered.last_position == (whole[-1][0] if whole else PRESENT.first_position - 1)
    assert len(whole) <= recovered.rows <= len(present), "of a damaged record the header may be whole"


@settings(deadline=None)
@given(former=BODIES, present=BODIES)
def test_what_is_left_of_a_former_life_is_neither_torn_nor_damaged(former: list[bytes], present: list[bytes]) -> None:
    old, new = life(FORMER, former), life(PRESENT, present)
    recovered = recover(new + old[len(new) :], PRESENT)
    assert (recovered.size, recovered.torn_bytes, recovered.damaged_bytes) == (len(new), 0, 0)


def test_a_record_that_was_being_written_over_a_former_life_is_told_as_torn() -> None:
    old, new = life(FORMER, [bytes(100)] * 4), life(PRESENT, [b"x" * 100] * 2)
    kept = SEGMENT_HEADER_BYTES + record_bytes(100)
    recovered = recover(new[: kept + 60] + old[kept + 60 :], PRESENT)
    assert (recovered.size, recovered.torn_bytes) == (kept, record_bytes(100))


def test_a_record_of_a_file_that_was_not_written_over_reads_as_ever() -> None:
    recovered = recover(life(FORMER, [b"a", b"b"]) + bytes(50), FORMER)
    assert (recovered.last_position, recovered.torn_bytes) == (2, 0)


# ---- the log that uses them -----------------------------------------------------------------------------------------


def opened(folder: Path) -> StreamLog:
    return StreamLog(folder, IDENTITY, LIMITS, DiskSync())


def append(log: StreamLog, times: int) -> None:
    for _ in range(times):
        log.reserve(100)
        log.append(os.urandom(100), 100, 1, 0)


def read(log: StreamLog) -> list[tuple[int, bytes]]:
    reader = log.reader(0)
    records = [(one.position, bytes(one.body)) for part in iter(reader.read, []) for one in part]
    reader.close()
    return records


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


@pytest.fixture
def log(tmp_path: Path) -> StreamLog:
    """A log that has three spare files, and two records in its only segment."""
    log = opened(tmp_path / "log")
    append(log, 14)
    log.secure(12)
    assert len(files(log.folder, SUFFIX)) == 3
    return log


def test_a_new_segment_is_written_over_a_spare_file_even_when_the_disk_is_full(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = {path.stat().st_ino for path in files(log.folder, SUFFIX)}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    append(log, 2)
    with monkeypatch.context() as disk:
        disk.setattr(os, "posix_fallocate", full)
        append(log, 12)
    assert {path.stat().st_ino for path in files(log.folder, SEGMENT_SUFFIX)[1:]} == spare
    assert [position for position, _ in read(log)] == list(range(13, 29))
    assert (log.spare_bytes, files(log.folder, SUFFIX)) == (0, [])


def test_spare_files_give_their_space_up_when_the_disk_is_full_and_they_are_no_use(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WalFullError):
        log.reserve(2 * SEGMENT_BYTES)
    assert (log.spare_bytes, files(log.folder, SUFFIX)) == (0, [])


def test_a_log_is_opened_and_read_while_the_disk_is_full_and_takes_more_once_it_is_not(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(log)
    log.close()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        again = opened(log.folder)
        assert read(again) == expected
        with pytest.raises(WalFullError):
            again.reserve(8)
    append(again, 1)
    assert read(again)[:-1] == expected


def test_a_file_that_is_deleted_later_has_a_name_that_no_later_log_uses(tmp_path: Path) -> None:
    class Later(DiskSync):
        paths: list[Path] = []  # noqa: RUF012 - of this one

        def deleted(self, path: Path) -> None:
            self.paths.append(path)

    disk_sync = Later()
    log = StreamLog(tmp_path / "log", IDENTITY, LIMITS, disk_sync)
    log.reserve(2 * SEGMENT_BYTES)
    log.append(bytes(2 * SEGMENT_BYTES), 2 * SEGMENT_BYTES, 1, 0)  # too long to be written over
    append(log, 1)
    log.secure(1)
    (path,) = disk_sync.paths
    assert path.exists()
    assert path.suffix == SUFFIX
    assert not path.with_suffix(SEGMENT_SUFFIX).exists()


def test_a_process_that_is_killed_behind_a_spare_file_loses_nothing_and_tells_nothing(
    log: StreamLog, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, 3)
    expected = read(log)
    with caplog.at_level(logging.WARNING):
        again = opened(log.folder)
    assert read(again) == expected
    assert files(log.folder, SUFFIX) == []
    append(again, 9)
    assert read(opened(log.folder)) == read(again)
    assert caplog.text == ""


@pytest.mark.parametrize("instant", ["before the header", "before the name", "after the name"])
def test_a_kill_while_a_spare_file_becomes_a_segment_loses_nothing(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch, instant: str
) -> None:
    append(log, 2)
    expected = read(log)

    class KilledError(BaseException):
        """Nothing that follows is done."""

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as process:
        match instant:
            case "before the header":
                process.setattr(os, "pwrite", killed)
            case "before the name":
                process.setattr(Path, "rename", killed)
            case _:
                process.setattr(os, "fstat", killed)
        with pytest.raises(KilledError):
            append(log, 1)
    again = opened(log.folder)
    assert read(again) == expected
    append(again, 1)
    assert read(again)[:-1] == expected


def test_a_file_that_got_its_new_name_but_not_its_new_header_is_void(
    log: StreamLog, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, 2)
    expected = read(log)
    former = files(log.folder, SUFFIX)[-1].read_bytes()
    append(log, 1)
    last = files(log.folder, SEGMENT_SUFFIX)[-1]
    last.write_bytes(former)  # the machine went down before what was written got to the disk
    with caplog.at_level(logging.WARNING):
        again = opened(log.folder)
    assert read(again) == expected
    assert f"was not written to the disk: file={last}" in caplog.text
    assert again.lost_rows == 1, "the event that was accepted there is lost, and told of"


def test_a_file_that_got_its_new_header_but_kept_its_name_is_set_aside(
    log: StreamLog, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, 2)
    expected = read(log)
    append(log, 1)
    last = files(log.folder, SEGMENT_SUFFIX)[-1]
    former = last.rename(last.with_name(f"{1:020d}{SEGMENT_SUFFIX}"))
    with caplog.at_level(logging.ERROR):
        again = opened(log.folder)
    assert read(again) == expected
    assert "set aside" in caplog.text
    assert former.with_suffix(".unreadable").exists()


def test_a_segment_that_was_not_cut_off_before_the_machine_went_down_is_not_told_as_damaged(
    log: StreamLog, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, 2 + 4)
    log.reserve(200)
    log.append(bytes(200), 200, 1, 0)  # of which only two fit, and something of the former life is behind
    log.reserve(350)
    log.append(bytes(350), 350, 1, 0)
    second = files(log.folder, SEGMENT_SUFFIX)[2]
    log.close()
    with second.open("ab") as file:
        file.write(life(FORMER, [bytes(100)])[SEGMENT_HEADER_BYTES:])
    with caplog.at_level(logging.WARNING):
        again = opened(log.folder)
        assert [len(body) for _, body in read(again)] == [100] * 8 + [200, 350]
    assert (again.lost_rows, caplog.text) == (0, "")


def test_a_reader_sees_nothing_of_what_is_written_over_files_of_which_it_holds_one(log: StreamLog) -> None:
    append(log, 2)
    reader = log.reader(0)
    first = reader.read()
    prepared = log._segments[0].path
    append(log, 4)
    log.secure(16)
    assert not prepared.exists(), "it is deleted, not spared"
    append(log, 20)
    rest = [one.position for part in iter(reader.read, []) for one in part]
    assert [one.position for one in first] + rest == list(range(13, 41))
    reader.close()
    assert log.lost_rows == 0


def test_a_log_and_its_spare_files_take_no_more_than_the_log_did_and_a_quarter_stays_at_most(tmp_path: Path) -> None:
    log = opened(tmp_path / "log")
    for _ in range(3):
        append(log, 120)
        peak = disk_bytes(log.folder)
        log.secure(log.last_position)
        assert LIMITS.maximum_bytes // 4 - SEGMENT_BYTES < log.spare_bytes <= LIMITS.maximum_bytes // 4
        assert log.spare_bytes == sum(path.stat().st_size for path in files(log.folder, SUFFIX))
        assert disk_bytes(log.folder) <= peak
    log.close()
    assert (log.spare_bytes, files(log.folder, SUFFIX)) == (0, [])


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for suffix in (SUFFIX, SEGMENT_SUFFIX) for path in files(folder, suffix))


def test_spare_files_for_which_there_is_no_use_are_deleted_in_time(log: StreamLog) -> None:
    log.tick(1_000)
    append(log, 4)
    log.tick(1_000 + IDLE_MS - 1)
    assert len(files(log.folder, SUFFIX)) == 2, "one was used"
    log.tick(1_000 + IDLE_MS)
    assert len(files(log.folder, SUFFIX)) == 0, "the others were not"
    assert log.spare_bytes == 0


def test_files_that_are_in_use_again_and_again_are_not_deleted(log: StreamLog) -> None:
    for number in range(3):
        log.tick(number * IDLE_MS)
        append(log, 12)
        log.secure(log.last_position - 2)
        assert len(files(log.folder, SUFFIX)) == 3


def test_files_of_other_sizes_are_not_spared(tmp_path: Path) -> None:
    log = opened(tmp_path / "log")
    append(log, 1)
    log.reserve(5_000)
    log.append(bytes(5_000), 5_000, 1, 0)
    append(log, 1)
    assert len(files(log.folder, SEGMENT_SUFFIX)) == 3
    log.secure(3)
    assert (log.spare_bytes, files(log.folder, SUFFIX)) == (0, [])


def test_a_spare_file_that_somebody_has_deleted_is_done_without(log: StreamLog) -> None:
    for path in files(log.folder, SUFFIX):
        path.unlink()
    append(log, 12)
    assert [position for position, _ in read(log)] == list(range(13, 27))
