"""Keys inside instances, and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.hashing import KeyTable, key_bits
from siddhi.engine.columnar.java_order import string_hash
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.language.ast import AttributeType

Text = Callable[[Sequence[tuple[object, ...]]], list[str]]
"""The texts that identify keys, from their values."""


class Owners:
    """The numbers of the keys of each instance.

    A key consists of the values of `nodes` or, with `text`, the text of these. If keys are texts, the order of a Java
    hash map of them may matter: `hashes` has their hash codes.
    """

    def __init__(self, nodes: Sequence[ExpressionNode], pool: StringPool, text: Text | None = None) -> None:
        self._nodes = tuple(nodes)
        self._pool = pool
        self._text = text
        self._coded = [True] if text is not None else [node.type in _CODED for node in nodes]
        self._table = KeyTable(1 + len(self._coded))

    @property
    def count(self) -> int:
        return self._table.count

    @property
    def instances(self) -> Int64Array:
        """The instance of each key."""
        return self._table.keys[:, 0]

    def of(self, batch: EventBatch, instances: Int64Array) -> Int64Array:
        """Return the number of the key of each row."""
        evaluation = Evaluation(batch)
        columns = [to_column(node.evaluate(evaluation), node.type, self._pool, batch.size) for node in self._nodes]
        parts = [_bits(column, self._pool) for column in columns]
        if self._text is not None:
            parts = [self._codes_of_texts(self._text, columns, parts, batch.size)]
        return self._table.ids(np.column_stack([instances, *parts]))

    def _codes_of_texts(self, text: Text, columns: list[Column], parts: list[Int64Array], size: int) -> Int64Array:
        """Return the code of each row's text. The text is computed once for equal values."""
        if len(parts) == 1 and columns[0].type is AttributeType.STRING:
            (codes,) = parts
            nulls = codes == NULL_CODE
            return np.where(nulls, self._pool.code(text([(None,)])[0]), codes) if nulls.any() else codes
        if not parts:
            return np.full(size, self._pool.code(text([()])[0]))
        _, first, places = np.unique(np.column_stack(parts), axis=0, return_index=True, return_inverse=True)
        values = list(zip(*(column.take(first).to_list() for column in columns), strict=True))
        return self._pool.codes(text(values))[places.reshape(-1)]

    def hashes(self, first: int) -> list[int]:
        """Return the hash codes of the texts of keys from number `first` on."""
        if self._text is None:
            return [0] * (self.count - first)
        return [string_hash(text or "") for text in self._pool.texts(self._table.keys[first:, 1])]

    def texts(self, numbers: Int64Array) -> list[str]:
        """Return the texts of keys."""
        return [text or "" for text in self._pool.texts(self._table.keys[numbers, 1])]

    def keep(self, kept: Int64Array) -> None:
        """Keep only these keys, numbered in this order."""
        self._table.restore(self._table.keys[kept].copy())

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return the keys of all `states`, whose instances get other numbers, one after the other."""
        instances = [numbers[state[0]] for state, numbers in zip(states, ids, strict=True)]
        parts: list[State] = [np.concatenate(instances)]
        for place, coded in enumerate(self._coded, start=1):
            found = [state[place].array if coded else state[place] for state in states]
            parts.append(Codes(np.concatenate(found)) if coded else np.concatenate(found))
        return parts

    def snapshot(self) -> State:
        keys = self._table.keys
        parts = [keys[:, place].copy() for place in range(keys.shape[1])]
        return [parts[0], *(Codes(part) if coded else part for part, coded in zip(parts[1:], self._coded, strict=True))]

    def restore(self, state: State) -> None:
        self._table.restore(np.column_stack([part.array if isinstance(part, Codes) else part for part in state]))


_CODED = (AttributeType.STRING, AttributeType.OBJECT)


def _bits(column: Column, pool: StringPool) -> Int64Array:
    """Return numbers that are equal exactly where the values are."""
    if column.type is AttributeType.STRING:
        return column.values.astype(np.int64, copy=False)
    if column.type is AttributeType.OBJECT:
        return pool.codes(None if value is None else repr(value) for value in column.values)
    values = column.values
    return key_bits(values + 0.0 if values.dtype.kind == "f" else values, column.valid)
