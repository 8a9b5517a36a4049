"""The short way of events that look for their rows in a table by the code of a string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from siddhi.engine.bits import address_of
from siddhi.engine.inlet import Layout
from siddhi.engine.joins.held import HeldTable
from siddhi.engine.joins.join import JoinOperator
from siddhi.engine.joins.side import Side
from siddhi.engine.shortcuts.few_rows import MOST, FewResults, FewRows
from siddhi.engine.shortcuts.kernel import REFUSED
from siddhi.engine.shortcuts.plain_query import PlainTest
from siddhi.engine.shortcuts.way import Outcome
from siddhi.engine.tables.matching import Pairs, RowMatcher
from siddhi.language.ast import AttributeType


class LookupWay:
    """Takes rows of `side` that pass `tests` to the table of `matcher`, which finds its rows by the codes of the
    attribute `key`; `other` is the side of the table. The pairs leave as they are for a stream with the attributes
    `types`."""

    most_rows = MOST

    def __init__(
        self,
        matcher: RowMatcher,
        key: str,
        side: Side,
        other: Side,
        types: Mapping[str, AttributeType],
        tests: Sequence[PlainTest],
    ) -> None:
        self._matcher = matcher
        self._side, self._other = side, other
        few = self._few = FewRows(side.types, side.pool, tests)
        self._whole = self._keys = few.values[key]
        self._cut_at = 0
        self._results = FewResults(types, side.pool)

    def lay_out(self, layout: Layout) -> None:
        """As `Way.lay_out`."""
        self._few.lay_out(layout)

    def run(self, records: pa.RecordBatch, rows: int, clock: int, *, written: bool) -> Outcome | None:
        """As `Way.run`: a batch with nulls that are no strings goes the long way."""
        few = self._few
        passed = few.read(records, rows)
        if passed != rows:
            return None if passed == REFUSED else (0, few.latest(rows), ())
        if rows != self._cut_at:
            self._keys, self._cut_at = self._whole[:rows], rows
        pairs = self._matcher.by_code(self._keys)
        count = len(pairs.probes)
        return count, few.latest(rows), (self._written(pairs, count),) if written and count else ()

    def _written(self, pairs: Pairs, count: int) -> pa.RecordBatch:
        few, results, table = self._few, self._results, self._matcher.table
        probes_at = address_of(pairs.probes)
        results.stamps_lie(few.stamps_at, probes_at)
        for name, attribute in self._side.selected:
            results.values_lie(name, few.addresses[attribute], 0, probes_at)
        found = [(name, table.column(attribute, pairs.places)) for name, attribute in self._other.selected]
        for name, column in found:
            valid = None if column.type is AttributeType.STRING else column.valid
            results.values_lie(name, address_of(column.values), 0 if valid is None else address_of(valid))
        return results.write(count)


def lookup_way(
    operator: JoinOperator, types: Mapping[str, AttributeType], tests: Sequence[PlainTest]
) -> LookupWay | None:
    """The short way of events that pass `tests` through the join `operator`, whose pairs are all that leaves; None when
    they meet other things than the rows of a table, find these by more than the code of a string, or leave without a
    pair, or when objects are read."""
    if operator.steady is None or not operator.only_current:
        return None
    side, other = operator.steady
    held = other.held
    if not isinstance(held, HeldTable) or held.key is None or not side.bare or not side.triggers:
        return None
    given = {column for one in (side, other) for column, _ in one.selected}
    if side.keeps_unmatched or given != types.keys():
        return None
    if AttributeType.OBJECT in side.types.values() or AttributeType.OBJECT in types.values():
        return None
    return LookupWay(held.matcher, held.key, side, other, types, tests)
