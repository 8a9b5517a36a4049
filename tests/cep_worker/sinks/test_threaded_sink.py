"""The thread behind sinks that may block: what it counts as dropped."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zmq
from worker_world import KEY, alerts, sink_context, until

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector
from cep_worker.config import ErrorsConfig
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.sinks.threaded import ThreadedSink, WriteError

FIRST = GroupId(KEY, "publisher#0", 7, 0, 3, "log")
OTHER = GroupId(KEY, "publisher#1", 7, 0, 3, "other log")


class Refusing:
    """Takes all frames, and refuses the commits of `refused`."""

    problem = ""

    def __init__(self) -> None:
        self.refused: set[GroupId] = set()
        self.complaint = ""
        self.blocking: set[GroupId] = set()
        self.go_on = threading.Event()

    def blocks(self, group: GroupId) -> None:
        """Wait in the commit of `group` until `go_on`."""
        self.blocking.add(group)

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        """Nothing fails."""

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        if group in self.blocking:
            self.go_on.wait()
        if group in self.refused:
            raise WriteError("no")
        if self.complaint:
            raise WriteError(self.complaint, ())

    def close(self) -> None:
        """Nothing is held."""


class Attempt:
    """Notes the numbers of events that failed, and its end."""

    def __init__(self) -> None:
        self.outcomes: list[int | str] = []

    def failed(self, failed: Iterable[FailedBatch]) -> None:
        self.outcomes.append(sum(one.events.num_rows for one in failed))

    def end(self) -> None:
        self.outcomes.append("end")


class Desk:
    """A sink and what is needed to give it work."""

    def __init__(self, context: zmq.Context[Any], errors: FailedEventStore | None = None) -> None:
        self.writer = Refusing()
        self._event_loop = EventLoop()
        self._unsettled = 0
        connector = Connector("Alerts", "file", {}, "", {})
        plan_context = sink_context(connector, self._event_loop, context, errors)
        self.where = plan_context.where()
        self.sink = ThreadedSink(plan_context, self.writer, "LOG" if errors is None else "STORE")

    def frame(self, group: GroupId, number: int, rows: int) -> None:
        batch = alerts(*[(number, "UA", number) for number in range(rows)])
        self.sink.offer(batch, None, self.receipt(), FrameId(group, number))

    def dropped_by(self, group: GroupId) -> int:
        """How many events the commit of `group` drops."""
        before = self.sink.dropped_events
        self.sink.commit(group, self.receipt())
        until(lambda: not self._unsettled, self)
        return self.sink.dropped_events - before

    def pump(self) -> None:
        self._event_loop.turn(5, lambda: 0)

    def close(self) -> None:
        self.sink.close()
        self.join()
        self._event_loop.close()

    def join(self) -> None:
        """Wait until the sink's thread has ended."""
        for thread in threading.enumerate():
            if thread.name == f"sink {self.where}":
                thread.join(5)
                assert not thread.is_alive()

    def receipt(self) -> DeliveryReceipt:
        self._unsettled += 1
        return DeliveryReceipt(1, self._settled)

    def _settled(self) -> None:
        self._unsettled -= 1

    @property
    def unsettled(self) -> int:
        return self._unsettled


@pytest.fixture
def desk(context: zmq.Context[Any]) -> Iterator[Desk]:
    opened = Desk(context)
    yield opened
    opened.close()


def test_a_commit_that_fails_drops_the_events_of_its_own_group_when_groups_come_at_the_same_time(desk: Desk) -> None:
    desk.frame(FIRST, 1, 2)
    desk.frame(OTHER, 1, 5)
    desk.frame(FIRST, 2, 1)
    desk.writer.refused = {FIRST, OTHER}
    assert desk.dropped_by(OTHER) == 5
    assert desk.dropped_by(FIRST) == 3
    assert desk.dropped_by(FIRST) == 0, "its events are gone"


def test_a_commit_that_succeeds_drops_nothing_and_leaves_other_groups_as_they_are(desk: Desk) -> None:
    desk.frame(FIRST, 1, 2)
    desk.frame(OTHER, 1, 5)
    desk.writer.refused = {OTHER}
    assert desk.dropped_by(FIRST) == 0
    assert desk.dropped_by(OTHER) == 5


def test_what_is_wrong_beside_the_events_is_shown_and_they_are_delivered(desk: Desk) -> None:
    desk.frame(FIRST, 1, 2)
    desk.writer.complaint = "the file was cut"
    assert desk.dropped_by(FIRST) == 0
    assert desk.sink.delivered_events == 2
    assert "the file was cut" in desk.sink.last_error()


def test_events_of_a_group_that_comes_anew_before_its_commit_are_dropped_once(desk: Desk) -> None:
    desk.frame(FIRST, 1, 2)
    desk.frame(FIRST, 1, 2)
    desk.frame(FIRST, 2, 3)
    desk.writer.refused = {FIRST}
    assert desk.dropped_by(FIRST) == 5


def test_what_a_sink_is_given_after_its_end_is_kept_where_it_asked_for_that(
    context: zmq.Context[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    errors = FailedEventStore(ErrorsConfig(str(tmp_path)), "worker-1", lambda: 0)
    desk = Desk(context, errors)
    desk.close()
    desk.sink.offer(alerts((1, "UA", 5)), None, DeliveryReceipt(1, lambda: None))
    (entry,) = errors.entries(PlanKey(KEY.tenant, "Plan"), None, 10)
    assert (entry.failed.reason, entry.failed.events.num_rows) == ("the sink has ended", 1)
    assert desk.sink.dropped_events == 0
    (told,) = [one for one in caplog.messages if one.startswith("sink kept events")]
    assert "plan=Plan[-1234] sink=@sink(type='file') of stream Alerts events=1 reason=the sink has ended" in told
    errors.close()


def test_a_sink_whose_worker_ends_drops_and_settles_nothing(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.writer.blocks(FIRST)
    desk.frame(FIRST, 1, 2)
    desk.sink.commit(FIRST, desk.receipt())
    desk.frame(OTHER, 1, 5)
    desk.sink.offer(alerts((1, "UA", 5)), None, desk.receipt())
    until(lambda: desk.unsettled == 3, desk)
    desk.writer.refused = {FIRST}
    desk.sink.leave()
    desk.writer.go_on.set()
    desk.join()
    desk.sink.offer(alerts((1, "UA", 5)), None, desk.receipt())
    desk.pump()
    assert (desk.unsettled, desk.sink.dropped_events, desk.sink.last_error()) == (4, 0, "")
    assert not [one for one in caplog.records if one.levelname in ("WARNING", "ERROR")]
    assert desk.sink.drained()


def test_a_replay_that_waits_when_the_worker_ends_is_ended(desk: Desk) -> None:
    attempt = Attempt()
    desk.writer.blocks(FIRST)
    desk.sink.commit(FIRST, desk.receipt())
    desk.sink.replay(alerts((1, "UA", 5)), attempt)
    desk.sink.leave()
    desk.writer.go_on.set()
    desk.join()
    assert attempt.outcomes == [1, "end"]


def test_events_that_can_be_neither_read_nor_kept_are_counted_as_dropped(
    context: zmq.Context[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = FailedEventStore(ErrorsConfig(str(tmp_path)), "worker-1", lambda: 0)
    desk = Desk(context, errors)

    def refuse(*_: Any) -> None:
        raise WriteError("no")

    def fail(*_: Any) -> None:
        raise pa.ArrowInvalid("offset overflow")

    monkeypatch.setattr(desk.writer, "write", refuse)
    monkeypatch.setattr(errors, "keep", fail)
    desk.frame(FIRST, 1, 2)
    until(desk.sink.drained, desk)
    assert desk.sink.dropped_events == 2
    assert "they are lost: offset overflow" in desk.sink.last_error()
    desk.close()
    errors.close()


class Gathering(Refusing):
    """Holds its first write back, notes the rows of all, and refuses the last row of those that have five."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()
        self.began = threading.Event()
        self.written: list[int] = []

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        self.written.append(batch.num_rows)
        self.began.set()
        self.may_go_on.wait(10)
        if batch.num_rows == 5:
            raise WriteError("no", [FailedBatch(batch.slice(4, 1), "no")])


def test_batches_that_wait_are_written_together_and_settled_each(context: zmq.Context[Any]) -> None:
    """As far as `gather_rows` allows; a frame of a group stays alone."""
    event_loop, writer = EventLoop(), Gathering()
    sink = ThreadedSink(
        sink_context(Connector("Alerts", "file", {}, "", {}), event_loop, context), writer, gather_rows=5
    )
    settled: list[tuple[int, int]] = []

    def offer(number: int, rows: int, frame: FrameId | None = None) -> None:
        receipt = DeliveryReceipt(1, lambda: settled.append((number, receipt.lost_rows)))
        sink.offer(alerts(*[(row, "UA", row) for row in range(rows)]), None, receipt, frame)

    offer(0, 1)
    assert writer.began.wait(10)
    for number, rows in enumerate((2, 3, 4, 1, 6), start=1):
        offer(number, rows)
    offer(6, 1, FrameId(FIRST, 1))
    offer(7, 1)
    writer.may_go_on.set()
    until(lambda: event_loop.turn(5, lambda: 0) or len(settled) == 8)
    assert writer.written == [1, 5, 5, 6, 1, 1]
    assert settled == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0), (5, 0), (6, 0), (7, 0)]
    assert sink.dropped_events == 2
    assert sink.waiting_events() == 0
    assert sink.drained()
    sink.close()
    event_loop.close()
