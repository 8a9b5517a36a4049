"""The two sides of a join, and the rows that each shows to the events of the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import EXPIRED
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.operators.base.operator import Operator, Step
from siddhi.engine.operators.base.scope import slot_column
from siddhi.engine.operators.expressions.aggregation import AggregateNode
from siddhi.engine.operators.expressions.evaluation import FailureReasons
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.windows.base.window import WindowOperator
from siddhi.language.ast import AttributeType

if TYPE_CHECKING:
    from siddhi.engine.operators.named_window import NamedWindow

Fetch = Callable[[str, Int64Array], Column]
"""Returns an attribute of the rows at some positions."""


class JoinFailures(NamedTuple):
    """The events that fail when they are joined with rows of the other side, and their errors."""

    events: BoolArray
    reasons: FailureReasons


class Held(ABC):
    """Rows that do not change while the events of the other side probe them.

    `aggregates` are those of the condition that read these rows.
    """

    aggregates: Sequence[AggregateNode] = ()

    @abstractmethod
    def meet(self, side: Side, events: EventBatch, rows: Int64Array | None) -> tuple[Pairs, Fetch, JoinFailures | None]:
        """Return the pairs of `events` of `side` and stored rows, a reader of these rows, and the failed events.

        `rows` are the positions of the events, None for all. The last item is None when no event fails.
        """


@dataclass(slots=True)
class Side:
    """One side of a join; `chain` runs before the window.

    `bare` marks a stream without a window, whose events arrive, expire and are reset at once. `types` are the
    attributes that the query reads of the side, `selected` those that it reads once the pairs are found, each with its
    output column. With `keeps_unmatched` an event of this side without a match is output with nulls; with
    `hides_expired` the window keeps its last batch only for the other side, or expired events of a stream without a
    window are not read. `held` is what events of the other side are joined with. `nothing` has no rows, and all
    attributes that enter the window, which may read more of them than the query. `moves` is the named window that the
    side refers to, if it reports every row that enters and leaves.
    """

    slot: int
    source: str | None
    chain: list[Operator]
    window: WindowOperator | None
    held: Held
    types: Mapping[str, AttributeType]
    selected: tuple[tuple[str, str], ...]
    triggers: bool
    keeps_unmatched: bool
    pool: StringPool
    nothing: EventBatch
    bare: bool = False
    hides_expired: bool = False
    moves: NamedWindow | None = None

    @property
    def is_quiet(self) -> bool:
        """True when the stored rows do not change while the join runs."""
        return self.window is None and not self.bare

    def arriving(self, batch: EventBatch, step: Step) -> EventBatch:
        """Return the output of the handlers before the window for `batch`, with all columns that are read.

        The batch may be empty.
        """
        for operator in self.chain:
            if not batch.size:
                return self.nothing
            batch = operator.process(batch, step)
        return batch

    def let_out(self, batch: EventBatch, step: Step) -> EventBatch:
        """Return the output of the window when `batch` arrives; `batch` itself without a window."""
        if self.window is None:
            return batch
        rows = self.window.process(batch, step)
        if not self.hides_expired or rows.only_current:
            return rows
        return rows.take((rows.kinds != EXPIRED).nonzero()[0])

    def named(self, rows: EventBatch) -> EventBatch:
        """Return rows of this side with their columns named by slot."""
        return rows.with_columns({slot_column(self.slot, name): rows.columns[name] for name in self.types})

    def attribute(self, column: str) -> str:
        """Return the attribute of this side that `column` refers to."""
        return column.removeprefix(slot_column(self.slot, ""))

    def is_due(self, now_ms: int) -> bool:
        """Return whether the window has a timer due by `now_ms`."""
        due = None if self.window is None else self.window.next_deadline_ms()
        return due is not None and due <= now_ms


def with_nulls(column: Column, missing: BoolArray) -> Column:
    """Return `column` with nulls where `missing`."""
    if column.type is AttributeType.STRING:
        return Column(column.type, column.pool, values=np.where(missing, NULL_CODE, column.values))
    if column.type is AttributeType.OBJECT:
        values = column.values.copy()
        values[missing] = None
        return Column(column.type, column.pool, values=values)
    valid = ~missing if column.valid is None else column.valid & ~missing
    return Column(column.type, column.pool, values=column.values, valid=valid)
