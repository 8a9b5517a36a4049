"""The error store itself: what it keeps over restarts, how much, and for whom."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from worker_world import KEY, alerts, until, values

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.registry import RemovedPlan
from cep_worker.config import ErrorsConfig
from cep_worker.failed_events.entries import FailedBatch, FailureOrigin
from cep_worker.failed_events.store import FailedEventStore

SINK = FailureOrigin(KEY, "Alerts", "sink", "http")
OTHER = FailureOrigin(PlanKey(7, KEY.plan), "Alerts", "sink", "http")


def opened(path: Path, max_entries: int = 5, max_entry_bytes: int = 1_024) -> FailedEventStore:
    store = FailedEventStore(ErrorsConfig(str(path), max_entries, max_entry_bytes), "worker-1", lambda: 1_234)
    store.open_existing()
    return store


def failed(*late: int, reason: str = "no") -> FailedBatch:
    return FailedBatch(alerts(*[(number, "UA", number) for number in late]), reason)


def test_entries_outlive_the_process_with_all_that_is_known_of_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    kept = store.keep(SINK, [failed(1, 2, reason="status 500"), failed(3)])
    assert (kept.events, kept.lost, kept.problem) == (3, 0, "")
    before = store.entries(KEY, None, 10)
    store.close()
    again = opened(tmp_path)
    assert again.counts() == {KEY: 2}
    found = again.entries(KEY, None, 10)
    assert [one.id for one in found] == [one.id for one in before]
    assert [(one.origin, one.time_ms, one.failed.reason) for one in found] == [
        (SINK, 1_234, "status 500"), (SINK, 1_234, "no")
    ]  # fmt: skip
    assert [values(one.failed.events) for one in found] == [[(1, "UA", 1), (2, "UA", 2)], [(3, "UA", 3)]]
    again.close()


def test_only_the_workers_user_can_read_the_events(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(SINK, [failed(1)])
    folder = tmp_path / "worker-1"
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) > 1, "what is written goes beside it first"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.close()


def test_a_store_that_nothing_was_put_into_makes_no_file(tmp_path: Path) -> None:
    store = opened(tmp_path / "none")
    assert store.entries(KEY, None, 10) == []
    assert store.discard(KEY, None) == 0
    store.close()
    assert not (tmp_path / "none").exists()


def test_a_reason_that_is_no_proper_text_is_kept_as_far_as_it_is_one(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.keep(SINK, [failed(1, reason="bad \ud800 letter")]).events == 1
    (entry,) = store.entries(KEY, None, 10)
    assert entry.failed.reason == "bad ? letter"
    store.close()


def test_events_that_fail_alike_one_after_the_other_are_one_entry(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(SINK, [failed(1), failed(2), failed(3, reason="other"), failed(4)])
    assert [len(values(one.failed.events)) for one in store.entries(KEY, None, 10)] == [2, 1, 1]
    store.close()


def test_a_full_store_keeps_what_came_first_and_says_why_it_takes_no_more_until_there_is_room(tmp_path: Path) -> None:
    store = opened(tmp_path, max_entries=2)
    kept = store.keep(SINK, [failed(1), failed(2, 3, reason="b"), failed(4, 5, reason="c")])
    assert (kept.events, kept.lost) == (3, 2)
    assert "errors.max_entries" in kept.problem
    assert store.keep(SINK, [failed(6)]).lost == 1
    assert store.keep(OTHER, [failed(6)]).events == 1, "each plan has room of its own"
    first, _ = store.entries(KEY, None, 10)
    assert store.discard(KEY, [first.id]) == 1
    assert store.keep(SINK, [failed(7)]).events == 1
    assert [values(one.failed.events)[0][0] for one in store.entries(KEY, None, 10)] == [2, 7]
    store.close()


def test_many_events_make_several_entries_and_one_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    store = opened(tmp_path, max_entries=100)
    many = store.keep(SINK, [failed(*range(200))])
    assert many.events == 200
    found = store.entries(KEY, None, 100)
    assert len(found) > 1
    assert all(one.failed.events.nbytes <= 1_024 for one in found)
    assert [row[0] for one in found for row in values(one.failed.events)] == list(range(200))
    large = FailedBatch(alerts((1, "x" * 2_000, 1)), "no")
    kept = store.keep(SINK, [large, failed(5)])
    assert (kept.events, kept.lost) == (1, 1)
    assert "errors.max_entry_bytes" in kept.problem
    store.close()


def test_nobody_sees_or_discards_entries_of_another_plan(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(SINK, [failed(1)])
    (entry,) = store.entries(KEY, None, 10)
    assert store.entries(OTHER.key, [entry.id], 10) == []
    assert store.discard(OTHER.key, [entry.id]) == 0
    assert store.counts() == {KEY: 1}
    store.close()


def test_what_failed_again_takes_the_place_of_its_entry_even_in_a_full_store(tmp_path: Path) -> None:
    store = opened(tmp_path, max_entries=1)
    store.keep(SINK, [failed(1, 2)])
    (entry,) = store.entries(KEY, None, 10)
    store.replace(entry, [failed(2, reason="still no")])
    (left,) = store.entries(KEY, None, 10)
    assert (left.id, left.failed.reason, values(left.failed.events)) == (entry.id, "still no", [(2, "UA", 2)])
    store.discard(KEY, [entry.id])
    store.replace(entry, [failed(2)])
    assert store.counts() == {}, "what was discarded meanwhile stays away"
    store.close()


def test_entries_go_with_their_plan_when_people_undeploy_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(SINK, [failed(1)])
    store.keep(OTHER, [failed(2)])
    store.keep_only([KEY, OTHER.key], {KEY: 5, OTHER.key: 6})
    until(lambda: len(store.owners()) == 2)
    store.keep_only([OTHER.key], {OTHER.key: 6}, [RemovedPlan(KEY, 5)])
    until(lambda: store.counts() == {OTHER.key: 1})
    assert store.entries(KEY, None, 10) == []
    store.close()


def test_entries_of_a_plan_that_is_missing_stay_for_some_days(tmp_path: Path) -> None:
    now_ms = [1_000]
    store = FailedEventStore(ErrorsConfig(path=str(tmp_path)), "worker-1", lambda: now_ms[0], missing_ms=100)
    store.keep(SINK, [failed(1)])
    store.keep_only([KEY], {KEY: 5})
    until(lambda: store.owners() == {KEY: (5, 0)})
    store.keep_only([], {}, [RemovedPlan(KEY, 4)])
    until(lambda: store.owners() == {KEY: (5, 1_000)})
    now_ms[0] = 1_050
    store.keep_only([KEY], {KEY: 5})
    until(lambda: store.owners() == {KEY: (5, 0)})
    store.keep_only([])
    until(lambda: store.owners() == {KEY: (5, 1_050)})
    assert len(store.entries(KEY, None, 10)) == 1
    store.close()
    now_ms[0] = 1_150
    store = FailedEventStore(ErrorsConfig(path=str(tmp_path)), "worker-1", lambda: now_ms[0], missing_ms=100)
    store.open_existing()
    store.keep_only([])
    until(lambda: store.counts() == {})
    store.close()


def test_a_reason_is_no_longer_than_other_errors_are(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(SINK, [failed(1, reason="x" * 100_000)])
    (entry,) = store.entries(KEY, None, 10)
    assert len(entry.failed.reason) < 2_000
    store.close()


def test_a_store_that_cannot_be_used_says_so_and_loses_nothing_silently(tmp_path: Path) -> None:
    folder = tmp_path / "worker-1"
    folder.mkdir()
    (folder / "errors.db").write_bytes(b"this is not a database" * 100)
    store = opened(tmp_path)
    kept = store.keep(SINK, [failed(1)])
    assert (kept.events, kept.lost) == (0, 1)
    assert "cannot be written" in kept.problem
    with pytest.raises(InputError, match="cannot be used") as refused:
        store.entries(KEY, None, 10)
    assert refused.value.reason_code == "errors-unavailable"
    store.close()


@pytest.mark.thorough
def test_two_processes_do_not_write_one_store(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.keep(SINK, [failed(1)])
    assert "locked" in second.keep(SINK, [failed(2)]).problem
    first.close()
    assert second.keep(SINK, [failed(2)]).events == 1
    second.close()


def test_after_its_end_a_store_keeps_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.close()
    assert store.keep(SINK, [failed(1)]).lost == 1


def test_an_entry_that_cannot_be_read_is_named_so_that_it_can_be_discarded(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep(SINK, [failed(1)])
    (entry,) = store.entries(KEY, None, 10)
    store.close()
    with sqlite3.connect(tmp_path / "worker-1" / "errors.db") as database:
        database.execute("update entries set events = x'00112233'")
    database.close()
    again = opened(tmp_path)
    with pytest.raises(InputError, match=f"the entry {entry.id} of .* cannot be read"):
        again.entries(KEY, None, 10)
    assert again.discard(KEY, [entry.id]) == 1
    again.close()
