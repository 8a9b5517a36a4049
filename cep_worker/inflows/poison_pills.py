"""Which accepted events end their topology each time that they come. Pure.

    attempt 0 ── ends with frames under way ─▶ 1 ── ends ─▶ 2 ── ends ─▶ 3: what was not acknowledged goes one by one;
                 each begins at the same position of the log                a record that is under way when the topology
                                                                            ends again is given up the second time

Where the topology fell silent with frames under way before it ended, as code that no timer interrupts makes it, the
first end is enough to send one by one, and the next one to give a record up. A process that was killed breaks its link
at once.

A record is given up alone: everything before and behind it continues. Events that were accepted together are appended
again one by one first, so that those beside the culprit go on as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

RESTARTS = 3
"""How many attempts in a row must end at the same position before records are sent one by one."""
STRIKES = 2
"""So often a topology must have ended while a record that went alone was under way."""
SILENT_MS = 1_500
"""A topology that acknowledges nothing for so long before it ends has hung. Less than the lease of a task."""


Zone = tuple[int, int]
"""Records behind the first position, up to the second."""


@dataclass(slots=True)
class PoisonPillDetector:
    """Follows one log over the attempts of one epoch.

    Positions are those of the log.
    """

    zones: list[Zone] = field(default_factory=list)
    """Where records go one by one."""
    _attempt: int = -1
    _began: int = -1
    _ends: int = 0
    _under_way: tuple[int, ...] = ()
    _hung: bool = False
    _acknowledged: int = 0
    _from: int | None = None
    _strikes: dict[int, int] = field(default_factory=dict)

    def is_isolated(self, before: int) -> bool:
        """Return whether the record that follows the position `before` goes alone."""
        return any(first <= before < last for first, last in self.zones)

    def next_zone(self, before: int) -> int:
        """Return where the next zone begins behind the position `before`; 0: nowhere."""
        return min((first for first, _ in self.zones if first > before), default=0)

    def link_lost(self, under_way: Sequence[int], acknowledged: int, silent_ms: int) -> None:
        """Note what was not acknowledged when the link broke, up to where all was, and for how long nothing was."""
        self._under_way, self._acknowledged = tuple(under_way), acknowledged
        self._hung = silent_ms >= SILENT_MS

    def link_established(self, position: int, attempt: int) -> int:
        """Note that attempt `attempt` goes on behind `position`; return the record to give up, 0: none."""
        before, self._attempt = self._attempt, attempt
        under_way, self._under_way = self._under_way, ()
        if attempt == before:
            return 0
        if attempt < before or before < 0:
            self._begin(position)
            return 0
        if position != self._began:
            self._begin(position)
        if not under_way:
            return 0
        self._ends += 1
        self._from = self._acknowledged if self._from is None else min(self._from, self._acknowledged)
        first = min(under_way)
        if self.is_isolated(first - 1):
            self._strikes[first] = self._strikes.get(first, 0) + (STRIKES if self._hung else 1)
            if self._strikes[first] >= STRIKES:
                del self._strikes[first]
                return first
        elif self._hung or self._ends >= RESTARTS:
            self.zones.append((max(self._from, position), max(under_way)))
        return 0

    def given_up(self, again: Zone | None = None) -> None:
        """Note that a record was given up; if it held several events, each is alone in the zone `again`."""
        if again is not None:
            self.zones.append(again)

    def _begin(self, position: int) -> None:
        self._began, self._ends, self._from = position, 0, None
        self.zones = [zone for zone in self.zones if zone[1] > position]
        self._strikes = {place: count for place, count in self._strikes.items() if place > position}
