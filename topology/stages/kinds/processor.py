"""The processing stage: one execution group's engine, and the order in which events reach it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from cep_common.protocol.tasks import ComponentState
from query_plan.model import SHUFFLE, ProcessingStage, stage_app
from query_plan.planning.shared_state import log_name
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.model import AnalysedOnDemandQuery
from siddhi.analysis.query.on_demand import analyse_on_demand_query, parse_question
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.scheduling.failed_events import FailedEvents
from siddhi.errors import SnapshotError
from siddhi.scripts.language import ScriptRunner
from topology.acks import Ack
from topology.events.bundle import Bundle
from topology.events.frames import CLOCK_FIELD, arrow_schema, concatenate, has_clocks, shifted, with_clocks
from topology.events.resequencer import Resequencer
from topology.events.watermarks import NO_WATERMARK
from topology.model import PROCESSOR, Component, Topology
from topology.stages.contract import NO_STATE, Emit, InstanceStatistics, Parts
from topology.stages.kinds.stored_tables import StoredTables
from topology.stages.settings import StageSettings
from topology.time.event_time import EventTime
from topology.time.log_time import TICK_MS, LogTime
from topology.time.merger import EventTimeMerger
from topology.time.origins import OriginEngine
from topology.time.system_time import SystemTime, cut_by_clock


class _Watch:
    """Counts the work of queries into a stage's statistics."""

    def __init__(self, statistics: InstanceStatistics) -> None:
        self.now_ns = time.perf_counter_ns
        self.worked = statistics.queried


logger = logging.getLogger(__name__)

Batches = tuple[tuple[str, pa.RecordBatch], ...]

ENGINE = "engine"
"""The part of the state that is the engine's."""
HELD = "held"
"""The part of the state that waits to be merged by event time."""
SHARED = "shared"
"""A part without content, for instances that share their state with others."""
STORED = "stored"
"""The part of the state with changes that are not in the databases of stored tables yet."""

OF_ANOTHER_APP = "snapshot-of-another-app"


NEVER_MS = 10**12
_NEXT_TO_NOTHING = 1_000
"""Parts of at most this size are not reported."""
_LOOK_FOR_ROOM_MS = 50
"""Interval of checks whether changes of stored tables were written to their databases."""


class Processor:
    """Runs one instance of an execution group.

    Under the system clock, events go to the engine as they come, parallel stages' outputs in their origin's order;
    after an interruption in the order in which they were accepted (`topology.time.system_time`). Under event time
    they are merged by watermark first. A stateless stage in parallel needs no order: it passes each bundle on with its
    ticket, and its consumer puts them back in order.
    """

    def __init__(
        self,
        name: str,
        topology: Topology,
        stage: ProcessingStage,
        emit: Emit,
        settings: StageSettings,
        script_runner: ScriptRunner | None = None,
    ) -> None:
        """Build instance `name` of `stage`. Its scripts run in `script_runner`; None: in this process."""
        component = topology.component(stage.name)
        self.name = name
        self.statistics = InstanceStatistics(stage.name, PROCESSOR)
        self._emit = emit
        self.inputs = tuple(one.stream.id for one in stage.inputs)
        origins = topology.origins(component)
        self._origins = {stream: origins.get(stream, {}) for stream in self.inputs}
        self._outputs = tuple(output.id for output in stage.outputs)
        self._schemas = held_schemas(topology, self.inputs)
        self._keeps_tickets = topology.keeps_tickets(component)
        self._resequencer = Resequencer(topology.paths(component))
        self._topology = topology
        self._playback = topology.plan.playback
        producers = topology.producers(component)
        self._upstream = [name for name in producers if _keeps_time(topology, name.rpartition("#")[0])]
        self._one_by_one = self._playback is None and _order_matters(topology, component)
        consumers = topology.consumers(component)
        self._feeds_stages = any(consumer.component.kind == PROCESSOR for consumer in consumers)
        self._idle_ms, self._drop_late = settings.idle_ms, settings.drop_late
        self._merger: EventTimeMerger | None = None
        self._time: SystemTime | EventTime | LogTime | None = None
        self._registry = builtin_registry(settings.scripts, script_runner)
        app = analyse(stage_app(topology.plan, stage), self._registry)
        self.functions = frozenset(function.id for function in stage.functions)
        """The names of the functions that the plan defines and the stage calls."""
        self._stored = StoredTables(
            app, settings, tenant=topology.key.tenant, exactly_once=topology.plan.delivery == "exactly-once"
        )
        self.stores = bool(self._stored)
        """Whether it has tables with rows in databases."""
        self._refused_rows = 0
        self._unsettled: list[Bundle] = []
        """Finished bundles whose changes of stored tables wait. They stay unsettled to slow their senders down."""
        self._engine = AppRuntime(app, max_partial_matches=settings.max_partial_matches, stored=self._stored.names)
        self.left: tuple[str, ...] = ()
        """Descriptions, for users, of state that could not be restored."""
        self._engine.add_failure_listener(self._note_failed)
        self._is_log = stage.sync == "log"
        self._replica: OriginEngine | None = None
        """What feeds the engine, and knows whose results it makes, when other instances have the same state."""
        if stage.sync == "replica":
            index = int(name.rpartition("#")[2])
            self._replica = OriginEngine(self._engine, index, stage.parallel, streams_of_log(stage))
        self._now_ms = 0
        self._produced: list[tuple[str, pa.RecordBatch, int]] = []
        self._clock_ms = NO_WATERMARK
        """The processing time of the engine's output."""
        self._next_ticket = 0
        self._said: tuple[int, bool, bool] = (NO_WATERMARK, False, False)
        self._said_ms = 0
        for stream in self._outputs:
            self._engine.add_stream_callback(stream, partial(self._collect, stream))

    def open(self, now_ms: int, state: Parts = NO_STATE) -> None:
        if ENGINE in state:
            self._restore(state[ENGINE])
        else:
            self._engine.start(None)
        if not self._keeps_tickets:
            self._open_time(now_ms, state.get(HELD))
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
            if self._time is not None:
                self._go_on(self._time, self._time.take(ready, now_ms), now_ms)
        if self.stores:
            self._stored.tell()
        self.statistics.worked(bundle.rows(), started_ns, time.perf_counter_ns())

    def on_time(self, now_ms: int) -> None:
        started_ns = time.perf_counter_ns()
        self._now_ms = now_ms
        if self.stores:
            self._stored.refresh()
        if self._time is not None:
            self._go_on(self._time, self._time.on_time(now_ms), now_ms)
        if self.stores:
            self._stored.tell()
            self._settle(())
        self.statistics.worked(0, started_ns, time.perf_counter_ns())

    def next_deadline_ms(self) -> int | None:
        """Return the next deadline. Under event time only silent channels have one: timers follow the watermark."""
        deadlines = [self._time.next_deadline_ms()] if self._time is not None else []
        if self._unsettled:
            deadlines.append(self._now_ms + _LOOK_FOR_ROOM_MS)
        if self._is_log and self._playback is None:
            deadlines.append(self._said_ms + TICK_MS)
        elif self._feeds_stages and self._time is not None and self._time.waits:
            deadlines.append(self._said_ms + self._idle_ms // 4)  # so that downstream stages do not consider it silent
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def snapshot(self) -> Parts:
        parts = {ENGINE: self._engine.snapshot()}
        if self._replica is not None:
            parts[SHARED] = b""
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
        """Release the changes in the complete `checkpoint`, which may be written to databases."""
        self._stored.complete(checkpoint)

    def abandon(self, checkpoint: int) -> None:
        """Discard `checkpoint`, which will not be completed; a later one will include its changes."""

    def is_full(self) -> bool:
        """Return whether more changes of stored tables wait for their database than should."""
        return self.stores and self._stored.is_full()

    def is_drained(self) -> bool:
        """Return whether no change waits that could be written to a database."""
        return self._stored.is_drained()

    def rest(self) -> None:
        """Settle rows that wait to be merged, since the state is about to be transferred."""
        if self._merger is not None:
            self._merger.settle_held()
        _settle(self._unsettled)
        self._unsettled = []

    def on_demand(self, text: str) -> AnalysedOnDemandQuery:
        """Compile the on-demand query `text`, which reads what the engine holds; for any thread.

        Raises:
            SiddhiError: When it is invalid, or changes something.
        """
        return analyse_on_demand_query(parse_question(text), self._engine.app, self._registry)

    def refresh_tables(self) -> None:
        """Reload rows of stored tables that others have changed, before a query reads them."""
        if self.stores:
            self._stored.refresh()

    def query(self, query: AnalysedOnDemandQuery) -> pa.RecordBatch | None:
        """Return the result of `query`, None when it is empty. Raise SiddhiError when it cannot be answered."""
        return self._engine.query(query)

    def measure(self) -> None:
        """Update `statistics` with the size of the engine's state."""
        found = self._engine.statistics()
        parts = [ComponentState(part.kind, part.name, **asdict(part.size)) for part in found.state]
        strings = ComponentState("strings", "all", rows=found.strings, bytes=found.string_bytes)
        self.statistics.held = (*(part for part in parts if part.bytes > _NEXT_TO_NOTHING), strings)

    def follow_level(self) -> None:
        """Let the engine report each query's work while the level of `statistics` is `detail`."""
        level = self.statistics.level
        self._engine.watch_queries(_Watch(self.statistics) if level == "detail" else None)
        if level == "off":
            self.statistics.held = ()

    def close(self) -> None:
        """Close the stored tables; the engine holds nothing else outside its memory."""
        self._stored.close()

    def tell_of_stores(self) -> None:
        """Update `statistics` with unavailable databases and refused rows."""
        for table, problem in self._stored.problems():
            if self.statistics.error("store-unreachable", f"table {table}: {problem}", self._now_ms):
                logger.error("table is not in sync with its store: instance=%s table=%s reason=%s",
                             self.name, table, problem)  # fmt: skip
        refused = self._stored.refused_rows() - self._refused_rows
        if refused:
            self._refused_rows += refused
            self.statistics.error("store-refused", "rows were refused by the database", self._now_ms, refused)

    def _restore(self, state: bytes) -> None:
        """Restore the engine from `state`, and list the parts that an edited plan cannot use in `left`."""
        try:
            self._engine.restore(state)
        except SnapshotError as error:
            if error.problems[0].code != OF_ANOTHER_APP:
                raise
            report = self._engine.restore_matching(state)
            self.left = tuple(f"{self.name}: {part}" for part in report.left)

    def _pass_through(self, bundle: Bundle, now_ms: int) -> None:
        for stream, batch, clock_ms in cut_by_clock(bundle):
            self._clock_ms = clock_ms
            if batch.num_rows:
                self._engine.send(stream, batch, clock_ms if clock_ms > 0 else now_ms)
        batches, clock_ms = self._taken()
        self._emit(
            Bundle(
                source=self.name,
                origin=bundle.origin,
                ticket=bundle.ticket,
                channel=bundle.channel,
                streams=self._outputs if bundle.streams else (),
                watermark_ms=bundle.watermark_ms,
                idle=bundle.idle,
                full=bundle.full,
                batches=batches,
                receipt=bundle.receipt,
                clock_ms=clock_ms,
            )
        )
        bundle.settle()

    def release(self, streams: Iterable[str]) -> None:
        """Stop waiting for the first event of these streams; the next `on_time` processes the others."""
        if self._merger is not None:
            self._merger.channels.begin(streams)

    def _open_time(self, now_ms: int, held: bytes | None) -> None:
        """Restore the stage's time from `held`: what waited and which channels were awaited."""
        playback, receiver = self._playback, self._topology.plan.receiver
        idle_ms, first = self._idle_ms, tuple(stream.id for stream in receiver.streams)
        if self._replica is not None:
            idle_ms, first = NEVER_MS, ()  # only the log determines the time
        elif playback is None:
            first = ()
        elif playback.idle_ms is not None:
            idle_ms, first = playback.idle_ms, ()
        merger = EventTimeMerger(
            self._origins, idle_ms, self._drop_late, now_ms, first=first, by_clock=playback is None
        )
        if held is not None:
            merger.restore(held, self._schemas, now_ms)
            self.left += tuple(f"{self.name}: {part}" for part in merger.left)
        self._merger = merger
        engine = self._replica or self._engine
        if playback is not None:
            self._time = EventTime(engine, merger, playback, self._upstream, now_ms)
        elif self._replica is not None:
            self._time = LogTime(engine, merger, self._at, each_time=self._feeds_stages)
        else:
            self._time = SystemTime(
                engine, merger, self._at, each_time=self._feeds_stages, one_by_one=self._one_by_one, now_ms=now_ms
            )

    def _go_on(self, at: SystemTime | EventTime | LogTime, done: Sequence[Bundle], now_ms: int) -> None:
        """Emit the engine's output and the progress of time."""
        merger, statistics = at.merger, self.statistics
        statistics.queued_events = merger.held_rows
        if merger.late:
            statistics.late = dict(merger.late)
            statistics.dropped_events = merger.late_rows if self._drop_late else 0
        statistics.awaits, statistics.behind_ms = at.awaits(), at.behind_ms
        for name in merger.channels.let_go:
            text = f"{name} was silent for {self._idle_ms} ms: time advances without it, its events will be late"
            statistics.error("channel-silent", text, now_ms)
        merger.channels.let_go.clear()
        if isinstance(at, SystemTime | LogTime) and at.wrong_ms:
            text = f"its time was {abs(at.wrong_ms)} ms {'ahead' if at.wrong_ms > 0 else 'behind'}: a clock was wrong"
            if statistics.error("clock-wrong", f"{text}; windows continue from their former time", now_ms):
                logger.error("%s: instance=%s", text, self.name)
            at.wrong_ms = 0
        watermark_ms, idle = at.promise(self._said[0])
        self._give_out(done, now_ms, watermark_ms, idle, full=isinstance(at, EventTime) and at.is_choked)

    def _at(self, clock_ms: int) -> None:
        self._clock_ms = clock_ms

    def _give_out(self, finished: Sequence[Bundle], now_ms: int, watermark_ms: int, idle: bool, *, full: bool) -> None:
        """Emit the engine's output for the `finished` bundles, and settle them when it has been passed on.

        `full`: time waits for a sender whose window is full. Results of its rows may wait in a stage behind this one,
        for that same time. A bundle without rows is emitted only when it carries a new watermark or `full`, or when
        the last was long ago: consumers must not consider this stage silent.
        """
        batches, clock_ms = self._taken()
        ticks = self._is_log and self._playback is None
        if ticks and (not batches or has_clocks(batches[0][1])):
            clock_ms = self._clock_ms
        silent_ms = TICK_MS if ticks else self._idle_ms // 4
        quiet = self._said == (watermark_ms, idle, full) and now_ms - self._said_ms < silent_ms
        if not batches and (quiet or not (self._playback is not None or self._feeds_stages)):
            self._settle(finished)
            return
        self._said, self._said_ms = (watermark_ms, idle, full), now_ms
        receipt = Ack(partial(self._settle, finished))
        bundle = Bundle(
            source=self.name,
            origin=self.name,
            ticket=self._next_ticket,
            channel=self.name,
            streams=self._outputs,
            watermark_ms=watermark_ms,
            idle=idle,
            full=full,
            batches=batches,
            receipt=receipt,
            clock_ms=clock_ms,
        )
        self._next_ticket += 1
        self._emit(bundle)
        bundle.settle()

    def _settle(self, finished: Iterable[Bundle]) -> None:
        """Settle `finished` bundles, as soon as stored tables have room for more changes."""
        self._unsettled.extend(finished)
        if not self.is_full():
            settled, self._unsettled = self._unsettled, []
            _settle(settled)

    def _note_failed(self, failed: FailedEvents) -> None:
        """Count failed events, and log only the first of each kind."""
        where = f"stream {failed.stream}, query {failed.query}" if failed.stream else f"query {failed.query}"
        code = "events-redirected" if failed.redirected else "events-dropped" if failed.stream else "table-refused"
        if self.statistics.error(code, f"{where}: {failed.message}", self._now_ms, failed.events):
            logger.error("events failed, more like these are counted only: instance=%s code=%s %s: %s",
                         self.name, code, where, failed.message)  # fmt: skip

    def _collect(self, stream: str, batch: pa.RecordBatch) -> None:
        if self._replica is not None and not self._replica.owns:
            return
        if isinstance(self._time, SystemTime | LogTime):
            batch = shifted(batch, -self._time.shift_ms)
        self._produced.append((stream, batch, self._clock_ms))

    def _taken(self) -> tuple[Batches, int]:
        """Return the engine's output since the last call, and its processing time unless each row has its own."""
        produced, self._produced = self._produced, []
        clock_ms = produced[0][2] if produced else NO_WATERMARK
        if self._feeds_stages and any(one[2] != clock_ms for one in produced):
            produced = [(stream, _at_clock(batch, clock), clock) for stream, batch, clock in produced]
        runs = [(stream, [batch for _, batch, _ in run]) for stream, run in groupby(produced, itemgetter(0))]
        batches = tuple((stream, concatenate(run)) for stream, run in runs)
        for stream, batch in batches:
            self.statistics.gave(stream, batch.num_rows)
        return batches, clock_ms


def held_schemas(topology: Topology, streams: Iterable[str]) -> dict[str, pa.Schema]:
    """Return the schemas in which rows of a stage's `streams` are held.

    Under the system clock the rows have a place in time.
    """
    schemas = {stream: arrow_schema(topology.streams[stream]) for stream in streams}
    if topology.plan.playback is not None:
        return schemas
    return {stream: schema.append(CLOCK_FIELD) for stream, schema in schemas.items()}


def streams_of_log(stage: ProcessingStage) -> dict[str, str]:
    """Return, for each stream of the log that a replica reads, the stream of the plan that it replaces."""
    return {one.stream.id: one.stream.id.removeprefix(f"{log_name(stage.name)}.") for one in stage.inputs}


def _keeps_time(topology: Topology, name: str) -> bool:
    """Return whether event time of the stages behind component `name` follows its own."""
    component = topology.component(name)
    return component.kind == PROCESSOR and not topology.keeps_tickets(component)


def _at_clock(batch: pa.RecordBatch, clock_ms: int) -> pa.RecordBatch:
    return with_clocks(batch, pa.array(np.full(batch.num_rows, clock_ms, dtype=np.int64)))


def _order_matters(topology: Topology, component: Component) -> bool:
    """Return whether the order of events from `component` matters to a stage.

    It does when a stage that keeps state takes two of its streams: under the system clock only the order of arrival
    determines which event was first.
    """
    stateful = (
        [one for one in consumer.groupings.values() if one != SHUFFLE]
        for consumer in topology.consumers(component)
        if consumer.component.kind == PROCESSOR
    )
    return any(len(groupings) > 1 for groupings in stateful)


def _settle(bundles: Iterable[Bundle]) -> None:
    for bundle in bundles:
        bundle.settle()
