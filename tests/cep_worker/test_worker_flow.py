"""Events through a worker: from clients to receiver stages, from publisher stages to listeners, over real sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import requests
from worker_world import ALERTS, DEPARTURES, KEY, PLAN, World, alerts, departures, until, values

from cep_common.clock import SystemClock
from cep_common.errors import InputError, PeerError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.links import Data, MarkIdle, StreamSchema
from cep_common.protocol.registry import Connector, DeployedPlan, StreamBinding
from cep_worker.config import EgressConfig, InflowConfig
from cep_worker.ingest.event_sender import fetch_schema
from cep_worker.ingest.routing import Route
from cep_worker.ingest.tenant_limits import RateLimit
from siddhi.nesting import DEEPEST
from topology.events.frames import arrow_schema
from topology.links.event_listener import EventListener
from topology.links.sender import LinkState

PLAYBACK = msgspec.structs.replace(PLAN, playback=True)


def watermarks(receiver: object) -> list[int]:
    frames = receiver.frames  # type: ignore[attr-defined]
    return [frame.message.watermark_ms for frame in frames if isinstance(frame.message, Data)]


def test_an_event_sent_by_a_client_reaches_the_receiver_stage(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    sender = world.sender()
    sender.send(departures((1_000, "UA", 5, 1.5)))
    until(lambda: receiver.frames, receiver)
    sender.flush()
    assert receiver.rows() == [(1_000, "UA", 5, 1.5)]
    assert (receiver.openings[0].key, receiver.openings[0].epoch) == (KEY, 7)
    assert sender.acknowledged_rows == 1


def test_a_plan_with_which_nothing_happens_is_not_ticked_until_something_does(world: World) -> None:
    world.start(PLAN)
    receiver, publisher = world.connected_receiver(), world.publisher().open()
    assert world.worker is not None
    flow = world.worker._data._served.flows[KEY]
    sender = world.sender()
    for number in range(1, 4):
        until(lambda: not flow.stirred, receiver, publisher)
        before = world.reports()
        until(lambda: not flow.changed, receiver, publisher)
        assert world.reports() == before
        served = world.worker._data._served
        until(lambda served=served: not served.stirred and not served.changed, receiver, publisher)
        sender.send(departures((1_000 * number, "UA", 5, 1.5)))
        until(lambda number=number: len(receiver.rows()) == number, receiver, publisher)
        until(lambda number=number: world.inflow().sent_events == number, receiver, publisher)


def test_a_result_of_a_publisher_stage_reaches_every_listener_and_is_acknowledged(world: World) -> None:
    world.start(PLAN)
    publisher = world.publisher().open()
    listeners = [world.listener("Alerts"), world.listener("KnockOnDelays/Alerts")]
    publisher.send("Alerts", alerts((5, "UA", 3), (6, "AA", 4)))
    for listener in listeners:
        batch = listener.receive(5_000)
        assert batch is not None
        assert values(batch) == [(5, "UA", 3), (6, "AA", 4)]
    until(lambda: not publisher.link.unacknowledged(), publisher)
    until(lambda: world.reports()[0].outflow[0].received_events == 2)


def test_columns_in_another_order_are_put_right(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    sender = world.sender(attributes=tuple(reversed(DEPARTURES)))
    sender.send(departures((1, "UA", 5, 1.5)))
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [(1, "UA", 5, 1.5)]


def test_an_event_stream_that_plans_share_feeds_them_all(world: World) -> None:
    swapped = (StreamBinding("D", "Departures:1.0.0", tuple(reversed(DEPARTURES))),)
    other = msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"), imported=swapped, exported=())
    world.start(PLAN, other)
    first, second = world.connected_receiver("Departures"), world.connected_receiver("D")
    world.sender().send(departures((1, "UA", 5, 1.5)))
    until(lambda: first.frames and second.frames, first, second)
    assert first.rows() == [(1, "UA", 5, 1.5)]
    assert second.rows() == [(1, 1.5, 5, "UA")]


def test_a_deactivated_plan_takes_no_events_until_it_is_activated_and_loses_none(world: World) -> None:
    inactive = msgspec.structs.replace(PLAN, intake=False)
    world.start(PLAN)
    receiver = world.connected_receiver()
    sender = world.sender()
    sender.send(departures((1, "UA", 1, None)))
    sender.flush(5_000)

    world.manager.deploy(inactive)
    with pytest.raises(InputError, match="KnockOnDelays was deactivated") as dropped:
        until(lambda: sender.flush(5_000) or sender.send(departures((2, "UA", 2, None))), receiver)
    assert dropped.value.reason_code == "inactive"
    with pytest.raises(InputError, match="accepts no events now"):
        world.sender()
    event = {"carrier": "AA", "dep_delay": 5, "price": 1.5}
    refused = requests.post(world.url("/events/Departures"), json=event, timeout=5)
    assert (refused.status_code, refused.json()["code"]) == (503, "inactive")
    assert refused.headers["Retry-After"] == "1"

    world.manager.deploy(PLAN)
    until(lambda: requests.post(world.url("/events/Departures"), json=event, timeout=5).ok, receiver)
    until(lambda: "AA" in [row[1] for row in receiver.rows()], receiver)
    before = [row for row in receiver.rows() if row[1] == "UA"]
    assert len(before) >= sender.acknowledged_rows >= 1, "what was acknowledged has come"
    assert len(receiver.openings) == 1, "the link to the topology stood all the time"


def test_of_plans_that_share_an_event_stream_those_that_are_active_get_the_events(world: World) -> None:
    binding = StreamBinding("D", "Departures:1.0.0", DEPARTURES)
    other = msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"), imported=(binding,), exported=(), intake=False)
    world.start(PLAN, other)
    first, second = world.connected_receiver("Departures"), world.connected_receiver("D")
    sender = world.sender()
    sender.send(departures((1, "UA", 1, None)))
    until(lambda: first.frames, first, second)
    sender.flush(5_000)
    world.manager.deploy(PLAN, msgspec.structs.replace(other, intake=True))
    until(lambda: sender.send(departures((2, "UA", 2, None))) or second.frames, first, second)
    assert {row[0] for row in second.rows()} == {2}


def test_events_that_came_before_the_topology_wait_for_it_in_order(world: World) -> None:
    world.start(PLAN)
    sender = world.sender()
    for number in range(50):
        sender.send(departures((number, "UA", number, None)))
    sender.flush(5_000)
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 50, receiver)
    assert [row[0] for row in receiver.rows()] == list(range(50))
    assert len(receiver.frames) < 50, "what waited was joined"


def test_what_a_lost_receiver_has_not_acknowledged_is_sent_to_the_next_one(world: World) -> None:
    world.start(PLAN)
    first = world.connected_receiver()
    first.acknowledge = False
    sender = world.sender()
    sender.send(departures((1, "UA", 1, None), (2, "UA", 2, None)))
    until(lambda: first.frames, first)
    first.close()
    sender.send(departures((3, "UA", 3, None)))
    second = world.receiver()
    until(lambda: len(second.rows()) == 3, second)
    assert [row[0] for row in second.rows()] == [1, 2, 3]
    until(lambda: world.inflow().waiting_events == 0, second)
    assert world.inflow().sent_events == 3


def test_a_new_epoch_brings_new_links_and_keeps_what_waits(world: World) -> None:
    world.start(PLAN)
    sender = world.sender()
    sender.send(departures((1, "UA", 1, None)))
    sender.flush(5_000)
    world.publisher().open()
    world.manager.deploy(msgspec.structs.replace(PLAN, epoch=8))
    until(lambda: world.reports()[0].epoch == 8)
    receiver = world.receiver()
    until(lambda: receiver.frames, receiver)
    assert receiver.openings[-1].epoch == 8
    assert receiver.frames[0].message.epoch == 8
    old = world.publisher(msgspec.structs.replace(PLAN, epoch=8))
    assert old.open().link.state is LinkState.OPEN


def test_a_publisher_of_another_epoch_plan_or_schema_is_refused(world: World) -> None:
    world.start(PLAN)
    wrong_schema = (StreamBinding("Alerts", "Alerts:1.0.0", (("carrier", "string"),)),)
    for change, code in (
        ({"epoch": 6}, "stale-epoch"),
        ({"key": PlanKey(-1234, "Other")}, "wrong-endpoint"),
        ({"exported": wrong_schema}, "schema-mismatch"),
    ):
        publisher = world.publisher()
        publisher.close()
        world.closing.remove(publisher)
        stranger = type(publisher)(world.context, publisher.link.endpoint, msgspec.structs.replace(PLAN, **change))
        world.closing.append(stranger)
        until(lambda stranger=stranger: stranger.link.state is LinkState.REFUSED, stranger)
        assert stranger.link.refusals[0].code == code


def test_a_stalled_receiver_stops_the_client_and_bounds_what_waits(make_world: Callable[..., World]) -> None:
    world = make_world(inflow=InflowConfig(waiting_rows=100, batch_rows=50, max_in_flight_frames=2))
    world.start(PLAN)
    receiver = world.connected_receiver(window_rows=50)
    receiver.acknowledge = False
    sender = world.sender()
    for number in range(40):
        sender.send(departures(*[(number, "UA", number, None)] * 10))
    with pytest.raises(PeerError, match="did not answer within"):
        sender.flush(300)
    assert 0 < sender.acknowledged_rows < 400
    assert world.inflow().waiting_events <= 110
    receiver.acknowledge = True
    for link in receiver.server.links.values():
        receiver.server.done(link, link.inbox.received)
    until(lambda: len(receiver.rows()) == 400, receiver)
    sender.flush(5_000)
    assert [row[0] for row in receiver.rows()] == [number for number in range(40) for _ in range(10)]


def test_watermarks_of_links_pass_and_silence_is_told(world: World) -> None:
    world.start(PLAYBACK)
    receiver = world.connected_receiver()
    slow, quick = world.sender(), world.sender()
    quick.send(departures((90, "UA", 1, None)), watermark_ms=90)
    slow.send(departures((50, "AA", 1, None)), watermark_ms=50)
    until(lambda: 50 in watermarks(receiver), receiver)
    assert max(watermarks(receiver)) == 50
    slow.mark_idle()
    until(lambda: 90 in watermarks(receiver), receiver)
    quick.mark_idle()
    until(lambda: isinstance(receiver.frames[-1].message, MarkIdle), receiver)
    slow.send(departures((95, "AA", 1, None)), watermark_ms=95)
    until(lambda: 95 in watermarks(receiver), receiver)


def test_a_source_without_watermarks_promises_its_newest_timestamp_less_the_disorder(
    make_world: Callable[..., World],
) -> None:
    world = make_world(inflow=InflowConfig(out_of_order_ms=10, idle_ms=150))
    world.start(PLAYBACK)
    receiver = world.connected_receiver()
    events = [{"_timestamp": time, "carrier": "UA", "dep_delay": 1, "price": 1} for time in (100, 95)]
    requests.post(world.url("/events/Departures"), json=events, timeout=5)
    until(lambda: watermarks(receiver), receiver)
    assert watermarks(receiver) == [90]
    until(lambda: isinstance(receiver.frames[-1].message, MarkIdle), receiver)


def test_a_plan_under_the_system_clock_learns_when_events_were_accepted_and_that_nothing_waits(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    until(lambda: receiver.caught_up, receiver)
    assert not receiver.frames, "before the first event"
    sender = world.sender()
    before_ms = SystemClock().now_ms()
    sender.send(departures((90, "UA", 1, None)), watermark_ms=90)
    sender.mark_idle()
    sender.flush(5_000)
    until(lambda: receiver.frames, receiver)
    assert before_ms <= watermarks(receiver)[0] <= SystemClock().now_ms(), "and no time of events"
    message = receiver.frames[0].message
    assert isinstance(message, Data)
    assert message.caught_up


def test_events_that_waited_tell_each_its_time_of_acceptance(world: World) -> None:
    world.start(PLAN)
    sender = world.sender()
    accepted = []
    for minute in (90, 91, 92):
        before_ms = SystemClock().now_ms()
        sender.send(departures((minute, "UA", 1, None)))
        sender.flush(5_000)
        accepted.append((before_ms, SystemClock().now_ms()))
        until(lambda before=before_ms: SystemClock().now_ms() > before + 20)
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 3, receiver)
    message = receiver.frames[0].message
    assert isinstance(message, Data)
    assert [rows for rows, _ in message.accepted] == [1, 1, 1]
    assert all(low <= time <= high for (_, time), (low, high) in zip(message.accepted, accepted, strict=True))


def test_large_and_small_batches_arrive_complete_and_in_order(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    sender = world.sender()
    sizes = [1, 4_096, 3, 1, 10_000, 2] * 5
    first = 0
    for size in sizes:
        sender.send(departures(*[(number, "UA", number % 100, None) for number in range(first, first + size)]))
        first += size
        receiver.pump()
    until(lambda: sum(frame.batch.num_rows for frame in receiver.frames) == first, receiver)
    times = pa.concat_arrays([frame.batch.column("_timestamp") for frame in receiver.frames])
    assert times.to_pylist() == list(range(first))


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "attributes", "code", "message"),
    [
        ("Arrivals", DEPARTURES, "unknown-stream", "known: Departures:1.0.0"),
        ("Departure", DEPARTURES, "unknown-stream", "did you mean Departures:1.0.0?"),
        ("Alerts", ALERTS, "unknown-stream", "there is no stream Alerts"),
        ("Departures", DEPARTURES[:2], "schema-mismatch", "price is missing (double)"),
        ("Departures", (*DEPARTURES, ("gate", "string")), "schema-mismatch", "gate is not an attribute"),
        (
            "Departures",
            (DEPARTURES[0], ("dep_delay", "long"), DEPARTURES[2]),
            "schema-mismatch",
            "dep_delay is long where int is defined",
        ),
        ("Departures", (("carrier", "text"),), "unknown-type", "no such attribute type: text"),
    ],
)
def test_a_link_that_does_not_fit_is_refused_with_all_that_is_wrong(
    world: World, stream: str, attributes: tuple[tuple[str, str], ...], code: str, message: str
) -> None:
    world.start(PLAN)
    with pytest.raises(InputError) as refused:
        world.sender(stream, attributes)
    assert refused.value.reason_code == code
    assert message in refused.value.message


def test_a_batch_that_holds_other_than_ordinary_events_is_refused_and_others_go_on(world: World) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    good, bad = world.sender(), world.sender()
    batch = departures((1, "UA", 1, None))
    expired = batch.set_column(1, batch.schema.field(1), pa.array([1], pa.int8()))
    bad.send(expired)
    with pytest.raises(InputError, match="_kind must be 0"):
        bad.flush(5_000)
    good.send(batch)
    until(lambda: receiver.frames, receiver)
    assert receiver.rows() == [(1, "UA", 1, None)]


def test_an_object_that_nests_too_deeply_is_refused_by_links_too(world: World) -> None:
    attributes = (("thing", "object"),)
    binding = StreamBinding("Things", "Things:1.0.0", attributes)
    world.start(msgspec.structs.replace(PLAN, imported=(binding,)))
    sender = world.sender("Things", attributes)
    things = pa.array([b"[" * levels + b"]" * levels for levels in (DEEPEST, DEEPEST + 1)])
    schema = arrow_schema(StreamSchema("Things", attributes))
    sender.send(pa.record_batch([pa.array([1, 2]), pa.array([0, 0], pa.int8()), things], schema=schema))
    with pytest.raises(InputError, match=f"thing of row 1 must be JSON with at most {DEEPEST} nested lists and maps"):
        sender.flush(5_000)


def test_a_link_ends_when_its_stream_is_undeployed(world: World) -> None:
    world.start(PLAN)
    sender, listener = world.sender(), world.listener()
    world.manager.deploy()
    until(lambda: world.health()["plans"] == [])
    with pytest.raises(InputError, match="there is no stream Departures"):
        _send_until_refused(sender)
    with pytest.raises(InputError, match="there is no stream Alerts"):
        listener.receive(5_000)


def _send_until_refused(sender: object) -> None:
    for number in range(1_000):
        sender.send(departures((number, "UA", 1, None)))  # type: ignore[attr-defined]
        sender.flush(1_000)  # type: ignore[attr-defined]


def test_a_listener_of_an_unknown_stream_is_refused(world: World) -> None:
    world.start(PLAN)
    with pytest.raises(InputError) as refused:
        world.listener("Departures")
    assert refused.value.reason_code == "unknown-stream"


def test_nobody_at_an_address_is_said_in_time() -> None:
    with pytest.raises(PeerError, match="no worker answers"):
        EventListener(Endpoint("127.0.0.1", 9), "Alerts", timeout_ms=50)


def test_a_listener_that_falls_behind_is_refused_and_the_plan_goes_on(make_world: Callable[..., World]) -> None:
    ports = make_world().config
    egress = EgressConfig(port=ports.egress.port, window_rows=10, waiting_rows=20, lag_ms=200)
    world = make_world(egress=egress)
    world.start(PLAN)
    publisher = world.publisher().open()
    slow = world.listener()
    assert slow.receive(0) is None
    for number in range(60):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: not publisher.link.unacknowledged(), publisher)
    received: list[tuple[int, str, int]] = []
    with pytest.raises(InputError) as refused:
        received.extend(row for batch in slow.batches(5_000) for row in values(batch))
    assert refused.value.reason_code == "listener-too-slow"
    assert [row[0] for row in received] == list(range(len(received))), "nothing is missing in between"


def test_a_listener_that_keeps_up_slows_the_plan_and_gets_everything(make_world: Callable[..., World]) -> None:
    egress = EgressConfig(port=make_world().config.egress.port, window_rows=10, waiting_rows=20, lag_ms=60_000)
    world = make_world(egress=egress)
    world.start(PLAN)
    publisher = world.publisher().open()
    listener = world.listener()
    for number in range(200):
        publisher.send("Alerts", alerts((number, "UA", number)))
    publisher.pump()
    received: list[int] = []
    while len(received) < 200:
        batch = listener.receive(5_000)
        assert batch is not None
        received += batch.column("_timestamp").to_pylist()
        publisher.pump()
    assert received == list(range(200))


def test_clients_learn_that_the_worker_leaves(world: World) -> None:
    world.start(PLAN)
    listener, sender = world.listener(), world.sender()
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    with pytest.raises(PeerError, match=r"the worker is shutting down.*\[leaving\]"):
        listener.receive(5_000)
    with pytest.raises(PeerError, match=r"the worker is shutting down.*\[leaving\]"):
        _send_until_refused(sender)


def test_a_stream_schema_can_be_asked_for(world: World) -> None:
    world.start(PLAN)
    schema = fetch_schema(world.url(""), "Departures")
    assert (schema.stream, schema.attributes) == ("Departures:1.0.0", DEPARTURES)
    with pytest.raises(InputError, match="there is no stream Arrivals"):
        fetch_schema(world.url(""), "Arrivals")


def test_two_plans_that_export_an_event_stream_reach_one_listener(world: World) -> None:
    swapped = (StreamBinding("A", "Alerts:1.0.0", tuple(reversed(ALERTS))),)
    other: DeployedPlan = msgspec.structs.replace(PLAN, key=PlanKey(-1234, "Other"), imported=(), exported=swapped)
    world.start(PLAN, other)
    listener = world.listener("Alerts")
    first = world.publisher(PLAN).open()
    second = world.publisher(other).open()
    first.send("Alerts", alerts((1, "UA", 1)))
    second.send("A", alerts((2, "AA", 2)).select(["_timestamp", "_kind", "late", "carrier"]))
    seen: list[object] = []
    while len(seen) < 2:
        batch = listener.receive(5_000)
        assert batch is not None
        seen += values(batch)
    assert sorted(seen) == [(1, "UA", 1), (2, "AA", 2)]  # type: ignore[type-var]


def test_a_receiver_that_holds_frames_until_later_watermarks_gets_them(make_world: Callable[..., World]) -> None:
    world = make_world(inflow=InflowConfig(max_in_flight_frames=2))
    world.start(PLAYBACK)
    receiver = world.connected_receiver()
    receiver.acknowledge = False
    sender = world.sender()
    for number in range(20):
        sender.send(departures((number, "UA", number, None)), watermark_ms=number)
        until(lambda number=number: number < 19 or 19 in watermarks(receiver), receiver)
    assert [row[0] for row in receiver.rows()] == list(range(20))


def test_results_of_a_former_epoch_that_a_slow_listener_holds_up_are_not_lost(
    make_world: Callable[..., World],
) -> None:
    egress = EgressConfig(port=make_world().config.egress.port, window_rows=10, waiting_rows=20, lag_ms=60_000)
    world = make_world(egress=egress)
    world.start(PLAN)
    listener = world.listener("Alerts")
    former = world.publisher().open()
    for number in range(60):
        former.send("Alerts", alerts((number, "UA", number)))
    until(lambda: world.reports()[0].outflow[0].received_events >= 20, former)
    changed = msgspec.structs.replace(PLAN, epoch=8)
    world.manager.deploy(changed)
    until(lambda: world.reports()[0].epoch == 8, former)
    world.publisher(changed).open().send("Alerts", alerts((60, "UA", 60)))

    came: list[int] = []
    while len(came) < 61:
        batch = listener.receive(5_000)
        assert batch is not None, f"only {len(came)} results came"
        came += [row[0] for row in values(batch)]
    assert sorted(came) == list(range(61))
    assert came[:20] == list(range(20))


def test_results_that_the_plan_deployed_anew_under_the_name_cannot_take_are_kept_as_failed(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "alerts.ndjson"
    sink = Connector("Alerts", "file", {"file.uri": str(file)}, "", {})
    plan = msgspec.structs.replace(PLAN, sinks=(sink,))
    world.start(plan)
    former = world.publisher(plan).open()
    other = StreamBinding("Alerts", "Alerts:2.0.0", (("late", "string"), ("carrier", "string")))
    world.manager.deploy(msgspec.structs.replace(plan, epoch=8, deployed_ms=5, exported=(other,)))
    until(lambda: world.health()["plans"][0]["epoch"] == 8)
    former.send("Alerts", alerts((1, "UA", 1)))
    until(lambda: not former.link.unacknowledged(), former)
    assert file.read_text() == ""
    assert "stream=Alerts sink=file reason=its stream was edited: late was long and is string now" in caplog.text
    assert "kept_as_failed=1 lost=0" in caplog.text
    assert world.health()["status"] == "ok"


def test_events_that_were_read_just_before_their_stream_was_edited_get_its_new_attributes_or_are_refused() -> None:
    """The front checks them against the stream as it was, the data thread takes them as it is."""

    class Taking:
        def __init__(self, attributes: tuple[tuple[str, str], ...]) -> None:
            self.binding = StreamBinding("Departures", "Departures:1.0.0", attributes)
            self.taken: list[Any] = []

        def prepare(self, batch: Any, body: Any, origin: Any) -> None:
            """There is room."""

        def offer(self, source: Any, batch: Any, *_: Any) -> None:
            self.taken += batch.to_pylist()

    inflow = Taking((("gate", "string"), ("dep_delay", "long")))
    route = Route("http", DEPARTURES, [inflow], RateLimit())  # type: ignore[list-item]
    route.offer(departures((1, "UA", 5, 1.5)), None, 0, 0)
    assert inflow.taken == [{"_timestamp": 1, "_kind": 0, "gate": None, "dep_delay": 5}]
    with pytest.raises(InputError, match="dep_delay was int and is string now"):
        Route("http", DEPARTURES, [Taking((("dep_delay", "string"),))], RateLimit())  # type: ignore[list-item]
