"""Shrinks a case that differs: fewer events, fewer parts of its app."""

from __future__ import annotations

from collections.abc import Callable

from tools.differential.cases import RandomCase
from tools.differential.draw import optional_parts

MOST_TRIES = 400


class _Tries:
    """Asks whether smaller cases still differ, up to a number of times."""

    def __init__(self, differs: Callable[[RandomCase], bool], most: int) -> None:
        self._differs = differs
        self._left = most

    def still(self, case: RandomCase) -> bool:
        """Return whether `case` differs; False when there were too many questions."""
        self._left -= 1
        return self._left >= 0 and self._differs(case)


def minimise(case: RandomCase, differs: Callable[[RandomCase], bool], most_tries: int = MOST_TRIES) -> RandomCase:
    """Return the smallest case found for which `differs` holds, as it does for `case`.

    Parts of the app are left out first, the largest ones before what they hold, then runs of events, halving their
    length; both again until neither makes it smaller.
    """
    tries = _Tries(differs, most_tries)
    while True:
        smaller = _fewer_events(_fewer_parts(case, tries), tries)
        if smaller == case:
            return case
        case = smaller


def _fewer_parts(case: RandomCase, tries: _Tries) -> RandomCase:
    place = 0
    while place < len(parts := optional_parts(case.template)):
        start, end = parts[place]
        smaller = case.changed(template=case.template[:start] + case.template[end:])
        if tries.still(smaller):
            case = smaller
        else:
            place += 1
    return case


def _fewer_events(case: RandomCase, tries: _Tries) -> RandomCase:
    length = max(1, len(case.events) // 2)
    while length:
        start = 0
        while start < len(case.events):
            smaller = case.changed(events=[*case.events[:start], *case.events[start + length :]])
            if tries.still(smaller):
                case = smaller
            else:
                start += length
        length //= 2
    return case
