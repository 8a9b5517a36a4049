"""Whether the passive node has every acknowledged event: the states of the active node's mirror. Pure.

              linked                caught up             a batch that began     recorded
    ALONE ───────────▶ CATCHING_UP ──────────▶ JOINING ─────────────▶ CONFIRMING ─────────▶ PROTECTED
      ▲                     │ lost                │ lost   since then was applied │ lost         │ lost
      ├─────────────────────┘                     ▼                               ▼              ▼
      │                                           └────────────────────────────▶ LEAVING ◀───────┘
      └────────────── recorded that the other node is behind ───────────────────────┘

In the states of `WAITS` an event is acknowledged only when the passive node has it. The database learns that the
passive node is behind before anything is acknowledged alone, and that it is in sync only after a batch that began when
all acknowledgements waited: so a node that the database calls in sync has every acknowledged event, at every moment.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class State(StrEnum):
    """The state of the mirror."""

    ALONE = "alone"
    CATCHING_UP = "catching-up"
    JOINING = "joining"
    CONFIRMING = "confirming"
    PROTECTED = "protected"
    LEAVING = "leaving"


WAITS = frozenset({State.JOINING, State.CONFIRMING, State.PROTECTED, State.LEAVING})


class Record(msgspec.Struct, frozen=True):
    """Request that the manager records whether the other node is in sync; `recorded` gets the number."""

    number: int
    in_sync: bool


class Release(msgspec.Struct, frozen=True):
    """Acknowledge everything that waits, since the active node is alone from now on."""


Instruction = Record | Release


class Protection:
    """The state of one active worker's mirror."""

    def __init__(self, now_ms: int) -> None:
        self.state = State.LEAVING
        self.since_ms = now_ms
        self.reason = "no passive node has connected yet"
        self.number = 0
        self.in_sync = False
        """The last request."""

    @property
    def waits(self) -> bool:
        """Return whether acknowledgements wait for the passive node."""
        return self.state in WAITS

    def begin(self, now_ms: int) -> list[Instruction]:
        """Begin without a passive node.

        A request of an earlier process of this node may still be recorded, so nothing is acknowledged alone before the
        database has recorded that the other node is behind.
        """
        return self._leave(self.reason, now_ms)

    def linked(self, now_ms: int) -> list[Instruction]:
        """Handle that the passive node is connected and is being sent missing data."""
        if self.state is State.ALONE:
            self._move(State.CATCHING_UP, "the passive node is catching up", now_ms)
        return []

    def caught_up(self, now_ms: int) -> list[Instruction]:
        """Handle that the passive node has everything that had changed when the last batch was collected."""
        if self.state is State.CATCHING_UP:
            self._move(State.JOINING, "the passive node is catching up", now_ms)
        return []

    def applied(self, began_ms: int, now_ms: int) -> list[Instruction]:
        """Handle that the passive node has applied a batch that was collected at `began_ms`."""
        if self.state is not State.JOINING or began_ms <= self.since_ms:
            return []
        self._move(State.CONFIRMING, "the database is about to record it", now_ms)
        return [self._record(in_sync=True)]

    def recorded(self, number: int, now_ms: int) -> list[Instruction]:
        """Handle that the database has recorded the request `number`."""
        if number != self.number:
            return []
        if self.state is State.CONFIRMING:
            self._move(State.PROTECTED, "", now_ms)
        elif self.state is State.LEAVING:
            self._move(State.ALONE, self.reason, now_ms)
            return [Release()]
        return []

    def lost(self, reason: str, now_ms: int) -> list[Instruction]:
        """Handle that the passive node no longer responds, or that its copy has changed."""
        if self.state is State.CATCHING_UP:
            self._move(State.ALONE, reason, now_ms)
        elif self.state in (State.JOINING, State.CONFIRMING, State.PROTECTED):
            return self._leave(reason, now_ms)
        elif self.state is State.ALONE:
            self.reason = reason
        return []

    def _leave(self, reason: str, now_ms: int) -> list[Instruction]:
        self._move(State.LEAVING, reason, now_ms)
        return [self._record(in_sync=False)]

    def _record(self, *, in_sync: bool) -> Record:
        self.number += 1
        self.in_sync = in_sync
        return Record(self.number, in_sync)

    def _move(self, state: State, reason: str, now_ms: int) -> None:
        self.state, self.reason, self.since_ms = state, reason, now_ms
