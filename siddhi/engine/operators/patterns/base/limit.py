"""Limit the number of partial matches of a pattern."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class PartialLimit:
    """Computes how many of the oldest partial matches are dropped if there are more than `most`.

    A tenth of `most` is dropped at once, so that a pattern at its limit does not search for its oldest ones in every
    step.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.dropped = 0

    def excess(self, live: int) -> int:
        """Return how many of `live` partial matches the caller must drop now."""
        if live <= self.most:
            return 0
        excess = live - self.most + self.most // 10
        if not self.dropped:
            logger.warning("partial matches dropped, the oldest first, from now on limit=%d", self.most)
        self.dropped += excess
        return excess
