"""`createSet` and `sizeOfSet`."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.column import objects
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, Value
from siddhi.engine.operators.functions.calls import CallNode, as_lists
from siddhi.float_values import written_list
from siddhi.language.ast import AttributeType

_SETS = frozenset({frozenset, set})


@FUNCTIONS.register("createSet")
class CreateSet(CallNode):
    """The set of just the argument (null too)."""

    by_row = True

    def evaluate(self, evaluation: Evaluation) -> Value:
        source = self.arguments[0]
        items = as_lists(evaluation, source, source.evaluate(evaluation), self.pool)
        if source.type is AttributeType.FLOAT:
            items = written_list(items)
        return Value(objects(map(frozenset, zip(items, strict=True))))


@FUNCTIONS.register("sizeOfSet")
class SizeOfSet(CallNode):
    """The number of elements of the set, 0 for null; a row whose argument is not a set fails."""

    by_row = True
    can_fail = True

    def evaluate(self, evaluation: Evaluation) -> Value:
        items = self.arguments[0].evaluate(evaluation).values.tolist()
        if _SETS.issuperset(map(type, items)):
            return Value(np.array(list(map(len, items)), dtype=np.int32))
        sets = [item is None or isinstance(item, frozenset | set) for item in items]
        evaluation.fail(~np.array(sets, dtype=np.bool_), "the function 'sizeOfSet' was given no set")
        sizes = [len(item) if item is not None and fits else 0 for item, fits in zip(items, sets, strict=True)]
        return Value(np.array(sizes, dtype=np.int32))
