"""A running app: events in, events out, time as an argument."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

import siddhi.engine.builtins  # noqa: F401 - fills the families
from siddhi.analysis import model
from siddhi.engine.aggregation.node import AggregationNode
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.environment import Environment
from siddhi.engine.families import not_supported
from siddhi.engine.inlet import read_columns, read_timestamps, root_batch
from siddhi.engine.junction import Junction, Listener
from siddhi.engine.named_window import NamedWindow, window_inlet
from siddhi.engine.node import Node
from siddhi.engine.on_demand import run_on_demand
from siddhi.engine.operator import OperatorContext
from siddhi.engine.partitions.place import PartitionPlace
from siddhi.engine.query import Query
from siddhi.engine.state import StateError, decode_state, encode_state
from siddhi.engine.steps import Stage, StepRunner
from siddhi.engine.strings import StringPool
from siddhi.engine.tables.table import Table
from siddhi.engine.trigger import Trigger
from siddhi.errors import Problem, SiddhiRuntimeError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What an app has done since it started: events and failed events by stream, strings in its pool."""

    events: dict[str, int]
    failures: dict[str, int]
    strings: int


@dataclass(slots=True)
class _Outside:
    """Events of one stream as they come in."""

    stream: str
    records: pa.RecordBatch
    places: Int64Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class AppRuntime:
    """Runs an analysed app. One thread at a time may call it; nothing in here waits, sleeps or reads a clock.

    Build errors (`SiddhiRuntimeError`, code `not-supported`) name the construct that the engine lacks.
    """

    def __init__(self, app: model.AnalysedApp) -> None:
        self.app = app
        self.pool = StringPool()
        self._context = OperatorContext(self.pool, playback=app.playback)
        self._refuse_unsupported()
        self.tables = {key: Table(table, self.pool) for key, table in app.tables.items()}
        self.windows = {key: NamedWindow(window, self._context) for key, window in app.windows.items()}
        self._environment = Environment(self.tables, self.windows)
        self._junctions = self._build_junctions()
        self._nodes: list[Node] = [*self.windows.values(), *self._build_aggregations()]
        for element in app.elements:
            if isinstance(element, model.AnalysedPartition):
                self._nodes.extend(self._build_partition(element))
            else:
                self._nodes.append(Query(element, self._context, self._environment))
        self._nodes.extend(Trigger(trigger, self._context) for trigger in app.triggers.values())
        self._queries = {node.name: node for node in self._nodes if isinstance(node, Query)}
        self._steps = StepRunner([Stage(node) for node in self._nodes], self._junctions)
        self._clock = 0
        self._started = False

    def _build_junctions(self) -> dict[str, Junction]:
        """The streams of the app: also fault streams, and what named windows take in and send."""
        junctions: dict[str, Junction] = {}
        for key, stream in self.app.streams.items():
            junctions[key] = Junction(key, stream.schema, self.pool, stream.on_error)
            if stream.fault is not None:
                junctions[f"!{key}"] = Junction(f"!{key}", stream.fault, self.pool)
        for key, window in self.app.windows.items():
            for name in (key, window_inlet(key)):
                junctions[name] = Junction(name, window.schema, self.pool)
        return junctions

    def _refuse_unsupported(self) -> None:
        for trigger in self.app.triggers.values():
            if trigger.cron is not None:
                raise not_supported("cron triggers", trigger.span)

    def _build_aggregations(self) -> list[AggregationNode]:
        """The nodes of the aggregations, which are known to the environment from then on."""
        nodes = []
        for key, analysed in self.app.aggregations.items():
            node = AggregationNode(analysed, self._context, self._environment)
            self._environment.aggregations[key] = node.aggregation
            nodes.append(node)
        return nodes

    def _build_partition(self, partition: model.AnalysedPartition) -> list[Node]:
        """The nodes of a partition: the streams that come in, then its queries."""
        place = PartitionPlace(partition)
        context = replace(self._context, partitioned=True, instance_ranks=place.instances.ranks)
        for schema in partition.inner_streams:
            key = place.target(f"#{schema.id}")
            self._junctions[key] = Junction(key, schema, self.pool, partitioned=True)
        queries = [Query(query, context, self._environment, place) for query in partition.queries]
        nodes = place.entrances(queries, context)
        for node in nodes:
            (stream,) = node.sources
            source = self._junctions[stream]
            self._junctions[node.name] = Junction(node.name, source.schema, self.pool, partitioned=True)
        return [*nodes, *queries]

    # ---- life

    def start(self, now_ms: int = 0) -> None:
        """The app runs and its clock stands at `now_ms`; events may be sent."""
        self._clock = now_ms
        self._started = True
        for node in self._nodes:
            node.start(now_ms)
        if self.app.triggers:
            self.advance_time(now_ms)

    def add_stream_callback(self, stream: str, listener: Listener) -> None:
        """`listener` gets every batch of events on `stream` (`!id` for a fault stream); KeyError when there is none."""
        self._junctions[stream].listeners.append(listener)

    def add_query_callback(self, query: str, listener: Listener) -> model.Schema:
        """`listener` gets every batch that query `query` lets out, `_kind` telling current from expired events.

        Returns the schema of what the query selects; KeyError when there is no such query.
        """
        self._steps.stage(query).listeners.append(listener)
        return self._queries[query].analysed.output.schema

    # ---- events and time

    def send(self, stream: str, records: pa.RecordBatch, now_ms: int | None = None, *, as_chunk: bool = False) -> None:
        """The rows of `records` have run through the app, one after the other, or together as one chunk.

        `records` holds the stream's attributes by name and `_timestamp` (int64 ms; without it all rows are of
        `now_ms`). Under playback the clock moves to each row's timestamp, otherwise to `now_ms`; timers due on the way
        fire first.
        """
        self._send([_Outside(stream, records, np.arange(records.num_rows))], now_ms, as_chunk=as_chunk)

    def send_merged(
        self, batches: Sequence[tuple[str, pa.RecordBatch]], sources: Int64Array, now_ms: int | None = None
    ) -> None:
        """The rows of several streams have run through the app in one common order.

        Row k of the whole is the next row of `batches[sources[k]]`.
        """
        parts = [
            _Outside(stream, records, np.flatnonzero(sources == place))
            for place, (stream, records) in enumerate(batches)
        ]
        self._send(parts, now_ms, as_chunk=False)

    def _send(self, parts: Sequence[_Outside], now_ms: int | None, *, as_chunk: bool) -> None:
        if not self._started:
            raise SiddhiRuntimeError(Problem("not-started", "the app has not been started"))
        now = self._clock if now_ms is None else max(now_ms, self._clock)
        total = sum(part.records.num_rows for part in parts)
        if total == 0:
            return
        times = [read_timestamps(part.records, now) for part in parts]
        clocks = self._clocks([(part.places, stamps) for part, stamps in zip(parts, times, strict=True)], total, now)
        floor = self._clock
        if as_chunk:
            clocks, floor = self._jump(times[0], now)
        roots: dict[str, list[EventBatch]] = {}
        for part, stamps in zip(parts, times, strict=True):
            stream = window_inlet(part.stream) if part.stream in self.windows else part.stream
            junction = self._junction(stream)
            columns = read_columns(part.stream, part.records, junction.types, self.pool)
            places = np.zeros(len(stamps), dtype=np.int64) if as_chunk else part.places
            batch = root_batch(columns, stamps, 2 * places + 1, clocks[places])
            batch = batch.with_chunks(places) if as_chunk else batch
            roots.setdefault(stream, []).append(batch)
        self._clock = int(clocks[-1])
        self._steps.run(roots, clocks, floor)

    def _jump(self, stamps: Int64Array, now: int) -> tuple[Int64Array, int]:
        """The clock at a chunk, which moves it at one go from before its first to its last event; timers due between
        show the latter."""
        if not self.app.playback:
            return np.full(1, now, dtype=np.int64), now
        self.advance_time(int(stamps[0]) - 1)
        clock = max(self._clock, int(stamps[-1]))
        return np.full(1, clock, dtype=np.int64), clock

    def _clocks(self, parts: Sequence[tuple[Int64Array, Int64Array]], total: int, now: int) -> Int64Array:
        """The app's clock at each row of the whole."""
        if not self.app.playback:
            return np.full(total, now, dtype=np.int64)
        stamps = np.empty(total, dtype=np.int64)
        for places, times in parts:
            stamps[places] = times
        stamps[0] = max(int(stamps[0]), self._clock)
        return np.maximum.accumulate(stamps)

    def _junction(self, stream: str) -> Junction:
        junction = self._junctions.get(stream)
        if junction is None:
            raise SiddhiRuntimeError(Problem("unknown-stream", f"the app has no stream '{stream}'"))
        return junction

    def advance_time(self, now_ms: int) -> None:
        """The clock stands at `now_ms` (it never goes back) and every timer due until then has fired at its own
        time."""
        floor = self._clock
        self._clock = max(self._clock, now_ms)
        self._steps.run({}, np.full(1, self._clock, dtype=np.int64), floor)

    def next_deadline_ms(self) -> int | None:
        """The time at which the earliest timer of the app is due, or None."""
        return self._steps.next_deadline_ms()

    # ---- questions

    def query(self, query: model.AnalysedOnDemandQuery) -> pa.RecordBatch | None:
        """What the on-demand query finds, None when that is nothing; a change of a table gives no rows.

        `SiddhiRuntimeError` when it cannot be answered or a table refused rows.
        """
        found = run_on_demand(query, self._environment, self._context, self._clock)
        return None if found is None else found.to_arrow(query.schema.names() if query.source is not None else ())

    # ---- state

    def snapshot(self) -> bytes:
        """The whole state of the app between two batches."""
        return encode_state(
            {
                "clock": self._clock,
                "strings": self.pool.snapshot(),
                "nodes": {node.name: node.snapshot() for node in self._nodes},
                "tables": {name: table.snapshot() for name, table in self.tables.items()},
            }
        )

    def restore(self, data: bytes) -> None:
        """The app, freshly built from the same text, goes on where the one of `snapshot` stood.

        `SiddhiRuntimeError` (code `bad-snapshot`) for bytes that are no snapshot of this app.
        """
        try:
            state = decode_state(data)
        except StateError as error:
            raise SiddhiRuntimeError(Problem("bad-snapshot", f"the snapshot cannot be restored: {error}")) from error
        if set(state["nodes"]) != {node.name for node in self._nodes} or set(state["tables"]) != set(self.tables):
            raise SiddhiRuntimeError(Problem("bad-snapshot", "the snapshot is of another app"))
        self._clock = state["clock"]
        self._started = True
        self.pool.restore(state["strings"])
        for node in self._nodes:
            node.restore(state["nodes"][node.name])
        for name, table in self.tables.items():
            table.restore(state["tables"][name])

    def statistics(self) -> Statistics:
        """Counts since the app was built."""
        return Statistics(
            {key: junction.events for key, junction in self._junctions.items()},
            {key: junction.failures for key, junction in self._junctions.items()},
            len(self.pool),
        )
