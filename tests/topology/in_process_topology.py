"""A topology from the text of its query plan alone, in one process without sockets; time is an argument."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import pyarrow as pa
from topology_builders import EPOCH, KEY

from query_plan.model import instance_stage
from query_plan.xml import read_xml
from topology.events.bundle import Bundle
from topology.events.resequencer import Resequencer
from topology.events.watermarks import HEARD_OF
from topology.model import PROCESSOR, TRIGGER, Component, Topology
from topology.stages.contract import NO_STATE, Parts
from topology.stages.kinds.processor import Processor
from topology.stages.kinds.trigger import TriggerInstance
from topology.stages.routes.routing import Routing
from topology.stages.settings import StageSettings
from topology.sync_log.task_logs import LogTopics, TaskLogs

Row = tuple[object, ...]
"""Timestamp, then the values."""


class InProcessTopology:
    """The real stages and the real routing; the receivers' and publishers' links are the methods of this class."""

    def __init__(self, xml: str, settings: StageSettings, topics: LogTopics | None = None) -> None:
        self.topology = Topology(KEY, EPOCH, read_xml(xml), tasks=1)
        self.out: list[tuple[str, Row]] = []
        self.givers: list[str] = []
        """Which instance gave each of `out`."""
        self.taken: dict[str, list[tuple[str, pa.RecordBatch]]] = {}
        """What every instance of a processor got, in order."""
        self._routing = Routing(self.topology, settings.scripts, self._hand_over)
        self._work: deque[tuple[str, Bundle]] = deque()
        self._logs = TaskLogs(self.topology, 0, settings.sync_log, self._take, lambda: None, topics or LogTopics())
        self._tickets: Counter[str] = Counter()
        plan = self.topology.plan
        components = {component.kind: component for component in self.topology.components}
        self._receiver, publisher = components["receiver"], components["publisher"]
        self._emit = self._routing.emitter(self._receiver)
        self._publishers = {name: Resequencer(self.topology.paths(publisher)) for name in publisher.instances()}
        self._stages: dict[str, Processor | TriggerInstance] = {}
        for component in self.topology.components:
            for index, name in enumerate(component.instances() if component.kind in (PROCESSOR, TRIGGER) else ()):
                self._stages[name] = self._built(component, index, name, settings)
        self._by_clock = plan.playback is None
        self._streams = [stream.id for stream in plan.receiver.streams]

    def _built(
        self, component: Component, index: int, name: str, settings: StageSettings
    ) -> Processor | TriggerInstance:
        plan, emit = self.topology.plan, self._routing.emitter(component)
        if component.kind == TRIGGER:
            return TriggerInstance(name, next(one for one in plan.triggers if one.name == component.name), emit)
        stage = instance_stage(plan.processor(component.name), index)
        return Processor(name, self.topology, stage, self._logs.emitter(name, stage, emit), settings)

    def open(self, now_ms: int, states: Mapping[str, Parts] = {}) -> None:
        for name, stage in self._stages.items():
            stage.open(now_ms, states.get(name, NO_STATE))
        for stream in self._streams if self._by_clock else ():
            self._pass_on((stream,), (), now_ms, now_ms, idle=True)  # a link, over which nothing waits
        self.advance(now_ms)

    def snapshot(self) -> dict[str, Parts]:
        return {name: stage.snapshot() for name, stage in self._stages.items()}

    def snapshot_names(self) -> tuple[str, ...]:
        return tuple(self._stages)

    def close(self) -> None:
        for stage in self._stages.values():
            stage.close()
        self._logs.close()

    def advance(self, now_ms: int) -> None:
        """Everything that was due until `now_ms` has happened, each at its own time."""
        while True:
            times = {name: stage.next_deadline_ms() for name, stage in self._stages.items()}
            due = {name: time_ms for name, time_ms in times.items() if time_ms is not None}
            time_ms = min(due.values(), default=now_ms + 1)
            if time_ms > now_ms:
                return
            for name in (name for name, one in due.items() if one == time_ms):
                self._stages[name].on_time(time_ms)
            self._drain(time_ms)

    def send(self, stream: str, batch: pa.RecordBatch, now_ms: int) -> None:
        """A worker's frame for `stream` has run through; each stream has a link, to the receivers in turn."""
        self._pass_on((stream,), ((stream, batch),), now_ms, batch.column("_timestamp")[-1].as_py(), idle=False)

    def mark(self, watermark_ms: int) -> None:
        """Every link has said that nothing older than that comes any more."""
        for stream in self._streams:
            self._pass_on((stream,), (), watermark_ms, watermark_ms, idle=False)

    def finish(self, now_ms: int) -> None:
        """No link has anything more to say, not even one that has sent nothing."""
        for stream in self._streams:
            self._pass_on((stream,), (), now_ms, HEARD_OF, idle=True)

    def _pass_on(
        self,
        streams: tuple[str, ...],
        batches: tuple[tuple[str, pa.RecordBatch], ...],
        now_ms: int,
        watermark_ms: int,
        *,
        idle: bool,
    ) -> None:
        receivers = self._receiver.instances()
        name = receivers[self._streams.index(streams[0]) % len(receivers)]
        ticket = self._tickets[name]
        self._tickets[name] += 1
        promised_ms, idle = (now_ms, True) if self._by_clock else (watermark_ms, idle)
        self._emit(
            Bundle(name, name, ticket, f"worker/{streams[0]}", streams, promised_ms, idle, batches, clock_ms=now_ms)
        )
        self._drain(now_ms)

    def _hand_over(self, target: str, bundle: Bundle) -> None:
        bundle.hold()
        if not self._logs.takes(target, bundle):
            self._take(target, bundle)

    def _take(self, target: str, bundle: Bundle) -> None:
        self._work.append((target, bundle))

    def _drain(self, now_ms: int) -> None:
        while self._work or not self._logs.is_drained():
            self._logs.pump()
            if not self._work:
                continue
            target, bundle = self._work.popleft()
            if target in self._publishers:
                for ready in self._publishers[target].push(bundle):
                    given = [(stream, row) for stream, batch in ready.batches for row in rows(batch)]
                    self.out += given
                    self.givers += [ready.source] * len(given)
            else:
                self.taken.setdefault(target, []).extend(bundle.batches)
                self._stages[target].on_bundle(bundle, now_ms)


def rows(batch: pa.RecordBatch) -> Iterable[Row]:
    """The rows of `batch` without their kind."""
    return zip(*(batch.column(name).to_pylist() for name in batch.schema.names if name != "_kind"), strict=True)
