"""Probes of whether a process still runs, which connect to one of its ports.

The kernel accepts connections for a process that is slow or stopped, and refuses them at once when the process has
ended. So a refusal proves that the process is gone, long before its lease expires, however busy the host is.

A ZeroMQ greeting proves that a process also runs: libzmq's own threads greet each connection, even while the process
hangs in a call that nothing interrupts. A process that is stopped, or whose host is, sends no greeting.
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
"""The time-out of a probe, after which the host counts as unreachable and the lease decides."""


class Probes(Generic[Who]):
    """Pending connection attempts, by the process that is probed. Belongs to one thread and never blocks."""

    def __init__(self) -> None:
        """Create an empty set of probes."""
        self._open: dict[Who, tuple[socket.socket, int]] = {}

    def begin(self, who: Who, endpoint: Endpoint, now_ms: int) -> None:
        """Connect to `endpoint`, unless an attempt for `who` is pending."""
        if who not in self._open and (probe := _connecting(endpoint)) is not None:
            self._open[who] = probe, now_ms

    @property
    def pending(self) -> bool:
        """Return whether an attempt is pending."""
        return bool(self._open)

    def refused(self, now_ms: int) -> list[Who]:
        """Return the processes that refused the connection since the last call and so have ended."""
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
        """Abort all attempts."""
        for who in list(self._open):
            self._close(who)

    def _close(self, who: Who) -> None:
        probe, _ = self._open.pop(who)
        probe.close()


class GreetingProbe:
    """Probe whether the process that listens at a ZeroMQ endpoint runs. Belongs to one thread and never blocks."""

    def __init__(self) -> None:
        """Create a probe without a connection."""
        self._open: socket.socket | None = None
        self._began_ms = 0
        self.runs = False
        """False while the process may be stopped; true if it greeted since `forget`, ended, or cannot be probed."""

    def ask(self, endpoint: Endpoint, now_ms: int) -> None:
        """Connect to `endpoint`, or check for the greeting on the open connection."""
        if self.runs:
            return
        if self._open is None:
            self._open, self._began_ms = _connecting(endpoint), now_ms
            self.runs = self._open is None
            return
        try:
            self.runs = bool(self._open.recv(1))
        except BlockingIOError:
            if now_ms - self._began_ms < PATIENCE_MS:
                return
        except OSError:  # refused: the process has ended
            self.runs = True
        self._close()

    def forget(self) -> None:
        """Forget the result and close the connection."""
        self.runs = False
        self._close()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _connecting(endpoint: Endpoint) -> socket.socket | None:
    """Return a connecting socket; None for a host that is a name, since resolving it could block."""
    try:
        family = socket.AF_INET6 if ip_address(endpoint.host).version == 6 else socket.AF_INET
    except ValueError:
        return None
    probe = socket.socket(family, socket.SOCK_STREAM)
    probe.settimeout(0.0)
    probe.connect_ex((endpoint.host, endpoint.port))
    return probe
