"""A running app: events in, events out, time as an argument."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

import siddhi.engine.builtins  # noqa: F401 - fills the families
from siddhi.analysis import model
from siddhi.analysis.reading import attributes_always_read
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.java_order import hash_map_order
from siddhi.engine.columnar.state_tree import Buffer
from siddhi.engine.columnar.string_compaction import StringCompaction
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.emit.batch_writer import BatchWriter
from siddhi.engine.fast_path.path import FastPath, StreamPath
from siddhi.engine.ingest.batch_reader import BatchReader, root_batch
from siddhi.engine.jit.arrays import Int64Array, filled
from siddhi.engine.limits import MAX_PARTIAL_MATCHES
from siddhi.engine.on_demand import run_on_demand
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.environment import Environment
from siddhi.engine.operators.named_window import NamedWindow, read_with_expired_rows, window_inlet
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.partitions.place import PartitionPlace
from siddhi.engine.operators.tables.stored_table import StoredTable
from siddhi.engine.operators.tables.table import Table
from siddhi.engine.operators.trigger import TriggerNode
from siddhi.engine.planner.aggregation_node import AggregationNode
from siddhi.engine.planner.query import QueryNode
from siddhi.engine.scheduling.failed_events import FailureListener
from siddhi.engine.scheduling.maintenance import Maintenance
from siddhi.engine.scheduling.steps import StepRunner
from siddhi.engine.snapshots.app_state import AppState
from siddhi.engine.snapshots.envelope import fingerprint, unusable
from siddhi.engine.snapshots.matching import RestoreReport
from siddhi.engine.snapshots.snapshot import SavedApp, read_snapshot, reporting_damage, write_snapshot
from siddhi.engine.statistics import EngineStatistics, HasStateSize, PartStateSize
from siddhi.engine.streams.clock import AppClock, root_orders
from siddhi.engine.streams.junction import Junction, Listener
from siddhi.engine.streams.query_watch import QueryWatch
from siddhi.engine.streams.scheduled_node import ScheduledNode
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.explanation import AppExplanation
from siddhi.language.printer import print_app

logger = logging.getLogger(__name__)


class AppRuntime:
    """Runs an analysed app.

    Call it from one thread at a time; callbacks run on that thread, within `send` or `advance_time`. The runtime never
    waits, sleeps or reads a clock: all times are arguments, in milliseconds.

    Batches are Arrow record batches with the stream's attributes by name (`string` as utf8, `int` int32, `long` int64,
    `float` float32, `double` float64, `bool` bool, `object` as binary JSON) and `_timestamp` (int64, ms since 1970).
    """

    def __init__(
        self,
        app: model.AnalysedApp,
        *,
        max_partial_matches: int = MAX_PARTIAL_MATCHES,
        stored: Collection[str] = (),
    ) -> None:
        """Build the app. Call `start` to run it.

        Args:
            app: The analysed app (`siddhi.analysis.analyser.analyse`).
            max_partial_matches: The maximum number of partial matches per pattern; beyond it the oldest are dropped.
            stored: Names of tables that are kept in a store outside the engine, which the caller reads and writes with
                `stored_tables`.

        Raises:
            SiddhiRuntimeError: `not-supported`, with the construct that the engine does not support.
        """
        self.app = app
        self.pool = StringPool()
        self._context = OperatorContext(
            self.pool, playback=app.playback, max_partial_matches=max(max_partial_matches, 1)
        )
        self.stored_tables = {key: StoredTable(app.tables[key], self.pool) for key in stored}
        self.tables: dict[str, Table] = {
            **{key: Table(table, self.pool) for key, table in app.tables.items() if key not in self.stored_tables},
            **self.stored_tables,
        }
        self.windows = {
            key: NamedWindow(window, self._context, times_of_expiry_seen=key in read_with_expired_rows(app))
            for key, window in app.windows.items()
        }
        self._environment = Environment(self.tables, self.windows)
        self._junctions = self._build_junctions()
        self._inlets: dict[str, BatchReader] = {}
        self._fast_paths: dict[str, StreamPath] = {}
        """Fast paths by source stream; streams without one are missing."""
        self._places: list[PartitionPlace] = []
        named = [self.windows[key] for key in hash_map_order(self.windows, len(self.windows) + 1)]
        self._nodes: list[AppNode] = [*named, *self._build_aggregations()]
        for element in app.elements:
            if isinstance(element, model.AnalysedPartition):
                self._nodes.extend(self._build_partition(element))
            else:
                self._nodes.append(QueryNode(element, self._context, self._environment))
        self._nodes.extend(TriggerNode(trigger, self._context) for trigger in app.triggers.values())
        self._queries = {node.name: node for node in self._nodes if isinstance(node, QueryNode)}
        self._steps = StepRunner([ScheduledNode(node) for node in self._nodes], self._junctions)
        parts = [part for node in self._nodes for part in node.parts]
        self._compaction = StringCompaction(self.pool, [*parts, *self.tables.values()], self._steps.shared_heads)
        self._upkeep = Maintenance(self._steps, self._places, self._compaction)
        self.state = AppState(app, self.pool, self.tables, self._places, self._nodes, self._context)
        self._fingerprint = fingerprint(print_app(app.syntax))
        self._clock = AppClock(playback=app.playback)
        self._started = False
        self._awaits_clock = False
        """Whether nodes start only when the clock is first set."""

    def _build_junctions(self) -> dict[str, Junction]:
        """Return the streams of the app, including fault streams and the inputs and outputs of named windows."""
        junctions: dict[str, Junction] = {}
        for key, stream in self.app.streams.items():
            junctions[key] = Junction(key, stream.schema, self.pool, stream.on_error)
            if stream.fault is not None:
                junctions[f"!{key}"] = Junction(f"!{key}", stream.fault, self.pool)
        for key, window in self.app.windows.items():
            for name in (key, window_inlet(key)):
                junctions[name] = Junction(name, window.schema, self.pool)
        return junctions

    def _build_aggregations(self) -> list[AggregationNode]:
        """Build the aggregations, add them to the environment and return their nodes."""
        nodes = []
        for key, analysed in self.app.aggregations.items():
            node = AggregationNode(analysed, self._context, self._environment)
            self._environment.aggregations[key] = node.aggregation
            nodes.append(node)
        return nodes

    def _build_partition(self, partition: model.AnalysedPartition) -> list[AppNode]:
        """Return the nodes of a partition: its incoming streams, then its queries."""
        place = PartitionPlace(partition)
        self._places.append(place)
        context = replace(self._context, partitioned=True, instance_ranks=place.instances.ranks)
        for schema in partition.inner_streams:
            key = place.target(f"#{schema.id}")
            self._junctions[key] = Junction(key, schema, self.pool, partitioned=True)
        queries = [QueryNode(query, context, self._environment, place) for query in partition.queries]
        nodes = place.entrances(queries, context, self._environment)
        for node in nodes:
            (stream,) = node.sources
            source = self._junctions[stream]
            self._junctions[node.name] = Junction(node.name, source.schema, self.pool, partitioned=True)
        return [*nodes, *queries]

    # ---- lifecycle

    def start(self, now_ms: int | None = 0) -> None:
        """Start the app, which then accepts events.

        A clock at 0 counts as not set: the first event, or the first call of `advance_time`, sets it in one step.
        Periods then start at 0, which under playback is long ago.

        Args:
            now_ms: Initial time of the clock; None takes that of the first event or call of `advance_time`.
        """
        self._started = True
        self._awaits_clock = now_ms is None
        if now_ms is None:
            return
        self._clock.start(now_ms)
        for node in self._nodes:
            node.start(now_ms)
        if self.app.triggers:
            self.advance_time(now_ms)

    def add_stream_callback(self, stream: str, listener: Listener) -> None:
        """Call `listener` with every batch of events on a stream.

        Args:
            stream: Id of the stream; `!id` for a fault stream.
            listener: Runs on the thread that sends events. It must neither change the batch nor call this runtime.

        Raises:
            KeyError: the app has no such stream.
        """
        self._junctions[stream].listeners.append(listener)

    def add_failure_listener(self, listener: FailureListener) -> None:
        """Call `listener` for events that fail from now on, instead of logging them.

        Args:
            listener: Called with the failed events, on the caller's thread.
        """
        self._steps.failures.listeners.append(listener)

    def add_query_callback(self, query: str, listener: Listener) -> model.Schema:
        """Call `listener` with every batch that a query emits, current and expired events together.

        Args:
            query: Name of the query (`@info(name='…')`).
            listener: As for `add_stream_callback`; the column `_kind` distinguishes current from expired events
                (`siddhi.engine.columnar.kinds`).

        Returns:
            The schema of what the query selects.

        Raises:
            KeyError: the app has no such query.
        """
        schema = self._queries[query].analysed.output.schema
        self._steps.listen(query, listener, BatchWriter(dict(schema.attributes), self.pool), self._clock.last)
        return schema

    # ---- events and time

    def send(self, stream: str, records: pa.RecordBatch, now_ms: int | None = None, *, as_chunk: bool = False) -> None:
        """Run the rows of `records` through the app; all callbacks return before it does.

        The clock moves to each row's timestamp, but not beyond `now_ms` unless under playback
        (`siddhi.engine.streams.clock.AppClock`); timers due by then fire first. Events that fail are handled by the
        stream's `@OnError` action and raise nothing.

        Args:
            stream: Id of a stream or named window.
            records: The stream's attributes by name, in any order, and `_timestamp` in ms; without it all rows get
                `now_ms`. The runtime may keep references to the arrays.
            now_ms: The time of day, which never goes back; None takes the latest so far.
            as_chunk: Process all rows as one chunk instead of each as a chunk of its own.

        Raises:
            SiddhiRuntimeError: `not-started`, `unknown-stream`, `missing-attribute`, `wrong-type` or `null-timestamp`.
                Nothing has been processed in this case.
        """
        now = self._now(now_ms)
        count = records.num_rows
        if count == 0:
            return
        inlet = self._inlets.get(stream) or self._inlet(stream)
        fast_path = self._fast_paths.get(stream)
        if fast_path is not None and not as_chunk and self._run_fast_path(fast_path, inlet, records):
            return
        columns, stamps = inlet.read(records, now)
        if as_chunk:
            clocks = self._jump(stamps)
            columns, stamps = inlet.read(records, now)  # again: timers may have changed the codes of strings
            shown = self._clock.shown
            self._move_clock(clocks)
            floor = int(clocks[0])
            batch = root_batch(columns, stamps, filled(count, 1), filled(count, int(clocks[0])))
            batch = batch.with_chunks(filled(count, 0))
            self._upkeep.run_batch(inlet.key, batch, clocks, floor, shown)
        else:
            self._run_rows(inlet, columns, stamps)

    def _run_rows(self, inlet: BatchReader, columns: Mapping[str, Column], stamps: Int64Array) -> None:
        """Run rows that `inlet` has read by the general path, each as a chunk of its own."""
        clocks, shown = self._clock.at_rows(stamps), self._clock.shown
        floor = self._move_clock(clocks)
        batch = root_batch(columns, stamps, root_orders(len(stamps)), clocks)
        self._upkeep.run_batch(inlet.key, batch, clocks, floor, shown)

    def send_merged(
        self, batches: Sequence[tuple[str, pa.RecordBatch]], sources: Int64Array, now_ms: int | None = None
    ) -> None:
        """Run the rows of several streams through the app in one common order, each row as its own chunk.

        Args:
            batches: Streams and their rows, as for `send`.
            sources: int64, one entry for each row of all batches: row k of the common order is the next row of
                `batches[sources[k]]`.
            now_ms: As for `send`.

        Raises:
            SiddhiRuntimeError: As `send`.
        """
        now = self._now(now_ms)
        if len(batches) == 1:
            self.send(*batches[0], now_ms)
            return
        if not any(records.num_rows for _, records in batches):
            return
        parts = []
        whole: Int64Array = np.empty(len(sources), dtype=np.int64)
        for source, (stream, records) in enumerate(batches):
            inlet = self._inlets.get(stream) or self._inlet(stream)
            places = np.flatnonzero(sources == source)
            columns, stamps = inlet.read(records, now)
            whole[places] = stamps
            parts.append((inlet.key, columns, stamps, places))
        clocks, shown = self._clock.at_rows(whole), self._clock.shown
        floor = self._move_clock(clocks)
        roots: dict[str, list[EventBatch]] = {}
        for key, columns, stamps, places in parts:
            roots.setdefault(key, []).append(root_batch(columns, stamps, 2 * places + 1, clocks[places]))
        self._upkeep.run(roots, clocks, floor, shown)

    def _run_fast_path(self, fast_path: StreamPath, inlet: BatchReader, records: pa.RecordBatch) -> bool:
        """Run `records` on the fast path if it is open; otherwise return False without a change."""
        rows = records.num_rows
        clock = self._clock
        if not clock.is_set or clock.last != clock.events or self._awaits_clock or not fast_path.is_open(rows):
            return False
        if fast_path.strings and not fast_path.strings <= inlet.coded:
            return False  # on the general path strings that are only passed on stay out of the pool
        passed = fast_path.run(records, rows, inlet.layout_of(records.schema), clock, self._steps.watch)
        if passed is None:
            return False
        if fast_path.strings:
            inlet.came(rows)
        if not isinstance(fast_path, FastPath) or not fast_path.leads_on:
            clock.follow(max(clock.events, min(passed.latest, clock.limit)))
            fast_path.tell(passed)
            self._compaction.run_if_due()
            return True
        taken = fast_path.taken(passed)
        try:
            if taken is not None:
                self._send_on(*taken)
        finally:  # not before, as the clock at each row follows from where it stood
            clock.follow(max(clock.events, min(passed.latest, clock.limit)))
        self._compaction.run_if_due()
        return True

    def _send_on(self, key: str, records: pa.RecordBatch) -> None:
        """Run the results of a query through those that read them, on the junction `key`."""
        inlet = self._inlets.get(key) or self._inlet(key)
        fast_path = self._fast_paths.get(key)
        if fast_path is None or not self._run_fast_path(fast_path, inlet, records):
            self._run_rows(inlet, *inlet.read(records, self._clock.now))

    def _now(self, now_ms: int | None) -> int:
        """Return the time of day, which never goes backwards.

        Raises:
            SiddhiRuntimeError: `not-started`.
        """
        if not self._started:
            raise SiddhiRuntimeError(Problem("not-started", "the app has not been started"))
        return self._clock.told(now_ms)

    def _move_clock(self, clocks: Int64Array) -> int:
        """Move the clock to the last of `clocks`; return the earliest time that timers see on the way."""
        if self._awaits_clock:
            self._begin(int(clocks[0]))
        clock = self._clock
        if clock.last > clocks[0] and clock.is_set:
            for query in self._queries.values():
                query.let_time_pass(clock.last)
        return clock.move(clocks)

    def _begin(self, clock: int) -> None:
        """Start the nodes at `clock` if they have waited for the first time."""
        self._awaits_clock = False
        for node in self._nodes:
            node.start(clock)

    def _jump(self, stamps: Int64Array) -> Int64Array:
        """Return the clock for a chunk, which moves in one step from before its first event to its last.

        Timers due in between see the time of the last event.
        """
        if self.app.playback:
            self.advance_time(int(stamps[0]) - 1)
        return self._clock.at_rows(stamps[-1:])

    def _inlet(self, stream: str) -> BatchReader:
        """Return the reader of events from outside for `stream`, and keep it for later calls.

        Raises:
            SiddhiRuntimeError: `unknown-stream`.
        """
        key = window_inlet(stream) if stream in self.windows else stream
        junction = self._junctions.get(key)
        if junction is None:
            raise SiddhiRuntimeError(Problem("unknown-stream", f"the app has no stream '{stream}'"))
        always_read = attributes_always_read(self.app, stream) if key in self.app.streams else None
        inlet = self._inlets[stream] = BatchReader(stream, key, junction.types, self.pool, always_read)
        if (fast_path := self._upkeep.fast_path(key)) is not None:
            self._fast_paths[stream] = fast_path
        return inlet

    def advance_time(self, now_ms: int) -> None:
        """Move the clock to `now_ms` (it never goes back) and fire every timer due until then at its own time.

        Args:
            now_ms: The time in ms since 1970.
        """
        clock = self._clock
        time = max(clock.shown, now_ms)
        if self._awaits_clock:
            if not time:
                return
            self._begin(time)
        shown, (clocks, floor) = clock.shown, clock.advance(time)
        self._upkeep.run({}, clocks, floor, shown)

    @property
    def clock_ms(self) -> int:
        """The time that the clock shows; 0 before it was set."""
        return self._clock.shown

    def next_deadline_ms(self) -> int | None:
        """Return when the earliest timer of the app is due; None if no timer is set.

        Call `advance_time` then, because the runtime does not fire timers by itself.
        """
        return None if self._awaits_clock else self._upkeep.next_deadline_ms()

    # ---- on-demand queries

    def query(self, query: model.AnalysedOnDemandQuery) -> pa.RecordBatch | None:
        """Run an on-demand query on a table, named window or aggregation.

        Args:
            query: The query, analysed for this app.

        Returns:
            The rows found; None if there are none. A query that changes a table returns no rows.

        Raises:
            SiddhiRuntimeError: the query cannot be answered, or a table refused rows.
        """
        try:
            found = run_on_demand(query, self._environment, self._context, self._clock.shown)
            if found is None:
                return None
            attributes = query.schema.attributes if query.source is not None else ()
            return BatchWriter(dict(attributes), self.pool).records(found)
        finally:
            self._compaction.run_if_due()

    # ---- state

    def snapshot(self) -> bytes:
        """Return the whole state of the app. Call it between two batches.

        The bytes can be restored by `restore`, also in another process. Taking a snapshot changes nothing.
        """
        return write_snapshot(self.saved())

    def saved(self) -> SavedApp:
        """Return the state that `snapshot` would serialise."""
        self._steps.settle(self._clock.last)
        return self.state.saved(self._fingerprint, self._clock.saved(), waits=self._awaits_clock)

    def restore(self, data: Buffer) -> None:
        """Continue from a snapshot; the app must be freshly built from the same text.

        Args:
            data: What `snapshot` returned. String and number columns may keep references to it.

        Raises:
            SnapshotError: the bytes are not a snapshot, are damaged, or come from another version or app.
        """
        saved = read_snapshot(data)
        if saved.app != self._fingerprint:
            raise unusable("snapshot-of-another-app", "it belongs to another app")
        self.continue_from(saved)

    def continue_from(self, saved: SavedApp) -> None:
        """Continue from `saved`, which may come from an edited app with the same parts of state.

        Args:
            saved: What `saved` returned.
        """
        self._take_up_clock(saved)
        self.state.restore(saved)

    def restore_matching(self, data: Buffer) -> RestoreReport:
        """Continue from the snapshot of an app whose text has since been edited.

        Parts that are the same in both apps, by name and definition, take over their state; all others are initialized
        at the snapshot's clock.

        Args:
            data: What `snapshot` returned.

        Returns:
            Which parts were taken over and which were initialized.

        Raises:
            SnapshotError: the bytes are not a snapshot, are damaged, or of another version.
        """
        saved = read_snapshot(data)
        self._take_up_clock(saved)
        report = self.state.restore_matching(saved, None if saved.waits else self._clock.last)
        with reporting_damage("strings"):
            self.compact()
        return report

    def _take_up_clock(self, saved: SavedApp) -> None:
        self._steps.unshare(self._clock.last)
        self._clock.restore(saved.clock)
        self._awaits_clock = saved.waits
        self._started = True

    def compact(self) -> None:
        """Remove unused strings from the string pool now, rather than when it has grown enough."""
        self._compaction.run()

    def statistics(self) -> EngineStatistics:
        """Return counts since the app was built, and the size of its state; the cost does not depend on that size."""
        return EngineStatistics(
            {key: junction.events for key, junction in self._junctions.items()},
            {key: junction.failures for key, junction in self._junctions.items()},
            tuple(PartStateSize(kind, name, part.state_size()) for kind, name, part in self._parts_that_hold()),
            len(self.pool),
            self.pool.bytes_held,
        )

    def explain(self) -> AppExplanation:
        """Explain how each query runs: its operators, why no faster ones apply, and the expected cost of an event."""
        return AppExplanation(self._steps.explain())

    def watch_queries(self, watch: QueryWatch | None) -> None:
        """Report the working time of each query to `watch` from now on; None stops the measurement.

        Args:
            watch: Reads the clock, and receives the name, events and time of each query that has worked.
        """
        self._steps.watch = watch

    def _parts_that_hold(self) -> Iterator[tuple[str, str, HasStateSize]]:
        yield from (("query", query.name, query) for query in self._queries.values())
        yield from (("window", name, window) for name, window in self.windows.items())
        yield from (("table", name, table) for name, table in self.tables.items())
        yield from (("aggregation", name, part) for name, part in self._environment.aggregations.items())
        yield from (("partition", place.name, place.instances) for place in self._places)
