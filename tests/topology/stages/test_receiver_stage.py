"""The receiver stage: when frames are acknowledged, and what others are told of links that send nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
import zmq
from topology_builders import EPOCH, KEY, numbers, plan_of, schema_of, stage, topology_of

from cep_common.protocol.links import OpenLink
from cep_common.security.roles import SocketKind
from query_plan.model import GLOBAL, Playback
from topology.events.bundle import Bundle
from topology.events.frames import encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import LinkSender, LinkState
from topology.links.server import HUNG_MS
from topology.stages.kinds.receiver import Receiver

Context = zmq.Context[zmq.Socket[bytes]]
PLAN = plan_of(["S"], [stage("all", [("S", GLOBAL)], ["Out"])], ["Out"])


@dataclass
class Stage:
    """A receiver whose consumer holds every bundle that has rows, and a worker's link to it."""

    context: Context
    drive: Callable[..., None]
    emitted: list[Bundle] = field(default_factory=list)
    held: list[Bundle] = field(default_factory=list)

    def __post_init__(self) -> None:
        ports = (20000, 60000)
        topology = topology_of(replace(PLAN, playback=Playback()))
        self.receiver = Receiver("EventReceiver#0", topology, self.emit, self.context, "127.0.0.1", ports, 100)
        opening = OpenLink("worker", (schema_of("S"),), KEY, EPOCH)
        self.link = LinkSender(self.context, SocketKind.RECEIVER, self.receiver.server.endpoint, opening, 0)

    def emit(self, bundle: Bundle) -> None:
        self.emitted.append(bundle)
        if bundle.rows():
            bundle.hold()
            self.held.append(bundle)

    def step(self) -> None:
        self.receiver.on_readable(0)
        self.receiver.server.flush()
        if not self.link.socket.closed:
            self.link.handle()

    def until(self, reached: Callable[[], object]) -> None:
        self.drive(self.step, reached, [self.receiver.server.socket])

    def send(self, time: int) -> None:
        self.link.send("S", encode_batch(numbers("S", [(time, time)])), 1, watermark_ms=time)

    def told(self) -> list[tuple[int, bool, int]]:
        """(watermark, idle, rows) of every bundle."""
        return [(bundle.watermark_ms, bundle.idle, bundle.rows()) for bundle in self.emitted]


@pytest.fixture
def receiving(zmq_context: Context, drive: Callable[..., None]) -> Iterator[Stage]:
    made = Stage(zmq_context, drive)
    made.until(lambda: made.link.state is LinkState.OPEN)
    yield made
    if not made.link.socket.closed:
        made.link.close()
    made.receiver.close()


def test_a_new_link_is_waited_for_from_the_start(receiving: Stage) -> None:
    assert receiving.told() == [(NO_WATERMARK, False, 0)]
    assert receiving.receiver.connections == ("worker/S",)


def test_tickets_have_no_gaps_and_every_bundle_names_its_channel(receiving: Stage) -> None:
    receiving.send(5)
    receiving.link.mark_idle()
    receiving.until(lambda: len(receiving.emitted) == 3)
    assert [bundle.ticket for bundle in receiving.emitted] == [0, 1, 2]
    assert {(bundle.channel, bundle.streams) for bundle in receiving.emitted} == {("worker/S", ("S",))}
    assert receiving.told()[1:] == [(5, False, 1), (5, True, 0)]


def test_a_frame_is_acknowledged_when_whoever_holds_its_rows_and_those_before_it_has_settled(receiving: Stage) -> None:
    for time in (1, 2, 3):
        receiving.send(time)
    receiving.until(lambda: len(receiving.held) == 3)
    receiving.held[1].settle()
    receiving.step()
    assert len(receiving.link.unacknowledged()) == 3
    receiving.held[0].settle()
    receiving.until(lambda: len(receiving.link.unacknowledged()) == 1)
    receiving.held[2].settle()
    receiving.until(lambda: not receiving.link.unacknowledged())


def test_a_link_whose_rows_are_held_is_not_silent_and_stays_as_idle_as_it_said(receiving: Stage) -> None:
    receiving.send(5)
    receiving.until(lambda: receiving.held)
    receiving.receiver.on_time(0)
    assert receiving.told()[2:] == [(5, False, 0)]
    receiving.link.mark_idle()
    receiving.until(lambda: len(receiving.emitted) == 4)
    receiving.receiver.on_time(0)
    assert receiving.told()[3:] == [(5, True, 0), (5, True, 0)]
    receiving.held[0].settle()
    receiving.until(lambda: not receiving.link.unacknowledged())
    receiving.receiver.on_time(0)
    assert len(receiving.emitted) == 5


@pytest.mark.parametrize("closes", [True, False])
def test_a_worker_that_has_left_in_order_is_no_longer_waited_for(receiving: Stage, closes: bool) -> None:
    receiving.send(5)
    receiving.until(lambda: receiving.held)
    if closes:
        receiving.link.close()
        receiving.until(lambda: len(receiving.emitted) == 3)
    else:
        receiving.receiver.on_time(HUNG_MS + 1)
    assert receiving.told()[2:] == [(5, closes, 0)], "one that broke is waited for like any that is silent"
    assert receiving.receiver.connections == ()
    receiving.held[0].settle()
    receiving.step()


def test_a_link_that_leaves_before_it_said_a_word_does_not_say_that_nothing_comes(receiving: Stage) -> None:
    """A worker that waited too long for an answer goes to another receiver, and may be heard there later than here."""
    receiving.link.close()
    receiving.until(lambda: len(receiving.emitted) == 2)
    assert receiving.told() == [(NO_WATERMARK, False, 0), (NO_WATERMARK, False, 0)]


def test_a_link_takes_the_place_of_the_one_that_its_worker_had_for_the_stream(receiving: Stage) -> None:
    receiving.send(1)
    receiving.until(lambda: receiving.held)
    before, emitted = receiving.link, len(receiving.emitted)
    receiving.link = LinkSender(receiving.context, SocketKind.RECEIVER, before.endpoint, before.opening, 0)
    receiving.until(lambda: receiving.link.state is LinkState.OPEN)
    before.send("S", encode_batch(numbers("S", [(2, 2)])), 1, watermark_ms=2)
    receiving.until(lambda: before.handle() or before.state is LinkState.REFUSED)
    assert [one.rows() for one in receiving.emitted[emitted:]] == [0], "what was on its way comes over the new link"
    assert receiving.receiver.connections == ("worker/S",)
    receiving.send(2)
    receiving.until(lambda: len(receiving.held) == 2)
    receiving.held[0].settle()
    before.close()
