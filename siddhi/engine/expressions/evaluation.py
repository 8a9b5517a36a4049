"""One pass of expressions over the rows of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.column import DTYPES, Column
from siddhi.engine.strings import StringPool
from siddhi.language.ast import AttributeType


class Value(NamedTuple):
    """The values of an expression for all rows of a batch, as in `Column`; a constant is one numpy scalar for all rows.

    `valid` is None when no value is null.
    """

    values: Any
    valid: BoolArray | None = None


class Evaluation:
    """What expressions may read while they are evaluated over `batch`, and where they book rows that fail.

    `active` masks the rows that count (None: all): only these change the state of aggregates and only these can fail.
    `groups` gives each row's dense group id, `group_count` how many there are; `fresh` marks rows whose group starts
    anew. `outputs` are the query's own output values so far.
    """

    __slots__ = ("active", "batch", "failed", "fresh", "group_count", "groups", "message", "outputs", "size")

    def __init__(
        self,
        batch: EventBatch,
        active: BoolArray | None = None,
        groups: Int64Array | None = None,
        group_count: int = 1,
        fresh: BoolArray | None = None,
    ) -> None:
        self.batch = batch
        self.size = batch.size
        self.active = active
        self.groups = groups
        self.group_count = group_count
        self.fresh = fresh
        self.outputs: dict[str, Value] = {}
        self.failed: BoolArray | None = None
        self.message = ""

    def fail(self, rows: BoolArray, message: str) -> None:
        """Books the active ones of `rows` as failed; from then on they count no more."""
        if self.active is not None:
            rows = rows & self.active
        if not rows.any():
            return
        if self.failed is None:
            self.failed, self.message = rows, message
        else:
            self.failed = self.failed | rows
        self.active = ~rows if self.active is None else self.active & ~rows

    def from_first(self, rows: BoolArray) -> BoolArray:
        """The first of `rows` in each chunk, and all that is behind it in the chunk."""
        chunks = self.batch.chunks
        if chunks is None or not rows.any():
            return rows
        places = np.flatnonzero(rows)
        firsts = places[np.unique(chunks[places], return_index=True)[1]]
        bounds = np.zeros(self.size + 1, dtype=np.int64)
        bounds[firsts] += 1
        np.subtract.at(bounds, np.searchsorted(chunks, chunks[firsts], side="right"), 1)
        within: BoolArray = np.cumsum(bounds[:-1]) > 0
        return within


class Node(ABC):
    """An expression made ready to run: `evaluate` gives its value for every row at once.

    `can_fail` says that a row may make it fail, `stateful` that its value depends on earlier rows; what is neither may
    be evaluated for rows that do not need it.
    """

    type: AttributeType
    can_fail = False
    stateful = False

    @abstractmethod
    def evaluate(self, evaluation: Evaluation) -> Value:
        """The value for all rows; rows that are not active may hold anything."""

    def truth(self, evaluation: Evaluation) -> BoolArray:
        """Where the value is true (null is false); for expressions of type bool."""
        values, valid = self.evaluate(evaluation)
        if valid is not None:
            values = values & valid
        if values.ndim == 0:
            return np.full(evaluation.size, bool(values))
        truth: BoolArray = values
        return truth

    def passing(self, evaluation: Evaluation) -> Int64Array:
        """The rows for which the value is true, in order; for expressions of type bool that cannot fail."""
        rows: Int64Array = self.truth(evaluation).nonzero()[0]
        return rows


def broadcast(value: Value, size: int) -> Value:
    """`value` with an array of `size` in place of a scalar."""
    values = value.values
    if values.ndim == 0:
        values = np.full(size, values)
    return Value(values, value.valid)


def to_column(value: Value, type_: AttributeType, pool: StringPool, size: int) -> Column:
    """The column of `value` for `size` rows."""
    values, valid = broadcast(value, size)
    if type_ is AttributeType.OBJECT or type_ is AttributeType.STRING:
        return Column(type_, pool, values=values)
    return Column(type_, pool, values=values, valid=valid)


def both_valid(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    """Where both are not null."""
    if left is None:
        return right
    return left if right is None else left & right


def as_type(values: AnyArray, type_: AttributeType) -> AnyArray:
    """Numbers as Java widens or narrows them to the dtype of `type_`."""
    dtype = DTYPES[type_]
    return values if values.dtype == dtype else values.astype(dtype)
