"""The stores that events of one side of a join are joined with: tables, windows, aggregations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from siddhi.analysis.query.aggregations import TIMESTAMP as AGGREGATION_TIMESTAMP
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.jit.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.jit.kernels import NO_MASK, kernel_array
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.base.scope import slot_column
from siddhi.engine.operators.expressions.evaluation import FailureReasons
from siddhi.engine.operators.incremental_aggregation.reader import AggregationReader
from siddhi.engine.operators.joins.condition import JoinCondition
from siddhi.engine.operators.joins.pair_evaluator import PairEvaluator
from siddhi.engine.operators.joins.side import Fetch, Held, JoinFailures, Side
from siddhi.engine.operators.tables.careful import CarefulMatcher
from siddhi.engine.operators.tables.hash_index import HashIndex
from siddhi.engine.operators.tables.history import count_before
from siddhi.engine.operators.tables.matching import RowMatcher
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.windows.base.emission import CLOCK, KIND, ORDER, SEQUENCE
from siddhi.engine.tuning import EVENTS_PER_SHARED_INDEX, MAX_PAIRS_AT_ONCE, MIN_INDEXED_PAIRS
from siddhi.errors import SiddhiRuntimeError

if TYPE_CHECKING:
    from siddhi.engine.operators.named_window import NamedWindow

Contents = Callable[[], tuple[Int64Array, dict[str, Column]]]
"""Returns the timestamps and columns of a side's rows."""


class HeldTable(Held):
    """The rows of a table."""

    def __init__(self, slot: int, matcher: RowMatcher) -> None:
        self.matcher = matcher
        code = matcher.code_column
        self.key = None if code is None else code.removeprefix(slot_column(1 - slot, ""))
        """The attribute of the events whose codes are the only value that the condition reads, if there is one."""

    def meet(self, side: Side, events: EventBatch, rows: Int64Array | None) -> tuple[Pairs, Fetch, JoinFailures | None]:
        matcher = self.matcher
        if self.key is not None and rows is None and matcher.table.history is None:
            return matcher.by_code(events.columns[self.key].values), matcher.table.column, None
        return matcher.pairs(side.named(events), rows=rows), matcher.table.column, None


class CarefullyHeldTable(Held):
    """The rows of a table when the condition may fail."""

    def __init__(self, matcher: CarefulMatcher) -> None:
        self._matcher = matcher
        self.aggregates = matcher.aggregates

    def meet(self, side: Side, events: EventBatch, rows: Int64Array | None) -> tuple[Pairs, Fetch, JoinFailures | None]:
        verdicts = self._matcher.verdicts(side.named(events), rows=rows)
        fetch = self._matcher.table.column
        if not verdicts.fails:
            return Pairs(verdicts.probes, verdicts.places), fetch, None
        standing = ~verdicts.failed
        failures = JoinFailures(verdicts.losers(), verdicts.reasons)
        return Pairs(verdicts.probes[standing], verdicts.places[standing]), fetch, failures


class HeldRows(Held):
    """Rows of the side `slot`, which `contents` returns."""

    def __init__(self, slot: int, contents: Contents, condition: JoinCondition) -> None:
        self._slot = slot
        self._contents = contents
        self._condition = condition
        self.aggregates = condition.aggregates

    def meet(self, side: Side, events: EventBatch, rows: Int64Array | None) -> tuple[Pairs, Fetch, JoinFailures | None]:
        stamps, columns = self._contents()

        def fetch(name: str, places: Int64Array) -> Column:
            return columns[name].take(places)

        if not len(stamps):
            return _NO_PAIRS, fetch, None
        events = side.named(events)
        probes = np.arange(events.size) if rows is None else rows
        pairs, evaluator = _matches(self._slot, self._condition, events, probes, stamps, columns)
        return pairs, fetch, evaluator.failures


class NamedWindowHistory(Held):
    """The contents of a named window at the moment of each event, while it changes.

        events            0    1    2    3          what an event sees
        row A        ─────────────┘                 0: A   1: A, B   2: B   3: B
        row B                └──────────────        by the first event that sees a row and the first that does not

    `ranks` are the positions of the stream of the window and of the events among those fed by one event. The events
    have the orders of `step`, the changes of the window those of the whole step.
    """

    def __init__(
        self, slot: int, named: NamedWindow, condition: JoinCondition, ranks: tuple[int, int], step: Step
    ) -> None:
        self._slot = slot
        self._named = named
        self._condition = condition
        self._ranks = ranks
        self._step = step

    def meet(self, side: Side, events: EventBatch, rows: Int64Array | None) -> tuple[Pairs, Fetch, JoinFailures | None]:
        window = self._named.window
        emission = window.moves
        came, left = (emission[:, emission[KIND] == kind] for kind in (CURRENT, EXPIRED))
        sequences = window.shown_lately(left[SEQUENCE], came[SEQUENCE])
        first, stop = np.zeros(len(sequences), dtype=np.int64), np.full(len(sequences), events.size)
        gone = self._events_before(left, events)
        _put_at(first, sequences, came[SEQUENCE], self._events_before(came, events))
        _put_at(stop, sequences, left[SEQUENCE], gone)
        stamps, columns = window.rows_at(sequences)
        named = {slot_column(self._slot, name): column for name, column in columns.items()}
        held = EventBatch(stamps, None, None, None, named, only_current=True)
        probes = np.arange(events.size) if rows is None else rows
        evaluator = PairEvaluator(side.named(events), self._condition.rest)

        def fetch(name: str, places: Int64Array) -> Column:
            return columns[name].take(places)

        blocks = self._blocks(side.named(events), probes, held, first, stop)
        pairs = _one(evaluator.narrowed(blocks, named))
        if (found := window.ranks_lately(sequences)) is not None:
            ranks, was_full = found
            full_at = 0 if was_full else gone.min(initial=events.size)
            shown = np.where(pairs.probes >= full_at, ranks[pairs.places], pairs.places)
            order = np.lexsort((shown, pairs.probes))
            pairs = Pairs(pairs.probes[order], pairs.places[order])
        return pairs, fetch, evaluator.failures

    def _events_before(self, rows: Int64Array, events: EventBatch) -> Int64Array:
        """Return the number of `events` before each of the `rows` that the window released."""
        own, other = self._ranks
        moments = np.stack([self._step.of_whole(events.orders), events.clocks, np.full(events.size, other)])
        counts: Int64Array = np.empty(rows.shape[1], dtype=np.int64)
        count_before(moments, kernel_array(rows[ORDER]), kernel_array(rows[CLOCK]), own, counts)
        return counts

    def _blocks(
        self, events: EventBatch, probes: Int64Array, held: EventBatch, first: Int64Array, stop: Int64Array
    ) -> Iterator[Pairs]:
        """Yield the pairs of events and rows with equal keys that they see, block by block."""
        condition = self._condition
        if condition.keyed:
            keys, nulls = condition.key_rows(self._slot, held)
            asked, missing = condition.key_rows(1 - self._slot, events)
        for start in range(0, len(probes), EVENTS_PER_SHARED_INDEX):
            some = probes[start : start + EVENTS_PER_SHARED_INDEX]
            (places,) = ((first <= some[-1]) & (stop > some[0])).nonzero()
            if condition.keyed:
                places = places[~nulls[places]] if len(nulls) else places
                index = HashIndex([str(part) for part in range(keys.shape[1])])
                index.add(np.arange(len(places)), kernel_array(keys[places]))
                found, met = index.all(kernel_array(asked[some]), missing[some] if len(missing) else NO_MASK)
            else:
                found, met = np.repeat(np.arange(len(some)), len(places)), np.tile(np.arange(len(places)), len(some))
            found, met = some[found], places[met]
            seen = (first[met] <= found) & (found < stop[met])
            yield Pairs(found[seen], met[seen])


def _put_at(line: Int64Array, rows: Int64Array, some: Int64Array, values: Int64Array) -> None:
    """Write `values`, one for each of `some` rows, into `line`, which has an item for each of `rows`."""
    order = np.argsort(rows, kind="stable")
    places = np.searchsorted(rows, some, sorter=order)
    known = places < len(rows)
    known[known] = rows[order[places[known]]] == some[known]
    line[order[places[known]]] = values[known]


class HeldAggregation(Held):
    """The rows of an aggregation in the period of each event, for the side `slot`."""

    def __init__(self, slot: int, reader: AggregationReader, condition: JoinCondition) -> None:
        self._slot = slot
        self._reader = reader
        self._condition = condition
        self.aggregates = condition.aggregates

    def meet(self, side: Side, events: EventBatch, rows: Int64Array | None) -> tuple[Pairs, Fetch, JoinFailures | None]:
        found: list[Pairs] = []
        parts: list[dict[str, Column]] = []
        events = side.named(events)
        probes = np.arange(events.size) if rows is None else rows
        whole = PairEvaluator(events, None)
        start = 0
        for asking, answer in self._reader.read_all(events, probes, in_order=self._condition.keeps_state):
            if isinstance(answer, SiddhiRuntimeError):
                reasons = FailureReasons()
                reasons.add(asking, answer.problems[0].message)
                whole.fail(asking, reasons)
                continue
            stamps = answer[AGGREGATION_TIMESTAMP].values
            pairs, evaluator = _matches(self._slot, self._condition, events, asking, stamps, answer)
            whole.fail_as(evaluator)
            found.append(Pairs(pairs.probes, pairs.places + start))
            parts.append(answer)
            start += len(stamps)

        def fetch(name: str, places: Int64Array) -> Column:
            columns = [part[name] for part in parts]
            return (columns[0] if len(columns) == 1 else Column.concat(columns)).take(places)

        pairs = _one(found)
        if len(found) > 1:
            order = np.argsort(pairs.probes, kind="stable")
            pairs = Pairs(pairs.probes[order], pairs.places[order])
        return pairs, fetch, whole.failures


_NO_PAIRS = Pairs(NO_POSITIONS, NO_POSITIONS)


def _matches(
    slot: int,
    condition: JoinCondition,
    events: EventBatch,
    probes: Int64Array,
    stamps: Int64Array,
    columns: Mapping[str, Column],
) -> tuple[Pairs, PairEvaluator]:
    """Return the pairs of the events at `probes` and rows with `columns` of side `slot`, and their evaluator."""
    named = {slot_column(slot, name): column for name, column in columns.items()}
    if condition.keyed and len(stamps) * len(probes) >= MIN_INDEXED_PAIRS:
        held = EventBatch(stamps, None, None, None, named, only_current=True)
        blocks, asked = _equal(slot, condition, events, probes, held), condition.rest
    else:
        blocks, asked = _all(probes, len(stamps)), condition.whole
    evaluator = PairEvaluator(events, asked)
    return _one(evaluator.narrowed(blocks, named)), evaluator


def _equal(
    slot: int, condition: JoinCondition, events: EventBatch, probes: Int64Array, held: EventBatch
) -> Iterator[Pairs]:
    """Yield the pairs of equal keys, block by block."""
    keys, nulls = condition.key_rows(slot, held)
    places = np.flatnonzero(~nulls) if len(nulls) else np.arange(held.size)
    index = HashIndex([str(part) for part in range(keys.shape[1])])
    index.add(places, keys[places])
    asked = events if len(probes) == events.size else events.take(probes)
    found, places = index.all(*condition.key_rows(1 - slot, asked))
    for start in range(0, len(found), MAX_PAIRS_AT_ONCE):
        block = slice(start, start + MAX_PAIRS_AT_ONCE)
        yield Pairs(probes[found[block]], places[block])


def _all(probes: Int64Array, size: int) -> Iterator[Pairs]:
    """Yield each of `probes` with each of `size` rows, block by block."""
    places = np.arange(size)
    step = max(1, MAX_PAIRS_AT_ONCE // max(size, 1))
    for start in range(0, len(probes) if size else 0, step):
        some = probes[start : start + step]
        yield Pairs(np.repeat(some, size), np.tile(places, len(some)))


def _one(blocks: Iterable[Pairs]) -> Pairs:
    parts = list(blocks)
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _NO_PAIRS
    return Pairs(np.concatenate([p.probes for p in parts]), np.concatenate([p.places for p in parts]))
