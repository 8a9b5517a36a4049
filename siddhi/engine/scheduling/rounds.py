"""Queries that write a table depending on its contents, for example to drop known events.

from S[not (K.id == id in K)] select id insert into K;

They run in rounds over all events of a step. In each round an event reads the table as the writes of the previous round
left it at its moment. The writes of an event depend only on earlier events, so that each round gives at least one more
event its final result, and most often all of them:

    event          1:a   2:b   3:a   4:a        the table is empty
    round 1 writes  a     b     a     a         as no read sees a write
    round 2 writes  a     b                     3 and 4 see that of event 1
    round 3 writes  a     b                     the same, so that this is the answer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.engine.tuning import ROUND_MIN_ROWS, ROUND_PAUSE_STEPS


@dataclass(frozen=True, slots=True)
class Rounds:
    """Queries that depend on each other through tables, with their numbers, producers before readers."""

    stages: Sequence[tuple[int, ScheduledNode]]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the queries."""
        return frozenset(number for number, _ in self.stages)


class RoundLimit:
    """Decides whether steps run in rounds: not for a while after one that took too many."""

    def __init__(self) -> None:
        self._rest = 0

    def allows(self) -> bool:
        """Return whether the next step runs in rounds."""
        self._rest = max(self._rest - 1, 0)
        return self._rest == 0

    def took(self, rounds: int, rows: int) -> None:
        """Record that a step of `rows` rows took `rounds` rounds."""
        if rounds > 2 + rows // ROUND_MIN_ROWS:
            self._rest = ROUND_PAUSE_STEPS
