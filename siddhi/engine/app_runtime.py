"""A running app: events in, events out, time as an argument."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

import siddhi.engine.builtins  # noqa: F401 - fills the families
from siddhi.analysis import model
from siddhi.analysis.reading import attributes_always_read
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.java_order import hash_map_order
from siddhi.engine.columnar.state_tree import Buffer
from siddhi.engine.columnar.string_compaction import StringCompaction
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.emit.batch_writer import BatchWriter
from siddhi.engine.fast_path.path import FastPath
from siddhi.engine.ingest.batch_reader import BatchReader, root_batch
from siddhi.engine.jit.arrays import Int64Array, filled
from siddhi.engine.limits import MAX_PARTIAL_MATCHES
from siddhi.engine.on_demand import run_on_demand
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.environment import Environment
from siddhi.engine.operators.named_window import NamedWindow, window_inlet
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
from siddhi.engine.snapshots.snapshot import SavedApp, making_sense, read_snapshot, write_snapshot
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
    """Runs an analysed app. One thread at a time may call it; nothing in here waits, sleeps or reads a clock.

    Each pattern drops its oldest partial matches when it holds more than `max_partial_matches`. Build errors
    (`SiddhiRuntimeError`, code `not-supported`) name the construct that the engine lacks.
    """

    def __init__(
        self,
        app: model.AnalysedApp,
        *,
        max_partial_matches: int = MAX_PARTIAL_MATCHES,
        stored: Collection[str] = (),
    ) -> None:
        """The tables `stored` belong to a store outside: whoever runs the app sees to it by `stored_tables`."""
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
        self.windows = {key: NamedWindow(window, self._context) for key, window in app.windows.items()}
        self._environment = Environment(self.tables, self.windows)
        self._junctions = self._build_junctions()
        self._inlets: dict[str, BatchReader] = {}
        self._fast_paths: dict[str, FastPath] = {}
        """By the stream from outside, of those that have one."""
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
        """Whether the nodes start when the clock is first set."""

    def _build_junctions(self) -> dict[str, Junction]:
        """Return the streams of the app: also fault streams, and what named windows take in and send."""
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
        """Return the nodes of the aggregations, which are known to the environment from then on."""
        nodes = []
        for key, analysed in self.app.aggregations.items():
            node = AggregationNode(analysed, self._context, self._environment)
            self._environment.aggregations[key] = node.aggregation
            nodes.append(node)
        return nodes

    def _build_partition(self, partition: model.AnalysedPartition) -> list[AppNode]:
        """Return the nodes of a partition: the streams that come in, then its queries."""
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

    # ---- life

    def start(self, now_ms: int | None = 0) -> None:
        """The app runs and its clock stands at `now_ms`; events may be sent. None: it starts with its first event, or
        the first time to which the clock is moved, and stands there.

        A clock at 0 has not been set: the first event, or the first time to which it is moved, sets it at one go. But
        periods count from 0 on then, which under playback is long ago.
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
        """`listener` gets every batch of events on `stream` (`!id` for a fault stream); KeyError when there is none."""
        self._junctions[stream].listeners.append(listener)

    def add_failure_listener(self, listener: FailureListener) -> None:
        """`listener` is told of events that fail from now on; they are not logged any more."""
        self._steps.failures.listeners.append(listener)

    def add_query_callback(self, query: str, listener: Listener) -> model.Schema:
        """`listener` gets every batch that query `query` lets out, `_kind` telling current from expired events.

        Returns the schema of what the query selects; KeyError when there is no such query.
        """
        schema = self._queries[query].analysed.output.schema
        self._steps.listen(query, listener, BatchWriter(dict(schema.attributes), self.pool), self._clock.last)
        return schema

    # ---- events and time

    def send(self, stream: str, records: pa.RecordBatch, now_ms: int | None = None, *, as_chunk: bool = False) -> None:
        """The rows of `records` have run through the app, one after the other, or together as one chunk.

        `records` holds the stream's attributes by name and `_timestamp` (int64 ms; without it all rows are of
        `now_ms`). The clock moves to each row's timestamp, but not beyond `now_ms` unless under playback
        (`siddhi.engine.streams.clock.AppClock`); timers due on the way fire first.
        """
        now = self._now(now_ms)
        count = records.num_rows
        if count == 0:
            return
        inlet = self._inlets.get(stream) or self._inlet(stream)
        fast_path = self._fast_paths.get(stream)
        if fast_path is not None and not as_chunk and self._went_short(fast_path, inlet, records):
            return
        columns, stamps = inlet.read(records, now)
        if as_chunk:
            clocks = self._jump(stamps)
            columns, stamps = inlet.read(records, now)  # as time passed, strings may have got other codes
            shown = self._clock.shown
            self._move_clock(clocks)
            floor = int(clocks[0])
            batch = root_batch(columns, stamps, filled(count, 1), filled(count, int(clocks[0])))
            batch = batch.with_chunks(filled(count, 0))
        else:
            clocks, shown = self._clock.at_rows(stamps), self._clock.shown
            floor = self._move_clock(clocks)
            batch = root_batch(columns, stamps, root_orders(count), clocks)
        self._upkeep.run_batch(inlet.key, batch, clocks, floor, shown)

    def send_merged(
        self, batches: Sequence[tuple[str, pa.RecordBatch]], sources: Int64Array, now_ms: int | None = None
    ) -> None:
        """The rows of several streams have run through the app in one common order.

        Row k of the whole is the next row of `batches[sources[k]]`.
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

    def _went_short(self, fast_path: FastPath, inlet: BatchReader, records: pa.RecordBatch) -> bool:
        """Return whether `records` has run through the app by the short cut; nothing has happened else."""
        rows = records.num_rows
        clock = self._clock
        if not clock.is_set or clock.last != clock.events or self._awaits_clock or not fast_path.is_open(rows):
            return False
        if fast_path.strings and not fast_path.strings <= inlet.coded:
            return False  # on the long way strings that only pass by stay out of the pool
        passed = fast_path.run(records, rows, inlet.layout_of(records.schema), clock, self._steps.watch)
        if passed is None:
            return False
        clock.follow(max(clock.events, min(passed.latest, clock.limit)))
        if fast_path.strings:
            inlet.came(rows)
        fast_path.tell(passed)
        self._compaction.run_if_due()
        return True

    def _now(self, now_ms: int | None) -> int:
        """Return the clock outside, which never goes back; `SiddhiRuntimeError` when the app does not run yet."""
        if not self._started:
            raise SiddhiRuntimeError(Problem("not-started", "the app has not been started"))
        return self._clock.told(now_ms)

    def _move_clock(self, clocks: Int64Array) -> int:
        """The clock stands at the last of `clocks`; returns the least time that a timer shows on the way there."""
        if self._awaits_clock:
            self._begin(int(clocks[0]))
        clock = self._clock
        if clock.last > clocks[0] and clock.is_set:
            for query in self._queries.values():
                query.let_time_pass(clock.last)
        return clock.move(clocks)

    def _begin(self, clock: int) -> None:
        """The app, which has waited for its clock, starts at `clock`."""
        self._awaits_clock = False
        for node in self._nodes:
            node.start(clock)

    def _jump(self, stamps: Int64Array) -> Int64Array:
        """Return the clock at a chunk, which moves it at one go from before its first to its last event; timers due
        between show the latter."""
        if self.app.playback:
            self.advance_time(int(stamps[0]) - 1)
        return self._clock.at_rows(stamps[-1:])

    def _inlet(self, stream: str) -> BatchReader:
        """Return what reads events from outside for `stream` from now on; `SiddhiRuntimeError` when the app has no such
        stream."""
        key = window_inlet(stream) if stream in self.windows else stream
        junction = self._junctions.get(key)
        if junction is None:
            raise SiddhiRuntimeError(Problem("unknown-stream", f"the app has no stream '{stream}'"))
        always_read = None if stream in self.windows else attributes_always_read(self.app, stream)
        inlet = self._inlets[stream] = BatchReader(stream, key, junction.types, self.pool, always_read)
        if (fast_path := self._upkeep.fast_path(key)) is not None:
            self._fast_paths[stream] = fast_path
        return inlet

    def advance_time(self, now_ms: int) -> None:
        """The clock stands at `now_ms` (it never goes back) and every timer due until then has fired at its own
        time."""
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
        """Where the clock stands; 0 before it was set."""
        return self._clock.shown

    def next_deadline_ms(self) -> int | None:
        """Return the time at which the earliest timer of the app is due, or None."""
        return None if self._awaits_clock else self._upkeep.next_deadline_ms()

    # ---- questions

    def query(self, query: model.AnalysedOnDemandQuery) -> pa.RecordBatch | None:
        """Return what the on-demand query finds, None when that is nothing; a change of a table gives no rows.

        `SiddhiRuntimeError` when it cannot be answered or a table refused rows.
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
        """Return the whole state of the app between two batches."""
        return write_snapshot(self.saved())

    def saved(self) -> SavedApp:
        """Return what `snapshot` writes."""
        self._steps.settle(self._clock.last)
        return self.state.saved(self._fingerprint, self._clock.saved(), waits=self._awaits_clock)

    def restore(self, data: Buffer) -> None:
        """The app, freshly built from the same text, goes on where the one of `snapshot` stood.

        `SnapshotError` for bytes that are no snapshot of this app.
        """
        saved = read_snapshot(data)
        if saved.app != self._fingerprint:
            raise unusable("snapshot-of-another-app", "it is of another app")
        self.go_on(saved)

    def go_on(self, saved: SavedApp) -> None:
        """As `restore`, for an app with the same parts, whatever else its text says."""
        self._take_up_clock(saved)
        self.state.restore(saved)

    def restore_matching(self, data: Buffer) -> RestoreReport:
        """Continue, as an app freshly built from an edited text, with the state of all its parts that are the same
        in the app of `snapshot`, by name and definition; the others begin, as at a start, at the snapshot's clock.

        Tells which these are. `SnapshotError` for bytes that are no snapshot.
        """
        saved = read_snapshot(data)
        self._take_up_clock(saved)
        report = self.state.restore_matching(saved, None if saved.waits else self._clock.last)
        with making_sense("strings"):
            self.compact()
        return report

    def _take_up_clock(self, saved: SavedApp) -> None:
        self._steps.unshare(self._clock.last)
        self._clock.restore(saved.clock)
        self._awaits_clock = saved.waits
        self._started = True

    def compact(self) -> None:
        """The string pool has only strings that are in use; otherwise this happens when the pool has grown enough."""
        self._compaction.run()

    def statistics(self) -> EngineStatistics:
        """Counts since the app was built, and what it holds; costs the same however much that is."""
        return EngineStatistics(
            {key: junction.events for key, junction in self._junctions.items()},
            {key: junction.failures for key, junction in self._junctions.items()},
            tuple(PartStateSize(kind, name, part.state_size()) for kind, name, part in self._parts_that_hold()),
            len(self.pool),
            self.pool.bytes_held,
        )

    def explain(self) -> AppExplanation:
        """Return how each query runs: its operators, why not faster ones, and what an event is expected to cost."""
        return AppExplanation(self._steps.explain())

    def watch_queries(self, watch: QueryWatch | None) -> None:
        """From now on `watch` is told how long each query works; None: nobody is, and nothing is measured."""
        self._steps.watch = watch

    def _parts_that_hold(self) -> Iterator[tuple[str, str, HasStateSize]]:
        yield from (("query", query.name, query) for query in self._queries.values())
        yield from (("window", name, window) for name, window in self.windows.items())
        yield from (("table", name, table) for name, table in self.tables.items())
        yield from (("aggregation", name, part) for name, part in self._environment.aggregations.items())
        yield from (("partition", place.name, place.instances) for place in self._places)
