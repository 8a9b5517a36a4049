"""Run a state query's operator on plain rows, divided into steps by the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import siddhi.engine.builtins  # noqa: F401 - fills the families
from siddhi.analysis import model
from siddhi.analysis.analyser import analyse
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.engine.columnar.state_tree import decode_state, encode_state
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import MergedRows, MergingOperator, OperatorContext, Step
from siddhi.engine.operators.patterns.base.references import selection_references
from siddhi.engine.operators.patterns.build import build_state_machine
from siddhi.engine.operators.patterns.machine.event_machine import EventMachineOperator
from siddhi.language.parser import parse

STREAMS = "".join(f"define stream {name} (k string, v int, p double);\n" for name in "ABC")


@dataclass(frozen=True)
class Event:
    stream: str
    time: int
    k: str | None
    v: int | None
    p: float | None = None


Output = tuple[int, tuple[Any, ...]]
Make = Callable[[model.StateMachine, Any, OperatorContext], MergingOperator]


@cache
def analysed(query: str) -> model.AnalysedApp:
    return analyse(parse(STREAMS + f"from {query} insert into Out;"))


class PatternRun:
    """One query's operator with its events; `answers` collects (timestamp, selected attributes in order)."""

    def __init__(self, query: str, make: Make = build_state_machine, *, partitioned: bool = False) -> None:
        app = analysed(query)
        self.query = app.elements[0]
        self.pool = StringPool()
        self.context = OperatorContext(self.pool, playback=True, partitioned=partitioned)
        self.read = selection_references(self.query)
        self.make = make
        self.operator = self._build()
        self.operator.start(0)
        self.schemas = {stream: app.streams[stream].schema for stream in "ABC"}
        self.clock = 0
        self.partitions: dict[str | None, int] = {}
        self.answers: list[Output] = []

    def _build(self) -> MergingOperator:
        return self.make(self.query.input, self.read, self.context)

    def step(self, events: Sequence[Event], until: int | None = None) -> None:
        """Run one step with these events as root chunks and, with `until`, a last move of the clock."""
        clocks: list[int] = []
        rows: dict[str, list[tuple[Event, int]]] = {stream: [] for stream in "ABC"}
        opened: list[tuple[int, int, int]] = []
        for event in events:
            self.clock = max(self.clock, event.time)
            order = 2 * len(clocks) + 1
            clocks.append(self.clock)
            rows[event.stream].append((event, order))
            if self.context.partitioned and event.k not in self.partitions:
                self.partitions[event.k] = next(n for n in range(99) if n not in self.partitions.values())
                opened.append((self.partitions[event.k], order, self.clock))
        if until is not None:
            self.clock = max(self.clock, until)
            clocks.append(self.clock)
        if not clocks:
            return
        step = Step(np.array(clocks, dtype=np.int64))
        step.opened, step.opened_orders, step.opened_clocks = np.array(opened, dtype=np.int64).reshape(-1, 3).T
        batches = [self._batch(source, rows.get(source, []), clocks) for source in self.operator.sources]
        self._collect(self.operator.process(MergedRows(batches, range(len(batches))), step))

    def _batch(self, source: str, rows: Sequence[tuple[Event, int]], clocks: Sequence[int]) -> EventBatch:
        columns = {
            name: Column.of(type_, self.pool, [getattr(event, name) for event, _ in rows])
            for name, type_ in self.schemas[source].attributes
        }
        orders = np.array([order for _, order in rows], dtype=np.int64)
        partitions = np.array([self.partitions.get(event.k, 0) for event, _ in rows], dtype=np.int64)
        return EventBatch(
            np.array([event.time for event, _ in rows], dtype=np.int64),
            np.full(len(rows), CURRENT, dtype=np.int8),
            orders,
            np.array(clocks, dtype=np.int64)[orders // 2],
            columns,
            None,
            partitions if self.context.partitioned else None,
        )

    def _collect(self, batch: EventBatch) -> None:
        assert (np.diff(batch.orders) >= 0).all()
        columns = [column.to_list() for column in batch.columns.values()]
        for row, time in enumerate(batch.timestamps.tolist()):
            self.answers.append((time, tuple(column[row] for column in columns)))

    def closed(self, key: str | None) -> Int64Array:
        """Return the id of the instance of `key`, for the operator to drop; the next event of `key` opens it again."""
        return np.array([self.partitions.pop(key)], dtype=np.int64)

    def restart(self) -> None:
        """Replace the operator by one restored from its snapshot's bytes."""
        saved = b"".join(encode_state(self.operator.snapshot()))
        self.operator = self._build()
        self.operator.restore(decode_state(saved))


def answers(
    query: str,
    events: Sequence[Event],
    cuts: Iterable[int] = (),
    restarts: Iterable[int] = (),
    make: Make = build_state_machine,
    *,
    partitioned: bool = False,
) -> list[Output]:
    """What `query` answers when a new step begins at each of `cuts`, and a snapshot is restored at each of
    `restarts`."""
    run = PatternRun(query, make, partitioned=partitioned)
    edges = sorted({0, len(events), *cuts, *restarts})
    for start, stop in itertools.pairwise(edges):
        if start in restarts:
            run.restart()
        run.step(events[start:stop])
    return run.answers


def event_by_event(query: str, events: Sequence[Event], *, partitioned: bool = False) -> list[Output]:
    """Return the results of the event-by-event machine."""
    return answers(query, events, make=EventMachineOperator, partitioned=partitioned)
