"""Expression windows evaluated by one compiled loop, for all instances of a partition at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import NotByKeyError, State, same_state
from siddhi.engine.jit.arrays import BOOL, INT64, NO_POSITIONS, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import kernel_array
from siddhi.engine.operators.aggregates import moves as at
from siddhi.engine.operators.aggregates.accumulators import Accumulators
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode
from siddhi.engine.operators.expressions.register_program import FRACTIONS
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.engine.operators.windows.by_expression.kernel import walk_by_expression
from siddhi.engine.operators.windows.by_expression.layout import BATCHES, STREAMS
from siddhi.engine.operators.windows.by_expression.program import ConditionProgram
from siddhi.engine.operators.windows.keyed.layout import EXPRESSION_BATCH_KIND, EXPRESSION_KIND, IN_RUNS, TOTAL
from siddhi.engine.operators.windows.keyed.window import KeyedWindow, Plan
from siddhi.language.ast import AttributeType

_NO_ROWS: Int64Array = np.zeros((1, 1), INT64)
_NO_ROWS_F = np.zeros((1, 1))
_NO_ROWS_F4 = np.zeros((1, 1), dtype=np.float32)
_NO_VALIDITY: BoolArray = np.zeros((0, 0), BOOL)


class CompiledExpressionWindow(KeyedWindow):
    """The windows `expression` and, with `batches`, `expressionBatch`.

    With `streaming` events of a batch are emitted at once; `including` determines whether the event that ends a batch
    is the last of it. The aggregates of the expression run over the events of all instances, as in Siddhi.
    """

    def __init__(
        self,
        context: WindowContext,
        program: ConditionProgram,
        *,
        batches: bool,
        including: ExpressionNode | None = None,
        streaming: bool = False,
    ) -> None:
        super().__init__(context, Plan(EXPRESSION_BATCH_KIND if batches else EXPRESSION_KIND))
        self._program = program
        self._including = including
        self._streaming = streaming
        self._settings: Int64Array = np.zeros(2, INT64)
        self._settings[BATCHES], self._settings[STREAMS] = batches, streaming
        self._sums = Accumulators(program.members, program.arguments)
        self._values: Int64Array = np.zeros((max(len(program.values), 1), 0), INT64)
        self._valid: BoolArray = np.zeros((max(len(program.values), 1), 0), BOOL)
        members = max(len(program.members), 1)
        self._results: Int64Array = np.zeros((members, 1), INT64)
        self._known: BoolArray = np.zeros((members, 1), BOOL)
        self._move: Int64Array = np.zeros(1, INT64)
        inputs = max(len(program.loads), 1)
        self._inputs: Int64Array = np.zeros((inputs, 1), INT64)
        self._inputs_valid: BoolArray = np.zeros((inputs, 1), BOOL)
        self._lines = program.lines
        registers = max(len(self._lines), 1)
        self._whole: Int64Array = np.zeros(registers, INT64)
        self._fractions = np.zeros(registers)
        self._null_marks: BoolArray = np.zeros(registers, BOOL)

    @property
    def timed(self) -> bool:
        return False

    def run_loop(self, batch: EventBatch, step: Step, slots: Int64Array, ranks: Int64Array, out: Int64Array) -> None:
        if not batch.size:
            return
        self._compute(batch, slots)
        program, sums = self._program, self._sums
        if program.members:
            self._run[IN_RUNS] = 1  # aggregates process the events of all instances in order of arrival
        sums.take_room(2 * batch.size)
        constants, constants_valid = program.constant_values(batch)
        walk_by_expression(
            self._settings, self._run, self.rows, self._cells, slots,
            kernel_array(batch.orders), kernel_array(batch.clocks),
            NO_POSITIONS if batch.chunks is None else kernel_array(batch.chunks), self._included(batch),
            self._values, self._valid, constants, constants_valid, program.sides, program.loads, self._lines,
            sums.plan, self._arguments(), sums.cells, sums.nodes, sums.table, sums.pool,
            self._move, self._results, self._known,
            self._inputs, self._inputs.view(np.float64), self._inputs_valid,
            self._whole, self._fractions, self._null_marks, _NO_ROWS, _NO_ROWS_F, _NO_ROWS_F4, _NO_VALIDITY, out,
        )  # fmt: skip

    def _compute(self, batch: EventBatch, slots: Int64Array) -> None:
        """Compute the values that the expression reads of each event of `batch`, in `slots`."""
        used, room = self.slots.used, self._values.shape[1]
        if used > room:
            values, valid = self._values, self._valid
            room = max(used, 2 * room, 64)
            self._values, self._valid = np.zeros((len(values), room), INT64), np.zeros((len(valid), room), BOOL)
            self._values[:, : values.shape[1]], self._valid[:, : valid.shape[1]] = values, valid
        self._program.compute(batch, slots, self._values, self._valid)

    def _included(self, batch: EventBatch) -> Int64Array:
        if self._including is None:
            return np.zeros(batch.size, INT64)
        return self._including.truth(Evaluation(batch)).astype(np.int64)

    def _arguments(self) -> Int64Array:
        """Return the positions of the arguments of aggregates."""
        lines: Int64Array = np.zeros((len(self._values), at.LINE_WIDTH), dtype=np.int64)
        room = self._values.shape[1]
        values, valid = address_of(self._values), address_of(self._valid)
        for place, (_, type_) in enumerate(self._program.values):
            lines[place, at.FORM] = at.REAL if type_ in FRACTIONS else at.WIDE
            lines[place, at.VALUES] = values + 8 * room * place
            lines[place, at.MASK] = 0 if type_ is AttributeType.STRING else valid + room * place
        return lines

    # ---- reads

    def visible(self) -> Int64Array:
        """Return the slots of the rows that a read shows: none in a streaming window, as in Siddhi."""
        return NO_POSITIONS if self._streaming else super().visible()

    def look(self) -> tuple[Int64Array, dict[str, Column]]:
        shown = self.contents()
        if self.plan.kind == EXPRESSION_BATCH_KIND:
            self._cells[0, TOTAL] = len(shown[0])
        return shown

    # ---- state

    def snapshot(self) -> State:
        return {**super().snapshot(), "aggregates": self._sums.snapshot()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._sums.restore(state["aggregates"])
        used = self.slots.used
        slots = np.arange(used)
        rows = EventBatch(self.slots.timestamps[:used], None, None, None, self.slots.take(slots), only_current=True)
        if used:
            self._compute(rows, slots)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        whole = super().joined(states, ids)
        if self._partitioned:
            own = self._sums.snapshot()
            if not all(same_state(state["aggregates"], own) for state in states):
                raise NotByKeyError
            whole["aggregates"] = own
        return whole
