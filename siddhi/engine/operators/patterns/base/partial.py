"""The state of a state machine: events, and the partial matches that contain them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LONG_AGO = -(2**62)
UNSET_TIME = -1
"""The time of a partial match without an event."""


@dataclass(frozen=True, slots=True)
class PatternEvent:
    """One event in a slot, or a candidate for it.

    `values` are the attributes that the query needs, None for null; `late` is how far the time of the machine was ahead
    of the event on its arrival.
    """

    timestamp: int
    values: tuple[Any, ...]
    late: int = 0

    @property
    def reached(self) -> int:
        """The time of the machine after the event arrived."""
        return self.timestamp + self.late


EventChain = list[PatternEvent]
"""The events of one slot, oldest first; a slot that is not counted holds one."""


@dataclass(slots=True, eq=False)
class Partial:
    """A partial match. It is compared by identity, because one partial match may wait at several elements at once.

    `slots`: per slot, in the machine's own order, its events or None. `timestamp`: of the latest event. `expired`: it
    was older than `within` when an element dropped it; the other side of a pair may keep it for longer.
    """

    slots: list[EventChain | None]
    timestamp: int = UNSET_TIME
    expired: bool = False

    def copy_up_to(self, slot: int) -> Partial:
        """Return a new, live partial match with the slots before `slot`, whose chains it shares; the rest are empty."""
        kept: list[EventChain | None] = list(self.slots)
        kept[slot:] = [None] * (len(kept) - slot)
        return Partial(kept, self.timestamp)

    def events(self, slot: int) -> EventChain:
        """Return the events in `slot`, oldest first."""
        return self.slots[slot] or []

    def put(self, slot: int, event: PatternEvent) -> None:
        """Replace the contents of `slot` by `event`."""
        self.slots[slot] = [event]

    def append(self, slot: int, event: PatternEvent) -> None:
        """Append `event` to `slot`."""
        chain = self.slots[slot]
        if chain is None:
            self.slots[slot] = [event]
        else:
            chain.append(event)

    def drop_last(self, slot: int) -> None:
        """Remove the last event of `slot`; a slot with one event becomes empty."""
        chain = self.slots[slot]
        if chain is None:
            return
        if len(chain) == 1:
            self.slots[slot] = None
        else:
            chain.pop()


@dataclass(slots=True, eq=False)
class Match:
    """A complete match with the events that it had when it was found. `slots` are in the machine's own order."""

    partial: Partial
    timestamp: int
    slots: tuple[tuple[PatternEvent, ...] | None, ...]

    @classmethod
    def of(cls, partial: Partial) -> Match:
        """Return the match of `partial` in its current state."""
        slots = tuple(None if chain is None else tuple(chain) for chain in partial.slots)
        return cls(partial, partial.timestamp, slots)

    def take_time(self) -> None:
        """Set the timestamp to the current one of the partial match.

        A match is emitted after its event was offered to all elements of the stream. If an optional last element
        completes it early, the event may still have entered an element before that.
        """
        self.timestamp = self.partial.timestamp


def matches_of(complete: Iterable[Partial]) -> list[Match]:
    """Return the matches of `complete`.

    Expired ones are left out: for Siddhi they are expired events, and a state query has current events only.
    """
    return [Match.of(partial) for partial in complete if not partial.expired]
