"""A rule in three instances with a log in a topic: the real writer and readers, while runs end and old ones write on.

Records and bundles are late, readers see the topic in pieces, strangers write to it, checkpoints are completed or not.
A run that was replaced goes on writing for some time. Whatever happens, the order of the log alone decides: the alerts
are those of one engine over that order, each comes once, from the instance that received its last event.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
from virtual_world import VirtualWorld

from topology.events.bundle import Bundle
from topology.sync_log.reader import SyncLogReader
from topology.sync_log.records import LogSchemas
from topology.sync_log.writer import SyncLogWriter
from topology.time.origins import OriginEngine

INSTANCES = 3
EVENTS = 30
FAULTS_UNTIL_MS = 2_000
ENDS_MS = 5_000
STREAM = "g.log.T"
SCHEMA = pa.schema(
    [("_timestamp", pa.int64()), ("_kind", pa.int8()), ("number", pa.int32()), ("temp", pa.int32()), ("o", pa.int32())]
)
SCHEMAS = LogSchemas({STREAM: SCHEMA}, {})

Event = tuple[int, int, int]
"""Number, temperature, the instance that received it."""
Alert = tuple[int, int]
"""The numbers of the two events."""


class Rule:
    """`every e1=T, e2=T[e1.temp + 1 < temp]`: an engine whose state is the last event."""

    clock_ms = 0

    def __init__(self, last: tuple[int, int] | None) -> None:
        self.last = last
        self.owns: Callable[[], bool] = bool
        self.given: list[Alert] = []

    def next_deadline_ms(self) -> int | None:
        return None

    def advance_time(self, now_ms: int) -> None:
        """Nothing in the rule depends on time."""

    def send(self, stream: str, records: pa.RecordBatch, now_ms: int | None = None) -> None:
        for number, temp in zip(*(records.column(name).to_pylist() for name in ("number", "temp")), strict=True):
            if self.last is not None and self.last[1] + 1 < temp and self.owns():
                self.given.append((self.last[0], number))
            self.last = (number, temp)

    def send_merged(self, batches: object, sources: object, now_ms: int | None = None) -> None:
        raise AssertionError("there is one stream")


class Written:
    """The topic as the writer of a run sees it: records arrive late, in order, and so do the answers."""

    def __init__(self, world: SyncLogWorld) -> None:
        self._world = world
        self._under_way: deque[tuple[int, Sequence[bytes]]] = deque()
        self._done: deque[tuple[int, int]] = deque()
        self.ended = False

    def append(self, ticket: int, records: Sequence[bytes]) -> None:
        self._under_way.append((ticket, records))
        self._world.later(self._world.chance.randrange(1, 120), self._arrive)

    def _arrive(self) -> None:
        ticket, records = self._under_way.popleft()
        topic = self._world.topic
        if self._world.chance.random() < 0.1:
            topic.append(b"of somebody else")
        offset = len(topic)
        for record in records:
            topic.append(record)
        self._world.later(self._world.chance.randrange(1, 60), lambda: self._done.append((ticket, offset)))

    def written(self) -> Iterator[tuple[int, int]]:
        while self._done:
            yield self._done.popleft()

    def forget(self, before: int) -> None:
        for offset in range(before):
            self._world.topic[offset] = None

    def problem(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open."""


class Read:
    """The topic as a reader sees it: now and then some more of it."""

    def __init__(self, world: SyncLogWorld) -> None:
        self._world = world
        self._next = 0

    def start(self, offset: int) -> None:
        self._next = offset

    def came(self) -> Iterator[tuple[int, bytes]]:
        for _ in range(self._world.chance.randrange(4)):
            if self._next >= len(self._world.topic):
                return
            record = self._world.topic[self._next]
            self._world.require(record is not None, "offset %d was deleted before it was read", self._next)
            self._next += 1
            yield self._next - 1, record or b""

    def problem(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open."""


class Instance:
    """An instance with its task's reader, and the bundles on their way to it."""

    def __init__(self, world: SyncLogWorld, run: Run, index: int, last: tuple[int, int] | None) -> None:
        self.name = f"g#{index}"
        self.rule = Rule(last)
        self.engine = OriginEngine(self.rule, index, INSTANCES, {STREAM: "T"})
        self.rule.owns = lambda: self.engine.owns
        self.reader = SyncLogReader(Read(world), run.id, (self.name,), SCHEMAS, lambda *_: None)
        self.link: deque[Bundle] = deque()
        self.marked: dict[int, tuple[tuple[int, int] | None, int]] = {}
        """State, and how many alerts had been given, at each checkpoint."""

    def turn(self) -> None:
        if self.link:
            self.reader.push(self.name, self.link.popleft())
        for _, bundle in self.reader.ready():
            if bundle.checkpoint:
                self.marked[bundle.checkpoint] = (self.rule.last, len(self.rule.given))
            for _, batch in bundle.batches:
                self.engine.send(STREAM, batch)


class Run:
    """A run of the topology from a state; `order` is the order that its log decides."""

    def __init__(self, world: SyncLogWorld, number: int, last: tuple[int, int] | None, remaining: list[Event]) -> None:
        self.id = (1, number)
        self.remaining = remaining
        self.order: list[Event] = []
        self.marks: dict[int, int] = {}
        self.settled = 0
        """How much of `order` and of the alerts complete checkpoints hold."""
        self.told = [0] * INSTANCES
        self.writer = SyncLogWriter(Written(world), self.id, self._emit)
        self.instances = [Instance(world, self, index, last) for index in range(INSTANCES)]
        self.tickets = itertools.count()

    def _emit(self, bundle: Bundle) -> None:
        for instance in self.instances:
            instance.link.append(bundle)

    def sequence(self, events: list[Event]) -> None:
        self.order += events
        columns = [[0] * len(events), [0] * len(events), *(list(one) for one in zip(*events, strict=True))]
        arrays = [pa.array(one, kind) for one, kind in zip(columns, SCHEMA.types, strict=True)]
        batch = pa.record_batch(arrays, SCHEMA)
        self.writer.write(
            Bundle("g.log#0", "g.log#0", next(self.tickets), "g.log#0", (STREAM,), batches=((STREAM, batch),))
        )


class SyncLogWorld(VirtualWorld):
    """Events, a topic, the present run and those that it has replaced."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.topic: list[bytes | None] = []
        self.events = [(number, self.chance.randrange(8), self.chance.randrange(INSTANCES)) for number in range(EVENTS)]
        self.log: list[Event] = []
        """What complete checkpoints hold, in the order of the log."""
        self.alerts: list[tuple[Alert, int]] = []
        self.last: tuple[int, int] | None = None
        self.runs = [Run(self, 0, None, list(self.events))]
        self._checkpoints = itertools.count(1)
        for _ in range(self.chance.randrange(1, 5)):
            self.later(self.chance.randrange(FAULTS_UNTIL_MS), self._replace)
        self.later(1, self._turn)
        self.later(40, self._checkpoint)

    @property
    def run_now(self) -> Run:
        return self.runs[-1]

    def _turn(self) -> None:
        """The present run takes events in, and every run that has not ended does what it can."""
        for run in self.runs:
            present = run is self.run_now
            if run.remaining and (present or self.now_ms < FAULTS_UNTIL_MS) and self.chance.random() < 0.3:
                run.sequence(self._next_of(run))
            run.writer.pump()
            for instance in run.instances if present else ():
                if self.chance.random() < 0.7:
                    instance.turn()
        self._complete()
        self.later(self.chance.randrange(1, 20), self._turn)

    def _next_of(self, run: Run) -> list[Event]:
        """Some events in any order that keeps that of each instance."""
        taken: list[Event] = []
        for _ in range(self.chance.randrange(1, 4)):
            firsts = {event[2]: event for event in reversed(run.remaining)}
            if not firsts:
                break
            event = firsts[self.chance.choice(sorted(firsts))]
            run.remaining.remove(event)
            taken.append(event)
        return taken

    def _checkpoint(self) -> None:
        number, run = next(self._checkpoints), self.run_now
        run.marks[number] = len(run.order)
        run.writer.write(Bundle.marker("g.log#0", number))
        self.later(self.chance.randrange(50, 500), self._checkpoint)

    def _complete(self) -> None:
        run = self.run_now
        for number in sorted(run.marks):
            marked = [instance.marked.get(number) for instance in run.instances]
            if any(one is None for one in marked):
                return
            states = {one[0] for one in marked if one is not None}
            self.require(len(states) == 1, "states differ at checkpoint %d: %s", number, states)
            (self.last,) = states
            self.log += run.order[run.settled : run.marks[number]]
            for index, one in enumerate(marked):
                count = one[1] if one is not None else 0
                self.alerts += ((alert, index) for alert in run.instances[index].rule.given[run.told[index] : count])
                run.told[index] = count
            run.settled = run.marks.pop(number)
            run.writer.complete(number)
            self.note("checkpoint %d is complete: %d events, %d alerts", number, len(self.log), len(self.alerts))

    def _replace(self) -> None:
        held = {event[0] for event in self.log}
        remaining = [event for event in self.events if event[0] not in held]
        self.note("a new run begins behind %d events", len(self.log))
        self.runs.append(Run(self, len(self.runs), self.last, remaining))

    def finish(self) -> None:
        """The alerts are those of one engine over the log's order, each once, from the right instance."""
        self.require(len(self.log) == EVENTS, "%d of %d events are in the log", len(self.log), EVENTS)
        self.require(sorted(self.log) == self.events, "events were lost or came twice")
        due = Counter(((first[0], then[0]), then[2]) for first, then in pairwise(self.log) if first[1] + 1 < then[1])
        found = Counter(self.alerts)
        self.require(found == due, "missing %s, too many %s", due - found, found - due)


def simulate(world: VirtualWorld) -> None:
    """Play the schedule of `world`."""
    assert isinstance(world, SyncLogWorld)
    world.run(ENDS_MS)
    world.finish()
