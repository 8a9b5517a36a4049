"""The fast path through a sliding window and the aggregates over it.

It runs `siddhi.engine.operators.fused_windows.sliding` between buffers at fixed addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.fast_path.computed_outputs import ComputedOutputs, OutputProgram
from siddhi.engine.fast_path.instance_keys import InstanceKeys
from siddhi.engine.fast_path.small_batch import SmallBatch, SmallBatchResults
from siddhi.engine.fast_path.small_batch_route import SmallBatchRoute
from siddhi.engine.jit.arrays import BOOL, INT64, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.base.choices import Choices
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.batch_kernel import KEEP
from siddhi.engine.operators.expressions.batch_program import BatchProgram
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.leaves import ColumnNode, ConstantNode, OutputNode
from siddhi.engine.operators.expressions.register_program import NoProgramError
from siddhi.engine.operators.fused_windows.fused import NO_NUMBERS
from siddhi.engine.operators.fused_windows.group_table import BY_HASH, HOW
from siddhi.engine.operators.fused_windows.keyed import KeyedSlidingSelection
from siddhi.engine.operators.fused_windows.outputs import OutputCompiler, aggregate_column
from siddhi.engine.operators.fused_windows.row_rings import Line
from siddhi.engine.operators.fused_windows.sliding import SlidingSelection
from siddhi.engine.operators.selection.plain_query import PlainTest
from siddhi.engine.streams.clock import AppClock
from siddhi.engine.tuning import MAX_PROGRAM_LINES, MAX_SMALL_BATCH_ROWS
from siddhi.language.ast import AttributeType


class SlidingRoute(SmallBatchRoute):
    """A route for rows that pass `tests` through `selection`, to a stream with the attributes `types`.

    The outputs are attributes of the row, aggregates, or values that `computed` computes from both; with `held` its
    program ends with the condition of `having`. `read` are the attributes that it reads; `lines` gives the attribute of
    each line of the stored rows (None: the timestamp).
    """

    def __init__(
        self,
        selection: SlidingSelection,
        read: Mapping[str, AttributeType],
        lines: list[tuple[int, str | None]],
        types: Mapping[str, AttributeType],
        tests: Sequence[PlainTest],
        computed: OutputProgram | None = None,
        *,
        held: bool = False,
    ) -> None:
        super().__init__(SmallBatch(read, selection.pool, tests))
        self._selection = selection
        few, key = self.few, selection.code_attribute
        self._held = [(line, few.stamps if name is None else few.values[name]) for line, name in lines]
        self._lines: list[Line] = []
        self._keys = few.values[key] if key else NO_NUMBERS
        self._clocks: Int64Array = np.zeros(MAX_SMALL_BATCH_ROWS, INT64)
        count = len(selection.shape.accumulations)
        self._out: Int64Array = np.zeros((count, MAX_SMALL_BATCH_ROWS), INT64)
        self._out_valid: BoolArray = np.zeros((count, MAX_SMALL_BATCH_ROWS), BOOL)
        self._results = SmallBatchResults(types, selection.pool)
        self._positions_at = 0
        self._computed: ComputedOutputs | None = None
        if computed is None:
            self._results.set_timestamps(few.stamps_at)
        else:
            at = {aggregate_column(number): address_of(self._out[number]) for number in range(count)}
            valid_at = {aggregate_column(number): address_of(self._out_valid[number]) for number in range(count)}
            self._computed = ComputedOutputs(
                computed, {**few.addresses, **at}, self._results, few.stamps_at, held=held, valid_at=valid_at
            )
            self._positions_at = self._computed.positions_at
        self._aggregates: list[tuple[str, int]] = []
        for name, attribute, number, _ in selection.shape.outputs.direct:
            if number < 0:
                self._results.set_values(name, few.addresses[attribute], 0, self._positions_at)
            else:
                self._aggregates.append((name, number))
        self._nulls: list[bool] | None = None

    def cut(self, rows: int) -> None:
        self._lines = [(line, values[:rows], None) for line, values in self._held]

    def take_in(self, rows: int, clock: AppClock) -> int:
        selection = self._selection
        clocks = self._clocks_of(rows, clock) if selection.clocked else NO_NUMBERS
        selection.accumulators.begin()
        selection.take_in(self._lines, self._keys, clocks, rows, self._out, self._out_valid, chunked=False)
        return self._come_out(rows)

    def _come_out(self, rows: int) -> int:
        """Compute the remaining outputs from the aggregates; return how many rows are emitted."""
        if self._computed is None:
            return rows
        with np.errstate(all="ignore"):
            return self._computed.run(rows, None)

    def write(self, count: int) -> pa.RecordBatch:
        nulls = self._selection.accumulators.nulls
        if nulls is not self._nulls:
            self._find_aggregates(nulls)
        return self._results.write(count)

    def _clocks_of(self, rows: int, clock: AppClock) -> Int64Array:
        """Return the clock at each row."""
        clocks = self._clocks
        if rows == 1:
            clocks[0] = max(min(self.few.stamps.item(0), clock.limit), clock.events)
        else:
            clocks[:rows] = clock.at_rows(self.few.stamps[:rows])
        return clocks

    def _find_aggregates(self, nulls: list[bool]) -> None:
        """Set the addresses of the results to the current places of the aggregates.

        Those whose item of `nulls` is set have a null mask.
        """
        for name, number in self._aggregates:
            valid_at = address_of(self._out_valid[number]) if nulls[number] else 0
            self._results.set_values(name, address_of(self._out[number]), valid_at, self._positions_at)
        self._nulls = nulls


class KeyedSlidingRoute(SlidingRoute):
    """A `SlidingRoute` inside a partition whose instances `instances` finds; these are the groups.

    Rows that open an instance, or that do not fit, take the general path.
    """

    def __init__(
        self,
        selection: KeyedSlidingSelection,
        instances: InstanceKeys,
        read: Mapping[str, AttributeType],
        lines: list[tuple[int, str | None]],
        types: Mapping[str, AttributeType],
        computed: OutputProgram | None,
        *,
        held: bool,
    ) -> None:
        super().__init__(selection, read, lines, types, (), computed, held=held)
        self._keyed = selection
        self._instances = instances
        self._codes: Int64Array = self.few.values[instances.attribute]

    def take_in(self, rows: int, clock: AppClock) -> int:
        selection, instances = self._keyed, self._instances.ids(self._codes[:rows])
        if instances is None or not selection.has_room_for(rows):
            return REFUSED
        clocks = self._clocks_of(rows, clock) if selection.clocked else NO_NUMBERS
        selection.accumulators.begin()
        selection.take_in_each(self._lines, instances, NO_NUMBERS, clocks, self._out, self._out_valid, chunked=False)
        return self._come_out(rows)


def sliding_route(
    selection: SlidingSelection,
    analysed: model.AnalysedSelection,
    context: OperatorContext,
    source: Mapping[str, AttributeType],
    types: Mapping[str, AttributeType],
    tests: Sequence[PlainTest],
    instances: InstanceKeys | None,
) -> SlidingRoute | None:
    """Return the fast route of events that pass `tests` through `selection`, None when there is none.

    The events have the attributes `source`; in a partition `instances` finds theirs. There is no route if a function
    is evaluated by its node, if groups are found by more than the code of a string (in a partition by more than the
    instance), or if objects are read.
    """
    outputs, lines = selection.shape.outputs, selection.nodes.attributes()
    if lines is None or selection.groups.state[HOW] == BY_HASH or not selection.accumulators.written_as_held:
        return None
    computed = _computed(selection, analysed, context) if outputs.computed else None
    if outputs.computed and computed is None:
        return None
    if not outputs.computed and types.keys() != {name for name, *_ in outputs.direct}:
        return None
    names = [attribute for _, attribute, number, _ in outputs.direct if number < 0]
    names += [name for _, name in lines if name is not None]
    names += list(outputs.columns) if computed is not None else []
    names += [selection.code_attribute] if selection.code_attribute else []
    names += [instances.attribute] if instances is not None else []
    read = {name: source[name] for name in dict.fromkeys(names)}
    if AttributeType.OBJECT in read.values() or AttributeType.OBJECT in types.values():
        return None
    held = computed is not None and analysed.having is not None
    if isinstance(selection, KeyedSlidingSelection):
        if instances is None or selection.shape.keys or tests:
            return None
        return KeyedSlidingRoute(selection, instances, read, lines, types, computed, held=held)
    return SlidingRoute(selection, read, lines, types, tests, computed, held=held)


def _computed(
    selection: SlidingSelection, analysed: model.AnalysedSelection, context: OperatorContext
) -> OutputProgram | None:
    """Return the program of the outputs that are neither attributes nor aggregates, and of `having`.

    None when something needs more than instructions of programs, attributes and aggregates.
    """
    compiler = OutputCompiler(replace(context, failing=None, choices=Choices()))
    compiler.calls = {}
    nodes: dict[int, ExpressionNode] = {}
    outputs = OutputProgram(BatchProgram(nodes))
    wanted = analysed.having is not None
    try:
        for number, accumulation in enumerate(selection.shape.accumulations):
            name = aggregate_column(number)
            outputs.program.outputs[name] = outputs.program.read(ColumnNode(name, accumulation.type))
        for one in analysed.attributes:
            nodes.update(compiler.nodes_of(one.expression))
            node = nodes[id(one.expression)]
            if isinstance(node, OutputNode):  # aggregates are written from their own memory
                outputs.program.outputs[one.name] = outputs.program.outputs[node.name]
            else:
                outputs.add(one.name, node, one.expression, wanted=wanted)
        if analysed.having is not None:
            nodes.update(compiler.nodes_of(analysed.having))
            outputs.program.put(KEEP, outputs.program.truth(analysed.having))
    except NoProgramError:
        return None
    known = all(isinstance(node, ColumnNode | ConstantNode) for node in outputs.program.inputs)
    return outputs if known and not outputs.evaluated and len(outputs.program) <= MAX_PROGRAM_LINES else None
