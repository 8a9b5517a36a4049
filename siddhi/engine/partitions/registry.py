"""The instances of a partition: which keys have one, which ones are new, and which have gone silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from siddhi.engine.arrays import Int64Array
from siddhi.engine.java_order import hash_map_order
from siddhi.engine.kernels import grown
from siddhi.engine.operator import NEVER, Stateful, Step
from siddhi.engine.state import CodeChange, State
from siddhi.engine.state_size import StateSize, held_bytes


@dataclass(frozen=True, slots=True)
class PurgeRule:
    """Every `interval_ms` from the app's start, instances without an event for `idle_ms` are given up."""

    interval_ms: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class _Opening:
    """An instance came into being with a row of (`order`, `clock`) of `step`; None: of a step long gone."""

    instance: int
    step: Step | None
    order: int
    clock: int


class Instances(Stateful):
    """The instances of one partition: each key text that is alive has an id, dense from 0. Ids of instances that were
    given up are given out again.

    Queries that wait for new instances ask for a `listener` number, and are told of each opening once.
    """

    def __init__(self, purge: PurgeRule | None = None) -> None:
        self.purge = purge
        self._ids: dict[str, int] = {}
        self._size = 0
        self._free: list[int] = []
        self._openings: list[_Opening] = []
        self._opening_of: dict[int, int] = {}
        self._told_all = 0
        self._told: list[int] = []
        self._seen: Int64Array = np.zeros(0, dtype=np.int64)
        self._oldest: int | None = None
        self._origin = 0
        self._purged_at: int | None = None

    def start(self, clock_ms: int) -> None:
        self._origin = clock_ms

    def id_of(self, key: str, step: Step, order: int, clock: int) -> int:
        """The id of the instance for `key`, opened by a row of (`order`, `clock`) of `step` when it is new."""
        known = self._ids.get(key)
        if known is None:
            return self._open(key, _Opening(-1, step, order, clock))
        if self._openings:
            self._bring_forward(known, step, order, clock)
        return known

    def _open(self, key: str, opening: _Opening) -> int:
        if self._free:
            instance = self._free.pop()
        else:
            instance = self._size
            self._size += 1
        self._ids[key] = instance
        self._opening_of[instance] = len(self._openings)
        self._openings.append(replace(opening, instance=instance))
        if self.purge is not None:
            self._seen = grown(self._seen, self._size)
            self._seen[instance] = opening.clock
            self._oldest = opening.clock if self._oldest is None else min(self._oldest, opening.clock)
        return instance

    def _bring_forward(self, instance: int, step: Step, order: int, clock: int) -> None:
        """Another stream of the partition may have brought the key earlier in the step that opened it."""
        place = self._opening_of.get(instance)
        if place is not None and self._openings[place].step is step and order < self._openings[place].order:
            self._openings[place] = _Opening(instance, step, order, clock)

    # ---- order

    def ranks(self) -> Int64Array:
        """The place of each id in the order in which Siddhi goes through its keys."""
        ranks = np.zeros(self._size, dtype=np.int64)
        ranks[self.in_order()] = np.arange(len(self._ids))
        return ranks

    def in_order(self) -> list[int]:
        """All ids, in the order in which Siddhi goes through its keys."""
        return [self._ids[key] for key in hash_map_order(self._ids)]

    # ---- new instances

    def listener(self) -> int:
        """The number of one who is from now on told of all new instances."""
        self._told.append(self._told_all + len(self._openings))
        return len(self._told) - 1

    def has_news(self, listener: int) -> bool:
        """True when there are instances of which `listener` has not been told."""
        return self._told[listener] < self._told_all + len(self._openings)

    def tell(self, listener: int, step: Step) -> Step:
        """`step` with the instances of which `listener` had not been told; now it has."""
        new = self._openings[self._told[listener] - self._told_all :]
        if not new:
            return step
        self._told[listener] += len(new)
        if min(self._told) == self._told_all + len(self._openings):
            self._told_all += len(self._openings)
            self._openings, self._opening_of = [], {}
        orders = np.array([opening.order if opening.step is step else 0 for opening in new], dtype=np.int64)
        clocks = np.array([opening.clock for opening in new], dtype=np.int64)
        instances = np.array([opening.instance for opening in new], dtype=np.int64)
        place = np.argsort(orders, kind="stable")
        return replace(step, opened=instances[place], opened_orders=orders[place], opened_clocks=clocks[place])

    # ---- silent instances

    def note_events(self, instances: Int64Array, clocks: Int64Array) -> None:
        """Instance `instances[i]` had an event of its own when the clock stood at `clocks[i]`."""
        if self.purge is not None:
            np.maximum.at(self._seen, instances, clocks)

    def next_purge_ms(self, opening_clock: int | None = None) -> int:
        """No instance is to be given up before this time, `NEVER` when there is none; with instances that come into
        being from `opening_clock` on."""
        clocks = [clock for clock in (self._oldest, opening_clock) if clock is not None]
        if self.purge is None or not clocks:
            return NEVER
        ticks = -(-(min(clocks) + self.purge.idle_ms - self._origin) // self.purge.interval_ms)
        due = self._origin + ticks * self.purge.interval_ms
        return due if self._purged_at is None else max(due, self._purged_at + self.purge.interval_ms)

    def give_up(self, clock: int) -> Int64Array:
        """The instances that are idle when a purge comes at `clock` are gone; returns their ids, which may be given
        out again.

        One of which not everyone has been told yet stays until the next purge.
        """
        if self.purge is None:
            return np.zeros(0, dtype=np.int64)
        self._purged_at = clock
        untold = {opening.instance for opening in self._openings}
        idle = set(np.flatnonzero(self._seen[: self._size] <= clock - self.purge.idle_ms).tolist()) - untold
        gone = {key: instance for key, instance in self._ids.items() if instance in idle} if idle else {}
        for key, instance in gone.items():
            del self._ids[key]
            self._free.append(instance)
        live = np.fromiter(self._ids.values(), dtype=np.int64, count=len(self._ids))
        self._oldest = int(self._seen[live].min()) if len(live) else None
        return np.array(list(gone.values()), dtype=np.int64)

    def state_size(self) -> StateSize:
        return StateSize(instances=len(self._ids), bytes=held_bytes(self))

    def live_codes(self) -> Iterator[Int64Array]:
        return iter(())

    def recode(self, change: CodeChange) -> None:
        """Keys are kept as text."""

    # ---- snapshot

    def snapshot(self) -> State:
        return {
            "keys": list(self._ids),
            "ids": list(self._ids.values()),
            "size": self._size,
            "free": list(self._free),
            "openings": [[opening.instance, opening.clock] for opening in self._openings],
            "told": [self._told_all, *self._told],
            "seen": self._seen[: self._size].copy(),
            "clocks": [self._oldest, self._origin, self._purged_at],
        }

    def restore(self, state: State) -> None:
        self._ids = dict(zip(state["keys"], state["ids"], strict=True))
        self._size = state["size"]
        self._free = state["free"]
        self._openings = [_Opening(instance, None, 0, clock) for instance, clock in state["openings"]]
        self._opening_of = {opening.instance: place for place, opening in enumerate(self._openings)}
        self._told_all, *self._told = state["told"]
        self._seen = state["seen"]
        self._oldest, self._origin, self._purged_at = state["clocks"]
