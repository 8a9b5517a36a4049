"""Receipts of results: a frame is delivered when every consumer has settled its receipt."""

from __future__ import annotations

from collections.abc import Callable

from topology.acks import Ack


class DeliveryReceipt:
    """A receipt, settled once by each consumer of a frame that has delivered the frame or, by its policy, dropped it.

    `delivered` is called when all have settled, or `returned` when one has ended and given the frame back. Belongs to
    the data thread.
    """

    __slots__ = ("_ack", "_delivered", "_given_back", "_returned", "lost_rows")

    def __init__(
        self, consumers: int, delivered: Callable[[], None], returned: Callable[[], None] | None = None
    ) -> None:
        """Create a receipt. Without `returned`, a consumer that ends must count the frame as lost."""
        self._ack = Ack(self._all_settled, consumers)
        self._delivered = delivered
        self._returned = returned
        self._given_back = False
        self.lost_rows = 0
        """The number of events that a consumer could not deliver, the maximum of all consumers."""

    @property
    def takes_back(self) -> bool:
        """Return whether a consumer that ends may give the frame back. Any thread may call this."""
        return self._returned is not None

    def settle(self, lost_rows: int = 0) -> None:
        """Settle for one consumer, which has delivered the frame except `lost_rows` events.

        Raises:
            ValueError: All consumers have settled already.
        """
        self.lost_rows = max(self.lost_rows, lost_rows)
        self._ack.settle()

    def _all_settled(self) -> None:
        if self._given_back and self._returned is not None:
            self._returned()
        else:
            self._delivered()

    def give_back(self) -> bool:
        """Settle for a consumer that has ended without delivering. Return whether the frame is taken back."""
        self._given_back = self.takes_back
        self.settle()
        return self.takes_back
