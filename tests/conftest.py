"""What tests of sockets share: a context that notices leaks, and waiting without sleeping. How tests are spread."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zmq
from postgresql_server import NoServerError, PostgresqlServer, postgresql_server
from quick_flask import make_quickly
from xdist.scheduler import LoadFileScheduling

Drive = Callable[..., None]

make_quickly()

SHARING = {
    "running_system": (
        *("test_plan_life_cycle", "test_failures", "test_savepoints", "test_driver_supervision"),
        *("test_statistics_truth", "test_cluster_many_plans", "test_flights_system", "test_cli_live", "test_logs_live"),
    ),
    "cluster_system": ("test_cluster_answers", "test_cluster_sharing", "test_standalone_cluster"),
}
"""What takes long to start, and the files whose tests have it: one process runs them all, and starts it once."""

LONG = (
    *("running_system", "test_driver_executors", "test_simulation", "cluster_system", "test_chaos"),
    *("test_cluster_package", "test_blocked_sink", "test_shell_browser"),
)
"""What takes longest begins first, so that no process is left with it when the others are done."""

GROUPS = {file: shared for shared, files in SHARING.items() for file in files}


def group_of(file: Path) -> str:
    """What stays in one process: a file, or all files that share something."""
    return GROUPS.get(file.stem, file.stem)


class Groups(LoadFileScheduling):
    """Spreads groups of files."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(Path(super()._split_scope(nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    """`--dist loadfile` spreads groups, in the order below with `--no-loadscope-reorder`."""
    return Groups(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are spread begin with those of `LONG`, then come those with real processes, the largest groups first.

    Raises UsageError when a file shares something that is not among those that do.
    """
    for item in items:
        for shared in SHARING.keys() & set(getattr(item, "fixturenames", ())):
            if group_of(item.path) != shared:
                raise pytest.UsageError(f"{item.path} uses {shared}: tests/conftest.py should name it in SHARING")
    if not hasattr(config, "workerinput"):
        return  # one process runs all, in the usual order
    size = Counter(group_of(item.path) for item in items)
    real = {group_of(item.path) for item in items if any(map(item.get_closest_marker, ("spark", "cluster")))}

    def place(item: pytest.Item) -> tuple[int, bool, int, str]:
        group = group_of(item.path)
        return LONG.index(group) if group in LONG else len(LONG), group not in real, -size[group], group

    items.sort(key=place)


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


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A real PostgreSQL server, one for all tests; each takes a database of its own."""
    pytest.importorskip("psycopg", reason="pip install 'cep-on-spark[postgresql]'")
    with ExitStack() as stack:
        try:
            server = stack.enter_context(postgresql_server())
        except NoServerError as error:
            pytest.skip(str(error))
        yield server
