"""The interface of windows, and the context for building them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.implementations import Implementations
from siddhi.engine.operators.base.operator import Operator, OperatorContext, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, to_column
from siddhi.engine.operators.expressions.leaves import scalar_or_none
from siddhi.language.ast import AttributeType

BEYOND_REACH = 1 << 61
"""Milliseconds far beyond the time of any event: two such numbers can be added without overflow."""


@dataclass(frozen=True, slots=True)
class WindowContext:
    """The environment of a window when it is built.

    `columns` are the attributes that its readers need, with their types; `expired` is set if expired events or the
    contents of the window are read; otherwise batch windows need not keep their last batch. `selected` names the
    attributes that the query selects as they are; `shows_expired` is set if expired events are emitted, rather than
    only searched.
    """

    call: model.HandlerCall
    operator: OperatorContext
    columns: Mapping[str, AttributeType]
    expired: bool
    compiler: ExpressionCompiler
    selected: tuple[str, ...]
    shows_expired: bool = True

    def arguments(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes of the arguments."""
        return tuple(self.compiler.compile(argument) for argument in self.call.arguments)

    def constants(self) -> list[object]:
        """Return the plain values of the arguments, None for those that are not constants.

        A time or number beyond the range of any window is `BEYOND_REACH`, so that an event's time and a duration can be
        added.
        """
        return [saturated(scalar_or_none(node)) for node in self.arguments()]


def saturated(value: object) -> object:
    """Return `value`, or `BEYOND_REACH` for larger integers."""
    return min(value, BEYOND_REACH) if isinstance(value, int) and not isinstance(value, bool) else value


class WindowOperator(Operator):
    """A window, which receives current rows and returns current, expired and reset rows in chunks.

    Timestamps of expired rows are the time of expiry (see `note_look`). The rows of a window are in `store`; joins read
    them with `look`, on-demand queries with `contents`. `expires_if_wanted` marks windows that need not emit expired
    events if these are neither subtracted nor shown.
    """

    expires_if_wanted = False
    reports_moves = False
    """Whether a read shows exactly the rows that were emitted as current and not yet as expired."""
    keeps_moves = False
    """Whether `moves` keeps the last output."""
    moves: Int64Array = np.empty((6, 0), dtype=np.int64)
    """The emission of the last step (`siddhi.engine.operators.windows.base.emission`), if it is kept."""
    shows_rows = True
    """Whether a read of the window shows rows."""
    store: RowStore

    @property
    def notes_looks(self) -> bool:
        """Whether rows that were read expire with their own timestamp."""
        return False

    def visible(self) -> Int64Array:
        """Return the sequence numbers of the rows that a read of the window shows."""
        return np.arange(self.store.first, self.store.end)

    def contents(self) -> tuple[Int64Array, dict[str, Column]]:
        """Return the timestamps and columns of the rows that a reader of the window sees, in order.

        Nothing changes.
        """
        return self.rows_at(self.visible())

    def look(self) -> tuple[Int64Array, dict[str, Column]]:
        """Return the rows as `contents` does, for a query of the app.

        The window may treat rows that were read differently from then on.
        """
        sequences = self.visible()
        if len(sequences):
            self.note_look(sequences)
        return self.rows_at(sequences)

    def shown_lately(self, left: Int64Array, came: Int64Array) -> Int64Array:
        """Return the numbers of the rows that a read at any moment of the last step showed, in the order of a read.

        In that step the window emitted the rows `came` as current and `left` as expired.
        """
        return np.union1d(self.visible(), left)

    def ranks_lately(self, rows: Int64Array) -> tuple[Int64Array, bool] | None:
        """Return the positions of these rows in a read since the first row has left, and whether one had left before.

        Return None for windows that always show rows in order of arrival.
        """
        return None

    def rows_at(self, sequences: Int64Array) -> tuple[Int64Array, dict[str, Column]]:
        """Return the timestamps and columns of rows that are in the store, or left it in the last step."""
        stamps, offset = self.store.timestamps()
        return stamps[sequences - offset], self.store.take(sequences)

    def note_look(self, sequences: Int64Array) -> None:
        """Record that the rows `sequences` were read.

        Rows of a batch that were read expire with their own time, as in Siddhi, rows of other windows with the time
        of expiry.
        """

    @abstractmethod
    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        """Return the output for `batch` (current rows only) and due timers."""

    def state_size(self) -> StateSize:
        return StateSize(rows=self.store.end - self.store.first, bytes=held_bytes(self))

    def snapshot(self) -> State:
        return {"store": self.store.snapshot(), "own": self.own_state()}

    def restore(self, state: State) -> None:
        self.store.restore(state["store"])
        self.restore_own(state["own"])

    def own_state(self) -> State:
        """Return the window's state besides its rows."""
        return None

    def restore_own(self, state: State) -> None:
        """Restore the state that `own_state` returned."""


def with_time(batch: EventBatch, time: ExpressionNode, name: str, pool: StringPool) -> EventBatch:
    """Return `batch` with the values of `time` (a long for every row) as column `name`.

    Times too large to add a duration to are clipped to the nearest possible value.
    """
    values, valid = time.evaluate(Evaluation(batch))
    column = to_column(Value(np.clip(values, -BEYOND_REACH, BEYOND_REACH), valid), AttributeType.LONG, pool, batch.size)
    return batch.with_columns({**batch.columns, name: column})


WindowFactory = Callable[[WindowContext], WindowOperator]
WINDOWS: Implementations[WindowFactory] = Implementations("window")

_STORE_EVERY_EVENT = frozenset(
    {"length", "lengthBatch", "time", "timeBatch", "timeLength", "batch", "delay", "cron", "sort", "frequent"}
)


def may_reject(call: model.HandlerCall) -> bool:
    """Return whether events may fail in the window that `call` names."""
    return bool(call.namespace) or call.name not in _STORE_EVERY_EVENT
