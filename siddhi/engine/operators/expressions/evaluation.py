"""One evaluation of expressions over the rows of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.language.ast import AttributeType


class Value(NamedTuple):
    """The values of an expression for all rows of a batch, as in `Column`; a constant is one numpy scalar for all rows.

    `valid` is None when no value is null.
    """

    values: Any
    valid: BoolArray | None = None


class FailureReasons:
    """The reasons why rows failed: the first message recorded for each."""

    __slots__ = ("_booked",)

    def __init__(self) -> None:
        self._booked: list[tuple[Int64Array, str]] = []

    def add(self, rows: Int64Array, text: str) -> None:
        """Record `rows` as failed for the reason `text`."""
        self._booked.append((rows, text))

    @property
    def first(self) -> str:
        """The first recorded message, empty if there is none."""
        return self._booked[0][1] if self._booked else ""

    def of(self, rows: Int64Array) -> Iterator[tuple[Int64Array, str]]:
        """Yield the positions in `rows` (all of them recorded) by message."""
        if not len(rows):
            return
        if len(self._booked) == 1:
            yield np.arange(len(rows)), self.first
            return
        numbers: Int64Array = np.zeros(max(int(booked.max()) for booked, _ in self._booked) + 1, dtype=np.int64)
        for number in range(len(self._booked) - 1, -1, -1):
            numbers[self._booked[number][0]] = number
        found = numbers[rows]
        places = np.argsort(found, kind="stable")
        ends = np.flatnonzero(np.diff(found[places])) + 1
        for part in np.split(places, ends):
            yield part, self._booked[int(found[part[0]])][1]

    def through(self, rows: Int64Array) -> FailureReasons:
        """Return the same reasons, with row i in the place of row `rows[i]`."""
        other = FailureReasons()
        other._booked = [(rows[booked], text) for booked, text in self._booked]
        return other

    def and_then(self, later: FailureReasons) -> FailureReasons:
        """Return these reasons, completed by `later` ones for rows without any."""
        other = FailureReasons()
        other._booked = self._booked + later._booked
        return other


class Evaluation:
    """The input of an evaluation over `batch`, and the record of rows that fail.

    `active` masks the rows that count (None means all): only these change the state of aggregates and can fail.
    `groups` gives each row's dense group id, `group_count` how many there are; `fresh` marks rows whose group restarts.
    `outputs` are the query's own output values so far. `read` masks the rows whose outputs are read (None means all):
    an aggregate that is an output may skip its value in all others. `moves` is what rows do to accumulators, if an
    aggregate has planned that: for these `active`, `groups` and `fresh`.
    """

    __slots__ = (
        "active",
        "batch",
        "failed",
        "fresh",
        "group_count",
        "groups",
        "moves",
        "outputs",
        "read",
        "reasons",
        "size",
    )

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
        self.read: BoolArray | None = None
        self.failed: BoolArray | None = None
        self.reasons = _NO_REASONS
        self.moves: tuple[Int64Array, BoolArray | None, Int64Array | None, BoolArray | None] | None = None

    @property
    def message(self) -> str:
        """The error of the first failed row."""
        return self.reasons.first

    def fail(self, rows: BoolArray, message: str) -> None:
        """Record the active ones of `rows` as failed; they do not count from then on."""
        if self.active is not None:
            rows = rows & self.active
        if not rows.any():
            return
        if self.failed is None:
            self.failed, self.reasons = rows, FailureReasons()
        else:
            self.failed = self.failed | rows
        self.reasons.add(np.flatnonzero(rows), message)
        self.active = ~rows if self.active is None else self.active & ~rows

    def fail_each(self, places: Int64Array, messages: Mapping[int, str]) -> None:
        """Record the active rows as failed whose place has a message.

        Args:
            places: Place of each row, -1 for a row that cannot fail.
            messages: Why the rows of a place fail, in the order in which they are recorded.
        """
        if not messages:
            return
        texts = list(dict.fromkeys(messages.values()))
        numbers: Int64Array = np.full(int(places.max()) + 2, -1, dtype=np.int64)  # the last entry belongs to place -1
        order = {text: number for number, text in enumerate(texts)}
        numbers[list(messages)] = [order[text] for text in messages.values()]
        found = numbers[places]
        if self.active is not None:
            found[~self.active] = -1
        failed = found >= 0
        if not failed.any():
            return
        if self.failed is None:
            self.failed, self.reasons = failed, FailureReasons()
        else:
            self.failed = self.failed | failed
        rows = np.flatnonzero(failed)
        rows = rows[np.argsort(found[rows], kind="stable")]
        for part in np.split(rows, np.flatnonzero(np.diff(found[rows])) + 1):
            self.reasons.add(part, texts[found[part[0]]])
        self.active = ~failed if self.active is None else self.active & ~failed

    def from_first(self, rows: BoolArray) -> BoolArray:
        """Return the first of `rows` in each unit of rows that arrived together, and all rows after it in the unit."""
        if not rows.any():
            return rows
        chunks = together(self.batch)
        places = np.flatnonzero(rows)
        firsts = places[np.unique(chunks[places], return_index=True)[1]]
        bounds = np.zeros(self.size + 1, dtype=np.int64)
        bounds[firsts] += 1
        np.subtract.at(bounds, np.searchsorted(chunks, chunks[firsts], side="right"), 1)
        within: BoolArray = np.cumsum(bounds[:-1]) > 0
        return within


_NO_REASONS = FailureReasons()


def together(batch: EventBatch) -> Int64Array:
    """Return non-decreasing numbers that are equal for rows which fail together.

    These are the rows that result from one input chunk, even if they leave in several, or from a chunk that a timer
    releases.
    """
    chunks, orders = batch.chunk_ids(), batch.orders
    numbers: Int64Array = np.zeros(batch.size, dtype=np.int64)
    np.cumsum((orders[1:] != orders[:-1]) | ((orders[1:] & 1 == 0) & (chunks[1:] != chunks[:-1])), out=numbers[1:])
    return numbers


class ExpressionNode(ABC):
    """A compiled expression: `evaluate` returns its value for all rows at once.

    `can_fail` is set if a row may make it fail, `stateful` if its value depends on earlier rows; if neither is set, it
    may also be evaluated for rows that do not need it. `by_row` is set if Python code runs for each row.
    """

    type: AttributeType
    by_row = False
    can_fail = False
    stateful = False

    @abstractmethod
    def evaluate(self, evaluation: Evaluation) -> Value:
        """Return the value for all rows; the value of inactive rows is unspecified."""

    def truth(self, evaluation: Evaluation) -> BoolArray:
        """Return where the value is true (null is false); for expressions of type bool."""
        values, valid = self.evaluate(evaluation)
        if valid is not None:
            values = values & valid
        if values.ndim == 0:
            return np.full(evaluation.size, bool(values))
        truth: BoolArray = values
        return truth

    def passing(self, evaluation: Evaluation) -> Int64Array:
        """Return the rows for which the value is true, in order.

        This is for expressions of type bool that cannot fail.
        """
        rows: Int64Array = self.truth(evaluation).nonzero()[0]
        return rows


def broadcast(value: Value, size: int) -> Value:
    """Return `value` with an array of `size` in place of a scalar."""
    values = value.values
    if values.ndim == 0:
        values = np.full(size, values)
    return Value(values, value.valid)


def to_column(value: Value, type_: AttributeType, pool: StringPool, size: int) -> Column:
    """Return the column of `value` for `size` rows."""
    values, valid = broadcast(value, size)
    if type_ is AttributeType.OBJECT or type_ is AttributeType.STRING:
        return Column(type_, pool, values=values)
    return Column(type_, pool, values=values, valid=valid)


def both_valid(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    """Return where both are not null."""
    if left is None:
        return right
    return left if right is None else left & right


def as_type(values: AnyArray, type_: AttributeType) -> AnyArray:
    """Return numbers as Java widens or narrows them to the dtype of `type_`."""
    dtype = DTYPES[type_]
    return values if values.dtype == dtype else values.astype(dtype)
