"""Plans that feed each other through a real worker: event streams exported by one and imported by another, and topics
of sinks and sources `inMemory`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from worker_hook import Hook
from worker_world import ALERTS, DEADLINE_MS, KEY, PLAN, FakeReceiver, World, alerts, lonely_topics, until

from cep_common.ids import PlanKey
from cep_common.protocol.registry import (
    CheckpointSpan,
    Connector,
    DeployedPlan,
    PlanCheckpoints,
    StreamBinding,
    TenantLimit,
)
from cep_worker.config import ArtefactConfig, InflowConfig, WalConfig
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plan_links.shared_streams import FINISHING_MS, SharedStreams
from cep_worker.worker import Worker

NEXT = DeployedPlan(
    key=PlanKey(KEY.tenant, "Escalation"),
    epoch=3,
    imported=(StreamBinding("LateOnes", "Alerts:1.0.0", (("late", "long"), ("carrier", "string"))),),
    exported=(),
)
OUT = (("who", "string"), ("much", "long"))


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def in_memory(topic: str, mapper: str = "", stream: str = "Alerts", **mapper_options: str) -> Connector:
    return Connector(stream, "inMemory", {"topic": topic}, mapper, mapper_options)


def publishing(*sinks: Connector) -> DeployedPlan:
    """The plan gives out `Alerts` by these sinks; no annotation gives it a name outside."""
    return msgspec.structs.replace(PLAN, exported=(StreamBinding("Alerts", "Alerts", ALERTS),), sinks=sinks)


def subscribing(source: Connector, attributes: tuple[tuple[str, str], ...] = OUT, plan: str = "Next") -> DeployedPlan:
    binding = StreamBinding(source.stream, source.stream, attributes)
    return DeployedPlan(PlanKey(KEY.tenant, plan), 1, imported=(binding,), exported=(), sources=(source,))


def linked(world: World, stream: str, **options: Any) -> FakeReceiver:
    """A receiver stage of whichever plan has `stream`."""
    receiver = world.receiver(stream, **options)
    until(lambda: receiver.openings, receiver)
    return receiver


def last_error(world: World, plan: str) -> str:
    found: str = next(one["last_error"] for one in world.health()["plans"] if one["plan"] == plan)
    return found


def test_what_a_plan_exports_goes_to_every_plan_that_imports_it(world: World) -> None:
    other = msgspec.structs.replace(
        NEXT, key=PlanKey(KEY.tenant, "Count"), imported=(StreamBinding("All", "Alerts:1.0.0", ALERTS),)
    )
    world.start(PLAN, NEXT, other)
    ordered, counted = linked(world, "LateOnes"), linked(world, "All")
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 10), (2, "AA", 20)))
    until(lambda: ordered.rows() and counted.rows(), ordered, counted)
    assert ordered.rows() == [(1, 10, "UA"), (2, 20, "AA")]
    assert counted.rows() == [(1, "UA", 10), (2, "AA", 20)]
    until(lambda: not publisher.link.outbox.pending, publisher)


def test_results_count_as_delivered_when_they_are_on_the_disk_of_the_plan_that_takes_them(world: World) -> None:
    world.start(PLAN, NEXT)
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: not publisher.link.outbox.pending, publisher)
    late = linked(world, "LateOnes")
    until(late.rows, late)
    assert late.rows() == [(1, 10, "UA")]


def test_a_plan_that_comes_later_gets_what_comes_from_then_on_and_one_that_goes_holds_up_nobody(world: World) -> None:
    world.start(PLAN)
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: not publisher.link.outbox.pending, publisher)
    world.manager.deploy(PLAN, NEXT)
    receiver = linked(world, "LateOnes")
    publisher.send("Alerts", alerts((2, "AA", 20)))
    until(receiver.rows, receiver, publisher)
    assert receiver.rows() == [(2, 20, "AA")]
    world.manager.deploy(PLAN)
    until(lambda: len(world.health()["plans"]) == 1, receiver, publisher)
    publisher.send("Alerts", alerts((3, "UA", 30)))
    until(lambda: not publisher.link.outbox.pending, publisher)


def test_an_edited_plan_goes_on_being_fed(world: World) -> None:
    world.start(PLAN, NEXT)
    publisher = world.publisher().open()
    renamed = StreamBinding("Renamed", "Alerts:1.0.0", ALERTS)
    world.manager.deploy(PLAN, msgspec.structs.replace(NEXT, epoch=4, imported=(renamed,)))
    receiver = linked(world, "Renamed")
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(receiver.rows, receiver, publisher)
    assert receiver.rows() == [(1, "UA", 10)]


def test_what_the_former_topology_of_an_edited_plan_still_gives_goes_the_way_that_it_went_before(
    world: World,
) -> None:
    turned = msgspec.structs.replace(
        PLAN, epoch=8, exported=(StreamBinding("Alerts", "Alerts:1.0.0", (("late", "long"), ("carrier", "string"))),)
    )
    world.start(PLAN, NEXT)
    receiver = linked(world, "LateOnes")
    former = world.publisher().open()
    world.manager.deploy(turned, NEXT)
    until(lambda: any(report.epoch == 8 for report in world.reports()), receiver, former)
    former.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: not former.link.outbox.pending, receiver, former)
    until(receiver.rows, receiver, former)
    assert receiver.rows() == [(1, 10, "UA")]


def test_what_fits_nobody_after_an_edit_is_dropped_counted_and_told_of(world: World) -> None:
    more = (*ALERTS, ("origin", "string"))
    edited = msgspec.structs.replace(PLAN, epoch=8, exported=(StreamBinding("Alerts", "Alerts:1.0.0", more),))
    other = msgspec.structs.replace(NEXT, imported=(StreamBinding("All", "Alerts:1.0.0", (more[2], *ALERTS)),))
    world.start(PLAN, NEXT)
    former = world.publisher().open()
    world.manager.deploy(edited, other)
    until(lambda: {report.epoch for report in world.reports()} == {8, 3}, former)
    assert last_error(world, "Escalation") == "", "both fit each other"
    former.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: not former.link.outbox.pending, former)
    until(lambda: last_error(world, "Escalation"), former)
    assert last_error(world, "Escalation").endswith("origin is missing (string)")
    assert world.worker is not None
    assert world.worker.failure is None


def test_events_from_plan_to_plan_do_not_count_against_the_limit_of_their_tenant(world: World) -> None:
    world.manager.limits = (TenantLimit(KEY.tenant, 1),)
    world.start(PLAN, NEXT)
    receiver = linked(world, "LateOnes")
    publisher = world.publisher().open()
    for number in range(5):
        publisher.send("Alerts", alerts(*[(number, "UA", number)] * 50))
    until(lambda: len(receiver.rows()) == 250, receiver, publisher, deadline_ms=5_000)


def test_a_plan_that_waits_for_another_says_for_which(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cep_worker.plan_links.subscriptions.STALLED_MS", 50)
    world = make_world(inflow=InflowConfig(waiting_rows=5, max_in_flight_frames=1, idle_ms=300))
    world.start(PLAN, msgspec.structs.replace(NEXT, delivery="at-most-once"))
    publisher = world.publisher().open()
    for number in range(4):
        publisher.send("Alerts", alerts(*[(number, "UA", number)] * 5))
    until(lambda: last_error(world, "KnockOnDelays"), publisher)
    assert last_error(world, "KnockOnDelays") == (
        "KnockOnDelays/Alerts waits for Escalation/LateOnes, which accepts no more events"
    )
    receiver = linked(world, "LateOnes")
    until(lambda: not last_error(world, "KnockOnDelays"), receiver, publisher)


def test_the_way_of_a_former_definition_ends_when_nothing_can_come_of_it_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics = lonely_topics()
    feeds = SharedStreams(topics)
    more = StreamBinding("Alerts", "Alerts:1.0.0", (("carrier", "int"), ("late", "long")))
    feeds.apply([PLAN], [NEXT], 0)
    feeds.apply([msgspec.structs.replace(PLAN, exported=(more,))], [NEXT], 1_000)
    settled: list[int] = []

    def give() -> str:
        caplog.clear()
        (tap,) = feeds.taps(KEY, "Alerts")
        tap.offer(alerts((1, "UA", 10)), None, DeliveryReceipt(1, lambda: settled.append(1)))
        return caplog.text

    feeds.tick(1_000 + FINISHING_MS - 1)
    assert give() == ""
    feeds.tick(1_000 + FINISHING_MS)
    assert "results have no consumer, the plan has changed: of=KnockOnDelays[-1234]/Alerts events=1" in give()
    assert settled == [1, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"key": PlanKey(7, "Escalation")},
        {"intake": False},
        {"imported": (StreamBinding("LateOnes", "Alerts:2.0.0", ALERTS),)},
        {"imported": (StreamBinding("Alerts", "Alerts", ALERTS),)},
    ],
    ids=["another tenant's", "deactivated", "another version", "not imported by a name"],
)
def test_a_plan_gets_nothing_that_is_not_for_it(world: World, changes: dict[str, Any]) -> None:
    other = msgspec.structs.replace(NEXT, **changes)
    counting = msgspec.structs.replace(NEXT, key=PlanKey(KEY.tenant, "Other"), imported=(
        StreamBinding("All", "Alerts:1.0.0", ALERTS),))  # fmt: skip
    world.start(PLAN, other, counting)
    named, counted = linked(world, other.imported[0].stream), linked(world, "All")
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(counted.rows, named, counted, publisher)
    until(lambda: not publisher.link.outbox.pending, named, publisher)
    assert named.rows() == []


def test_streams_of_one_id_that_no_annotation_names_have_nothing_to_do_with_each_other(world: World) -> None:
    unnamed = msgspec.structs.replace(NEXT, imported=(StreamBinding("Alerts", "Alerts", ALERTS),))
    source = in_memory("late", stream="In")
    world.start(publishing(in_memory("late")), unnamed, subscribing(source))
    receiver, other = linked(world, "In"), linked(world, "Alerts")
    publisher = world.publisher(PLAN).open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(receiver.rows, receiver, other, publisher)
    until(lambda: not publisher.link.outbox.pending, other, publisher)
    assert other.rows() == []


def test_attributes_that_do_not_fit_are_the_last_error_of_the_plan_that_wants_them(world: World) -> None:
    wrong = StreamBinding("LateOnes", "Alerts:1.0.0", (("carrier", "string"), ("late", "int")))
    world.start(PLAN, msgspec.structs.replace(NEXT, imported=(wrong,)))
    until(lambda: last_error(world, "Escalation"))
    assert last_error(world, "Escalation") == (
        "event stream Alerts:1.0.0: the events of KnockOnDelays/Alerts do not match Escalation/LateOnes: "
        "late is long where int is defined"
    )
    assert last_error(world, "KnockOnDelays") == ""
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: not publisher.link.outbox.pending, publisher)


def test_a_plan_that_cannot_take_more_slows_the_one_that_feeds_it(make_world: Callable[..., World]) -> None:
    world = make_world(inflow=InflowConfig(waiting_rows=10, max_in_flight_frames=1, idle_ms=300))
    world.start(PLAN, msgspec.structs.replace(NEXT, delivery="at-most-once"))
    publisher = world.publisher().open()
    for number in range(6):
        publisher.send("Alerts", alerts(*[(number, "UA", number)] * 5))
    until(lambda: any(one.waits for plan in world.reports() for one in plan.links), publisher)
    assert publisher.link.outbox.pending
    receiver = linked(world, "LateOnes")
    until(lambda: len(receiver.rows()) == 30, receiver, publisher)
    assert [row[1] for row in receiver.rows()] == [number for number in range(6) for _ in range(5)]
    until(lambda: not publisher.link.outbox.pending, publisher)


def test_a_worker_that_leaves_takes_no_results_that_it_may_not_hand_on_any_more(
    make_world: Callable[..., World],
) -> None:
    world = make_world(leave_ms=1_500)
    world.start(PLAN, NEXT)
    receiver = linked(world, "LateOnes")
    receiver.acknowledge = False
    publisher = world.publisher().open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: receiver.rows() and not publisher.link.outbox.pending, receiver, publisher)
    worker = world.worker
    assert worker is not None
    leaving = threading.Thread(target=worker.stop)  # it waits for the receiver
    leaving.start()
    until(lambda: world.health()["status"] == "leaving", receiver, publisher)
    publisher.send("Alerts", alerts((2, "AA", 20)))
    until(lambda: not leaving.is_alive(), receiver, publisher)
    world.worker = None
    assert worker.failure is None
    assert publisher.link.outbox.pending, "another worker will get it"
    assert receiver.rows() == [(1, 10, "UA")]


def test_sinks_and_sources_in_memory_meet_over_a_topic_and_attributes_by_their_places(world: World) -> None:
    world.start(
        publishing(in_memory("late"), in_memory("other")),
        subscribing(in_memory("late", stream="In")),
        subscribing(in_memory("nothing", stream="Idle"), plan="Idle"),
    )
    receiver, idle = linked(world, "In"), linked(world, "Idle")
    publisher = world.publisher(PLAN).open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(receiver.rows, receiver, idle, publisher)
    assert receiver.rows() == [(1, "UA", 10)]
    assert receiver.frames[-1].batch is not None
    assert receiver.frames[-1].batch.schema.names == ["_timestamp", "_kind", "who", "much"]
    assert idle.rows() == []
    until(lambda: not publisher.link.outbox.pending, publisher)


def test_with_another_mapper_they_go_by_their_names(world: World) -> None:
    attributes = (("late", "long"), ("carrier", "string"))
    source = in_memory("late", "json", "In")
    world.start(publishing(in_memory("late", "json")), subscribing(source, attributes))
    receiver = linked(world, "In")
    publisher = world.publisher(PLAN).open()
    publisher.send("Alerts", alerts((1, "UA", 10)))
    until(receiver.rows, receiver, publisher)
    assert receiver.rows() == [(1, 10, "UA")]


def test_with_key_values_they_go_by_keys(world: World) -> None:
    source = in_memory("late", "keyvalue", "In", **{"attributes.who": "c", "attributes.much": "l"})
    sink = in_memory("late", "keyvalue", **{"payload.l": "late", "payload.c": "{{carrier}}"})
    world.start(publishing(sink), subscribing(source))
    receiver = linked(world, "In")
    world.publisher().open().send("Alerts", alerts((1, "UA", 10)))
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [(1, "UA", 10)]


def test_with_key_values_what_is_missing_may_be_null_and_what_is_more_does_not_matter(world: World) -> None:
    attributes = (("late", "long"), ("why", "string"))
    strict = subscribing(in_memory("late", "keyvalue", "In"), attributes)
    lenient = in_memory("late", "keyvalue", "Also", **{"fail.on.missing.attribute": "false"})
    world.start(publishing(in_memory("late", "keyvalue")), strict, subscribing(lenient, attributes, "Lenient"))
    receiver = linked(world, "Also")
    until(lambda: "why is missing (string)" in last_error(world, "Next"), receiver)
    world.publisher().open().send("Alerts", alerts((1, "UA", 10)))
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [(1, 10, None)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"payload.a": "nothing"}, "payload: 'nothing' is not an attribute of KnockOnDelays/Alerts"),
        ({"payload.a": "{{carrier}} is here"}, "payload: '{{carrier}} is here' is not an attribute"),
        ({"payload": "carrier"}, "write @payload(key='attribute')"),
        ({"paylod.a": "carrier"}, "unknown option paylod.a"),
    ],
)
def test_a_sink_of_key_values_gives_attributes_only(world: World, options: dict[str, str], problem: str) -> None:
    world.start(publishing(in_memory("late", "keyvalue", **options)))
    until(lambda: problem in last_error(world, "KnockOnDelays"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"attributes.who": "c"}, "@attributes: no path for much"),
        ({"implicit.cast.enable": "true"}, "implicit.cast.enable: must be false, not 'true'"),
    ],
)
def test_a_source_of_key_values_that_cannot_run_is_reported(
    world: World, options: dict[str, str], problem: str
) -> None:
    world.start(subscribing(in_memory("late", "keyvalue", "In", **options)))
    until(lambda: problem in last_error(world, "Next"))


def test_key_values_of_other_types_do_not_meet(world: World) -> None:
    source = in_memory("late", "keyvalue", "In", **{"attributes.who": "late", "attributes.much": "carrier"})
    world.start(publishing(in_memory("late", "keyvalue")), subscribing(source))
    until(lambda: "late is long where string is defined" in last_error(world, "Next"))


def test_attributes_at_places_of_other_types_do_not_meet(world: World) -> None:
    world.start(publishing(in_memory("late")), subscribing(in_memory("late", stream="In"), (("much", "long"),)))
    until(lambda: last_error(world, "Next"))
    assert last_error(world, "Next") == (
        "topic late: the events of KnockOnDelays/Alerts do not match Next/In: "
        "its attributes are (string, long) where (long) are defined"
    )
    assert last_error(world, "KnockOnDelays") == "", "who publishes has done nothing wrong"


def test_a_sink_in_memory_takes_results_of_the_plan_before_it_was_edited(world: World) -> None:
    more = StreamBinding("Alerts", "Alerts", (*ALERTS, ("origin", "string")))
    edited = msgspec.structs.replace(publishing(in_memory("late")), epoch=8, exported=(more,))
    world.start(publishing(in_memory("late")), subscribing(in_memory("late", stream="In")))
    former = world.publisher(PLAN).open()
    world.manager.deploy(edited, subscribing(in_memory("late", stream="In"), more.attributes))
    until(lambda: any(report.epoch == 8 for report in world.reports()), former)
    former.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: not former.link.outbox.pending, former)
    until(lambda: any(inflow.waiting_events for one in world.reports() for inflow in one.inflow), former)
    assert world.worker is not None
    assert world.worker.failure is None


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        (in_memory(""), "topic: must not be empty"),
        (in_memory("{{carier}}"), "topic: no such attribute: carier"),
        (Connector("Alerts", "inMemory", {"topics": "x"}, "", {}), "unknown option topics; did you mean 'topic'?"),
    ],
)
def test_a_sink_that_names_no_topic_is_refused(world: World, sink: Connector, problem: str) -> None:
    world.start(publishing(sink))
    until(lambda: last_error(world, "KnockOnDelays"))
    assert problem in last_error(world, "KnockOnDelays")


def test_a_full_disk_holds_events_back_until_there_is_room(make_world: Callable[..., World], tmp_path: Path) -> None:
    wal = WalConfig(path=str(tmp_path / "small"), maximum_bytes=65_536, segment_bytes=16_384)
    world = make_world(wal=wal)
    world.start(PLAN, NEXT)
    publisher = world.publisher().open()
    batch = alerts(*[(number, "carrier" * 10, number) for number in range(300)])
    sent = 0
    while not any(one.waits for plan in world.reports() for one in plan.links):
        assert sent < 50, "the disk is never full"
        if publisher.link.has_room():
            publisher.send("Alerts", batch)
            sent += 1
        publisher.pump()
    assert "Escalation" in {one["plan"] for one in world.health()["plans"] if one["last_error"]}
    world.manager.deploy(PLAN)
    until(lambda: not publisher.link.outbox.pending, publisher)


def test_a_listener_of_plans_in_several_orders_gets_results_of_one_before_it_was_edited(world: World) -> None:
    """Both plans define the same attributes, each in its own order; one of them had fewer before."""
    more = (*ALERTS, ("origin", "string"))
    first = DeployedPlan(PlanKey(KEY.tenant, "A"), 1, (), (StreamBinding("Out", "Alerts:1.0.0", more[::-1]),))
    second = msgspec.structs.replace(PLAN, epoch=8, exported=(StreamBinding("Alerts", "Alerts:1.0.0", more),))
    world.start(first, PLAN)
    former = world.publisher().open()
    world.manager.deploy(first, second)
    until(lambda: {report.epoch for report in world.reports()} == {1, 8}, former)
    listener = world.listener("Alerts:1.0.0")  # in the order of the first plan
    former.send("Alerts", alerts((1, "UA", 10)))
    until(lambda: not former.link.outbox.pending, former)
    batch = listener.receive(DEADLINE_MS)
    assert batch is not None
    assert batch.select(["carrier", "late", "origin"]).to_pylist() == [{"carrier": "UA", "late": 10, "origin": None}]
    assert world.worker is not None
    assert world.worker.failure is None


@pytest.mark.parametrize("way", ["event stream", "topic"])
def test_what_a_plan_delivers_exactly_once_counts_once_in_the_next_though_its_worker_begins_anew_in_between(
    world: World, hook: Hook, way: str
) -> None:
    """A hook that refuses them keeps the results on the disk, from where they are given out again."""
    hook.status = 503
    sinks = (Connector("Alerts", "http", {"publisher.url": hook.url}, "", {}), in_memory("late"))
    first = msgspec.structs.replace(PLAN, delivery="exactly-once", sinks=sinks)
    following = NEXT if way == "event stream" else subscribing(in_memory("late", stream="LateOnes"), ALERTS)
    world.start(first, following)
    publisher = world.publisher(first).open()
    for number in (1, 2, 3):
        publisher.send("Alerts", alerts((number, "UA", number)))
    publisher.mark(1)
    world.manager.checkpoints = (PlanCheckpoints(KEY, (CheckpointSpan(7, 0, 1),)),)
    receiver = linked(world, "LateOnes")
    until(lambda: len(receiver.rows()) == 3 and hook.bodies, receiver, publisher)

    publisher.close()
    world.closing.remove(publisher)
    assert world.worker is not None
    world.worker.stop()
    tried = len(hook.bodies)
    world.manager.heard.clear()  # the endpoints that it registered are gone
    world.worker = Worker(world.config)
    world.worker.start()
    until(lambda: len(hook.bodies) > tried, receiver)
    hook.status = 200
    again = world.publisher(first)
    again.open()
    again.send("Alerts", alerts((1, "UA", 1), (2, "UA", 2), (3, "UA", 3), (4, "UA", 4)))
    again.mark(2)
    world.manager.checkpoints = (PlanCheckpoints(KEY, (CheckpointSpan(7, 0, 2),)),)
    until(lambda: len(receiver.rows()) > 3, receiver, again)
    assert sorted(row[0] for row in receiver.rows()) == [1, 2, 3, 4]


def test_results_that_come_to_a_plan_in_two_ways_count_twice_whatever_their_plan_delivers(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    """By a source of its own, and by an artefact for its event stream."""
    artefacts = tmp_path / "artefacts"
    artefacts.mkdir()
    (artefacts / "in.yaml").write_text("stream: LateOnes:1.0.0\ntype: inMemory\noptions: {topic: late}\n")
    world = make_world(artefacts=ArtefactConfig(sources=str(artefacts)))
    following = msgspec.structs.replace(
        NEXT,
        imported=(StreamBinding("LateOnes", "LateOnes:1.0.0", ALERTS),),
        sources=(in_memory("late", stream="LateOnes"),),
    )
    first = msgspec.structs.replace(publishing(in_memory("late")), delivery="exactly-once")
    world.start(first, following)
    receiver = linked(world, "LateOnes")
    publisher = world.publisher(first).open()
    publisher.send("Alerts", alerts((1, "UA", 1)))
    publisher.mark(1)
    world.manager.checkpoints = (PlanCheckpoints(KEY, (CheckpointSpan(7, 0, 1),)),)
    until(lambda: len(receiver.rows()) == 2, receiver, publisher)
    assert receiver.rows() == [(1, "UA", 1)] * 2
