"""Numbers with the same order as the values by which rows are sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, AnyArray, BoolArray, Int64Array
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.language.ast import AttributeType

if TYPE_CHECKING:
    from siddhi.engine.operators.windows.keyed.window import KeyedWindow

_LAST = np.iinfo(np.int64).max
"""Stands for null."""
_MAGNITUDE = np.int64(_LAST)


class SortLines:
    """Returns the numbers of rows for `keys`, each a value and whether the greatest comes first.

    The numbers of strings are their ranks among all strings of the rows, which change with every new one.
    """

    def __init__(self, keys: Sequence[tuple[ExpressionNode, bool]], pool: StringPool) -> None:
        self._keys = tuple(keys)
        self._pool = pool
        self._ranks: dict[int, Int64Array] = {}

    def of(self, batch: EventBatch, slots: Int64Array, window: KeyedWindow) -> list[Int64Array]:
        """Return the line of each key for the rows of `batch`, which lie in `slots` of `window`."""
        evaluation = Evaluation(batch)
        lines = []
        for place, (node, descending) in enumerate(self._keys):
            column = to_column(node.evaluate(evaluation), node.type, self._pool, batch.size)
            if node.type is AttributeType.STRING:
                lines.append(self._line_of_texts(place, slots, column, window, descending=descending))
            else:
                lines.append(_ordered(_whole(column.values), column.valid, descending=descending))
        return lines

    def _line_of_texts(
        self, place: int, slots: Int64Array, column: Column, window: KeyedWindow, *, descending: bool
    ) -> Int64Array:
        codes = column.values.astype(np.int64, copy=False)
        by_slot = window.codes_of(place, slots, codes)
        ranks = self._ranks.get(place, NO_POSITIONS)
        valid = codes != NULL_CODE
        if valid.any() and (codes.max() >= len(ranks) or (ranks[codes[valid]] < 0).any()):
            live = np.flatnonzero(window.slots.live())
            held = by_slot[live]
            ranks = self._ranks[place] = self._ranked(np.unique(held[held != NULL_CODE]))
            window.keys[place, live] = _ordered(ranks[held], held != NULL_CODE, descending=descending)
        return _ordered(ranks[codes], valid, descending=descending) if len(ranks) else np.full(len(codes), _LAST)

    def _ranked(self, codes: Int64Array) -> Int64Array:
        """Return the rank of each of `codes`, by code; -1 for all others."""
        texts = self._pool.texts(codes)
        ranks: Int64Array = np.full(int(codes[-1]) + 1, -1, dtype=np.int64)
        order = sorted(range(len(texts)), key=lambda place: texts[place] or "")
        ranks[codes[np.array(order, dtype=np.int64)]] = np.arange(len(codes))
        return ranks

    def restored(self) -> None:
        """Record that codes may belong to other strings now."""
        self._ranks = {}


def _whole(values: AnyArray) -> Int64Array:
    """Return integers with the same order as numbers."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    bits: Int64Array = (values.astype(np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def _ordered(values: Int64Array, valid: BoolArray | None, *, descending: bool) -> Int64Array:
    line = ~values if descending else values
    return line if valid is None else np.where(valid, line, _LAST)
