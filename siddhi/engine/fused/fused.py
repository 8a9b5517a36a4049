"""What fused selections of every kind of window share: the lines they hold and the groups they know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.aggregators.accumulators import SOURCES, Accumulators
from siddhi.engine.aggregators.moves import MASK, NARROW, WIDE
from siddhi.engine.arrays import BoolArray, Int64Array
from siddhi.engine.batch import EventBatch, empty_batch
from siddhi.engine.expressions.evaluation import Evaluation, Node, broadcast
from siddhi.engine.expressions.leaves import ColumnNode
from siddhi.engine.fused.group_table import NO_NULL_CODE, NO_ROOM, NULL_CODE, GroupTable
from siddhi.engine.fused.held_rows import HeldRows
from siddhi.engine.fused.shape import Shape
from siddhi.engine.groups import NULL_KEY, NULL_TEXT
from siddhi.engine.hashing import key_bits
from siddhi.engine.kernels import kernel_array
from siddhi.engine.operator import Operator, OperatorContext
from siddhi.engine.state import State
from siddhi.language.ast import AttributeType

NO_NUMBERS: Int64Array = np.zeros(0, dtype=np.int64)


class FusedSelection(Operator):
    """A window and the selection behind it. Nothing in it can fail.

    `first_cells` cells of each group belong to the window itself, the first of which counts the rows of the group;
    `time` is held as the first wide line if it is not None, `kept` as `kept_lines`.
    """

    can_fail = False

    def __init__(
        self, shape: Shape, context: OperatorContext, time: Node | None, first_cells: int, kept: Sequence[Node] = ()
    ) -> None:
        self.shape = shape
        self.columns = dict(shape.columns)
        if isinstance(time, ColumnNode):
            self.columns[time.column] = time.type
        self.pool = context.pool
        self.nothing = _no_rows(shape, context)
        self.groups = GroupTable([type_ is AttributeType.STRING for _, type_ in shape.keys])
        sources, self.coded = ([NARROW], [False]) if shape.keys else ([], [])
        self._nodes: list[tuple[int, Node, bool]] = []
        if time is not None:
            self._line(time, WIDE, sources)
        lines = [-1 if node is None else self._line(node, SOURCES[node.type], sources) for node in shape.arguments]
        self.kept_lines = [self._line(node, SOURCES[node.type], sources) for node in kept]
        self.rows = HeldRows(sources)
        places = [0 if line < 0 else self.rows.places[line] for line in lines]
        self.accumulators = Accumulators(shape.accumulations, places, first_cells)
        self._lines = np.array(lines, dtype=np.int64)
        self._told_nulls = False

    def _line(self, node: Node, source: int, sources: list[int]) -> int:
        """The line that holds the values of `node`, an old one if they are held already."""
        for line, other, _ in self._nodes:
            if isinstance(node, ColumnNode) and isinstance(other, ColumnNode) and node.column == other.column:
                return line
        line = len(sources)
        sources.append(source)
        self.coded.append(node.type is AttributeType.STRING)
        self._nodes.append((line, node, source != NARROW or node.type is not AttributeType.STRING))
        return line

    def put_rows(self, batch: EventBatch, sequence: int) -> None:
        """The arguments and times of the rows of `batch` are held as those of the rows from `sequence` on."""
        rows, columns = self.rows, batch.columns
        for line, node, masked in self._nodes:
            if isinstance(node, ColumnNode):
                column = columns[node.column]
                values, valid = column.values, column.valid if masked else None
            else:
                values, valid = broadcast(node.evaluate(Evaluation(batch)), batch.size)
            rows.put(line, sequence, values)
            if (valid is not None or self._told_nulls) and masked:
                self._put_valid(line, sequence, valid, batch.size)

    def _put_valid(self, line: int, sequence: int, valid: BoolArray | None, count: int) -> None:
        self.rows.put_valid(line, sequence, valid, count)
        if not self._told_nulls:
            self._told_nulls = True
            self.tell_nulls()

    def tell_nulls(self) -> None:
        """Aggregates look at the lines that tell nulls."""
        strings = np.array([line >= 0 and self.coded[line] for line in self._lines.tolist()], dtype=np.bool_)
        self.accumulators.plan[:, MASK] = np.where(strings, -1, self._lines)

    def keys(self, batch: EventBatch) -> Int64Array:
        """The parts of the keys of the rows, one after the other."""
        keys = self.shape.keys
        if not keys:
            return NO_NUMBERS
        if len(keys) == 1:
            return self._key(batch, *keys[0])
        return np.concatenate([self._key(batch, name, type_) for name, type_ in keys])

    def _key(self, batch: EventBatch, name: str, type_: AttributeType) -> Int64Array:
        column = batch.columns[name]
        if type_ is not AttributeType.STRING:
            return kernel_array(key_bits(column.values, column.valid, NULL_KEY))
        codes: Int64Array = column.values
        if len(self.shape.keys) > 1 and column.valid is not None:
            codes = np.where(codes < 0, self.pool.code(NULL_TEXT), codes)
        return kernel_array(codes)

    def make_room(self, lack: int, rows: int, *, forget: bool) -> None:
        """There is more of what the loop lacked for `rows` rows; groups without rows may go if `forget`."""
        if lack == NO_NULL_CODE:
            self.groups.state[NULL_CODE] = self.pool.code(NULL_TEXT)
        elif lack == NO_ROOM:
            count = self.groups.capacity
            held = self.accumulators.cells[:count, 0] > 0 if forget else np.ones(count, dtype=np.bool_)
            self.groups.make_room(held, len(self.pool))
            self.accumulators.grow_groups(self.groups.capacity)
        else:
            self.accumulators.make_room(rows)

    def restore_rows(self, first: int, end: int, state: State) -> None:
        """The rows [first, end) are those of a `HeldRows.snapshot`."""
        self.rows.restore(first, end, state)
        self.restore_nulls()

    def forget_partitions(self, partitions: Int64Array) -> Int64Array | None:
        """Nothing is kept for partition instances: the new numbers of groups are None."""
        return None

    def restore_nulls(self) -> None:
        """Aggregates look at the lines that tell nulls just where there are any."""
        self._told_nulls = len(self.rows.valid) > 0
        self.accumulators.plan[:, MASK] = -1
        if self._told_nulls:
            self.tell_nulls()


def _no_rows(shape: Shape, context: OperatorContext) -> EventBatch:
    return empty_batch(tuple((name, type_) for name, type_, _ in shape.outputs.outputs), context.pool)
