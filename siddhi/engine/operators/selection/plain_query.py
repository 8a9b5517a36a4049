"""Queries without state or computed values.

They filter events by comparisons with constants, and select attributes as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjuncts
from siddhi.engine.arrow_c import copy_kernel
from siddhi.engine.arrow_c.copy_kernel import EQUAL, GREATER, LESS, UNORDERED
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.jit.arrays import FLOAT64, INT64, Int64Array
from siddhi.language.ast import AttributeType, EventType

ACCEPTED = {
    "<": LESS,
    "<=": LESS | EQUAL,
    ">": GREATER,
    ">=": GREATER | EQUAL,
    "==": EQUAL,
    "!=": LESS | GREATER | UNORDERED,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator for exchanged operands, if it is a different one."""
_STORED = {
    AttributeType.INT: copy_kernel.INT32,
    AttributeType.LONG: copy_kernel.INT64,
    AttributeType.FLOAT: copy_kernel.FLOAT32,
    AttributeType.DOUBLE: copy_kernel.FLOAT64,
    AttributeType.STRING: copy_kernel.STRING,
}
_WHOLE = (AttributeType.INT, AttributeType.LONG)


@dataclass(frozen=True, slots=True)
class PlainTest:
    """A test `attribute operator bound`.

    With a null attribute `!=` is true and all other operators are false. Numbers are compared as float64 if
    `as_real`, else as int64.
    """

    attribute: str
    type: AttributeType
    operator: str
    bound: int | float | str
    as_real: bool = False


@dataclass(frozen=True, slots=True)
class PlainQuery:
    """A query that filters by `tests` and copies attributes.

    Each output is the attribute of the source of that name.
    """

    tests: tuple[PlainTest, ...]
    attributes: dict[str, str]


def plain_query(query: model.AnalysedQuery) -> PlainQuery | None:
    """Return `query` if it is a plain one over a stream, otherwise None."""
    source, selection, output = query.input, query.selection, query.output
    if not isinstance(source, model.SourceInput) or source.kind is not model.SourceKind.STREAM:
        return None
    if source.window is not None or source.after or output.kind is not model.TargetKind.STREAM:
        return None
    if query.rate is not None or output.events is EventType.EXPIRED or arranges(selection):
        return None
    attributes: dict[str, str] = {}
    for selected in selection.attributes:
        value = selected.expression
        if not isinstance(value, model.AttributeValue) or value.type is AttributeType.OBJECT:
            return None
        attributes[selected.name] = value.name
    tests = plain_tests(source)
    return None if tests is None else PlainQuery(tests, attributes)


def plain_tests(source: model.SourceInput) -> tuple[PlainTest, ...] | None:
    """Return the tests of events of `source` before its window.

    Return None unless all are plain tests and there is nothing after the window.
    """
    if source.after:
        return None
    tests: list[PlainTest] = []
    for step in source.before:
        found = list(_tests(step.condition)) if isinstance(step, model.FilterStep) else [None]
        if None in found:
            return None
        tests.extend(test for test in found if test is not None)
    return tuple(tests)


def arranges(selection: model.AnalysedSelection) -> bool:
    """Return whether rows are not selected one by one."""
    limited = selection.limit is not None or selection.offset is not None
    held = selection.having is not None or selection.order_by
    return bool(limited or held or selection.group_by or selection.aggregates)


def _tests(condition: model.TypedExpression) -> Iterator[PlainTest | None]:
    """Yield the parts of `condition`, with None in place of those that are not plain tests."""
    for part in conjuncts(condition):
        yield plain_test(part) if isinstance(part, model.Comparison) else None


def plain_test(comparison: model.Comparison) -> PlainTest | None:
    """Return `comparison` as a test if it compares an attribute with a constant in a form that kernels support.

    Return None for every other comparison.
    """
    value, bound, operator = comparison.left, comparison.right, comparison.operator
    if isinstance(value, model.ConstantValue):
        value, bound, operator = bound, value, _TURNED.get(operator, operator)
    if not (isinstance(value, model.AttributeValue) and isinstance(bound, model.ConstantValue)):
        return None
    if value.type is AttributeType.STRING:
        equality = isinstance(bound.value, str) and operator in ("==", "!=")
        return PlainTest(value.name, value.type, operator, bound.value) if equality else None
    number = _bound(value.type, bound, comparison.operand_type)
    if number is None:
        return None
    return PlainTest(value.name, value.type, operator, number, as_real=comparison.operand_type not in _WHOLE)


def _bound(stored: AttributeType, constant: model.ConstantValue, compared: AttributeType) -> int | float | None:
    """Return `constant` as the number for comparing values that are `stored` as one type and `compared` as another.

    Return None when neither int64 nor float64 gives the same result.
    """
    if stored not in _STORED or stored is AttributeType.STRING or constant.type not in _STORED:
        return None
    exact = compared in _WHOLE or compared is AttributeType.DOUBLE or stored is compared is AttributeType.FLOAT
    if not exact or isinstance(constant.value, str):
        return None
    with np.errstate(over="ignore"):  # a float too large for its type is infinite
        number = DTYPES[constant.type].type(constant.value).astype(DTYPES[compared]).item()
    return int(number) if compared in _WHOLE else float(number)


def lines_of(tests: Sequence[PlainTest]) -> tuple[Int64Array, bytes]:
    """Return `tests` in the form for `pass_records`, without the positions of their columns, and their strings."""
    lines: Int64Array = np.zeros((len(tests), copy_kernel.TEST_FIELDS), INT64)
    texts = b""
    for line, test in zip(lines, tests, strict=True):
        line[copy_kernel.STORED] = _STORED[test.type]
        line[copy_kernel.AS_REAL] = test.as_real
        line[copy_kernel.ACCEPTED] = ACCEPTED[test.operator]
        line[copy_kernel.NULL_PASSES] = test.operator == "!="
        if isinstance(test.bound, str):
            text = test.bound.encode(errors="replace")
            line[copy_kernel.BOUND], line[copy_kernel.BOUND_SIZE] = len(texts), len(text)
            texts += text
        else:
            line[copy_kernel.BOUND] = np.array(test.bound, FLOAT64).view(INT64) if test.as_real else test.bound
    return lines, texts
