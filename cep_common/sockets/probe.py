"""Whether a process still listens: asked by connecting to one of its ports, which the kernel answers for it.

A process that is merely slow, or stopped, still accepts connections, because the kernel does so in its place. One that
has ended does not: the connection is refused at once. So a refusal proves that the process is gone, long before its
lease is over, however busy the host is.
"""

from __future__ import annotations

import errno
import select
import socket
from ipaddress import ip_address
from typing import Generic, TypeVar

from cep_common.ids import Endpoint

Who = TypeVar("Who")

PATIENCE_MS = 1_000
"""A probe that has no answer by then is given up: the host is away, and the lease decides."""


class Probes(Generic[Who]):
    """Connection attempts under way, by who is probed. One thread uses it and never waits."""

    def __init__(self) -> None:
        self._open: dict[Who, tuple[socket.socket, int]] = {}

    def begin(self, who: Who, endpoint: Endpoint, now_ms: int) -> None:
        """Connect to `endpoint`, unless an attempt for `who` is under way."""
        if who in self._open:
            return
        try:
            family = socket.AF_INET6 if ip_address(endpoint.host).version == 6 else socket.AF_INET
        except ValueError:
            return  # a name: looking it up could block, so the lease decides
        probe = socket.socket(family, socket.SOCK_STREAM)
        probe.settimeout(0.0)
        self._open[who] = probe, now_ms
        probe.connect_ex((endpoint.host, endpoint.port))

    @property
    def pending(self) -> bool:
        """Return whether an attempt is under way."""
        return bool(self._open)

    def refused(self, now_ms: int) -> list[Who]:
        """Return who refused the connection since the last call: these processes have ended."""
        if not self._open:
            return []
        poller = select.poll()
        for probe, _ in self._open.values():
            poller.register(probe, select.POLLOUT)
        answered = {descriptor for descriptor, _ in poller.poll(0)}
        gone: list[Who] = []
        for who, (probe, began_ms) in list(self._open.items()):
            if probe.fileno() in answered:
                if probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED:
                    gone.append(who)
                self._close(who)
            elif now_ms - began_ms >= PATIENCE_MS:
                self._close(who)
        return gone

    def close(self) -> None:
        """Give up all attempts."""
        for who in list(self._open):
            self._close(who)

    def _close(self, who: Who) -> None:
        probe, _ = self._open.pop(who)
        probe.close()
