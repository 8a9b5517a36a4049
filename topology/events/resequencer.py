"""Restores the order in which an origin numbered bundles after parallel instances processed them.

A stateless stage with two instances, fed in turn:

    origin ──ticket 0──▶ filtering#0 ──0──▶ ┐
           ──ticket 1──▶ filtering#1 ──1──▶ ├─▶ consumer takes 0, 1, 2, … whichever instance is faster
           ──ticket 2──▶ filtering#0 ──2──▶ ┘

So a parallel stage has the same output as one instance, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.events.bundle import Bundle


@dataclass(slots=True)
class Resequencer:
    """Orders bundles by ticket. `paths` is the number of paths from each origin, and of bundles that complete a ticket.

    Bundles of other origins are in order, since they have a single FIFO path, and are passed on at once.
    """

    paths: Mapping[str, int]
    _next: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, dict[int, list[Bundle]]] = field(default_factory=dict)

    def push(self, bundle: Bundle) -> list[Bundle]:
        """Return the bundles that are next, in order; within a ticket in order of source."""
        expected = self.paths.get(bundle.origin)
        if expected is None:
            return [bundle]
        waiting = self._waiting.setdefault(bundle.origin, {})
        waiting.setdefault(bundle.ticket, []).append(bundle)
        ready: list[Bundle] = []
        ticket = self._next.get(bundle.origin, 0)
        while len(waiting.get(ticket, ())) == expected:
            ready += sorted(waiting.pop(ticket), key=lambda one: one.source)
            ticket += 1
        self._next[bundle.origin] = ticket
        return ready

    def held_rows(self) -> int:
        """Return the number of rows that wait for an earlier ticket."""
        return sum(
            bundle.rows() for tickets in self._waiting.values() for bundles in tickets.values() for bundle in bundles
        )
