"""The events of a batch as arrays for the compiled loops of chains.

    batch of source 0   │t t t│              whole      EVENT_TIME      t t t u u        fractions   1.5 2.0 …
    batch of source 1       │u u│            (int64)    EVENT_SOURCE    0 0 0 1 1        (float64)
                                                        EVENT_NULLS     0 2 0 0 0
    order               0 3 1 2 4                       column 0        7 7 9 8 3

The arrays are kept from batch to batch: a new one costs more than the few events of a small batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import EXPIRED
from siddhi.engine.jit.arrays import NO_POSITIONS, AnyArray, BoolArray, Int64Array
from siddhi.engine.operators.base.operator import MergedRows, OperatorContext
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, as_type, broadcast
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.patterns.chain.memory import (
    EVENT_COLUMNS,
    EVENT_INSTANCE,
    EVENT_NULLS,
    EVENT_SOURCE,
    EVENT_TIME,
    ChainEvents,
)
from siddhi.engine.tuning import INITIAL_EVENT_ROOM
from siddhi.language.ast import AttributeType


@dataclass(frozen=True, slots=True)
class EventColumn:
    """An expression over one event of `source`, for all rows at once; `name` is set when it is just an attribute."""

    source: int
    type: AttributeType
    node: ExpressionNode
    name: str | None

    def fill(self, target: AnyArray, batch: EventBatch, evaluation: Evaluation | None) -> BoolArray | None:
        """Write the values into `target`; return a mask of those that are not null.

        Return None when there are no nulls, or for codes, which mark nulls themselves.
        """
        if self.name is not None:
            column = batch.columns[self.name]
            target[:] = column.values
            return None if self.type is AttributeType.STRING else column.valid
        assert evaluation is not None  # noqa: S101 - there is one where a column is computed
        values, valid = broadcast(self.node.evaluate(evaluation), batch.size)
        target[:] = as_type(values, self.type) if self.type in NUMERIC else values
        return None if self.type is AttributeType.STRING else valid


class EventColumns:
    """The numbered expressions over one event that conditions need, integers and floats separately."""

    def __init__(self, sources: Sequence[int], context: OperatorContext) -> None:
        self._sources = sources
        self._context = context
        self._known: dict[tuple[object, ...], int] = {}
        self.whole: list[EventColumn] = []
        self.fractions: list[EventColumn] = []

    def column(self, slot: int, expression: model.TypedExpression, type_: AttributeType) -> int:
        """Return the number of the column with `expression`, converted to `type_`, over events of `slot`."""
        source = self._sources[slot]
        name = None
        if isinstance(expression, model.AttributeValue) and expression.type is type_:
            name = expression.name
        key = (source, name or (slot, expression), type_)
        if key not in self._known:
            columns = self.fractions if type_ in (AttributeType.FLOAT, AttributeType.DOUBLE) else self.whole
            self._known[key] = len(columns)
            node = ExpressionCompiler(self._context).compile(expression)
            columns.append(EventColumn(source, type_, node, name))
        return self._known[key]

    @property
    def texts(self) -> Int64Array:
        """The integer columns that contain codes of strings."""
        found = [number for number, column in enumerate(self.whole) if column.type is AttributeType.STRING]
        return np.array(found, dtype=np.int64)


class EventReader:
    """Reads the batches of `sources` inputs into `events`, which are valid until the next `read`."""

    def __init__(self, columns: EventColumns, sources: int) -> None:
        self._whole = [(EVENT_COLUMNS + number, number, column) for number, column in enumerate(columns.whole)]
        self._fractions = [
            (number, len(columns.whole) + number, column) for number, column in enumerate(columns.fractions)
        ]
        self.computed = any(column.name is None for column in (*columns.whole, *columns.fractions))
        """Whether conditions read more than attributes."""
        self._sources = sources
        self._null_bits = bool(len(columns.texts))
        self._make_room(INITIAL_EVENT_ROOM)

    def _make_room(self, count: int) -> None:
        whole = np.zeros((EVENT_COLUMNS + len(self._whole), count), dtype=np.int64)
        self.events = ChainEvents(NO_POSITIONS, whole, np.zeros((len(self._fractions), count), dtype=np.float64))

    def read(self, inputs: MergedRows, offsets: Sequence[int]) -> tuple[int, Int64Array | None]:
        """Read the events of `inputs`, the batch of source s from `offsets[s]` on, into `events`.

        Return their number, and the position of each among all rows if some rows are not events.
        """
        total = offsets[-1]
        if total > self.events.whole.shape[1]:
            self._make_room(2 * total)
        if self._null_bits:
            self.events.whole[EVENT_NULLS, :total] = 0
        only_events = True
        for source, batch in enumerate(inputs.batches):
            if batch.size:
                self._read_batch(source, batch, offsets[source])
                only_events = only_events and (batch.only_current or int(batch.kinds.max()) <= EXPIRED)
        several = len(inputs.batches) > 1
        order = inputs.rows + np.asarray(offsets)[inputs.sources] if several else NO_POSITIONS
        if only_events:
            places, count = None, total
        else:
            places = self._events_among(inputs)
            order, count = order[places] if several else places, len(places)
        if order is not self.events.order:
            self.events = self.events._replace(order=order)
        return count, places

    def attributes(self, source: int) -> list[str]:
        """Return the attributes of `source` that are read, where none is computed."""
        columns = [column for _, _, column in (*self._whole, *self._fractions)]
        return [column.name for column in columns if column.source == source and column.name is not None]

    def read_values(
        self, source: int, timestamps: Int64Array, values: Mapping[str, AnyArray], instances: Int64Array | None
    ) -> None:
        """Read the events of one source, as `read` does; in a partition they belong to these `instances`.

        There are at most `INITIAL_EVENT_ROOM`; no attribute is computed, and only codes may be null.
        """
        rows = len(timestamps)
        _, whole, fractions = self.events
        whole[EVENT_TIME, :rows] = timestamps
        if instances is not None:
            whole[EVENT_INSTANCE, :rows] = instances
        if self._null_bits:
            whole[EVENT_NULLS, :rows] = 0
        if self._sources > 1:
            whole[EVENT_SOURCE, :rows] = source
        for columns, target in ((self._whole, whole), (self._fractions, fractions)):
            for row, _, column in columns:
                if column.source == source and column.name is not None:
                    target[row, :rows] = values[column.name]
        if len(self.events.order):
            self.events = self.events._replace(order=NO_POSITIONS)

    def _events_among(self, inputs: MergedRows) -> Int64Array:
        """Return the positions of the rows that are events, neither resets nor timers."""
        counts = np.zeros(inputs.size, dtype=np.bool_)
        for source, batch in enumerate(inputs.batches):
            own = inputs.sources == source
            counts[own] = batch.kinds[inputs.rows[own]] <= EXPIRED
        return np.flatnonzero(counts)

    def _read_batch(self, source: int, batch: EventBatch, start: int) -> None:
        stop = start + batch.size
        _, whole, fractions = self.events
        whole[EVENT_TIME, start:stop] = batch.timestamps
        if self._sources > 1:
            whole[EVENT_SOURCE, start:stop] = source
        if batch.partitions is not None:
            whole[EVENT_INSTANCE, start:stop] = batch.partitions
        evaluation = Evaluation(batch) if self.computed else None
        for columns, target in ((self._whole, whole), (self._fractions, fractions)):
            for row, bit, column in columns:
                if column.source == source:
                    valid = column.fill(target[row, start:stop], batch, evaluation)
                    if valid is not None:
                        self._null_bits = True
                        whole[EVENT_NULLS, start:stop] |= (~valid).astype(np.int64) << bit
