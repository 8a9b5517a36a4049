"""A virtual socket: one link's part of a socket that many links share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any


def _ignore() -> None:
    """Do nothing: the socket is not waited for."""


class SharedSocket(ABC):
    """A virtual socket, which `receive_now`, `send_now` and `readable` accept in place of a ZeroMQ socket."""

    def __init__(self) -> None:
        """Create a socket that is open, with no message waiting."""
        self.closed = False
        self.notify: Callable[[], None] = _ignore
        """Called when a message arrives."""
        self._waiting: deque[list[bytes]] = deque()

    @property
    def has_input(self) -> bool:
        """Return whether a message waits."""
        return bool(self._waiting)

    def next_message(self) -> list[bytes] | None:
        """Return the next message, or None if none waits."""
        return self._waiting.popleft() if self._waiting else None

    def put(self, message: list[bytes]) -> None:
        """Add a message that was received for this socket."""
        self._waiting.append(message)
        self.notify()

    @abstractmethod
    def send_multipart(self, frames: Sequence[Any], flags: int = 0, copy: bool = True) -> None:
        """Send a message. Raise zmq.Again or a ZMQError when the peer is not connected."""

    @abstractmethod
    def close(self, linger: int | None = None) -> None:
        """Close this socket; the connection stays."""
