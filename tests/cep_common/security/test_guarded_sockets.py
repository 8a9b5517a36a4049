"""Doors over real sockets: the right key opens them, nothing else does, and nothing beyond loopback is without keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread

import pytest
import zmq

from cep_common.errors import ConfigError, RequestRejectedError, UnauthorisedError
from cep_common.ids import Endpoint
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.drivers import DriverRegistered, RegisterDriver
from cep_common.protocol.registry import ListPlans, PlansListed
from cep_common.security.config import SecurityConfig
from cep_common.security.context import GuardedContext, is_loopback, open_context
from cep_common.security.keys import write_keys
from cep_common.security.roles import SOCKET_RULES, Role, SocketKind, may_connect
from cep_common.sockets.transport import ControlClient, ControlServer, connecting_socket, listening_socket

MAXIMUM_BYTES = 1_000
PATIENCE_MS = 3_000
REFUSED_MS = 150
"""On loopback a handshake takes a few milliseconds; who has not got through after so long was not let in."""

As = Callable[[Role], GuardedContext]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    write_keys(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def acting_as(keys: Path) -> Iterator[As]:
    """A context for a process of a role, with the system's keys."""
    with ExitStack() as opened:

        def open_as(role: Role) -> GuardedContext:
            context = open_context(SecurityConfig(str(keys)), role)
            opened.callback(context.destroy, linger=0)
            return context

        yield open_as


def gets_through(
    visitor: zmq.Context[zmq.Socket[bytes]], door: SocketKind, listening: zmq.Socket[bytes], expected: bool = False
) -> bool:
    """True when a message of the visitor arrives; one that is `expected` is waited for longer."""
    with connecting_socket(visitor, door, MAXIMUM_BYTES) as socket:
        knock(socket, listening)
        if not listening.poll(PATIENCE_MS if expected else REFUSED_MS):
            return False
        return decode(listening.recv_multipart()[1:]).message == ListPlans()


@pytest.mark.parametrize("door", SocketKind)
def test_a_door_opens_to_the_roles_of_the_table_and_to_no_other(door: SocketKind, acting_as: As) -> None:
    with listening_socket(acting_as(SOCKET_RULES[door].owner), door, "127.0.0.1", MAXIMUM_BYTES) as listening:
        listening.bind("tcp://127.0.0.1:*")
        with ExitStack() as knocking:
            for role in Role:
                if not may_connect(role, door):
                    knock(knocking.enter_context(connecting_socket(acting_as(role), door, MAXIMUM_BYTES)), listening)
            assert not listening.poll(2 * REFUSED_MS), "of those who may not enter, all of whom knock, none is heard"
        let_in = {role for role in Role if may_connect(role, door)}
        assert let_in == {role for role in let_in if gets_through(acting_as(role), door, listening, expected=True)}


def knock(socket: zmq.Socket[bytes], listening: zmq.Socket[bytes]) -> None:
    """Connect and send a message, unless the connection has been refused by then: a send that waits would never end."""
    socket.connect(listening.getsockopt_string(zmq.LAST_ENDPOINT))
    with suppress(zmq.Again):
        socket.send_multipart(encode(ListPlans()), zmq.NOBLOCK)


def test_who_has_no_keys_or_those_of_another_system_stays_outside(acting_as: As, tmp_path: Path) -> None:
    write_keys(tmp_path / "others")
    stranger = open_context(SecurityConfig(str(tmp_path / "others")), Role.WORKER)
    plain = open_context(SecurityConfig(), Role.WORKER)
    try:
        with listening_socket(acting_as(Role.STAGE), SocketKind.RECEIVER, "127.0.0.1", MAXIMUM_BYTES) as listening:
            listening.bind("tcp://127.0.0.1:*")
            assert not gets_through(plain, SocketKind.RECEIVER, listening)
            assert not gets_through(stranger, SocketKind.RECEIVER, listening)
            assert gets_through(acting_as(Role.WORKER), SocketKind.RECEIVER, listening, expected=True)
    finally:
        stranger.destroy(linger=0)
        plain.destroy(linger=0)


def test_who_forges_the_server_learns_nothing(acting_as: As, tmp_path: Path) -> None:
    """A worker does not speak to a receiver that cannot prove to be a stage, whatever it listens at."""
    write_keys(tmp_path / "others")
    forger = open_context(SecurityConfig(str(tmp_path / "others")), Role.STAGE)
    try:
        with listening_socket(forger, SocketKind.RECEIVER, "127.0.0.1", MAXIMUM_BYTES) as listening:
            listening.bind("tcp://127.0.0.1:*")
            assert not gets_through(acting_as(Role.WORKER), SocketKind.RECEIVER, listening)
    finally:
        forger.destroy(linger=0)


def test_at_the_control_plane_a_worker_cannot_speak_as_a_driver(acting_as: As) -> None:
    server = ControlServer(acting_as(Role.MANAGER), "127.0.0.1", 0)
    where = Endpoint("127.0.0.1", int(server.socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]))
    worker = ControlClient(acting_as(Role.WORKER), [where], PATIENCE_MS)
    refused: list[UnauthorisedError] = []

    def serve(patience_ms: int) -> None:
        assert server.socket.poll(patience_ms)
        try:
            peer, envelope = server.receive()
        except UnauthorisedError as error:
            refused.append(error)
        else:
            answer = PlansListed(1, ()) if envelope.message == ListPlans() else DriverRegistered(1, 1)
            server.send(peer, answer, envelope.correlation)

    thread = Thread(target=lambda: [serve(PATIENCE_MS) for _ in range(2)])
    thread.start()
    try:
        with pytest.raises(RequestRejectedError, match="a worker may not send register-driver") as caught:
            worker.request(RegisterDriver("driver", "h", 1, "local[1]", 1, 1))
        assert worker.request(ListPlans()) == PlansListed(1, ())
    finally:
        thread.join()
        worker.close()
        server.close()
    assert caught.value.reason_code == "not-authorised"
    assert len(refused) == 1


def test_a_process_without_keys_does_not_listen_beyond_loopback() -> None:
    with pytest.raises(
        ConfigError, match=r"ingress\.host: 0\.0\.0\.0 can be reached .* `cep keys DIR` .* security\.keys"
    ):
        open_context(SecurityConfig(), Role.WORKER, {"egress.host": "127.0.0.1", "ingress.host": "0.0.0.0"})  # noqa: S104


def test_a_plain_context_makes_no_socket_beyond_loopback(zmq_context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1 can be reached from other hosts"):
        listening_socket(zmq_context, SocketKind.INGRESS, "192.0.2.1", MAXIMUM_BYTES)


def test_who_asks_to_be_insecure_may_listen_anywhere_and_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    context = open_context(SecurityConfig(insecure=True), Role.WORKER, {"ingress.host": "0.0.0.0"})  # noqa: S104
    try:
        listening_socket(context, SocketKind.INGRESS, "0.0.0.0", MAXIMUM_BYTES).close()  # noqa: S104
    finally:
        context.destroy(linger=0)
    assert "INSECURE" in caplog.text


def test_keys_of_a_role_open_only_its_own_doors(acting_as: As) -> None:
    with pytest.raises(ConfigError, match="a worker does not listen for the control plane"):
        listening_socket(acting_as(Role.WORKER), SocketKind.CONTROL, "127.0.0.1", MAXIMUM_BYTES)


def test_a_public_key_that_is_missing_is_named(keys: Path, acting_as: As) -> None:
    (keys / "stage.key").unlink()
    with pytest.raises(ConfigError, match=r"security\.keys: has no stage\.key, the public key of a stage"):
        connecting_socket(acting_as(Role.WORKER), SocketKind.RECEIVER, MAXIMUM_BYTES)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),  # noqa: S104
     ("::", False), ("10.0.0.1", False), ("*", False), ("localhost.example", False)],
)  # fmt: skip
def test_loopback_is_known_by_its_address(host: str, local: bool) -> None:
    assert is_loopback(host) == local
