"""Links of many plans over one connection: each is a link as any other, and they end together with the connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.codec import decode
from cep_common.protocol.links import CloseLink, OpenLink
from cep_common.protocol.registry import Rejected
from cep_common.security.roles import SocketKind
from cep_common.sockets import multiplexing
from cep_common.sockets.ready_sockets import ReadySockets
from cep_common.sockets.turns import TURN_MS
from topology.links.sender import SILENT_MS, LinkSender, LinkState
from topology.links.server import FrameArrived, LinkArrived, LinkEvent, LinkServer
from topology.links.shared import HostLinks

PLANS = 20
MARK = "mark-idle"


class Sharing:
    """A stage host and a worker, whose links all go over one connection."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self.now_ms = 1_000
        self.here, self.there = ReadySockets(), ReadySockets()
        self.host = HostLinks(context, "127.0.0.1", (20_000, 60_000), self.here, lambda: self.now_ms)
        self.worker = HostLinks(context, "127.0.0.1", (20_000, 60_000), self.there, lambda: self.now_ms)
        self.worker.workers._kind = SocketKind.RECEIVER  # it connects to receivers
        self.servers = [LinkServer.share(self.host.receivers, f"plan {n}", 100, lambda _: None) for n in range(PLANS)]
        for server in self.servers:
            self.here.add(server.socket)
        self.links = [self.open(server.endpoint) for server in self.servers]
        self.events: dict[int, list[LinkEvent]] = {}

    def open(self, endpoint: Endpoint) -> LinkSender:
        opening = OpenLink("worker", (), PlanKey(1, endpoint.channel), 1)
        shared = self.worker.workers
        return LinkSender(self.context_of(), SocketKind.RECEIVER, endpoint, opening, self.now_ms, shared=shared)

    def context_of(self) -> Any:
        return None  # a shared link opens no socket

    def go_on(self) -> None:
        self.host.tick(self.now_ms)
        self.worker.tick(self.now_ms)
        ready = self.here.poll(5)
        for number, server in enumerate(self.servers):
            if server.socket in ready:
                self.events.setdefault(number, []).extend(server.receive(self.now_ms))
                self.here.used(server.socket)
            server.flush()
        self.there.poll(5)
        for link in self.links:
            link.handle()
            link.tick(self.now_ms)

    def until(self, condition: Any) -> None:
        for _ in range(500):
            if condition():
                return
            self.go_on()
        raise AssertionError("it did not come to that")

    def close(self) -> None:
        for link in self.links:
            if not link.socket.closed:
                link.close()
        self.worker.close()
        self.host.close()


@pytest.fixture
def sharing(zmq_context: zmq.Context[Any]) -> Iterator[Sharing]:
    made = Sharing(zmq_context)
    yield made
    made.close()


def opened(sharing: Sharing) -> bool:
    return all(link.state is LinkState.OPEN for link in sharing.links)


def test_all_links_of_two_processes_share_one_connection_and_keep_apart(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    assert len(sharing.worker.workers.sockets()) == 1
    for link in sharing.links:
        link.mark_idle()
        link.mark_idle()
    sharing.until(lambda: all(len(sharing.events.get(n, ())) == 3 for n in range(PLANS)))
    for number, events in sharing.events.items():
        first, *frames = events
        assert isinstance(first, LinkArrived)
        assert first.link.opening.key == PlanKey(1, f"plan {number}")
        assert [one.sequence for one in frames if isinstance(one, FrameArrived)] == [1, 2]


def test_acknowledgements_find_their_link(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    for link in sharing.links:
        link.mark_idle()
    sharing.until(lambda: all(len(sharing.events.get(n, ())) == 2 for n in range(PLANS)))
    sharing.servers[3].done(sharing.servers[3].links[next(iter(sharing.servers[3].links))], 1)
    sharing.until(lambda: not sharing.links[3].outbox.pending)
    assert all(link.outbox.pending for number, link in enumerate(sharing.links) if number != 3)


def test_a_server_that_closes_loses_its_own_links_alone(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    sharing.servers[5].close()
    sharing.until(lambda: sharing.links[5].state is LinkState.LOST)
    assert not sharing.links[5].refusals
    assert all(link.state is LinkState.OPEN for number, link in enumerate(sharing.links) if number != 5)
    late = sharing.open(sharing.servers[5].endpoint)
    sharing.links.append(late)
    sharing.until(lambda: late.state is LinkState.LOST)


def test_a_broken_connection_loses_all_links_and_the_next_one_is_another(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    sharing.host.receivers.socket.close(linger=0)
    sharing.here.remove(sharing.host.receivers.socket)
    sharing.until(lambda: all(link.state is LinkState.LOST for link in sharing.links))
    assert not sharing.worker.workers.sockets()


def test_one_heartbeat_answers_for_all_links(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    heard = [next(iter(server.links.values())).heard_ms for server in sharing.servers]
    for _ in range(5):
        sharing.now_ms += SILENT_MS
        for _ in range(4):
            sharing.go_on()
    assert not any(link.silent for link in sharing.links)
    for server, before_ms in zip(sharing.servers, heard, strict=True):
        link = next(iter(server.links.values()))
        assert link.heard_ms == before_ms, "a link beat by itself"
        assert server.heard_ms(link) > before_ms


def test_links_whose_process_does_not_answer_are_silent(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    for _ in range(3):
        sharing.now_ms += SILENT_MS
        sharing.worker.tick(sharing.now_ms)
        sharing.there.poll(0)
    for link in sharing.links:
        link.tick(sharing.now_ms)
    assert all(link.silent for link in sharing.links)
    sharing.go_on()
    sharing.until(lambda: not any(link.silent for link in sharing.links))


def test_a_link_that_is_closed_leaves_the_others(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    sharing.links[0].close()
    sharing.until(lambda: not sharing.servers[0].links)
    assert all(len(server.links) == 1 for server in sharing.servers[1:])


def test_a_link_of_its_own_to_a_channel_needs_no_pool(zmq_context: zmq.Context[Any], sharing: Sharing) -> None:
    opening = OpenLink("task", (), PlanKey(1, "plan 1"), 1)
    link = LinkSender(zmq_context, SocketKind.RECEIVER, sharing.servers[1].endpoint, opening, 0, patient=False)

    def come_open() -> bool:
        link.handle()
        return link.state is LinkState.OPEN

    sharing.until(come_open)
    sharing.servers[1].close()

    def is_lost() -> bool:
        link.handle()
        return link.state is LinkState.LOST

    sharing.until(is_lost)
    link.close()


def test_a_refusal_reaches_the_link_that_it_is_for(sharing: Sharing) -> None:
    refusing = LinkServer.share(sharing.host.receivers, "refusing", 1, lambda _: Rejected("stale-epoch", "it is over"))
    sharing.servers.append(refusing)
    sharing.here.add(refusing.socket)
    link = sharing.open(refusing.endpoint)
    sharing.links.append(link)
    sharing.until(lambda: link.state is LinkState.REFUSED)
    assert [one.code for one in link.refusals] == ["stale-epoch"]


def test_what_comes_for_one_plan_is_not_unread_by_the_others(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    sharing.links[1].mark_idle()
    while not sharing.servers[1].unread(sharing.now_ms):  # acknowledgements of the opening may come before it
        assert sharing.host.receivers.socket.poll(5_000)
    assert not sharing.servers[0].unread(sharing.now_ms)
    sharing.until(lambda: len(sharing.events.get(1, ())) == 2)


def test_nothing_is_kept_of_links_that_were_refused(sharing: Sharing) -> None:
    refusing = LinkServer.share(sharing.host.receivers, "refusing", 1, lambda _: Rejected("stale-epoch", "it is over"))
    sharing.servers.append(refusing)
    sharing.here.add(refusing.socket)
    link = sharing.open(refusing.endpoint)
    sharing.links.append(link)
    sharing.until(lambda: link.state is LinkState.REFUSED and opened_but(link, sharing))
    (peer,) = sharing.host.receivers._peers.values()
    assert "refusing" not in peer.links.values()

    link.close()  # which it says to a server that has no such link
    sharing.links[0].mark_idle()  # comes after that
    sharing.until(lambda: len(sharing.events[0]) == 2)
    sharing.go_on()
    assert "refusing" not in peer.links.values()
    assert len(peer.links) == PLANS


def opened_but(other: LinkSender, sharing: Sharing) -> bool:
    return all(link.state is LinkState.OPEN for link in sharing.links if link is not other)


def test_links_to_one_process_take_turns_with_what_must_be_alone(sharing: Sharing) -> None:
    sharing.until(lambda: opened(sharing))
    first, second, third = sharing.links[:3]
    assert first.claim(0)
    assert first.claim(0)
    assert not second.claim(0)
    assert not third.claim(0)
    first.release()
    assert not third.claim(0), "the second waited first"
    assert second.claim(0)
    assert not first.claim(0)
    second.close()
    assert third.claim(0)
    assert not first.claim(TURN_MS - 1)
    assert first.claim(TURN_MS), "a link that keeps the turn for too long loses it"


def test_a_plan_that_does_not_read_fills_no_memory_and_stops_nobody(
    sharing: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiplexing, "CHANNEL_BYTES", 100_000)
    monkeypatch.setattr(multiplexing, "PROCESS_BYTES", 150_000)
    monkeypatch.setattr(multiplexing, "SHARE_BYTES", 20_000)
    sharing.until(lambda: opened(sharing))
    listener, victims = sharing.host.receivers, sharing.links[:2]
    for victim in victims:
        for _ in range(60):
            victim.socket.send_multipart([bytes(5_000)])
    for _ in range(500):
        listener.pump(sharing.now_ms)
        time.sleep(0.0005)
    assert 100_000 <= listener.waiting_bytes < 200_000
    for victim in victims:
        while victim.state is LinkState.OPEN:
            sharing.there.poll(5)
            victim.handle()
        assert victim.state is LinkState.LOST, "as if the connection had broken: it is opened again"
    other = sharing.links[2]
    other.mark_idle()
    sharing.until(lambda: any(isinstance(one, FrameArrived) for one in sharing.events.get(2, ())))
    for server in sharing.servers:
        server.close()
    assert listener.waiting_bytes == 0


def test_nothing_is_left_of_a_link_that_met_a_full_channel(sharing: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its word that it closes is dropped, too, and its connection lives on: nothing else would end it."""
    monkeypatch.setattr(multiplexing, "CHANNEL_BYTES", 1_000)
    listener = sharing.host.receivers
    channel = listener.channel("full")
    for _ in range(6):
        listener._hand_out([b"peer", (1).to_bytes(4, "big") + b"full", bytes(400)], 0)
    waiting = [channel.next_message() or [] for _ in range(3)]
    assert isinstance(decode(waiting[-1][1:]).message, CloseLink)
    assert channel.next_message() is None
    assert channel.waiting_bytes == listener.waiting_bytes == 0
