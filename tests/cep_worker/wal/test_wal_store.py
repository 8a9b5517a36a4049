"""A worker's folder of logs: a name that lasts, one process at a time, and what becomes of logs that nobody wants."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_common.clock import ManualClock
from cep_common.errors import ConfigError
from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import RemovedPlan, StreamBinding
from cep_worker.config import WalConfig
from cep_worker.inflows.wal.log import StreamLog
from cep_worker.inflows.wal.store import WalStore, safe_component
from cep_worker.storage import group_commit as upkeep_module
from cep_worker.storage.group_commit import BackgroundSync, DiskSync, GroupCommit
from topology.events.frames import arrow_schema, encode_batch

KEY = PlanKey(-1234, "Delays")
BINDING = StreamBinding("Departures", "Departures:1.0.0", (("carrier", "string"),))


def stored(log: StreamLog, rows: int = 1) -> int:
    log.reserve(10)
    return log.append(bytes(10), 10, rows, 0)


def test_a_worker_without_a_name_has_the_same_one_every_time(tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        wal = WalStore(WalConfig(str(tmp_path / "wal")), "")
        names.add(wal.name)
        wal.close()
    assert len(names) == 1
    assert len(names.pop()) > 6


def test_a_second_worker_with_the_same_folder_is_told_what_to_change(tmp_path: Path) -> None:
    config = WalConfig(str(tmp_path))
    first = WalStore(config, "")
    with pytest.raises(ConfigError, match=rf"wal\.path: .* is used by process {os.getpid()}; give each worker"):
        WalStore(config, "")
    WalStore(config, "another").close()
    first.close()
    WalStore(config, "").close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"wal\.path: .*file"):
        WalStore(WalConfig(str(tmp_path / "file")), "worker")


def test_a_log_is_opened_again_with_its_identity_and_events(tmp_path: Path) -> None:
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, DiskSync())
    stored(log, rows=7)
    log.close()
    again = wal.open_log(KEY, BINDING, DiskSync())
    assert (again.identity, again.rows_waiting()) == (log.identity, 7)
    again.close()
    wal.close()


def test_events_of_former_attributes_stay_in_the_log_which_knows_these(tmp_path: Path) -> None:
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, DiskSync())
    before = log.identity
    stored(log, rows=7)
    log.close()
    other = (("carrier", "string"), ("price", "double"))
    for _ in range(2):
        changed = wal.open_log(KEY, StreamBinding("Departures", "Departures:1.0.0", other), DiskSync())
        assert (changed.identity.log, changed.rows_waiting()) == (before.log, 7)
        assert changed.identity.attributes_at(log.last_position) == BINDING.attributes
        assert changed.identity.attributes_at(log.last_position + 1) == other
        changed.close()
    again = wal.open_log(KEY, BINDING, DiskSync())
    again.secure(again.last_position)
    again.close()
    again = wal.open_log(KEY, StreamBinding("Departures", "Departures:1.0.0", other), DiskSync())
    assert again.identity.earlier == (), "nothing of it is needed any more"
    again.close()
    wal.close()


def test_what_waits_for_a_stream_that_its_plan_does_not_import_any_more_is_kept_as_failed(tmp_path: Path) -> None:
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, DiskSync())
    schema = arrow_schema(StreamSchema("Departures", BINDING.attributes))
    batch = pa.RecordBatch.from_pylist([{"_timestamp": 1, "_kind": 0}] * 3, schema=schema)
    body = encode_batch(batch)
    log.reserve(body.size)
    log.append(body, body.size, 3, 0)
    log.close()
    failed: list[tuple[PlanKey, str, int, str]] = []

    def fail(key: PlanKey, stream: str, events: pa.RecordBatch, reason: str) -> int:
        failed.append((key, stream, events.num_rows, reason))
        return 0

    assert wal.has_waiting(KEY, "Departures")
    wal.keep_only([], DiskSync(), whole=[KEY])
    assert wal.has_waiting(KEY, "Departures"), "a plan that cannot run keeps what it has"
    wal.keep_only([], DiskSync(), failed=fail, served={KEY: 5})
    assert failed == [(KEY, "Departures", 3, f"{KEY.plan} does not import Departures now")]
    assert not wal.has_waiting(KEY, "Departures")
    wal.close()


@pytest.mark.parametrize("drained", [False, True])
def test_only_logs_of_plans_that_people_have_undeployed_are_deleted(
    tmp_path: Path, drained: bool, caplog: pytest.LogCaptureFixture
) -> None:
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    gone, missing = PlanKey(-1234, "../Gone"), PlanKey(-1234, "Missing")
    for key in (KEY, gone, missing):
        log = wal.open_log(key, BINDING, DiskSync(), deployed_ms=5)
        stored(log, rows=3)
        stored(log, rows=4)
        log.secure(1)
        log.close()
    wal.note_removed([RemovedPlan(gone, 5, drained), RemovedPlan(missing, 4)])
    with caplog.at_level(logging.ERROR):
        wal.keep_only([(KEY, "Departures")], DiskSync())
    dropped = f"accepted events are dropped, their plan was undeployed: folder={tmp_path}/worker/-1234/%2E"
    assert (dropped in caplog.text) is not drained, "of a drained plan all was processed, whatever checkpoints hold"
    assert not list((tmp_path / "worker" / "-1234").glob("%2E*/*"))
    (orphans,) = wal.orphans.entries()
    assert (orphans.key, orphans.stream, orphans.events, orphans.deployed_ms) == (missing, "Departures", 4, 5)
    kept = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=5)
    assert kept.rows_waiting() == 4
    kept.close()
    wal.close()


def test_a_log_that_was_set_aside_comes_back_with_its_plan(tmp_path: Path) -> None:
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=5)
    stored(log, rows=7)
    log.close()
    wal.keep_only([], DiskSync())
    wal.close()
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    assert [one.events for one in wal.orphans.entries()] == [7], "the next process knows of it"
    other = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=6)
    assert other.rows_waiting() == 0, "another plan of the name does not get it"
    stored(other)
    other.close()
    assert wal.has_waiting(KEY, "Departures", deployed_ms=5)
    again = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=5)
    assert (again.identity.log, again.rows_waiting()) == (log.identity.log, 7)
    again.close()
    assert [(one.deployed_ms, one.events) for one in wal.orphans.entries()] == [(6, 1)]
    wal.close()


def test_what_is_set_aside_is_deleted_after_its_time_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(1_000)
    wal = WalStore(WalConfig(str(tmp_path), orphan_retention_ms=86_400_000), "worker", clock)
    log = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=5)
    stored(log, rows=7)
    log.close()
    wal.keep_only([], DiskSync())
    clock.advance(86_399_999)
    wal.orphans.tick()
    assert [one.until_ms for one in wal.orphans.reports()] == [86_401_000]
    clock.advance(60_001)
    with caplog.at_level(logging.ERROR):
        wal.orphans.tick()
    assert wal.orphans.entries() == ()
    assert "plan=Delays[-1234] events=7 reason=it was set aside for 86400000 ms" in caplog.text
    assert list((tmp_path / "worker" / ".set-aside").iterdir()) == []
    wal.close()


def test_a_log_whose_identity_is_damaged_is_told_by_its_segments(tmp_path: Path) -> None:
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=5)
    stored(log, rows=7)
    log.close()
    for name in ("log.json", "log.json.copy"):
        (log.folder / name).write_bytes(b"")
    again = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=5)
    assert (again.identity.log, again.rows_waiting()) == (log.identity.log, 7)
    again.close()
    for name in ("log.json", "log.json.copy"):
        (log.folder / name).write_bytes(b"")
    wal.keep_only([], DiskSync())
    (orphans,) = wal.orphans.entries()
    assert (orphans.key, orphans.stream) == (KEY, "Departures"), "nobody can tell whose it is: it is kept"
    wal.close()


@pytest.mark.parametrize("left", ["lost.json", "1.unreadable", ""])
def test_a_log_of_which_only_losses_are_known_is_set_aside(tmp_path: Path, left: str) -> None:
    """It has no events, but a count, or a file from which some may be recovered."""
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, DiskSync(), deployed_ms=5)
    stored(log, rows=7)
    log.close()
    for path in log.folder.iterdir():
        path.unlink()
    if left:
        (log.folder / left).write_bytes(b"{}")
    wal.keep_only([], DiskSync())
    assert len(wal.orphans.entries()) == bool(left)
    assert not log.folder.exists()
    wal.close()


def test_a_folder_has_an_identity_and_its_copy_another_one(tmp_path: Path) -> None:
    first = WalStore(WalConfig(str(tmp_path / "a")), "worker")
    identity, instance = first.ownership.worker.identity, first.ownership.instance
    first.close()
    again = WalStore(WalConfig(str(tmp_path / "a")), "worker")
    assert again.ownership.worker.identity == identity
    assert again.ownership.instance != instance
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    copied = WalStore(WalConfig(str(tmp_path / "b")), "worker")
    assert copied.ownership.worker.identity != identity
    assert copied.ownership.worker.copy_of == identity
    copied.close()
    again.close()


def test_a_folder_serves_the_system_that_it_heard_first_until_a_person_says_otherwise(tmp_path: Path) -> None:
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    assert wal.ownership.serves("a")
    assert not wal.ownership.serves("b")
    assert wal.ownership.refused == "b"
    wal.close()
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    assert not wal.ownership.serves("b"), "the next process remembers it"
    assert wal.ownership.serves("a")
    assert wal.ownership.refused == ""
    wal.ownership.adopt("b")
    assert not wal.ownership.serves("a")
    wal.close()


def test_what_a_former_process_was_about_to_delete_is_deleted(tmp_path: Path) -> None:
    left = tmp_path / "worker" / ".removed-1"
    left.mkdir(parents=True)
    (left / "file").write_text("")
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    wal.keep_only([], DiskSync())
    assert not left.exists()
    wal.close()


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=300), min_size=2, max_size=2, unique=True))
def test_any_name_is_one_safe_folder_of_its_own(names: list[str]) -> None:
    encodable = [name for name in names if name.isprintable()]
    components = [safe_component(name) for name in encodable]
    assert len(set(components)) == len(components)
    for component in components:
        assert not component.startswith(".")
        assert "/" not in component
        assert len(component) <= 200


# ---- when events are on the disk ------------------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every file that is forced onto the disk."""
    calls: list[int] = []
    real = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        real(descriptor)
        calls.append(descriptor)

    monkeypatch.setattr(upkeep_module.os, "fdatasync", fdatasync)
    return calls


def test_with_always_sources_are_told_after_one_sync_for_all_of_a_turn(tmp_path: Path, synced: list[int]) -> None:
    deferred: list[Callable[[int], None]] = []
    disk_sync = GroupCommit(deferred.append)
    disk_sync.start()
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, disk_sync)
    told: list[int] = []
    for number in range(3):
        stored(log)
        disk_sync.when_safe(lambda number=number: told.append(number))  # type: ignore[misc]
    assert told == []
    assert len(deferred) == 1
    deferred[0](0)
    assert (told, len(synced)) == ([0, 1, 2], 1)
    disk_sync.when_safe(lambda: told.append(3))
    assert told[-1] == 3, "nothing is waited for when everything is on the disk"
    log.close()
    disk_sync.stop()
    wal.close()


def test_a_disk_that_fails_tells_no_source_that_its_events_are_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deferred: list[Callable[[int], None]] = []
    disk_sync = GroupCommit(deferred.append)
    disk_sync.start()
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, disk_sync)
    stored(log)
    told: list[bool] = []
    disk_sync.when_safe(lambda: told.append(True))

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(upkeep_module.os, "fdatasync", fail)
        with pytest.raises(OSError, match="Input/output"):
            deferred[0](0)
    log.close()
    disk_sync.stop()
    wal.close()
    assert told == []


def test_with_interval_a_thread_brings_events_onto_the_disk(tmp_path: Path, synced: list[int]) -> None:
    disk_sync = BackgroundSync(5)
    disk_sync.start()
    wal = WalStore(WalConfig(str(tmp_path)), "worker")
    log = wal.open_log(KEY, BINDING, disk_sync)
    stored(log)
    pause = threading.Event()
    for _ in range(2_000):
        if synced and not log.unsynced:
            break
        pause.wait(0.005)
    assert synced
    log.close()
    disk_sync.stop()
    wal.close()
