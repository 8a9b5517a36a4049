"""Find the rows of a table that make a condition true, for all events of a batch at once.

    T.k == k and T.v > v      ──►   equality   T.k == k      an index on T.k gives pairs (event, row)
                                    rest       T.v > v       is evaluated over these pairs

Without an equality that an index may answer the pairs are all of events and rows, block by block, or of many events
those within the bounds that `<` and its like set for an attribute of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjunction, conjuncts, walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.jit.arrays import NO_POSITIONS, BoolArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK, kernel_array
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler, table_column
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value
from siddhi.engine.operators.expressions.leaves import ColumnNode
from siddhi.engine.operators.tables.key_bits import comparable, key_rows
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.tables.ranges import NameOfRow, RowRanges
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.tuning import MAX_PAIRS_AT_ONCE
from siddhi.language.ast import AttributeType

_COUNTED: Int64Array = np.arange(4_096)
"""0, 1, …, sliced to the required size if it is long enough."""


def names_of(table: Table) -> NameOfRow:
    """Return a function that names the attributes of `table` where its rows appear as `TableValue`s."""

    def name_of(expression: model.TypedExpression) -> str | None:
        if isinstance(expression, model.TableValue) and expression.table == table.id:
            return expression.name
        return None

    return name_of


class RowMatcher:
    """A condition over an event and a row of `table`.

    Rows appear in it as `TableValue`s, or as `row_name` recognises them.

    Pairs are evaluated with the row's attributes in columns that `row_column` names. As in Siddhi, null matches null if
    the condition is only an equality on the primary key. With `makes_index` a useful index is created if there is none.
    """

    def __init__(
        self,
        condition: model.TypedExpression | None,
        table: Table,
        compiler: ExpressionCompiler,
        *,
        row_name: NameOfRow | None = None,
        row_column: Callable[[str], str] | None = None,
        makes_index: bool = True,
    ) -> None:
        self.table = table
        self._name_of = row_name or names_of(table)
        self._column_of = row_column or (lambda name: table_column(table.id, name))
        parts = [] if condition is None else list(conjuncts(condition))
        equal = self._indexed(parts)
        find_index = table.index_on if makes_index else table.known_index
        self.index = find_index(tuple(equal)) if equal else None
        if not makes_index:
            equal = {name: equal[name] for name in (self.index.names if self.index is not None else ())}
        self.probes = {name: probe for name, (_, probe) in equal.items()}
        self._nodes: list[ExpressionNode] = []
        if self.index is not None:
            self._nodes = [compiler.compile(self.probes[name]) for name in self.index.names]
        self._types = [node.type for node in self._nodes]
        self._unique = self.index is not None and set(self.index.names) == set(table.primary_key)
        rest = [part for part in parts if all(part is not used for used, _ in equal.values())]
        self.exact = bool(equal) and not rest
        self.by_primary_key = self.exact and set(equal) == set(table.primary_key)
        self._compile_rest(rest, compiler)
        self.code_column = self._code_column()

    def _compile_rest(self, rest: Sequence[model.TypedExpression], compiler: ExpressionCompiler) -> None:
        whole = self.rest = conjunction(rest)
        inner = compiler.afresh()
        self._rest = None if whole is None else inner.compile(whole)
        self._ranges = None if self.index is not None else RowRanges.find(self.table, rest, self._name_of, inner)
        names = {name for part in rest for inside in walk(part) if (name := self._name_of(inside)) is not None}
        self.reads = frozenset(names | set(self.probes))
        self._row_columns = {self._column_of(name): name for name in names}
        self._event_columns = [name for name in inner.columns if name not in self._row_columns]
        compiler.columns.update(inner.columns)

    def _code_column(self) -> str | None:
        """Return the event's string column if the condition depends only on it, else None."""
        node = self._nodes[0] if self.exact and len(self._nodes) == 1 else None
        return node.column if isinstance(node, ColumnNode) and node.type is AttributeType.STRING else None

    def _indexed(
        self, parts: Sequence[model.TypedExpression]
    ) -> dict[str, tuple[model.Comparison, model.TypedExpression]]:
        """Return the equalities that an index answers, by attribute.

        These are the ones on the primary key if they cover all of it, else all equalities of an attribute of the row
        with a value of the event.
        """
        equal: dict[str, tuple[model.Comparison, model.TypedExpression]] = {}
        for part in parts:
            if isinstance(part, model.Comparison) and part.operator == "==":
                for row, probe in ((part.left, part.right), (part.right, part.left)):
                    name = self._name_of(row)
                    if name is not None and name not in equal and self._asks(probe, row.type):
                        equal[name] = (part, probe)
                        break
        key = self.table.primary_key
        if key and set(key) <= set(equal):
            return {name: equal[name] for name in key}
        return equal

    def _asks(self, probe: model.TypedExpression, type_: AttributeType) -> bool:
        return comparable(probe.type, type_) and all(self._name_of(part) is None for part in walk(probe))

    # ---- lookup

    def pairs(
        self, events: EventBatch, outputs: Mapping[str, Value] | None = None, rows: Int64Array | None = None
    ) -> Pairs:
        """Return all matches of `events`, or only of the ones in `rows`.

        `outputs` are the values of the query's output.
        """
        if self.index is not None:
            asked = self._by_index(events, outputs)
            asked = asked if rows is None else _only(asked, rows, events.size)
            return self._narrowed(self.table.seen(asked, events), events, outputs)
        candidates = self._candidates(events, outputs, rows)
        blocks = (self.table.seen(block, events) for block in candidates)
        found = [self._narrowed(block, events, outputs) for block in blocks]
        return Pairs(
            np.concatenate([NO_POSITIONS, *(pairs.probes for pairs in found)]),
            np.concatenate([NO_POSITIONS, *(pairs.places for pairs in found)]),
        )

    def _candidates(
        self, events: EventBatch, outputs: Mapping[str, Value] | None, rows: Int64Array | None
    ) -> Iterator[Pairs]:
        """Return pairs that include all matches, block by block."""
        if self._ranges is not None:
            evaluation = Evaluation(events)
            evaluation.outputs = dict(outputs) if outputs else {}
            found = self._ranges.candidates(evaluation, np.arange(events.size) if rows is None else rows)
            if found is not None:
                return found
        return self._all_pairs(events, rows)

    def _all_pairs(self, events: EventBatch, rows: Int64Array | None) -> Iterator[Pairs]:
        places = self.table.places()
        probes = np.arange(events.size) if rows is None else rows
        step = max(1, MAX_PAIRS_AT_ONCE // max(len(places), 1))
        for start in range(0, len(probes) if len(places) else 0, step):
            some = probes[start : start + step]
            yield Pairs(np.repeat(some, len(places)), np.tile(places, len(some)))

    def _by_index(self, events: EventBatch, outputs: Mapping[str, Value] | None) -> Pairs:
        values = self._asked_values(events, outputs)
        if self._types == [AttributeType.STRING] and values[0].values.ndim:
            return self.by_code(values[0].values)
        return self._found(*self._keys_of(values, events.size), codes=False)

    def _asked_values(self, events: EventBatch, outputs: Mapping[str, Value] | None) -> list[Value]:
        evaluation = Evaluation(events)
        evaluation.outputs = dict(outputs) if outputs else {}
        return [node.evaluate(evaluation) for node in self._nodes]

    def _keys_of(self, values: Sequence[Value], size: int) -> tuple[Int64Array, BoolArray]:
        keys, nulls = key_rows(values, self._types, size, self.table.pool)
        return keys, NO_MASK if self.by_primary_key else nulls

    def keys(self, events: EventBatch, outputs: Mapping[str, Value] | None) -> tuple[Int64Array, BoolArray]:
        """Return the index keys that `events` look up, and a mask of events that find nothing, `NO_MASK` for none."""
        return self._keys_of(self._asked_values(events, outputs), events.size)

    def by_code(self, codes: Int64Array) -> Pairs:
        """Return the pairs of rows and events whose only key is a string with these `codes`.

        The rest of the condition is not tested yet.
        """
        return self._found(kernel_array(codes).reshape(-1, 1), NO_MASK, codes=not self.by_primary_key)

    def _found(self, keys: Int64Array, nulls: BoolArray, *, codes: bool) -> Pairs:
        index = self.index
        assert index is not None  # noqa: S101 - keys are looked up only where there is one
        if not self._unique or self.table.history is not None:
            probes, places = index.all(keys, nulls, codes=codes)
            return Pairs(probes, self.table.as_met(probes, places))
        places, count = index.first(keys, nulls, codes=codes)
        if count == len(places):
            return Pairs(_COUNTED[:count] if count <= len(_COUNTED) else np.arange(count), places, whole=True)
        (probes,) = (places >= 0).nonzero()
        return Pairs(probes, places[probes])

    def _narrowed(self, pairs: Pairs, events: EventBatch, outputs: Mapping[str, Value] | None) -> Pairs:
        """Return the pairs that meet the rest of the condition."""
        if self._rest is None or not len(pairs.probes):
            return pairs
        beside = events.take(pairs.probes, self._event_columns)
        rows = {column: self.table.column(name, pairs.places) for column, name in self._row_columns.items()}
        evaluation = Evaluation(beside.with_columns({**beside.columns, **rows}))
        evaluation.outputs = {name: taken(value, pairs.probes) for name, value in (outputs or {}).items()}
        (left,) = self._rest.truth(evaluation).nonzero()
        return pairs if len(left) == len(pairs.probes) else Pairs(pairs.probes[left], pairs.places[left])


def _only(pairs: Pairs, rows: Int64Array, size: int) -> Pairs:
    """Return the pairs of the events `rows` only."""
    wanted = np.zeros(size, dtype=np.bool_)
    wanted[rows] = True
    kept = wanted[pairs.probes]
    return Pairs(pairs.probes[kept], pairs.places[kept])


def taken(value: Value, rows: Int64Array) -> Value:
    """Return `value` of these rows."""
    if value.values.ndim == 0:
        return value
    return Value(value.values[rows], None if value.valid is None else value.valid[rows])


class InTableNode(ExpressionNode):
    """`condition in table`: true where some row matches."""

    type = AttributeType.BOOL

    def __init__(self, matcher: RowMatcher) -> None:
        self.matcher = matcher

    def evaluate(self, evaluation: Evaluation) -> Value:
        rows = None if evaluation.active is None else np.flatnonzero(evaluation.active)
        found = np.zeros(evaluation.size, dtype=np.bool_)
        found[self.matcher.pairs(evaluation.batch, evaluation.outputs, rows).probes] = True
        return Value(found)
