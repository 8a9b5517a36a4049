"""What tests of sockets share: a context that notices leaks, and waiting without sleeping."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import zmq
from certificates import certificate_for_loopback
from hypothesis import settings
from kafka_broker import Broker, NoBrokerError, kafka_broker
from left_out import pytest_sessionfinish, pytest_unconfigure  # noqa: F401 - pytest calls them
from postgresql_server import NoServerError, PostgresqlServer, postgresql_server
from quick_flask import make_quickly
from random_examples import examples
from spreading import pytest_collection_modifyitems, pytest_xdist_make_scheduler  # noqa: F401 - pytest calls them

Drive = Callable[..., None]

make_quickly()
settings.register_profile("share", max_examples=examples(100))
settings.load_profile("share")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without the garbage collector, and leave what was collected out of all later collections.

    Modules, tests and their parameters are millions of objects that live as long as the process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture
def zmq_context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    """A ZeroMQ context of the test's own; the test fails when it leaves a socket open."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: list[zmq.Socket[bytes]] = []
    make = context.socket

    def socket(*arguments: Any, **options: Any) -> zmq.Socket[bytes]:
        made = make(*arguments, **options)
        opened.append(made)
        return made

    context.socket = socket  # type: ignore[method-assign]
    yield context
    leaked = [f"{one.type!s}" for one in opened if not one.closed]
    context.destroy(linger=0)
    assert not leaked, f"sockets left open: {leaked}"


@pytest.fixture
def drive() -> Drive:
    """`drive(step, until, sockets)` calls `step` whenever a socket can be read, or 5 ms have gone, until `until()`."""

    def run(
        step: Callable[[], object], until: Callable[[], object], sockets: Sequence[Any] = (), within_ms: int = 5_000
    ) -> None:
        deadline = time.monotonic() + within_ms / 1000
        poller = zmq.Poller()
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        step()
        while not until():
            assert time.monotonic() < deadline, f"not reached within {within_ms} ms"
            poller.poll(5)
            step()

    return run


def _new_postgresql() -> Iterator[PostgresqlServer]:
    pytest.importorskip("psycopg", reason="pip install 'cep-on-spark[postgresql]'")
    with ExitStack() as stack:
        try:
            server = stack.enter_context(postgresql_server())
        except NoServerError as error:
            pytest.skip(str(error))
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A real PostgreSQL server, one for all tests; each takes a database of its own."""
    yield from _new_postgresql()


@pytest.fixture(scope="session")
def own_postgresql() -> Iterator[PostgresqlServer]:
    """A server for the one fixture of the session that keeps its database from test to test."""
    yield from _new_postgresql()


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1, and its key."""
    return certificate_for_loopback(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def kafka(tls_files: tuple[str, str]) -> Iterator[Broker]:
    """A real Kafka broker, one for all tests of the session: each has topics and groups of its own."""
    pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(kafka_broker(tls_files))
        except NoBrokerError as error:
            pytest.skip(str(error))
        yield broker
