"""The fast path through an app, for small batches of which each query can process all rows independently.

    general path   records ─▶ columns ─▶ filter ─▶ columns ─▶ selection ─▶ columns ─▶ records
    fast path      records ─────────────────────── a route ───────────────────────▶ records

A route takes rows from record batch to record batch in one step. With few rows the overhead around the loops of the
general path takes most of the time.

Where queries read the stream that a route feeds, its results are sent to that stream like events from outside: to the
fast path that begins there, or else to the general path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from siddhi.engine.fast_path.route import FastRoute
from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.streams.clock import AppClock, ascends
from siddhi.engine.streams.junction import Junction
from siddhi.engine.streams.query_watch import QueryWatch
from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.engine.tuning import MAX_EXPORTED_COLUMNS, MAX_SMALL_BATCH_ROWS


class GivesResults(Protocol):
    """What has the results of a batch."""

    def give(self) -> pa.RecordBatch:
        """Return the results, once."""


class FastPathResult(NamedTuple):
    """The result of a batch: its number of rows and the latest of their timestamps.

    For each target it has the number of results, and what returns them if there are listeners.
    """

    rows: int
    latest: int
    results: Sequence[tuple[Junction, int, GivesResults | None]]


class StreamPath(Protocol):
    """A fast path for events of one stream."""

    strings: frozenset[str]
    """The attributes whose strings it puts into the app's pool."""

    def is_open(self, rows: int) -> bool:
        """Return whether batches of this many rows may take the fast path."""

    def run(
        self, records: pa.RecordBatch, rows: int, layout: RecordLayout, clock: AppClock, watch: QueryWatch | None
    ) -> FastPathResult | None:
        """Return the result of `records`, which has `rows` rows, at least one; `clock` is the app's clock.

        Listeners have not been called yet. Return None when the batch has to take the general path: then nothing has
        changed.
        """

    def tell(self, passed: FastPathResult) -> None:
        """Count the results and pass them to the listeners."""


class FastPath:
    """A fast path for batches of the stream at `source`, along the routes `ways`.

    Each route belongs to a stage that feeds its own stream. A route that may refuse a batch after another one has
    processed it must be the only one. `entrance` is the stage through which all rows enter a partition, and the stream
    that it feeds there; it is part of the path. With `leads_on` queries read the stream of the only route; else only
    listeners do.
    """

    def __init__(
        self,
        source: Junction,
        ways: Sequence[tuple[ScheduledNode, Junction, FastRoute]],
        entrance: tuple[ScheduledNode, Junction] | None = None,
        *,
        leads_on: bool = False,
    ) -> None:
        self.leads_on = leads_on
        self._sources = [source] if entrance is None else [source, entrance[1]]
        self._ways = list(ways)
        self._stages = [stage for stage, _, _ in ways] if entrance is None else [entrance[0], ways[0][0]]
        self._most_rows = min(way.most_rows for _, _, way in ways)
        if leads_on:
            self._most_rows = min(self._most_rows, MAX_SMALL_BATCH_ROWS)
        self._layout: RecordLayout | None = None
        self.strings = frozenset(name for _, _, way in ways for name in way.strings)
        """The attributes whose strings it puts into the app's pool."""

    def is_open(self, rows: int) -> bool:
        """Return whether batches of this many rows may take the fast path.

        They must be small, and no intermediate stream may have listeners.
        """
        if rows > self._most_rows:
            return False
        for source in self._sources:
            if source.listeners:
                return False
        for stage in self._stages:  # noqa: SIM110 - `any` takes three times as long, once for each event
            if stage.is_heard:
                return False
        return True

    def run(
        self, records: pa.RecordBatch, rows: int, layout: RecordLayout, clock: AppClock, watch: QueryWatch | None
    ) -> FastPathResult | None:
        """Return the result of `records`, which has `rows` rows, at least one; `clock` is the app's clock.

        Listeners have not been called yet. Return None when the batch has to take the general path.
        """
        if layout is not self._layout:
            exported = len(layout.schema) * len(self._ways)
            if layout.casts or layout.timestamp < 0 or exported > MAX_EXPORTED_COLUMNS:
                return None
            for _, _, way in self._ways:
                way.lay_out(layout)
            self._layout = layout
        if self.leads_on and rows > 1 and not ascends(records.column(layout.timestamp)):
            return None  # the clock at a result would depend on rows that are left out
        latest, worked_ns = 0, []
        results: list[tuple[Junction, int, GivesResults | None]] = []
        for _, target, way in self._ways:
            began_ns = 0 if watch is None else watch.now_ns()
            written = self.leads_on or bool(target.listeners)
            outcome = way.run(records, rows, clock, written=written)
            if outcome is None:
                _drop(results)
                return None
            if watch is not None:
                worked_ns.append(watch.now_ns() - began_ns)
            count, latest = outcome
            results.append((target, count, way if written and count else None))
        if watch is not None:
            self._report(watch, rows, worked_ns)
        return FastPathResult(rows, latest, results)

    def _report(self, watch: QueryWatch, rows: int, worked_ns: Sequence[int]) -> None:
        """Report how long each query worked; the time of a partition's entrance is added to the query's."""
        if len(self._stages) > len(self._ways):
            watch.worked(self._stages[0].node.name, rows, 0)
        for (stage, _, _), length_ns in zip(self._ways, worked_ns, strict=True):
            watch.worked(stage.node.name, rows, length_ns)

    def taken(self, passed: FastPathResult) -> tuple[str, pa.RecordBatch] | None:
        """Count the rows of a path that leads on; return its results and the key of their stream, None if none came."""
        for source in self._sources:
            source.events += passed.rows
        ((target, _, way),) = passed.results
        return None if way is None else (target.key, way.give())

    def tell(self, passed: FastPathResult) -> None:
        """Count the results and pass them to the listeners."""
        for source in self._sources:
            source.events += passed.rows
        for target, count, _ in passed.results:
            target.events += count
        given = [(target, way.give()) for target, _, way in passed.results if way is not None]
        for target, records in given:  # a callback may send events, so all results are complete by now
            target.notify_converted(records)


def _drop(results: Sequence[tuple[Junction, int, GivesResults | None]]) -> None:
    """Discard these results and free their memory."""
    for _, _, way in results:
        if way is not None:
            way.give()
