"""The control client against real servers: answers, refusals, silence, pushes, and ports in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq
from free_ports import free_range

from cep_common.errors import DecodeError, PeerError, PortInUseError, RequestRejectedError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.codec import MAGIC, Envelope, decode, encode
from cep_common.protocol.drivers import KillTopology
from cep_common.protocol.links import Subscribe
from cep_common.protocol.registry import ListPlans, Message, PlansListed, Rejected, WorkerRegistered
from cep_common.sockets.transport import ControlClient, ControlServer, bind_in_range

Context = zmq.Context[zmq.Socket[bytes]]
Answer = Callable[[ControlServer, bytes, Envelope], None]


def port_of(server: ControlServer) -> int:
    return int(server.socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])


@contextmanager
def serving(context: Context, answer: Answer) -> Iterator[Endpoint]:
    """A manager in a thread that hands every message to `answer`."""
    server = ControlServer(context, "127.0.0.1", 0)
    stop = context.socket(zmq.PAIR)
    stopped = context.socket(zmq.PAIR)
    here = f"inproc://stop-{port_of(server)}"
    stop.bind(here)
    stopped.connect(here)

    def serve() -> None:
        poller = zmq.Poller()
        poller.register(server.socket, zmq.POLLIN)
        poller.register(stopped, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if stopped in ready:
                return
            answer(server, *server.receive())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Endpoint("127.0.0.1", port_of(server))
    finally:
        stop.send(b"")
        thread.join()
        for socket in (server.socket, stop, stopped):
            socket.close(linger=0)


@pytest.fixture
def silent(zmq_context: Context) -> Iterator[Endpoint]:
    """A manager that takes everything and says nothing."""
    socket = zmq_context.socket(zmq.ROUTER)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    yield Endpoint("127.0.0.1", port)
    socket.close(linger=0)


@contextmanager
def client_of(context: Context, *managers: Endpoint, timeout_ms: int = 2_000) -> Iterator[ControlClient]:
    client = ControlClient(context, managers, timeout_ms)
    try:
        yield client
    finally:
        client.close()


def answering(message: Message) -> Answer:
    return lambda server, peer, envelope: server.send(peer, message, envelope.correlation)


def test_a_request_gets_its_answer(zmq_context: Context) -> None:
    listed = PlansListed(revision=3, plans=())
    with serving(zmq_context, answering(listed)) as manager, client_of(zmq_context, manager) as client:
        assert client.request(ListPlans()) == listed
        assert client.request(ListPlans()) == listed


def test_a_refusal_is_raised_with_the_peers_code(zmq_context: Context) -> None:
    refusal = Rejected("unknown-plan", "no such plan")
    with serving(zmq_context, answering(refusal)) as manager, client_of(zmq_context, manager) as client:
        with pytest.raises(RequestRejectedError, match="no such plan") as caught:
            client.request(ListPlans())
        assert caught.value.reason_code == "unknown-plan"


def test_a_silent_manager_is_left_for_the_next_and_not_asked_first_again(
    zmq_context: Context, silent: Endpoint
) -> None:
    listed = PlansListed(revision=1, plans=())
    with (
        serving(zmq_context, answering(listed)) as manager,
        client_of(zmq_context, silent, manager, timeout_ms=150) as client,
    ):
        assert client.request(ListPlans()) == listed
        assert client.manager() == manager


def test_messages_that_nobody_asked_for_do_not_prolong_the_wait_for_an_answer(zmq_context: Context) -> None:
    socket = zmq_context.socket(zmq.ROUTER)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    stop = threading.Event()

    def push() -> None:
        peer, *_ = socket.recv_multipart()
        while not stop.wait(0.01):
            socket.send_multipart([peer, *encode(KillTopology(PlanKey(1, "Plan"), 1))])

    pushing = threading.Thread(target=push)
    pushing.start()
    try:
        with client_of(zmq_context, Endpoint("127.0.0.1", port), timeout_ms=200) as client:
            began = time.monotonic()
            with pytest.raises(PeerError, match="waited 200 ms"):
                client.request(ListPlans())
            assert 0.19 < time.monotonic() - began < 1.5
    finally:
        stop.set()
        pushing.join()
        socket.close(linger=0)


def test_when_no_manager_answers_all_are_named(zmq_context: Context, silent: Endpoint) -> None:
    nobody = Endpoint("127.0.0.1", 1)
    with client_of(zmq_context, silent, nobody, timeout_ms=50) as client:
        with pytest.raises(PeerError, match=rf"127\.0\.0\.1:{silent.port}, 127\.0\.0\.1:1 \(waited 50 ms each\)"):
            client.request(ListPlans())
        assert client.manager() == silent


def standing_by(leader: Endpoint | None) -> Answer:
    return answering(Rejected("not-leader", "another manager leads", leader))


def test_the_manager_that_is_named_as_the_leader_is_asked_at_once_and_from_then_on(zmq_context: Context) -> None:
    listed = PlansListed(revision=1, plans=())
    refused: list[Endpoint] = []

    def refuse(server: ControlServer, peer: bytes, envelope: Envelope) -> None:
        refused.append(leader)
        standing_by(leader)(server, peer, envelope)

    with (
        serving(zmq_context, answering(listed)) as leader,
        serving(zmq_context, refuse) as standby,
        client_of(zmq_context, standby, timeout_ms=5_000) as client,
    ):
        assert client.request(ListPlans()) == listed
        assert client.request(ListPlans()) == listed
        assert (client.manager(), len(refused)) == (leader, 1)


def test_a_leader_that_is_gone_costs_its_time_once_and_the_standby_is_asked_first(
    zmq_context: Context, silent: Endpoint
) -> None:
    """The standby names it until its lease is over."""
    asked: list[Message] = []

    def refuse(server: ControlServer, peer: bytes, envelope: Envelope) -> None:
        asked.append(envelope.message)
        standing_by(silent)(server, peer, envelope)

    with (
        serving(zmq_context, refuse) as standby,
        client_of(zmq_context, silent, standby, timeout_ms=600) as client,
    ):
        with pytest.raises(PeerError, match="no manager leads at the moment"):
            client.request(ListPlans())
        assert client.manager() == standby
        before = time.monotonic()
        with pytest.raises(PeerError):
            client.request(ListPlans())
        assert time.monotonic() - before < 0.55, "who was silent lately is not waited for so long again"
        assert len(asked) == 2


def test_a_leader_that_was_slow_is_given_its_time_again_now_and_then(zmq_context: Context) -> None:
    listed = PlansListed(revision=1, plans=())
    delays_s = iter([0.7, *[0.4] * 20])

    def answer_late(server: ControlServer, peer: bytes, envelope: Envelope) -> None:
        threading.Event().wait(next(delays_s))
        server.send(peer, listed, envelope.correlation)

    def ask(client: ControlClient) -> Message | None:
        try:
            return client.request(ListPlans())
        except PeerError:
            return None

    with (
        serving(zmq_context, answer_late) as leader,
        serving(zmq_context, standing_by(leader)) as standby,
        client_of(zmq_context, leader, standby, timeout_ms=600) as client,
    ):
        assert listed in [ask(client) for _ in range(5)]


def test_managers_that_the_leader_tells_of_are_known_from_then_on(zmq_context: Context) -> None:
    new = Endpoint("127.0.0.1", 1)
    registered = WorkerRegistered(1_000, 0, managers=(new,))
    with serving(zmq_context, answering(registered)) as leader, client_of(zmq_context, leader) as client:
        client.request(ListPlans())
        assert client.managers() == (new, leader)


def test_a_named_leader_that_is_no_leader_either_does_not_keep_a_request_going_round(zmq_context: Context) -> None:
    with (
        serving(zmq_context, standing_by(None)) as one,
        serving(zmq_context, standing_by(one)) as other,
        client_of(zmq_context, other, one) as client,
        pytest.raises(PeerError, match="no manager leads"),
    ):
        client.request(ListPlans())


def test_an_answer_that_comes_late_is_not_taken_for_another_requests(zmq_context: Context) -> None:
    """The first answer carries an id that nobody waits for any more."""
    revisions = iter(range(10))

    def answer(server: ControlServer, peer: bytes, envelope: Envelope) -> None:
        server.send(peer, PlansListed(revision=-1, plans=()), b"\0" * 8)
        server.send(peer, PlansListed(revision=next(revisions), plans=()), envelope.correlation)

    with serving(zmq_context, answer) as manager, client_of(zmq_context, manager) as client:
        answers = [client.request(ListPlans()) for _ in range(2)]
    assert answers == [PlansListed(revision=0, plans=()), PlansListed(revision=1, plans=())]


def test_pushes_are_kept_in_order_while_an_answer_is_waited_for(zmq_context: Context) -> None:
    orders = [KillTopology(PlanKey(1, name)) for name in ("first", "second", "third")]

    def answer(server: ControlServer, peer: bytes, envelope: Envelope) -> None:
        server.send(peer, orders[0])
        server.send(peer, orders[1])
        server.send(peer, PlansListed(revision=1, plans=()), envelope.correlation)
        server.send(peer, orders[2])

    with serving(zmq_context, answer) as manager, client_of(zmq_context, manager) as client:
        client.request(ListPlans())
        got = list(client.pushed(0))
        while len(got) < 3:
            got += client.pushed(2_000)
    assert got == orders


def test_without_a_push_waiting_ends(zmq_context: Context, silent: Endpoint) -> None:
    with client_of(zmq_context, silent) as client:
        assert list(client.pushed(10)) == []


def test_a_server_answers_garbage_with_a_refusal_and_goes_on(zmq_context: Context) -> None:
    server = ControlServer(zmq_context, "127.0.0.1", 0)
    stranger = zmq_context.socket(zmq.DEALER)
    stranger.connect(f"tcp://127.0.0.1:{port_of(server)}")
    try:
        stranger.send(MAGIC + b"\x08nonsense\x00")
        with pytest.raises(DecodeError):
            server.receive()
        assert stranger.poll(2_000)
        assert isinstance(decode(stranger.recv_multipart()).message, Rejected)
        server.send(b"nobody", Subscribe("S"))
    finally:
        stranger.close(linger=0)
        server.close()


def test_a_port_in_use_is_named(zmq_context: Context) -> None:
    server = ControlServer(zmq_context, "127.0.0.1", 0)
    try:
        port = port_of(server)
        with pytest.raises(PortInUseError, match=rf"127\.0\.0\.1:{port} for the control plane: Address already in use"):
            ControlServer(zmq_context, "127.0.0.1", port)
    finally:
        server.close()


def test_a_range_gives_its_only_free_port_and_says_when_there_is_none(zmq_context: Context) -> None:
    sockets = [zmq_context.socket(zmq.ROUTER) for _ in range(3)]
    try:
        ports = first, last = free_range(2)
        sockets[0].bind(f"tcp://127.0.0.1:{first}")
        assert bind_in_range(sockets[1], "127.0.0.1", ports) == last
        with pytest.raises(PortInUseError, match=rf"no free port on 127\.0\.0\.1 in {first}-{last}; widen"):
            bind_in_range(sockets[2], "127.0.0.1", ports)
    finally:
        for socket in sockets:
            socket.close(linger=0)


def test_an_address_of_another_host_is_no_reason_to_try_all_ports(zmq_context: Context) -> None:
    socket = zmq_context.socket(zmq.ROUTER)
    try:
        with pytest.raises(PortInUseError, match=r"cannot listen on 192\.0\.2\.1:"):
            bind_in_range(socket, "192.0.2.1", (20000, 60000))
    finally:
        socket.close(linger=0)
