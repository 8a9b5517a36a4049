"""The size of state: exact counts, and an estimate of its bytes from a sample."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import pyarrow as pa

from siddhi.engine.jit.arrays import AnyArray
from siddhi.engine.tuning import STATE_SIZE_SAMPLE_ITEMS

_NUMBER_BYTES = 32
_OBJECT_BYTES = 56
_STATELESS = (
    "siddhi.analysis",
    "siddhi.language",
    "siddhi.engine.operators.expressions",
    "siddhi.engine.operators.functions",
)
"""Packages of classes that operators refer to but that are not part of their state."""
_SHARED = (
    "siddhi.engine.columnar.strings",
    "siddhi.engine.operators.tables",
    "siddhi.engine.operators.named_window",
    "siddhi.engine.operators.environment",
    "siddhi.engine.operators.partitions.registry",
    "siddhi.engine.operators.partitions.place",
    "siddhi.engine.operators.base.operator",
)
"""Packages of classes whose state is counted with its owner."""


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of the state of a part of an app.

    It counts events (rows), groups, partial matches of patterns (and how many were dropped as too many), values that
    `distinctCount` and `unionSet` distinguish, partition instances, and an estimate of bytes.
    """

    rows: int = 0
    groups: int = 0
    partial_matches: int = 0
    dropped_partial_matches: int = 0
    distinct_values: int = 0
    instances: int = 0
    bytes: int = 0

    def __add__(self, other: StateSize) -> StateSize:
        """Return the sum of each measure."""
        return StateSize(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    def scaled(self, whole: int, part: int) -> StateSize:
        """Return the size of `whole` items, extrapolated from `part` items of this size."""
        return StateSize(*(getattr(self, name.name) * whole // max(part, 1) for name in fields(self)))


Thing = TypeVar("Thing")


def total(sizes: Iterable[StateSize]) -> StateSize:
    """Return the sum of all `sizes`."""
    return sum(sizes, StateSize())


def sampled(things: Sequence[Thing]) -> Sequence[Thing]:
    """Return `things`, or an evenly distributed sample if there are many."""
    return things if len(things) <= STATE_SIZE_SAMPLE_ITEMS else things[:: len(things) // STATE_SIZE_SAMPLE_ITEMS]


def held_bytes(thing: object) -> int:
    """Estimate the bytes that only `thing` keeps alive: its arrays in full, Python objects by a sample.

    Compiled expressions, descriptions of the app, tables, named windows and the string pool are left out, because many
    objects refer to them.
    """
    walk = _Measurement()
    return walk.measure(thing) if isinstance(thing, tuple) else walk.inside(thing)


class _Measurement:
    def __init__(self) -> None:
        self._seen: set[int] = set()

    def measure(self, thing: object) -> int:
        if thing is None or isinstance(thing, bool):
            return 0
        if isinstance(thing, int | float):
            return _NUMBER_BYTES
        if isinstance(thing, str | bytes | np.generic):
            return sys.getsizeof(thing)
        if id(thing) in self._seen:
            return 0
        self._seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            return self._array(thing)
        if isinstance(thing, pa.Array | pa.RecordBatch):
            return thing.nbytes  # type: ignore[no-any-return]
        if isinstance(thing, list | tuple | deque | set | frozenset):
            return self._many(sys.getsizeof(thing), len(thing), thing)
        if isinstance(thing, dict):
            pairs = itertools.chain.from_iterable(thing.items())
            return self._many(sys.getsizeof(thing), 2 * len(thing), pairs)
        module = type(thing).__module__
        if not module.startswith("siddhi.") or module.startswith(_STATELESS) or module.startswith(_SHARED):
            return 0
        return self.inside(thing)

    def _array(self, array: AnyArray) -> int:
        owner = array if array.base is None else array.base
        if owner is not array and isinstance(owner, np.ndarray):
            return self.measure(owner)
        boxes = self._many(0, len(array), array.flat) if array.dtype == object else 0
        return array.nbytes + boxes

    def _many(self, own: int, count: int, items: Iterable[object]) -> int:
        if count <= 2 * STATE_SIZE_SAMPLE_ITEMS:
            return own + sum(map(self.measure, items))
        looked_at = list(itertools.islice(items, 2 * STATE_SIZE_SAMPLE_ITEMS))
        return own + sum(map(self.measure, looked_at)) * count // len(looked_at)

    def inside(self, thing: object) -> int:
        """Return the bytes of an object and of its attributes."""
        names = itertools.chain(
            getattr(thing, "__dict__", ()),
            *(getattr(kind, "__slots__", ()) for kind in type(thing).__mro__),
        )
        return _OBJECT_BYTES + sum(self.measure(getattr(thing, name, None)) for name in names)
