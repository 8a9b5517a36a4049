"""ReplayableSource as the error store's desk makes them, with streams and sinks that the test plays."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pytest
from worker_world import ALERTS, KEY, alerts

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from cep_worker.config import ErrorsConfig
from cep_worker.failed_events import service as desks
from cep_worker.failed_events.entries import FailedBatch, FailureOrigin
from cep_worker.failed_events.service import EntrySelection, FailedEventService, ReplayAttempt
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.plans.streams import EventStream, PlanStream, StreamDirectory

ALL = EntrySelection(KEY.plan, all=True)


class FakeOffers:
    """A worker whose stream takes events when it likes, and whose sink answers as the test says."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Future[None], pa.RecordBatch]] = []
        self.attempts: list[ReplayAttempt] = []
        self.takes = True
        self.bound = StreamBinding("Alerts", "Alerts:1.0.0", ALERTS)

    def imported(self) -> StreamDirectory:
        return StreamDirectory([PlanStream(KEY, self.bound)])

    def submit(self, source: Hashable, stream: EventStream, batch: pa.RecordBatch) -> Future[None]:
        taken: Future[None] = Future()
        if self.takes:
            taken.set_result(None)
        self.submitted.append((taken, batch))
        return taken

    def replay_to_sink(
        self, key: PlanKey, stream: str, sink: str, batch: pa.RecordBatch, attempt: ReplayAttempt
    ) -> None:
        self.attempts.append(attempt)


@pytest.fixture
def offers() -> FakeOffers:
    return FakeOffers()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FailedEventStore]:
    made = FailedEventStore(ErrorsConfig(str(tmp_path)), "worker-1", lambda: 0)
    yield made
    made.close()


@pytest.fixture
def desk(store: FailedEventStore, offers: FakeOffers, monkeypatch: pytest.MonkeyPatch) -> FailedEventService:
    monkeypatch.setattr(desks, "REPLAY_S", 0.05)
    return FailedEventService(store, offers)


def keep(store: FailedEventStore, kind: str, *late: int) -> str:
    origin = FailureOrigin(KEY, "Alerts", "sink", "http") if kind == "sink" else FailureOrigin(KEY, "Alerts", "stream")
    store.keep(origin, [FailedBatch(alerts(*[(number, "UA", number) for number in late]), "no")])
    return store.entries(KEY, None, 100)[-1].id


def test_a_stream_without_room_keeps_the_entry_and_the_events_do_not_come_later(
    desk: FailedEventService, store: FailedEventStore, offers: FakeOffers
) -> None:
    id_ = keep(store, "stream", 1)
    offers.takes = False
    told = desk.replay(KEY, ALL)
    assert [(one.id, one.code) for one in told.refused] == [(id_, "no-room")]
    assert offers.submitted[0][0].cancelled()
    assert store.counts() == {KEY: 1}


def test_what_there_is_no_time_for_is_left(
    desk: FailedEventService, store: FailedEventStore, offers: FakeOffers
) -> None:
    for number in range(3):
        keep(store, "stream", number)
    offers.takes = False
    told = desk.replay(KEY, ALL)
    assert (told.replayed, len(told.refused), told.left) == (0, 1, 2)


def test_an_entry_whose_sink_still_tries_is_not_offered_again_and_goes_when_it_is_delivered(
    desk: FailedEventService, store: FailedEventStore, offers: FakeOffers
) -> None:
    keep(store, "sink", 1, 2)
    assert desk.replay(KEY, ALL).under_way == 1
    assert desk.replay(KEY, ALL).under_way == 1
    (attempt,) = offers.attempts
    attempt.end()
    assert store.counts() == {}
    assert desk.replay(KEY, ALL).replayed == 0


def test_of_an_attempt_what_failed_again_stays_and_may_be_tried_once_more(
    desk: FailedEventService, store: FailedEventStore, offers: FakeOffers
) -> None:
    id_ = keep(store, "sink", 1, 2)
    desk.replay(KEY, ALL)
    offers.attempts[0].failed([FailedBatch(alerts((2, "UA", 2)), "still not")])
    offers.attempts[0].end()
    (entry,) = store.entries(KEY, None, 10)
    assert (entry.id, entry.failed.reason, entry.failed.events.num_rows) == (id_, "still not", 1)
    problem = offers.attempts[0].outcome.result(0)
    assert problem is not None
    assert problem.reason_code == "failed-again"
    desk.replay(KEY, ALL)
    assert len(offers.attempts) == 2


def test_a_sink_that_does_not_try_leaves_the_entry_as_it_was(
    desk: FailedEventService, store: FailedEventStore, offers: FakeOffers
) -> None:
    id_ = keep(store, "sink", 1)
    desk.replay(KEY, ALL)
    offers.attempts[0].refuse(InputError("no-sink", "gone"))
    assert [one.id for one in store.entries(KEY, None, 10)] == [id_]


def test_two_who_replay_at_once_give_the_events_once(
    desk: FailedEventService, store: FailedEventStore, offers: FakeOffers
) -> None:
    for number in range(20):
        keep(store, "stream", number)
    told: list[int] = []

    def replay() -> None:
        told.append(desk.replay(KEY, ALL).replayed)

    threads = [threading.Thread(target=replay) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    while store.counts():
        replay()
    given = [row["late"] for _, batch in offers.submitted for row in batch.to_pylist()]
    assert sorted(given) == list(range(20))
    assert sum(told) == 20


def test_a_stream_that_is_called_so_outside_only_is_not_meant(
    desk: FailedEventService, store: FailedEventStore, offers: FakeOffers
) -> None:
    keep(store, "stream", 1)
    offers.bound = StreamBinding("Inner", "Alerts:1.0.0", ALERTS)
    assert [one.code for one in desk.replay(KEY, ALL).refused] == ["no-inflow"]
    assert offers.submitted == []
