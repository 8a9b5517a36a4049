"""Acknowledgements: which stages still process a frame, and up to which number all frames of a link are processed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ack:
    """Calls `settled` once, when as many holders have settled as were announced.

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
    """Numbered frames that are done in any order and acknowledged, cumulatively, in their own."""

    _open: deque[int] = field(default_factory=deque)
    _done: set[int] = field(default_factory=set)

    def took(self, number: int) -> None:
        """Note that the frame is in flight; numbers rise."""
        self._open.append(number)

    def settle(self, number: int) -> int | None:
        """Note that the frame is done; return the number up to which all are, if it has risen."""
        self._done.add(number)
        newest = None
        while self._open and self._open[0] in self._done:
            newest = self._open.popleft()
            self._done.remove(newest)
        return newest

    def __len__(self) -> int:
        """Return how many frames are not acknowledged."""
        return len(self._open)
