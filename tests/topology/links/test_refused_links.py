"""Who is refused at a door is told so in time, and nothing that it sends waits for a way that never comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
import zmq

from cep_common.errors import CepError, PeerError
from cep_common.ids import Endpoint
from cep_common.protocol.links import OpenLink, StreamSchema
from cep_common.security.config import SecurityConfig
from cep_common.security.context import GuardedContext, open_context
from cep_common.security.keys import write_keys
from cep_common.security.roles import Role, SocketKind
from cep_common.sockets.transport import connecting_socket, listening_socket, send_now
from cep_worker.ingest.event_sender import EventSender
from topology.links.event_listener import EventListener
from topology.links.sender import LinkSender, LinkState

WITHIN_S = 20.0
REFUSED_MS = 4_000
"""More than a refusal takes on a busy machine: those who are refused find out while they wait for an answer."""


@pytest.fixture
def keys(tmp_path: Path) -> SecurityConfig:
    write_keys(tmp_path / "keys")
    return SecurityConfig(str(tmp_path / "keys"))


@pytest.fixture
def door(keys: SecurityConfig) -> Iterator[Callable[[Role, SocketKind], Endpoint]]:
    """Something of a role that listens at a door and answers nobody."""
    with ExitStack() as opened:

        def listen(role: Role, door: SocketKind) -> Endpoint:
            context = open_context(keys, role)
            opened.callback(context.destroy, linger=0)
            socket = opened.enter_context(listening_socket(context, door, "127.0.0.1", 1_000))
            return Endpoint("127.0.0.1", socket.bind_to_random_port("tcp://127.0.0.1"))

        yield listen


def in_time(work: Callable[[], object]) -> None:
    """`work` ends: what waits forever does so outside of Python, where no test can end it."""
    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(WITHIN_S)
    assert not thread.is_alive()


def until_refused(context: GuardedContext, door: SocketKind, endpoint: Endpoint) -> None:
    """A connection as another one has been refused for good."""
    with connecting_socket(context, door, 1_000) as socket:
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        socket.connect(endpoint.url())
        assert monitor.poll(REFUSED_MS)
        in_time(lambda: waits_for_no_way(socket))
        socket.disable_monitor()
        monitor.close(linger=0)


def waits_for_no_way(socket: zmq.Socket[bytes]) -> None:
    while send_now(socket, [b"x"]):  # what is sent before the connection is gone goes nowhere
        pass


def test_a_link_that_is_refused_beats_sends_and_ends_without_waiting(
    keys: SecurityConfig, door: Callable[[Role, SocketKind], Endpoint]
) -> None:
    endpoint = door(Role.STAGE, SocketKind.RECEIVER)
    with open_context(keys, Role.MANAGER) as context:
        link = LinkSender(context, SocketKind.RECEIVER, endpoint, OpenLink("manager", ()), 0)
        until_refused(context, SocketKind.RECEIVER, endpoint)
        in_time(lambda: waits_for_no_way(link.socket))
        assert link.state is LinkState.CONNECTING
        link.tick(6_000)
        assert link.state is LinkState.LOST
        link.state = LinkState.OPEN
        in_time(lambda: link.tick(8_000))
        assert link.state is LinkState.LOST, "a beat finds no way"
        link.state = LinkState.OPEN
        in_time(link.mark_idle)
        assert link.state is LinkState.LOST
        assert len(link.unacknowledged()) == 1, "it goes over the next link"
        in_time(link.close)


@pytest.mark.thorough
@pytest.mark.parametrize("client", ["sender", "listener"])
def test_clients_without_keys_are_told_that_keys_may_be_missing(
    client: str, door: Callable[[Role, SocketKind], Endpoint]
) -> None:
    endpoint = door(Role.WORKER, SocketKind.INGRESS if client == "sender" else SocketKind.EGRESS)
    told: list[CepError] = []

    def connect() -> None:
        schema = StreamSchema("S", (("a", "int"),))
        try:
            if client == "sender":
                EventSender(endpoint, schema, timeout_ms=REFUSED_MS)
            else:
                EventListener(endpoint, "S", timeout_ms=REFUSED_MS)
        except CepError as error:
            told.append(error)

    in_time(connect)
    assert [type(error) for error in told] == [PeerError]
    assert "if it has keys, it does not answer peers without keys" in str(told[0])
