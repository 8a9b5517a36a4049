"""The condition of a join, split into equalities for a hash index and the rest.

a.symbol == b.symbol and a.price > b.price
└────── keys ──────┘     └──── rest ────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjunction, conjuncts, walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.hashing import mix
from siddhi.engine.columnar.strings import NULL_CODE
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK, kernel, kernel_array
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, as_type
from siddhi.engine.operators.expressions.leaves import ColumnNode
from siddhi.engine.operators.expressions.operators import NUMERIC, decision
from siddhi.engine.operators.joins.side import Side
from siddhi.engine.operators.tables.key_bits import NULL_BITS, key_rows
from siddhi.language.ast import AttributeType


@kernel
def _combine(rows, nulls, combined):  # type: ignore[no-untyped-def]
    """Return one number for each of `rows`, (n, parts): the only part, or a hash of several."""
    for row in range(len(rows)):
        number = rows[row, 0]
        for part in range(1, rows.shape[1]):
            number = mix(number, rows[row, part])
        combined[row] = NULL_BITS if len(nulls) and nulls[row] else number


class JoinCondition:
    """The condition `on` of a join, over columns named by slot (`siddhi.engine.operators.base.scope`).

    Without `on` all pairs match. `keyed` means that it has keys;
    `null_number` is the key number of rows that equal nothing. `rest` is the condition without the keys, `whole` all of
    it. `careful` means that it may fail or keeps state: then, as in Siddhi, pairs are tested in order, and only leading
    equalities are used as keys. `keeps_state` means the latter: its `aggregates` add every pair that is tested.
    """

    def __init__(self, on: model.TypedExpression | None, compiler: ExpressionCompiler) -> None:
        self._pool = compiler.context.pool
        inner = compiler.afresh()
        self.aggregates = inner.aggregates
        self._keys: tuple[list[ExpressionNode], list[ExpressionNode]] = ([], [])
        self._types: list[AttributeType] = []
        self.whole = self._compiled(on, inner)
        self.keeps_state = self.whole is not None and self.whole.stateful
        self.careful = self.whole is not None and (self.whole.can_fail or self.whole.stateful)
        rest: list[model.TypedExpression] = []
        parts = [] if on is None else list(conjuncts(on))
        leading = 0 if self.keeps_state else _before_care(parts, compiler) if self.careful else len(parts)
        for place, part in enumerate(parts):
            equality = _equality(part) if place < leading else None
            if equality is None:
                rest.append(part)
                continue
            for slot, expression in enumerate((equality.left, equality.right)):
                self._keys[slot].append(inner.compile(expression))
            self._types.append(equality.operand_type)
        self.keyed = bool(self._types)
        text = self._types == [AttributeType.STRING]
        self.null_number: int = NULL_CODE if text else NULL_BITS
        self.rest = self._compiled(conjunction(rest), inner) if self.keyed else self.whole
        compiler.columns.update(inner.columns)

    @staticmethod
    def _compiled(expression: model.TypedExpression | None, compiler: ExpressionCompiler) -> ExpressionNode | None:
        return None if expression is None else decision(compiler.compile(expression))

    @property
    def after_keys(self) -> ExpressionNode | None:
        """Return the condition left to test on pairs with equal `key_numbers`; hashes of several keys may collide."""
        return self.rest if len(self._types) < 2 else self.whole

    def key_rows(self, slot: int, rows: EventBatch) -> tuple[Int64Array, BoolArray]:
        """Return the keys of rows of side `slot`, (n, parts), and a mask of those that equal nothing."""
        evaluation = Evaluation(rows)
        values = []
        for node, type_ in zip(self._keys[slot], self._types, strict=True):
            found, valid = node.evaluate(evaluation)
            values.append(Value(as_type(found, type_) if type_ in NUMERIC else found, valid))
        return key_rows(values, self._types, rows.size, self._pool)

    def key_attribute(self, side: Side) -> str | None:
        """Return the attribute of `side` whose codes are its rows' key numbers; None when keys are anything else."""
        if not self.keyed or self.null_number != NULL_CODE:
            return None
        node = self._keys[side.slot][0]
        return side.attribute(node.column) if isinstance(node, ColumnNode) else None

    def key_numbers(self, side: Side, rows: EventBatch) -> Int64Array:
        """Return one number for each row of `side`, the same for equal keys.

        `null_number` for a key that equals nothing.
        """
        if not self.keyed:
            return np.zeros(rows.size, dtype=np.int64)
        if self.null_number == NULL_CODE:
            codes: Int64Array = self._keys[side.slot][0].evaluate(Evaluation(side.named(rows))).values
            return kernel_array(codes)
        keys, nulls = self.key_rows(side.slot, side.named(rows))
        if keys.shape[1] == 1 and nulls is NO_MASK:
            return keys[:, 0]
        combined = np.empty(rows.size, dtype=np.int64)
        _combine(keys, nulls, combined)
        return combined


def _before_care(parts: Sequence[model.TypedExpression], compiler: ExpressionCompiler) -> int:
    """Return how many of `parts` precede the first that may fail."""
    return next((place for place, part in enumerate(parts) if compiler.afresh().compile(part).can_fail), len(parts))


def _equality(part: model.TypedExpression) -> model.Comparison | None:
    """Return `part` with the left side's expression on its left when it is an equality between the sides.

    Return None otherwise.
    """
    if not isinstance(part, model.Comparison) or part.operator != "==":
        return None
    slots = [_slot_of(side) for side in (part.left, part.right)]
    if slots == [0, 1]:
        return part
    return replace(part, left=part.right, right=part.left) if slots == [1, 0] else None


def _slot_of(expression: model.TypedExpression) -> int | None:
    """Return the only slot that `expression` reads.

    Return None for none, several, or an expression whose value may vary between tests.
    """
    slots: set[int] = set()
    for part in walk(expression):
        if isinstance(part, model.AttributeValue):
            slots.add(part.slot)
        elif not isinstance(part, model.ConstantValue | model.Arithmetic):
            return None
    return slots.pop() if len(slots) == 1 else None
