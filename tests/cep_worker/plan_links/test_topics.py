"""What publishers and subscribers of a topic do when routes change, have no room, or refuse a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from worker_world import ALERTS, KEY, alerts

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import StreamBinding
from cep_worker.formats.key_values import Keys
from cep_worker.inflows.wal.errors import BatchTooLargeError, WalFullError
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plan_links.subscriptions import Topic
from cep_worker.plan_links.topic_registry import TopicPublisher, TopicRegistry
from cep_worker.plans.streams import EventStream, PlanStream
from cep_worker.storage.group_commit import DiskSync
from cep_worker.storage.records import BatchOrigin

TOPIC = Topic("topic", KEY.tenant, "late")
OFFERED = StreamSchema("Late/Alerts", ALERTS)


@dataclass
class FakeRoute:
    """A route to inflows that are told apart by their names."""

    inflows: tuple[str, ...] = ("one",)
    room: bool = True
    refusal: Exception | None = None
    told: list[str] = field(default_factory=list)
    rows: int = 0

    def has_room(self) -> bool:
        return self.room

    def join(self, now_ms: int) -> None:
        self.told.append("join")

    def leave(self) -> None:
        self.told.append("leave")

    def offer(
        self, batch: pa.RecordBatch, body: Any, promised_ms: int, now_ms: int, origin: BatchOrigin | None = None
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.rows += batch.num_rows


class Desk:
    """Topics with one publisher and one subscription, whose next route is `route`."""

    def __init__(self) -> None:
        self.route: FakeRoute | None = FakeRoute()
        self.delivered = 0
        self.failed: list[tuple[PlanKey, str, int, str]] = []
        self.topics = TopicRegistry(self._make, DiskSync(), lambda: 5, self._fail)
        self.publisher: TopicPublisher = self.topics.publish(TOPIC, OFFERED)
        binding = StreamBinding("In", "In", ALERTS)
        stream = EventStream(StreamSchema("Next/In", ALERTS), (PlanStream(KEY, binding),))
        self.subscription = self.topics.subscribe(TOPIC, stream)
        self.topics.reroute(0)

    def _fail(self, key: PlanKey, stream: str, events: pa.RecordBatch, reason: str) -> int:
        self.failed.append((key, stream, events.num_rows, reason))
        return 0

    def give(self, rows: int = 1) -> None:
        batch = alerts(*[(number, "UA", number) for number in range(rows)])
        self.publisher.offer(batch, None, DeliveryReceipt(1, self._deliver))

    def _make(self, source: Any, offered: StreamSchema, stream: EventStream) -> Any:
        if self.route is None:
            raise InputError("inactive", "not now")
        return self.route

    def _deliver(self) -> None:
        self.delivered += 1


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_finds_no_room_on_the_disk_waits_in_order_and_is_delivered_when_there_is(desk: Desk) -> None:
    route = desk.route
    assert route is not None
    route.refusal = WalFullError("full")
    desk.give(2)
    desk.give(3)
    assert (desk.delivered, desk.publisher.waiting_events(), desk.publisher.has_room()) == (0, 5, False)
    desk.topics.retry(1)
    assert desk.delivered == 0
    route.refusal = None
    desk.topics.retry(2)
    assert (desk.delivered, route.rows, desk.publisher.has_room()) == (2, 5, True)


def test_a_batch_that_can_never_be_taken_is_dropped_counted_and_told_of(desk: Desk) -> None:
    assert desk.route is not None
    desk.route.refusal = BatchTooLargeError("larger than a segment")
    desk.give(4)
    assert (desk.delivered, desk.publisher.dropped_events) == (1, 4)
    assert desk.topics.problems() == {KEY: "4 events of Late/Alerts dropped: larger than a segment"}
    (plan_error,) = desk.topics.errors_found()
    assert (plan_error.key, plan_error.code, plan_error.dropped_events) == (KEY, "feed", 4)
    desk.topics.end_subscription(desk.subscription)
    desk.topics.reroute(1)
    assert desk.publisher.dropped_events == 4, "a count does not fall"


def test_a_route_to_other_inflows_is_joined_and_the_former_one_left(desk: Desk) -> None:
    first = desk.route
    assert first is not None
    desk.topics.reroute(1)
    assert first.told == ["join"], "the same inflows"
    second = desk.route = FakeRoute(("two",))
    desk.topics.reroute(2)
    assert (first.told, second.told) == (["join", "leave"], ["join"])
    desk.route = None
    desk.topics.reroute(3)
    assert second.told == ["join", "leave"]
    desk.give()
    assert (desk.delivered, second.rows) == (1, 0), "a plan that is not active gets nothing"
    third = desk.route = FakeRoute(("two",))
    desk.topics.reroute(4)
    assert third.told == ["join"]


def test_what_waits_for_a_stream_that_is_defined_anew_goes_to_the_new_one(desk: Desk) -> None:
    route = desk.route
    assert route is not None
    route.refusal = WalFullError("full")
    desk.give(2)
    desk.topics.end_subscription(desk.subscription)
    desk.topics.subscribe(TOPIC, desk.subscription.stream)
    desk.route = FakeRoute(("new",))
    desk.topics.reroute(1)
    assert desk.delivered == 0
    desk.topics.retry(2)
    assert (desk.delivered, desk.route.rows) == (1, 2)


def test_a_problem_is_over_when_events_go_their_way_again(desk: Desk) -> None:
    assert desk.route is not None
    desk.route.refusal = BatchTooLargeError("larger than a segment")
    desk.give(4)
    desk.route.refusal = None
    desk.give(1)
    assert desk.topics.problems() == {}


@pytest.mark.parametrize("end", ["subscription", "publisher", "activity"])
def test_whoever_ends_leaves_and_what_waited_is_kept_as_failed(desk: Desk, end: str) -> None:
    route = desk.route
    assert route is not None
    route.refusal = WalFullError("full")
    desk.give()
    if end == "publisher":
        desk.topics.end_publisher(desk.publisher)
    elif end == "activity":
        desk.route = None
        desk.topics.reroute(1)
    else:
        desk.topics.end_subscription(desk.subscription)
        desk.topics.reroute(1)
    assert (desk.delivered, route.told, desk.publisher.has_room()) == (1, ["join", "leave"], True)
    reason = "topic late from Late/Alerts: they waited for room when their subscription ended"
    assert desk.failed == [(KEY, "In", 1, reason)]
    desk.give()
    assert desk.delivered == 2


def test_a_worker_that_leaves_takes_nothing_more(desk: Desk) -> None:
    desk.topics.leave()
    assert not desk.publisher.has_room()


def ways(forms: Sequence[str] = (), keys: Sequence[Keys | None] = ()) -> list[str]:
    """By what feeds are known in a process in which publishers of these `forms`, and subscriptions with these `keys`,
    come after those of the desk."""
    desk = Desk()
    publishers = [desk.publisher, *(desk.topics.publish(TOPIC, OFFERED, form=form) for form in forms)]
    for one in keys:
        desk.topics.subscribe(TOPIC, desk.subscription.stream, keys=one)
    desk.topics.reroute(0)
    return [feed.way for publisher in publishers for feed in publisher.feeds]


def test_every_way_of_events_has_a_name_of_its_own_that_a_later_process_gives_it_too() -> None:
    forms, keys = ("a='x'", "a='y'", "a='x'"), (None, Keys((("who", "whom"),)))
    names = ways(forms, keys)
    assert len(names) == len(set(names)) == 12
    assert names == ways(forms, keys)
    without_former, without_keys = ways(("a='y'",), keys), ways(forms, (Keys((("who", "whom"),)),))
    assert set(without_former) < set(names)
    assert {name for name in without_former if "a='y'" in name} == {name for name in names if "a='y'" in name}
    assert set(without_keys) < set(names)
