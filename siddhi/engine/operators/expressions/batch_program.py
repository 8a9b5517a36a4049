"""Evaluate expressions with several operations in one call, for small batches.

    price * volume / 100.0 > limit        INPUT price    INPUT volume    I_TO_F64    MUL_F    INPUT 100.0    DIV_F
                                          INPUT limit    MORE_F

With few rows, each operation of numpy costs one or two microseconds whatever it computes, and each node takes several
operations. The program supports functions that select, test or convert values. Everything else (other functions,
outputs of the query) is evaluated as usual, and is an input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.jit.arrays import BOOL, FLOAT64, INT64, NO_POSITIONS, AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.expressions import register_kernel as code
from siddhi.engine.operators.expressions.batch_kernel import (
    CHOOSE,
    COALESCE,
    CONSTANT_F,
    CONSTANT_I,
    GREATEST,
    INPUT_WORDS,
    RESULT_WORDS,
    SMALLEST,
    VALUES_64,
    VALUES_BOOL,
    VALUES_CODE,
    VALUES_F32,
    VALUES_I32,
    run_over_rows,
)
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast
from siddhi.engine.operators.expressions.leaves import ColumnNode, ConstantNode, OutputNode, StringConstantNode
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.expressions.register_program import FRACTIONS, WHOLE, NoProgramError, RegisterProgram
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
_STORES = {
    AttributeType.STRING: code.STORE_CODE,
    AttributeType.INT: code.STORE_I32,
    AttributeType.LONG: code.STORE_I64,
    AttributeType.DOUBLE: code.STORE_F64,
    AttributeType.BOOL: code.STORE_BOOL,
}
"""How results are stored; floats, whose registers are doubles, are stored as floats."""
_WIDE = {AttributeType.INT: AttributeType.LONG, AttributeType.FLOAT: AttributeType.DOUBLE}
"""The type in which a node stores values that it converts itself."""
_put_words = Struct("3q").pack_into
_put_fraction = Struct("qdq").pack_into

INSTANCE_TESTS = {
    "instanceOfString": AttributeType.STRING,
    "instanceOfInteger": AttributeType.INT,
    "instanceOfLong": AttributeType.LONG,
    "instanceOfFloat": AttributeType.FLOAT,
    "instanceOfDouble": AttributeType.DOUBLE,
    "instanceOfBoolean": AttributeType.BOOL,
}
EXTREME_BOUNDS = {
    "maximum": float(np.finfo(np.float64).smallest_subnormal),
    "minimum": float(np.finfo(np.float64).max),
}
"""The initial values of Siddhi's `maximum` and `minimum`."""

_VALUES: Int64Array = np.zeros((MAX_PROGRAM_LINES, MAX_PROGRAM_ROWS), dtype=np.int64)
_VALUES_F = _VALUES.view(np.float64)
_VALID: BoolArray = np.zeros((MAX_PROGRAM_LINES, MAX_PROGRAM_ROWS), dtype=np.bool_)
"""Scratch memory of all programs: nothing in it is needed after a call, during which no other thread runs Python."""


class BatchProgram(RegisterProgram):
    """The program of expressions; `nodes` evaluate their parts, by `id`."""

    def __init__(self, nodes: Mapping[int, ExpressionNode]) -> None:
        super().__init__()
        self._nodes = nodes
        self.inputs: list[ExpressionNode] = []
        self._columns: dict[str, int] = {}
        """The registers of columns that are inputs."""
        self.outputs: dict[str, int] = {}
        """The registers of the query's outputs that the program computes."""

    def leaf(self, expression: model.TypedExpression) -> int | None:
        node = self._nodes[id(expression)]
        if isinstance(node, OutputNode) and node.name in self.outputs:
            return self.outputs[node.name]
        if isinstance(expression, model.Call) and not node.can_fail:
            known = self._call(expression)
            if known is not None:
                return known
        if isinstance(expression, _OPERATIONS):
            return None
        if self.outputs and any(isinstance(self._nodes[id(part)], OutputNode) for part in walk(expression)):
            raise NoProgramError("a node would read outputs that are in registers only")
        column = node.column if isinstance(node, ColumnNode) else None
        if column is not None and column in self._columns:
            return self._columns[column]
        register = self.read(node)
        if column is not None:
            self._columns[column] = register
        return register

    def read(self, node: ExpressionNode) -> int:
        """Return the register with the value of `node`."""
        if node.type not in _FORMS:
            raise NoProgramError("it reads an object")
        self.inputs.append(node)
        return self.put(code.INPUT_F if node.type in FRACTIONS else code.INPUT_I, len(self.inputs) - 1)

    def is_read(self, register: int) -> bool:
        """Return whether `register` is just an input that a node evaluates."""
        do, number, _ = self._lines[register]
        return do in (code.INPUT_I, code.INPUT_F) and not isinstance(self.inputs[number], ColumnNode | ConstantNode)

    def mark(self) -> tuple[int, int, dict[str, int]]:
        """Return the current length of the program, for `back_to`."""
        return len(self._lines), len(self.inputs), dict(self._columns)

    def back_to(self, mark: tuple[int, int, dict[str, int]]) -> None:
        """Drop all instructions added after `mark`."""
        lines, inputs, self._columns = mark
        del self._lines[lines:], self.inputs[inputs:]

    def store(self, register: int, type_: AttributeType, result: int) -> None:
        """Add an instruction that stores a register of `type_` as the result of that number."""
        if type_ not in _STORES:
            raise NoProgramError(f"the loop stores no {type_.value}")
        self.put(_STORES[type_], register, result)

    def _call(self, call: model.Call) -> int | None:
        """Return the register of a function with instructions, None for every other."""
        make = None if call.namespace or call.script is not None else _CALLS.get(call.name)
        return None if make is None else make(self, call)

    def _choice(self, call: model.Call) -> int | None:
        """Return the register of `ifThenElse`; the preceding register has the condition."""
        condition, *values = call.arguments
        if any(value.type is not call.type for value in values):
            return None
        registers = [self.register(value) for value in values]
        self.put(code.TRUTH, self.truth(condition))
        return self._not_null(self.put(CHOOSE, *registers), call.type)

    def _first(self, call: model.Call) -> int | None:
        """Return the register of `coalesce` and `default`."""
        if any(value.type is not call.type for value in call.arguments):
            return None
        first, *others = [self.register(value) for value in call.arguments]
        for other in others:
            first = self.put(COALESCE, first, other)
        return self._not_null(first, call.type)

    def _extreme(self, call: model.Call) -> int | None:
        """Return the register of `maximum` and `minimum`, which compare doubles and start with a bound."""
        if call.type not in FRACTIONS or len(call.arguments) == 1:
            return None
        best = self.read(ConstantNode(EXTREME_BOUNDS[call.name], AttributeType.DOUBLE))
        for value in call.arguments:
            number = self.register(value)
            number = self.put(code.I_TO_F64, number) if value.type in WHOLE else number
            best = self.put(GREATEST if call.name == "maximum" else SMALLEST, best, number)
        return self.converted(best, AttributeType.DOUBLE, call.type)

    def _test(self, call: model.Call) -> int | None:
        """Return the register of `instanceOf…`."""
        (value,) = call.arguments
        if value.type is AttributeType.OBJECT:
            return None
        if value.type is not INSTANCE_TESTS[call.name]:
            return self.read(ConstantNode(value=False, type_=AttributeType.BOOL))
        return self.put(code.NOT, self.put(code.IS_NULL, self.register(value)))

    def _conversion(self, call: model.Call) -> int | None:
        """Return the register of `convert` and `cast` between numbers, except from fractions to integers."""
        value = call.arguments[0]
        if value.type not in NUMERIC or call.type not in NUMERIC or (value.type in FRACTIONS and call.type in WHOLE):
            return None
        return self.converted(self.register(value), value.type, call.type)

    def _not_null(self, register: int, type_: AttributeType) -> int:
        """Return the register of a function of type bool: false for null."""
        return self.put(code.TRUTH, register) if type_ is AttributeType.BOOL else register


_CALLS: dict[str, Callable[[BatchProgram, model.Call], int | None]] = {
    "ifThenElse": BatchProgram._choice,
    "coalesce": BatchProgram._first,
    "default": BatchProgram._first,
    "maximum": BatchProgram._extreme,
    "minimum": BatchProgram._extreme,
    "convert": BatchProgram._conversion,
    "cast": BatchProgram._conversion,
    **dict.fromkeys(INSTANCE_TESTS, BatchProgram._test),
}


_Input = tuple[int, int, "np.dtype[np.generic]", ExpressionNode, str | None, StringConstantNode | None]
"""An input that may vary between batches: its position in the plan, its form, dtype and node.

It also contains its column if it is one, and the node again if it is a text, since an `isinstance` for each batch would
cost more than the rest.
"""


class ProgramInputs:
    """The inputs of a program, in the plan of `siddhi.engine.operators.expressions.batch_kernel` at `plan_at`."""

    def __init__(self, program: BatchProgram) -> None:
        self._plan = bytearray(8 * INPUT_WORDS * max(len(program.inputs), 1))
        self.plan_at = address_of(np.frombuffer(self._plan, dtype=np.uint8))
        self._read: list[_Input] = []
        for number, node in enumerate(program.inputs):
            at = 8 * INPUT_WORDS * number
            if not isinstance(node, ConstantNode):
                column = node.column if isinstance(node, ColumnNode) else None
                text = node if isinstance(node, StringConstantNode) else None
                self._read.append((at, _FORMS[node.type], DTYPES[node.type], node, column, text))
            elif node.type in FRACTIONS:
                _put_fraction(self._plan, at, CONSTANT_F, float(node.value.values), 0)
            else:
                _put_words(self._plan, at, CONSTANT_I, int(node.value.values), 0)

    @property
    def evaluates(self) -> bool:
        """Whether inputs must be evaluated for each batch."""
        return bool(self._read)

    def fix(self, addresses: Mapping[str, int], valid_at: Mapping[str, int]) -> None:
        """Read columns from these `addresses` in all batches from now on.

        Those in `valid_at` may have nulls; it has the addresses of the bytes that mark other values.
        """
        for at, form, _, _, name, _ in self._read:
            if name is not None:
                _put_words(self._plan, at, form, addresses[name], valid_at.get(name, 0))
        self._read = [one for one in self._read if one[4] is None]

    def evaluate(self, evaluation: Evaluation) -> object:
        """Evaluate the inputs for the rows of `evaluation`; return the objects that keep them in memory."""
        plan, kept, columns, size = self._plan, [], evaluation.batch.columns, evaluation.size
        for at, form, dtype, node, name, text in self._read:
            if name is not None and (column := columns[name]).values.dtype is dtype:
                values_at = column.address
                valid = None if form == VALUES_CODE else column.valid
                kept.append(valid)
            elif text is not None:
                _put_words(plan, at, CONSTANT_I, text.pool.code(text.text), 0)
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
        return kept


def run_program(
    lines: Int64Array, plan_at: int, results_at: int, rows: int, positions: Int64Array = NO_POSITIONS
) -> tuple[int, int]:
    """Run a program as `run_over_rows` does; the positions of rows that it keeps are written into `positions`."""
    told: tuple[int, int] = run_over_rows(lines, plan_at, results_at, rows, _VALUES, _VALUES_F, _VALID, positions)
    return told


class ProgramNode(ExpressionNode):
    """An expression that runs as a program for few rows; `plain` is the same expression, operation by operation."""

    def __init__(self, plain: ExpressionNode, program: BatchProgram, register: int) -> None:
        self.type = plain.type
        self.plain = plain
        self._dtype = DTYPES[plain.type]
        self._held = BOOL if self._dtype is BOOL else FLOAT64 if plain.type in FRACTIONS else INT64
        program.store(register, _WIDE.get(plain.type, plain.type), 0)
        self._lines = program.lines
        self._inputs = ProgramInputs(program)
        self._results = bytearray(8 * RESULT_WORDS)
        self._results_at = address_of(np.frombuffer(self._results, dtype=np.uint8))

    def evaluate(self, evaluation: Evaluation) -> Value:
        size = evaluation.size
        if size > MAX_PROGRAM_ROWS:
            return self.plain.evaluate(evaluation)
        kept = self._inputs.evaluate(evaluation)
        result: AnyArray = np.empty(size, self._held)
        if self._held is BOOL:  # never null
            self._run(size, address_of(result), 0)
            return Value(result)
        valid: BoolArray = np.empty(size, BOOL)
        nulls = self._run(size, address_of(result), address_of(valid))
        del kept
        result = result if result.dtype is self._dtype else result.astype(self._dtype)
        return Value(result, valid if nulls else None)

    def _run(self, size: int, result_at: int, valid_at: int) -> int:
        """Write the result to these addresses; return how many values are null."""
        _put_words(self._results, 0, result_at, valid_at, 0)
        return run_program(self._lines, self._inputs.plan_at, self._results_at, size)[1]

    def truth(self, evaluation: Evaluation) -> BoolArray:
        return super().truth(evaluation) if evaluation.size <= MAX_PROGRAM_ROWS else self.plain.truth(evaluation)

    def passing(self, evaluation: Evaluation) -> Int64Array:
        return super().passing(evaluation) if evaluation.size <= MAX_PROGRAM_ROWS else self.plain.passing(evaluation)


def programmed(
    expression: model.TypedExpression, node: ExpressionNode, nodes: Mapping[int, ExpressionNode]
) -> ExpressionNode:
    """Return `node`, which evaluates `expression`, or an equivalent that uses a program for few rows.

    `nodes` evaluate the parts of `expression`, by their `id`. There is no program for an expression that may fail or
    keeps state, because it depends on the rows that each operation sees.
    """
    if not _has_instructions(expression) or node.can_fail or node.stateful or node.type not in _FORMS:
        return node
    if sum(map(_has_instructions, walk(expression))) < MIN_PROGRAM_OPERATIONS:
        return node
    program = BatchProgram(nodes)
    try:
        register = program.register(expression)
    except NoProgramError:
        return node
    if any(one is node for one in program.inputs):  # the program does not contain the call
        return node
    return ProgramNode(node, program, register) if len(program) < MAX_PROGRAM_LINES else node


def _has_instructions(expression: object) -> bool:
    """Return whether `expression` is an operation, or a function that may have instructions."""
    if isinstance(expression, model.Call):
        return not expression.namespace and expression.script is None and expression.name in _CALLS
    return isinstance(expression, _OPERATIONS)
