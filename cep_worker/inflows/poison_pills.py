"""Detects accepted events that end their topology each time they are processed. Pure.

    attempt 0 ── ends with frames in flight ─▶ 1: unacknowledged records are sent one by one, so that one record is
                                                  in flight when the topology ends again ─▶ 2: the same ─▶ 3: it is
                                                  dropped

A record is dropped after three ends only if all of them implicate it: it was among the first unacknowledged ones at the
first end, and the only one in flight at the next two. A `kill -9` by an operator cannot be distinguished from an event
that ends its process, so a harmless event is only dropped after three of them, the last two within the milliseconds in
which it is the only one in flight. Some ends are weaker evidence:

- An end that the driver attributes to another cause (it moved the topology, or lost an executor) does not count.
- The end of a process that was stopped, as all processes of a frozen host are, is not the fault of events in flight.
  Such ends must come three times before records go one by one, and then three times for each. The same holds where a
  whole executor was killed, as happens when memory runs out: other plans, or other programs, may have used it up.
- A record far behind the first one has hardly been processed. It must be the only one in flight at three ends.

If many records were in flight, they are sent in groups first, because sending them one by one would keep a topology
that was merely killed busy for minutes. The group in flight at the next end is sent one by one, which costs one more
end.

Only that record is dropped. Events that were accepted together are first appended one by one, so that the others of
their batch are processed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from cep_worker.inflows.wal.log import RESTART_GAP

RESTARTS = 3
"""How many consecutive attempts must end at the same position, by weak evidence, before records are sent one by one."""
STRIKES, SUSPECT_STRIKES = 3, 2
"""How many times a topology must end while a record is the only one in flight, before that record is dropped.

First for a record with weak evidence, then for a suspect.
"""
FIRST_FRAMES = 8
"""The number of frames that a topology processes at a time. Acknowledgements arrive in order, slightly late."""
FEW_RECORDS = 256
"""Up to this many records are sent one by one at once, which takes about a second at a few milliseconds each.

More are sent in groups first.
"""
GROUP_RECORDS = 64


Zone = tuple[int, int]
"""The records after the first position, up to the second."""


@dataclass(slots=True)
class PoisonPillDetector:
    """Detects poison pills of one log over the attempts of one epoch.

    Positions are positions in the log.
    """

    zones: list[Zone] = field(default_factory=list)
    """The positions where records are sent alone, one by one or in groups."""
    grouped: list[Zone] = field(default_factory=list)
    """The zones that are sent in groups, unless a zone within them sends one by one."""
    suspects: list[Zone] = field(default_factory=list)
    """The positions of suspects, which are dropped after `SUSPECT_STRIKES`."""
    _attempt: int = -1
    _began: int = -1
    _ends: int = 0
    _under_way: tuple[int, ...] = ()
    _ran: bool = True
    _acknowledged: int = 0
    _from: int | None = None
    _strikes: dict[int, int] = field(default_factory=dict)

    def is_isolated(self, before: int) -> bool:
        """Return whether the frame after position `before` must be alone in flight: one record, or a group."""
        return _is_in(self.zones, before)

    def is_grouped(self, before: int) -> bool:
        """Return whether the frame after position `before` is a group."""
        holding = [zone for zone in self.zones if _is_in([zone], before)]
        return bool(holding) and all(zone in self.grouped for zone in holding)

    def last_joined(self, before: int) -> int:
        """Return the position up to which records after `before` may be joined; 0: no limit."""
        borders = [first for first, _ in self.zones if first > before]
        if self.is_grouped(before):
            borders += [before + GROUP_RECORDS, *(last for first, last in self.grouped if first <= before < last)]
        return min(borders, default=0)

    def link_lost(self, under_way: Sequence[int], acknowledged: int, ran: bool) -> None:
        """Record the positions in flight when the link broke, those acknowledged, and whether the topology ran."""
        self._under_way, self._acknowledged, self._ran = tuple(under_way), acknowledged, ran

    def link_established(
        self, position: int, attempt: int, cleared: Collection[int] = (), doubtful: Collection[int] = ()
    ) -> int:
        """Record that `attempt` continues after `position`. Return the position of the record to drop; 0: none.

        No event ended the attempts in `cleared`; the ends of `doubtful` ones are weak evidence.
        """
        before, self._attempt = self._attempt, attempt
        under_way, self._under_way = self._under_way, ()
        if attempt == before:
            return 0
        if attempt < before or before < 0:
            self._begin(position)
            return 0
        if position != self._began:
            self._begin(position)
        if not under_way or before in cleared:
            return 0
        convincing = self._ran and before not in doubtful
        self._ends += RESTARTS if convincing else 1
        self._from = self._acknowledged if self._from is None else min(self._from, self._acknowledged)
        first, is_alone = min(under_way), len(under_way) == 1
        if is_alone and self.is_grouped(first - 1):
            self.zones.append((self._acknowledged, first))
            if convincing:
                self.suspects.append((self._acknowledged, first))
        elif is_alone and self.is_isolated(first - 1):
            sure = convincing and _is_in(self.suspects, first - 1)
            self._strikes[first] = self._strikes.get(first, 0) + 1
            if self._strikes[first] >= (SUSPECT_STRIKES if sure else STRIKES):
                del self._strikes[first]
                return first
        elif self._ends >= RESTARTS:
            begin = max(self._from, position)
            zone = begin, max(under_way)
            self.zones.append(zone)
            if (zone[1] - zone[0]) % RESTART_GAP > FEW_RECORDS:
                self.grouped.append(zone)
            elif convincing:
                self.suspects.append((begin, sorted(under_way)[:FIRST_FRAMES][-1]))
        return 0

    def given_up(self, again: Zone | None = None) -> None:
        """Record that a record was dropped; if it held several events, each is alone in the zone `again`."""
        if again is not None:
            self.zones.append(again)
            self.suspects.append(again)

    def _begin(self, position: int) -> None:
        self._began, self._ends, self._from = position, 0, None
        self.zones = [zone for zone in self.zones if zone[1] > position]
        self.grouped = [zone for zone in self.grouped if zone[1] > position]
        self.suspects = [zone for zone in self.suspects if zone[1] > position]
        self._strikes = {place: count for place, count in self._strikes.items() if place > position}


def _is_in(zones: Sequence[Zone], before: int) -> bool:
    return any(first <= before < last for first, last in zones)
