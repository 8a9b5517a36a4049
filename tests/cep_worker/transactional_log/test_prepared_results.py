"""Prepared results of a plan: consumers that know what they have get each result that stands once, whatever happens."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from random_examples import examples
from worker_world import ALERTS, KEY, PLAN, alerts

from cep_common.errors import ConfigError
from cep_common.protocol.links import Data, OpenLink, StreamSchema
from cep_common.protocol.registry import CheckpointSpan, PlanCheckpoints, RemovedPlan
from cep_worker.config import ResultsConfig
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.outflows.transactional_log.file_sync import FileSync
from cep_worker.outflows.transactional_log.prepared_results import TRY_AGAIN_MS, PreparedResults
from cep_worker.outflows.transactional_log.store import TransactionalLogStore
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.storage.checked_json import copy_of
from cep_worker.storage.losses import LossRecord, write_lost
from topology.events.frames import encode_batch

ONCE = msgspec.structs.replace(PLAN, delivery="exactly-once")
STREAMS = (StreamSchema("Alerts", ALERTS),)


class Sink:
    """Takes effect at commits, and knows which groups it has; settles when it is told to. Its memory outlives crashes
    of the worker, what it has staged does not."""

    lasting = True

    def __init__(self, name: str = "sink", room: int = 1_000) -> None:
        self.name = self.form = name
        self.room = room
        self.got: list[int] = []
        self.known: set[GroupId] = set()
        self.frames: dict[FrameId, list[int]] = {}
        self.staged: list[int] = []
        self.unsettled: list[DeliveryReceipt] = []

    def has_room(self) -> bool:
        return self.room > 0

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        assert frame is not None
        events = batch.column("late").to_pylist()
        assert self.frames.setdefault(frame, events) == events, "a frame that comes again is the same"
        self.room -= 1
        self.staged += events
        self.unsettled.append(receipt)

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        if group not in self.known:
            self.known.add(group)
            self.got += self.staged
        self.staged = []
        self.unsettled.append(receipt)

    def settle(self) -> None:
        unsettled, self.unsettled = self.unsettled, []
        for receipt in unsettled:
            receipt.settle()

    def crash(self) -> None:
        self.staged, self.unsettled = [], []


class Histories(RuleBasedStateMachine):
    """A publisher, restarted at times from the newest complete checkpoint, whose worker crashes at times. What it sends
    is numbered by the place in its input, so that what is undone comes again under the same numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.event_loop = EventLoop()
        self.sync = FileSync(lambda call: call())
        self.sink = Sink()
        self.prepared = self.open()
        self.runs = [[7, 0, 0]]
        self.checkpoint = 0
        self.sent = 0  # by this run, in its input's numbers
        self.acknowledged = 0
        self.base = 0  # where this run began
        self.marks: dict[int, int] = {}  # checkpoint: place in the input
        self.complete = 0

    def open(self) -> PreparedResults:
        return PreparedResults(self.folder, ONCE, self.event_loop, self.sync, lambda _stream: [self.sink], 10**9)

    def opening(self) -> OpenLink:
        epoch, attempt, _ = self.runs[-1]
        return OpenLink("publisher#0", STREAMS, KEY, epoch, attempt=attempt)

    def append(self, first: int, last: int) -> None:
        batch = alerts(*[(number, "UA", number) for number in range(first, last + 1)])
        message = Data("Alerts", 1, last - first + 1, 0, 7, last - self.base)
        self.prepared.append(self.opening(), message, batch, encode_batch(batch))

    @rule(events=st.integers(1, 5))
    def send(self, events: int) -> None:
        self.append(self.sent + 1, self.sent + events)
        self.sent += events

    @rule()
    def send_again_after_a_broken_link(self) -> None:
        """Neither frames nor marks since the last acknowledgement are known to have arrived; they come regrouped."""
        first = max([self.base, *(place for place in self.marks.values() if place >= self.base)])
        if self.sent > first:
            self.append(first + 1, self.sent)

    @rule()
    def mark(self) -> None:
        self.checkpoint += 1
        self.marks[self.checkpoint] = self.sent
        self.prepared.mark(self.opening(), self.checkpoint, lambda: None)

    @rule()
    def mark_again(self) -> None:
        if self.checkpoint and self.marks.get(self.checkpoint) == self.sent >= self.base and self.sent > self.base:
            self.prepared.mark(self.opening(), self.checkpoint, lambda: None)

    @rule()
    def complete_a_checkpoint(self) -> None:
        if self.checkpoint in self.marks and self.checkpoint > self.complete:
            self.complete = self.runs[-1][2] = self.checkpoint

    @rule(epoch=st.booleans())
    def restart(self, epoch: bool) -> None:
        last = self.runs[-1]
        self.runs.append([last[0] + 1, 0, 0] if epoch else [last[0], last[1] + 1, 0])
        self.sent = self.base = self.marks.get(self.complete, 0)
        self.marks = {self.complete: self.base}
        self.checkpoint += 1

    @rule()
    def learn(self) -> None:
        self.prepared.apply_checkpoints(tuple(CheckpointSpan(*run) for run in self.runs))

    @rule(room=st.integers(1, 4))
    def deliver(self, room: int) -> None:
        self.sink.room = room
        self.prepared.retry()
        self.event_loop.turn(0, lambda: 0)
        self.sink.settle()
        self.event_loop.turn(0, lambda: 0)

    @rule()
    def crash(self) -> None:
        self.prepared.close()
        self.sink.crash()
        self.prepared = self.open()

    @invariant()
    def what_was_delivered_stands_and_comes_in_order_once(self) -> None:
        assert self.sink.got == list(range(1, len(self.sink.got) + 1))
        assert len(self.sink.got) <= self.marks.get(self.complete, self.base)

    @invariant()
    def what_the_publisher_has_given_in_this_run_never_counts_as_missing(self) -> None:
        """Whether or not it was delivered meanwhile, and whatever of it the publisher takes for undecided."""
        assert self.prepared.prepared_to(self.opening()) >= self.sent - self.base

    def teardown(self) -> None:
        self.learn()
        for _ in range(200):
            self.deliver(10)
        expected = self.marks.get(self.complete, 0)
        assert self.sink.got == list(range(1, expected + 1)), "all that stands is delivered"
        self.prepared.close()
        self.sync.close()
        self.event_loop.close()
        shutil.rmtree(self.folder)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(50), stateful_step_count=25, deadline=None)


def test_results_that_a_former_process_left_are_counted_before_the_first_tick(tmp_path: Path) -> None:
    """The first report of a worker is made before: a plan that is undeployed is removed when it names nothing."""
    sync = FileSync(lambda call: call())
    plan = msgspec.structs.replace(PLAN, delivery="at-least-once")
    opening, batch = (
        OpenLink("publisher#0", STREAMS, KEY, 7),
        alerts(*[(number, "UA", number) for number in range(100)]),
    )
    event_loop = EventLoop()
    former = PreparedResults(tmp_path, plan, event_loop, sync, lambda _stream: [Sink(room=0)], 1_000)
    former.append_at_once(opening, Data("Alerts", 1, 100, 0, 7), batch, encode_batch(batch))
    former.close()
    prepared = PreparedResults(tmp_path, plan, event_loop, sync, lambda _stream: [Sink(room=0)], 1_000)
    found = prepared.metrics()
    prepared.close()
    sync.close()
    event_loop.close()
    assert (found.events, found.released_events) == (100, 100)
    assert found.size_bytes > 0


def test_while_sinks_are_behind_there_is_no_room_until_they_have_caught_up(tmp_path: Path) -> None:
    event_loop, sink = EventLoop(), Sink()
    sync = FileSync(lambda call: call())
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 1_000)
    batch = alerts(*[(number, "UA", number) for number in range(100)])
    opening = OpenLink("publisher#0", STREAMS, KEY, 7)
    prepared.append(opening, Data("Alerts", 1, 100, 0, 7), batch, encode_batch(batch))
    prepared.mark(opening, 1, lambda: None)
    event_loop.turn(0, lambda: 0)
    assert prepared.has_room(), "a checkpoint that is not complete must be able to become so"
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 1),))
    event_loop.turn(0, lambda: 0)
    assert not prepared.has_room()
    prepared.tick(5_000)
    prepared.tick(6_000)
    assert (prepared.metrics().events, prepared.metrics().oldest_ms) == (100, 1_000)
    assert prepared.metrics().size_bytes > 1_000
    sink.settle()
    event_loop.turn(0, lambda: 0)
    assert prepared.has_room()
    prepared.tick(7_000)
    assert prepared.metrics().events == 0
    prepared.close()
    sync.close()
    event_loop.close()


def test_a_plan_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    event_loop = EventLoop()
    store = TransactionalLogStore(ResultsConfig(path=str(tmp_path)), "worker-1", event_loop)
    prepared = store.open(ONCE, lambda _stream: [])
    batch = alerts((1, "UA", 1))
    prepared.append(OpenLink("publisher#0", STREAMS, KEY, 7), Data("Alerts", 1, 1, 0, 7), batch, encode_batch(batch))
    assert store.wanted(PLAN), "another deployment of the plan finds it"
    prepared.discard()
    assert not store.wanted(PLAN)
    store.open(ONCE, lambda _stream: []).close()
    store.keep_only([KEY])
    assert store.wanted(PLAN)
    store.keep_only([], {RemovedPlan(KEY, 0)})
    assert not store.wanted(PLAN), "nothing is left of it"
    store.close()
    event_loop.close()


def test_results_of_a_plan_that_is_missing_are_set_aside_and_come_back_with_it(tmp_path: Path) -> None:
    event_loop = EventLoop()
    store = TransactionalLogStore(ResultsConfig(path=str(tmp_path)), "worker-1", event_loop)
    plan = msgspec.structs.replace(ONCE, deployed_ms=5)
    prepared = store.open(plan, lambda _stream: [])
    batch = alerts((1, "UA", 1))
    prepared.append(OpenLink("publisher#0", STREAMS, KEY, 7), Data("Alerts", 1, 1, 0, 7), batch, encode_batch(batch))
    prepared.close()
    store.keep_only([], {RemovedPlan(KEY, 4)})
    (orphans,) = store.orphan_reports()
    assert (orphans.kind, orphans.plan, orphans.events) == ("results", KEY.plan, 1)
    store.close()
    store = TransactionalLogStore(ResultsConfig(path=str(tmp_path)), "worker-1", event_loop)
    store.tick()
    assert len(store.orphan_reports()) == 1
    assert not store.wanted(msgspec.structs.replace(PLAN, deployed_ms=6)), "they are of another plan"
    assert store.wanted(msgspec.structs.replace(PLAN, deployed_ms=5))
    prepared = store.open(plan, lambda _stream: [])
    prepared.tick(0)
    assert prepared.metrics().events == 1
    assert store.orphan_reports() == ()
    prepared.close()
    store.keep_only([], {RemovedPlan(KEY, 5)})
    assert store.orphan_reports() == (), "it was undeployed while no worker was there"
    assert not store.wanted(msgspec.structs.replace(PLAN, deployed_ms=5))
    store.close()
    event_loop.close()


@pytest.mark.parametrize("left", ["a count", "a file that was set aside", "results that cannot be read", "nothing"])
def test_a_folder_whose_owner_is_lost_is_set_aside_if_anything_is_left_in_it(tmp_path: Path, left: str) -> None:
    event_loop = EventLoop()
    store = TransactionalLogStore(ResultsConfig(path=str(tmp_path)), "worker-1", event_loop)
    store.open(msgspec.structs.replace(ONCE, deployed_ms=5), lambda _stream: []).close()
    (owner,) = tmp_path.rglob("plan.json")
    folder = owner.parent
    for path in (owner, copy_of(owner)):
        path.write_bytes(b"")
    group = folder / "7" / "publisher%230"
    group.mkdir(parents=True)
    if left == "a count":
        write_lost(folder, LossRecord(300))
    elif left != "nothing":
        (group / ("1.unreadable" if "aside" in left else "1.results")).write_bytes(b"damaged")
    (group / "2.results").write_bytes(bytes(100))
    store.keep_only([])
    assert [(one.kind, one.events) for one in store.orphan_reports()] == ([("results", 0)] if left != "nothing" else [])
    assert not folder.exists()
    store.close()
    event_loop.close()


def test_a_former_epoch_leaves_nothing_once_its_results_are_delivered(tmp_path: Path) -> None:
    event_loop, sink = EventLoop(), Sink()
    sync = FileSync(lambda call: call())
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    batch = alerts((1, "UA", 1))
    for epoch in (7, 8):
        opening = OpenLink("publisher#0", STREAMS, KEY, epoch)
        prepared.append(opening, Data("Alerts", 1, 1, 0, epoch), batch, encode_batch(batch))
        prepared.mark(opening, epoch, lambda: None)
    prepared.close_before(8)
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 7),))
    event_loop.turn(0, lambda: 0)
    assert sorted(path.name for path in tmp_path.iterdir() if any(path.iterdir())) == ["7", "8"]
    sink.settle()
    event_loop.turn(0, lambda: 0)
    assert sorted(path.name for path in tmp_path.iterdir() if any(path.iterdir())) == ["8"]
    prepared.close()
    sync.close()
    event_loop.close()


def test_what_a_former_epoch_left_is_deleted_later_when_it_cannot_be_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_loop = EventLoop()
    sync = FileSync(lambda call: call())
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [], 10**9)
    batch = alerts((1, "UA", 1))
    opening = OpenLink("publisher#0", STREAMS, KEY, 7)
    prepared.append(opening, Data("Alerts", 1, 1, 0, 7), batch, encode_batch(batch))
    prepared.mark(opening, 7, lambda: None)
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 7),))
    event_loop.turn(0, lambda: 0)
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", _refuse)
        prepared.close_before(8)
        event_loop.turn(0, lambda: 0)
    assert any((tmp_path / "7").iterdir())
    event_loop.turn(0, lambda: TRY_AGAIN_MS)
    assert not any((tmp_path / "7").iterdir())
    prepared.close()
    sync.close()
    event_loop.close()


def _refuse(folder: Path) -> None:
    raise PermissionError(f"{folder} cannot be deleted")


def test_two_workers_of_one_name_do_not_share_a_folder(tmp_path: Path) -> None:
    event_loop = EventLoop()
    first, second = (TransactionalLogStore(ResultsConfig(path=str(tmp_path)), "worker-1", event_loop) for _ in range(2))
    prepared = first.open(ONCE, lambda _stream: [])
    with pytest.raises(ConfigError, match="is in use by another worker"):
        second.open(ONCE, lambda _stream: [])
    prepared.close()
    first.close()
    second.open(ONCE, lambda _stream: []).close()
    second.close()
    event_loop.close()


def test_what_a_former_plan_of_the_name_left_on_the_disk_stands_when_it_is_told_what_was_undone(tmp_path: Path) -> None:
    """The worker was away while its plan was undeployed and deployed again."""
    event_loop, sink = EventLoop(), Sink()
    sync = FileSync(lambda call: call())
    first = msgspec.structs.replace(ONCE, deployed_ms=1_000)
    prepared = PreparedResults(tmp_path, first, event_loop, sync, lambda _stream: [sink], 10**9)
    for attempt, number in ((0, 1), (0, 2), (1, 3)):
        opening = OpenLink("publisher#0", STREAMS, KEY, 7, attempt=attempt)
        batch = alerts((number, "UA", number))
        prepared.append(opening, Data("Alerts", 1, 1, 0, 7, number if attempt == 0 else 1), batch, encode_batch(batch))
        prepared.mark(opening, number, lambda: None)
    prepared.close()

    second = msgspec.structs.replace(ONCE, epoch=8, deployed_ms=2_000)
    prepared = PreparedResults(tmp_path, second, event_loop, sync, lambda _stream: [sink], 10**9)
    prepared.close_before(8)
    for _ in range(3):
        event_loop.turn(0, lambda: 0)
        sink.settle()
    assert sink.got == [], "what was undone may yet be told"
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 1), CheckpointSpan(8, 0, 0)))
    for _ in range(5):
        event_loop.turn(0, lambda: 0)
        sink.settle()
    assert sink.got == [1, 3]
    assert prepared.is_empty()
    prepared.close()
    sync.close()
    event_loop.close()


def test_what_is_damaged_of_held_results_is_told_and_the_rest_is_delivered(tmp_path: Path) -> None:
    event_loop, sink = EventLoop(), Sink()
    sync = FileSync(lambda call: call())
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    opening = OpenLink("publisher#0", STREAMS, KEY, 7)
    for number in (1, 2, 3):
        batch = alerts((number, "UA", number))
        prepared.append(opening, Data("Alerts", 1, 1, 0, 7, number), batch, encode_batch(batch))
        if number > 1:
            prepared.mark(opening, number, lambda: None)
    prepared.close()
    first, second = sorted(tmp_path.glob("7/*/*.results"))[:2]
    content = bytearray(first.read_bytes())
    content[content.index(encode_batch(alerts((2, "UA", 2))).to_pybytes()[-64:])] ^= 1
    first.write_bytes(content)
    second.write_bytes(b"?" + second.read_bytes()[1:])

    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 3),))
    for _ in range(4):
        event_loop.turn(0, lambda: 0)
        sink.settle()
    prepared.tick(0)
    assert sink.got == [1], "the mark behind what is damaged is found"
    assert (prepared.metrics().lost_events, prepared.is_empty()) == (2, True)
    assert prepared.metrics().damaged_file_bytes > 100
    prepared.close()
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    prepared.tick(0)
    assert prepared.metrics().lost_events == 2, "also when nothing of it is there any more"
    prepared.close()
    sync.close()
    event_loop.close()


@pytest.mark.parametrize("stands", [True, False])
def test_what_is_missing_is_lost_if_its_checkpoint_stands_and_not_if_it_was_undone(
    tmp_path: Path, stands: bool
) -> None:
    event_loop, sink = EventLoop(), Sink()
    sync = FileSync(lambda call: call())
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    opening = OpenLink("publisher#0", STREAMS, KEY, 7)
    for number in (1, 2, 3):
        batch = alerts((number, "UA", number))
        prepared.append(opening, Data("Alerts", 1, 1, 0, 7, number), batch, encode_batch(batch))
    prepared.mark(opening, 1, lambda: None)
    assert prepared.prepared_to(opening) == 3
    prepared.close()
    first = min(tmp_path.glob("7/*/*.results"))
    os.truncate(first, first.stat().st_size - 400)  # the mark, and the end of the last frame

    for _ in range(2):
        prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
        prepared.tick(0)
        assert (prepared.metrics().events, prepared.metrics().lost_events) == (2, 0), "nobody knows yet"
        assert prepared.prepared_to(opening) < 3
        assert prepared.prepared_to(msgspec.structs.replace(opening, attempt=1)) == 0
        prepared.close()
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 1),) if stands else (CheckpointSpan(7, 1, 0),))
    for _ in range(4):
        event_loop.turn(0, lambda: 0)
        sink.settle()
    prepared.tick(0)
    assert (sink.got, prepared.metrics().lost_events, prepared.is_empty()) == (
        ([1, 2], 1, True) if stands else ([], 0, True)
    )
    prepared.close()
    sync.close()
    event_loop.close()


@pytest.mark.parametrize("stands", [True, False])
def test_a_file_that_is_gone_with_all_results_of_a_former_epoch_is_counted_once_it_is_known_what_it_held(
    tmp_path: Path, stands: bool
) -> None:
    event_loop, sink = EventLoop(), Sink()
    sync = FileSync(lambda call: call())
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    opening = OpenLink("publisher#0", STREAMS, KEY, 7)
    batch = alerts((1, "UA", 1), (2, "UA", 2))
    prepared.append(opening, Data("Alerts", 1, 2, 0, 7, 2), batch, encode_batch(batch))
    prepared.mark(opening, 1, lambda: None)
    prepared.tick(0)
    prepared.close()
    min(tmp_path.glob("7/*/*.results")).unlink()

    later = msgspec.structs.replace(ONCE, epoch=8)
    for _ in range(2):
        prepared = PreparedResults(tmp_path, later, event_loop, sync, lambda _stream: [sink], 10**9)
        prepared.close_before(8)
        event_loop.turn(0, lambda: 0)
        prepared.tick(0)
        assert prepared.metrics().lost_events == 0, "nobody knows yet"
        prepared.close()
    prepared = PreparedResults(tmp_path, later, event_loop, sync, lambda _stream: [sink], 10**9)
    prepared.close_before(8)
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 1 if stands else 0), CheckpointSpan(8, 0, 0)))
    event_loop.turn(0, lambda: 0)
    prepared.tick(0)
    assert (prepared.metrics().lost_events, prepared.is_empty()) == (2 if stands else 0, True)
    assert not list(tmp_path.glob("7/*/*.results"))
    prepared.close()
    sync.close()
    event_loop.close()


@pytest.mark.parametrize("committed", [False, True], ids=["not delivered yet", "delivered before a crash"])
def test_results_whose_mark_is_damaged_are_delivered_once_and_hold_nothing_back(
    tmp_path: Path, committed: bool
) -> None:
    event_loop, sink = EventLoop(), Sink()
    sync = FileSync(lambda call: call())
    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    opening = OpenLink("publisher#0", STREAMS, KEY, 7)
    for number in (1, 2, 3, 4):
        batch = alerts((number, "UA", number))
        prepared.append(opening, Data("Alerts", 1, 1, 0, 7, number), batch, encode_batch(batch))
        if number > 1:
            prepared.mark(opening, number, lambda: None)
    if committed:
        prepared.apply_checkpoints((CheckpointSpan(7, 0, 2),))
        event_loop.turn(0, lambda: 0)
        assert sink.got == [1, 2]
    prepared.close()
    sink.crash()
    damaged = min(tmp_path.glob("7/*/*.results"))
    content = bytearray(damaged.read_bytes())
    content[-16] ^= 1  # within the mark
    damaged.write_bytes(content)

    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 4),))
    for _ in range(6):
        event_loop.turn(0, lambda: 0)
        sink.settle()
    prepared.tick(0)
    assert sink.got == [1, 2, 3, 4]
    assert (prepared.metrics().lost_events, prepared.is_empty()) == (0, True)
    prepared.close()
    sync.close()
    event_loop.close()


def test_what_a_plan_of_a_replaced_database_tells_undoes_nothing_of_another_one(tmp_path: Path) -> None:
    """The driver is still ending that one's topology, of a later epoch."""
    event_loop, sync, sink = EventLoop(), FileSync(lambda call: call()), Sink()
    plan = msgspec.structs.replace(ONCE, epoch=1, deployed_ms=2_000)
    prepared = PreparedResults(tmp_path, plan, event_loop, sync, lambda _stream: [sink], 10**9)
    batch = alerts(*[(number, "UA", number) for number in range(1, 11)])
    opening = OpenLink("publisher#0", STREAMS, KEY, 1)
    prepared.append(opening, Data("Alerts", 1, 10, 0, 1, 10), batch, encode_batch(batch))
    prepared.mark(opening, 3, lambda: None)
    former = PlanCheckpoints(KEY, (CheckpointSpan(5, 0, 2),), 1_000)
    for last in (2, 3):
        prepared.learn((former, PlanCheckpoints(KEY, (CheckpointSpan(1, 0, last),), 2_000)))
        event_loop.turn(0, lambda: 0)
        sink.settle()
        event_loop.turn(0, lambda: 0)
        sink.settle()
    assert sink.got == list(range(1, 11))
    assert prepared.newest_attempt(5) == 0
    prepared.close()
    sync.close()
    event_loop.close()


@pytest.mark.parametrize("restarted", [False, True], ids=["worker lives", "worker restarted"])
def test_a_run_that_was_given_the_epoch_of_an_earlier_one_is_not_taken_for_that(
    tmp_path: Path, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The database was replaced by an older copy, and nobody was there to tell the manager."""
    event_loop, sync, sink = EventLoop(), FileSync(lambda call: call()), Sink()

    def give(prepared: PreparedResults, log: str, checkpoint: int, *numbers: int) -> int:
        batch = alerts(*[(number, "UA", number) for number in numbers])
        opening = OpenLink("publisher#0", STREAMS, KEY, 7, log=log)
        rows = prepared.append(opening, Data("Alerts", 1, len(numbers), 0, 7, len(numbers)), batch, encode_batch(batch))
        if checkpoint:
            prepared.mark(opening, checkpoint, lambda: None)
        return rows

    prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    assert give(prepared, "first", 1, 1, 2, 3) == 3
    opening = OpenLink("publisher#0", STREAMS, KEY, 7, log="first")
    batch = alerts((4, "UA", 4))
    prepared.append(opening, Data("Alerts", 1, 1, 0, 7, 4), batch, encode_batch(batch))
    if restarted:
        prepared.close()
        prepared = PreparedResults(tmp_path, ONCE, event_loop, sync, lambda _stream: [sink], 10**9)
    assert prepared.prepared_to(opening) == 4
    assert prepared.prepared_to(msgspec.structs.replace(opening, log="second")) == 0
    assert give(prepared, "second", 2, 10, 11, 12) == 3
    assert prepared.prepared_to(msgspec.structs.replace(opening, log="second")) == 3
    prepared.apply_checkpoints((CheckpointSpan(7, 0, 2),))
    for _ in range(6):
        event_loop.turn(0, lambda: 0)
        sink.settle()
    assert sink.got == [1, 2, 3, 10, 11, 12]
    prepared.tick(0)
    assert (prepared.metrics().events, prepared.metrics().lost_events) == (0, 1)
    assert prepared.metrics().damaged_file_bytes > 0
    assert "events=1" in caplog.text
    prepared.close()
    sync.close()
    event_loop.close()
