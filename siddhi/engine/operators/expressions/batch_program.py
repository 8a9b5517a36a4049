"""Expressions of several operations in one call, where batches are small.

    price * volume / 100.0 > limit        INPUT price    INPUT volume    I_TO_F64    MUL_F    INPUT 100.0    DIV_F
                                          INPUT limit    MORE_F

With few rows an operation of numpy costs a microsecond or two whatever it computes, and each node takes several. What
the program does not know (functions, outputs of the query) is evaluated as before, and is an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.jit.arrays import BOOL, FLOAT64, INT64, AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.expressions import register_kernel as code
from siddhi.engine.operators.expressions.batch_kernel import (
    CONSTANT_F,
    CONSTANT_I,
    INPUT_WORDS,
    RESULT_BOOL,
    RESULT_F,
    RESULT_I,
    VALUES_64,
    VALUES_BOOL,
    VALUES_CODE,
    VALUES_F32,
    VALUES_I32,
    run_over_rows,
)
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast
from siddhi.engine.operators.expressions.leaves import ColumnNode, ConstantNode, StringConstantNode
from siddhi.engine.operators.expressions.register_program import FRACTIONS, NoProgramError, RegisterProgram
from siddhi.engine.tuning import MAX_PROGRAM_LINES, MAX_PROGRAM_ROWS, MIN_PROGRAM_OPERATIONS
from siddhi.language.ast import AttributeType

_OPERATIONS = (model.Arithmetic, model.Comparison, model.Logical, model.Negation, model.IsNullValue)
_FORMS = {
    AttributeType.STRING: VALUES_CODE,
    AttributeType.INT: VALUES_I32,
    AttributeType.LONG: VALUES_64,
    AttributeType.FLOAT: VALUES_F32,
    AttributeType.DOUBLE: VALUES_64,
    AttributeType.BOOL: VALUES_BOOL,
}
_put_words = Struct("3q").pack_into
_put_fraction = Struct("qdq").pack_into

_VALUES: Int64Array = np.zeros((MAX_PROGRAM_LINES, MAX_PROGRAM_ROWS), dtype=np.int64)
_VALUES_F = _VALUES.view(np.float64)
_VALID: BoolArray = np.zeros((MAX_PROGRAM_LINES, MAX_PROGRAM_ROWS), dtype=np.bool_)
"""Room of all programs: nothing in it is needed after a call, during which no other thread runs Python."""


class _BatchProgram(RegisterProgram):
    """The program of an expression, of whose parts `nodes` are what evaluates them."""

    def __init__(self, nodes: Mapping[int, ExpressionNode]) -> None:
        super().__init__()
        self._nodes = nodes
        self.inputs: list[ExpressionNode] = []

    def leaf(self, expression: model.TypedExpression) -> int | None:
        if isinstance(expression, _OPERATIONS):
            return None
        if expression.type not in _FORMS:
            raise NoProgramError("it reads an object")
        self.inputs.append(self._nodes[id(expression)])
        do = code.INPUT_F if expression.type in FRACTIONS else code.INPUT_I
        return self.put(do, len(self.inputs) - 1)


class ProgramNode(ExpressionNode):
    """An expression whose operations are a program where rows are few; `plain` is the same, operation by operation."""

    def __init__(self, plain: ExpressionNode, program: _BatchProgram) -> None:
        self.type = plain.type
        self.plain = plain
        self._dtype = DTYPES[plain.type]
        self._result = RESULT_BOOL if self._dtype is BOOL else RESULT_F if plain.type in FRACTIONS else RESULT_I
        self._lines = program.lines
        self._plan = bytearray(8 * INPUT_WORDS * len(program.inputs))
        self._plan_at = address_of(np.frombuffer(self._plan, dtype=np.uint8))
        self._read: list[tuple[int, int, np.dtype[np.generic], ExpressionNode]] = []
        for number, node in enumerate(program.inputs):
            at = 8 * INPUT_WORDS * number
            if not isinstance(node, ConstantNode):
                self._read.append((at, _FORMS[node.type], DTYPES[node.type], node))
            elif node.type in FRACTIONS:
                _put_fraction(self._plan, at, CONSTANT_F, float(node.value.values), 0)
            else:
                _put_words(self._plan, at, CONSTANT_I, int(node.value.values), 0)

    def evaluate(self, evaluation: Evaluation) -> Value:
        size = evaluation.size
        if size > MAX_PROGRAM_ROWS:
            return self.plain.evaluate(evaluation)
        plan, kept, columns = self._plan, [], evaluation.batch.columns
        for at, form, dtype, node in self._read:
            if isinstance(node, ColumnNode) and (column := columns[node.column]).values.dtype is dtype:
                values_at = column.address
                valid = None if form == VALUES_CODE else column.valid
                kept.append(valid)
            elif isinstance(node, StringConstantNode):
                _put_words(plan, at, CONSTANT_I, node.pool.code(node.text), 0)
                continue
            else:
                values, valid = broadcast(node.evaluate(evaluation), size)
                values, valid = np.ascontiguousarray(values, dtype), None if form == VALUES_CODE else valid
                values_at = address_of(values)
                kept += [values, valid]
            if valid is None:
                _put_words(plan, at, form, values_at, 0)
            else:
                valid = np.ascontiguousarray(valid)
                kept.append(valid)
                _put_words(plan, at, form, values_at, address_of(valid))
        return self._run(size)

    def _run(self, size: int) -> Value:
        """Return the value for the inputs in the plan."""
        if self._result == RESULT_BOOL:
            truths: BoolArray = np.empty(size, BOOL)
            self._call(size, address_of(truths), 0)
            return Value(truths)
        result: AnyArray = np.empty(size, FLOAT64 if self._result == RESULT_F else INT64)
        valid: BoolArray = np.empty(size, BOOL)
        nulls = self._call(size, address_of(result), address_of(valid))
        result = result if result.dtype is self._dtype else result.astype(self._dtype)
        return Value(result, valid if nulls else None)

    def _call(self, size: int, result_at: int, valid_at: int) -> int:
        nulls: int = run_over_rows(
            self._lines, self._plan_at, size, _VALUES, _VALUES_F, _VALID, self._result, result_at, valid_at
        )
        return nulls

    def truth(self, evaluation: Evaluation) -> BoolArray:
        return super().truth(evaluation) if evaluation.size <= MAX_PROGRAM_ROWS else self.plain.truth(evaluation)

    def passing(self, evaluation: Evaluation) -> Int64Array:
        return super().passing(evaluation) if evaluation.size <= MAX_PROGRAM_ROWS else self.plain.passing(evaluation)


def programmed(
    expression: model.TypedExpression, node: ExpressionNode, nodes: Mapping[int, ExpressionNode]
) -> ExpressionNode:
    """Return `node`, which evaluates `expression`, or what does the same with a program where rows are few.

    `nodes` are what evaluates the parts of `expression`, by their `id`. There is no program for what may fail or keeps
    state, as it depends on which rows each operation sees.
    """
    if not isinstance(expression, _OPERATIONS) or node.can_fail or node.stateful:
        return node
    if sum(isinstance(part, _OPERATIONS) for part in walk(expression)) < MIN_PROGRAM_OPERATIONS:
        return node
    program = _BatchProgram(nodes)
    try:
        program.register(expression)
    except NoProgramError:
        return node
    return ProgramNode(node, program) if len(program) <= MAX_PROGRAM_LINES else node
