"""Acknowledgements: reference counts of frames in flight, and cumulative acknowledgement of numbered frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ack:
    """A reference count of a frame, which calls `settled` when all announced holders have settled.

    The receiver creates one for each frame that it accepts; every holder of the frame's rows, or of data derived from
    them, settles when these have been sent to a worker or are part of an engine's state. Only then is the frame
    acknowledged: all in-flight data in the topology counts against the window of the worker that sent it. Rows that
    wait for event time count as state once they alone keep their sender from sending a later watermark.
    """

    settled: Callable[[], None]
    holders: int = 1

    def announce(self, more: int) -> None:
        """Expect `more` further holders to settle."""
        self.holders += more

    def settle(self) -> None:
        """Release one holder.

        Raises:
            ValueError: All holders have settled already; a frame would be acknowledged that a stage still processes.
        """
        if self.holders < 1:
            raise ValueError("an acknowledgement was settled more often than it has holders")
        self.holders -= 1
        if self.holders == 0:
            self.settled()


@dataclass(slots=True)
class AckLedger:
    """Numbered frames that finish in any order and are acknowledged cumulatively."""

    _open: deque[int] = field(default_factory=deque)
    _done: set[int] = field(default_factory=set)

    def took(self, number: int) -> None:
        """Record a frame in flight; numbers increase."""
        self._open.append(number)

    def settle(self, number: int) -> int | None:
        """Record that the frame is done. Return the number up to which all frames are done, if it has increased."""
        self._done.add(number)
        newest = None
        while self._open and self._open[0] in self._done:
            newest = self._open.popleft()
            self._done.remove(newest)
        return newest

    def __len__(self) -> int:
        """Return the number of unacknowledged frames."""
        return len(self._open)
