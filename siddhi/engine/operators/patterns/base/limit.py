"""How many partial matches a pattern may keep, and which are dropped beyond that."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class PartialLimit:
    """Computes how many partial matches, the oldest first, are dropped if there are more than `most`.

    A tenth of `most` is dropped at once, so that a pattern at its limit does not search its oldest ones in every step.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.dropped = 0

    def excess(self, live: int) -> int:
        """Return how many of `live` partial matches are to be dropped now, which the caller does."""
        if live <= self.most:
            return 0
        excess = live - self.most + self.most // 10
        if not self.dropped:
            logger.warning("partial matches dropped, the oldest first, from now on limit=%d", self.most)
        self.dropped += excess
        return excess
