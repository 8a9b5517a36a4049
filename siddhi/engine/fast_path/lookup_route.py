"""The fast path of events that look up rows of a table by the code of a string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from siddhi.engine.fast_path.small_batch import SmallBatch, SmallBatchResults
from siddhi.engine.fast_path.small_batch_route import SmallBatchRoute
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.joins.held import HeldTable
from siddhi.engine.operators.joins.join import JoinOperator
from siddhi.engine.operators.joins.side import Side
from siddhi.engine.operators.selection.plain_query import PlainTest
from siddhi.engine.operators.tables.matching import RowMatcher
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.streams.clock import AppClock
from siddhi.language.ast import AttributeType


class LookupRoute(SmallBatchRoute):
    """A route for rows of `side` that pass `tests` to the table of `matcher`.

    The table finds its rows by the codes of the attribute `key`; `other` is the side of the table. The pairs leave
    unchanged for a stream with the attributes `types`.
    """

    def __init__(
        self,
        matcher: RowMatcher,
        key: str,
        side: Side,
        other: Side,
        types: Mapping[str, AttributeType],
        tests: Sequence[PlainTest],
    ) -> None:
        super().__init__(SmallBatch(side.types, side.pool, tests))
        self._matcher = matcher
        self._side, self._other = side, other
        self._whole = self._keys = self.few.values[key]
        self._pairs: Pairs | None = None
        self._results = SmallBatchResults(types, side.pool)

    def cut(self, rows: int) -> None:
        self._keys = self._whole[:rows]

    def take_in(self, rows: int, clock: AppClock) -> int:
        pairs = self._pairs = self._matcher.by_code(self._keys)
        return len(pairs.probes)

    def write(self, count: int) -> pa.RecordBatch:
        few, results, table, pairs = self.few, self._results, self._matcher.table, self._pairs
        assert pairs is not None  # noqa: S101 - rows have been taken in
        probes_at = address_of(pairs.probes)
        results.set_timestamps(few.stamps_at, probes_at)
        for name, attribute in self._side.selected:
            results.set_values(name, few.addresses[attribute], 0, probes_at)
        found = [(name, table.column(attribute, pairs.places)) for name, attribute in self._other.selected]
        for name, column in found:
            valid = None if column.type is AttributeType.STRING else column.valid
            results.set_values(name, address_of(column.values), 0 if valid is None else address_of(valid))
        return results.write(count)

    def end(self) -> None:
        self._pairs = None


def lookup_route(
    operator: JoinOperator, types: Mapping[str, AttributeType], tests: Sequence[PlainTest]
) -> LookupRoute | None:
    """Return the fast route of events that pass `tests` through the join `operator`, None if there is none.

    The pairs are the only output. There is no route if events are joined with anything but the rows of a table, if rows
    are found by more than the code of a string, if events without a match are output, or if objects are read.
    """
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
    return LookupRoute(held.matcher, held.key, side, other, types, tests)
