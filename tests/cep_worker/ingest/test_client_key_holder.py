"""The holder of a client's key does what its key says: sends to and listens to its tenant's streams, nothing else."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from free_ports import free_port
from worker_world import ALERTS, DEPARTURES, PLAN, World, departures

from cep_common.errors import ConfigError, InputError, PeerError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.links import Data, OpenLink, StreamSchema
from cep_common.protocol.registry import ListPlans, Rejected
from cep_common.security import client_keys
from cep_common.security.client_keys import (
    LOOK_S,
    ClientKey,
    ClientKeys,
    new_client_key,
    read_client_key,
)
from cep_common.security.config import SecurityConfig, ServerSecurity
from cep_common.security.context import open_context
from cep_common.security.keys import read_keys, write_client_key, write_keys
from cep_common.security.roles import Role, SocketKind
from cep_common.sockets.transport import ControlClient, connecting_socket
from cep_worker.config import IngressConfig
from cep_worker.ingest import link_ingress
from cep_worker.ingest.event_sender import EventSender
from cep_worker.ingest.link_ingress import KEY_SHARE
from cep_worker.ingest.routing import Route
from topology.links.event_listener import EventListener

OURS, THEIRS = 7, 8
UNHEARD_MS = 300
"""A socket that does not accept the key sends no answer."""


@dataclass
class Attacked:
    """A worker with plans of two tenants, and the folders of keys."""

    world: World
    keys: Path
    folder: Path

    def key(self, name: str, tenant: int = OURS, send: tuple[str, ...] = (), listen: tuple[str, ...] = ()) -> Path:
        """Make a key, and return the folder that its holder has."""
        made, secret = new_client_key(name, tenant, send, listen)
        write_client_key(self.keys, self.folder / name, made, secret)
        return self.folder / name

    def sender(self, holder: Path, stream: str, tenant: int = OURS, schema: Any = DEPARTURES) -> EventSender:
        endpoint = Endpoint("127.0.0.1", self.world.config.ingress.port)
        sender = EventSender(endpoint, StreamSchema(stream, schema), tenant=tenant, security=at(holder))
        self.world.closing.append(sender)
        return sender

    def listener(self, holder: Path, stream: str, tenant: int = OURS) -> EventListener:
        endpoint = Endpoint("127.0.0.1", self.world.config.egress.port)
        listener = EventListener(endpoint, stream, tenant, security=at(holder))
        self.world.closing.append(listener)
        return listener


def at(folder: Path) -> SecurityConfig:
    return SecurityConfig(str(folder))


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    keys = tmp_path / "keys"
    write_keys(keys)
    context = open_context(at(keys), Role.STAGE)
    world = World.make(
        context,
        tmp_path / "world",
        security=ServerSecurity(keys=str(keys)),
        ingress=IngressConfig(port=free_port(), links=8),
    )
    world.manager.security = at(keys)
    ours = msgspec.structs.replace(PLAN, key=PlanKey(OURS, "Ours"))
    world.start(ours, msgspec.structs.replace(PLAN, key=PlanKey(THEIRS, "Theirs")))
    yield Attacked(world, keys, tmp_path / "clients")
    world.close()
    context.destroy(linger=0)


def refused(attempt: Callable[..., Any], *arguments: Any, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        attempt(*arguments, **options)
    return caught.value


def test_a_key_does_what_it_says_and_nothing_else(attacked: Attacked) -> None:
    holder = attacked.key("feeder", send=("Departures",), listen=("Ours/*",))
    sender = attacked.sender(holder, "Departures")
    sender.send(departures((1, "UA", 61, None)))
    attacked.listener(holder, "Ours/Alerts")

    tried = [
        refused(attacked.sender, holder, "Departures", THEIRS),
        refused(attacked.sender, holder, "Theirs/Departures", THEIRS),
        refused(attacked.sender, holder, "Ours/Departures"),
        refused(attacked.sender, holder, "Alerts", schema=ALERTS),
        refused(attacked.listener, holder, "Ours/Alerts", THEIRS),
        refused(attacked.listener, holder, "Theirs/Alerts", THEIRS),
        refused(attacked.listener, holder, "Alerts"),
        refused(attacked.listener, holder, "Nothing", THEIRS),
    ]
    assert {one.reason_code for one in tried} == {"not-authorised"}
    assert not [one for one in tried if "Theirs" in one.message.replace("Theirs/", "")], "no plan of others is named"

    worker = attacked.world.config
    doors = {
        SocketKind.CONTROL: attacked.world.manager.port,
        SocketKind.OUTFLOW: worker.outflow.first_port,
    }
    with open_context(at(holder), Role.CLIENT) as context:
        context.keyring.known[Role.MANAGER] = read_keys(attacked.keys, Role.MANAGER).public  # type: ignore[union-attr,index]
        with pytest.raises(PeerError):
            ControlClient(context, [Endpoint("127.0.0.1", doors[SocketKind.CONTROL])], UNHEARD_MS).request(ListPlans())
        with connecting_socket(context, SocketKind.OUTFLOW, 1_000) as socket:
            socket.connect(f"tcp://127.0.0.1:{doors[SocketKind.OUTFLOW]}")
            socket.send_multipart(encode(OpenLink("publisher", ())))
            assert not socket.poll(UNHEARD_MS)


def test_a_holder_takes_no_link_of_another_key_over(attacked: Attacked) -> None:
    """With the same routing id as a client of the other tenant has: its link ends only with it."""
    ours, theirs = attacked.key("ours", send=("*",)), attacked.key("theirs", THEIRS, send=("*",))
    opening = OpenLink("client", (StreamSchema("Departures", DEPARTURES),), tenant=THEIRS)
    frames = encode(Data("Departures", 1, 0, 0)), encode(opening)
    answers = []
    for holder, first in ((theirs, frames[1]), (ours, frames[0])):
        with (
            open_context(at(holder), Role.CLIENT) as context,
            connecting_socket(context, SocketKind.INGRESS, 100_000) as socket,
        ):
            socket.setsockopt(zmq.ROUTING_ID, b"well known")
            socket.connect(f"tcp://127.0.0.1:{attacked.world.config.ingress.port}")
            socket.send_multipart(first)
            assert socket.poll(5_000)
            answers.append(decode(socket.recv_multipart()).message)
    refusal = answers[1]
    assert isinstance(refusal, Rejected)
    assert refusal.code == "not-authorised"


def test_a_key_that_was_revoked_or_has_other_bounds_ends_what_is_open(attacked: Attacked) -> None:
    holder = attacked.key("feeder", send=("*",), listen=("*",))
    sender, listener = attacked.sender(holder, "Departures"), attacked.listener(holder, "Alerts")
    file = attacked.keys / "clients" / "feeder.key"
    file.write_text(file.read_text().replace('listen = "*"', 'listen = "Others"'))
    assert "may not listen to Alerts" in str(ended(lambda: listener.receive(100)))
    file.unlink()
    assert "revoked" in str(ended(lambda: (sender.send(departures((1, "UA", 1, None))), sender.flush(100))))
    with pytest.raises(PeerError):
        attacked.sender(holder, "Departures")


def ended(attempt: Callable[[], object]) -> InputError:
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        try:
            attempt()
        except InputError as error:
            return error
        except PeerError:
            continue
    raise AssertionError("it continues")


def test_a_key_has_its_share_of_links_and_bytes_and_leaves_the_others(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, other = attacked.key("greedy", send=("*",)), attacked.key("modest", send=("*",))
    share = attacked.world.config.ingress.links // KEY_SHARE
    with open_context(at(holder), Role.CLIENT) as context:
        sockets = []
        opening = encode(OpenLink("client", (StreamSchema("Departures", DEPARTURES),), tenant=OURS))
        for _ in range(share + 1):
            socket = connecting_socket(context, SocketKind.INGRESS, 100_000)
            socket.connect(f"tcp://127.0.0.1:{attacked.world.config.ingress.port}")
            socket.send_multipart(opening)
            sockets.append(socket)
        answers = []
        for socket in sockets:
            assert socket.poll(10_000)
            answers.append(decode(socket.recv_multipart()).message)
        assert [one.code for one in answers if isinstance(one, Rejected)] == ["too-many-links"]
    sender = attacked.sender(other, "Departures")

    monkeypatch.setattr(link_ingress, "PARKED_BYTES", 100_000)
    monkeypatch.setattr(Route, "has_room", lambda _: False)
    large = departures((1, "U" * 20_000, 1, None))
    for _ in range(10):
        sender.send(large)
    assert ended(lambda: sender.flush(100)).reason_code == "too-much-waiting"


def test_holders_of_invalid_key_files_are_refused(tmp_path: Path) -> None:
    key, _ = new_client_key("good", 7, ("A*",), ())
    good = f'metadata\n    tenant = "7"\n    send = "A*"\ncurve\n    public-key = "{key.public.decode()}"\n'
    folder = tmp_path / "clients"
    keys = ClientKeys(folder)
    assert keys.of(key.public) is None
    folder.mkdir()
    (folder / "good.key").write_text(good)
    assert keys.of(key.public) == ClientKey("good", key.public, 7, ("A*",))
    assert keys.named("good") == read_client_key(folder / "good.key")
    (folder / "copy.key").write_text(good.replace('"7"', '"8"'))
    assert keys.of(key.public) is None, "one key under two names"
    (folder / "copy.key").unlink()
    for damaged in (good.replace('"7"', '"x"'), good.replace("tenant", "tenants"), good[:-5], good * 2, "\0" * 100, ""):
        (folder / "good.key").write_text(damaged)
        assert keys.of(key.public) is None
        assert keys.named("good") is None
    (folder / "good.key").write_bytes(b"\xff" * 100)
    assert keys.named("good") is None


def test_a_file_that_can_be_read_again_lets_its_holder_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without another change: there were no file handles left, or its permissions were set afterwards."""
    key, _ = new_client_key("good", 7, ("A*",), ())
    file = tmp_path / "good.key"
    file.write_text(f'metadata\n    tenant = "7"\n    send = "A*"\ncurve\n    public-key = "{key.public.decode()}"\n')
    keys = ClientKeys(tmp_path)
    with monkeypatch.context() as handles:
        handles.setattr(Path, "open", no_handles)
        assert keys.of(key.public) is None
    assert keys.of(key.public) == key
    assert keys.named("good") == key


def no_handles(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_the_folder_is_not_read_for_each_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, _ = new_client_key("good", 7, ("A*",), ())
    file = tmp_path / "good.key"
    file.write_text(f'metadata\n    tenant = "7"\n    send = "A*"\ncurve\n    public-key = "{key.public.decode()}"\n')
    keys, now_s = ClientKeys(tmp_path), [1_000.0]
    read: list[Path] = []
    files = client_keys._files

    def counted(folder: Path) -> Iterator[Any]:
        read.append(folder)
        return files(folder)

    monkeypatch.setattr("cep_common.security.client_keys.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr(client_keys, "_files", counted)
    for _ in range(1_000):
        assert keys.named("good") == key
    assert len(read) == 1
    file.unlink()
    now_s[0] += LOOK_S
    assert keys.named("good") is None


@pytest.mark.parametrize(
    ("name", "send"),
    [("../worker", "*"), ("a b", "*"), ("", "*"), ("ok", 'x"\n    tenant = "8'), ("ok", ""), ("ok", "é")],
)
def test_no_name_or_pattern_writes_another_bound(name: str, send: str) -> None:
    with pytest.raises(ConfigError):
        new_client_key(name, 7, (send,), ())
    with pytest.raises(ConfigError):
        new_client_key("idle", 7, (), ())


@pytest.mark.parametrize(
    ("pattern", "stream", "may"),
    [
        ("Departures", "Departures", True),
        ("Departures", "Departures:1.0.0", True),
        ("Departures:1.0.0", "Departures:2.0.0", False),
        ("Departures", "departures", False),
        ("Departures", "P/Departures", False),
        ("P/*", "P/Departures", True),
        ("P/*", "Q/Departures", False),
        ("*", "anything", True),
        ("*", "P/Departures", False),
        ("Late*", "LateFlights/Departures", False),
        ("Late*", "LateFlights:1.0.0", True),
        ("P?Departures", "P/Departures", False),
        ("*/Departures", "P/Departures", True),
        ("**", "P/Departures", True),
        ("P**s", "P/Departures", True),
        ("[PQ]/Departures", "P/Departures", False),
        ("**", "", True),
        ("P/**/?", "P//x", True),
        ("*a" * 30 + "b", "a" * 1_000, False),
        ("*" * 3 + "b", "a" * 1_000_000 + "b", False),
    ],
)
def test_patterns_are_those_of_names(pattern: str, stream: str, may: bool) -> None:
    key = ClientKey("k", b"", 7, (pattern,))
    assert (key.refusal("send", 7, stream) == "") is may
    assert key.refusal("send", 8, stream)
    assert key.refusal("listen", 7, stream)
