"""The processing stage: one execution group's engine, and the order in which events reach it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from cep_common.task_messages import HeldState
from query_plan.model import SHUFFLE, ProcessingStage, stage_app
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.model import AnalysedOnDemandQuery
from siddhi.analysis.on_demand import analyse_on_demand_query, parse_question
from siddhi.engine.failed_events import FailedEvents
from siddhi.engine.runtime import AppRuntime
from siddhi.errors import SnapshotError
from topology.bundle import Bundle, Receipt
from topology.frames import arrow_schema, concatenate
from topology.link import END_OF_TIME, NO_WATERMARK
from topology.merger import EventTimeMerger
from topology.model import PROCESSOR, Component, Topology
from topology.resequencer import Resequencer
from topology.stages.contract import NO_STATE, Emit, Parts, Statistics
from topology.stages.settings import StageSettings
from topology.stages.stored_tables import StoredTables


class _Watch:
    """Counts the work of queries into a stage's statistics."""

    def __init__(self, statistics: Statistics) -> None:
        self.now_ns = time.perf_counter_ns
        self.worked = statistics.queried


logger = logging.getLogger(__name__)

Batches = tuple[tuple[str, pa.RecordBatch], ...]

ENGINE = "engine"
"""The part of the state that is the engine's."""
HELD = "held"
"""The part of the state that waits to be merged by event time."""
STORED = "stored"
"""The part of the state that is not in the databases of stored tables yet."""

OF_ANOTHER_APP = "snapshot-of-another-app"


_NEXT_TO_NOTHING = 1_000
"""Parts that hold no more bytes than this are not told of."""
_LOOK_FOR_ROOM_MS = 50
"""How often is looked whether changes of stored tables have gone to their databases."""


class Processor:
    """Runs one instance of an execution group.

    Under the system clock, events go to the engine as they come, parallel stages' outputs in their origin's order.
    Under event time they are merged by watermark first. A stateless stage in parallel needs no order: it passes each
    bundle on with its ticket, and its consumer puts them back in order.
    """

    def __init__(
        self, name: str, topology: Topology, stage: ProcessingStage, emit: Emit, settings: StageSettings
    ) -> None:
        component = topology.component(stage.name)
        self.name = name
        self.statistics = Statistics(stage.name, PROCESSOR)
        self._emit = emit
        self._inputs = tuple(one.stream.id for one in stage.inputs)
        origins = topology.origins(component)
        self._origins = {stream: origins.get(stream, {}) for stream in self._inputs}
        self._outputs = tuple(output.id for output in stage.outputs)
        self._schemas = {stream: arrow_schema(topology.streams[stream]) for stream in self._inputs}
        self._keeps_tickets = topology.keeps_tickets(component)
        self._resequencer = Resequencer(topology.paths(component))
        self._plays_back = topology.plan.playback is not None
        self._merges = self._plays_back and not self._keeps_tickets
        self._one_by_one = not self._plays_back and _order_matters(topology, component)
        self._idle_ms, self._drop_late = settings.idle_ms, settings.drop_late
        self._merger: EventTimeMerger | None = None
        self._registry = builtin_registry(settings.scripts)
        app = analyse(stage_app(topology.plan, stage), self._registry)
        self._stored = StoredTables(app, settings, exactly_once=topology.plan.delivery == "exactly-once")
        self.stores = bool(self._stored)
        """It has tables whose rows are in databases."""
        self._refused_rows = 0
        self._unsettled: list[Bundle] = []
        """Bundles that are done, but for changes of stored tables that wait: who sent them sends no more for now."""
        self._engine = AppRuntime(app, max_partial_matches=settings.max_partial_matches, stored=self._stored.names)
        self.left: tuple[str, ...] = ()
        """State that was there and could not be taken over, for people."""
        self._engine.add_failure_listener(self._note_failed)
        self._now_ms = 0
        self._produced: list[tuple[str, pa.RecordBatch]] = []
        self._next_ticket = 0
        self._said: tuple[int, bool] = (NO_WATERMARK, False)
        self._said_ms = 0
        for stream in self._outputs:
            self._engine.add_stream_callback(stream, partial(self._collect, stream))

    def open(self, now_ms: int, state: Parts = NO_STATE) -> None:
        if self._merges:
            self._merger = EventTimeMerger(self._origins, self._idle_ms, self._drop_late, now_ms)
            if HELD in state:
                self._merger.restore(state[HELD], self._schemas, now_ms)
                self.left += tuple(f"{self.name}: {part}" for part in self._merger.left)
        if ENGINE in state:
            self._restore(state[ENGINE])
        else:
            self._engine.start(None if self._plays_back else now_ms)
        self._stored.open(self._engine.stored_tables, state.get(STORED))
        self.left += tuple(f"{self.name}: {part}" for part in self._stored.left)

    def on_bundle(self, bundle: Bundle, now_ms: int) -> None:
        started_ns = time.perf_counter_ns()
        self._now_ms = now_ms
        if self.stores:
            self._stored.refresh()
        for stream, batch in bundle.batches:
            self.statistics.took(stream, batch.num_rows)
        if self._keeps_tickets:
            self._pass_through(bundle, now_ms)
        else:
            ready = self._resequencer.push(bundle)
            if self._merger is not None:
                self._merge(self._merger, ready, now_ms)
            else:
                self._process_as_it_comes(ready, now_ms)
        if self.stores:
            self._stored.tell()
        self.statistics.worked(bundle.rows(), started_ns, time.perf_counter_ns())

    def on_time(self, now_ms: int) -> None:
        started_ns = time.perf_counter_ns()
        self._now_ms = now_ms
        if self.stores:
            self._stored.refresh()
        if self._merger is not None:
            self._merger.on_time(now_ms)
            self._merge(self._merger, [], now_ms)
        else:
            self._engine.advance_time(now_ms)
            self._give_out((), now_ms, now_ms, idle=False)
        if self.stores:
            self._stored.tell()
            self._settle(())
        self.statistics.worked(0, started_ns, time.perf_counter_ns())

    def next_deadline_ms(self) -> int | None:
        """Under event time only silence makes a deadline; the engine's own timers follow the watermark."""
        holder = self._engine if self._merger is None else self._merger
        deadline_ms = holder.next_deadline_ms()
        if not self._unsettled:
            return deadline_ms
        look_ms = self._now_ms + _LOOK_FOR_ROOM_MS
        return look_ms if deadline_ms is None else min(look_ms, deadline_ms)

    def snapshot(self) -> Parts:
        parts = {ENGINE: self._engine.snapshot()}
        if self._merger is not None:
            parts[HELD] = self._merger.snapshot()
        if self.stores:
            parts[STORED] = self._stored.snapshot()
        return parts

    def mark(self, checkpoint: int) -> Parts:
        self._stored.mark(checkpoint)
        state = self.snapshot()
        self._emit(Bundle.marker(self.name, checkpoint))
        return state

    def complete(self, checkpoint: int) -> None:
        """`checkpoint` is complete: what it holds may be told outside."""
        self._stored.complete(checkpoint)

    def abandon(self, checkpoint: int) -> None:
        """`checkpoint` will not be completed: a later one holds what it would have held."""

    def is_full(self) -> bool:
        """More changes of stored tables wait for their database than should."""
        return self.stores and self._stored.is_full()

    def is_drained(self) -> bool:
        """Nothing waits for a database that could go there."""
        return self._stored.is_drained()

    def rest(self) -> None:
        """What waits to be merged counts as done for those who sent it: the state is about to go elsewhere."""
        if self._merger is not None:
            self._merger.settle_held()
        _settle(self._unsettled)
        self._unsettled = []

    def on_demand(self, text: str) -> AnalysedOnDemandQuery:
        """The on-demand query `text`, which reads what the engine holds; for any thread. Raises SiddhiError when it is
        none, or changes something."""
        return analyse_on_demand_query(parse_question(text), self._engine.app, self._registry)

    def query(self, query: AnalysedOnDemandQuery) -> pa.RecordBatch | None:
        """What `query` finds, None when that is nothing. Raises SiddhiError when it cannot be answered."""
        if self.stores:
            self._stored.refresh()
        return self._engine.query(query)

    def measure(self) -> None:
        """`statistics` tells what the engine holds now."""
        found = self._engine.statistics()
        parts = [HeldState(part.kind, part.name, **asdict(part.size)) for part in found.state]
        strings = HeldState("strings", "all", rows=found.strings, bytes=found.string_bytes)
        self.statistics.held = (*(part for part in parts if part.bytes > _NEXT_TO_NOTHING), strings)

    def follow_level(self) -> None:
        """The engine tells of each query's work while the level of `statistics` is `detail`."""
        level = self.statistics.level
        self._engine.watch_queries(_Watch(self.statistics) if level == "detail" else None)
        if level == "off":
            self.statistics.held = ()

    def close(self) -> None:
        """The engine holds nothing outside its memory, but for the rows of stored tables."""
        self._stored.close()

    def tell_of_stores(self) -> None:
        """`statistics` tells of databases that cannot be used now, and of rows that they refused."""
        for table, problem in self._stored.problems():
            if self.statistics.error("store-unreachable", f"table {table}: {problem}", self._now_ms):
                logger.error("table is not in step with its store: instance=%s table=%s reason=%s",
                             self.name, table, problem)  # fmt: skip
        refused = self._stored.refused_rows() - self._refused_rows
        if refused:
            self._refused_rows += refused
            self.statistics.error("store-refused", "rows were refused by the database", self._now_ms, refused)

    def _restore(self, state: bytes) -> None:
        """The engine goes on from `state`; what an edited plan cannot take over is told in `left`."""
        try:
            self._engine.restore(state)
        except SnapshotError as error:
            if error.problems[0].code != OF_ANOTHER_APP:
                raise
            report = self._engine.restore_matching(state)
            self.left = tuple(f"{self.name}: {part}" for part in report.left)

    def _pass_through(self, bundle: Bundle, now_ms: int) -> None:
        for stream, batch in bundle.batches:
            self._send(stream, batch, now_ms)
        self._emit(
            Bundle(
                source=self.name,
                origin=bundle.origin,
                ticket=bundle.ticket,
                channel=bundle.channel,
                streams=self._outputs if bundle.streams else (),
                watermark_ms=bundle.watermark_ms,
                idle=bundle.idle,
                batches=self._taken(),
                receipt=bundle.receipt,
            )
        )
        bundle.settle()

    def _process_as_it_comes(self, ready: list[Bundle], now_ms: int) -> None:
        for bundle in ready:
            for stream, batch in bundle.batches:
                self._send(stream, batch, now_ms)
        self._give_out(ready, now_ms, now_ms, idle=False)

    def _send(self, stream: str, batch: pa.RecordBatch, now_ms: int) -> None:
        """The rows have run through the engine: at one go, or one by one, so that what they make on several streams
        comes in the order of the rows."""
        if self._one_by_one:
            for row in range(batch.num_rows):
                self._engine.send(stream, batch.slice(row, 1), now_ms)
        elif batch.num_rows:
            self._engine.send(stream, batch, now_ms)

    def _merge(self, merger: EventTimeMerger, ready: list[Bundle], now_ms: int) -> None:
        for bundle in ready:
            merger.push(bundle, now_ms)
        step = merger.release(now_ms)
        if step is not None:
            self._engine.send_merged(step.batches, step.sources())
        watermark_ms = merger.watermark_ms()
        idle = watermark_ms == END_OF_TIME
        if not idle and watermark_ms != NO_WATERMARK:
            self._engine.advance_time(watermark_ms)
        self.statistics.queued_events = merger.held_rows
        self.statistics.dropped_events = merger.late_rows if self._drop_late else 0
        finished = step.finished if step is not None else ()
        self._give_out(finished, now_ms, self._said[0] if idle else watermark_ms, idle)

    def _give_out(self, finished: Sequence[Bundle], now_ms: int, watermark_ms: int, idle: bool) -> None:
        """Emits what the engine made of the `finished` bundles, and settles them when that has gone on.

        A bundle without rows goes out only when it tells a new watermark, or when the last was long ago: consumers must
        not take this stage for silent.
        """
        batches = self._taken()
        quiet = self._said == (watermark_ms, idle) and now_ms - self._said_ms < self._idle_ms // 4
        if not batches and (quiet or not self._merges):
            self._settle(finished)
            return
        self._said, self._said_ms = (watermark_ms, idle), now_ms
        receipt = Receipt(partial(self._settle, finished))
        bundle = Bundle(
            source=self.name,
            origin=self.name,
            ticket=self._next_ticket,
            channel=self.name,
            streams=self._outputs,
            watermark_ms=watermark_ms,
            idle=idle,
            batches=batches,
            receipt=receipt,
        )
        self._next_ticket += 1
        self._emit(bundle)
        bundle.settle()

    def _settle(self, finished: Iterable[Bundle]) -> None:
        """`finished` bundles are settled, as soon as stored tables have room for more changes."""
        self._unsettled.extend(finished)
        if not self.is_full():
            settled, self._unsettled = self._unsettled, []
            _settle(settled)

    def _note_failed(self, failed: FailedEvents) -> None:
        """Counts events that failed; only the first of a kind is logged, however many come."""
        where = f"stream {failed.stream}, query {failed.query}" if failed.stream else f"query {failed.query}"
        code = "events-redirected" if failed.redirected else "events-dropped" if failed.stream else "table-refused"
        if self.statistics.error(code, f"{where}: {failed.message}", self._now_ms, failed.events):
            logger.error("events failed, more like these are counted only: instance=%s code=%s %s: %s",
                         self.name, code, where, failed.message)  # fmt: skip

    def _collect(self, stream: str, batch: pa.RecordBatch) -> None:
        self._produced.append((stream, batch))

    def _taken(self) -> Batches:
        runs = [(stream, [batch for _, batch in run]) for stream, run in groupby(self._produced, itemgetter(0))]
        self._produced.clear()
        batches = tuple((stream, concatenate(run)) for stream, run in runs)
        for stream, batch in batches:
            self.statistics.gave(stream, batch.num_rows)
        return batches


def _order_matters(topology: Topology, component: Component) -> bool:
    """True when a stage that keeps state takes two streams from `component`: under the system clock nothing but the
    order in which their events come tells which was first."""
    stateful = (
        [one for one in consumer.groupings.values() if one != SHUFFLE]
        for consumer in topology.consumers(component)
        if consumer.component.kind == PROCESSOR
    )
    return any(len(groupings) > 1 for groupings in stateful)


def _settle(bundles: Iterable[Bundle]) -> None:
    for bundle in bundles:
        bundle.settle()
