"""When results count as delivered: every consumer of a frame settles its receipt, frames are acknowledged in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


class Receipt:
    """What each consumer of a frame settles once, when it has delivered the frame or, by its own policy, given it up.
    `delivered` is called when all have. Belongs to the reactor's thread."""

    __slots__ = ("_delivered", "_unsettled")

    def __init__(self, consumers: int, delivered: Callable[[], None]) -> None:
        self._unsettled = consumers
        self._delivered = delivered

    def settle(self) -> None:
        """One more consumer has done its part. ValueError when all had."""
        if self._unsettled < 1:
            raise ValueError("a receipt was settled more often than there are consumers")
        self._unsettled -= 1
        if not self._unsettled:
            self._delivered()


@dataclass(slots=True)
class InOrder:
    """Numbered frames that are settled in any order and acknowledged in their own."""

    _numbers: deque[int] = field(default_factory=deque)
    _settled: set[int] = field(default_factory=set)

    def took(self, number: int) -> None:
        """The frame is under way; numbers rise."""
        self._numbers.append(number)

    def settle(self, number: int) -> int | None:
        """The newest number up to which all frames are settled, when that has risen."""
        self._settled.add(number)
        newest = None
        while self._numbers and self._numbers[0] in self._settled:
            newest = self._numbers.popleft()
            self._settled.remove(newest)
        return newest

    def __len__(self) -> int:
        """How many frames are not acknowledged."""
        return len(self._numbers)
