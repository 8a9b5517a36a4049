"""The condition and the changes of a write, as a program for `siddhi.engine.operators.expressions.register_kernel`.

    K.price < price and K.n > 3           0  LOAD_F64   price of the row
                                          1  INPUT_F    price of the event        (evaluated for all events before)
                                          2  LESS_F     0, 1
                                          3  …

A part that does not read the row is evaluated for all events together and is an input. Conditions and changes that the
loop does not support (functions of the row's values, conditions that may fail) have no program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.strings import NULL_CODE
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.expressions import register_kernel as code
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value
from siddhi.engine.operators.expressions.leaves import TimestampNode
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.expressions.register_program import (
    FRACTIONS,
    WHOLE,
    NoProgramError,
    RegisterProgram,
    put_values,
)
from siddhi.engine.operators.tables.table import Table
from siddhi.language.ast import AttributeType

_LOADS = {
    AttributeType.INT: code.LOAD_I32,
    AttributeType.LONG: code.LOAD_I64,
    AttributeType.FLOAT: code.LOAD_F32,
    AttributeType.DOUBLE: code.LOAD_F64,
    AttributeType.BOOL: code.LOAD_BOOL,
    AttributeType.STRING: code.LOAD_CODE,
}
_STORES = {
    AttributeType.INT: code.STORE_I32,
    AttributeType.LONG: code.STORE_I64,
    AttributeType.FLOAT: code.STORE_F32,
    AttributeType.DOUBLE: code.STORE_F64,
    AttributeType.BOOL: code.STORE_BOOL,
    AttributeType.STRING: code.STORE_CODE,
}


class RowProgram(RegisterProgram):
    """Instructions over an event's inputs and a row of `table`; `fill` compiles into it."""

    def __init__(self, table: Table, compiler: ExpressionCompiler) -> None:
        super().__init__()
        self._table = table
        self._compiler = compiler
        self.inputs: list[tuple[ExpressionNode, AttributeType]] = []

    def fill(
        self,
        condition: model.TypedExpression | None,
        assignments: Sequence[tuple[str, model.TypedExpression]] = (),
        timed: bool = False,
    ) -> int:
        """Add the instructions of a write; return how many of them test its condition.

        With `timed` a changed row gets the timestamp of the event. Raise NoProgramError when there are none.
        """
        if condition is not None:
            self.asks(condition)
        asking = len(self)
        for name, value in assignments:
            self.sets(name, value)
        if timed:
            self.sets_time()
        return asking

    def sets(self, name: str, value: model.TypedExpression) -> None:
        """Add the assignment of `value` to the attribute `name` of the row."""
        wanted = self._table.types[name]
        register = self.register(value)
        if value.type in NUMERIC and wanted in NUMERIC:
            if value.type in FRACTIONS and wanted in WHOLE:
                raise NoProgramError("it is beyond the loop")
            register = self.converted(register, value.type, wanted)
        elif value.type is not wanted:
            raise NoProgramError("it is beyond the loop")
        self.put(self._of_type(_STORES, wanted), register, self._table.line_of(name))

    def sets_time(self) -> None:
        """Add an instruction that gives the row the time of the event."""
        register = self.put(code.INPUT_I, self.time_input())
        self.put(code.STORE_I64, register, self._table.line_of(EVENT_TIMESTAMP))

    def values(self, batch: EventBatch, outputs: dict[str, Value]) -> tuple[Int64Array, BoolArray]:
        """Return the inputs of all events of `batch`, (inputs, events), and where they are not null."""
        size = batch.size
        inputs: Int64Array = np.zeros((max(len(self.inputs), 1), size), dtype=np.int64)
        valid: BoolArray = np.ones((max(len(self.inputs), 1), size), dtype=np.bool_)
        evaluation = Evaluation(batch)
        evaluation.outputs = outputs
        for place, (node, type_) in enumerate(self.inputs):
            value = node.evaluate(evaluation)
            put_values(inputs[place], value, type_, size)
            if type_ is AttributeType.STRING:
                valid[place] = inputs[place] != NULL_CODE
            elif value.valid is not None:
                valid[place] = value.valid
        return inputs, valid

    def leaf(self, expression: model.TypedExpression) -> int | None:
        if not self._looks(expression):
            number = self.input_of(expression)
            return self.put(code.INPUT_F if expression.type in FRACTIONS else code.INPUT_I, number)
        if isinstance(expression, model.TableValue):
            return self.put(self._of_type(_LOADS, expression.type), self._table.line_of(expression.name))
        return None

    def _looks(self, expression: model.TypedExpression) -> bool:
        """Return whether `expression` reads rows of the table."""
        return any(isinstance(one, model.TableValue) and one.table == self._table.id for one in walk(expression))

    def input_of(self, expression: model.TypedExpression) -> int:
        """Return the number of the input that is `expression`, which does not read the row."""
        node = self._compiler.compile(expression)
        if node.can_fail or node.stateful or expression.type is AttributeType.OBJECT:
            raise NoProgramError("it is beyond the loop")
        self.inputs.append((node, expression.type))
        return len(self.inputs) - 1

    def time_input(self) -> int:
        """Return the number of the input that is the timestamp of the event."""
        self.inputs.append((TimestampNode(), AttributeType.LONG))
        return len(self.inputs) - 1

    @staticmethod
    def _of_type(codes: dict[AttributeType, int], type_: AttributeType) -> int:
        if type_ not in codes:
            raise NoProgramError("it is beyond the loop")
        return codes[type_]
