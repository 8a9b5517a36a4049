"""Find when the first of many partial matches at an element expires, without checking each.

A partial match expires when the time of its machine has advanced by more than `within` since its first event
(`is_expired`). A late event does not advance the time, so it expires nothing, and a partial match that begins with a
late event has its full `within` from there on. However, it accepts no event that is more than `within` newer than the
first (`is_too_old`).
"""

from __future__ import annotations

import itertools
import sys

from siddhi.engine.operators.patterns.base.partial import Partial

NEVER = sys.maxsize

Limits = tuple[tuple[tuple[int, ...], int], ...]
"""Slots whose first events limit the age of a match, with the limit in milliseconds."""


def is_expired(partial: Partial, limits: Limits, latest: int) -> bool:
    """Return whether `partial` has expired at `latest`, the time of the machine.

    It has when more than `within` has passed since it began.
    """
    for slots, within in limits:
        for slot in slots:
            chain = partial.slots[slot]
            if chain is not None and latest - chain[0].reached > within:
                return True
    return False


def is_too_old(partial: Partial, limits: Limits, time: int) -> bool:
    """Return whether `partial` began with a late event and `time` is more than `within` after that."""
    for slots, within in limits:
        for slot in slots:
            chain = partial.slots[slot]
            if chain is not None and chain[0].late and time - chain[0].timestamp > within:
                return True
    return False


class Horizon:
    """A lower bound on the time at which the first partial match of a growing list expires.

    They usually arrive in the order in which they began, so that expired ones come first. With `begin_later` a partial
    match may get its first event while it is in the list, so each must be checked.
    """

    def __init__(self, limits: Limits, *, begin_later: bool) -> None:
        self._limits = limits
        self._begin_later = begin_later
        self.clear()

    def clear(self) -> None:
        """Empty the list."""
        self._ordered = True
        self._newest = -NEVER
        self._until = NEVER

    def note(self, partial: Partial) -> None:
        """Record that `partial` is now the last of the list."""
        until = self._end(partial)
        self._ordered = self._ordered and until >= self._newest
        self._newest = until
        self._until = min(self._until, until)

    def _end(self, partial: Partial) -> int:
        """Return the time until which `partial` is not expired."""
        until = NEVER
        for slots, within in self._limits:
            for slot in slots:
                chain = partial.slots[slot]
                if chain is not None:
                    until = min(until, chain[0].reached + within)
        return until

    def take_expired(self, partials: list[Partial], latest: int) -> list[Partial]:
        """Remove and return those of `partials`, all that are in the list, that have expired at `latest`."""
        if not self._begin_later:
            if latest <= self._until:
                return []
            if self._ordered:
                return self._take_front(partials, latest)
        gone = []
        kept = []
        self.clear()
        for partial in partials:
            if is_expired(partial, self._limits, latest):
                gone.append(partial)
            else:
                kept.append(partial)
                self.note(partial)
        partials[:] = kept
        return gone

    def _take_front(self, partials: list[Partial], latest: int) -> list[Partial]:
        gone = list(itertools.takewhile(lambda partial: is_expired(partial, self._limits, latest), partials))
        del partials[: len(gone)]
        self._until = self._end(partials[0]) if partials else NEVER
        return gone
