"""When results count as delivered: every consumer of a frame settles its receipt, frames are acknowledged in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


class DeliveryReceipt:
    """Settled once by each consumer of a frame, when it has delivered the frame or, by its own policy, dropped it.

    `delivered` is called when all have settled, or `returned` when one of them has ended and given the frame back.
    Belongs to the data thread.
    """

    __slots__ = ("_delivered", "_given_back", "_returned", "_unsettled", "lost_rows")

    def __init__(
        self, consumers: int, delivered: Callable[[], None], returned: Callable[[], None] | None = None
    ) -> None:
        """Without `returned` a consumer that ends must count the frame as lost."""
        self._unsettled = consumers
        self._delivered = delivered
        self._returned = returned
        self._given_back = False
        self.lost_rows = 0
        """So many of the frame's events a consumer could not deliver; of several consumers the most."""

    @property
    def takes_back(self) -> bool:
        """Return whether a consumer that ends may give the frame back; for any thread."""
        return self._returned is not None

    def settle(self, lost_rows: int = 0) -> None:
        """Settle for one consumer, which has delivered the frame but for `lost_rows` events.

        Raises:
            ValueError: all consumers have settled already.
        """
        if self._unsettled < 1:
            raise ValueError("a receipt was settled more often than there are consumers")
        self._unsettled -= 1
        self.lost_rows = max(self.lost_rows, lost_rows)
        if self._unsettled:
            return
        if self._given_back and self._returned is not None:
            self._returned()
        else:
            self._delivered()

    def give_back(self) -> bool:
        """Settle for a consumer that has ended without delivering; return whether the frame is taken back."""
        self._given_back = self.takes_back
        self.settle()
        return self.takes_back


@dataclass(slots=True)
class OrderedAcks:
    """Numbered frames that are settled in any order and acknowledged in their own."""

    _numbers: deque[int] = field(default_factory=deque)
    _settled: set[int] = field(default_factory=set)

    def took(self, number: int) -> None:
        """Note that the frame is in flight; numbers rise."""
        self._numbers.append(number)

    def settle(self, number: int) -> int | None:
        """Settle the frame; return the number up to which all are settled, if it has risen."""
        self._settled.add(number)
        newest = None
        while self._numbers and self._numbers[0] in self._settled:
            newest = self._numbers.popleft()
            self._settled.remove(newest)
        return newest

    def __len__(self) -> int:
        """Return how many frames are not acknowledged."""
        return len(self._numbers)
