"""`cast`, `convert` and the `instanceOf` tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siddhi.analysis import model
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.columnar.java_text import floating_text, floating_texts, parse_floating, parse_integer
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray
from siddhi.engine.operators.expressions.batch_program import INSTANCE_TESTS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast
from siddhi.engine.operators.expressions.operators import NUMERIC
from siddhi.engine.operators.functions.calls import CallNode, as_lists, from_list, never_null, valid_mask
from siddhi.engine.tuning import MAX_SINGLE_CALLS
from siddhi.language.ast import AttributeType

_SAFE = {DTYPES[AttributeType.INT]: 2.0**31, DTYPES[AttributeType.LONG]: 2.0**63}
"""Fractions below this magnitude are truncated without a further check."""
_BITS = {AttributeType.INT: 32, AttributeType.LONG: 64}


def type_of_object(item: object) -> AttributeType | None:
    """Return the attribute type of a value in an object column, None for values of other types.

    Whole numbers are int or, when too large, long.
    """
    if isinstance(item, bool):
        return AttributeType.BOOL
    if isinstance(item, int):
        return AttributeType.INT if -(1 << 31) <= item < 1 << 31 else AttributeType.LONG
    if isinstance(item, float):
        return AttributeType.DOUBLE
    return AttributeType.STRING if isinstance(item, str) else None


@FUNCTIONS.register("convert")
class Convert(CallNode):
    """The value as another type; null where it cannot be read as that."""

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> None:
        super().__init__(call, arguments, pool)
        source = arguments[0].type
        is_read = source is AttributeType.STRING and self.type is not AttributeType.STRING
        self.by_row = is_read or (source is AttributeType.OBJECT and self.type is AttributeType.STRING)

    def evaluate(self, evaluation: Evaluation) -> Value:
        source = self.arguments[0]
        value = broadcast(source.evaluate(evaluation), evaluation.size)
        converted = convert(evaluation, source, value, self.type, self.pool)
        return never_null(converted, evaluation.size) if self.type is AttributeType.BOOL else converted


def convert(
    evaluation: Evaluation, source: ExpressionNode, value: Value, target: AttributeType, pool: StringPool
) -> Value:
    """Return `value` of node `source` as type `target`, by Java's rules for each pair of types."""
    if source.type is target:
        return value
    if target is AttributeType.STRING:
        if source.type is AttributeType.OBJECT or evaluation.size <= MAX_SINGLE_CALLS:
            texts = [java_text(item, source.type) for item in as_lists(evaluation, source, value, pool)]
            return from_list(list(texts), target, pool)
        return Value(pool.encode(java_texts(value, source.type, pool)))
    if source.type is AttributeType.STRING:
        codes, places = np.unique(value.values, return_inverse=True)
        read, known = from_list([_parse(text, target) for text in pool.texts(codes)], target, pool)
        return Value(read[places], None if known is None else known[places])
    if source.type is AttributeType.OBJECT or target is AttributeType.OBJECT:
        return from_list([None] * evaluation.size, target, pool)
    if target is AttributeType.BOOL:
        return Value(value.values == 1, value.valid)
    return Value(number_as(value.values, target), value.valid)


def number_as(values: AnyArray, target: AttributeType) -> AnyArray:
    """Return numbers as Java casts them.

    They wrap between integers, and truncate and saturate from fractions; NaN becomes 0.
    """
    dtype: Any = DTYPES[target]
    if values.dtype.kind != "f" or dtype.kind == "f":
        return values.astype(dtype)
    wide = values.astype(np.float64, copy=False)
    if (np.abs(wide) < _SAFE[dtype]).all():  # false for NaN
        return wide.astype(dtype)
    limits = np.iinfo(dtype)
    below, above = wide <= float(limits.min), wide >= float(limits.max)
    inner = np.where(np.isnan(wide) | below | above, 0.0, wide).astype(dtype)
    return np.where(above, limits.max, np.where(below, limits.min, inner)).astype(dtype)


def java_text(item: object, type_: AttributeType) -> str | None:
    """Return `item` as Java's toString writes a value of that type; null stays null."""
    if item is None:
        return None
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, float):
        return floating_text(item, single=type_ is AttributeType.FLOAT)
    if isinstance(item, frozenset | set | list):
        return "[" + ", ".join(_element_text(element) for element in item) + "]"
    if isinstance(item, dict):
        return "{" + ", ".join(f"{_element_text(key)}={_element_text(value)}" for key, value in item.items()) + "}"
    return str(item)


def java_texts(value: Value, type_: AttributeType, pool: StringPool) -> pa.StringArray:
    """Return the texts of a column's values, as `java_text` writes them; not for objects."""
    values, valid = value
    if type_ is AttributeType.STRING:
        return pool.decode(values)
    if values.dtype.kind == "f":
        return floating_texts(values, valid)
    return pc.cast(pa.array(values, mask=None if valid is None else ~valid), pa.utf8())


def _element_text(item: object) -> str:
    text = java_text(item, AttributeType.OBJECT)
    return "null" if text is None else text


def _parse(item: object, target: AttributeType) -> object:
    if item is None:
        return None
    text = str(item)
    if target is AttributeType.BOOL:
        return text.lower() == "true"
    if target in _BITS:
        return parse_integer(text, _BITS[target])
    return parse_floating(text) if target in NUMERIC else None


@FUNCTIONS.register("cast")
class Cast(CallNode):
    """A cast of the value to another type.

    A number or text is converted to a number; any other value must be of that type already. A row whose value is not
    fails; null stays null.
    """

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> None:
        super().__init__(call, arguments, pool)
        self.can_fail = arguments[0].type is not call.type

    def evaluate(self, evaluation: Evaluation) -> Value:
        source = self.arguments[0]
        value = broadcast(source.evaluate(evaluation), evaluation.size)
        if source.type in NUMERIC and (self.type in NUMERIC or self.type is AttributeType.STRING):
            return convert(evaluation, source, value, self.type, self.pool)
        if source.type is AttributeType.OBJECT:
            value = self._unwrap(evaluation, source, value)
        elif source.type is not self.type:
            evaluation.fail(
                valid_mask(value, evaluation.size), f"{source.type.value} cannot be cast to {self.type.value}"
            )
            value = from_list([None] * evaluation.size, self.type, self.pool)
        return never_null(value, evaluation.size) if self.type is AttributeType.BOOL else value

    def _unwrap(self, evaluation: Evaluation, source: ExpressionNode, value: Value) -> Value:
        items = as_lists(evaluation, source, value, self.pool)
        fits = [type_of_object(item) is self.type for item in items]
        wrong = np.array([item is not None and not fit for item, fit in zip(items, fits, strict=True)], dtype=np.bool_)
        evaluation.fail(wrong, f"an object cannot be cast to {self.type.value}")
        kept = [item if fit else None for item, fit in zip(items, fits, strict=True)]
        return from_list(kept, self.type, self.pool)


class InstanceOf(CallNode):
    """True where the value is not null and of the type in the function's name."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        source, tested = self.arguments[0], INSTANCE_TESTS[self.name]
        value = source.evaluate(evaluation)
        if source.type is AttributeType.OBJECT:
            items = as_lists(evaluation, source, value, self.pool)
            return Value(np.array([type_of_object(item) is tested for item in items], dtype=np.bool_))
        if source.type is not tested:
            return Value(np.zeros(evaluation.size, dtype=np.bool_))
        return Value(valid_mask(value, evaluation.size))


for _name in INSTANCE_TESTS:
    FUNCTIONS.register(_name)(InstanceOf)
