"""Common parts of fused selections for all kinds of windows: arguments and groups."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.batch import EventBatch, empty_batch
from siddhi.engine.columnar.hashing import key_bits
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import kernel_array
from siddhi.engine.operators.aggregates.accumulators import Accumulators
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import Operator, OperatorContext
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, broadcast
from siddhi.engine.operators.expressions.leaves import ColumnNode, TimestampNode
from siddhi.engine.operators.fused_windows.group_table import BY_CODE, HOW, NO_NULL_CODE, NULL_CODE, GroupTable
from siddhi.engine.operators.fused_windows.row_rings import Line
from siddhi.engine.operators.fused_windows.shape import Shape
from siddhi.engine.operators.selection.groups import NULL_TEXT
from siddhi.engine.tuning import MAX_MOVES
from siddhi.language.ast import AttributeType

NO_NUMBERS: Int64Array = np.zeros(0, dtype=np.int64)


def room_for_moves(moves: Int64Array, wanted: int) -> Int64Array:
    """Return `moves`, or a larger array, with room for as many moves as are needed, up to a limit."""
    if len(moves) >= min(wanted, MAX_MOVES):
        return moves
    return np.empty(min(2 * wanted, MAX_MOVES), dtype=np.int64)


class NodeLines:
    """Assigns a line to each expression that is read for every row; the first `reserved` lines are taken."""

    def __init__(self, reserved: int = 0) -> None:
        self.reserved = reserved
        self.nodes: list[ExpressionNode] = []
        self._columns: list[tuple[int, str, bool]] = []
        self._others: list[tuple[int, ExpressionNode]] = []

    def line(self, node: ExpressionNode) -> int:
        """Return the line of the values of `node`, which is added if it is new."""
        for number, other in enumerate(self.nodes):
            if isinstance(node, ColumnNode) and isinstance(other, ColumnNode) and node.column == other.column:
                return self.reserved + number
        line = self.reserved + len(self.nodes)
        self.nodes.append(node)
        if isinstance(node, ColumnNode):
            self._columns.append((line, node.column, node.type is AttributeType.STRING))
        else:
            self._others.append((line, node))
        return line

    def attributes(self) -> list[tuple[int, str | None]] | None:
        """Return the attribute of each line, None for the timestamp.

        Return None when one of them is computed.
        """
        if not all(isinstance(node, TimestampNode) for _, node in self._others):
            return None
        return [*((line, name) for line, name, _ in self._columns), *((line, None) for line, _ in self._others)]

    def of(self, batch: EventBatch) -> list[Line]:
        """Return each line with its values in the rows of `batch`, and a mask of those that are not null.

        A null string has its code.
        """
        columns = batch.columns
        read: list[Line] = []
        for line, name, coded in self._columns:
            column = columns[name]
            read.append((line, column.values, None if coded else column.valid))
        for line, node in self._others:
            if isinstance(node, TimestampNode):
                read.append((line, batch.timestamps, None))
            else:
                values, valid = broadcast(node.evaluate(Evaluation(batch)), batch.size)
                read.append((line, values, None if node.type is AttributeType.STRING else valid))
        return read


class FusedSelection(Operator):
    """A window and the following selection. No row can fail in it.

    `nodes` are the values read for each row, for aggregates and for the window; `lines` gives the index of each
    aggregate's argument. The first `first_cells` cells of each group belong to the window; the first of them is above 0
    as long as the group has rows. Inside a partition each instance has its own groups.
    """

    execution = Execution.COMPILED

    can_fail = False

    def __init__(self, shape: Shape, context: OperatorContext, nodes: NodeLines, first_cells: int) -> None:
        self.shape = shape
        self.columns = dict(shape.columns)
        self.pool = context.pool
        self.nothing = _no_rows(shape, context)
        coded = [type_ is AttributeType.STRING for _, type_ in shape.keys]
        self.groups = GroupTable([False, *coded] if coded and context.partitioned else coded)
        self.code_attribute = shape.keys[0][0] if self.groups.state[HOW] == BY_CODE else ""
        """The attribute whose codes are the keys of the groups, if there is one."""
        arguments = [0 if node is None else nodes.line(node) for node in shape.arguments]
        self.nodes = nodes
        self.accumulators = Accumulators(shape.accumulations, arguments, first_cells, replayed=True)

    def keys(self, batch: EventBatch) -> Int64Array:
        """Return the parts of the keys of the rows, one after the other.

        Inside a partition the instance comes first.
        """
        if self.code_attribute:
            return batch.columns[self.code_attribute].values
        keys = self.shape.keys
        if not keys:
            return NO_NUMBERS
        partitions = batch.partitions
        if len(keys) == 1 and partitions is None:
            return self._key(batch, *keys[0])
        parts = [] if partitions is None else [partitions]
        parts.extend(self._key(batch, name, type_) for name, type_ in keys)
        return np.concatenate(parts)

    def _key(self, batch: EventBatch, name: str, type_: AttributeType) -> Int64Array:
        column = batch.columns[name]
        if type_ is not AttributeType.STRING:
            return kernel_array(key_bits(column.values, column.valid))
        codes: Int64Array = column.values
        if column.valid is not None:
            codes = np.where(codes < 0, self.pool.code(NULL_TEXT), codes)
        return kernel_array(codes)

    def make_room(self, lack: int, *, forget: bool) -> None:
        """Add the room that the table of groups lacked; groups without rows may be removed if `forget`."""
        if lack == NO_NULL_CODE:
            self.groups.state[NULL_CODE] = self.pool.code(NULL_TEXT)
        else:
            count = self.groups.capacity
            held = self.accumulators.cells[:count, 0] > 0 if forget else np.ones(count, dtype=np.bool_)
            self.groups.make_room(held, len(self.pool))
            self.accumulators.grow_groups(self.groups.capacity)

    def forget_partitions(self, partitions: Int64Array) -> Int64Array | None:
        """Return None, since no new numbers of groups are needed: nothing is stored for partition instances."""
        return None


def _no_rows(shape: Shape, context: OperatorContext) -> EventBatch:
    return empty_batch(tuple((name, type_) for name, type_, _ in shape.outputs.outputs), context.pool)
