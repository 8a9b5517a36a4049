"""Match rows of a table with a condition that may fail or keeps state, testing pairs in Siddhi's order.

T.k == k and f(T.v)    no key, no index    all rows in order; of each T.k == k first, then f(T.v)
f(T.v) and T.k == k    @PrimaryKey('k')    the row with the key; of it the whole condition
f(v) and T.k == k      @PrimaryKey('k')    f(v) once for each event, even when no row has the key
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjunction, conjuncts, walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.jit.arrays import NO_POSITIONS, BoolArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK
from siddhi.engine.operators.expressions.aggregation import AggregateNode
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler, table_column
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, FailureReasons, Value
from siddhi.engine.operators.expressions.operators import decision
from siddhi.engine.operators.tables.key_bits import comparable, key_rows
from siddhi.engine.operators.tables.matching import names_of, taken
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.tables.ranges import NameOfRow
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.tuning import MAX_PAIRS_AT_ONCE
from siddhi.language.ast import AttributeType


class Verdicts(NamedTuple):
    """The pairs for which a condition is true, or for which it `failed`, in the order of the tests.

    They are ordered by event, and for each event in the order of the rows. `lost` are the events for which the
    condition failed before any row was tested; `reasons` gives the reason of each event.
    """

    probes: Int64Array
    places: Int64Array
    failed: BoolArray
    lost: BoolArray
    reasons: FailureReasons

    @property
    def fails(self) -> bool:
        """True when the condition fails for any event."""
        return bool(self.failed.any() or self.lost.any())

    def losers(self) -> BoolArray:
        """Return the events for which the condition failed, at any row."""
        losers = self.lost.copy()
        losers[self.probes[self.failed]] = True
        return losers

    def first(self) -> tuple[BoolArray, BoolArray]:
        """Return which events find a row before the condition fails, and which fail before they find one."""
        found, lost = np.zeros(len(self.lost), dtype=np.bool_), self.lost.copy()
        probes, places = np.unique(self.probes, return_index=True)
        failed = self.failed[places]
        found[probes[~failed]] = True
        lost[probes[failed]] = True
        return found, lost


class _LookupKey(NamedTuple):
    """The equalities that an index answers: attributes and the values of an event for them.

    `declared` is set when the table was defined with the index, so that events evaluate it even when there are no rows;
    `early` are the preceding parts of the condition, each evaluated once for an event.
    """

    probes: dict[str, model.TypedExpression]
    answered: Sequence[model.TypedExpression]
    declared: bool = False
    early: Sequence[model.TypedExpression] = ()


class CarefulMatcher:
    """A condition over an event and a row of `table`; `row_name`, `row_column`, `makes_index` as for `RowMatcher`.

    `aggregates` are those in the condition.
    """

    def __init__(
        self,
        condition: model.TypedExpression,
        table: Table,
        compiler: ExpressionCompiler,
        *,
        row_name: NameOfRow | None = None,
        row_column: Callable[[str], str] | None = None,
        makes_index: bool = True,
    ) -> None:
        self.table = table
        self._name_of = row_name or names_of(table)
        column_of = row_column or (lambda name: table_column(table.id, name))
        inner = compiler.afresh()
        parts = list(conjuncts(condition))
        key = self._declared_key(parts) or self._leading_key(parts, compiler)
        self._asks_always = key.declared
        self._early = [inner.compile(part) for part in key.early]
        find_index = table.index_on if makes_index else table.known_index
        self._index = find_index(tuple(key.probes)) if key.probes else None
        names = () if self._index is None else self._index.names
        self._probes = [inner.compile(key.probes[name]) for name in names]
        known = [*key.early, *(part for name, part in zip(key.probes, key.answered, strict=True) if name in names)]
        rest = conjunction([part for part in parts if all(part is not one for one in known)])
        self._rest = None if rest is None else decision(inner.compile(rest))
        self._finds_null = rest is None and set(names) == set(table.primary_key)
        read = {name for part in parts for one in walk(part) if (name := self._name_of(one)) is not None}
        self._row_columns = {column_of(name): name for name in read}
        self._event_columns = [name for name in inner.columns if name not in self._row_columns]
        self.aggregates: list[AggregateNode] = inner.aggregates
        compiler.columns.update(inner.columns)

    @classmethod
    def if_needed(
        cls,
        condition: model.TypedExpression | None,
        table: Table,
        compiler: ExpressionCompiler,
        *,
        row_name: NameOfRow | None = None,
        row_column: Callable[[str], str] | None = None,
        makes_index: bool = True,
    ) -> CarefulMatcher | None:
        """Return a matcher, or None for a condition that neither fails nor keeps state."""
        if condition is None or not needs_care(condition, compiler):
            return None
        return cls(condition, table, compiler, row_name=row_name, row_column=row_column, makes_index=makes_index)

    # ---- the key

    def _declared_key(self, parts: Sequence[model.TypedExpression]) -> _LookupKey | None:
        """Return the first equality on the primary key, or on an attribute with an index, None without one.

        With a key of several attributes their equalities must be adjacent.
        """
        equal = [self._equality(part) for part in parts]
        key, width = set(self.table.primary_key), len(self.table.primary_key)
        for place, part in enumerate(equal):
            if part is None:
                continue
            size = 1
            if width and {one[0] for one in equal[place : place + width] if one is not None} == key:
                size = width
            elif part[0] not in self.table.indexed:
                continue
            behind = [one for one in parts[place + size :] if self._of_event(one)]
            before = parts[:place] if all(self._of_event(one) for one in parts[:place]) else []
            probes = dict(one for one in equal[place : place + size] if one is not None)
            return _LookupKey(probes, parts[place : place + size], declared=True, early=[*reversed(behind), *before])
        return None

    def _leading_key(self, parts: Sequence[model.TypedExpression], compiler: ExpressionCompiler) -> _LookupKey:
        """Return the equalities that precede all parts which may fail or keep state.

        The value that the very first part reads of an event may fail: it fails at the first row, whichever that is.
        """
        probes: dict[str, model.TypedExpression] = {}
        answered: list[model.TypedExpression] = []
        for place, part in enumerate(parts):
            equality = self._equality(part)
            node = compiler.afresh().compile(part)
            if node.stateful or (node.can_fail and (place or equality is None)):
                break
            if equality is not None and equality[0] not in probes:
                probes[equality[0]] = equality[1]
                answered.append(part)
        return _LookupKey(probes, answered)

    def _equality(self, part: model.TypedExpression) -> tuple[str, model.TypedExpression] | None:
        """Return the attribute of the row and the value that it must equal, if `part` is such an equality."""
        if isinstance(part, model.Comparison) and part.operator == "==":
            for row, probe in ((part.left, part.right), (part.right, part.left)):
                name = self._name_of(row)
                if name is not None and comparable(probe.type, row.type) and self._of_event(probe):
                    return name, probe
        return None

    def _of_event(self, expression: model.TypedExpression) -> bool:
        return all(self._name_of(part) is None for part in walk(expression))

    # ---- lookup

    def verdicts(
        self, events: EventBatch, outputs: Mapping[str, Value] | None = None, rows: Int64Array | None = None
    ) -> Verdicts:
        """Return the verdicts of the condition on `events`, or only on those at `rows`.

        `outputs` are the values of the query's output.
        """
        asked = np.full(events.size, rows is None)
        if rows is not None:
            asked[rows] = True
        first = Evaluation(as_current(events), asked)
        first.outputs = dict(outputs) if outputs else {}
        if not (self._asks_always or len(self.table)):
            asked[:] = False
        for node in self._early:
            first.active = asked
            asked = asked & node.truth(first)
            asked = asked if first.failed is None else asked & ~first.failed
        judged = [self._judged(pairs, events, outputs) for pairs in self._candidates(first, asked)]
        lost = np.zeros(events.size, dtype=np.bool_) if first.failed is None else first.failed
        reasons = first.reasons
        for block in judged:
            reasons = reasons.and_then(block.reasons)
        if len(judged) == 1:
            return judged[0]._replace(lost=lost, reasons=reasons)
        probes = np.concatenate([NO_POSITIONS, *(block.probes for block in judged)])
        places = np.concatenate([NO_POSITIONS, *(block.places for block in judged)])
        return Verdicts(probes, places, np.concatenate([NO_MASK, *(block.failed for block in judged)]), lost, reasons)

    def _candidates(self, first: Evaluation, asked: BoolArray) -> Iterator[Pairs]:
        """Yield the pairs to test, block by block."""
        if self._index is None:
            yield from self._all_pairs(asked.nonzero()[0])
            return
        first.active = asked
        values = [node.evaluate(first) for node in self._probes]
        if first.failed is not None:
            asked = asked & ~first.failed
        types = [node.type for node in self._probes]
        keys, nulls = key_rows(values, types, first.size, self.table.pool)
        probes, places = self._index.all(keys, NO_MASK if self._finds_null else nulls)
        if not asked.all():
            kept = asked[probes]
            probes, places = probes[kept], places[kept]
        yield Pairs(probes, self.table.as_met(probes, places))

    def _all_pairs(self, probes: Int64Array) -> Iterator[Pairs]:
        places = self.table.places()
        step = max(1, MAX_PAIRS_AT_ONCE // max(len(places), 1))
        for start in range(0, len(probes) if len(places) else 0, step):
            some = probes[start : start + step]
            yield Pairs(np.repeat(some, len(places)), np.tile(places, len(some)))

    def _judged(self, pairs: Pairs, events: EventBatch, outputs: Mapping[str, Value] | None) -> Verdicts:
        """Return the verdicts of the rest of the condition on `pairs`."""
        none = np.zeros(len(pairs.probes), dtype=np.bool_)
        if self._rest is None or not len(pairs.probes):
            return Verdicts(pairs.probes, pairs.places, none, NO_MASK, FailureReasons())
        beside = events.take(pairs.probes, self._event_columns)
        rows = {column: self.table.column(name, pairs.places) for column, name in self._row_columns.items()}
        evaluation = Evaluation(as_current(beside.with_columns({**beside.columns, **rows})))
        evaluation.outputs = {name: taken(value, pairs.probes) for name, value in (outputs or {}).items()}
        truth = self._rest.truth(evaluation)
        failed = none if evaluation.failed is None else evaluation.failed
        (kept,) = (truth | failed).nonzero()
        reasons = evaluation.reasons.through(pairs.probes)
        return Verdicts(pairs.probes[kept], pairs.places[kept], failed[kept], NO_MASK, reasons)


class CarefulMembership(ExpressionNode):
    """`condition in table` for a condition that may fail: rows after the first match are not tested."""

    type = AttributeType.BOOL
    can_fail = True

    def __init__(self, matcher: CarefulMatcher) -> None:
        self._matcher = matcher

    def evaluate(self, evaluation: Evaluation) -> Value:
        rows = None if evaluation.active is None else np.flatnonzero(evaluation.active)
        verdicts = self._matcher.verdicts(evaluation.batch, evaluation.outputs, rows)
        found, lost = verdicts.first()
        (rows,) = lost.nonzero()
        for places, text in verdicts.reasons.of(rows):
            evaluation.fail(np.isin(np.arange(evaluation.size), rows[places]), text)
        return Value(found)


def as_current(batch: EventBatch) -> EventBatch:
    """Return the rows of `batch` as current rows.

    Aggregates in a condition add all rows passed to them, including those of expired events.
    """
    if batch.only_current:
        return batch
    return EventBatch(batch.timestamps, None, batch.orders, batch.clocks, batch.columns, only_current=True)


def needs_care(condition: model.TypedExpression | None, compiler: ExpressionCompiler) -> bool:
    """Return whether a condition may fail or keeps state."""
    if condition is None:
        return False
    node = decision(compiler.afresh().compile(condition))
    return node.can_fail or node.stateful
