"""The outputs of a selection that one program computes from the columns of a small batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from siddhi.analysis import model
from siddhi.engine.fast_path.small_batch import SmallBatchResults
from siddhi.engine.jit.arrays import BOOL, INT64, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.expressions.batch_kernel import RESULT_WORDS
from siddhi.engine.operators.expressions.batch_program import BatchProgram, ProgramInputs, run_program
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode
from siddhi.engine.operators.expressions.leaves import ColumnNode, TimestampNode
from siddhi.engine.operators.expressions.register_program import NoProgramError
from siddhi.engine.tuning import MAX_SMALL_BATCH_ROWS
from siddhi.language.ast import AttributeType


class LineProgram:
    """A program over the columns of a small batch; `results_at` is the address of its results.

    `addresses` are those of its columns, `valid_at` those of the validity bytes.
    """

    def __init__(
        self,
        program: BatchProgram,
        addresses: Mapping[str, int],
        results_at: int,
        valid_at: Mapping[str, int] | None = None,
        positions: Int64Array | None = None,
    ) -> None:
        """Prepare the program; the rows that its condition keeps are written into `positions`, if these are given."""
        self._inputs = ProgramInputs(program)
        self._inputs.fix(addresses, valid_at or {})
        self._lines = program.lines
        self._results_at = results_at
        self.positions: Int64Array = np.zeros(MAX_SMALL_BATCH_ROWS, INT64) if positions is None else positions
        """The positions of the rows that are kept, if the program has a condition."""
        self.evaluates = self._inputs.evaluates
        """Whether nodes evaluate inputs."""

    def run(self, rows: int, evaluation: Evaluation | None) -> tuple[int, int]:
        """Run the program as `run_over_rows` does; `evaluation` is required if inputs are evaluated."""
        kept = None if evaluation is None else self._inputs.evaluate(evaluation)
        told = run_program(self._lines, self._inputs.plan_at, self._results_at, rows, self.positions)
        del kept
        return told


class OutputProgram:
    """How the output values of a selection are produced.

    Copied from attributes, stored by a program, or evaluated by nodes.
    """

    def __init__(self, program: BatchProgram) -> None:
        self.program = program
        self.as_they_are: dict[str, str] = {}
        self.timestamps: list[str] = []
        self.stored: dict[str, AttributeType] = {}
        self.evaluated: dict[str, ExpressionNode] = {}

    def add(self, name: str, node: ExpressionNode, expression: model.TypedExpression, *, wanted: bool) -> None:
        """Add the output `name`. Conditions read it if it is `wanted`: then it has a register."""
        program = self.program
        if isinstance(node, ColumnNode):
            self.as_they_are[name] = node.column
            if wanted:
                program.outputs[name] = program.register(expression)
            return
        if isinstance(node, TimestampNode) and not wanted:
            self.timestamps.append(name)
            return
        mark = program.mark()
        try:
            register = program.register(expression)
            if wanted or not program.is_read(register):
                program.outputs[name] = register
                program.store(register, expression.type, len(self.stored))
                self.stored[name] = expression.type
                return
        except NoProgramError:
            if wanted:
                raise
        program.back_to(mark)
        self.evaluated[name] = node


class ComputedOutputs:
    """The outputs of a selection that are copied from attributes or stored by a program, for the writer `results`.

    `addresses` and `valid_at` are those of the columns that the program reads, `stamps_at` that of the timestamps. With
    `held` the program ends with the condition for emitting a row.
    """

    def __init__(
        self,
        outputs: OutputProgram,
        addresses: Mapping[str, int],
        results: SmallBatchResults,
        stamps_at: int,
        *,
        held: bool,
        valid_at: Mapping[str, int] | None = None,
    ) -> None:
        count = len(outputs.stored)
        self._out: Int64Array = np.zeros((count, MAX_SMALL_BATCH_ROWS), INT64)
        self._valid: BoolArray = np.zeros((count, MAX_SMALL_BATCH_ROWS), BOOL)
        self._words: Int64Array = np.zeros((max(count, 1), RESULT_WORDS), INT64)
        self._results = results
        program = outputs.program
        self._program = LineProgram(program, addresses, address_of(self._words), valid_at) if len(program) else None
        self.positions_at = address_of(self._program.positions) if held and self._program is not None else 0
        """The address of the positions of the emitted rows, 0 where all are emitted."""
        results.set_timestamps(stamps_at, self.positions_at)
        for name, attribute in outputs.as_they_are.items():
            results.set_values(name, addresses[attribute], 0, self.positions_at)
        for name in outputs.timestamps:
            results.set_values(name, stamps_at, 0, self.positions_at)
        self._stored: list[tuple[str, int, int]] = []
        for number, (name, type_) in enumerate(outputs.stored.items()):
            values_at, valid = address_of(self._out[number]), address_of(self._valid[number])
            never_null = type_ in (AttributeType.BOOL, AttributeType.STRING)
            self._words[number] = values_at, 0 if never_null else valid, 0
            results.set_values(name, values_at, 0, self.positions_at)
            self._stored.append((name, values_at, 0 if never_null else valid))
        self.evaluates = self._program is not None and self._program.evaluates
        """Whether nodes evaluate inputs."""
        self._masked = False

    def run(self, rows: int, evaluation: Evaluation | None) -> int:
        """Compute the outputs of the rows; return how many rows are emitted."""
        program = self._program
        if program is None:
            return rows
        count, nulls = program.run(rows, evaluation if program.evaluates else None)
        if nulls or self._masked:
            self._masked = bool(nulls)
            for name, values_at, valid_at in self._stored:
                self._results.set_values(name, values_at, valid_at if nulls else 0, self.positions_at)
        return count
