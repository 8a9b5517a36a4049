"""How many partial matches a pattern may hold, and what happens to more."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class PartialLimit:
    """Says how many partial matches, the oldest first, have to go when there are more than `most`.

    A tenth of `most` goes with them, so that a pattern at its limit does not look for its oldest ones at every step.
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
