"""Whether a process still listens: asked by connecting to one of its ports, which the kernel answers for it.

A process that is merely slow, or stopped, still accepts connections, because the kernel does so in its place. One that
has ended does not: the connection is refused at once. So a refusal proves that the process is gone, long before its
lease is over, however busy the host is.

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
"""A probe that has no answer by then is given up: the host is away, and the lease decides."""


class Probes(Generic[Who]):
    """Connection attempts under way, by who is probed. One thread uses it and never waits."""

    def __init__(self) -> None:
        """Create an empty set of probes."""
        self._open: dict[Who, tuple[socket.socket, int]] = {}

    def begin(self, who: Who, endpoint: Endpoint, now_ms: int) -> None:
        """Connect to `endpoint`, unless an attempt for `who` is under way."""
        if who not in self._open and (probe := _connecting(endpoint)) is not None:
            self._open[who] = probe, now_ms

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


class GreetingProbe:
    """Ask whether the process that listens at a ZeroMQ endpoint runs. One thread uses it and never waits."""

    def __init__(self) -> None:
        """Create a probe that has sent nothing yet."""
        self._open: socket.socket | None = None
        self._began_ms = 0
        self.runs = False
        """The process has greeted since `forget`, has ended, or cannot be asked: it is not known to be stopped."""

    def ask(self, endpoint: Endpoint, now_ms: int) -> None:
        """Connect to `endpoint`, or look for the greeting of the connection that is open."""
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
        except OSError:  # refused: it has ended
            self.runs = True
        self._close()

    def forget(self) -> None:
        """Forget what was answered."""
        self.runs = False
        self._close()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _connecting(endpoint: Endpoint) -> socket.socket | None:
    """Return a socket that connects; None for a host that is a name: looking it up could block."""
    try:
        family = socket.AF_INET6 if ip_address(endpoint.host).version == 6 else socket.AF_INET
    except ValueError:
        return None
    probe = socket.socket(family, socket.SOCK_STREAM)
    probe.settimeout(0.0)
    probe.connect_ex((endpoint.host, endpoint.port))
    return probe
