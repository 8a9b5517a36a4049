"""Fixtures of the worker's tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.utils.garbage as gc
from worker_world import World

ENDED_S = 5.0
"""A closed worker's threads end within it; a sink may be in a request when it is closed."""


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    made: zmq.Context[Any] = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def make_world(context: zmq.Context[Any], tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes a manager and a worker that is not started yet; afterwards nothing of them may be left."""
    before = set(threading.enumerate())
    made: list[World] = []

    def make(**changes: Any) -> World:
        made.append(World.make(context, tmp_path / f"world-{len(made)}", **changes))
        return made[-1]

    yield make
    for world in made:
        world.close()
    # pyzmq keeps one thread for the buffers of messages that it has not copied.
    started = [
        thread for thread in set(threading.enumerate()) - before if not isinstance(thread, gc.GarbageCollectorThread)
    ]
    deadline = time.monotonic() + ENDED_S
    for thread in started:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = [thread.name for thread in started if thread.is_alive()]
    assert not left, f"threads that did not end: {left}"


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
