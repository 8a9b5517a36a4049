"""Waiting for many ZeroMQ sockets: nothing that comes is missed, whatever was done with a socket before."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import zmq

from cep_common.sockets.ready_sockets import ReadySockets
from cep_common.sockets.wakeup import Wakeup


@pytest.fixture
def pair() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server, client = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    port = server.bind_to_random_port("tcp://127.0.0.1")
    client.connect(f"tcp://127.0.0.1:{port}")
    yield server, client
    context.destroy(linger=0)


def test_messages_that_come_while_a_socket_is_used_are_found(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    server, client = pair
    ready = ReadySockets()
    ready.add(server)
    ready.add(client)
    for number in range(200):
        client.send(b"%d" % number)
        client.send(b"%d" % number)
        assert ready.poll(5_000) == {server}
        peer, _ = server.recv_multipart()
        server.send_multipart([peer, b"answer"])  # takes notice of what has come meanwhile
        ready.used(server)
        ready.used(client)
        found = ready.poll(5_000)
        while server not in found:
            found |= ready.poll(5_000)
        server.recv_multipart()
        ready.used(server)
        assert client in found or client in ready.poll(5_000)
        assert client.recv() == b"answer"
        ready.used(client)
    assert ready.poll(0) == set()
    ready.close()


def test_a_bell_wakes_and_what_was_removed_does_not(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    server, client = pair
    wakeup = Wakeup()
    ready = ReadySockets()
    for source in (server, wakeup.handle):
        ready.add(source)
    wakeup.ring()
    assert ready.poll(5_000) == {wakeup.handle}
    wakeup.silence()
    assert ready.poll(0) == set()
    ready.remove(server)
    client.send(b"x")
    assert server.poll(5_000)
    assert ready.poll(20) == set()
    ready.close()
    wakeup.close()


def test_what_a_pump_left_in_its_socket_does_not_wait_for_more(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    server, client = pair
    taken: list[list[bytes]] = []
    ready = ReadySockets()
    ready.pump(server, lambda: taken.append(server.recv_multipart()))
    for _ in range(6):
        client.send(b"for a part that does not listen")
    time.sleep(0.2)
    began_s = time.monotonic()
    while len(taken) < 4:
        assert ready.poll(2_000) == set()
    assert time.monotonic() - began_s < 2, "it waited although more was there"
    ready.close()
