"""When the first of many partial matches that have just come to an element grows too old, without a look at each."""

from __future__ import annotations

import itertools
import sys

from siddhi.engine.pattern.partial import Partial

NEVER = sys.maxsize

Limits = tuple[tuple[tuple[int, ...], int], ...]
"""Slots whose first events may be no further than so many milliseconds from any event that comes."""


def is_expired(partial: Partial, limits: Limits, time: int) -> bool:
    """Whether `partial` began more than `within` from `time`, before or after."""
    for slots, within in limits:
        for slot in slots:
            chain = partial.slots[slot]
            if chain is not None and abs(chain[0].timestamp - time) > within:
                return True
    return False


class Horizon:
    """Knows of a growing list of partial matches between which times none of them is expired.

    They mostly come in the order in which they began, and then those that are too old stand in front. `begin_later`:
    a partial match may get its first event while it stands in the list, so that only a look at each tells.
    """

    def __init__(self, limits: Limits, *, begin_later: bool) -> None:
        self._limits = limits
        self._begin_later = begin_later
        self.clear()

    def clear(self) -> None:
        """The list is empty."""
        self._ordered = True
        self._since = self._newest = -NEVER
        self._until = NEVER

    def note(self, partial: Partial) -> None:
        """`partial` is the last of the list now."""
        since, until = self._span(partial)
        self._ordered = self._ordered and until >= self._newest
        self._newest = until
        self._since = max(self._since, since)
        self._until = min(self._until, until)

    def _span(self, partial: Partial) -> tuple[int, int]:
        """From when to when `partial` is not expired."""
        since, until = -NEVER, NEVER
        for slots, within in self._limits:
            for slot in slots:
                chain = partial.slots[slot]
                if chain is not None:
                    since = max(since, chain[0].timestamp - within)
                    until = min(until, chain[0].timestamp + within)
        return since, until

    def take_expired(self, partials: list[Partial], time: int) -> list[Partial]:
        """Those of `partials`, all that are in the list, that are expired at `time`; they leave it."""
        if not self._begin_later:
            if self._since <= time <= self._until:
                return []
            if self._ordered and time >= self._since:
                return self._take_front(partials, time)
        gone = []
        kept = []
        self.clear()
        for partial in partials:
            if is_expired(partial, self._limits, time):
                gone.append(partial)
            else:
                kept.append(partial)
                self.note(partial)
        partials[:] = kept
        return gone

    def _take_front(self, partials: list[Partial], time: int) -> list[Partial]:
        gone = list(itertools.takewhile(lambda partial: is_expired(partial, self._limits, time), partials))
        del partials[: len(gone)]
        self._until = self._span(partials[0])[1] if partials else NEVER
        return gone
