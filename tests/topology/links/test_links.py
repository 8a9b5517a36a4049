"""Links over TCP on the loopback: opening, data, refusals, windows, and either side going away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
import zmq
from topology_builders import EPOCH, KEY, numbers, rows_of, schema_of

from cep_common.errors import PortInUseError
from cep_common.ids import Endpoint
from cep_common.protocol.codec import MAGIC, encode
from cep_common.protocol.links import Acknowledge, BeatLink, Data, MarkIdle, OpenLink, StreamSchema
from cep_common.protocol.registry import Rejected
from cep_common.security.roles import SocketKind
from topology.events.frames import encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import BEAT_MS, OPEN_TIMEOUT_MS, SILENT_MS, LinkSender, LinkState
from topology.links.server import (
    CLOSED,
    HUNG_MS,
    LINK_LEASE_MS,
    Accept,
    FrameArrived,
    IncomingLink,
    LinkArrived,
    LinkEvent,
    LinkGone,
    LinkServer,
)

Context = zmq.Context[zmq.Socket[bytes]]
WINDOW = 10
OPENING = OpenLink(sender="tester", streams=(schema_of("S"),), key=KEY, epoch=EPOCH)


@dataclass
class Wire:
    """A server, its senders, and everything that happened; times stand still unless a test sets them."""

    context: Context
    server: LinkServer
    run: Callable[..., None]
    now_ms: int = 0
    events: list[LinkEvent] = field(default_factory=list)
    senders: list[LinkSender] = field(default_factory=list)
    auto_done: bool = True

    def sender(self, opening: OpenLink = OPENING, wait_for: LinkState | None = LinkState.OPEN) -> LinkSender:
        made = LinkSender(self.context, SocketKind.RECEIVER, self.server.endpoint, opening, self.now_ms)
        self.senders.append(made)
        if wait_for is not None:
            self.until(lambda: made.state is wait_for)
        return made

    def step(self) -> None:
        if not self.server.socket.closed:
            for event in self.server.receive(self.now_ms):
                self.events.append(event)
                if isinstance(event, FrameArrived) and self.auto_done:
                    self.server.done(event.link, event.sequence)
            self.server.flush()
        for sender in self.senders:
            if not sender.socket.closed:
                sender.handle()

    def until(self, reached: Callable[[], object]) -> None:
        sockets = [self.server.socket, *(socket for sender in self.senders for socket in sender.sockets)]
        self.run(self.step, reached, [socket for socket in sockets if not socket.closed])

    def frames(self) -> list[FrameArrived]:
        return [event for event in self.events if isinstance(event, FrameArrived)]

    def gone(self) -> list[LinkGone]:
        return [event for event in self.events if isinstance(event, LinkGone)]

    def link(self) -> IncomingLink:
        return next(event.link for event in self.events if isinstance(event, LinkArrived))


@pytest.fixture
def wire(zmq_context: Context, drive: Callable[..., None]) -> Iterator[Wire]:
    yield from wired(zmq_context, drive, accept_all)


def accept_all(_: OpenLink) -> Rejected | None:
    return None


def wired(context: Context, drive: Callable[..., None], accept: Accept) -> Iterator[Wire]:
    server = LinkServer.listen(context, SocketKind.RECEIVER, "127.0.0.1", (20000, 60000), WINDOW, accept, trusted=False)
    made = Wire(context, server, drive)
    yield made
    for sender in made.senders:
        if not sender.socket.closed:
            sender.close()
    server.close()


def send(sender: LinkSender, *rows: tuple[int, int], stream: str = "S") -> int:
    return sender.send(stream, encode_batch(numbers(stream, rows)), len(rows), NO_WATERMARK)


def test_a_link_opens_and_carries_batches_in_order(wire: Wire) -> None:
    sender = wire.sender()
    for number in range(5):
        send(sender, (number, number), (number, -number))
    wire.until(lambda: len(wire.frames()) == 5 and not sender.outbox.pending)
    assert [frame.sequence for frame in wire.frames()] == [1, 2, 3, 4, 5]
    batches = [frame.batch for frame in wire.frames() if frame.batch is not None]
    assert [rows_of(batch) for batch in batches] == [[(n, n), (n, -n)] for n in range(5)]
    assert wire.link().opening == OPENING
    assert wire.server.links.keys() == {wire.link().peer}


def test_an_idle_mark_takes_its_place_among_the_frames(wire: Wire) -> None:
    sender = wire.sender()
    send(sender, (1, 1))
    sender.mark_idle()
    send(sender, (2, 2))
    wire.until(lambda: not sender.outbox.pending)
    assert [type(frame.message) for frame in wire.frames()] == [Data, MarkIdle, Data]


def test_a_refused_link_says_why_and_the_server_keeps_nothing(zmq_context: Context, drive: Callable[..., None]) -> None:
    refusal = Rejected("stale-epoch", "this is epoch 8")
    for wire in wired(zmq_context, drive, lambda _: refusal):
        sender = wire.sender(wait_for=LinkState.REFUSED)
        assert sender.refusals == [refusal]
        assert not sender.has_room()
        assert not wire.server.links
        assert not wire.events


def test_an_attribute_type_that_is_none_is_refused(wire: Wire) -> None:
    opening = OpenLink(sender="tester", streams=(StreamSchema("S", (("a", "decimal"),)),))
    sender = wire.sender(opening, wait_for=LinkState.REFUSED)
    assert [refusal.code for refusal in sender.refusals] == ["unknown-type"]


@pytest.mark.parametrize(
    ("stream", "body", "rows", "code"),
    [
        ("S", b"no arrow", 1, "frame-decode"),
        ("S", b"", 1, "frame-decode"),
        ("S", encode_batch(numbers("S", [(1, 1)])), 2, "frame-decode"),
        ("S", encode_batch(pa.record_batch({"a": ["x"]})), 1, "frame-decode"),
        ("Other", encode_batch(numbers("Other", [(1, 1)])), 1, "frame-unknown-stream"),
    ],
)
def test_a_bad_frame_is_refused_and_acknowledged_and_the_link_goes_on(
    wire: Wire, stream: str, body: bytes, rows: int, code: str
) -> None:
    sender = wire.sender()
    sender.send(stream, body, rows, NO_WATERMARK)
    send(sender, (2, 2))
    wire.until(lambda: not sender.outbox.pending)
    assert [refusal.code for refusal in sender.refusals] == [code]
    assert sender.state is LinkState.OPEN
    assert [frame.sequence for frame in wire.frames()] == [2]


def test_a_bad_frame_does_not_acknowledge_those_before_it_that_are_still_held(wire: Wire) -> None:
    wire.auto_done = False
    sender = wire.sender()
    send(sender, (1, 1))
    sender.send("S", b"no arrow", 1, NO_WATERMARK)
    wire.until(lambda: sender.refusals)
    assert [frame.sequence for frame in sender.unacknowledged()] == [1, 2]
    wire.server.done(wire.link(), 1)
    wire.until(lambda: not sender.unacknowledged())


def test_frames_of_another_epoch_are_refused(wire: Wire) -> None:
    sender = wire.sender()
    sequence = sender.outbox.next_sequence
    stale = Data(stream="S", sequence=sequence, rows=1, watermark_ms=0, epoch=EPOCH - 1)
    sender.send_frame(stale, sequence, 1, (encode_batch(numbers("S", [(1, 1)])),))
    wire.until(lambda: sender.refusals)
    assert "epoch 6 on a link of 7" in sender.refusals[0].reason


def test_a_frame_out_of_sequence_ends_the_link(wire: Wire) -> None:
    sender = wire.sender()
    sender.socket.send_multipart(
        encode(Data(stream="S", sequence=2, rows=1, watermark_ms=0, epoch=EPOCH), bodies=[b""])
    )
    wire.until(lambda: sender.state is LinkState.REFUSED)
    assert [refusal.code for refusal in sender.refusals] == ["out-of-sequence"]
    assert [gone.link for gone in wire.gone()] == [wire.link()]
    assert not wire.server.links


@pytest.mark.parametrize("frames", [[b""], [b"GET / HTTP/1.1"], [MAGIC + b"\x04data\x00\xc1"]])
def test_bytes_that_are_no_message_end_the_link_and_no_other(wire: Wire, frames: list[bytes]) -> None:
    sender, other = wire.sender(), wire.sender()
    sender.socket.send_multipart(frames)
    wire.until(lambda: sender.state is LinkState.REFUSED)
    send(other, (1, 1))
    wire.until(lambda: len(wire.frames()) == 1)
    assert len(wire.gone()) == len(wire.server.links) == 1


def test_who_sends_without_a_link_is_told_to_open_one(wire: Wire) -> None:
    sender = wire.sender(wait_for=None)
    wire.until(lambda: sender.state is LinkState.OPEN)
    wire.server.drop(wire.link(), "leaving", "going home")
    sender.socket.send_multipart(encode(BeatLink()))
    wire.until(lambda: len(sender.refusals) == 2)
    assert [refusal.code for refusal in sender.refusals] == ["leaving", "link-unknown"]


def test_a_link_opened_anew_by_the_same_peer_replaces_the_old_one(wire: Wire) -> None:
    wire.auto_done = False
    sender = wire.sender()
    send(sender, (1, 1))
    wire.until(wire.frames)
    old = wire.link()
    sender.socket.send_multipart(encode(OPENING))
    wire.until(lambda: len([event for event in wire.events if isinstance(event, LinkArrived)]) == 2)
    assert [gone.link for gone in wire.gone()] == [old]
    wire.server.done(old, 1)
    sender.socket.send_multipart(encode(OPENING))
    wire.until(lambda: len(wire.gone()) == 2)
    assert sender.unacknowledged(), "an acknowledgement of the old link must not reach the new one"


def test_no_more_than_the_window_is_under_way(wire: Wire) -> None:
    wire.auto_done = False
    sender = wire.sender()
    sent = 0
    while sender.has_room():
        sent += 1
        send(sender, (sent, 1), (sent, 2), (sent, 3))
    assert sent == 4
    wire.until(lambda: len(wire.frames()) == sent)
    wire.step()
    assert not sender.has_room()
    wire.server.done(wire.link(), 1)
    wire.until(sender.has_room)
    assert [frame.sequence for frame in sender.unacknowledged()] == [2, 3, 4]


def test_who_ignores_the_window_loses_the_link(wire: Wire) -> None:
    wire.auto_done = False
    sender = wire.sender()
    for _ in range(5):
        send(sender, (1, 1), (1, 2), (1, 3))
    wire.until(lambda: sender.state is LinkState.REFUSED)
    assert [refusal.code for refusal in sender.refusals] == ["window-exceeded"]


def test_an_acknowledgement_repeated_by_a_beat_does_no_harm(wire: Wire) -> None:
    sender = wire.sender()
    send(sender, (1, 1))
    wire.until(lambda: not sender.outbox.pending)
    wire.auto_done = False
    send(sender, (2, 2))
    sender.tick(BEAT_MS)
    wire.until(lambda: len(wire.frames()) == 2)
    wire.step()
    assert [frame.sequence for frame in sender.unacknowledged()] == [2]


def test_a_sender_that_works_longer_than_its_lease_in_one_call_keeps_its_link_unless_it_hangs(wire: Wire) -> None:
    sender = wire.sender()
    sender.tick(BEAT_MS)
    wire.now_ms = 5_000
    wire.until(lambda: wire.link().heard_ms == 5_000)
    assert wire.server.expire(5_000 + HUNG_MS) == []
    assert [gone.reason for gone in wire.server.expire(5_001 + HUNG_MS)] == ["silent"]
    wire.until(lambda: sender.state is LinkState.REFUSED)
    assert [refusal.code for refusal in sender.refusals] == ["link-expired"]


def test_a_sender_that_has_gone_without_a_word_is_forgotten_after_its_lease(wire: Wire) -> None:
    sender = wire.sender()
    sender.state = LinkState.REFUSED  # so that it says nothing when it closes, as a process that is killed
    sender.close()
    wire.until(lambda: not wire.server._send(wire.link().peer, Acknowledge(sequence=0)))
    assert wire.server.expire(LINK_LEASE_MS) == []
    assert [gone.reason for gone in wire.server.expire(LINK_LEASE_MS + 1)] == ["silent"]


def test_a_link_does_not_expire_while_its_messages_lie_unread(wire: Wire) -> None:
    """A server that could accept no events for long must not take that for the senders' silence."""
    sender = wire.sender()
    sender.tick(BEAT_MS)
    wire.run(lambda: None, lambda: wire.server.socket.poll(0), [wire.server.socket])
    assert wire.server.expire(10 * LINK_LEASE_MS) == []
    assert len(wire.server.links) == 1


def test_closing_tells_the_server(wire: Wire) -> None:
    sender = wire.sender()
    send(sender, (1, 1))
    sender.close()
    wire.until(wire.gone)
    assert (wire.gone()[0].reason, len(wire.frames())) == ("closed", 1)
    assert sender.state is LinkState.CLOSED
    assert not wire.server.links


def test_a_server_that_was_too_slow_to_answer_learns_that_nobody_waits_for_it_any_more(wire: Wire) -> None:
    sender = wire.sender(wait_for=None)
    sender.tick(OPEN_TIMEOUT_MS + 1)
    sender.close()
    wire.until(wire.gone)
    assert [type(event) for event in wire.events] == [LinkArrived, LinkGone]
    assert wire.gone()[0].reason == CLOSED


def test_a_server_that_goes_away_loses_the_link_and_what_it_did_not_take_is_known(wire: Wire) -> None:
    wire.auto_done = False
    sender = wire.sender()
    send(sender, (1, 1))
    wire.until(wire.frames)
    wire.server.close()
    wire.until(lambda: sender.state is LinkState.LOST)
    assert [frame.sequence for frame in sender.unacknowledged()] == [1]


def test_a_link_to_nobody_is_given_up_after_its_time(zmq_context: Context) -> None:
    sender = LinkSender(zmq_context, SocketKind.RECEIVER, Endpoint("127.0.0.1", 1), OPENING, 0)
    try:
        sender.tick(OPEN_TIMEOUT_MS)
        assert sender.state is LinkState.CONNECTING
        sender.tick(OPEN_TIMEOUT_MS + 1)
        assert sender.state is LinkState.LOST
    finally:
        sender.close()


def test_a_server_that_leaves_a_beat_unanswered_is_silent_until_it_answers(wire: Wire) -> None:
    """Who has not beaten, since it was away itself, may not take the server's silence for one."""
    sender = wire.sender()
    sender.tick(LINK_LEASE_MS)
    sender.tick(LINK_LEASE_MS + SILENT_MS - 1)
    assert not sender.silent
    sender.tick(LINK_LEASE_MS + SILENT_MS)
    assert sender.silent
    assert sender.state is LinkState.OPEN
    wire.until(lambda: not sender.silent)
    sender.tick(LINK_LEASE_MS + SILENT_MS)
    assert not sender.silent


def test_a_sender_that_does_not_wait_leaves_an_address_where_nobody_listens_at_once(
    zmq_context: Context, drive: Callable[..., None]
) -> None:
    sender = LinkSender(zmq_context, SocketKind.RECEIVER, Endpoint("127.0.0.1", 1), OPENING, 0, patient=False)
    try:
        drive(sender.handle, lambda: sender.state is LinkState.LOST, sender.sockets)
    finally:
        sender.close()


def test_one_turn_takes_in_no_more_than_its_limit(wire: Wire) -> None:
    sender = wire.sender()
    for number in range(4):
        send(sender, (number, number))
    arrived: list[LinkEvent] = []

    def take() -> None:
        taken = list(wire.server.receive(0, limit=1))
        assert len(taken) <= 1
        arrived.extend(taken)

    wire.run(take, lambda: len(arrived) == 4, [wire.server.socket])


def test_messages_that_belong_elsewhere_are_refused_one_by_one(wire: Wire) -> None:
    sender = wire.sender()
    sender.socket.send_multipart(encode(Acknowledge(sequence=1)))
    wire.until(lambda: sender.refusals)
    assert [refusal.code for refusal in sender.refusals] == ["frame-unexpected"]
    assert sender.state is LinkState.OPEN


def test_a_port_in_use_is_named(wire: Wire, zmq_context: Context) -> None:
    port = wire.server.endpoint.port
    with pytest.raises(PortInUseError, match=f"127.0.0.1:{port} for events"):
        LinkServer.listen(zmq_context, SocketKind.RECEIVER, "127.0.0.1", port, WINDOW, accept_all)
