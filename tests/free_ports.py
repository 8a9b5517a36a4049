"""Ports for processes that are told theirs."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from contextlib import suppress

_PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""How many processes run tests side by side, and which of them this one is."""

PORTS = 13_000 // _PROCESSES
FIRST_PORT = 18_000 + _PROCESS * PORTS
"""This process has ports of its own, below those that the system gives to outgoing connections and to anyone who asks
for any, and above the ranges of conf/*.yaml: others might take one before its owner listens, or after it died."""

_places = itertools.count(secrets.randbelow(PORTS))
"""One after the other, so that two who have not listened yet are not told the same."""


def free_port() -> int:
    """A TCP port on which nothing listens now, and that was not given here for long."""
    for place in _places:
        with suppress(OSError), socket.create_server(("127.0.0.1", FIRST_PORT + place % PORTS)) as probe:
            return int(probe.getsockname()[1])
    raise AssertionError("places do not end")


def free_range(ports: int) -> tuple[int, int]:
    """First and last of so many ports that are given to nobody else for long; what listens there takes one that is
    free."""
    while True:
        first = FIRST_PORT + next(_places) % PORTS
        for _ in range(ports - 1):
            next(_places)
        if first + ports <= FIRST_PORT + PORTS:
            return first, first + ports - 1
