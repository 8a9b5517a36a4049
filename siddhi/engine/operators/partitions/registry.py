"""The instances of a partition: keys with an instance, new ones, and idle ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.java_order import hash_places, string_hashes
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import CodeChange, NotByKeyError, State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, BoolArray, Int64Array, filled
from siddhi.engine.jit.kernels import grown, state_kernel
from siddhi.engine.operators.base.operator import NEVER, Stateful, Step

_NONE = -1

_INSTANCE, _ORDER, _CLOCK = range(3)
"""The lines of opened instances: the instance, and the order and clock of the row that opened it."""
_NOTHING_OPENED: Int64Array = np.zeros((3, 0), dtype=np.int64)


@state_kernel
def _first_rows(codes, first, rows):  # type: ignore[no-untyped-def]
    """Write the first row of each code from `first` on; return them in order of first appearance."""
    found = 0
    for row in range(len(codes)):
        if codes[row] == first + found:
            rows[found] = row
            found += 1


@dataclass(frozen=True, slots=True)
class PurgeRule:
    """Every `interval_ms` from the app's start, instances without an event for `idle_ms` are dropped."""

    interval_ms: int
    idle_ms: int


class PartitionInstances(Stateful):
    """The instances of one partition: each active key text has an id, dense from 0.

    Ids of dropped instances are reused. Keys are stored in a separate string pool, whose codes are in order of arrival;
    no Python object is stored for a key. Queries that wait for new instances are listeners, which are notified of each
    opening once.
    """

    def __init__(self, purge: PurgeRule | None = None) -> None:
        self.purge = purge
        self._keys = StringPool()
        self._ids: Int64Array = filled(64, _NONE)
        self._size = 0
        self._free: Int64Array = NO_POSITIONS
        self._opened: Int64Array = _NOTHING_OPENED
        self._opened_in: Step | None = None
        self._untold: dict[str, int] = {}
        self._order: list[int] | None = None
        self._ranks: Int64Array | None = None
        self._hashes: Int64Array = NO_POSITIONS
        """The Java hash codes of the keys, as far as they have been requested."""
        self._seen: Int64Array = NO_POSITIONS
        self._oldest: int | None = None
        self._origin = 0
        self._purged_at: int | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def start(self, clock_ms: int) -> None:
        self._origin = clock_ms

    def ids_of(self, keys: pa.StringArray, step: Step, orders: Int64Array, clocks: Int64Array) -> Int64Array:
        """Return the id of the instance for each of `keys` (no nulls); the first row of a new key opens its instance.

        Keys belong to rows of `orders` and `clocks` in `step`.
        """
        before = len(self._keys)
        codes = self._keys.encode(keys)
        if len(self._keys) > before:
            self._ids = grown(self._ids, len(self._keys), _NONE)
            first: Int64Array = np.empty(len(self._keys) - before, dtype=np.int64)
            _first_rows(codes, before, first)
            self._open(before, step, orders[first], clocks[first])
        ids: Int64Array = self._ids[codes]
        return ids

    def _open(self, first: int, step: Step, orders: Int64Array, clocks: Int64Array) -> None:
        """Open instances for the keys from code `first` on.

        The i-th is opened by a row of `orders[i]` and `clocks[i]`.
        """
        count = len(orders)
        again = min(count, len(self._free))
        fresh = np.arange(self._size, self._size + count - again)
        instances = np.concatenate([self._free[len(self._free) - again :][::-1], fresh])
        self._free = self._free[: len(self._free) - again]
        self._size += len(fresh)
        self._ids[first : first + count] = instances
        self._order = self._ranks = None
        self._turn_to(step)
        self._opened = np.concatenate([self._opened, [instances, step.of_whole(orders), clocks]], axis=1)
        for listener in self._untold:
            self._untold[listener] += count
        if self.purge is not None:
            self._seen = grown(self._seen, self._size)
            self._seen[instances] = clocks
            first_clock = int(clocks.min())
            self._oldest = first_clock if self._oldest is None else min(self._oldest, first_clock)

    def _turn_to(self, step: Step) -> None:
        """Record that instances from other steps were opened before all rows of `step`."""
        if self._opened_in is not step.whole:
            self._opened_in = step.whole
            self._opened[_ORDER] = 0

    # ---- order

    def ranks(self) -> Int64Array:
        """Return the rank of each id in Siddhi's iteration order of keys."""
        if self._ranks is None:
            count = len(self)
            if len(self._hashes) < count:
                texts = self._keys.texts(np.arange(len(self._hashes), count))
                self._hashes = np.concatenate([self._hashes, string_hashes([text or "" for text in texts])])
            self._ranks = np.zeros(self._size, dtype=np.int64)
            self._ranks[self._ids[:count]] = hash_places(self._hashes, count) << 32 | np.arange(count)
        return self._ranks

    def in_order(self) -> list[int]:
        """Return all ids in Siddhi's iteration order of keys."""
        if self._order is None:
            ids = self._ids[: len(self)]
            self._order = ids[np.argsort(self.ranks()[ids])].tolist()
        return self._order

    # ---- new instances

    def add_listener(self, name: str) -> None:
        """Notify the query `name` of all new instances from now on."""
        self._untold[name] = 0

    def has_news(self, listener: str) -> bool:
        """Return whether there are instances of which `listener` has not been notified."""
        return self._untold[listener] > 0

    def tell(self, listener: str, step: Step) -> Step:
        """Return `step` with the instances of which `listener` had not been notified, and mark them as notified."""
        if not self.has_news(listener):
            return step
        self._turn_to(step)
        new = self._opened[:, self._opened.shape[1] - self._untold[listener] :]
        self._untold[listener] = 0
        if not any(self._untold.values()):
            self._opened = _NOTHING_OPENED
        instances, orders, clocks = new[:, np.argsort(new[_ORDER], kind="stable")]
        return step.with_opened(instances, step.distinct_orders(orders), clocks)

    def announce_all(self, listener: str, clock: int) -> None:
        """Announce all instances to `listener`, which knows of none, as if they had been opened at `clock`."""
        ids = self._ids[: len(self)]
        others = np.sort(ids[~np.isin(ids, self._opened[_INSTANCE])])
        lines: Int64Array = np.zeros((3, len(others)), dtype=np.int64)
        lines[_INSTANCE], lines[_CLOCK] = others, clock
        self._opened = np.concatenate([lines, self._opened], axis=1)
        self._untold[listener] = self._opened.shape[1]

    def watch(self, clock: int) -> None:
        """Start to record the times of events: existing instances count as active at `clock`."""
        if self.purge is not None and len(self._seen) < self._size:
            self._seen = filled(self._size, clock)
            self._oldest = clock if len(self) else None

    # ---- redistribution

    @property
    def settled(self) -> bool:
        """True when every listener has been notified of all instances."""
        return not any(self._untold.values())

    def keys(self) -> tuple[list[str], Int64Array]:
        """Return the text of every active key, and its id."""
        return [text or "" for text in self._keys.texts(np.arange(len(self)))], self._ids[: len(self)]

    def drop(self, ids: Int64Array) -> None:
        """Drop the instances `ids`, of which all listeners have been notified."""
        self._keep(~np.isin(self._ids[: len(self)], ids), ids)
        if self.purge is not None:
            self._note_oldest()

    def _keep(self, kept: BoolArray, gone: Int64Array) -> None:
        """Keep only the keys `kept`; the ids `gone` become free."""
        self._ids = self._ids[: len(self)][kept]
        self._keys.compact(np.flatnonzero(kept))
        self._free = np.concatenate([self._free, gone])
        self._hashes = self._hashes[kept[: len(self._hashes)]]
        self._order = self._ranks = None

    def _note_oldest(self) -> None:
        ids = self._ids[: len(self)]
        self._oldest = int(self._seen[ids].min()) if len(ids) else None

    def numbers(self, first: int) -> Int64Array:
        """Return the new id of each id when active ones are numbered from `first` on; -1 for free ids."""
        ids = np.sort(self._ids[: len(self)])
        numbers: Int64Array = filled(self._size, _NONE)
        numbers[ids] = np.arange(first, first + len(ids))
        return numbers

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return one state of all `states`, as operators do.

        Purges keep the schedule of the first instances, and come no sooner after the last purge than they should. Raise
        `NotByKeyError` when two states have the same key.
        """
        size = int(max(numbers.max(initial=_NONE) for numbers in ids)) + 1
        keys, seen = StringPool(), np.zeros(size, dtype=np.int64)
        own = []
        for state, numbers in zip(states, ids, strict=True):
            part = StringPool()
            part.restore(state["keys"])
            keys.absorb(part)
            own.append(numbers[state["ids"]])
            if len(state["seen"]):
                there = np.flatnonzero(numbers >= 0)
                seen[numbers[there]] = state["seen"][there]
        if len(keys) < size:
            raise NotByKeyError
        oldest, origins, purged = zip(*(state["clocks"] for state in states), strict=True)
        return {
            "keys": keys.snapshot(),
            "ids": np.concatenate(own),
            "size": size,
            "free": NO_POSITIONS.copy(),
            "opened": _NOTHING_OPENED.copy(),
            "untold": {},
            "seen": seen if self.purge is not None else NO_POSITIONS.copy(),
            "clocks": [
                min((time for time in oldest if time is not None), default=None),
                min(origins),
                max((time for time in purged if time is not None), default=None),
            ],
        }

    # ---- events of instances

    def opened_in(self, step: Step) -> bool:
        """Return whether `step` has opened instances so far."""
        return self._opened_in is step.whole and self._opened.shape[1] > 0

    def note_events(self, batch: EventBatch, step: Step, *, brings_forward: bool) -> None:
        """Record that the rows of `batch` are events of their own instances.

        With `brings_forward` some of these may have been opened by rows of other streams that came later in the step.
        """
        instances = batch.partitions
        assert instances is not None  # noqa: S101 - the caller has looked them up
        if brings_forward:
            self._bring_forward(batch.with_orders(step.of_whole(batch.orders)), instances)
        if self.purge is not None:
            np.maximum.at(self._seen, instances, batch.clocks)

    def _bring_forward(self, batch: EventBatch, instances: Int64Array) -> None:
        """Correct openings for which another stream of the partition had the key earlier in the step."""
        present, first = np.unique(instances, return_index=True)
        _, places, found = np.intersect1d(self._opened[_INSTANCE], present, return_indices=True)
        rows = first[found]
        earlier = batch.orders[rows] < self._opened[_ORDER, places]
        places, rows = places[earlier], rows[earlier]
        self._opened[_ORDER, places] = batch.orders[rows]
        self._opened[_CLOCK, places] = batch.clocks[rows]

    # ---- idle instances

    def next_purge_ms(self, opening_clock: int | None = None) -> int:
        """Return the earliest time of the next purge, `NEVER` when there is none.

        Instances may be opened from `opening_clock` on.
        """
        clocks = [clock for clock in (self._oldest, opening_clock) if clock is not None]
        if self.purge is None or not clocks:
            return NEVER
        ticks = -(-(min(clocks) + self.purge.idle_ms - self._origin) // self.purge.interval_ms)
        due = self._origin + ticks * self.purge.interval_ms
        return due if self._purged_at is None else max(due, self._purged_at + self.purge.interval_ms)

    def give_up(self, clock: int) -> Int64Array:
        """Drop the instances that are idle at a purge at `clock`.

        Return their ids, which may be reused. An instance of which some listener has not been notified stays until the
        next purge.
        """
        if self.purge is None:
            return NO_POSITIONS
        self._purged_at = clock
        idle = self._seen[: self._size] <= clock - self.purge.idle_ms
        idle[self._opened[_INSTANCE]] = False
        ids = self._ids[: len(self)]
        gone = ids[idle[ids]]
        if len(gone):
            self._keep(~idle[ids], gone)
        self._note_oldest()
        return gone

    def state_size(self) -> StateSize:
        return StateSize(instances=len(self), bytes=held_bytes(self) + self._keys.bytes_held)

    def live_codes(self) -> Iterator[Int64Array]:
        return iter(())

    def recode(self, change: CodeChange) -> None:
        """Do nothing: keys have separate codes."""

    # ---- snapshot

    def snapshot(self) -> State:
        return {
            "keys": self._keys.snapshot(),
            "ids": self._ids[: len(self)].copy(),
            "size": self._size,
            "free": self._free.copy(),
            "opened": self._opened.copy(),
            "untold": dict(self._untold),
            "seen": self._seen[: self._size].copy(),
            "clocks": [self._oldest, self._origin, self._purged_at],
        }

    def restore(self, state: State) -> None:
        self._keys.restore(state["keys"])
        self._ids, self._size, self._free = state["ids"], state["size"], state["free"]
        self._opened, self._opened_in = state["opened"], None
        self._order, self._ranks, self._hashes = None, None, NO_POSITIONS
        self._untold = {name: state["untold"].get(name, 0) for name in self._untold}
        self._seen = state["seen"]
        self._oldest, self._origin, self._purged_at = state["clocks"]
